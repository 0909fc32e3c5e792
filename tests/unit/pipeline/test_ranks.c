/* Runs of several ranks, as processes that are connected by sockets: the bytes of one process. A
 * rank returns 0 where all went as it should. */
#include "lab.h"

#include "base/memory.h"
#include "support/json_memory.h"
#include "support/ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the ranks of one run do; the caller's memory is copied into each. */
typedef struct shared_run {
    lab l;
    const char *output, *selector, *model; /* NULL: llama3 */
    int64_t memory;                        /* 1: blocks are run again */
    bool alone;                            /* without a comm */
    bool resumes;
    int cancelled_after; /* blocks; 0: never */
    bool differs;        /* rank 1 has another seed */
} shared_run;

static int cancel(void *user, const grail_site_report *site, int block, int blocks, double left)
{
    const shared_run *run = user;
    return site == NULL && block + 1 == run->cancelled_after;
}

static grail_compress_options options_of(const shared_run *run, const grail_comm *comm)
{
    grail_compress_options o =
        lab_options(&run->l, lab_golden(run->model == NULL ? "llama3" : run->model),
                    lab_path(&run->l, run->output));
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
    return (int)lab_compress_rank(&o, comm->rank);
}

static void all_end(int size, shared_run *run, const char *output, grail_status status)
{
    run->output = output;
    ranks_end_with(size, take_part, run, (int)status);
}

static void same_bytes(const char *model, const char *selector, int64_t memory)
{
    shared_run run = {.model = model, .selector = selector, .memory = memory};
    lab_open(&run.l);
    run.alone = true;
    all_end(1, &run, "alone", GRAIL_OK);
    const char *alone = lab_path(&run.l, "alone");
    run.alone = false;
    for (int size = 1; size <= 5; size += size < 3 ? 1 : 2) {
        char name[32];
        snprintf(name, sizeof name, "ranks-%d", size);
        all_end(size, &run, name, GRAIL_OK);
        assert_same_checkpoint(alone, lab_path(&run.l, name));
    }
    lab_close(&run.l);
}

TEST(any_number_of_ranks_writes_the_same_bytes)
{
    same_bytes(NULL, "obs", 0);
    same_bytes(NULL, "obs", 1);
    same_bytes(NULL, "wanda", 0);
    same_bytes(NULL, "fold", 0);
    same_bytes("olmo2", "obs", 0); /* whose norms are rescaled */
}

