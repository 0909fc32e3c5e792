/* Perplexity and logits against the reference logits, comparisons of two networks, and text that
 * was calibrated on. */
#include "unit/pipeline/lab.h"

#include "eval/forward.h"
#include "support/json_memory.h"

#include <grail/machine.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WINDOWS = 2, LENGTH = 40, VOCABULARY = 96 }; /* of the golden files but the sharded one */

/* The golden ids as ids.npy in the laboratory. */
static grail_text_source golden_text(lab *l, const tensor_file *golden)
{
    const tensor_view *ids = tensor_file_find(golden, "ids");
    int32_t values[WINDOWS * LENGTH];
    for (int i = 0; i < WINDOWS * LENGTH; i++) {
        int64_t id = 0;
        memcpy(&id, (const unsigned char *)ids->data + (size_t)i * sizeof id, sizeof id);
        values[i] = (int32_t)id;
    }
    lab_write_ids(l, "golden.npy", WINDOWS, LENGTH, values);
    return (grail_text_source){.path = lab_path(l, "golden.npy")};
}

static tensor_file *open_golden(const char *name)
{
    tensor_file *golden = NULL;
    char path[LAB_PATH + 32];
    snprintf(path, sizeof path, "%s/golden.safetensors", lab_golden(name));
    assert_ok(safetensors_open(path, &golden));
    return golden;
}

static double logit(const tensor_file *golden, int window, int position, int id)
{
    float value = 0.0F;
    const size_t at = ((size_t)window * LENGTH + (size_t)position) * VOCABULARY + (size_t)id;
    memcpy(&value,
           (const unsigned char *)tensor_file_find(golden, "logits")->data + at * sizeof value,
           sizeof value);
    return (double)value;
}

static int golden_id(const tensor_file *golden, int window, int position)
{
    int64_t id = 0;
    memcpy(&id,
           (const unsigned char *)tensor_file_find(golden, "ids")->data +
               ((size_t)window * LENGTH + (size_t)position) * sizeof id,
           sizeof id);
    return (int)id;
}

/* -log softmax of the next token */
static double golden_nll(const tensor_file *golden, int window, int position)
{
    double sum = 0.0;
    for (int id = 0; id < VOCABULARY; id++) {
        sum += exp(logit(golden, window, position, id));
    }
    return log(sum) - logit(golden, window, position, golden_id(golden, window, position + 1));
}

LAB_TEST(perplexity_is_that_of_the_reference_logits)
{
    static const char *const backends[] = {"cpu", "ref"};
    double sum = 0.0;
    double square = 0.0;
    OWNED(tensor_file) *golden = open_golden("llama3");
    const grail_text_source text = golden_text(l, golden);
    for (int w = 0; w < WINDOWS; w++) {
        for (int t = 0; t + 1 < LENGTH; t++) {
            const double nll = golden_nll(golden, w, t);
            sum += nll;
            square += nll * nll;
        }
    }
    const double n = WINDOWS * (LENGTH - 1);
    const double mean = sum / n;
    OPENED(grail_model, model, grail_model_open(lab_golden("llama3"), &model));
    for (int b = 0; b < 2; b++) {
        grail_perplexity p;
        assert_ok(grail_perplexity_measure(
            model, &text, 0, &(grail_compute){.backend = backends[b]}, NULL, NULL, &p));
        assert_near(p.mean_nll, mean, 1e-5);
        assert_near(p.perplexity / exp(mean), 1.0, 1e-5);
        assert_near(p.error / (exp(mean) * sqrt((square / n - mean * mean) / (n - 1.0))), 1.0,
                    1e-3);
        assert_int_equal(p.windows, WINDOWS);
        assert_int_equal(p.context, LENGTH);
        assert_int_equal(p.stride, LENGTH);
        assert_int_equal(p.scored_tokens, WINDOWS * (LENGTH - 1));
        assert_int_equal(p.stream_tokens, WINDOWS * LENGTH);
        assert_string_equal(p.dtype, "F32");
        assert_string_equal(p.protocol, "plain");
        assert_string_equal(p.tokenizer_sha256, "");
        assert_int_equal(strlen(p.text_sha256), 64);
        assert_int_equal(p.calibration_runs, 0);
    }
}

typedef struct counter {
    int calls;
    int64_t done, total;
} counter;

