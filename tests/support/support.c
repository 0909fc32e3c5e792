#include "support/support.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void support_assert_ok(grail_status status, const char *expression, const char *file, int line)
{
    if (status != GRAIL_OK) {
        print_error("%s failed: %s\n", expression, grail_error_message());
        _fail(file, line);
    }
}

void support_assert_fails(grail_status status, grail_status code, const char *text,
                          const char *expression, const char *file, int line)
{
    if (status != code) {
        print_error("%s gave '%s' instead of '%s' (%s)\n", expression, grail_status_text(status),
                    grail_status_text(code), status == GRAIL_OK ? "" : grail_error_message());
        _fail(file, line);
    }
    if (strstr(grail_error_message(), text) == NULL) {
        print_error("%s: message '%s' lacks '%s'\n", expression, grail_error_message(), text);
        _fail(file, line);
    }
}

void support_assert_near(double a, double b, double tolerance, const char *file, int line)
{
    if (!(fabs(a - b) <= tolerance)) {
        print_error("%.17g and %.17g differ by %.3g, more than %.3g\n", a, b, fabs(a - b),
                    tolerance);
        _fail(file, line);
    }
}

char *support_temporary_directory(void)
{
    const char *base = getenv("TMPDIR");
    char *path = NULL;
    assert_ok(memory_format(&path, "%s/grail-test-XXXXXX", base == NULL ? "/tmp" : base));
    assert_non_null(mkdtemp(path));
    return path;
}

void support_remove_tree(const char *path)
{
    OPENED(char, command, memory_format(&command, "rm -rf -- '%s'", path));
    assert_int_equal(system(command), 0);
}

int support_open_directory(void **state)
{
    *state = support_temporary_directory();
    return 0;
}

int support_close_directory(void **state)
{
    support_remove_tree(*state);
    memory_free(*state);
    return 0;
}

void support_write_file(const char *directory, const char *name, const void *bytes, size_t size)
{
    OPENED(char, path, memory_format(&path, "%s/%s", directory, name));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

int support_names_in(const char *directory)
{
    int count = 0;
    DIR *list = opendir(directory);
    assert_non_null(list);
    while (readdir(list) != NULL) {
        count++;
    }
    closedir(list);
    return count - 2;
}

const char *support_shared_data(const char *name)
{
    static char path[4096];
    const char *base = getenv("GRAIL_SHARED_DATA");
    if (base == NULL) {
        snprintf(path, sizeof path, "%s/../shared/data/%s", GRAIL_SOURCE_DIR, name);
    } else {
        snprintf(path, sizeof path, "%s/%s", base, name);
    }
    return access(path, R_OK) == 0 ? path : NULL;
}

void support_fill_normal(float *values, int64_t count, uint64_t seed)
{
    random_state state;
    random_seed(&state, seed, 0);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)random_normal(&state);
    }
}

static bool all_is_wanted(void)
{
    return getenv("GRAIL_TEST_ALL") != NULL;
}

bool support_takes(int64_t i, int64_t every)
{
    return i % every == 0 || all_is_wanted();
}

bool support_walks_failures(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    return all_is_wanted();
#endif
}

void support_fail_allocations(grail_status (*body)(void *context), void *context, const char *test)
{
    enum { MOST = 100000, EACH = 200, STRIDE = 7 };
    if (!support_walks_failures()) {
        print_message("[  SKIPPED ] %s: the failures, which need the address sanitizer\n", test);
        assert_ok(body(context));
        return;
    }
    const int64_t stride = all_is_wanted() ? 1 : STRIDE;
    for (int64_t n = 0; n < MOST; n += n < EACH ? 1 : stride) {
        memory_fail_after(n);
        const grail_status status = body(context);
        const int64_t made = memory_allocation_count();
        memory_fail_after(-1);
        if (status == GRAIL_OK && made <= n) {
            return;
        }
        if (status != GRAIL_ERROR_MEMORY) {
            print_error("allocation %lld failed, but the call said '%s' (%s)\n", (long long)n,
                        grail_status_text(status), grail_error_message());
            fail();
        }
    }
    fail_msg("still failing after %d allocations", MOST);
}

int64_t support_next_failure(int64_t n)
{
    return n + 1 + n / (all_is_wanted() ? 30 : 8);
}
