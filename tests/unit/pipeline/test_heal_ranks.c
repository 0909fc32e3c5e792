/* Healing by several ranks, as processes that are connected by sockets: the bytes of one process. A
 * rank returns its status. */
#include "heal_lab.h"

#include "base/memory.h"
#include "support/json_memory.h"
#include "support/ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HANGS_AFTER = 60 }; /* seconds, which no rank takes */

/* What the ranks of one run do; the caller's memory is copied into each. */
typedef struct shared_run {
    lab l;
    const char *output, *what;
    const char *narrow; /* of an earlier run, which is then healed alone; or NULL */
    int64_t memory;     /* 1: nothing is kept */
    int64_t group;      /* blocks that are trained together */
    bool alone;         /* without a comm */
    bool resumes;
    int victim;        /* rank that cancels or fails; -1: none */
    int cancel_at;     /* its call of the observer of trainings */
    int64_t successes; /* allocations of the victim before the first that fails */
    int64_t *made;
} shared_run;

typedef struct watch {
    const shared_run *run;
    int rank, calls;
} watch;

static int watch_healing(void *user, const grail_healing *now)
{
    watch *w = user;
    w->calls++;
    return w->rank == w->run->victim && w->calls == w->run->cancel_at;
}

static grail_compress_options options_of(const shared_run *run, const grail_comm *comm, watch *w)
{
    grail_compress_options o =
        heal_run_options(&run->l, lab_golden("llama3"), lab_path(&run->l, run->output), run->what);
    if (run->narrow != NULL) {
        o = heal_taught(&run->l, lab_path(&run->l, run->narrow), lab_golden("llama3"),
                        lab_path(&run->l, run->output), run->what);
    }
    *w = (watch){.run = run, .rank = comm->rank};
    o.heal.steps = 4;
    o.heal.rate = 0.01;
    o.run.memory = run->memory;
    o.heal.group = run->group;
    o.run.comm = run->alone ? NULL : comm;
    o.run.heal_observer = watch_healing;
    o.run.observer_user = w;
    o.output.resume = run->resumes ? 1 : 0;
    return o;
}

static int take_part(const grail_comm *comm, void *user)
{
    watch w;
    const grail_compress_options o = options_of(user, comm, &w);
    alarm(HANGS_AFTER); /* its signal ends the rank */
    return (int)lab_compress_rank(&o, comm->rank);
}

static void all_end(int size, shared_run *run, const char *output, grail_status status)
{
    run->output = output;
    ranks_end_with(size, take_part, run, (int)status);
}

/* Runs it alone, and returns the path of the result. */
static void run_alone(shared_run *run, const char *output, char path[LAB_PATH])
{
    run->alone = true;
    all_end(1, run, output, GRAIL_OK);
    run->alone = false;
    snprintf(path, LAB_PATH, "%s", lab_path(&run->l, output));
}

static void same_bytes(const char *what, int64_t memory, int64_t group, int least, int most)
{
    shared_run run = {.what = what, .memory = memory, .group = group, .victim = -1};
    char alone[LAB_PATH];
    lab_open(&run.l);
    run_alone(&run, "alone", alone);
    for (int size = least; size <= most; size += size < 3 ? 1 : 2) {
        char name[32];
        snprintf(name, sizeof name, "ranks-%d", size);
        all_end(size, &run, name, GRAIL_OK);
        assert_same_checkpoint(alone, lab_path(&run.l, name));
        assert_same_trainings(alone, lab_path(&run.l, name));
    }
    lab_close(&run.l);
}

TEST(any_number_of_ranks_heals_to_the_same_bytes)
{
    same_bytes("block,model", 0, 0, 2, 5);
    same_bytes("model", 1, 0, 3, 3); /* teacher's values and tapes are computed again */
    same_bytes("block", 0, 2, 3, 3); /* both blocks together */
}

TEST(a_taught_network_has_the_same_bytes)
{
    shared_run run = {.what = "none", .victim = -1};
    char path[LAB_PATH];
    lab_open(&run.l);
    run_alone(&run, "narrow", path);
    run.narrow = "narrow";
    run.what = "block,model";
    run_alone(&run, "alone", path);
    all_end(3, &run, "ranks", GRAIL_OK);
    assert_same_checkpoint(path, lab_path(&run.l, "ranks"));
    lab_close(&run.l);
}

/* Wherever one rank asks to stop, all stop, and another number of them goes on to the same bytes.
 */
TEST(a_cancelled_training_goes_on_with_other_ranks)
{
    shared_run run = {.what = "block,model", .victim = -1};
    char alone[LAB_PATH];
    lab_open(&run.l);
    run_alone(&run, "alone", alone);
    for (int call = 1, stopped = 1; stopped == 1; call += 3) {
        char name[32];
        int ended[RANKS_MOST];
        snprintf(name, sizeof name, "cancelled-%d", call);
        run.output = name;
        run.victim = call % 2;
        run.cancel_at = call;
        ranks_run(3, take_part, &run, ended);
        stopped = ended[0] == GRAIL_ERROR_CANCELLED;
        assert_int_equal(ended[1], ended[0]);
        assert_int_equal(ended[2], ended[0]);
        assert_true(stopped || ended[0] == GRAIL_OK);
        run.victim = -1;
        run.resumes = true;
        if (stopped) {
            all_end(2, &run, name, GRAIL_OK);
        }
        run.resumes = false;
        assert_same_checkpoint(alone, lab_path(&run.l, name));
        assert_true(stopped || call > 6); /* after a training at least */
    }
    lab_close(&run.l);
}

/* The status, or 200 where the message of another rank does not name the victim. */
static int train_without_memory(const grail_comm *comm, void *user)
{
    const shared_run *run = user;
    watch w;
    char name[32];
    grail_compress_options o = options_of(run, comm, &w);
    grail_compression *c = NULL;
    o.heal.steps = 1;
    o.output.path = NULL;
    alarm(HANGS_AFTER);
    memory_fail_after(-1);
    grail_status status = grail_compression_open(&o, &c);
    memory_fail_after(comm->rank == run->victim ? run->successes : -1);
    if (status == GRAIL_OK) {
        status = grail_compression_run(c);
    }
    if (comm->rank == run->victim) {
        *run->made = memory_allocation_count();
    }
    memory_fail_after(-1);
    grail_compression_close(c);
    snprintf(name, sizeof name, "rank %d of %d: ", run->victim, comm->size);
    const bool named = strstr(grail_error_message(), name) != NULL;
    return status != GRAIL_OK && named != (comm->rank != run->victim) ? 200 : (int)status;
}

/* Whatever allocation of one rank fails, all end, with its error. */
TEST(a_rank_without_memory_ends_all)
{
    shared_run run = {
        .what = "block,model", .cancel_at = -1, .made = ranks_shared(sizeof *run.made)};
    int ended[RANKS_MOST] = {0};
    lab_open(&run.l);
    run.output = "none";
    for (run.victim = 0; run.victim < 2; run.victim++) {
        *run.made = INT64_MAX;
        for (run.successes = 0; *run.made > run.successes; run.successes += 1 + run.successes / 5) {
            ranks_run(2, train_without_memory, &run, ended);
            assert_int_equal(ended[0], ended[1]);
            assert_int_equal(ended[0], *run.made > run.successes ? GRAIL_ERROR_MEMORY : GRAIL_OK);
        }
    }
    lab_close(&run.l);
}

CMFixtureFunction support_setup = json_memory_use;
