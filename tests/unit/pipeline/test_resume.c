/* Interrupted runs: continued to the same bytes from wherever they stopped, refused where anything
 * that decides the bytes differs, and torn state. */
#include "lab.h"

#include "base/file.h"
#include "base/json.h"
#include "base/record.h"
#include "format/weights/checkpoint.h"
#include "support/json_memory.h"

#include <grail/machine.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCKS = 2, SITES_PER_BLOCK = 2, CALLS = BLOCKS * (SITES_PER_BLOCK + 1) };

/* Cancels at one of the observer's calls. */
typedef struct interruption {
    int calls;
    int cancel_at; /* 0 = never */
    int blocks_done;
} interruption;

static int observe(void *user, const grail_site_report *site, int block, int blocks,
                   double seconds_left)
{
    interruption *i = user;
    assert_int_equal(blocks, BLOCKS);
    i->calls++;
    i->blocks_done += site == NULL ? 1 : 0;
    return i->calls == i->cancel_at;
}

static const char *partial_of(const lab *l, const char *output)
{
    char name[64];
    snprintf(name, sizeof name, "%s.partial", output);
    return lab_path(l, name);
}

static grail_status run_until(grail_compress_options options, int cancel_at, interruption *i)
{
    *i = (interruption){.cancel_at = cancel_at};
    options.run.observer = observe;
    options.run.observer_user = i;
    return lab_compress(&options);
}

/* What the report of the run in `directory` says about fits; all but the seconds is repeated. */
static void assert_same_fits(const char *directory, const json_t *again)
{
    static const char *const keys[] = {"alpha", "held_error_after", "fallback", "consumers",
                                       "tied"};
    OWNED(json_t) *report = read_json(directory, "report.json");
    const json_t *left = json_object_get(report, "sites");
    const json_t *right = json_object_get(again, "sites");
    const json_t *refits = json_object_get(report, "refits");
    assert_true(refits == json_object_get(again, "refits") ||
                json_equal(refits, json_object_get(again, "refits")));
    assert_int_equal(json_array_size(left), json_array_size(right));
    for (size_t i = 0; i < json_array_size(left); i++) {
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            const json_t *value = json_object_get(json_array_get(left, i), keys[k]);
            const json_t *other = json_object_get(json_array_get(right, i), keys[k]);
            assert_true(value == other || json_equal(value, other));
        }
    }
}

/* Stops at every place where a run can be stopped, and continues. Runs that train
 * blocks stop at other places with other memory. */
static void assert_resumes(const lab *l, const char *model, const char *selector,
                           const char *compensate, const char *refit, int64_t memory)
{
    char output[LAB_PATH + 16];
    interruption i;
    const bool trains = strcmp(selector, "wanda++") == 0;
    const char *whole = lab_path_of(l, "%s-%s-%s-%s-%d", strrchr(model, '/') + 1, selector,
                                    compensate, refit == NULL ? "" : refit, (int)memory);
    grail_compress_options options = lab_options(l, model, whole);
    options.cut.selector = selector;
    options.fit.compensate = compensate;
    options.fit.refit = refit;
    options.fit.token_weights = strcmp(compensate, "own") == 0 ? NULL : options.fit.token_weights;
    options.run.memory = memory;
    assert_ok(run_until(options, 0, &i));
    assert_int_equal(i.calls, CALLS);
    options.output.path = output;
    for (int at = 1; at <= CALLS; at++) {
        if (trains && !support_takes(at + memory, 2)) {
            continue;
        }
        snprintf(output, sizeof output, "%s-%d", whole, at);
        options.output.resume = 0;
        assert_fails(run_until(options, at, &i), GRAIL_ERROR_CANCELLED, "cancelled");
        assert_false(file_exists(output));
        options.output.resume = 1;
        options.run.memory = 0; /* what was kept is decided at the first start */
        assert_ok(run_until(options, 0, &i));
        options.run.memory = memory;
        assert_same_checkpoint(whole, output);
        json_t *report = read_json(output, "report.json");
        assert_int_equal(json_is_true(json_object_get(report, "kept_activations")), memory == 0);
        assert_same_fits(whole, report);
        json_decref(report);
        assert_int_equal(i.blocks_done, at <= SITES_PER_BLOCK ? 2 : 2 - at / (SITES_PER_BLOCK + 1));
    }
}

