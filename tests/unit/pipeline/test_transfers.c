/* What passes between a device and the host in a run: nothing for each batch or step of healing,
 * and little for each block, pass and judgement. */
#include "heal_lab.h"

#include "base/machine_memory.h"
#include "base/memory.h"
#include "base/random.h"
#include "heal/optimizer.h"
#include "pipeline/network/pass.h"
#include "pipeline/output/run_records.h"
#include "support/counted.h"

#include <grail/gram.h>
#include <grail/plan.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LENGTH = 64, VOCABULARY = 96, BATCH = 2048 / LENGTH };

/* Ids that make as many batches as that. */
static const char *write_batches(const lab *l, int64_t batches)
{
    OWNED(int32_t) *ids = NULL;
    random_state random;
    const char *name = lab_path_of(l, "%lld.npy", (long long)batches);
    const int64_t rows = batches * BATCH;
    random_seed(&random, 11, 0);
    assert_ok(memory_new_unset(&ids, (size_t)(rows * LENGTH), sizeof ids[0]));
    for (int64_t i = 0; i < rows * LENGTH; i++) {
        ids[i] = (int32_t)random_below(&random, VOCABULARY);
    }
    lab_write_ids(l, strrchr(name, '/') + 1, rows, LENGTH, ids);
    return name;
}

/* -- passes ------------------------------------------------------------------------------------ */

/* Calls of pass_run, the most of what one of them read, and what they read and were given
 * together. */
typedef struct passes {
    int64_t count, most, read, given;
} passes;

static passes passed;

grail_status __real_pass_run(sample_passes *s, const pass *p);
grail_status __wrap_pass_run(sample_passes *s, const pass *p);

grail_status __wrap_pass_run(sample_passes *s, const pass *p)
{
    const transfers before = counted;
    const grail_status status = __real_pass_run(s, p);
    const int64_t read = counted.downloads - before.downloads + counted.readings - before.readings;
    passed.count += read > 0;
    passed.read += read;
    passed.given += counted.uploads - before.uploads;
    passed.most = read > passed.most ? read : passed.most;
    return status;
}

typedef grail_status (*run_function)(const grail_compress_options *options);

/* The statistics of a network alone, with whole Gram matrices and the energy of blocks. */
static grail_status write_statistics(const grail_compress_options *options)
{
    grail_gram_options file = {0};
    grail_compress_options of = *options;
    file.path = options->output.path;
    file.full = 1;
    of.output.path = NULL;
    of.amount.sparsity_ffn = 0.0;
    return grail_gram_write(&of, &file, NULL);
}

/* What the passes of a run of that many batches read, which prints all that the run passes. */
static passes pass_batches(const lab *l, run_function run, grail_compress_options options,
                           int64_t batches)
{
    const transfers before = counted;
    passed = (passes){0};
    options.read.text.path = write_batches(l, batches);
    options.read.text.context = LENGTH;
    options.read.samples = batches * BATCH;
    options.output.path = lab_path_of(l, "%s-%s-%s-%lld.%s", options.run.backend,
                                      strrchr(options.read.model, '/') + 1, options.cut.selector,
                                      (long long)batches, run == write_statistics ? "gguf" : "out");
    assert_ok(run(&options));
    print_message("%s, %s, %s, %lld batches: %lld up (%lld KiB), %lld down (%lld KiB), "
                  "%lld read; in %lld passes %lld up, %lld down or read; %lld calls of PyTorch\n",
                  options.run.backend, strrchr(options.read.model, '/') + 1, options.cut.selector,
                  (long long)batches, (long long)(counted.uploads - before.uploads),
                  (long long)((counted.bytes_up - before.bytes_up) / 1024),
                  (long long)(counted.downloads - before.downloads),
                  (long long)((counted.bytes_down - before.bytes_down) / 1024),
                  (long long)(counted.readings - before.readings), (long long)passed.count,
                  (long long)passed.given, (long long)passed.read,
                  (long long)(counted.calls - before.calls));
    return passed;
}

/* A pass reads its status, the usual length of a row for the weights of rows, and behind a norm how
 * a drift is damped; of a router, in each batch and network, how many rows its outputs have. The
 * inputs of batches come from the host, in an upload for each of the two networks; the lists of a
 * folding do each time where the backend keeps none. */
