/* Statistics as files: what runs and plans take from a file is what they would have counted, files
 * of parts add up to that of the whole, and what does not fit is refused. */
#include "vision_sites.h"

#include "base/file.h"
#include "base/random.h"
#include "base/record.h"
#include "format/gguf/gguf_write.h"
#include "stats/network_statistics.h"

#include <grail/gram.h>
#include <grail/plan.h>

#include <string.h>
#include <unistd.h>

static const char *count(const lab *l, grail_compress_options run, int full, const char *name)
{
    const char *path = lab_path(l, name);
    grail_gram_facts facts = {0};
    assert_ok(grail_gram_write(&run, &(grail_gram_options){.path = path, .full = full}, &facts));
    assert_true(facts.matrices > 0 && facts.bytes > 0);
    assert_int_equal(facts.grams > 0, full);
    return path;
}

static const char *compressed(const lab *l, grail_compress_options options, const char *name)
{
    options.output.path = lab_path(l, name);
    assert_ok(lab_compress(&options));
    return options.output.path;
}

static void take_no_samples(grail_compress_options *o)
{
    o->read.text.path = NULL;
    o->read.images = NULL;
}

/* -- what runs take ---------------------------------------------------------------------------- */

LAB_TEST(an_open_loop_takes_the_fits_of_a_pass)
{
    static const char *const selectors[] = {"wanda", "obs", "flap"};
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    const char *file = count(l, o, 1, "stats.gguf");
    o.fit.open_loop = 1;
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        char name[32];
        o.cut.selector = selectors[i];
        o.cut.statistics = NULL;
        snprintf(name, sizeof name, "pass-%zu", i);
        const char *passed = compressed(l, o, name);
        grail_compress_options taking = o;
        taking.cut.statistics = file;
        take_no_samples(&taking);
        snprintf(name, sizeof name, "file-%zu", i);
        assert_true(largest_weight_difference(passed, compressed(l, taking, name)) < 1e-5);
    }
}

/* Residual streams, channels, norms of inputs; convolutions by channel and by kernel position. */
VISION_TEST(image_networks_take_them_too)
{
    static const char *const fits[] = {"channel", "kernel"};
    const char *model = vision_network(v, VISION_BASIC, "model");
    for (int i = 0; i < 2; i++) {
        grail_compress_options o = vision_options(v, model, NULL);
        vision_cut(&o, 0.5);
        o.cut.selector = i == 0 ? "wanda" : "obs";
        o.fit.compensate = "grail";
        o.fit.conv_fit = fits[i];
        o.fit.open_loop = 1;
        const char *file = count(&v->l, o, 1, i == 0 ? "by-channel.gguf" : "by-kernel.gguf");
        const char *passed = compressed(&v->l, o, i == 0 ? "pass-0" : "pass-1");
        o.cut.statistics = file;
        take_no_samples(&o);
        const char *taken = compressed(&v->l, o, i == 0 ? "file-0" : "file-1");
        assert_near(vision_difference(v, passed, taken), 0.0, 1e-3);
        o.fit.conv_fit = fits[1 - i];
        o.output.path = vision_path(v, "out");
        assert_fails(lab_compress(&o), GRAIL_ERROR_ARGUMENT,
                     "and convolutions fitted in the same way");
    }
}

/* A diagonal is enough for these, and a closed loop reads samples for the fits alone. */
LAB_TEST(units_are_chosen_by_diagonals)
{
    static const char *const selectors[] = {"wanda", "flap"};
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    const char *file = count(l, o, 0, "imatrix.gguf");
    o.cut.select = "open";
    for (size_t i = 0; i < 2; i++) {
        o.cut.selector = selectors[i];
        o.cut.statistics = NULL;
        const char *passed = compressed(l, o, i == 0 ? "pass-0" : "pass-1");
        o.cut.statistics = file;
        assert_same_checkpoint(passed, compressed(l, o, i == 0 ? "file-0" : "file-1"));
        grail_compress_options plain = o;
        plain.fit.compensate = "none";
        take_no_samples(&plain);
        (void)compressed(l, plain, i == 0 ? "plain-0" : "plain-1");
    }
    o.cut.selector = "obs";
    o.output.path = lab_path(l, "out");
    assert_fails(lab_compress(&o), GRAIL_ERROR_ARGUMENT,
                 "imatrix.gguf' has no whole Gram matrix (.in_gram, which grail gram takes if "
                 "asked) of what 'blk.0.attn_output.weight' reads");
}

