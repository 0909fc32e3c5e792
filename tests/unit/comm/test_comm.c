/* Ranks as processes that are connected by sockets. A body returns the number of the check that
 * failed, 0 for none. */
#include "comm/comm.h"

#include "base/memory.h"
#include "support/ranks.h"
#include "support/support.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            return __LINE__ % 255 + 1;                                                             \
        }                                                                                          \
    } while (0)

enum { SIZE = 3 };

static void run_all(int (*body)(const grail_comm *comm, void *user))
{
    for (int size = 1; size <= SIZE; size++) {
        int ended[RANKS_MOST];
        ranks_run(size, body, NULL, ended);
        for (int rank = 0; rank < size; rank++) {
            assert_int_equal(ended[rank], 0);
        }
    }
}

/* More than a message holds at most. */
static int pass_bytes(const grail_comm *comm, void *user)
{
    const size_t size = ((size_t)1 << 26) + 5;
    OWNED(char) *bytes = NULL;
    EXPECT(memory_new(&bytes, size, 1) == GRAIL_OK);
    if (comm->rank == 0) {
        memset(bytes, 'a', size);
        bytes[size - 1] = 'z';
    }
    EXPECT(comm_broadcast(comm, 0, bytes, size) == GRAIL_OK);
    EXPECT(bytes[0] == 'a' && bytes[size - 2] == 'a' && bytes[size - 1] == 'z');
    if (comm->rank > 0) {
        EXPECT(comm_send(comm, 0, bytes, size) == GRAIL_OK);
    }
    for (int from = 1; comm->rank == 0 && from < comm->size; from++) {
        memset(bytes, 0, size);
        EXPECT(comm_receive(comm, from, bytes, size) == GRAIL_OK);
        EXPECT(bytes[0] == 'a' && bytes[size - 1] == 'z');
    }
    return 0;
}

TEST(long_messages_arrive_whole)
{
    run_all(pass_bytes);
}

static int pass_text(const grail_comm *comm, void *user)
{
    OWNED(char) *text = NULL;
    if (comm->rank == 0) {
        EXPECT(memory_copy_string(&text, "what rank 0 tells") == GRAIL_OK);
    }
    EXPECT(comm_broadcast_text(comm, 0, &text) == GRAIL_OK);
    EXPECT(strcmp(text, "what rank 0 tells") == 0);
    return 0;
}

TEST(text_is_given_to_all)
{
    run_all(pass_text);
}

/* The second of three ranks fails: all have its status, and the others its number and text. */
static int settle(const grail_comm *comm, void *user)
{
    const bool fails = comm->rank == 1;
    EXPECT(comm_settle(comm, GRAIL_OK) == GRAIL_OK);
    const grail_status status =
        fails ? error_set(GRAIL_ERROR_FORMAT, "'a.txt' is no text") : GRAIL_OK;
    EXPECT(comm_settle(comm, status) == (comm->size > 1 ? GRAIL_ERROR_FORMAT : GRAIL_OK));
    if (comm->size > 1) {
        char expected[64];
        snprintf(expected, sizeof expected, "%s'a.txt' is no text",
                 fails             ? ""
                 : comm->size == 2 ? "rank 1 of 2: "
                                   : "rank 1 of 3: ");
        EXPECT(strcmp(grail_error_message(), expected) == 0);
    }
    return 0;
}

TEST(all_fail_where_one_does)
{
    run_all(settle);
}

#define AGREE_TEXT "seeds differ from those of rank 0; give all the same"

static int agree(const grail_comm *comm, void *user)
{
    const int32_t own = comm->rank == 2 ? 7 : 5;
    const int32_t same = 5;
    EXPECT(comm_agree(comm, "seeds", "give all the same", &same, sizeof same) == GRAIL_OK);
    const grail_status status = comm_agree(comm, "seeds", "give all the same", &own, sizeof own);
    EXPECT(status == (comm->size > 2 ? GRAIL_ERROR_ARGUMENT : GRAIL_OK));
    EXPECT(comm->size < 3 ||
           strcmp(grail_error_message(),
                  comm->rank == 2 ? AGREE_TEXT : "rank 2 of 3: " AGREE_TEXT) == 0);
    return 0;
}

TEST(other_bytes_than_those_of_rank_0_are_refused)
{
    run_all(agree);
}

/* The last rank ends at once; no other waits for it for ever. */
static int end_early(const grail_comm *comm, void *user)
{
    char byte = 0;
    const int last = comm->size - 1;
    if (comm->rank == last) {
        return 0;
    }
    EXPECT(comm_receive(comm, last, &byte, 1) == GRAIL_ERROR_IO);
    EXPECT(strstr(grail_error_message(), comm->size == 2 ? "rank 1 of 2" : "rank 2 of 3") != NULL);
    while (comm_send(comm, last, &byte, 1) == GRAIL_OK) {
    }
    EXPECT(strstr(grail_error_message(), "it may have ended") != NULL);
    return 0;
}

TEST(a_rank_that_ended_is_named)
{
    run_all(end_early);
}

static int sends(void *context, int to, const void *bytes, size_t size)
{
    return 0;
}

TEST(structs_that_are_not_complete_are_refused)
{
    const grail_comm wrong[] = {{.rank = 0, .size = 0},
                                {.rank = 1, .size = 1},
                                {.rank = -1, .size = 2},
                                {.rank = 0, .size = 2},
                                {.rank = 0, .size = 2, .send = sends}};
    const grail_comm alone = {.rank = 0, .size = 1};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(comm_check(&wrong[i]), GRAIL_ERROR_ARGUMENT);
    }
    assert_int_equal(comm_check(NULL), GRAIL_OK);
    assert_int_equal(comm_check(&alone), GRAIL_OK);
    assert_int_equal(comm_size(NULL), 1);
    assert_int_equal(comm_rank(NULL), 0);
}

TEST(launchers_are_known_by_their_environment)
{
    static const struct {
        const char *rank, *size;
    } names[] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
                 {"PMI_RANK", "PMI_SIZE"}};
    int rank = -1;
    for (int i = 0; i < 3; i++) {
        unsetenv(names[i].rank);
        unsetenv(names[i].size);
    }
    assert_int_equal(grail_comm_launched(&rank), 0);
    assert_int_equal(rank, 0);
    for (int i = 0; i < 3; i++) {
        setenv(names[i].size, "4", 1);
        assert_int_equal(grail_comm_launched(&rank), 0); /* a batch script */
        setenv(names[i].rank, "3", 1);
        assert_int_equal(grail_comm_launched(&rank), 4);
        assert_int_equal(rank, 3);
        setenv(names[i].rank, "4", 1);
        assert_int_equal(grail_comm_launched(&rank), 0);
        setenv(names[i].rank, "x", 1);
        assert_int_equal(grail_comm_launched(&rank), 0);
        unsetenv(names[i].rank);
        unsetenv(names[i].size);
    }
}

/* Where no module is, the message says what to install. */
TEST(a_missing_module_is_named)
{
    const grail_comm *comm = NULL;
    setenv("GRAIL_MPI", "/nowhere/grail-mpi.so", 1);
    assert_int_equal(grail_comm_open_mpi(&comm), GRAIL_ERROR_UNSUPPORTED);
    assert_non_null(strstr(grail_error_message(), "/nowhere/grail-mpi.so"));
    assert_null(comm);
    grail_comm_close(NULL);
}
