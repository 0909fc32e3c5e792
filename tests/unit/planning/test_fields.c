/* Every field of the public option structs that has a range, with a value outside it: an error that
 * names the field, and no output. */
#include "../pipeline/lab.h"

#include "base/file.h"

#include <grail/grail.h>

#include <math.h>
#include <stddef.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_compression),
        cmocka_unit_test(fields_of_a_plan),
        cmocka_unit_test(fields_of_a_measurement),
        cmocka_unit_test(fields_of_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
