/* Every field of the public option structs that has a range, and every count that a measurement
 * takes, with a value outside it: an error that names the field, and no output. */
#include "../pipeline/vision_lab.h"

#include "base/file.h"

#include <grail-study/sweep.h>
#include <grail/grail.h>

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef enum field_type { INTEGER, LONG_INTEGER, NUMBER, TEXT } field_type;

typedef struct bad_field {
    const char *field; /* as grail_error_fields names it */
    size_t offset;
    field_type type;
    double value;     /* of a number */
    const char *text; /* of a text; may be NULL */
} bad_field;

#define WHOLE(owner, member, bad)                                                                  \
    {                                                                                              \
#member, offsetof(owner, member), INTEGER, bad, NULL                                       \
    }
#define LONG_WHOLE(owner, member, bad)                                                             \
    {                                                                                              \
#member, offsetof(owner, member), LONG_INTEGER, bad, NULL                                  \
    }
#define REAL(owner, member, bad)                                                                   \
    {                                                                                              \
#member, offsetof(owner, member), NUMBER, bad, NULL                                        \
    }
#define NAME(owner, member, bad)                                                                   \
    {                                                                                              \
#member, offsetof(owner, member), TEXT, 0.0, bad                                           \
    }
#define COUNT(fields) (sizeof(fields) / sizeof(fields)[0])

static void set_field(void *options, const bad_field *f)
{
    char *at = (char *)options + f->offset;
    const int integer = f->type == INTEGER ? (int)f->value : 0;
    const int64_t long_integer = f->type == LONG_INTEGER ? (int64_t)f->value : 0;
    switch (f->type) {
    case INTEGER:
        memcpy(at, &integer, sizeof integer);
        break;
    case LONG_INTEGER:
        memcpy(at, &long_integer, sizeof long_integer);
        break;
    case NUMBER:
        memcpy(at, &f->value, sizeof f->value);
        break;
    case TEXT:
        memcpy(at, &f->text, sizeof f->text);
        break;
    }
}

/* `use` is called with copies of `good`, of `size` bytes, each with one field changed. */
static void assert_all_refused(const bad_field *fields, size_t count, const void *good, size_t size,
                               grail_status (*use)(const void *options))
{
    unsigned char bad[sizeof(grail_plan_options)];
    int failures = 0;
    assert_true(size <= sizeof bad);
    for (size_t i = 0; i < count; i++) {
        memcpy(bad, good, size);
        set_field(bad, &fields[i]);
        const grail_status status = use(bad);
        if (status != GRAIL_ERROR_ARGUMENT ||
            strstr(grail_error_fields(), fields[i].field) == NULL) {
            print_message("%s = %g '%s': status %d, fields '%s', %s\n", fields[i].field,
                          fields[i].value, fields[i].text == NULL ? "" : fields[i].text,
                          (int)status, grail_error_fields(), grail_error_message());
            failures++;
        }
    }
    assert_int_equal(failures, 0);
}

static grail_status use_compress(const void *options)
{
    grail_compression *c = NULL;
    const grail_status status = grail_compression_open(options, &c);
    grail_compression_close(c);
    return status;
}

static const bad_field compress_fields[] = {
    NAME(grail_compress_options, model, NULL),
    LONG_WHOLE(grail_compress_options, samples, -1),
    NAME(grail_compress_options, selector, NULL),
    NAME(grail_compress_options, selector, "wandr"),
    REAL(grail_compress_options, sparsity_ffn, 1.0),
    REAL(grail_compress_options, sparsity_ffn, NAN),
    REAL(grail_compress_options, sparsity_heads, -0.1),
    REAL(grail_compress_options, sparsity_conv, 2.0),
    REAL(grail_compress_options, sparsity_stream, INFINITY),
    WHOLE(grail_compress_options, site_sparsity_count, -1),
    {"site_sparsities", offsetof(grail_compress_options, site_sparsity_count), INTEGER, 1, NULL},
    LONG_WHOLE(grail_compress_options, align, -1),
    WHOLE(grail_compress_options, gqa, 99),
    NAME(grail_compress_options, compensate, NULL),
    NAME(grail_compress_options, compensate, "fully"),
    NAME(grail_compress_options, target, "near"),
    NAME(grail_compress_options, bias, "maybe"),
    NAME(grail_compress_options, conv_fit, "pixel"),
    NAME(grail_compress_options, ridge, "one"),
    NAME(grail_compress_options, ridge_scale, "none"),
    NAME(grail_compress_options, token_weights, "all"),
    NAME(grail_compress_options, refit, "some"),
    NAME(grail_compress_options, select, "ajar"),
    NAME(grail_compress_options, stream_score, "last"),
    REAL(grail_compress_options, alpha, -INFINITY),
    REAL(grail_compress_options, alpha, -1.0),
    WHOLE(grail_compress_options, repair, 2),
    WHOLE(grail_compress_options, open_loop, -1),
    NAME(grail_compress_options, heal, "all"),
    LONG_WHOLE(grail_compress_options, heal_steps, -1),
    REAL(grail_compress_options, heal_rate, NAN),
    REAL(grail_compress_options, heal_rate, 1.0),
    REAL(grail_compress_options, heal_seconds, -1.0),
    NAME(grail_compress_options, backend, "gpu"),
    NAME(grail_compress_options, precision, "f8"),
    LONG_WHOLE(grail_compress_options, memory, -1),
    WHOLE(grail_compress_options, keep_non_finite, 7),
    WHOLE(grail_compress_options, resume, 2),
    WHOLE(grail_compress_options, dry_run, -1),
    {"context", offsetof(grail_compress_options, calibration.context), LONG_INTEGER, -1, NULL},
    {"window_bos", offsetof(grail_compress_options, calibration.window_bos), INTEGER, 3, NULL},
    {"protocol", offsetof(grail_compress_options, calibration.protocol), TEXT, 0.0, "ptbb"},
    {"path", offsetof(grail_compress_options, calibration.path), TEXT, 0.0, NULL},
};

