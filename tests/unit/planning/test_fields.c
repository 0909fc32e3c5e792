/* Every field of the public option structs that has a range, and every count that a measurement
 * takes, with a value outside it: an error that names the field, and no output. */
#include "../pipeline/vision_lab.h"

#include "base/file.h"

#include <grail/grail.h>

#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef enum field_type { FLAG, INTEGER, LONG_INTEGER, NUMBER, TEXT } field_type;

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
    case FLAG:
        *at = (char)f->value;
        break;
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

/* What computes does not know of which struct its options are a part. */
static const char *last_part(const char *field)
{
    const char *point = strrchr(field, '.');
    return point == NULL ? field : point + 1;
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
            strstr(grail_error_fields(), last_part(fields[i].field)) == NULL) {
            print_message("%s = %g '%s': status %d, fields '%s', %s\n", fields[i].field,
                          fields[i].value, fields[i].text == NULL ? "" : fields[i].text,
                          (int)status, grail_error_fields(), grail_error_message());
            failures++;
        }
    }
    assert_int_equal(failures, 0);
}

/* What the descriptions do not say. */
static const bad_field compress_fields[] = {
    NAME(grail_compress_options, read.model, NULL),
    WHOLE(grail_compress_options, amount.site_sparsity_count, -1),
    {"amount.site_sparsities", offsetof(grail_compress_options, amount.site_sparsity_count),
     INTEGER, 1, NULL},
    {"precision", offsetof(grail_compress_options, run.precision), TEXT, 0.0, "f8"},
    {"context", offsetof(grail_compress_options, read.text.context), LONG_INTEGER, -1, NULL},
    {"window_bos", offsetof(grail_compress_options, read.text.window_bos), INTEGER, 3, NULL},
    {"protocol", offsetof(grail_compress_options, read.text.protocol), TEXT, 0.0, "ptbb"},
    {"path", offsetof(grail_compress_options, read.text.path), TEXT, 0.0, NULL},
};

/* -- by the descriptions ----------------------------------------------------------------------- */

enum { MOST_BAD = 5 };

static bad_field whole(const grail_option *o, double value)
{
    return (bad_field){o->field, o->offset, o->size == sizeof(int) ? INTEGER : LONG_INTEGER, value,
                       NULL};
}

static bad_field real(const grail_option *o, size_t after, double value)
{
    return (bad_field){o->field, o->offset + after, NUMBER, value, NULL};
}

static bad_field text(const grail_option *o, const char *value)
{
    return (bad_field){o->field, o->offset, TEXT, 0.0, value};
}

/* Values outside the range of a field; returns how many. */
static int bad_values(const grail_option *o, bad_field out[MOST_BAD])
{
    const size_t value = offsetof(grail_number, value);
    switch (o->type) {
    case GRAIL_OPTION_FLAG:
    case GRAIL_OPTION_CHOICE:
        out[0] = whole(o, -1.0);
        out[1] = whole(o, 99.0);
        return 2;
    case GRAIL_OPTION_INTEGER:
    case GRAIL_OPTION_SIZE:
        out[0] = whole(o, o->least - 1.0);
        return 1;
    case GRAIL_OPTION_REAL:
    case GRAIL_OPTION_SECONDS:
    case GRAIL_OPTION_SPARSITY:
        out[0] = real(o, 0, o->least - 0.1);
        out[1] = real(o, 0, NAN);
        out[2] = real(o, 0, INFINITY);
        out[3] = real(o, 0,
                      o->below > 0.0                     ? o->below
                      : o->type == GRAIL_OPTION_SPARSITY ? 1.0
                                                         : NAN);
        return 4;
    case GRAIL_OPTION_NUMBER:
        out[0] = (bad_field){o->field, o->offset, INTEGER, 99.0, NULL}; /* the choice */
        out[1] = real(o, value, 0.5);                                   /* that is not chosen */
        out[2] = real(o, value, NAN);
        out[3] = real(o, value, INFINITY);
        out[4] = real(o, value, -1.0);
        return 5;
    case GRAIL_OPTION_WORD:
    case GRAIL_OPTION_SELECTOR:
    case GRAIL_OPTION_BACKEND:
        out[0] = text(o, "no such word");
        out[1] = text(o, o->usual == NULL || o->type == GRAIL_OPTION_BACKEND ? "" : NULL);
        return 2;
    case GRAIL_OPTION_ROOM: /* a field of a newer version */
        out[0] = (bad_field){o->field, o->offset, LONG_INTEGER, 1.0, NULL};
        out[1] = (bad_field){o->field, o->offset + o->size - 1, FLAG, 1.0, NULL};
        return 2;
    case GRAIL_OPTION_SEED:
    case GRAIL_OPTION_COLOUR:
    case GRAIL_OPTION_TEXT:
        break;
    }
    return 0;
}

