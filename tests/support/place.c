#include "support/place.h"

#include "support/support.h"

#include "base/file.h"

int support_place_open(void **state, const char *name)
{
    place *p = NULL;
    assert_ok(memory_new(&p, 1, sizeof *p));
    p->directory = support_temporary_directory();
    assert_ok(path_join(&p->path, p->directory, name));
    *state = p;
    return 0;
}

int support_place_close(void **state)
{
    place *p = *state;
    support_remove_tree(p->directory);
    memory_free(p->directory);
    memory_free(p->path);
    memory_free(p);
    return 0;
}

void assert_contents(const char *path, const char *expected)
{
    OWNED(buffer) bytes = {0};
    assert_ok(file_read(path, 1 << 20, &bytes));
    assert_string_equal((const char *)bytes.bytes, expected);
}