/* Writes what llama-imatrix writes: sums of squares and counts, and nothing of where they are from.
 */
static const char *as_foreign(const lab *l, const char *file, const char *name)
{
    enum { MOST = 64 };
    tensor_view kept[MOST];
    int64_t count = 0;
    gguf_pairs pairs = {0};
    tensor_writer *writer = NULL;
    const char *path = lab_path(l, name);
    OPENED(network_statistics, s, network_statistics_open(file, &s));
    for (int64_t i = 0; i < s->file->count; i++) {
        if (strstr(s->file->tensors[i].name, ".in_sum2") != NULL ||
            strstr(s->file->tensors[i].name, ".counts") != NULL) {
            assert_true(count < MOST);
            kept[count++] = s->file->tensors[i];
        }
    }
    gguf_pairs_init(&pairs);
    assert_ok(gguf_put_text(&pairs, "general.type", "imatrix"));
    assert_ok(gguf_writer_open(path, &pairs, count, kept, LAYOUT_NEW, &writer));
    for (int64_t i = 0; i < count; i++) {
        assert_ok(tensor_writer_put(writer, kept[i].name, kept[i].data, kept[i].bytes));
    }
    assert_ok(tensor_writer_seal(writer));
    tensor_writer_close(writer);
    gguf_pairs_fini(&pairs);
    return path;
}

LAB_TEST(files_of_other_tools_have_diagonals)
{
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    const char *own = count(l, o, 0, "own.gguf");
    o.cut.select = "open";
    o.fit.compensate = "none";
    take_no_samples(&o);
    o.cut.statistics = own;
    const char *expected = compressed(l, o, "expected");
    o.cut.statistics = as_foreign(l, own, "foreign.gguf");
    assert_same_checkpoint(expected, compressed(l, o, "foreign"));
    o.output.path = lab_path(l, "out");
    o.cut.selector = "flap";
    assert_fails(lab_compress(&o), GRAIL_ERROR_ARGUMENT,
                 "foreign.gguf' has no sums (.in_sum), which this selector needs, of what");
    o.cut.selector = "wanda";
    o.read.model = lab_f32(l, "qwen3", "other");
    assert_int_equal(lab_compress(&o), GRAIL_ERROR_ARGUMENT); /* of other widths or names */
    const char *const both[] = {own, lab_path(l, "foreign.gguf")};
    assert_fails(grail_gram_add(2, both, &(grail_gram_options){.path = o.output.path}, NULL),
                 GRAIL_ERROR_ARGUMENT, "does not say of which model and context it is");
}

static grail_plan *planned(grail_compress_options run, const char *budget)
{
    grail_plan *p = NULL;
    grail_plan_options o;
    grail_plan_options_init(&o);
    o.compress = run;
    o.compress.amount.sparsity_ffn = o.compress.amount.sparsity_heads = 0.0;
    o.budget = budget;
    o.ratio = 0.7;
    assert_ok(grail_plan_make(&o, &p));
    return p;
}

LAB_TEST(plans_take_them_instead_of_samples)
{
    static const char *const budgets[] = {"error", "flap"};
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    const char *file = count(l, o, 1, "stats.gguf");
    for (size_t i = 0; i < 2; i++) {
        grail_compress_options taking = o;
        taking.cut.statistics = file;
        take_no_samples(&taking);
        OWNED(grail_plan) *passed = planned(o, budgets[i]);
        OWNED(grail_plan) *taken = planned(taking, budgets[i]);
        assert_string_equal(grail_plan_text(passed), grail_plan_text(taken));
    }
}

/* -- adding ------------------------------------------------------------------------------------ */

enum { HALF_ROWS = 128, ROW = 64 };

/* Rows [begin, begin + rows) of random ids, as .npy. */
static void write_rows(const lab *l, const char *name, int64_t begin, int64_t rows)
{
    enum { VOCABULARY = 96, HEADER = 128, PREFIX = 10 };
    OWNED(buffer) file = {0};
    random_state random;
    char header[HEADER];
    buffer_init(&file, SIZE_MAX / 4);
    memset(header, ' ', HEADER);
    memcpy(header, "\x93NUMPY\x01\x00\x76\x00", PREFIX);
    const int length = snprintf(header + PREFIX, HEADER - PREFIX,
                                "{'descr': '<i4', 'fortran_order': False, 'shape': (%lld, %d)}",
                                (long long)rows, ROW);
    header[PREFIX + length] = ' ';
    header[HEADER - 1] = '\n';
    assert_ok(buffer_append(&file, header, HEADER));
    random_seed(&random, 11, 0);
    for (int64_t i = 0; i < (begin + rows) * ROW; i++) {
        const int32_t id = (int32_t)random_below(&random, VOCABULARY);
        if (i >= begin * ROW) {
            assert_ok(buffer_append(&file, &id, sizeof id));
        }
    }
    support_write_file(l->directory, name, file.bytes, file.size);
}

