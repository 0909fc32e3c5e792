/* Runs on a backend that refuses large matrices, as a device does whose memory is full: they go on
 * with fewer samples at once, count none of them twice, and say so. */
#include "vision_lab.h"

#include "pipeline/network/keeping.h"
#include "support/guarded.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void write_many_ids(lab *l)
{
    enum { ROWS = 64, LENGTH = 128, VOCABULARY = 96 };
    static int32_t ids[ROWS * LENGTH];
    uint32_t x = 1;
    for (int i = 0; i < ROWS * LENGTH; i++) {
        x = x * 69069U + 12345U;
        ids[i] = (int32_t)((x >> 16) % VOCABULARY);
    }
    lab_write_ids(l, "many.npy", ROWS, LENGTH, ids);
    snprintf(l->calibration, sizeof l->calibration, "%s", lab_path(l, "many.npy"));
}

/* How many samples ran at once at last; *peak is what the run took. */
static int64_t run(grail_compress_options *options, const char *output, size_t limit, size_t *peak)
{
    grail_compression *c = NULL;
    options->output.path = output;
    options->run.backend = "guarded";
    (void)guarded_limit(limit);
    assert_ok(grail_compression_open(options, &c));
    assert_ok(grail_compression_run(c));
    const int64_t at_once = grail_compression_totals_get(c).samples_at_once;
    assert_ok(grail_compression_finish(c));
    grail_compression_close(c);
    *peak = guarded_limit(0);
    return at_once;
}

/* The largest difference of a weight, as a share of the largest one of its tensor. */
static double difference_of(const char *left, const char *right)
{
    OWNED(vision_model) a = {0};
    OWNED(vision_model) b = {0};
    double most = 0.0;
    vision_read(&a, left);
    vision_read(&b, right);
    assert_int_equal(a.count, b.count);
    for (int t = 0; t < a.count; t++) {
        const float *x = a.tensors[t].values;
        const float *y = b.tensors[t].values;
        double largest = 0.0;
        double apart = 0.0;
        assert_int_equal(vision_elements(&a.tensors[t]), vision_elements(&b.tensors[t]));
        for (int64_t i = 0; x != NULL && i < vision_elements(&a.tensors[t]); i++) {
            largest = fmax(largest, fabs((double)x[i]));
            apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
        }
        most = fmax(most, apart > 0.0 ? apart / largest : 0.0);
    }
    return most;
}

/* Both choose the same units, so weights differ by the rounding of sums in another order alone. */
static void assert_small_difference(grail_compress_options *options, const char *whole,
                                    const char *parts, int64_t batch)
{
    size_t peak = 0;
    size_t least = 0;
    assert_int_equal(run(options, whole, 0, &peak), 0);
    const int64_t at_once = run(options, parts, peak - peak / 10, &least);
    assert_true(least < peak);
    assert_in_range(at_once, 1, batch - 1);
    const double difference = difference_of(whole, parts);
    printf("%d samples at once: weights differ by %.1e\n", (int)at_once, difference);
    assert_true(difference < 1e-4);
}

LAB_TEST(decoders_go_on_with_fewer_samples)
{
    enum { BATCH = 16 }; /* of 128 tokens */
    write_many_ids(l);
    for (int way = 0; way < 6; way++) {
        const char *whole = lab_path_of(l, "%d", way);
        const char *parts = lab_path_of(l, "%d-parts", way);
        grail_compress_options options = lab_options(l, lab_golden("llama3"), whole);
        options.read.samples = 64;
        options.cut.selector = way == 2 ? "fold" : "wanda";
        options.fit.target = way == 2 ? "dense" : options.fit.target;
        options.fit.open_loop = way == 1;
        options.fit.compensate = way == 3 ? "grail" : "full";
        options.run.memory = way == 4 ? 1 : 1 << 30;
        options.fit.token_weights = way == 0 ? "stream" : "none";
        options.fit.refit = way == 5 ? "all" : "none";
        assert_small_difference(&options, whole, parts, BATCH);
    }
}

