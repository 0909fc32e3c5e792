#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- descriptors ------------------------------------------------------------------------------- */

/* Standard output is opened for reading, so that writing to it fails: whoever closed it must not be
 * told that everything was written. */
static int mode_of(int descriptor)
{
    return descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY;
}

bool descriptors_open_missing(void)
{
    for (int d = STDIN_FILENO; d <= STDERR_FILENO; d++) {
        /* open takes the lowest free number, which is d */
        if (fcntl(d, F_GETFD) == -1 && errno == EBADF && open("/dev/null", mode_of(d)) != d) {
            return false;
        }
    }
    return true;
}

/* -- signals ----------------------------------------------------------------------------------- */

static const int numbers[] = {SIGINT, SIGTERM};
enum { NUMBERS = sizeof numbers / sizeof numbers[0] };

static volatile sig_atomic_t tells, defers, noted;

/* The first process of a container does not end by a signal's default action, so it exits with the
 * code that a shell shows for it. Calls only async-signal-safe functions. */
static void end_by(int number)
{
    sigset_t one;
    signal(number, SIG_DFL);
    sigemptyset(&one);
    sigaddset(&one, number);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(128 + number);
}

/* A signal handler. */
static void handle(int number)
{
    static const char text[] =
        "\ngrail: stopping at the next safe point; press Ctrl-C again to stop at once\n";
    if (!defers || noted != 0) {
        end_by(number);
    }
    noted = number;
    if (tells && write(STDERR_FILENO, text, sizeof text - 1) < 0) {
        return; /* nobody is left to tell */
    }
}

void interrupt_start(void)
{
    for (int i = 0; i < NUMBERS; i++) {
        struct sigaction before;
        struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
        sigfillset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(numbers[i], &action, NULL);
        }
    }
}

void interrupt_catch(void)
{
    tells = isatty(STDERR_FILENO) != 0;
    defers = 1;
}

bool interrupt_came(void)
{
    return noted != 0;
}

void interrupt_end(void)
{
    if (noted != 0) {
        end_by((int)noted);
    }
}

/* -- other programs ---------------------------------------------------------------------------- */

enum { LONGEST_PATH = 4096 };

/* A relative directory may be that of a downloaded checkpoint, so none of PATH is searched. */
static int find_in(const char *directory, size_t length, const char *name, char path[LONGEST_PATH])
{
    struct stat info;
    const int size = snprintf(path, LONGEST_PATH, "%.*s/grail-%s", (int)length, directory, name);
    return directory[0] == '/' && size > 0 && size < LONGEST_PATH && stat(path, &info) == 0 &&
           S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

void external_run(char **argv)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    char path[LONGEST_PATH];
    const char *name = argv[0];
    if (name[0] == '-' || name[0] == 0 || strspn(name, plain) != strlen(name)) {
        return;
    }
    for (const char *at = getenv("PATH"); at != NULL;) {
        const size_t length = strcspn(at, ":");
        if (length < LONGEST_PATH && find_in(at, length, name, path)) {
            char *const own = argv[0];
            argv[0] = path;
            signal(SIGXFSZ, SIG_DFL);
            execv(path, argv);
            argv[0] = own; /* it cannot be run: another one may */
        }
        at = at[length] == 0 ? NULL : at + length + 1;
    }
}