LAB_TEST(a_pruning_continues_to_the_same_bytes)
{
    assert_resumes(l, lab_golden("llama3-sharded"), "wanda", "full", NULL, 0);
    assert_resumes(l, lab_golden("llama-mha"), "wanda", "full", NULL, 0);
    assert_resumes(l, lab_golden("qwen2"), "wanda", "none", NULL, 0);
    assert_resumes(l, lab_golden("qwen2"), "magnitude-l2", "none", NULL, 0);
    assert_resumes(l, lab_with_biases(l, "llama3", "biased"), "flap", "own", NULL, 0);
}

/* Its weights are those of the records, its decisions are made before the walk meets the sites. */
LAB_TEST(a_trained_block_continues_to_the_same_bytes)
{
    assert_resumes(l, lab_golden("llama3"), "wanda++", "own", NULL, 0);
    assert_resumes(l, lab_golden("llama3"), "wanda++", "own", NULL, 1);
}

/* Neurons of the first layer that never fire; how the units were chosen is remembered. */
LAB_TEST(a_tie_is_remembered)
{
    lab_model m;
    grail_site_report reports[4];
    lab_read(&m, lab_golden("llama3"));
    lab_tensor *gate = lab_find(&m, 0, "mlp.gate_proj.weight");
    memset(gate->values, 0, (size_t)lab_elements(gate) * sizeof gate->values[0]);
    const char *model = lab_path(l, "silent");
    lab_write(&m, model, GRAIL_DTYPE_F32);
    lab_fini(&m);
    grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
    options.cut.selector = "flap-ifv";
    assert_int_equal(lab_compress_reports(&options, reports, 4), 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(reports[i].tied, i == 1);
    }
    assert_resumes(l, model, "flap-ifv", "full", NULL, 0);
}

LAB_TEST(a_folding_continues_to_the_same_bytes)
{
    assert_resumes(l, lab_golden("llama3"), "fold", "full", NULL, 0);
    assert_resumes(l, lab_golden("qwen3"), "fold", "none", NULL, 0);
    assert_resumes(l, lab_golden("mistral"), "fold", "grail", NULL, 0);
}

LAB_TEST(a_run_that_recomputes_continues_to_the_same_bytes)
{
    assert_resumes(l, lab_golden("llama3"), "wanda", "full", NULL, 1);
    assert_resumes(l, lab_golden("llama3"), "fold", "grail", NULL, 1);
}

LAB_TEST(a_run_with_refits_continues_to_the_same_bytes)
{
    assert_resumes(l, lab_golden("qwen2"), "wanda", "full", "all", 0);
    assert_resumes(l, lab_golden("phi3"), "wanda", "full", "all", 0);
    assert_resumes(l, lab_golden("gpt2"), "fold", "full", "all", 0);
    assert_resumes(l, lab_golden("gemma"), "wanda", "full", "all", 0);
    assert_resumes(l, lab_golden("llama3"), "fold", "full", "all", 1);
}

/* Norms over all heads are rescaled, and of finished blocks read back. */
LAB_TEST(a_cut_norm_continues_to_the_same_bytes)
{
    assert_resumes(l, lab_golden("olmo2"), "wanda", "full", "all", 0);
    assert_resumes(l, lab_golden("olmo3"), "obs", "grail", NULL, 1);
}

LAB_TEST(resume_without_a_beginning_begins)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    options.output.resume = 1;
    assert_ok(lab_compress(&options));
    assert_true(file_exists(lab_path(l, "out/report.json")));
    assert_false(file_exists(lab_path(l, "out/grail-state.jsonl")));
}