static void fields_of_a_compression(void **state)
{
    (void)state;
    lab l;
    lab_open(&l);
    const grail_compress_options good = lab_options(&l, lab_golden("llama3"), lab_path(&l, "out"));
    assert_all_refused(compress_fields, COUNT(compress_fields), &good, sizeof good, use_compress);
    assert_false(file_exists(good.output));
    assert_ok(use_compress(&good));
    lab_close(&l);
}

static grail_status use_plan(const void *options)
{
    grail_plan *plan = NULL;
    const grail_status status = grail_plan_make(options, &plan);
    grail_plan_free(plan);
    return status;
}

static void fields_of_a_plan(void **state)
{
    (void)state;
    static const bad_field fields[] = {
        NAME(grail_plan_options, limit, NULL),
        NAME(grail_plan_options, limit, "kilos"),
        REAL(grail_plan_options, most, -1.0),
        REAL(grail_plan_options, most, NAN),
        REAL(grail_plan_options, ratio, 2.0),
        NAME(grail_plan_options, budget, NULL),
        NAME(grail_plan_options, kinds, "ffn,legs"),
        REAL(grail_plan_options, heads_removed, 1.0),
        WHOLE(grail_plan_options, uniform_widths, 2),
        WHOLE(grail_plan_options, drop_sublayers, -1),
        WHOLE(grail_plan_options, tries, -1),
        REAL(grail_plan_options, seconds, -1.0),
        {"selector", offsetof(grail_plan_options, compress.selector), TEXT, 0.0, NULL},
        {"compensate", offsetof(grail_plan_options, compress.compensate), TEXT, 0.0, NULL},
        {"samples", offsetof(grail_plan_options, compress.samples), LONG_INTEGER, -1, NULL},
        {"memory", offsetof(grail_plan_options, compress.memory), LONG_INTEGER, -1, NULL},
    };
    lab l;
    grail_plan_options good;
    lab_open(&l);
    grail_plan_options_init(&good);
    good.compress = lab_options(&l, lab_golden("llama3"), NULL);
    good.budget = "uniform";
    good.ratio = 0.8;
    assert_all_refused(fields, COUNT(fields), &good, sizeof good, use_plan);
    assert_ok(use_plan(&good));
    lab_close(&l);
}

static grail_status use_latency(const void *options)
{
    grail_model *model = NULL;
    grail_latency latency;
    assert_ok(grail_model_open(lab_golden("llama3"), &model));
    const grail_model *const models[] = {model};
    const grail_status status = grail_latency_measure(models, 1, options, &latency);
    grail_model_close(model);
    return status;
}

static void fields_of_a_measurement(void **state)
{
    (void)state;
    static const bad_field fields[] = {
        NAME(grail_latency_options, engine, "torch"), LONG_WHOLE(grail_latency_options, batch, -1),
        LONG_WHOLE(grail_latency_options, side, -1),  LONG_WHOLE(grail_latency_options, length, -1),
        LONG_WHOLE(grail_latency_options, runs, -1),
    };
    const grail_latency_options good = {0};
    assert_all_refused(fields, COUNT(fields), &good, sizeof good, use_latency);
}

static grail_status use_model(const void *options)
{
    grail_model *model = NULL;
    const grail_status status = grail_model_open_with(lab_golden("llama3"), options, &model);
    grail_model_close(model);
    return status;
}

