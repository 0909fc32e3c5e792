#include "support/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TESTS = 200 };

static struct CMUnitTest tests[MOST_TESTS];
static int lines[MOST_TESTS];
static size_t count;

__attribute__((weak)) CMFixtureFunction support_setup = NULL;
__attribute__((weak)) CMFixtureFunction support_teardown = NULL;

/* Called by constructors, whose order is the compiler's. */
void support_add_test(int line, const char *name, CMUnitTestFunction run, CMFixtureFunction setup,
                      CMFixtureFunction teardown)
{
    size_t at = count++;
    if (count > MOST_TESTS) {
        fprintf(stderr, "more than %d tests\n", MOST_TESTS);
        abort();
    }
    for (; at > 0 && lines[at - 1] > line; at--) {
        tests[at] = tests[at - 1];
        lines[at] = lines[at - 1];
    }
    lines[at] = line;
    tests[at] = (struct CMUnitTest){name, run, setup, teardown, NULL};
}

int support_run_tests(void)
{
    return _cmocka_run_group_tests("tests", tests, count, support_setup, support_teardown);
}
