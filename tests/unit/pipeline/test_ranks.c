/* Runs of several ranks, as processes that are connected by sockets: the bytes of one process. A
 * rank returns 0 where all went as it should. */
#include "lab.h"

#include "support/ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the ranks of one run do; the caller's memory is copied into each. */
typedef struct shared_run {
    lab l;
    const char *output, *selector;
    int64_t memory; /* 1: blocks are run again */
    bool alone;     /* without a comm */
    bool resumes;
    int cancelled_after; /* blocks; 0: never */
    bool differs;        /* rank 1 has another seed */
} shared_run;

static int cancel(void *user, const grail_site_report *site, int block, int blocks, double left)
{
    const shared_run *run = user;
    (void)blocks;
    (void)left;
    return site == NULL && block + 1 == run->cancelled_after;
}

static grail_compress_options options_of(const shared_run *run, const grail_comm *comm)
{
    grail_compress_options o =
        lab_options(&run->l, lab_golden("llama3"), lab_path(&run->l, run->output));
    o.cut.selector = run->selector;
    o.fit.compensate = "full";
    o.fit.refit = "all";
    o.fit.token_weights = "stream";
    o.run.memory = run->memory;
    o.run.comm = run->alone ? NULL : comm;
    o.run.observer = cancel;
    o.run.observer_user = (void *)(uintptr_t)run;
    o.output.resume = run->resumes ? 1 : 0;
    o.read.seed = run->differs && comm->rank == 1 ? 1 : 0;
    return o;
}

/* The exit code of a rank: the status. */
static int take_part(const grail_comm *comm, void *user)
{
    const grail_compress_options o = options_of(user, comm);
    grail_compression *c = NULL;
    grail_status status = grail_compression_open(&o, &c);
    if (status == GRAIL_OK) {
        status = grail_compression_run(c);
    }
    if (status == GRAIL_OK && comm->rank == 0) {
        status = grail_compression_finish(c);
    }
    grail_compression_close(c);
    return (int)status;
}

static void all_end(int size, shared_run *run, const char *output, grail_status status)
{
    int ended[RANKS_MOST];
    run->output = output;
    ranks_run(size, take_part, run, ended);
    for (int rank = 0; rank < size; rank++) {
        assert_int_equal(ended[rank], status);
    }
}

static void same_bytes(const char *selector, int64_t memory)
{
    shared_run run = {.selector = selector, .memory = memory};
    lab_open(&run.l);
    char alone[LAB_PATH];
    run.alone = true;
    all_end(1, &run, "alone", GRAIL_OK);
    snprintf(alone, sizeof alone, "%s", lab_path(&run.l, "alone"));
    run.alone = false;
    for (int size = 1; size <= 5; size += size < 3 ? 1 : 2) {
        char name[32];
        snprintf(name, sizeof name, "ranks-%d", size);
        all_end(size, &run, name, GRAIL_OK);
        assert_same_checkpoint(alone, lab_path(&run.l, name));
    }
    lab_close(&run.l);
}

static void any_number_of_ranks_writes_the_same_bytes(void **state)
{
    (void)state;
    same_bytes("obs", 0);
    same_bytes("obs", 1);
    same_bytes("wanda", 0);
    same_bytes("fold", 0);
}

static void a_cancelled_run_goes_on_with_other_ranks(void **state)
{
    (void)state;
    shared_run run = {.selector = "obs", .alone = true};
    char alone[LAB_PATH];
    lab_open(&run.l);
    all_end(1, &run, "alone", GRAIL_OK);
    snprintf(alone, sizeof alone, "%s", lab_path(&run.l, "alone"));
    run.alone = false;
    run.cancelled_after = 1;
    all_end(3, &run, "cancelled", GRAIL_ERROR_CANCELLED);
    run.cancelled_after = 0;
    run.resumes = true;
    all_end(2, &run, "cancelled", GRAIL_OK);
    assert_same_checkpoint(alone, lab_path(&run.l, "cancelled"));
    all_end(3, &run, "cancelled", GRAIL_ERROR_EXISTS); /* it has its name */
    lab_close(&run.l);
}

static void ranks_that_differ_write_nothing(void **state)
{
    (void)state;
    shared_run run = {.selector = "obs", .differs = true};
    char partial[LAB_PATH];
    lab_open(&run.l);
    all_end(2, &run, "differ", GRAIL_ERROR_ARGUMENT);
    snprintf(partial, sizeof partial, "%s.partial", lab_path(&run.l, "differ"));
    assert_int_not_equal(access(lab_path(&run.l, "differ"), F_OK), 0);
    assert_int_not_equal(access(partial, F_OK), 0);
    lab_close(&run.l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_ranks_writes_the_same_bytes),
        cmocka_unit_test(a_cancelled_run_goes_on_with_other_ranks),
        cmocka_unit_test(ranks_that_differ_write_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