static void check_run(const lab *l, run_function run, grail_compress_options options, int routers)
{
    enum { FEW = 4, MANY = 8 };
    const passes few = pass_batches(l, run, options, FEW);
    const passes many = pass_batches(l, run, options, MANY);
    assert_true(few.count > 0 && few.most <= 3 + 2 * routers * FEW &&
                many.most <= 3 + 2 * routers * MANY);
    assert_true(many.read >= few.read &&
                many.read - few.read <= many.count * 2 * routers * (MANY - FEW));
    const bool gives_lists =
        strcmp(options.cut.selector, "fold") == 0 && strstr(options.run.backend, "torch") == NULL;
    const int64_t most = options.fit.open_loop != 0 ? 1 : gives_lists ? 4 : 2;
    /* lists are there by then, but for one that those of experts have driven out */
    assert_true(many.given - few.given <= most * (MANY - FEW) + routers);
}

static void check_batches(const lab *l, grail_compress_options options)
{
    check_run(l, lab_compress, options, 0);
}

static grail_compress_options options_of(const char *golden, const char *kind)
{
    grail_compress_options options;
    grail_compress_options_init(&options);
    options.read.model = lab_golden(golden);
    options.amount.sparsity_ffn = 0.5;
    options.cut.align = 1;
    options.run.backend = kind;
    return options;
}

static void check_selectors(const lab *l, const char *kind)
{
    grail_compress_options options = options_of("llama3", kind);
    options.amount.sparsity_heads = 0.5;
    check_batches(l, options);
    options.cut.selector = "wanda";
    options.fit.token_weights = "none";
    check_batches(l, options);
    options.cut.selector = "slimgpt";
    options.fit.open_loop = 1;
    check_batches(l, options);
}

/* KiB, without what both networks embed. */
static int64_t given_to_a_block(const lab *l, grail_compress_options options)
{
    enum { BATCHES = 4, BLOCKS = 2, EMBEDDED = 512 };
    const int64_t before = counted.bytes_up;
    (void)pass_batches(l, lab_compress, options, BATCHES);
    return ((counted.bytes_up - before) / 1024 - 2 * BATCHES * EMBEDDED) / BLOCKS;
}

/* What is chosen by a weight takes it from where a pass has used it: with the 109 KiB of a block's
 * weights, and what its fits are given, go up less than those and the 36 KiB of its consumers. */
LAB_TEST(choices_take_weights_from_the_device)
{
    grail_compress_options options = options_of("llama3", "counted");
    options.amount.sparsity_heads = 0.5;
    options.cut.metric = "plain"; /* gradients have weights of their own */
    assert_true(given_to_a_block(l, options) < 180);
}

LAB_TEST(a_pass_reads_a_few_numbers_whatever_its_batches)
{
    check_selectors(l, "counted");
}

LAB_TEST(that_holds_with_norms_behind_sublayers)
{
    check_batches(l, options_of("olmo2", "counted"));
}

static grail_compress_options rounding_options(const char *kind)
{
    grail_compress_options options = options_of("llama3", kind);
    options.amount.sparsity_ffn = 0.6; /* leaves whole groups of 32 */
    options.output.quantize = "w8a16";
    options.cut.selector = "magnitude-l1"; /* which asks no pass of its own */
    return options;
}

LAB_TEST(that_holds_for_rounding_to_stored_types)
{
    check_batches(l, rounding_options("counted"));
}

static grail_compress_options folding_options(const char *kind)
{
    grail_compress_options options = options_of("llama3", kind);
    options.cut.selector = "fold";
    options.fit.target = "mixed";
    return options;
}

LAB_TEST(that_holds_for_mixed_targets_of_a_folding)
{
    check_batches(l, folding_options("counted"));
}

/* The target of merged units is W of all, 20 KiB of 293 that a block was given before. */
LAB_TEST(targets_take_weights_from_the_device)
{
    assert_true(given_to_a_block(l, folding_options("counted")) < 280);
}

LAB_TEST(that_holds_for_a_file_of_all_statistics)
{
    check_run(l, write_statistics, options_of("llama3", "counted"), 0);
}

/* Each of the two layers has one. */
LAB_TEST(a_router_is_read_once_in_a_batch_of_each_network)
{
    check_run(l, lab_compress, options_of("mixtral", "counted"), 1);
    check_run(l, lab_compress, options_of("qwen2-moe", "counted"), 1); /* with gates of rows */
}

static grail_compress_options gradient_options(const char *kind)
{
    grail_compress_options options = options_of("llama3", kind);
    options.cut.selector = "wanda++";
    return options;
}

