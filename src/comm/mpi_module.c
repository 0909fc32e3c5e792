#include "comm/module.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

/* What grail_comm_open_mpi gives; the caller sees the first member. */
typedef struct opened_comm {
    grail_comm comm;
    const comm_module *module; /* never unloaded, since MPI cannot be */
} opened_comm;

/* What launchers set: Open MPI's, Slurm's with PMIx (srun --mpi=pmix), and PMI of MPICH. A batch
 * script of Slurm has no PMIX_RANK, and is no rank. */
static const struct {
    const char *rank, *size;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
    {"PMI_RANK", "PMI_SIZE"},
};

/* -1 for what is no number. */
static int number_of(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    const long value = text == NULL ? -1 : strtol(text, &end, 10);
    return text != NULL && end != text && *end == 0 && value >= 0 && value <= INT_MAX ? (int)value
                                                                                      : -1;
}

int grail_comm_launched(int *rank)
{
    *rank = 0;
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const int own = number_of(launchers[i].rank);
        const int size = number_of(launchers[i].size);
        if (own >= 0 && size > own) {
            *rank = own;
            return size;
        }
    }
    return 0;
}

/* The loader replaces $ORIGIN by the directory of the library that asks, which is this one. */
static void *load(void)
{
    static const char *const places[] = {"$ORIGIN/grail/grail-mpi.so", "grail-mpi.so"};
    const char *named = getenv("GRAIL_MPI");
    void *library = NULL;
    if (named != NULL && named[0] != 0) {
        return dlopen(named, RTLD_NOW | RTLD_GLOBAL);
    }
    for (size_t i = 0; library == NULL && i < sizeof places / sizeof places[0]; i++) {
        library = dlopen(places[i], RTLD_NOW | RTLD_GLOBAL);
    }
    return library;
}

static grail_status find_module(const comm_module **out)
{
    void *library = load();
    const comm_module *module = library == NULL ? NULL : dlsym(library, COMM_MODULE_SYMBOL);
    if (module == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "MPI cannot be used: %s; build grail where libopenmpi-dev is installed, "
                         "or let GRAIL_MPI name its grail-mpi.so",
                         dlerror());
    }
    if (module->version != COMM_MODULE_VERSION) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "grail-mpi.so is of another release: expected version %d, found %d; "
                         "install both of one build",
                         COMM_MODULE_VERSION, module->version);
    }
    *out = module;
    return GRAIL_OK;
}

grail_status grail_comm_open_mpi(const grail_comm **out)
{
    grail_status status = GRAIL_OK;
    opened_comm *opened = NULL;
    char error[256] = "";
    TRY(memory_new(&opened, 1, sizeof *opened));
    TRY(find_module(&opened->module));
    if (opened->module->open(&opened->comm, error, sizeof error) != 0) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "MPI does not start: %s", error);
    }
    *out = &opened->comm;
    opened = NULL;
out:
    memory_free(opened);
    return status;
}

void grail_comm_close(const grail_comm *comm)
{
    if (comm != NULL) {
        opened_comm *opened = (opened_comm *)(uintptr_t)comm;
        opened->module->close();
        memory_free(opened);
    }
}

void grail_comm_end_all(const grail_comm *comm, int code)
{
    ((const opened_comm *)comm)->module->end_all(code);
}
