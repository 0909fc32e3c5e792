/* grail-mpi.so: ranks by MPI. Only this file is compiled against MPI. */
#include "comm/module.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int send_bytes(void *context, int to, const void *bytes, size_t size)
{
    (void)context;
    return MPI_Send(bytes, (int)size, MPI_BYTE, to, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
}

static int receive_bytes(void *context, int from, void *bytes, size_t size)
{
    (void)context;
    return MPI_Recv(bytes, (int)size, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
           MPI_SUCCESS;
}

static int broadcast_bytes(void *context, int root, void *bytes, size_t size)
{
    (void)context;
    return MPI_Bcast(bytes, (int)size, MPI_BYTE, root, MPI_COMM_WORLD) != MPI_SUCCESS;
}

/* Failures of single calls are returned; the launcher ends all ranks when one has died. */
static int open_world(grail_comm *out, char *error, size_t size)
{
    int provided = 0;
    /* Open MPI polls while it waits. Beside ranks or programs that share its core it does so for
     * nothing, and on a core of its own giving way costs nothing. A user's setting stays. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        snprintf(error, size, "MPI_Init_thread failed");
        return 1;
    }
    *out = (grail_comm){.send = send_bytes, .receive = receive_bytes, .broadcast = broadcast_bytes};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_rank(MPI_COMM_WORLD, &out->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &out->size);
    return 0;
}

static void close_world(void)
{
    MPI_Finalize();
}

static void end_all(int code)
{
    MPI_Abort(MPI_COMM_WORLD, code);
}

extern const comm_module grail_comm_module;
__attribute__((visibility("default"))) const comm_module grail_comm_module = {
    .version = COMM_MODULE_VERSION,
    .open = open_world,
    .close = close_world,
    .end_all = end_all,
};