static const char *count_rows(const lab *l, grail_compress_options o, const char *rows,
                              const char *name)
{
    o.read.text.path = lab_path(l, rows);
    o.read.text.context = ROW;
    return count(l, o, 1, name);
}

/* The rows that are held out are the same ones: batches of 32 rows, of which both halves have
 * four. */
LAB_TEST(halves_add_up_to_the_whole)
{
    write_rows(l, "first.npy", 0, HALF_ROWS);
    write_rows(l, "second.npy", HALF_ROWS, HALF_ROWS);
    write_rows(l, "all.npy", 0, (int64_t)2 * HALF_ROWS);
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    o.read.samples = HALF_ROWS;
    const char *const halves[] = {count_rows(l, o, "first.npy", "first.gguf"),
                                  count_rows(l, o, "second.npy", "second.gguf")};
    o.read.samples = (int64_t)2 * HALF_ROWS;
    const char *whole = count_rows(l, o, "all.npy", "whole.gguf");
    grail_gram_facts facts = {0};
    const char *sum = lab_path(l, "sum.gguf");
    assert_ok(grail_gram_add(2, halves, &(grail_gram_options){.path = sum}, &facts));
    assert_int_equal(facts.samples, 2 * HALF_ROWS);
    o.read.samples = 0;
    o.fit.open_loop = 1;
    take_no_samples(&o);
    o.cut.statistics = whole;
    const char *of_whole = compressed(l, o, "of-whole");
    OWNED(grail_plan) *plan_of_whole = planned(o, "error");
    o.cut.statistics = sum;
    assert_true(largest_weight_difference(of_whole, compressed(l, o, "of-sum")) < 1e-6);
    OWNED(grail_plan) *plan_of_sum = planned(o, "error");
    OWNED(json_t) *a = json_loads(grail_plan_text(plan_of_whole), 0, NULL);
    OWNED(json_t) *b = json_loads(grail_plan_text(plan_of_sum), 0, NULL);
    assert_true(json_equal(json_object_get(a, "sites"), json_object_get(b, "sites")));
}

static void assert_adds_not(const lab *l, const char *a, const char *b, const char *message)
{
    const char *const paths[] = {a, b};
    const char *sum = lab_path(l, "no-sum.gguf");
    assert_fails(grail_gram_add(2, paths, &(grail_gram_options){.path = sum}, NULL),
                 GRAIL_ERROR_ARGUMENT, message);
    assert_int_equal(access(sum, F_OK), -1);
}

LAB_TEST(other_statistics_do_not_add_up)
{
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    const char *one = count(l, o, 0, "one.gguf");
    assert_adds_not(l, one, count(l, o, 1, "full.gguf"), "whole Gram matrices for all or none");
    assert_adds_not(l, lab_path(l, "full.gguf"), one, "whole Gram matrices for all or none");
    o.read.text.context = LAB_LENGTH / 2;
    assert_adds_not(l, one, count(l, o, 0, "context.gguf"), "with a context of 32 and '");
    o.read.text.context = 0;
    o.run.backend = "ref";
    assert_adds_not(l, one, count(l, o, 0, "ref.gguf"), "with the precision 'cpu f32' and '");
    o.run.backend = "cpu";
    o.read.model = lab_f32(l, "qwen2", "other");
    assert_adds_not(l, one, count(l, o, 0, "other.gguf"), "statistics of different models");
}

/* -- what is recorded -------------------------------------------------------------------------- */

LAB_TEST(a_result_remembers_what_its_statistics_saw)
{
    const char *model = lab_f32(l, "llama3", "model");
    grail_compress_options o = lab_options(l, model, NULL);
    o.cut.statistics = count(l, o, 1, "stats.gguf");
    o.fit.open_loop = 1;
    const grail_text_source seen = o.read.text;
    take_no_samples(&o);
    const char *narrow = compressed(l, o, "narrow");
    grail_perplexity p = {0};
    OPENED(grail_model, m, grail_model_open(narrow, &m));
    assert_ok(grail_perplexity_measure(m, &seen, 0, NULL, NULL, NULL, &p));
    assert_int_equal(p.is_calibration, 1);
    assert_true(p.calibration_runs > 0 && p.overlap_runs == p.calibration_runs);
}