static int stop_at_first_result(void *user, const grail_eval_progress *p)
{
    counter *c = user;
    if (p->done == 0) {
        return 0;
    }
    c->calls++;
    c->done = p->done;
    c->total = p->total;
    assert_true(p->so_far > 0.0);
    return 1;
}

static int count_passed(void *user, const grail_eval_progress *p)
{
    double *passed = user;
    assert_true(p->passed >= *passed && p->passed <= (double)p->total);
    assert_true(p->passed >= (double)p->done);
    *passed = p->passed;
    return 0;
}

static int stop_halfway(void *user, const grail_eval_progress *p)
{
    counter *c = user;
    c->calls++;
    c->done = p->done;
    c->total = p->total;
    assert_true(p->count == 0 && isnan(p->so_far));
    return p->passed > 0.5 * (double)p->total ? 1 : 0;
}

LAB_TEST(windows_are_told_of_on_their_way)
{
    grail_perplexity one;
    grail_comparison compared;
    counter c = {0};
    double passed = 0.0;
    OWNED(tensor_file) *golden = open_golden("qwen3");
    const grail_text_source text = golden_text(l, golden);
    OPENED(grail_model, model, grail_model_open(lab_golden("qwen3"), &model));
    assert_fails(grail_perplexity_measure(model, &text, 0, NULL, stop_halfway, &c, &one),
                 GRAIL_ERROR_CANCELLED, "cancelled after 0 of 2 windows");
    assert_true(c.calls > 1 && c.done == 0 && c.total == 2);
    assert_ok(grail_perplexity_measure(model, &text, 0, NULL, count_passed, &passed, &one));
    assert_true(passed == 2.0);
    passed = 0.0;
    assert_ok(grail_verify(model, model, &text, 2, NULL, count_passed, &passed, &compared));
    assert_true(passed == 2.0);
    c = (counter){0};
    assert_fails(grail_verify(model, model, &text, 2, NULL, stop_halfway, &c, &compared),
                 GRAIL_ERROR_CANCELLED, "cancelled after 0 of 2 windows");
}

LAB_TEST(the_first_windows_can_be_taken_and_a_measurement_stopped)
{
    grail_perplexity one;
    grail_perplexity two;
    counter c = {0};
    OWNED(tensor_file) *golden = open_golden("qwen3");
    const grail_text_source text = golden_text(l, golden);
    OPENED(grail_model, model, grail_model_open(lab_golden("qwen3"), &model));
    assert_ok(grail_perplexity_measure(model, &text, 1, NULL, NULL, NULL, &one));
    assert_ok(grail_perplexity_measure(model, &text, 2, NULL, NULL, NULL, &two));
    assert_int_equal(one.scored_tokens, LENGTH - 1);
    assert_true(one.mean_nll != two.mean_nll);
    double first = 0.0;
    for (int t = 0; t + 1 < LENGTH; t++) {
        first += golden_nll(golden, 0, t) / (LENGTH - 1);
    }
    assert_near(one.mean_nll, first, 1e-5);
    assert_fails(grail_perplexity_measure(model, &text, 3, NULL, NULL, NULL, &one),
                 GRAIL_ERROR_ARGUMENT, "3 windows were requested, but the text holds 2");
    assert_fails(grail_perplexity_measure(model, &text, 0, NULL, stop_at_first_result, &c, &one),
                 GRAIL_ERROR_CANCELLED, "cancelled after 2 of 2 windows");
    assert_int_equal(c.calls, 1);
    assert_true(c.done == 2 && c.total == 2);
    assert_fails(grail_perplexity_measure(model, &text, 0, &(grail_compute){.backend = "gpu"}, NULL,
                                          NULL, &one),
                 GRAIL_ERROR_ARGUMENT, "gpu");
    assert_fails(
        grail_perplexity_measure(model, &(grail_text_source){0}, 0, NULL, NULL, NULL, &one),
        GRAIL_ERROR_ARGUMENT, "no text was given");
}

/* The logits of the file `path` are those of the golden file. */
static void assert_logits(const char *path, const tensor_file *golden)
{
    OPENED(tensor_file, written, safetensors_open(path, &written));
    const tensor_view *found = tensor_file_find(written, "logits");
    const tensor_view *expected = tensor_file_find(golden, "logits");
    assert_int_equal(found->rank, expected->rank);
    assert_int_equal(found->bytes, expected->bytes);
    assert_memory_equal(found->shape, expected->shape,
                        (size_t)found->rank * sizeof found->shape[0]);
    for (size_t i = 0; i < found->bytes / sizeof(float); i++) {
        float pair[2];
        memcpy(&pair[0], (const unsigned char *)found->data + i * sizeof(float), sizeof(float));
        memcpy(&pair[1], (const unsigned char *)expected->data + i * sizeof(float), sizeof(float));
        assert_near((double)pair[0], (double)pair[1], 1e-4);
    }
}