TEST(a_cancelled_run_goes_on_with_other_ranks)
{
    shared_run run = {.selector = "obs", .alone = true};
    lab_open(&run.l);
    all_end(1, &run, "alone", GRAIL_OK);
    const char *alone = lab_path(&run.l, "alone");
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

TEST(ranks_that_differ_write_nothing)
{
    shared_run run = {.selector = "obs", .differs = true};
    char partial[LAB_PATH];
    lab_open(&run.l);
    all_end(2, &run, "differ", GRAIL_ERROR_ARGUMENT);
    snprintf(partial, sizeof partial, "%s.partial", lab_path(&run.l, "differ"));
    assert_int_not_equal(access(lab_path(&run.l, "differ"), F_OK), 0);
    assert_int_not_equal(access(partial, F_OK), 0);
    lab_close(&run.l);
}

/* -- one rank fails ---------------------------------------------------------------------------- */

enum { HANGS_AFTER = 60 }; /* seconds, which no rank takes */

/* Work that all ranks do, in which allocations of one of them fail. */
typedef struct failing_run {
    shared_run run;
    grail_status (*work)(const struct failing_run *f, const grail_comm *comm);
    int victim;
    int64_t successes; /* before the first failure */
    int64_t *made;     /* allocations of the victim */
    bool few;          /* few of many allocations fail */
} failing_run;

static grail_status open_only(const failing_run *f, const grail_comm *comm)
{
    grail_compress_options o = options_of(&f->run, comm);
    OWNED(grail_compression) *c = NULL;
    o.output.path = comm->rank == 0 ? o.output.path : "elsewhere";
    return grail_compression_open(&o, &c);
}

/* A run without an output. */
static grail_status compress_all(const failing_run *f, const grail_comm *comm)
{
    grail_compress_options o = options_of(&f->run, comm);
    OWNED(grail_compression) *c = NULL;
    o.output.path = NULL;
    memory_fail_after(-1);
    grail_status status = grail_compression_open(&o, &c);
    memory_fail_after(comm->rank == f->victim ? f->successes : -1);
    if (status == GRAIL_OK) {
        status = grail_compression_run(c);
    }
    return status;
}

static grail_status measure_text(const failing_run *f, const grail_comm *comm)
{
    OWNED(grail_model) *model = NULL;
    grail_perplexity result = {0};
    const grail_compute compute = {.comm = comm};
    const grail_text_source source = {.path = f->run.l.calibration, .context = LAB_LENGTH};
    memory_fail_after(-1);
    grail_status status = grail_model_open(lab_golden("llama3"), &model);
    memory_fail_after(comm->rank == f->victim ? f->successes : -1);
    if (status == GRAIL_OK) {
        status = grail_perplexity_measure(model, &source, 8, &compute, NULL, NULL, &result);
    }
    return status;
}

/* The status, or 200 where the message does not name the rank that failed. */
static int fail_in_turn(const grail_comm *comm, void *user)
{
    const failing_run *f = user;
    char name[32];
    alarm(HANGS_AFTER); /* its signal ends the rank */
    memory_fail_after(comm->rank == f->victim ? f->successes : -1);
    const grail_status status = f->work(f, comm);
    if (comm->rank == f->victim) {
        *f->made = memory_allocation_count();
    }
    memory_fail_after(-1);
    snprintf(name, sizeof name, "rank %d of %d: ", f->victim, comm->size);
    const bool named = strstr(grail_error_message(), name) != NULL;
    if (status != GRAIL_OK && named != (comm->rank != f->victim)) {
        fprintf(stderr, "rank %d, after %lld allocations: %s\n", comm->rank,
                (long long)f->successes, grail_error_message());
    }
    return status != GRAIL_OK && named != (comm->rank != f->victim) ? 200 : (int)status;
}

/* Whatever allocation of one rank fails, all end, with its error. */
static void walk_failures(failing_run *f)
{
    const int size = 2;
    int ended[RANKS_MOST] = {GRAIL_ERROR_MEMORY};
    lab_open(&f->run.l);
    f->run.selector = "obs";
    f->made = ranks_shared(sizeof *f->made);
    for (f->victim = 0; f->victim < size; f->victim++) {
        ended[f->victim] = GRAIL_ERROR_MEMORY;
        f->run.output = f->victim == 0 ? "first" : "second"; /* the last time begins it */
        for (f->successes = 0; ended[f->victim] != GRAIL_OK;
             f->successes = f->few ? f->successes + 1 + f->successes / 3
                                   : support_next_failure(f->successes)) {
            ranks_run(size, fail_in_turn, f, ended);
            assert_int_equal(ended[0], ended[1]);
            assert_int_equal(ended[f->victim],
                             *f->made > f->successes ? GRAIL_ERROR_MEMORY : GRAIL_OK);
        }
    }
    lab_close(&f->run.l);
}

TEST(a_rank_that_cannot_open_ends_all)
{
    failing_run f = {.work = open_only};
    walk_failures(&f);
}

TEST(a_rank_that_cannot_go_on_ends_all)
{
    failing_run f = {.work = compress_all, .few = true};
    walk_failures(&f);
}

TEST(a_rank_that_cannot_measure_ends_all)
{
    failing_run f = {.work = measure_text};
    walk_failures(&f);
}

/* A comm whose calls fail from one of them on, on the victim. */
typedef struct broken_comm {
    const grail_comm *whole;
    int64_t left; /* calls */
} broken_comm;

static bool breaks(broken_comm *b)
{
    return b->left-- <= 0;
}

static int send_or_break(void *context, int to, const void *bytes, size_t size)
{
    broken_comm *b = context;
    return breaks(b) ? 1 : b->whole->send(b->whole->context, to, bytes, size);
}

static int receive_or_break(void *context, int from, void *bytes, size_t size)
{
    broken_comm *b = context;
    return breaks(b) ? 1 : b->whole->receive(b->whole->context, from, bytes, size);
}

static int broadcast_or_break(void *context, int root, void *bytes, size_t size)
{
    broken_comm *b = context;
    return breaks(b) ? 1 : b->whole->broadcast(b->whole->context, root, bytes, size);
}

/* The status, or 200 where the message names no rank. The victim's end closes its sockets, so that
 * the calls of the others fail, too. */
static int break_in_turn(const grail_comm *comm, void *user)
{
    failing_run *f = user;
    broken_comm b = {.whole = comm, .left = comm->rank == f->victim ? f->successes : INT64_MAX};
    const grail_comm broken = {.rank = comm->rank,
                               .size = comm->size,
                               .context = &b,
                               .send = send_or_break,
                               .receive = receive_or_break,
                               .broadcast = broadcast_or_break};
    grail_compress_options o = options_of(&f->run, &broken);
    o.output.path = NULL;
    alarm(HANGS_AFTER);
    const grail_status status = lab_compress_rank(&o, 1);
    const bool named = strstr(grail_error_message(), "rank ") != NULL;
    if (comm->rank == f->victim) {
        *f->made = b.left > 0 ? 0 : 1; /* whether a call failed */
    }
    return status == GRAIL_ERROR_IO && !named ? 200 : (int)status;
}

TEST(a_broken_connection_ends_all)
{
    failing_run f = {.run.selector = "obs", .made = ranks_shared(sizeof *f.made)};
    const int size = 3;
    int ended[RANKS_MOST];
    lab_open(&f.run.l);
    for (f.victim = 0; f.victim < size; f.victim++) {
        *f.made = 1;
        for (f.successes = 0; *f.made != 0; f.successes += 1 + f.successes / 2) {
            ranks_run(size, break_in_turn, &f, ended);
            for (int rank = 0; rank < size; rank++) {
                assert_int_equal(ended[rank], *f.made != 0 ? GRAIL_ERROR_IO : GRAIL_OK);
            }
        }
    }
    lab_close(&f.run.l);
}

/* The first rank, for there may be one chunk only. */
static int cancel_on_one_rank(void *user, const grail_eval_progress *progress)
{
    return *(const int *)user == 0;
}

static int measure_until_cancelled(const grail_comm *comm, void *user)
{
    failing_run *f = user;
    OWNED(grail_model) *model = NULL;
    grail_perplexity result = {0};
    int rank = comm->rank;
    const grail_compute compute = {.comm = comm};
    const grail_text_source source = {.path = f->run.l.calibration, .context = LAB_LENGTH};
    alarm(HANGS_AFTER);
    grail_status status = grail_model_open(lab_golden("llama3"), &model);
    if (status == GRAIL_OK) {
        status = grail_perplexity_measure(model, &source, 0, &compute, cancel_on_one_rank, &rank,
                                          &result);
    }
    return (int)status;
}

TEST(a_rank_that_is_cancelled_ends_all)
{
    failing_run f = {0};
    int ended[RANKS_MOST];
    lab_open(&f.run.l);
    ranks_run(2, measure_until_cancelled, &f, ended);
    assert_int_equal(ended[0], GRAIL_ERROR_CANCELLED);
    assert_int_equal(ended[1], GRAIL_ERROR_CANCELLED);
    lab_close(&f.run.l);
}

CMFixtureFunction support_setup = json_memory_use;