/* What one run with more samples reads beyond one with fewer is less than a number for each. */
static void check_gradients(const lab *l, const char *kind)
{
    int64_t read[2];
    for (int i = 0; i < 2; i++) {
        const transfers before = counted;
        (void)pass_batches(l, lab_compress, gradient_options(kind), 4 * (i + 1));
        read[i] = counted.downloads - before.downloads + counted.readings - before.readings;
    }
    assert_true(read[1] - read[0] < 4 * BATCH);
}

LAB_TEST(gradients_of_samples_are_summed_without_a_reading)
{
    check_gradients(l, "counted");
}

/* Two trials, each judged by a quarter of the batches. */
static grail_status search_widths(const grail_compress_options *options)
{
    grail_plan_options search;
    OWNED(grail_plan) *made = NULL;
    grail_plan_options_init(&search);
    search.compress = *options;
    search.compress.output.path = NULL;
    search.compress.amount.sparsity_ffn = 0.0;
    search.limit = "params";
    search.ratio = 0.9;
    search.budget = "search";
    search.tries = 2;
    return grail_plan_make(&search, &made);
}

/* The sum over all rows of the batches that judge is read once. */
static void check_trials(const lab *l, const char *kind)
{
    for (int64_t batches = 4; batches <= 8; batches += 4) {
        const passes p = pass_batches(l, search_widths, options_of("llama3", kind), batches);
        assert_true(p.count > 0 && p.most <= 2);
    }
}

LAB_TEST(trials_of_a_search_are_judged_without_a_reading)
{
    check_trials(l, "counted");
}

/* A block, with its searches for NaN, its fits and the 40 neurons and 2 heads that go, takes less
 * than 7,000; twice as many for each search would be beyond these. Gradients come on top. */
static void check_calls(const lab *l, const char *kind)
{
    enum { BATCHES = 2, BLOCKS = 2 };
    grail_compress_options options = options_of("llama3", kind);
    options.amount.sparsity_heads = 0.5;
    options.cut.metric = "plain";
    const int64_t before = counted.calls;
    (void)pass_batches(l, lab_compress, options, BATCHES);
    assert_true(counted.calls - before < (int64_t)BLOCKS * 7500);
}

LAB_TEST(all_that_holds_on_pytorch)
{
    static const char *const kind = "counted torch";
    if (getenv("GRAIL_TORCH") == NULL) {
        print_message("skipped: GRAIL_TORCH names no PyTorch\n");
        skip();
    }
    check_calls(l, kind);
    check_selectors(l, kind);
    check_batches(l, options_of("olmo2", kind));
    check_batches(l, rounding_options(kind));
    check_batches(l, folding_options(kind));
    check_gradients(l, kind);
    check_trials(l, kind);
    check_run(l, lab_compress, options_of("qwen2-moe", kind), 1);
    check_run(l, write_statistics, options_of("llama3", kind), 0);
}

/* -- trainings --------------------------------------------------------------------------------- */

/* Steps that followed another one, and judgements, of the trainings of a run. */
typedef struct trainings {
    int64_t steps, judgements;
    int64_t given_to_steps, read_by_steps, read_by_judgements;
    transfers before;  /* the last of either began or ended */
    bool behind_steps; /* that was a step */
    int64_t spoils;    /* the step, counted from 1, behind which a weight becomes NaN; 0: none */
    int64_t taken;
    int64_t taken_at_home; /* in host memory */
} trainings;

static trainings trained;

/* What was read since the last call. */
static int64_t read_since(void)
{
    const transfers b = trained.before;
    trained.before = counted;
    return counted.downloads - b.downloads + counted.readings - b.readings;
}

static void spoil(matrix weight)
{
    OWNED(float) *values = NULL;
    assert_ok(memory_new(&values, (size_t)matrix_count(weight), sizeof values[0]));
    values[0] = NAN;
    assert_ok(matrix_upload_f32(weight, values));
}

grail_status __real_optimizer_step(optimizer *o, double rate);
grail_status __wrap_optimizer_step(optimizer *o, double rate);

grail_status __wrap_optimizer_step(optimizer *o, double rate)
{
    const grail_status status = __real_optimizer_step(o, rate);
    trained.taken_at_home += backend_is_host(o->gradients->backend);
    if (++trained.taken == trained.spoils) {
        spoil(o->parameters->entries[o->of[0].index].values);
    }
    const int64_t given = counted.uploads - trained.before.uploads;
    const int64_t read = read_since();
    trained.steps += trained.behind_steps;
    trained.given_to_steps += trained.behind_steps ? given : 0;
    trained.read_by_steps += trained.behind_steps ? read : 0;
    trained.behind_steps = true;
    return status;
}