static void fields_of_settings(void **state)
{
    (void)state;
    static const bad_field fields[] = {
        WHOLE(grail_model_options, setting_count, -1),
        {"settings", offsetof(grail_model_options, setting_count), INTEGER, 1, NULL},
    };
    const grail_model_options good = {0};
    assert_all_refused(fields, COUNT(fields), &good, sizeof good, use_model);
}

/* -- networks of images ------------------------------------------------------------------------ */

/* What the tables of fields are tried on; `use` has no other way to it. */
static const grail_model *current;
static const char *written;

static grail_status use_onnx(const void *options)
{
    return grail_onnx_write(current, written, options, NULL);
}

static grail_status use_images(const void *source)
{
    grail_images *images = NULL;
    const grail_status status = grail_images_open(current, source, &images);
    grail_images_close(images);
    return status;
}

static void fields_of_image_networks(void **state)
{
    (void)state;
    static const double no_mean[] = {0.5, NAN, 0.5};
    static const double flat[] = {0.5, 0.5, 0.0};
    static const bad_field onnx_fields[] = {
        LONG_WHOLE(grail_onnx_options, side, -1),
        LONG_WHOLE(grail_onnx_options, largest, -1),
    };
    static const bad_field source_fields[] = {
        NAME(grail_image_source, path, NULL),
        NAME(grail_image_source, preset, "mnist"),
        NAME(grail_image_source, split, "validation"),
        NAME(grail_image_source, labels, "labels.csv"),
        LONG_WHOLE(grail_image_source, size, -1),
        LONG_WHOLE(grail_image_source, size, 1 << 20),
        LONG_WHOLE(grail_image_source, size, 16),
        NAME(grail_image_source, mean, (const char *)no_mean),
        NAME(grail_image_source, deviation, (const char *)flat),
    };
    vision_lab v;
    const grail_onnx_options good = {0};
    vision_open(&v);
    grail_model *model = vision_model_open(vision_network(&v, VISION_BASIC, "dense"));
    current = model;
    written = vision_path(&v, "network.onnx");
    assert_all_refused(onnx_fields, COUNT(onnx_fields), &good, sizeof good, use_onnx);
    assert_false(file_exists(written));
    assert_ok(use_onnx(&good));
    assert_all_refused(source_fields, COUNT(source_fields), &v.images, sizeof v.images, use_images);
    assert_ok(use_images(&v.images));
    grail_model_close(model);
    vision_close(&v);
}

/* -- sweeps ------------------------------------------------------------------------------------ */

static grail_status use_sweep(const void *options)
{
    return grail_sweep_run(options, NULL);
}

static void fields_of_a_sweep(void **state)
{
    (void)state;
    static const bad_field fields[] = {
        NAME(grail_sweep_options, recipe, NULL),     NAME(grail_sweep_options, results, NULL),
        NAME(grail_sweep_options, results, ""),      WHOLE(grail_sweep_options, jobs, 0),
        WHOLE(grail_sweep_options, jobs, 1 << 20),   LONG_WHOLE(grail_sweep_options, memory, -1),
        NAME(grail_sweep_options, precision, "f64"), WHOLE(grail_sweep_options, dry_run, 2),
    };
    vision_lab v;
    char recipe[1024];
    grail_sweep_options good;
    vision_open(&v);
    vision_network(&v, VISION_BASIC, "dense");
    const int size =
        snprintf(recipe, sizeof recipe,
                 "{\"checkpoints\": [{\"name\": \"a\", \"path\": \"dense\"}], \"selectors\": "
                 "[\"magnitude-l1\"], "
                 "\"sparsities\": [0.5], \"samples\": [4], \"compensate\": [\"none\"], \"sites\": "
                 "[\"conv\"], "
                 "\"calibration\": {\"path\": \"%s/data_batch_1.bin\"}, \"evaluation\": {\"path\": "
                 "\"%s/data_batch_1.bin\"}}",
                 v.data, v.data);
    support_write_file(vision_path(&v, "."), "recipe.json", recipe, (size_t)size);
    grail_sweep_options_init(&good);
    good.recipe = vision_path(&v, "recipe.json");
    good.results = vision_path(&v, "results.jsonl");
    good.dry_run = 1;
    assert_all_refused(fields, COUNT(fields), &good, sizeof good, use_sweep);
    assert_ok(use_sweep(&good));
    assert_false(file_exists(good.results));
    vision_close(&v);
}

/* -- counts of measurements -------------------------------------------------------------------- */

#define assert_refused_about(expression, field)                                                    \
    do {                                                                                           \
        assert_fails(expression, GRAIL_ERROR_ARGUMENT, "");                                        \
        assert_string_equal(grail_error_fields(), field);                                          \
    } while (0)