LAB_TEST(logits_are_written_as_they_are)
{
    OWNED(tensor_file) *golden = open_golden("mistral");
    const grail_text_source text = golden_text(l, golden);
    OPENED(grail_model, model, grail_model_open(lab_golden("mistral"), &model));
    assert_ok(grail_logits_write(model, &text, NULL, lab_path(l, "logits.safetensors")));
    assert_logits(lab_path(l, "logits.safetensors"), golden);
}

LAB_TEST(logits_of_pixels_are_written_as_they_are)
{
    static const char network[] = GRAIL_SOURCE_DIR "/tests/golden/vision/hf-vit";
    static const char pixels[] = GRAIL_SOURCE_DIR "/tests/golden/vision/hf-vit/golden.safetensors";
    OPENED(tensor_file, golden, safetensors_open(pixels, &golden));
    OPENED(grail_model, model, grail_model_open(network, &model));
    assert_ok(grail_pixel_logits_write(model, pixels, NULL, lab_path(l, "logits.safetensors")));
    assert_logits(lab_path(l, "logits.safetensors"), golden);
}

TEST(a_network_does_not_differ_from_itself)
{
    const grail_comparison same = compare_models(lab_golden("qwen2"), lab_golden("qwen2"), "cpu");
    assert_true(same.max_abs == 0.0);
    assert_near(same.mean_kl, 0.0, 1e-12);
    assert_near(same.max_kl, 0.0, 1e-12);
    assert_true(same.top1_agreement == 1.0);
    assert_int_equal(same.compared, 4 * 64);
    assert_int_equal(same.identity_checked, 0);
}

/* Random tokens are no more than the network has positions. */
LAB_TEST(a_short_network_is_compared_on_short_windows)
{
    lab_model m;
    lab_read(&m, lab_golden("qwen2"));
    lab_set_integer(&m, "max_position_embeddings", 24);
    lab_write(&m, lab_path(l, "short"), GRAIL_DTYPE_F32);
    lab_fini(&m);
    const char *model = lab_path(l, "short");
    assert_int_equal(compare_models(model, model, "cpu").compared, 4 * 24);
}

/* Two networks whose logits are known: their comparison by hand. */
LAB_TEST(a_comparison_is_that_of_the_logits)
{
    grail_model *a = NULL;
    grail_model *b = NULL;
    grail_comparison c;
    double largest = 0.0;
    double kl = 0.0;
    tensor_file *left = open_golden("llama3");
    tensor_file *right = open_golden("llama3-bf16"); /* the same ids, the weights rounded */
    const grail_text_source text = golden_text(l, left);
    for (int t = 0; t < LENGTH; t++) {
        double sums[2] = {0.0, 0.0};
        for (int id = 0; id < VOCABULARY; id++) {
            sums[0] += exp(logit(left, 0, t, id));
            sums[1] += exp(logit(right, 0, t, id));
        }
        for (int id = 0; id < VOCABULARY; id++) {
            const double p = logit(left, 0, t, id);
            const double q = logit(right, 0, t, id);
            largest = fmax(largest, fabs(p - q));
            kl += exp(p) / sums[0] * (p - log(sums[0]) - q + log(sums[1])) / LENGTH;
        }
    }
    assert_ok(grail_model_open(lab_golden("llama3"), &a));
    assert_ok(grail_model_open(lab_golden("llama3-bf16"), &b));
    assert_ok(grail_verify(a, b, &text, 1, &(grail_compute){.backend = "ref"}, NULL, NULL, &c));
    assert_int_equal(c.compared, LENGTH);
    assert_near(c.max_abs, largest, 1e-4);
    assert_near(c.mean_kl / kl, 1.0, 1e-2);
    assert_true(c.max_kl >= c.mean_kl);
    grail_model_close(a);
    grail_model_close(b);
    tensor_file_close(left);
    tensor_file_close(right);
}

