#include "ranks.h"

#include "print.h"
#include "shared_options.h"

#include <grail/grail.h>

#include <stdio.h>
#include <string.h>

static int launched; /* ranks; 0 without a launcher */
static const char *command_name = "";
static const grail_comm *joined;
static bool is_first = true;

static void know_rank(int rank, int size)
{
    is_first = rank == 0;
    print_as_rank(rank, size);
}

void ranks_start(void)
{
    int rank = 0;
    launched = grail_comm_launched(&rank);
    if (launched > 1) {
        know_rank(rank, launched);
    }
}

int ranks_check(const command *c)
{
    command_name = c->name;
    if (launched < 2 || c->shares_out) {
        return EXIT_OK;
    }
    print_command_error("does not share out its work over ranks yet, and %d were started; start "
                        "one process",
                        launched);
    return EXIT_USAGE;
}

/* Ranks of two releases would not add up the same sums, and those of two commands would wait for
 * each other. */
static int check_release(const grail_comm *comm)
{
    char own[64] = "";
    char first[sizeof own];
    snprintf(own, sizeof own, "%s of release %s", command_name, grail_version());
    memcpy(first, own, sizeof first);
    if (comm->broadcast(comm->context, 0, first, sizeof first) != 0) {
        print_error_of_rank("grail: rank 0 cannot be heard\n");
        return EXIT_FAILED;
    }
    if (memcmp(first, own, sizeof own) != 0) {
        first[sizeof first - 1] = 0;
        print_error_of_rank("grail: this is %s, and rank 0 runs %s; start one command, and install "
                            "one release on all machines\n",
                            own, first);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

int ranks_join(const grail_comm **out)
{
    const bool named = asked.comm != NULL && strcmp(asked.comm, "auto") != 0;
    if (named && strcmp(asked.comm, "none") == 0) {
        know_rank(0, 1);
        return EXIT_OK;
    }
    if (!named && launched < 2) {
        return EXIT_OK;
    }
    const grail_status status = grail_comm_open_mpi(&joined);
    if (status != GRAIL_OK) {
        return print_failure(status);
    }
    know_rank(joined->rank, joined->size);
    *out = joined;
    return joined->size > 1 ? check_release(joined) : EXIT_OK;
}

bool ranks_is_first(void)
{
    return is_first;
}

int ranks_leave(int code)
{
    if (joined != NULL && code != EXIT_OK) {
        fflush(NULL);
        grail_comm_end_all(joined, code);
    }
    grail_comm_close(joined);
    joined = NULL;
    return code;
}