static void counts_of_windows(void **state)
{
    (void)state;
    lab l;
    grail_model *m = NULL;
    grail_perplexity p = {.windows = -7};
    grail_comparison c = {.compared = -7};
    lab_open(&l);
    const grail_text_source text = {.path = l.calibration, .context = LAB_LENGTH};
    assert_ok(grail_model_open(lab_golden("llama3"), &m));
    assert_refused_about(grail_perplexity_measure(m, &text, -1, NULL, NULL, NULL, &p), "windows");
    assert_refused_about(grail_perplexity_measure(m, &text, 1 << 20, NULL, NULL, NULL, &p),
                         "windows");
    assert_refused_about(grail_perplexity_of_cut(m, m, &text, INT64_MIN, NULL, NULL, NULL, &p),
                         "windows");
    assert_refused_about(grail_verify(m, m, &text, -1, NULL, &c), "windows");
    assert_true(p.windows == -7 && c.compared == -7);
    grail_model_close(m);
    lab_close(&l);
}

static void counts_of_images(void **state)
{
    (void)state;
    vision_lab v;
    grail_images *images = NULL;
    grail_accuracy a = {.images = -7};
    grail_comparison c = {.compared = -7};
    vision_open(&v);
    grail_model *m = vision_model_open(vision_network(&v, VISION_BASIC, "dense"));
    assert_ok(grail_images_open(m, &v.images, &images));
    assert_refused_about(grail_accuracy_measure(m, images, -1, NULL, NULL, NULL, &a), "count");
    assert_refused_about(grail_accuracy_measure(m, images, VISION_IMAGES + 1, NULL, NULL, NULL, &a),
                         "count");
    assert_refused_about(grail_accuracy_measure(m, images, INT64_MIN, NULL, NULL, NULL, &a),
                         "count");
    assert_refused_about(grail_verify_images(m, m, &v.images, -1, NULL, &c), "images");
    assert_true(a.images == -7 && c.compared == -7);
    grail_images_close(images);
    grail_model_close(m);
    vision_close(&v);
}

/* -- observers --------------------------------------------------------------------------------- */

/* Anything but 0 cancels. */
static int answer(const void *user)
{
    return *(const int *)user;
}

static int answer_of_measurement(void *user, int64_t done, int64_t total, double so_far)
{
    (void)done;
    (void)total;
    (void)so_far;
    return answer(user);
}

static int answer_of_site(void *user, const grail_site_report *one, int block, int blocks,
                          double left)
{
    (void)one;
    (void)block;
    (void)blocks;
    (void)left;
    return answer(user);
}

static int answer_of_step(void *user, int block, int blocks, double done)
{
    (void)block;
    (void)blocks;
    (void)done;
    return answer(user);
}

static int answer_of_healing(void *user, const grail_healing *now)
{
    (void)now;
    return answer(user);
}

static grail_status run_in_memory(const grail_compress_options *options)
{
    grail_compression *c = NULL;
    grail_status status = grail_compression_open(options, &c);
    if (status == GRAIL_OK) {
        status = grail_compression_run(c);
    }
    grail_compression_close(c);
    return status;
}

static void every_answer_but_zero_cancels(void **state)
{
    (void)state;
    static const int answers[] = {1, -1, INT_MIN, 1 << 8};
    lab l;
    grail_model *m = NULL;
    grail_perplexity p;
    lab_open(&l);
    const grail_text_source text = {.path = l.calibration, .context = LAB_LENGTH};
    assert_ok(grail_model_open(lab_golden("llama3"), &m));
    for (size_t i = 0; i < COUNT(answers); i++) {
        int given = answers[i];
        grail_compress_options o = lab_options(&l, lab_golden("llama3"), NULL);
        o.observer_user = &given;
        o.observer = answer_of_site;
        assert_fails(run_in_memory(&o), GRAIL_ERROR_CANCELLED, "cancelled");
        o.observer = NULL;
        o.step_observer = answer_of_step;
        assert_fails(run_in_memory(&o), GRAIL_ERROR_CANCELLED, "cancelled");
        o.step_observer = NULL;
        o.heal = "block";
        o.heal_steps = 1;
        o.heal_observer = answer_of_healing;
        assert_fails(run_in_memory(&o), GRAIL_ERROR_CANCELLED, "cancelled");
        assert_fails(grail_perplexity_measure(m, &text, 1, NULL, answer_of_measurement, &given, &p),
                     GRAIL_ERROR_CANCELLED, "cancelled");
    }
    grail_model_close(m);
    lab_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_compression),
        cmocka_unit_test(fields_of_a_plan),
        cmocka_unit_test(fields_of_a_measurement),
        cmocka_unit_test(fields_of_settings),
        cmocka_unit_test(fields_of_image_networks),
        cmocka_unit_test(fields_of_a_sweep),
        cmocka_unit_test(counts_of_windows),
        cmocka_unit_test(counts_of_images),
        cmocka_unit_test(every_answer_but_zero_cancels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