grail_status __real_optimizer_begin_judgement(optimizer *o);
grail_status __wrap_optimizer_begin_judgement(optimizer *o);

grail_status __wrap_optimizer_begin_judgement(optimizer *o)
{
    const int64_t read = read_since();
    trained.judgements++;
    trained.read_by_judgements += trained.behind_steps ? read : 0;
    trained.behind_steps = false;
    return __real_optimizer_begin_judgement(o);
}

grail_status __real_optimizer_end_judgement(optimizer *o, bool is_best);
grail_status __wrap_optimizer_end_judgement(optimizer *o, bool is_best);

grail_status __wrap_optimizer_end_judgement(optimizer *o, bool is_best)
{
    const grail_status status = __real_optimizer_end_judgement(o, is_best);
    trained.read_by_judgements += read_since();
    return status;
}

/* Both heal the same on a device, which takes a step's windows at once, and on the host, which
 * takes them in four parts. */
static void check_losses(const heal_watch *device, const heal_watch *host)
{
    assert_true(device->count == host->count && host->count > 0);
    for (int i = 0; i < host->count; i++) {
        const grail_healing *a = heal_made(device, i);
        const grail_healing *b = heal_made(host, i);
        assert_near(a->held_before, b->held_before, 1e-5 * b->held_before);
        assert_near(a->held_after, b->held_after, 1e-3 * b->held_after);
    }
}

enum { BATCHES = 4, STEPS = 24 };

static grail_compress_options training_options_of(const lab *l, const char *kind, const char *what)
{
    grail_compress_options options = heal_run_options(l, lab_golden("llama3"), "healed", what);
    options.output.path = lab_path_of(l, "%s-%s", kind, what);
    options.read.text.path = write_batches(l, BATCHES);
    options.read.text.context = LENGTH;
    options.read.samples = BATCHES * BATCH;
    options.heal.steps = STEPS;
    options.run.backend = kind;
    return options;
}

/* Steps read nothing, and are given the ids of their windows where the network begins with them; a
 * judgement waits for the steps before it, and reads their status and then its loss. */
static void check_training(const lab *l, const char *kind, const char *what)
{
    heal_watch device = {0};
    heal_watch host = {0};
    grail_compress_options options = training_options_of(l, kind, what);
    trained = (trainings){.before = counted};
    assert_ok(heal_run(options, &device));
    print_message("%s, %s: %lld steps behind another one read %lld and were given %lld; %lld "
                  "judgements read %lld\n",
                  kind, what, (long long)trained.steps, (long long)trained.read_by_steps,
                  (long long)trained.given_to_steps, (long long)trained.judgements,
                  (long long)trained.read_by_judgements);
    assert_true(trained.steps >= STEPS / 4 && trained.judgements > 1);
    assert_int_equal(trained.read_by_steps, 0);
    assert_true(trained.read_by_judgements <= 2 * trained.judgements);
    /* Its windows, and those that the dense network sees for the first time. */
    assert_true(trained.given_to_steps <= (strcmp(what, "block") == 0 ? 0 : 2 * trained.steps));
    options.output.path = lab_path_of(l, "host-%s-%s", kind, what);
    options.run.backend = "cpu";
    assert_ok(heal_run(options, &host));
    check_losses(&device, &host);
}

LAB_TEST(steps_of_healing_read_nothing)
{
    check_training(l, "counted", "block");
    check_training(l, "counted", "model");
}

/* A limit that no network keeps to: blocks come up one by one, and what is made is the same, but
 * for the sum of both gradients of a table that is the head, too. */
static void check_streamed(const lab *l, const char *kind, const char *golden, bool same)
{
    heal_watch near = {0};
    heal_watch far = {0};
    grail_compress_options options = training_options_of(l, kind, "model");
    options.read.model = lab_golden(golden);
    options.output.path = lab_path_of(l, "near-%s", golden);
    trained = (trainings){.before = counted};
    assert_ok(heal_run(options, &near));
    assert_int_equal(trained.taken_at_home, 0);
    const char *whole = options.output.path;
    options.output.path = lab_path_of(l, "far-%s", golden);
    options.run.memory = 1;
    trained = (trainings){.before = counted};
    assert_ok(heal_run(options, &far));
    assert_true(trained.taken > 0 && trained.taken_at_home == trained.taken);
    if (same) {
        assert_same_checkpoint(whole, options.output.path);
    }
    check_losses(&far, &near);
    assert_true(heal_made(&far, 0)->held_after < heal_made(&far, 0)->held_before);
}