/* An interrupted run in "out.partial", stopped in the second block. */
static grail_compress_options interrupted(const lab *l, const char *model)
{
    interruption i;
    grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
    options.read.samples = 12;
    assert_fails(run_until(options, SITES_PER_BLOCK + 2, &i), GRAIL_ERROR_CANCELLED,
                 "block 2 of 2");
    options.output.resume = 1;
    return options;
}

/* Another value of the field's range than the one it has. */
static void change(const grail_option *o, void *options)
{
    static const grail_number given = {GRAIL_NUMBER_GIVEN, 0.5};
    static const grail_colour grey = {1, {0.5, 0.5, 0.5}};
    char *at = (char *)options + o->offset;
    const char *text = NULL;
    int64_t whole = 0;
    double real = 0.0;
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
    case GRAIL_OPTION_CHOICE:
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
    case GRAIL_OPTION_SEED: /* little-endian; an int grows alike */
        memcpy(&whole, at, o->size);
        whole++;
        memcpy(at, &whole, o->size);
        return;
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SPARSITY:
    case GRAIL_OPTION_SECONDS:
        memcpy(&real, at, sizeof real);
        real += 0.125;
        memcpy(at, &real, sizeof real);
        return;
    case GRAIL_OPTION_NUMBER:
        memcpy(at, &given, sizeof given);
        return;
    case GRAIL_OPTION_COLOUR:
        memcpy(at, &grey, sizeof grey);
        return;
    case GRAIL_OPTION_WORD:
        memcpy(&text, at, sizeof text);
        text = o->words[strcmp(text, o->words[0]) == 0 ? 1 : 0];
        break;
    case GRAIL_OPTION_TEXT:
        text = o->words == NULL ? "/tmp" : o->words[2];
        break;
    case GRAIL_OPTION_SELECTOR:
        text = "magnitude-l2";
        break;
    case GRAIL_OPTION_BACKEND:
        text = "ref";
        break;
    case GRAIL_OPTION_ROOM: /* holds nothing */
        return;
    }
    memcpy(at, &text, sizeof text);
}

/* Words that were left open become the first of their lists. */
static void choose_words(grail_compress_options *options)
{
    const grail_option *o = NULL;
    for (int i = 0; (o = grail_compress_option_at(i)) != NULL; i++) {
        char *at = (char *)options + o->offset;
        const char *text = NULL;
        memcpy(&text, at, sizeof text);
        if (o->type == GRAIL_OPTION_WORD && text == NULL) {
            memcpy(at, &o->words[0], sizeof text);
        }
    }
}

/* What leads to the same bytes. */
static bool may_change(const grail_option *o)
{
    static const char *const fields[] = {"run.memory",    "run.scratch",   "run.profile",
                                         "run.time",      "output.resume", "output.keep_non_finite",
                                         "output.dry_run"};
    bool found = o->type == GRAIL_OPTION_ROOM;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        found = found || strcmp(o->field, fields[i]) == 0;
    }
    return found;
}

LAB_TEST(every_option_that_decides_is_compared)
{
    interruption i;
    grail_compress_options options =
        lab_options(l, lab_with_biases(l, "llama3", "biased"), lab_path(l, "out"));
    options.read.samples = 12;
    options.heal.what = "block";
    options.heal.steps = 1;
    choose_words(&options);
    assert_fails(run_until(options, SITES_PER_BLOCK + 2, &i), GRAIL_ERROR_CANCELLED,
                 "block 2 of 2");
    options.output.resume = 1;
    for (int k = 0; grail_compress_option_at(k) != NULL; k++) {
        const grail_option *o = grail_compress_option_at(k);
        grail_compress_options other = options;
        if (strcmp(o->field, "cut.statistics") == 0 || strcmp(o->field, "cut.metric") == 0 ||
            strcmp(o->field, "output.quantize") == 0) {
            continue; /* a file that must exist: test_gram.c; nothing without selectors that take
                         one: test_fisher.c; nothing beside healing: cli/test_quantize.sh */
        }
        change(o, &other);
        if (strcmp(o->field, "run.precision") == 0 && !lab_computes_bf16(o->field)) {
            continue;
        }
        other.output.resume = 1;
        const grail_status status = lab_opens(&other);
        assert_int_equal(o->decides != 0, !may_change(o));
        if (may_change(o)) {
            assert_ok(status);
        } else {
            assert_fails(status, GRAIL_ERROR_ARGUMENT, "was started with other options");
            assert_string_equal(grail_error_fields(), o->field);
            assert_non_null(strstr(grail_error_message(), o->field));
        }
    }
    assert_ok(lab_compress(&options)); /* no refusal has hurt it */
}

