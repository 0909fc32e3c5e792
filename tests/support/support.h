/* What every test program shares: cmocka's includes, near-comparisons, temporary directories, the
 * place of the real data, and the allocation-failure loop. */
#ifndef GRAIL_TESTS_SUPPORT_H
#define GRAIL_TESTS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/random.h"
#include "support/owned.h"

/** What a program returns where none of its tests can run: a setup of cmocka's cannot skip. */
enum { TEST_SKIPPED = 77 };

/**
 * A test of this program: TEST(what_is_checked) { ... }. The main() of this library runs all of
 * them in the order of their lines; one of the program's own calls support_run_tests().
 */
#define TEST(name) TEST_IN(name, NULL, NULL)
/** One with a setup and a teardown of cmocka's, each of which may be NULL, and their `state`. */
#define TEST_IN(name, setup, teardown)                                                             \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void name##_is_a_test(void)                                \
    {                                                                                              \
        support_add_test(__LINE__, #name, name, setup, teardown);                                  \
    }                                                                                              \
    static void name(void **state)

/** One whose state is a `type *variable`. */
#define TEST_GIVEN(type, variable, setup, teardown, name)                                          \
    static void name##_given(type *variable);                                                      \
    TEST_IN(name, setup, teardown)                                                                 \
    {                                                                                              \
        name##_given(*state);                                                                      \
    }                                                                                              \
    static void name##_given(type *variable)
/** One with a fresh directory, `char *directory`. */
#define DIRECTORY_TEST(name)                                                                       \
    TEST_GIVEN(char, directory, support_open_directory, support_close_directory, name)
/**
 * One of a `type *variable` of its own, which `begin` fills and `end` empties, also behind a
 * failure.
 */
#define TEST_OF(type, variable, begin, end, name)                                                  \
    static int name##_begin(void **state)                                                          \
    {                                                                                              \
        static type made;                                                                          \
        begin(&made);                                                                              \
        *state = &made;                                                                            \
        return 0;                                                                                  \
    }                                                                                              \
    static int name##_end(void **state)                                                            \
    {                                                                                              \
        end(*state);                                                                               \
        return 0;                                                                                  \
    }                                                                                              \
    TEST_GIVEN(type, variable, name##_begin, name##_end, name)

void support_add_test(int line, const char *name, CMUnitTestFunction run, CMFixtureFunction setup,
                      CMFixtureFunction teardown);
/** What main() returns. */
int support_run_tests(void);
/** The setup and teardown around all tests, of a program that defines them. */
extern CMFixtureFunction support_setup, support_teardown;

/** Succeeds or fails the test with the library's error text. */
#define assert_ok(expression) support_assert_ok((expression), #expression, __FILE__, __LINE__)
/** The expression must fail with `code`, and its message must contain `text`. */
#define assert_fails(expression, code, text)                                                       \
    support_assert_fails((expression), (code), (text), #expression, __FILE__, __LINE__)
/** |a - b| <= tolerance, NaN fails. */
#define assert_near(a, b, tolerance) support_assert_near((a), (b), (tolerance), __FILE__, __LINE__)

void support_assert_ok(grail_status status, const char *expression, const char *file, int line);
void support_assert_fails(grail_status status, grail_status code, const char *text,
                          const char *expression, const char *file, int line);
void support_assert_near(double a, double b, double tolerance, const char *file, int line);

/** A fresh directory under $TMPDIR or /tmp; support_remove_tree deletes it. Owned by the caller. */
char *support_temporary_directory(void);
void support_remove_tree(const char *path);
/** One that goes with its variable: `OWNED(temporary) directory = support_temporary_directory();`
 */
typedef char *temporary;
static inline void own_temporary(temporary *path)
{
    support_remove_tree(*path);
    memory_free(*path);
}
/** Setup and teardown of a test whose state is the path of such a directory. */
int support_open_directory(void **state);
int support_close_directory(void **state);
/** Writes a file for a test. */
void support_write_file(const char *directory, const char *name, const void *bytes, size_t size);

/** How many names a directory holds. */
int support_names_in(const char *directory);

/** Path of a file in ../shared/data (or $GRAIL_SHARED_DATA), or NULL when it is absent: then print
 * the test's name and skip(). The string is static. */
const char *support_shared_data(const char *name);

/** Fills with standard normals. */
void support_fill_normal(float *values, int64_t count, uint64_t seed);

/**
 * Whether allocations are made to fail in turn: with the address sanitizer, which sees what a
 * failure leaks or frees twice, and everywhere when GRAIL_TEST_ALL is set.
 */
bool support_walks_failures(void);

/**
 * Runs `body` with one allocation after the other failing until it succeeds: each of the first 200,
 * then every 7th (with GRAIL_TEST_ALL each). A failing run must return GRAIL_ERROR_MEMORY; leaks
 * show under ASan. Once, without failures, where support_walks_failures() is false: then the test's
 * name is printed.
 */
#define support_fail_each_allocation(body, context)                                                \
    support_fail_allocations((body), (context), __func__)
void support_fail_allocations(grail_status (*body)(void *context), void *context, const char *test);

/**
 * The allocation to fail after the n-th in a complete run, which makes too many to fail each: six
 * of each doubling or so (with GRAIL_TEST_ALL twenty).
 */
int64_t support_next_failure(int64_t n);

/**
 * Whether the i-th of many combinations, or places, is tried: i = 0 and each `every`-th from there,
 * with GRAIL_TEST_ALL all. What is counted must let each value of each choice be met.
 */
bool support_takes(int64_t i, int64_t every);

#endif
