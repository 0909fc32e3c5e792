/* Several calibration texts: how many windows each gives, in which order they stand, and what is
 * recorded and refused. */
#include "lab.h"

#include "arch/model.h"
#include "pipeline/request/calibration.h"
#include "pipeline/request/calibration_record.h"

#include <math.h>
#include <string.h>

/* Ids of the k-th text lie in [k * STEP, (k + 1) * STEP). */
enum { TEXTS = 3, STEP = 30 };

typedef struct texts {
    lab l;
    grail_model *model;
    grail_text_part parts[TEXTS];
    grail_compress_options options;
} texts;

static void open_texts(texts *t)
{
    static const char *const names[TEXTS] = {"a.npy", "b.npy", "c.npy"};
    int32_t ids[LAB_SAMPLES * LAB_LENGTH];
    random_state random;
    random_seed(&random, 3, 0);
    *t = (texts){0};
    lab_open(&t->l);
    for (int k = 0; k < TEXTS; k++) {
        for (int i = 0; i < LAB_SAMPLES * LAB_LENGTH; i++) {
            ids[i] = (int32_t)(k * STEP) + (int32_t)random_below(&random, STEP);
        }
        lab_write_ids(&t->l, names[k], LAB_SAMPLES, LAB_LENGTH, ids);
        t->parts[k].path = lab_path(&t->l, names[k]);
    }
    assert_ok(grail_model_open(lab_golden("llama3"), &t->model));
    t->options = lab_options(&t->l, lab_golden("llama3"), NULL);
    t->options.read.parts = t->parts;
}

static void close_texts(texts *t)
{
    grail_model_close(t->model);
    lab_close(&t->l);
}

#define TEXTS_TEST(name) TEST_OF(texts, t, open_texts, close_texts, name)

static calibration *read_texts(texts *t, int count, const double *shares, int64_t samples)
{
    calibration *c = NULL;
    t->options.read.part_count = count;
    t->options.read.samples = samples;
    for (int k = 0; k < count; k++) {
        t->parts[k].share = shares[k];
    }
    assert_ok(calibration_read(t->model, &t->options, NULL, NULL, &c));
    return c;
}

/* From which texts the windows are, as letters. */
static void assert_order(const calibration *c, const char *expected)
{
    assert_int_equal(c->count, strlen(expected));
    for (int64_t i = 0; i < c->count; i++) {
        assert_int_equal('a' + c->windows.ids[i * LAB_LENGTH] / STEP, expected[i]);
    }
}

TEXTS_TEST(shares_give_windows_that_stand_evenly)
{
    calibration *c = read_texts(t, 2, (const double[]){0.75, 0.0}, 8);
    assert_order(c, "aabaaaba");
    calibration_release(c);
    c = read_texts(t, 3, (const double[]){0.0, 0.5, 0.0}, 8);
    assert_order(c, "bacbbacb");
    calibration_release(c);
    c = read_texts(t, 2, (const double[]){0.7, 0.3}, 4); /* 2.8 and 1.2 */
    assert_order(c, "aaba");
    calibration_release(c);
}

/* As many as the scarcer text allows. */
TEXTS_TEST(without_a_number_of_samples_shares_hold)
{
    calibration *c = read_texts(t, 2, (const double[]){0.8, 0.2}, 0);
    assert_int_equal(c->count, 20); /* 16 of one and 4 of the other */
    calibration_release(c);
    c = read_texts(t, 1, (const double[]){0.0}, 0);
    assert_int_equal(c->count, LAB_SAMPLES);
    calibration_release(c);
}