LAB_TEST(steps_of_healing_on_pytorch_read_nothing)
{
    if (getenv("GRAIL_TORCH") == NULL) {
        print_message("skipped: GRAIL_TORCH names no PyTorch\n");
        skip();
    }
    check_training(l, "counted torch", "block");
    check_training(l, "counted torch", "model");
    check_streamed(l, "counted torch", "gemma3", false);
}

/* The step behind it makes NaN, which the wait before the judgement finds: that one is not made,
 * and the training begins again with a lower rate. */
LAB_TEST(a_training_that_makes_nan_on_a_device_begins_again)
{
    heal_watch watch = {0};
    grail_compress_options options = training_options_of(l, "counted", "model");
    trained = (trainings){.before = counted};
    assert_ok(heal_run(options, &watch));
    const int64_t judgements = trained.judgements;
    options.output.path = lab_path(l, "spoilt");
    trained = (trainings){.before = counted, .spoils = 1};
    assert_ok(heal_run(options, &watch));
    const grail_healing *made = heal_made(&watch, 0);
    assert_true(trained.taken == STEPS && trained.judgements == judgements - 1);
    assert_true(made->best_step > 2 && made->held_after < made->held_before);
}

LAB_TEST(a_network_that_a_device_has_no_room_for_is_healed_block_by_block)
{
    check_streamed(l, "counted", "llama3", true);
    check_streamed(l, "counted", "gemma3", false);
}

/* What the host has available in place of the machine's memory; below 0: that. */
static int64_t available = -1;

machine_memory __real_machine_memory_read(const char *root);
machine_memory __wrap_machine_memory_read(const char *root);

machine_memory __wrap_machine_memory_read(const char *root)
{
    machine_memory m = __real_machine_memory_read(root);
    m.available = available >= 0 ? available : m.available;
    return m;
}

LAB_TEST(a_network_that_neither_has_room_for_is_not_healed)
{
    heal_watch watch = {0};
    grail_compress_options options = training_options_of(l, "counted", "model");
    options.run.memory = 1000;
    available = 100000;
    assert_fails(heal_run(options, &watch), GRAIL_ERROR_MEMORY,
                 "the device has room for 1e-06 GB, and the host has 0.0001 GB available");
    available = -1;
    options.output.resume = 1;
    assert_ok(heal_run(options, &watch));
}

LAB_TEST(what_comes_up_block_by_block_goes_on_where_it_was_stopped)
{
    grail_compress_options options = heal_brief(l, lab_golden("llama3"), "streamed", "model");
    options.output.path = lab_path(l, "streamed");
    options.run.backend = "counted";
    options.run.memory = 1;
    assert_heals_on(options, 4);
}

/* -- saves ------------------------------------------------------------------------------------- */

/* What was saved of trainings: four matrices for each parameter. */
typedef struct saves {
    bool slow;
    int64_t count, step; /* the steps of the last one */
} saves;

static saves saved;

grail_status __real_training_save(void *r, const optimizer *o, const training_state *state);
grail_status __wrap_training_save(void *r, const optimizer *o, const training_state *state);

grail_status __wrap_training_save(void *r, const optimizer *o, const training_state *state)
{
    const struct timespec long_time = {.tv_nsec = 600000000};
    saved.count++;
    saved.step = state->steps;
    if (saved.slow) {
        nanosleep(&long_time, NULL);
    }
    return __real_training_save(r, o, state);
}

/* A cancelled run is saved where it stands all the same, and goes on to the same bytes. */
LAB_TEST(a_long_save_is_not_made_at_each_judgement)
{
    heal_watch watch = {0};
    grail_compress_options options = training_options_of(l, "cpu", "model");
    saved = (saves){0};
    assert_ok(heal_run(options, &watch));
    const int judgements = (int)saved.count;
    assert_true(judgements > 8);
    const char *whole = options.output.path;
    options.output.path = lab_path(l, "cancelled");
    saved = (saves){.slow = true};
    watch.cancel_at = watch.calls - 2;
    assert_fails(heal_run(options, &watch), GRAIL_ERROR_CANCELLED, "cancelled after ");
    assert_true(saved.count < judgements / 2 && saved.step > STEPS / 2);
    options.output.resume = 1;
    watch.cancel_at = 0;
    saved = (saves){0};
    assert_ok(heal_run(options, &watch));
    assert_same_checkpoint(whole, options.output.path);
    assert_true(saved.count > 0 && saved.count < judgements / 2); /* it went on from there */
}

int main(void)
{
    counted_add();
    return support_run_tests();
}
