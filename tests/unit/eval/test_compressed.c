/* A narrowed network in memory has the accuracy of the checkpoint that the same run writes, on
 * images that are opened once. */
#include "unit/pipeline/vision_lab.h"

static grail_accuracy accuracy_of(const char *path, const grail_images *images, int64_t count)
{
    grail_accuracy a = {0};
    OWNED(grail_model) *model = vision_model_open(path);
    assert_ok(grail_accuracy_measure(model, images, count, NULL, NULL, NULL, &a));
    return a;
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

VISION_TEST(what_lies_in_memory_is_as_accurate_as_what_is_written)
{
    static const int64_t counts[] = {0, 11};
    for (int f = 0; f < VISION_FAMILIES; f += VISION_HUGGING_FACE_VIT) {
        const char *dense = vision_network(v, (vision_family)f, vision_family_name(f));
        grail_compress_options options = vision_options(v, dense, vision_path(v, "narrow"));
        vision_cut(&options, 0.4);
        assert_ok(lab_compress(&options));
        grail_images *images = open_images(v, dense);
        grail_compression *c = lab_run_in_memory(options);
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
}

static int cancel(void *user, const grail_eval_progress *p)
{
    *(int64_t *)user = p->done;
    return 1;
}

/* The results that an observer was shown. */
typedef struct shown {
    double sum;
    int64_t count;
} shown;

static int add_results(void *user, const grail_eval_progress *p)
{
    shown *s = user;
    for (int64_t i = 0; i < p->count; i++) {
        s->sum += p->results[i];
    }
    s->count += p->count;
    assert_true(s->count == p->done);
    return 0;
}

VISION_TEST(its_observer_sees_which_images_are_right)
{
    shown s = {0};
    grail_accuracy a = {0};
    const char *dense = vision_network(v, VISION_BASIC, "dense");
    grail_compress_options options = vision_options(v, dense, NULL);
    vision_cut(&options, 0.4);
    grail_images *images = open_images(v, dense);
    grail_compression *c = lab_run_in_memory(options);
    assert_ok(grail_compression_accuracy(c, images, 0, add_results, &s, &a));
    assert_true(s.count == VISION_IMAGES);
    assert_near(s.sum / VISION_IMAGES, a.top1, 1e-12);
    grail_compression_close(c);
    grail_images_close(images);
}

/* Heads in groups and neurons, cut and folded. */
LAB_TEST(what_lies_in_memory_has_the_perplexity_of_what_is_written)
{
    static const char *const selectors[] = {"wanda", "fold"};
    const char *dense = lab_f32(l, "llama3", "dense");
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        shown s = {0};
        grail_model *model = NULL;
        grail_perplexity written = {0};
        grail_perplexity held = {0};
        grail_compress_options options = lab_options(l, dense, lab_path(l, "narrow"));
        options.cut.selector = selectors[i];
        assert_ok(lab_compress(&options));
        assert_ok(grail_model_open(options.output.path, &model));
        assert_ok(
            grail_perplexity_measure(model, &options.read.text, 0, NULL, NULL, NULL, &written));
        grail_model_close(model);
        grail_compression *c = lab_run_in_memory(options);
        assert_ok(grail_compression_perplexity(c, &options.read.text, 0, add_results, &s, &held));
        grail_compression_close(c);
        assert_near(held.mean_nll, written.mean_nll, 1e-6);
        assert_string_equal(held.text_sha256, written.text_sha256);
        assert_true(s.count == LAB_SAMPLES);
        assert_near(s.sum / LAB_SAMPLES, held.mean_nll, 1e-9);
        support_remove_tree(options.output.path);
    }
}

VISION_TEST(its_observer_is_told_and_may_cancel)
{
    int64_t done = 0;
    grail_accuracy a = {.images = -1};
    const char *dense = vision_network(v, VISION_BASIC, "dense");
    grail_compress_options options = vision_options(v, dense, NULL);
    vision_cut(&options, 0.4);
    options.fit.compensate = "none";
    grail_images *images = open_images(v, dense);
    grail_compression *c = lab_run_in_memory(options);
    assert_fails(grail_compression_accuracy(c, images, 0, cancel, &done, &a), GRAIL_ERROR_CANCELLED,
                 "cancelled after");
    assert_true(done > 0);
    assert_int_equal(a.images, -1);
    assert_fails(grail_compression_accuracy(c, images, VISION_IMAGES + 1, NULL, NULL, &a),
                 GRAIL_ERROR_ARGUMENT, "49 images were requested, but the data holds 48");
    grail_compression_close(c);
    grail_images_close(images);
}

VISION_TEST(a_run_that_writes_holds_nothing)
{
    grail_compression *c = NULL;
    grail_accuracy a = {.images = -1};
    const char *dense = vision_network(v, VISION_BASIC, "dense");
    grail_compress_options options = vision_options(v, dense, vision_path(v, "narrow"));
    vision_cut(&options, 0.4);
    options.fit.compensate = "none";
    grail_images *images = open_images(v, dense);
    assert_ok(grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    assert_fails(grail_compression_accuracy(c, images, 0, NULL, NULL, &a), GRAIL_ERROR_ARGUMENT,
                 "open the output to measure it");
    assert_int_equal(a.images, -1);
    grail_compression_close(c);
    grail_images_close(images);
}