TEXTS_TEST(each_text_is_drawn_from_as_if_alone)
{
    const size_t bytes = LAB_LENGTH * sizeof(int32_t);
    t->options.read.seed = 5;
    OWNED(calibration) *both = read_texts(t, 2, (const double[]){0.5, 0.5}, 8);
    OWNED(calibration) *again = read_texts(t, 2, (const double[]){0.5, 0.5}, 8);
    assert_memory_equal(both->windows.ids, again->windows.ids, 8 * bytes);
    t->options.read.parts = NULL;
    t->options.read.part_count = 0;
    t->options.read.samples = 4;
    t->options.read.text.path = t->parts[0].path;
    OPENED(calibration, alone, calibration_read(t->model, &t->options, NULL, NULL, &alone));
    for (size_t i = 0; i < 4; i++) {
        assert_memory_equal(both->windows.ids + 2 * i * LAB_LENGTH,
                            alone->windows.ids + i * LAB_LENGTH, bytes);
    }
    t->options.read.seed = 6;
    t->options.read.parts = t->parts;
    OWNED(calibration) *other = read_texts(t, 2, (const double[]){0.5, 0.5}, 8);
    assert_memory_not_equal(both->windows.ids, other->windows.ids, 8 * bytes);
}

TEXTS_TEST(every_text_is_recorded)
{
    OWNED(calibration) *c = read_texts(t, 2, (const double[]){0.0, 0.0}, 8);
    const json_t *parts = json_object_get(c->description, "parts");
    assert_int_equal(json_array_size(parts), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *one = json_array_get(parts, i);
        const char *hash = json_string_value(json_object_get(one, "text_sha256"));
        assert_int_equal(json_integer_value(json_object_get(one, "samples")), 4);
        assert_true(calibration_record_is(c->description, "text_sha256", hash));
    }
    assert_false(calibration_record_is(c->description, "text_sha256", "0"));
    assert_null(json_object_get(c->description, "file"));
}

static void assert_refused(texts *t, int count, const double *shares, const char *message)
{
    t->options.read.part_count = count;
    for (int k = 0; k < count; k++) {
        t->parts[k].share = shares[k];
    }
    t->options.output.path = lab_path(&t->l, "out");
    assert_fails(lab_compress(&t->options), GRAIL_ERROR_ARGUMENT, message);
}

TEXTS_TEST(shares_that_do_not_fit_are_refused)
{
    t->options.read.samples = 8;
    assert_refused(t, 2, (const double[]){0.5, 0.6}, "add up to 1.1, expected 1");
    assert_refused(t, 2, (const double[]){0.5, 0.4}, "add up to 0.9, expected 1");
    assert_refused(t, 3, (const double[]){0.5, 0.5, 0.0}, "expected less than 1");
    assert_refused(t, 2, (const double[]){-0.5, 0.0}, "is -0.5, expected a number from 0 to 1");
    assert_refused(t, 2, (const double[]){(double)NAN, 0.0}, "expected a number from 0 to 1");
    assert_refused(t, 2, (const double[]){0.01, 0.0}, "has no window of");
    assert_refused(t, -1, NULL, "-1 texts were announced");
    t->options.read.samples = 40;
    assert_refused(t, 2, (const double[]){0.5, 0.5},
                   "a.npy: 20 samples were requested, but the text holds only 16 windows");
    t->options.read.samples = INT64_MAX;
    assert_refused(t, 1, (const double[]){0.0}, "9223372036854775807 samples were requested");
    t->options.read.samples = 0;
    t->options.read.text.context = 0;
    lab_write_ids(&t->l, "b.npy", LAB_SAMPLES, LAB_LENGTH / 2,
                  (const int32_t[LAB_SAMPLES * LAB_LENGTH / 2]){0});
    assert_refused(t, 2, (const double[]){0.5, 0.5}, "has rows of 32 tokens and");
    t->parts[1].path = NULL;
    assert_refused(t, 2, (const double[]){0.5, 0.5}, "the share of text '(none)'");
    t->options.read.parts = NULL;
    t->options.read.part_count = 2;
    assert_fails(lab_compress(&t->options), GRAIL_ERROR_ARGUMENT, "2 texts were announced");
}

static grail_status read_once(void *context)
{
    texts *t = context;
    OWNED(calibration) *c = NULL;
    return calibration_read(t->model, &t->options, NULL, NULL, &c);
}

TEXTS_TEST(every_failing_allocation_is_survived)
{
    t->options.read.part_count = TEXTS;
    t->options.read.samples = 8;
    support_fail_each_allocation(read_once, t);
}