LAB_TEST(a_continued_run_wants_the_same_file)
{
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    o.cut.statistics = count(l, o, 1, "stats.gguf");
    o.cut.select = "open";
    const char *whole = compressed(l, o, "whole");
    o.output.path = lab_path(l, "parts");
    o.run.observer = vision_stop_behind_first_block;
    assert_int_equal(lab_compress(&o), GRAIL_ERROR_CANCELLED);
    o.run.observer = NULL;
    o.output.resume = 1;
    grail_compress_options other = o;
    other.cut.statistics = count(l, o, 0, "other.gguf");
    assert_fails(lab_compress(&other), GRAIL_ERROR_ARGUMENT,
                 "was started with other options or files: ");
    other.cut.statistics = NULL;
    assert_int_equal(lab_compress(&other), GRAIL_ERROR_ARGUMENT);
    assert_ok(lab_compress(&o));
    assert_same_checkpoint(whole, o.output.path);
}

/* -- refusals ---------------------------------------------------------------------------------- */

LAB_TEST(statistics_of_another_model_are_refused)
{
    lab_model m;
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    o.cut.statistics = count(l, o, 1, "stats.gguf");
    o.fit.open_loop = 1;
    o.output.path = lab_path(l, "out");
    o.run.backend = "ref";
    assert_fails(lab_compress(&o), GRAIL_ERROR_ARGUMENT,
                 "was computed in cpu f32, and this run computes in ref f64");
    assert_string_equal(grail_error_fields(), "cut.statistics");
    o.run.backend = "cpu";
    lab_read(&m, lab_golden("llama3"));
    lab_find(&m, 1, "mlp.up_proj.weight")->values[0] += 1.0F;
    o.read.model = lab_path(l, "changed");
    lab_write(&m, o.read.model, GRAIL_DTYPE_F32);
    lab_fini(&m);
    assert_fails(lab_compress(&o), GRAIL_ERROR_ARGUMENT, "holds statistics of another model than");
    o.cut.statistics = lab_path(l, "model/model.safetensors");
    assert_int_equal(lab_compress(&o), GRAIL_ERROR_FORMAT);
    o.cut.statistics = lab_path(l, "nothing.gguf");
    assert_int_equal(lab_compress(&o), GRAIL_ERROR_IO);
}

static int stop(void *user, int block, int blocks, double done)
{
    return ++*(int *)user > 1 && block == 1;
}

LAB_TEST(a_pass_that_was_stopped_leaves_no_file)
{
    int calls = 0;
    lab_model m;
    const char *path = lab_path(l, "stats.gguf");
    grail_gram_options to = {.path = path, .full = 1};
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    o.run.step_observer = stop;
    o.run.observer_user = &calls;
    assert_int_equal(grail_gram_write(&o, &to, NULL), GRAIL_ERROR_CANCELLED);
    assert_int_equal(access(path, F_OK), -1);
    o.run.step_observer = NULL;
    to.resume = 1;
    assert_ok(grail_gram_write(&o, &to, NULL));
    assert_int_equal(grail_gram_write(&o, &to, NULL), GRAIL_ERROR_EXISTS);
    lab_read(&m, lab_golden("llama3"));
    lab_find(&m, 1, "mlp.up_proj.weight")->values[3] = 3e38F;
    o.read.model = lab_path(l, "huge");
    lab_write(&m, o.read.model, GRAIL_DTYPE_F32);
    lab_fini(&m);
    const grail_gram_options other = {.path = lab_path(l, "huge.gguf")};
    assert_int_equal(grail_gram_write(&o, &other, NULL), GRAIL_ERROR_NUMERIC);
    assert_int_equal(access(other.path, F_OK), -1);
    assert_int_equal(access(lab_path(l, "huge.gguf.partial"), F_OK), -1);
    assert_fails(grail_gram_write(&o, &(grail_gram_options){0}, NULL), GRAIL_ERROR_ARGUMENT,
                 "path");
    o.read.text.path = NULL;
    assert_int_equal(grail_gram_write(&o, &other, NULL), GRAIL_ERROR_ARGUMENT);
}

/* -- going on ---------------------------------------------------------------------------------- */

typedef struct interruption {
    int calls, cancel_at;
} interruption;

static int interrupt(void *user, int block, int blocks, double done)
{
    interruption *i = user;
    i->calls++;
    return i->calls == i->cancel_at;
}