static void assert_described_refused(grail_option_at at, const void *good, size_t size,
                                     grail_status (*use)(const void *options))
{
    int tried = 0;
    for (int i = 0; at(i) != NULL; i++) {
        bad_field bad[MOST_BAD];
        const int count = bad_values(at(i), bad);
        assert_all_refused(bad, (size_t)count, good, size, use);
        tried += count;
    }
    assert_true(tried > 0);
}

/* A text that the description expects to be refused leaves the field as it was. */
static void assert_texts_refused(grail_option_at at, const void *good, size_t size)
{
    unsigned char options[sizeof(grail_plan_options)];
    char expected[160];
    for (int i = 0; at(i) != NULL; i++) {
        const grail_option *o = at(i);
        const bool keeps = (o->type >= GRAIL_OPTION_TEXT && o->type != GRAIL_OPTION_ROOM) ||
                           o->type == GRAIL_OPTION_FLAG;
        memcpy(options, good, size);
        if (o->usual != NULL) {
            assert_ok(grail_option_set(o, options, o->usual));
        }
        memcpy(options, good, size);
        if (!keeps) {
            grail_option_expected(o, expected, sizeof expected);
            assert_fails(grail_option_set(o, options, "no such value"), GRAIL_ERROR_ARGUMENT,
                         expected);
            assert_string_equal(grail_error_fields(), o->field);
            assert_memory_equal(options, good, size);
        }
    }
}

LAB_TEST(fields_of_a_compression)
{
    const grail_compress_options good = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    assert_described_refused(grail_compress_option_at, &good, sizeof good, lab_opens);
    assert_texts_refused(grail_compress_option_at, &good, sizeof good);
    assert_all_refused(compress_fields, COUNT(compress_fields), &good, sizeof good, lab_opens);
    assert_false(file_exists(good.output.path));
    assert_ok(lab_opens(&good));
}

static grail_status use_plan(const void *options)
{
    OWNED(grail_plan) *plan = NULL;
    return grail_plan_make(options, &plan);
}

LAB_TEST(fields_of_a_plan)
{
    static const bad_field fields[] = {
        REAL(grail_plan_options, ratio, 2.0),
        NAME(grail_plan_options, kinds, "ffn,legs"),
        LONG_WHOLE(grail_plan_options, trial_tokens, -1),
        {"cut.selector", offsetof(grail_plan_options, compress.cut.selector), TEXT, 0.0, NULL},
        {"fit.compensate", offsetof(grail_plan_options, compress.fit.compensate), TEXT, 0.0, NULL},
        {"read.samples", offsetof(grail_plan_options, compress.read.samples), LONG_INTEGER, -1,
         NULL},
        {"run.memory", offsetof(grail_plan_options, compress.run.memory), LONG_INTEGER, -1, NULL},
    };
    grail_plan_options good;
    grail_plan_options_init(&good);
    good.compress = lab_options(l, lab_golden("llama3"), NULL);
    good.budget = "uniform";
    good.ratio = 0.8;
    assert_described_refused(grail_plan_option_at, &good, sizeof good, use_plan);
    assert_texts_refused(grail_plan_option_at, &good, sizeof good);
    assert_all_refused(fields, COUNT(fields), &good, sizeof good, use_plan);
    assert_ok(use_plan(&good));
}

static grail_status use_model(const void *options)
{
    OWNED(grail_model) *model = NULL;
    return grail_model_open_with(lab_golden("llama3"), options, &model);
}

TEST(fields_of_settings)
{
    static const bad_field fields[] = {
        WHOLE(grail_model_options, setting_count, -1),
        {"settings", offsetof(grail_model_options, setting_count), INTEGER, 1, NULL},
    };
    const grail_model_options good = {0};
    assert_all_refused(fields, COUNT(fields), &good, sizeof good, use_model);
}

/* -- networks of images ------------------------------------------------------------------------ */

#define assert_refused_about(expression, field)                                                    \
    do {                                                                                           \
        assert_fails(expression, GRAIL_ERROR_ARGUMENT, "");                                        \
        assert_string_equal(grail_error_fields(), field);                                          \
    } while (0)

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

VISION_TEST(fields_of_image_networks)
{
    static const bad_field source_fields[] = {
        NAME(grail_image_source, path, NULL),
        NAME(grail_image_source, labels, "labels.csv"),
        LONG_WHOLE(grail_image_source, size, 1 << 20),
        LONG_WHOLE(grail_image_source, size, 16),
    };
    grail_image_source coloured;
    const grail_onnx_options good = {0};
    OWNED(grail_model) *model = vision_model_open(vision_network(v, VISION_BASIC, "dense"));
    current = model;
    written = vision_path(v, "network.onnx");
    assert_described_refused(grail_onnx_option_at, &good, sizeof good, use_onnx);
    assert_texts_refused(grail_onnx_option_at, &good, sizeof good);
    assert_false(file_exists(written));
    assert_ok(use_onnx(&good));
    assert_described_refused(grail_image_option_at, &v->images, sizeof v->images, use_images);
    assert_texts_refused(grail_image_option_at, &v->images, sizeof v->images);
    assert_all_refused(source_fields, COUNT(source_fields), &v->images, sizeof v->images,
                       use_images);
    coloured = v->images;
    coloured.mean = (grail_colour){1, {0.5, NAN, 0.5}};
    assert_refused_about(use_images(&coloured), "mean");
    coloured.mean = (grail_colour){1, {0.5, 0.5, 0.5}};
    coloured.deviation = (grail_colour){1, {0.5, 0.5, 0.0}};
    assert_refused_about(use_images(&coloured), "deviation");
    assert_ok(use_images(&v->images));
}

