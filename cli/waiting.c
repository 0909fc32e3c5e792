#include "waiting.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

typedef struct setting {
    const char *name, *value;
} setting;

/* Of libgomp: rounds of some nanoseconds. Of LLVM's OpenMP: milliseconds. */
static const setting settings[] = {{"GOMP_SPINCOUNT", "1000"}, {"KMP_BLOCKTIME", "0"}};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

static int is_chosen(void)
{
    int chosen = getenv("OMP_WAIT_POLICY") != NULL;
    for (int i = 0; i < SETTINGS; i++) {
        chosen = chosen || getenv(settings[i].name) != NULL;
    }
    return chosen;
}

/* A loader that was called by hand, and would be started again without its program, is at no base
 * address of its own. */
static int is_loaded_by_hand(void)
{
    return getauxval(AT_BASE) == 0;
}

void waiting_threads_sleep(char **arguments)
{
    char program[PATH_MAX + 1] = "";
    if (is_chosen() || is_loaded_by_hand()) {
        return;
    }
    for (int i = 0; i < SETTINGS; i++) {
        if (setenv(settings[i].name, settings[i].value, 1) != 0) {
            return;
        }
    }
    /* by its path, after which Linux names the process; the calls return only where they fail */
    if (readlink("/proc/self/exe", program, PATH_MAX) > 0) {
        execv(program, arguments);
    }
    execv("/proc/self/exe", arguments);
}
