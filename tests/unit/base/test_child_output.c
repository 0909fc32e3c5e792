/* What other programs print. */
#include "support/support.h"

#include "base/child_output.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0: `cat` gives back what it was given. */
static int echo(void)
{
    static const char text[] = "what is given comes back";
    const char *const program[] = {"/bin/cat", NULL};
    buffer input;
    buffer output;
    buffer_init(&input, 64);
    buffer_init(&output, 64);
    const bool equal = buffer_append(&input, text, sizeof text) == GRAIL_OK &&
                       child_output(program, &input, 30.0, &output) == GRAIL_OK &&
                       output.size == sizeof text && memcmp(output.bytes, text, sizeof text) == 0;
    buffer_fini(&input);
    buffer_fini(&output);
    return equal ? 0 : 1;
}

TEST(a_program_reads_its_input_and_its_output_is_read)
{
    assert_int_equal(echo(), 0);
}

/* The descriptors that this program opens then have the numbers of the child's own. */
TEST(a_host_may_lack_any_of_the_three_descriptors)
{
    for (int lacking = 1; lacking < 8; lacking++) {
        int end = 0;
        const pid_t host = fork();
        assert_true(host >= 0);
        if (host == 0) {
            for (int d = 0; d < 3; d++) {
                if ((lacking >> d & 1) != 0) {
                    (void)close(d);
                }
            }
            _exit(echo());
        }
        assert_int_equal(waitpid(host, &end, 0), host);
        assert_true(WIFEXITED(end));
        assert_int_equal(WEXITSTATUS(end), 0);
    }
}

TEST(a_program_that_is_missing_is_named)
{
    const char *const program[] = {"/nowhere/program", NULL};
    buffer output;
    buffer_init(&output, 64);
    assert_fails(child_output(program, NULL, 30.0, &output), GRAIL_ERROR_UNSUPPORTED,
                 "/nowhere/program cannot be run");
    buffer_fini(&output);
}