LAB_TEST(what_a_default_stands_for_is_no_difference)
{
    grail_compress_options options = interrupted(l, lab_golden("llama3"));
    options.cut.select = "closed";
    options.fit.target = "mixed";
    options.fit.alpha.choice = GRAIL_NUMBER_CROSS_VALIDATED;
    options.heal.what = "none";
    options.run.precision = "f32";
    assert_ok(lab_compress(&options));
}

LAB_TEST(other_data_and_threads_are_refused_by_name)
{
    const grail_compress_options options = interrupted(l, lab_golden("llama3"));
    grail_compress_options other = options;
    const int32_t ids[LAB_SAMPLES * LAB_LENGTH] = {0};
    const int threads = grail_threads();
    grail_set_threads(threads + 1);
    assert_fails(lab_compress(&other), GRAIL_ERROR_ARGUMENT, "threads");
    grail_set_threads(threads);
    other.read.model = lab_golden("llama3-bf16");
    assert_fails(lab_compress(&other), GRAIL_ERROR_ARGUMENT, "files");
    other = options;
    lab_write_ids(l, "other.npy", LAB_SAMPLES, LAB_LENGTH, ids);
    other.read.text.path = lab_path(l, "other.npy");
    assert_fails(lab_compress(&other), GRAIL_ERROR_ARGUMENT, "calibration");
}

LAB_TEST(a_model_that_changed_is_refused)
{
    char weights[LAB_PATH];
    const char *model = lab_f32(l, "llama3", "dense");
    const grail_compress_options options = interrupted(l, model);
    snprintf(weights, sizeof weights, "%s/model.safetensors", options.read.model);
    const struct timespec earlier[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    assert_int_equal(utimensat(AT_FDCWD, weights, earlier, 0), 0);
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "files");
}

static void read_state(const lab *l, buffer *text)
{
    *text = (buffer){0};
    assert_ok(file_read(lab_path(l, "out.partial/grail-state.jsonl"), (size_t)1 << 24, text));
}

static void write_state(const lab *l, const void *bytes, size_t size)
{
    support_write_file(partial_of(l, "out"), "grail-state.jsonl", bytes, size);
}

/* An earlier release did not record them. */
LAB_TEST(a_state_without_options_continues)
{
    OWNED(buffer) text;
    OWNED(buffer) older;
    grail_compress_options options = interrupted(l, lab_golden("llama3"));
    read_state(l, &text);
    const size_t length =
        (size_t)((char *)memchr(text.bytes, '\n', text.size) - (char *)text.bytes);
    OPENED(json_t, first, json_parse("state", text.bytes, length, &first));
    json_t *record = json_object_get(first, "record");
    assert_int_equal(json_object_del(record, "options"), 0);
    buffer_init(&older, text.size);
    assert_ok(record_append_line(record, &older));
    assert_ok(buffer_append(&older, text.bytes + length + 1, text.size - length - 1));
    write_state(l, older.bytes, older.size);
    options.fit.target = "local";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "plan.compensation.target was");
    options.fit.target = NULL;
    assert_ok(lab_compress(&options));
}