LAB_TEST(networks_of_different_vocabularies_are_not_compared)
{
    lab_model m;
    grail_comparison c;
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        m.tensors[i].shape[0] -= m.tensors[i].shape[0] == VOCABULARY ? 6 : 0;
    }
    lab_set_integer(&m, "vocab_size", 90);
    lab_write(&m, lab_path(l, "small"), GRAIL_DTYPE_F32);
    lab_fini(&m);
    OPENED(grail_model, a, grail_model_open(lab_golden("llama3"), &a));
    OPENED(grail_model, b, grail_model_open(lab_path(l, "small"), &b));
    assert_fails(grail_verify(a, b, NULL, 0, NULL, NULL, NULL, &c), GRAIL_ERROR_SHAPE,
                 "the networks have different vocabularies: ");
}

LAB_TEST(a_text_that_was_calibrated_on_is_recognised)
{
    grail_perplexity p;
    int32_t others[4 * LAB_LENGTH];
    for (int i = 0; i < 4 * LAB_LENGTH; i++) {
        others[i] = i % VOCABULARY;
    }
    lab_write_ids(l, "others.npy", 4, LAB_LENGTH, others);
    const grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    OPENED(grail_model, model, grail_model_open(options.output.path, &model));
    grail_text_source text = {.path = l->calibration, .context = LAB_LENGTH};
    assert_ok(grail_perplexity_measure(model, &text, 0, NULL, NULL, NULL, &p));
    assert_int_equal(p.calibration_runs, LAB_SAMPLES); /* one run of 24 fits a window of 32 */
    assert_int_equal(p.overlap_runs, LAB_SAMPLES);
    assert_ok(grail_perplexity_measure(model, &text, LAB_SAMPLES / 2, NULL, NULL, NULL, &p));
    assert_int_equal(p.overlap_runs, LAB_SAMPLES / 2);
    text.path = lab_path(l, "others.npy");
    assert_ok(grail_perplexity_measure(model, &text, 0, NULL, NULL, NULL, &p));
    assert_int_equal(p.calibration_runs, LAB_SAMPLES);
    assert_int_equal(p.overlap_runs, 0);
}

/* The runs that a model's record has of the text it was calibrated on. */
static grail_status measure_runs(const lab *l, const char *directory, grail_perplexity *p)
{
    const grail_text_source text = {.path = l->calibration, .context = LAB_LENGTH};
    OPENED(grail_model, model, grail_model_open(directory, &model));
    return grail_perplexity_measure(model, &text, 1, NULL, NULL, NULL, p);
}

/* Makes of report.json one as version 1 wrote it, with two hashes of its own. */
static void write_old_report(const char *directory)
{
    OWNED(buffer) text;
    OWNED(json_t) *report = read_json(directory, "report.json");
    json_t *calibration = json_object_get(report, "calibration");
    assert_int_equal(json_object_del(calibration, "hashes"), 0);
    assert_int_equal(json_object_del(calibration, "hashes_sha256"), 0);
    assert_int_equal(
        json_object_set_new(calibration, "shingles", json_pack("[s,s]", "00000000000000ff", "0")),
        0);
    buffer_init(&text, SIZE_MAX / 4);
    assert_ok(json_append_text(report, &text));
    support_write_file(directory, "report.json", text.bytes, text.size);
}

LAB_TEST(hashes_lie_beside_the_report)
{
    grail_perplexity p;
    char path[LAB_PATH + 32];
    static const unsigned char other[8] = {1};
    const grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    snprintf(path, sizeof path, "%s/calibration.hashes", options.output.path);
    support_write_file(options.output.path, "calibration.hashes", other, sizeof other);
    assert_fails(measure_runs(l, options.output.path, &p), GRAIL_ERROR_FORMAT,
                 "out/calibration.hashes' is damaged or of another result");
    assert_fails(measure_runs(l, options.output.path, &p), GRAIL_ERROR_FORMAT,
                 "put back the file that was written with report.json, or delete it");
    assert_int_equal(unlink(path), 0);
    assert_ok(measure_runs(l, options.output.path, &p));
    assert_int_equal(p.calibration_runs, 0);
    assert_int_equal(p.is_calibration, 1); /* the text's own hash is in the report */
    write_old_report(options.output.path);
    assert_ok(measure_runs(l, options.output.path, &p));
    assert_int_equal(p.calibration_runs, 2);
    assert_int_equal(p.overlap_runs, 0);
}

