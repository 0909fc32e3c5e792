/* A narrowed network in memory has the accuracy of the checkpoint that the same run writes, on
 * images that are opened once. */
#include "unit/pipeline/vision_lab.h"

static grail_accuracy accuracy_of(const char *path, const grail_images *images, int64_t count)
{
    grail_accuracy a = {0};
    grail_model *model = vision_model_open(path);
    assert_ok(grail_accuracy_measure(model, images, count, NULL, NULL, NULL, &a));
    grail_model_close(model);
    return a;
}

static grail_compression *run_in_memory(grail_compress_options options)
{
    grail_compression *c = NULL;
    options.output.path = NULL;
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    return c;
}

static grail_images *open_images(const vision_lab *v, const char *path)
{
    grail_images *images = NULL;
    grail_model *model = vision_model_open(path);
    assert_ok(grail_images_open(model, &v->images, &images));
    assert_int_equal(grail_images_count(images), VISION_IMAGES);
    grail_model_close(model); /* images outlive the model that they were opened for */
    return images;
}

static void what_lies_in_memory_is_as_accurate_as_what_is_written(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 11};
    vision_lab v;
    vision_open(&v);
    for (int f = 0; f < VISION_FAMILIES; f += VISION_HUGGING_FACE_VIT) {
        const char *dense = vision_network(&v, (vision_family)f, vision_family_name(f));
        grail_compress_options options = vision_options(&v, dense, vision_path(&v, "narrow"));
        vision_cut(&options, 0.4);
        assert_ok(lab_compress(&options));
        grail_images *images = open_images(&v, dense);
        grail_compression *c = run_in_memory(options);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            const grail_accuracy written = accuracy_of(options.output.path, images, counts[i]);
            grail_accuracy held = {0};
            assert_ok(grail_compression_accuracy(c, images, counts[i], NULL, NULL, &held));
            assert_int_equal(held.images, counts[i] == 0 ? VISION_IMAGES : counts[i]);
            assert_true(held.top1 == written.top1);
            assert_near(held.mean_nll, written.mean_nll, 1e-5);
            assert_true(held.mean_nll != accuracy_of(dense, images, counts[i]).mean_nll);
        }
        grail_compression_close(c);
        grail_images_close(images);
        support_remove_tree(options.output.path);
    }
    vision_close(&v);
}

static int cancel(void *user, int64_t done, int64_t total, double so_far)
{
    (void)total;
    (void)so_far;
    *(int64_t *)user = done;
    return 1;
}

static void its_observer_is_told_and_may_cancel(void **state)
{
    (void)state;
    vision_lab v;
    int64_t done = 0;
    grail_accuracy a = {.images = -1};
    vision_open(&v);
    const char *dense = vision_network(&v, VISION_BASIC, "dense");
    grail_compress_options options = vision_options(&v, dense, NULL);
    vision_cut(&options, 0.4);
    options.fit.compensate = "none";
    grail_images *images = open_images(&v, dense);
    grail_compression *c = run_in_memory(options);
    assert_fails(grail_compression_accuracy(c, images, 0, cancel, &done, &a), GRAIL_ERROR_CANCELLED,
                 "cancelled after");
    assert_true(done > 0);
    assert_int_equal(a.images, -1);
    assert_fails(grail_compression_accuracy(c, images, VISION_IMAGES + 1, NULL, NULL, &a),
                 GRAIL_ERROR_ARGUMENT, "49 images were requested, but the data holds 48");
    grail_compression_close(c);
    grail_images_close(images);
    vision_close(&v);
}

static void a_run_that_writes_holds_nothing(void **state)
{
    (void)state;
    vision_lab v;
    grail_compression *c = NULL;
    grail_accuracy a = {.images = -1};
    vision_open(&v);
    const char *dense = vision_network(&v, VISION_BASIC, "dense");
    grail_compress_options options = vision_options(&v, dense, vision_path(&v, "narrow"));
    vision_cut(&options, 0.4);
    options.fit.compensate = "none";
    grail_images *images = open_images(&v, dense);
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    assert_fails(grail_compression_accuracy(c, images, 0, NULL, NULL, &a), GRAIL_ERROR_ARGUMENT,
                 "open the output to measure it");
    assert_int_equal(a.images, -1);
    grail_compression_close(c);
    grail_images_close(images);
    vision_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_in_memory_is_as_accurate_as_what_is_written),
        cmocka_unit_test(its_observer_is_told_and_may_cancel),
        cmocka_unit_test(a_run_that_writes_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