VISION_TEST(image_networks_go_on_with_fewer_samples)
{
    static const vision_family families[] = {VISION_BASIC, VISION_TIMM_VIT};
    for (int f = 0; f < 2; f++) {
        const char *model = vision_network(v, families[f], f == 0 ? "resnet" : "vit");
        const char *whole = lab_path_of(&v->l, "%d", f);
        const char *parts = lab_path_of(&v->l, "%d-parts", f);
        grail_compress_options options = vision_options(v, model, whole);
        vision_cut(&options, 0.4);
        options.cut.selector = "wanda";
        options.run.memory = 1 << 30;
        options.fit.repair = f == 0;
        options.fit.conv_fit = "channel"; /* pieces of patches have their own size */
        assert_small_difference(&options, whole, parts, VISION_IMAGES / 4);
    }
}

static int keep_healing(void *user, const grail_healing *now)
{
    *(grail_healing *)user = *now;
    return 0;
}

/* A training takes more of the device than passes do, so it is what the limit stops. */
LAB_TEST(trainings_go_on_with_fewer_windows)
{
    enum { STEP = 32 };
    static const char *const what[] = {"block", "model"};
    write_many_ids(l);
    guarded_want(STEP * 128);
    for (int i = 0; i < 2; i++) {
        size_t peak = 0;
        size_t least = 0;
        grail_healing whole = {0};
        grail_healing parts = {0};
        grail_compress_options options = lab_options(l, lab_golden("llama3"), "");
        options.read.samples = 64;
        options.cut.selector = "wanda";
        options.heal.what = what[i];
        options.heal.steps = 8;
        options.heal.batch = STEP;
        options.run.memory = 1 << 30;
        options.run.heal_observer = keep_healing;
        options.run.observer_user = &whole;
        assert_int_equal(run(&options, lab_path_of(l, "%s", what[i]), 0, &peak), 0);
        options.run.observer_user = &parts;
        const char *output = lab_path_of(l, "%s-parts", what[i]);
        const int64_t at_once = run(&options, output, peak - peak / 10, &least);
        printf("%s: %d windows at once\n", what[i], (int)at_once);
        assert_true(least < peak && parts.ended != 0 && parts.best_step > 0);
        assert_int_equal(at_once, STEP / 2); /* passes take 16 */
        assert_near(parts.held_before, whole.held_before, 1e-6 * whole.held_before);
        assert_near(parts.held_after, whole.held_after, 1e-3 * whole.held_after);
    }
    guarded_want(300);
}

/* Rows of a batch share how far a mixed target is the dense one. */
LAB_TEST(merged_units_with_mixed_targets_need_whole_batches)
{
    size_t peak = 0;
    write_many_ids(l);
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "whole"));
    options.read.samples = 64;
    options.cut.selector = "fold";
    options.run.memory = 1 << 30;
    assert_int_equal(run(&options, lab_path(l, "whole"), 0, &peak), 0);
    options.output.path = lab_path(l, "out");
    OPENED(grail_compression, c, grail_compression_open(&options, &c));
    (void)guarded_limit(peak - peak / 10);
    assert_fails(grail_compression_run(c), GRAIL_ERROR_MEMORY, "the device is full: it has no");
    (void)guarded_limit(0);
}

/* Unless a number is given, half of what the device has free may be taken. */
TEST(what_is_kept_follows_the_device)
{
    (void)guarded_limit(1 << 20);
    OPENED(backend, b, backend_open("guarded", NULL, &b));
    assert_true(bytes_fit(b, 1 << 19, 0));
    assert_false(bytes_fit(b, (1 << 19) + 1, 0));
    assert_true(bytes_fit(b, (1 << 19) + 1, 1 << 20));
    matrix taken = {0};
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, 1, 1 << 17, &taken)); /* half of it */
    assert_true(bytes_fit(b, 1 << 18, 0));
    assert_false(bytes_fit(b, (1 << 18) + 1, 0));
    matrix_free(&taken);
    (void)guarded_limit(0);
}

LAB_TEST(not_even_one_sample_fits)
{
    write_many_ids(l);
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    options.read.samples = 64;
    options.run.backend = "guarded";
    OPENED(grail_compression, c, grail_compression_open(&options, &c));
    (void)guarded_limit(1 << 18); /* the embeddings of all samples have more */
    assert_fails(grail_compression_run(c), GRAIL_ERROR_MEMORY, "the device is full: it has no");
    assert_non_null(strstr(grail_error_message(), "; a single sample at once was tried, too"));
    (void)guarded_limit(0);
}

int main(void)
{
    guarded_add();
    return support_run_tests();
}