/* Flips a bit of a tensor in the unfinished files, where those of a finished result have it. */
static void damage_tensor(const lab *l, const char *finished, const char *unfinished,
                          const char *name)
{
    char path[LAB_PATH * 2];
    OPENED(checkpoint, c, checkpoint_open(lab_path(l, finished), &c));
    const int64_t i = checkpoint_index_of(c, name);
    const char *file = checkpoint_file_name(c, checkpoint_file_of(c, i));
    OWNED(file_map) map = {0};
    snprintf(path, sizeof path, "%s/%s/%s", l->directory, finished, file);
    assert_ok(file_map_open(&map, path));
    const tensor_view *tensor = checkpoint_at(c, i);
    const unsigned char *at = memmem(map.data, map.size, tensor->data, tensor->bytes);
    assert_non_null(at);
    snprintf(path, sizeof path, "%s/%s/%s", l->directory, unfinished, file);
    const int descriptor = open(path, O_RDWR);
    const off_t offset = at - map.data + 5;
    unsigned char byte = 0;
    assert_int_equal(pread(descriptor, &byte, 1, offset), 1);
    byte ^= 8;
    assert_int_equal(pwrite(descriptor, &byte, 1, offset), 1);
    close(descriptor);
}

LAB_TEST(a_torn_last_line_is_done_again)
{
    static const char torn[] = "{\"record\":{\"block\":1,\"sites\":[{\"site\":\"model.layers.1.sel";
    buffer text;
    interruption i;
    grail_compress_options options = interrupted(l, lab_golden("llama3"));
    read_state(l, &text);
    assert_ok(buffer_append(&text, torn, sizeof torn - 1));
    write_state(l, text.bytes, text.size);
    assert_fails(run_until(options, 1, &i), GRAIL_ERROR_CANCELLED, "block 2 of 2");
    assert_ok(run_until(options, 0, &i));
    assert_int_equal(i.blocks_done, 1);
    buffer_fini(&text);

    const char *whole = options.output.path;
    options.output.path = lab_path(l, "again");
    options.output.resume = 0;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(whole, options.output.path);
}

LAB_TEST(a_record_cut_short_is_done_again)
{
    OWNED(buffer) text;
    interruption i;
    const grail_compress_options options = interrupted(l, lab_golden("llama3"));
    read_state(l, &text);
    write_state(l, text.bytes, text.size - 10);
    assert_fails(run_until(options, SITES_PER_BLOCK + 2, &i), GRAIL_ERROR_CANCELLED,
                 "block 2 of 2");
    assert_int_equal(i.blocks_done, 1);
    assert_ok(run_until(options, 0, &i)); /* what was recorded since is not lost in the torn line */
    assert_int_equal(i.blocks_done, 1);
}

/* The first record is on disk before anything else is made. */
LAB_TEST(a_state_that_lost_its_first_record_is_refused)
{
    OWNED(buffer) text;
    const grail_compress_options options = interrupted(l, lab_golden("llama3"));
    read_state(l, &text);
    write_state(l, text.bytes, 20);
    assert_fails(lab_compress(&options), GRAIL_ERROR_EXISTS,
                 "does not come from an interrupted run: it holds 'result' but no record of a run; "
                 "move it away, or choose another output");
    assert_true(file_exists(lab_path(l, "out.partial/result/model.safetensors")));
}

/* Records with correct checksums, one of which does not belong there. */
LAB_TEST(a_record_without_its_sites_is_refused)
{
    OWNED(buffer) text;
    const grail_compress_options options = interrupted(l, lab_golden("llama3"));
    read_state(l, &text);
    OWNED(json_t) *wrong = json_pack("{s:i, s:[], s:{}}", "block", 0, "sites", "tensors");
    assert_ok(record_append_line(wrong, &text));
    write_state(l, text.bytes, text.size);
    assert_fails(lab_compress(&options), GRAIL_ERROR_FORMAT,
                 "has no record of site 'model.layers.0.self_attn.o_proj'");
}

