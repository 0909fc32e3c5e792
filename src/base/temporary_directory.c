#include "base/temporary_directory.h"

#include "base/file.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

grail_status temporary_directory(const char *name, char **out)
{
    grail_status status = GRAIL_OK;
    const char *named = getenv("TMPDIR");
    char *path = NULL;
    TRY(memory_format(&path, "%s/%s-XXXXXX", named == NULL || named[0] != '/' ? "/tmp" : named,
                      name));
    if (mkdtemp(path) == NULL) {
        TRY(error_from_errno("cannot make a directory like", path));
    }
    *out = path;
    path = NULL;
out:
    memory_free(path);
    return status;
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts;
    (void)kind;
    (void)where;
    (void)remove(path);
    return 0;
}

void temporary_directory_remove(const char *path)
{
    enum { MOST_OPEN = 8 };
    if (path != NULL) {
        (void)nftw(path, remove_entry, MOST_OPEN, FTW_DEPTH | FTW_PHYS);
    }
}
