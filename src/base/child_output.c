#include "base/child_output.h"

#include "base/clock.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static grail_status try_place(const char *directory, size_t length, const char *name, char **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(memory_format(&path, "%.*s/%s", (int)length, directory, name));
    if (access(path, X_OK) == 0) {
        *out = path;
        path = NULL;
    }
out:
    memory_free(path);
    return status;
}

grail_status child_find(const char *name, char **out)
{
    enum { LONGEST = 4096 };
    const char *at = getenv("PATH");
    *out = NULL;
    while (at != NULL && *out == NULL) {
        const size_t length = strcspn(at, ":");
        if (at[0] == '/' && length < LONGEST) {
            CHECK(try_place(at, length, name, out));
        }
        at = at[length] == 0 ? NULL : at + length + 1;
    }
    return GRAIL_OK;
}

/* Moves a descriptor behind those that the child's input, output and messages get, which a host may
 * have closed. *descriptor is -1 after a failure. */
static grail_status keep_apart(int *descriptor, const char *name)
{
    if (*descriptor > STDERR_FILENO) {
        return GRAIL_OK;
    }
    const int moved = fcntl(*descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const grail_status status =
        moved < 0 ? error_from_errno("cannot move a descriptor for", name) : GRAIL_OK;
    (void)close(*descriptor);
    *descriptor = moved;
    return status;
}

/* A file without a name that holds the input, at its beginning: no end of this program leaves any.
 */
static grail_status open_input(const buffer *input, const char *name, int *out)
{
    grail_status status = GRAIL_OK;
    int descriptor = memfd_create("grail-input", MFD_CLOEXEC);
    if (descriptor < 0) {
        return error_from_errno("cannot make a file of what is given to", name);
    }
    TRY(keep_apart(&descriptor, name));
    TRY(file_write_at(descriptor, name, input->bytes, input->size, 0));
    *out = descriptor;
out:
    if (status != GRAIL_OK && descriptor >= 0) {
        (void)close(descriptor);
    }
    return status;
}

/* It reads the file `input`, unless that is -1, and its output goes to the file `output`. */
static int spawn(const char *const program[], int input, int output, pid_t *out)
{
    posix_spawn_file_actions_t actions;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure != 0) {
        return failure;
    }
    failure = input < 0 ? posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                                           O_RDONLY, 0)
                        : posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (failure == 0) {
        failure =
            posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    }
    if (failure == 0) {
        failure = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    }
    if (failure == 0) {
        failure = posix_spawn_file_actions_addchdir_np(&actions, "/");
    }
    if (failure == 0) {
        char *const *arguments = NULL; /* posix_spawn does not change them */
        memcpy(&arguments, &program, sizeof arguments);
        failure = posix_spawn(out, program[0], &actions, NULL, arguments, environ);
    }
    posix_spawn_file_actions_destroy(&actions);
    return failure;
}

/* Appends what comes until the other end is closed or `deadline` is reached (clock_seconds). */
static grail_status read_all(int input, double deadline, const char *name, buffer *out)
{
    char bytes[1024];
    for (ssize_t count = 1; count != 0;) {
        const double left = deadline - clock_seconds();
        struct pollfd ready = {.fd = input, .events = POLLIN};
        if (left <= 0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "%s did not answer in time", name);
        }
        if (poll(&ready, 1, (int)(1e3 * left) + 1) <= 0) {
            continue; /* a signal, or the time is over */
        }
        count = read(input, bytes, sizeof bytes);
        if (count < 0 && errno != EINTR) {
            return error_from_errno("cannot read what is printed by", name);
        }
        if (count > 0 && (size_t)count > out->maximum - out->size) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "%s prints more than %zu bytes", name,
                             out->maximum);
        }
        if (count > 0) {
            CHECK(buffer_append(out, bytes, (size_t)count));
        }
    }
    return GRAIL_OK;
}

/* What it still does interests nobody. */
static void end(pid_t child)
{
    (void)kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
}

static void close_end(int *end)
{
    if (*end >= 0) {
        (void)close(*end);
    }
    *end = -1;
}

static grail_status run(const char *const program[], int input, double seconds, buffer *out)
{
    grail_status status = GRAIL_OK;
    int ends[2] = {-1, -1};
    pid_t child = 0;
    int failure = -1;
    const double deadline = clock_seconds() + seconds;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return error_from_errno("cannot make a pipe for", program[0]);
    }
    TRY(keep_apart(&ends[0], program[0]));
    TRY(keep_apart(&ends[1], program[0]));
    failure = spawn(program, input, ends[1], &child);
    close_end(&ends[1]);
    if (failure != 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "%s cannot be run: %s", program[0], strerror(failure));
    }
    TRY(read_all(ends[0], deadline, program[0], out));
out:
    if (failure == 0) {
        end(child);
    }
    close_end(&ends[0]);
    close_end(&ends[1]);
    return status;
}

grail_status child_output(const char *const program[], const buffer *input, double seconds,
                          buffer *out)
{
    int descriptor = -1;
    if (input != NULL) {
        CHECK(open_input(input, program[0], &descriptor));
    }
    const grail_status status = run(program, descriptor, seconds, out);
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
    return status;
}