LAB_TEST(a_changed_bit_in_the_state_is_named)
{
    OWNED(buffer) text;
    grail_compress_options options = interrupted(l, lab_golden("llama3"));
    char output[LAB_PATH];
    char model[LAB_PATH];
    snprintf(output, sizeof output, "%s", options.output.path); /* paths are used again */
    snprintf(model, sizeof model, "%s", options.read.model);
    options.output.path = output;
    options.read.model = model;
    read_state(l, &text);
    for (size_t at = 0; at < text.size; at += text.size / 50) {
        text.bytes[at] ^= 16;
        write_state(l, text.bytes, text.size);
        assert_fails(lab_compress(&options), GRAIL_ERROR_FORMAT,
                     "grail-state.jsonl' is damaged, or another version of grail wrote it: line ");
        text.bytes[at] ^= 16;
    }
    write_state(l, text.bytes, text.size);
    assert_ok(lab_compress(&options)); /* no refusal has hurt it */
}

TEST(a_changed_bit_in_a_finished_tensor_is_named)
{
    static const char name[] = "model.layers.0.mlp.down_proj.weight";
    static const char *const models[] = {"llama3", "llama3-sharded"};
    for (int m = 0; m < 2; m++) {
        OWNED(lab) l;
        lab_open(&l);
        grail_compress_options options = interrupted(&l, lab_golden(models[m]));
        options.output.path = lab_path(&l, "whole");
        options.output.resume = 0;
        assert_ok(lab_compress(&options));
        damage_tensor(&l, "whole", "out.partial/result", name);
        options.output.path = lab_path(&l, "out");
        options.output.resume = 1;
        assert_fails(lab_compress(&options), GRAIL_ERROR_FORMAT,
                     "tensor 'model.layers.0.mlp.down_proj.weight' in '");
        assert_fails(lab_compress(&options), GRAIL_ERROR_FORMAT, "is damaged: its checksum is ");
        damage_tensor(&l, "whole", "out.partial/result", name);
        assert_ok(lab_compress(&options));
    }
}

LAB_TEST(a_run_in_the_same_output_is_refused_while_one_goes_on)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    grail_compression *first = NULL;
    assert_ok(grail_compression_open(&options, &first));
    for (options.output.resume = 0; options.output.resume < 2; options.output.resume++) {
        assert_fails(lab_compress(&options), GRAIL_ERROR_EXISTS,
                     "wait until it ends, or choose another output");
    }
    options.output.resume = 1;
    assert_ok(grail_compression_run(first));
    assert_fails(lab_compress(&options), GRAIL_ERROR_EXISTS,
                 "wait until it ends, or choose another output");
    assert_ok(grail_compression_finish(first));
    grail_compression_close(first);
    assert_true(file_exists(lab_path(l, "out/report.json")));
}

/* -- memory ----------------------------------------------------------------------------------- */

static grail_status open_dry(void *context)
{
    grail_compress_options options = *(const grail_compress_options *)context;
    OWNED(grail_compression) *c = NULL;
    options.output.dry_run = 1;
    return grail_compression_open(&options, &c);
}

LAB_TEST(every_failing_allocation_of_opening_is_survived)
{
    grail_compress_options options = lab_options(l, lab_golden("qwen2"), lab_path(l, "out"));
    support_fail_each_allocation(open_dry, &options);
}

/* A complete run allocates too often to fail each time: every tenth or so, more sparsely later. */
LAB_TEST(failing_allocations_of_a_run_are_survived)
{
    if (!support_walks_failures()) {
        skip();
    }
    static const char *const selectors[] = {"wanda", "fold"};
    const char *model = lab_golden("llama3");
    for (int s = 0; s < 2; s++) {
        const char *output = lab_path(l, selectors[s]);
        grail_compress_options options = lab_options(l, model, output);
        grail_status status = GRAIL_ERROR_MEMORY;
        options.cut.selector = selectors[s];
        for (int64_t n = 1; status != GRAIL_OK; n = support_next_failure(n)) {
            support_remove_tree(partial_of(l, selectors[s]));
            support_remove_tree(output); /* of a failure behind the last step that counts */
            memory_fail_after(n);
            status = lab_compress(&options);
            memory_fail_after(-1);
            assert_true(status == GRAIL_OK || status == GRAIL_ERROR_MEMORY);
        }
        assert_true(file_exists(options.output.path));
    }
}

CMFixtureFunction support_setup = json_memory_use;