/* Narrows a result again: with magnitude, which needs no samples, or with those of the options. */
static void narrow_again(lab *l, grail_compress_options *options, const char *name, bool calibrates)
{
    options->read.model = options->output.path;
    options->output.path = lab_path(l, name);
    options->cut.selector = calibrates ? "wanda" : "magnitude-l1";
    options->fit.compensate = "none";
    options->amount.sparsity_ffn = 0.1;
    if (!calibrates) {
        options->read.text = (grail_text_source){0};
    }
    assert_ok(lab_compress(options));
}

/* A result that is narrowed again knows what its model was calibrated on, once with samples of its
 * own and once without any. */
LAB_TEST(what_the_model_was_calibrated_on_stays_known)
{
    grail_perplexity p;
    int32_t others[4 * LAB_LENGTH];
    for (int i = 0; i < 4 * LAB_LENGTH; i++) {
        others[i] = i % VOCABULARY;
    }
    lab_write_ids(l, "others.npy", 4, LAB_LENGTH, others);
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    options.read.text.path = lab_path(l, "others.npy");
    options.read.samples = 4;
    narrow_again(l, &options, "again", true);
    assert_ok(measure_runs(l, options.output.path, &p));
    assert_int_equal(p.calibration_runs, LAB_SAMPLES + 3); /* two are equal */
    assert_int_equal(p.overlap_runs, 1);                   /* of the one window that is measured */
    assert_int_equal(p.is_calibration, 1);
    narrow_again(l, &options, "without", false);
    assert_ok(measure_runs(l, options.output.path, &p));
    assert_int_equal(p.calibration_runs, LAB_SAMPLES + 3); /* two are equal */
    assert_int_equal(p.is_calibration, 1);
    OWNED(json_t) *report = read_json(options.output.path, "report.json");
    const json_t *record = json_object_get(report, "calibration");
    assert_int_equal(json_integer_value(json_object_get(record, "samples")), 0);
    record = json_object_get(record, "before"); /* not the one without samples */
    assert_int_equal(json_integer_value(json_object_get(record, "samples")), 4);
    record = json_object_get(record, "before");
    assert_int_equal(json_integer_value(json_object_get(record, "samples")), LAB_SAMPLES);
}

TEST(chunks_hold_at_least_one_window)
{
    OWNED(grail_model) *model = NULL;
    assert_ok(grail_model_open(lab_golden("llama3"), &model)); /* 64 wide */
    assert_int_equal(
        forward_chunk(model, backend_host(), 32, (forward_limit){.memory = 10 * 64 * 32 * 4}), 10);
    assert_int_equal(
        forward_chunk(model, backend_reference(), 32, (forward_limit){.memory = 10 * 64 * 32 * 4}),
        5);
    assert_int_equal(forward_chunk(model, backend_host(), 32, (forward_limit){.memory = 1}), 1);
    assert_true(forward_chunk(model, backend_host(), 32, (forward_limit){0}) > 1000);
    assert_int_equal(forward_chunk(model, backend_host(), 32, (forward_limit){.tokens = 100}), 3);
    assert_int_equal(forward_chunk(model, backend_host(), 32, (forward_limit){.tokens = 31}), 1);
    assert_int_equal(forward_chunk(model, backend_host(), 32,
                                   (forward_limit){.memory = 2 * 64 * 32 * 4, .tokens = 100}),
                     2);
}

static grail_status measure_once(void *context)
{
    grail_perplexity p;
    grail_comparison c;
    const grail_model *model = ((void **)context)[0];
    const grail_text_source *text = ((void **)context)[1];
    const grail_status status = grail_perplexity_measure(
        model, text, 0, &(grail_compute){.backend = "ref"}, NULL, NULL, &p);
    return status == GRAIL_OK ? grail_verify(model, model, text, 1,
                                             &(grail_compute){.backend = "ref"}, NULL, NULL, &c)
                              : status;
}

LAB_TEST(every_failing_allocation_is_survived)
{
    OWNED(tensor_file) *golden = open_golden("llama3");
    grail_text_source text = golden_text(l, golden);
    text.context = 4;
    OPENED(grail_model, model, grail_model_open(lab_golden("llama3"), &model));
    void *context[] = {model, &text};
    support_fail_each_allocation(measure_once, context);
}

TEST(the_machine_is_described)
{
    grail_machine m;
    assert_ok(grail_machine_examine(0.0, &m));
    assert_true(m.cores >= 1 && m.threads == grail_threads());
    assert_true(m.sgemm_gflops == 0.0);
    assert_non_null(m.kernel);
    assert_true(strlen(m.cpu) > 0);
}

CMFixtureFunction support_setup = json_memory_use;
