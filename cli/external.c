#include "external.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