/* -- counts of measurements -------------------------------------------------------------------- */

LAB_TEST(counts_of_windows)
{
    grail_perplexity p = {.windows = -7};
    grail_comparison c = {.compared = -7};
    const grail_text_source text = {.path = l->calibration, .context = LAB_LENGTH};
    OPENED(grail_model, m, grail_model_open(lab_golden("llama3"), &m));
    assert_refused_about(grail_perplexity_measure(m, &text, -1, NULL, NULL, NULL, &p), "windows");
    assert_refused_about(grail_perplexity_measure(m, &text, 1 << 20, NULL, NULL, NULL, &p),
                         "windows");
    assert_refused_about(grail_perplexity_of_cut(m, m, &text, INT64_MIN, NULL, NULL, NULL, &p),
                         "windows");
    assert_refused_about(grail_verify(m, m, &text, -1, NULL, NULL, NULL, &c), "windows");
    assert_true(p.windows == -7 && c.compared == -7);
}

VISION_TEST(counts_of_images)
{
    grail_images *images = NULL;
    grail_accuracy a = {.images = -7};
    grail_comparison c = {.compared = -7};
    OWNED(grail_model) *m = vision_model_open(vision_network(v, VISION_BASIC, "dense"));
    assert_ok(grail_images_open(m, &v->images, &images));
    assert_refused_about(grail_accuracy_measure(m, images, -1, NULL, NULL, NULL, &a), "count");
    assert_refused_about(grail_accuracy_measure(m, images, VISION_IMAGES + 1, NULL, NULL, NULL, &a),
                         "count");
    assert_refused_about(grail_accuracy_measure(m, images, INT64_MIN, NULL, NULL, NULL, &a),
                         "count");
    assert_refused_about(grail_verify_images(m, m, &v->images, -1, NULL, NULL, NULL, &c), "images");
    assert_true(a.images == -7 && c.compared == -7);
    grail_images_close(images);
}

/* -- observers --------------------------------------------------------------------------------- */

/* Anything but 0 cancels. */
static int answer(const void *user)
{
    return *(const int *)user;
}

static int answer_of_measurement(void *user, const grail_eval_progress *p)
{
    return answer(user);
}

static int answer_of_site(void *user, const grail_site_report *one, int block, int blocks,
                          double left)
{
    return answer(user);
}

static int answer_of_step(void *user, int block, int blocks, double done)
{
    return answer(user);
}

static int answer_of_healing(void *user, const grail_healing *now)
{
    return answer(user);
}

static grail_status run_in_memory(const grail_compress_options *options)
{
    OWNED(grail_compression) *c = NULL;
    grail_status status = grail_compression_open(options, &c);
    if (status == GRAIL_OK) {
        status = grail_compression_run(c);
    }
    return status;
}

LAB_TEST(every_answer_but_zero_cancels)
{
    static const int answers[] = {1, -1, INT_MIN, 1 << 8};
    grail_perplexity p;
    const grail_text_source text = {.path = l->calibration, .context = LAB_LENGTH};
    OPENED(grail_model, m, grail_model_open(lab_golden("llama3"), &m));
    for (size_t i = 0; i < COUNT(answers); i++) {
        int given = answers[i];
        grail_compress_options o = lab_options(l, lab_golden("llama3"), NULL);
        o.run.observer_user = &given;
        o.run.observer = answer_of_site;
        assert_fails(run_in_memory(&o), GRAIL_ERROR_CANCELLED, "cancelled");
        o.run.observer = NULL;
        o.run.step_observer = answer_of_step;
        assert_fails(run_in_memory(&o), GRAIL_ERROR_CANCELLED, "cancelled");
        o.run.step_observer = NULL;
        o.heal.what = "block";
        o.heal.steps = 1;
        o.run.heal_observer = answer_of_healing;
        assert_fails(run_in_memory(&o), GRAIL_ERROR_CANCELLED, "cancelled");
        assert_fails(grail_perplexity_measure(m, &text, 1, NULL, answer_of_measurement, &given, &p),
                     GRAIL_ERROR_CANCELLED, "cancelled");
    }
}
