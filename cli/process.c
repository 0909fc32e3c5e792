#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

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

/* Finds a program of this name in the directories `*at`, as of PATH, and moves *at behind the one
 * that has it. A relative directory may be that of a downloaded checkpoint, so none is searched. */
static bool find_program(const char **at, const char *prefix, const char *name,
                         char path[LONGEST_PATH])
{
    bool found = false;
    while (*at != NULL && !found) {
        struct stat info;
        const int length = (int)strcspn(*at, ":");
        const int size = snprintf(path, LONGEST_PATH, "%.*s/%s%s", length, *at, prefix, name);
        found = (*at)[0] == '/' && size > 0 && size < LONGEST_PATH && stat(path, &info) == 0 &&
                S_ISREG(info.st_mode) && access(path, X_OK) == 0;
        *at = (*at)[length] == 0 ? NULL : *at + length + 1;
    }
    return found;
}

void external_run(char **argv)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    char path[LONGEST_PATH];
    const char *name = argv[0];
    const char *at = getenv("PATH");
    if (name[0] == '-' || name[0] == 0 || strspn(name, plain) != strlen(name)) {
        return;
    }
    while (find_program(&at, "grail-", name, path)) {
        char *const own = argv[0];
        argv[0] = path;
        signal(SIGXFSZ, SIG_DFL);
        execv(path, argv);
        argv[0] = own; /* it cannot be run: another one may */
    }
}

/* Asks without importing it. Isolated: neither the working directory nor variables for Python have
 * a say in what is found. */
static void ask_python(const char *package, char *answer, int size)
{
    static const char command[] =
        "exec \"$GRAIL_PYTHON\" -I -c 'import sys; from importlib.util import find_spec as f; s = "
        "f(sys.argv[1]); print(s.submodule_search_locations[0] if s else \"\")' \"$GRAIL_PACKAGE\" "
        "2>/dev/null";
    char path[LONGEST_PATH];
    const char *at = getenv("PATH");
    FILE *python = NULL;
    answer[0] = 0;
    if (find_program(&at, "", "python3", path) && setenv("GRAIL_PYTHON", path, 1) == 0 &&
        setenv("GRAIL_PACKAGE", package, 1) == 0) {
        python = popen(command, "re");
    }
    if (python != NULL && fgets(answer, size, python) != NULL) {
        answer[strcspn(answer, "\n")] = 0;
    }
    if (python != NULL) {
        pclose(python);
    }
}

void torch_find(const char *named)
{
    static const char variable[] = "GRAIL_TORCH";
    char answer[LONGEST_PATH];
    if (named != NULL) {
        (void)setenv(variable, named, 1);
    } else if (getenv(variable) == NULL) {
        ask_python("torch", answer, (int)sizeof answer);
        (void)setenv(variable, answer, 1);
    }
}

/* Whether it is an ONNX file, or a directory with one. */
static bool holds_onnx(const char *path)
{
    static const char ending[] = ".onnx";
    const size_t length = strlen(path);
    bool found =
        length >= sizeof ending && strcmp(path + length - (sizeof ending - 1), ending) == 0;
    DIR *directory = found ? NULL : opendir(path);
    for (struct dirent *e = directory == NULL ? NULL : readdir(directory); e != NULL && !found;
         e = readdir(directory)) {
        const size_t size = strlen(e->d_name);
        found =
            size >= sizeof ending && strcmp(e->d_name + size - (sizeof ending - 1), ending) == 0;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return found;
}

void onnxruntime_find(int argc, char **argv)
{
    static const char variable[] = "GRAIL_ONNXRUNTIME";
    char answer[LONGEST_PATH];
    bool found = false;
    for (int i = 1; i < argc; i++) {
        found = found || holds_onnx(argv[i]);
    }
    if (found && getenv(variable) == NULL) {
        ask_python("onnxruntime", answer, (int)sizeof answer);
        (void)setenv(variable, answer, 1);
    }
}

static bool memory_is_limited(void)
{
    struct rlimit space = {.rlim_cur = RLIM_INFINITY};
    struct rlimit data = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_AS, &space);
    (void)getrlimit(RLIMIT_DATA, &data);
    return space.rlim_cur != RLIM_INFINITY || data.rlim_cur != RLIM_INFINITY;
}

void heap_arrange(void)
{
#ifdef __GLIBC__
    enum { LARGEST = 32 << 20, KEPT = 2047 << 20 }; /* the most that glibc takes */
    if (memory_is_limited()) {
        (void)mallopt(M_ARENA_MAX, 1);
    } else {
        (void)mallopt(M_MMAP_THRESHOLD, LARGEST);
        (void)mallopt(M_TRIM_THRESHOLD, KEPT);
    }
#endif
}