static void assert_same_file(const char *one, const char *other)
{
    OWNED(buffer) a = {0};
    OWNED(buffer) b = {0};
    assert_ok(file_read(one, 1 << 24, &a));
    assert_ok(file_read(other, 1 << 24, &b));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.bytes, b.bytes, a.size);
}

/* Whenever it is cancelled, what is counted is not counted again, and the file is the same. */
LAB_TEST(a_count_that_is_cancelled_goes_on)
{
    interruption i = {0};
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    o.run.step_observer = interrupt;
    o.run.observer_user = &i;
    const char *whole = count(l, o, 1, "whole.gguf");
    const int steps = i.calls;
    assert_true(steps > 2);
    for (int at = 1; at <= steps; at++) {
        grail_gram_options options = {.path = lab_path(l, "file.gguf"), .full = 1};
        i = (interruption){.cancel_at = at};
        assert_fails(grail_gram_write(&o, &options, NULL), GRAIL_ERROR_CANCELLED, "cancelled");
        assert_false(file_exists(options.path));
        assert_fails(grail_gram_write(&o, &options, NULL), GRAIL_ERROR_EXISTS,
                     "holds an interrupted run");
        i = (interruption){0};
        options.resume = 1;
        assert_ok(grail_gram_write(&o, &options, NULL));
        assert_same_file(whole, options.path);
        assert_int_equal(unlink(options.path), 0);
    }
}

typedef enum forgery { NO_TENSORS, ANOTHER_BLOCKS_TENSORS, NO_ENERGY, FORGERIES } forgery;

/* Changes what a log says of block 0. */
static void forge(json_t *entries, forgery how)
{
    json_t *entry = json_array_get(entries, json_array_size(entries) - 1);
    json_t *own = json_object_get(entry, "tensors");
    assert_int_equal(json_integer_value(json_object_get(entry, "block")), 0);
    assert_true(json_object_size(own) > 0);
    if (how == NO_TENSORS) {
        json_object_clear(own);
    } else if (how == ANOTHER_BLOCKS_TENSORS) {
        char name[128];
        json_t *others = json_object();
        for (void *i = json_object_iter(own); i != NULL; i = json_object_iter_next(own, i)) {
            snprintf(name, sizeof name, "%s", json_object_iter_key(i));
            *strchr(name, '0') = '1';
            assert_int_equal(json_object_set(others, name, json_object_iter_value(i)), 0);
        }
        assert_int_equal(json_object_set_new(entry, "tensors", others), 0);
    } else {
        assert_int_equal(json_object_set_new(entry, "energy", json_null()), 0);
    }
}

/* Whatever a log says, what it does not record is not taken for counted. */
LAB_TEST(a_block_without_its_tensors_is_refused)
{
    static const char *const said[FORGERIES] = {"does not record tensor '",
                                                "does not record tensor '",
                                                "does not record the energy behind block "};
    interruption i = {0};
    OWNED(buffer) text = {0};
    grail_compress_options o = lab_options(l, lab_f32(l, "llama3", "model"), NULL);
    grail_gram_options options = {.path = lab_path(l, "file.gguf"), .full = 1};
    const char *log = lab_path(l, "file.gguf.partial/grail-state.jsonl");
    o.run.step_observer = interrupt;
    o.run.observer_user = &i;
    (void)count(l, o, 1, "whole.gguf");
    i = (interruption){.cancel_at = i.calls - 1};
    assert_int_equal(grail_gram_write(&o, &options, NULL), GRAIL_ERROR_CANCELLED);
    assert_ok(file_read(log, 1 << 20, &text));
    options.resume = 1;
    for (int how = 0; how < FORGERIES; how++) {
        OWNED(buffer) forged = {.maximum = 1 << 20};
        OPENED(json_t, entries, record_parse(log, text.bytes, text.size, &entries));
        forge(entries, (forgery)how);
        for (size_t k = 0; k < json_array_size(entries); k++) {
            assert_ok(record_append_line(json_array_get(entries, k), &forged));
        }
        support_write_file(lab_path(l, "file.gguf.partial"), "grail-state.jsonl", forged.bytes,
                           forged.size);
        assert_fails(grail_gram_write(&o, &options, NULL), GRAIL_ERROR_FORMAT, said[how]);
    }
    support_write_file(lab_path(l, "file.gguf.partial"), "grail-state.jsonl", text.bytes,
                       text.size);
    assert_ok(grail_gram_write(&o, &options, NULL));
}
