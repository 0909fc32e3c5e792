/* Comparisons of networks that read images, and the zero-column identity of all their sites. */
#include "unit/pipeline/vision_lab.h"

#include "support/json_memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const grail_comparison unset = {.compared = -7};

static grail_comparison compare(const vision_lab *v, const char *dense, const char *narrow,
                                const char *backend_name)
{
    grail_comparison c = unset;
    OWNED(grail_model) *a = vision_model_open(dense);
    OWNED(grail_model) *b = vision_model_open(narrow);
    const grail_image_source *source = v == NULL ? NULL : &v->images;
    assert_ok(grail_verify_images(a, b, source, 0, &(grail_compute){.backend = backend_name}, NULL,
                                  NULL, &c));
    return c;
}

/* -- comparisons ------------------------------------------------------------------------------ */

static double log_of_sum(const double *row, int64_t width)
{
    double sum = 0.0;
    for (int64_t i = 0; i < width; i++) {
        sum += exp(row[i]);
    }
    return log(sum);
}

static int64_t largest_of(const double *row, int64_t width)
{
    int64_t best = 0;
    for (int64_t i = 0; i < width; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

/* Compares by hand, from the outputs on the same images. */
static grail_comparison expected_comparison(const vision_values *a, const vision_values *b)
{
    grail_comparison c = {.max_abs = vision_distance(a, b), .compared = a->rows};
    for (int64_t r = 0; r < a->rows; r++) {
        const double *p = a->data + r * a->width;
        const double *q = b->data + r * a->width;
        double kl = 0.0;
        for (int64_t i = 0; i < a->width; i++) {
            const double log_p = p[i] - log_of_sum(p, a->width);
            kl += exp(log_p) * (log_p - q[i] + log_of_sum(q, a->width));
        }
        c.mean_kl += kl / (double)a->rows;
        c.max_kl = fmax(c.max_kl, kl);
        c.top1_agreement += largest_of(p, a->width) == largest_of(q, a->width) ? 1.0 : 0.0;
    }
    c.top1_agreement /= (double)a->rows;
    return c;
}

static void prune(const vision_lab *v, const char *model, const char *output)
{
    grail_compress_options options = vision_options(v, model, output);
    vision_cut(&options, 0.34);
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
}

VISION_TEST(a_comparison_is_that_of_the_logits_on_the_images)
{
    const char *dense = vision_network(v, VISION_BASIC, "dense");
    const char *narrow = vision_path(v, "narrow");
    prune(v, dense, narrow);
    vision_values a = vision_outputs(v, dense, backend_reference());
    vision_values b = vision_outputs(v, narrow, backend_reference());
    const grail_comparison expected = expected_comparison(&a, &b);
    const grail_comparison c = compare(v, dense, narrow, "ref");
    assert_int_equal(c.compared, VISION_IMAGES);
    assert_near(c.max_abs / expected.max_abs, 1.0, 1e-5);
    assert_near(c.mean_kl / expected.mean_kl, 1.0, 1e-4);
    assert_near(c.max_kl / expected.max_kl, 1.0, 1e-4);
    assert_near(c.top1_agreement, expected.top1_agreement, 1e-12);
    assert_true(c.top1_agreement > 0.0 && c.top1_agreement < 1.0);
    memory_free(a.data);
    memory_free(b.data);
}

VISION_TEST(as_many_images_are_compared_as_were_asked_for)
{
    grail_comparison c = unset;
    OWNED(grail_model) *dense = vision_model_open(vision_network(v, VISION_BASIC, "dense"));
    assert_ok(grail_verify_images(dense, dense, &v->images, 5, NULL, NULL, NULL, &c));
    assert_int_equal(c.compared, 5);
    assert_ok(
        grail_verify_images(dense, dense, &v->images, VISION_IMAGES + 1, NULL, NULL, NULL, &c));
    assert_int_equal(c.compared, VISION_IMAGES);
}

VISION_TEST(without_images_random_pixels_are_compared)
{
    for (int f = 0; f < VISION_FAMILIES; f += VISION_FAMILIES - 1) {
        const char *dense = vision_network(v, (vision_family)f, vision_family_name(f));
        const grail_comparison c = compare(NULL, dense, dense, "cpu");
        assert_int_equal(c.compared, 8);
        assert_true(c.max_abs == 0.0 && c.top1_agreement == 1.0);
        assert_near(c.max_kl, 0.0, 1e-12);
        assert_int_equal(c.identity_checked, 0);
    }
    const char *narrow = vision_path(v, "narrow");
    prune(v, vision_path(v, "basic"), narrow);
    const grail_comparison one = compare(NULL, vision_path(v, "basic"), narrow, "cpu");
    const grail_comparison two = compare(NULL, vision_path(v, "basic"), narrow, "cpu");
    assert_true(one.max_abs > 0.01 && one.max_abs == two.max_abs && one.mean_kl == two.mean_kl);
    assert_true(one.identity_checked == 1 && one.identity_max_abs < 1e-4);
}

/* A network without its head gives features. */
static const char *write_headless(const vision_lab *v, const char *name, float change)
{
    OWNED(vision_model) m;
    const char *path = vision_path(v, name);
    vision_make(&m, VISION_TIMM_VIT);
    vision_find(&m, "norm.bias")->values[0] += change;
    for (int i = m.count - 2; i < m.count; i++) {
        assert_true(strncmp(m.tensors[i].shape.name, "head.", strlen("head.")) == 0);
        memory_free(m.tensors[i].values);
    }
    m.count -= 2;
    vision_write(&m, path);
    return path;
}

VISION_TEST(features_have_a_distance_but_no_classes)
{
    const char *a = write_headless(v, "a", 0.0F);
    const char *b = write_headless(v, "b", 0.25F);
    const grail_comparison c = compare(v, a, b, "cpu");
    assert_near(c.max_abs, 0.25, 1e-4);
    assert_true(isnan(c.mean_kl) && isnan(c.max_kl) && isnan(c.top1_agreement));
}

/* -- the identity ----------------------------------------------------------------------------- */

static void assert_identity(vision_family family, const char *selector, const char *backend_name)
{
    OWNED(vision_lab) v;
    vision_open(&v);
    const char *model = vision_network(&v, family, "dense");
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
    vision_cut(&options, 0.34);
    options.cut.selector = selector;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    const grail_comparison c = compare(&v, model, options.output.path, backend_name);
    assert_int_equal(c.identity_checked, 1);
    assert_near(c.identity_max_abs, 0.0, 1e-4);
    assert_true(c.max_abs > 0.01); /* the cut changes the outputs */
}

TEST(pruning_without_repair_equals_zeroing_the_consumers_columns)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        assert_identity((vision_family)f, "magnitude-l1", "cpu");
        assert_identity((vision_family)f, "random", "ref");
    }
}

/* Copies a narrow network with the first value of a tensor changed, and its report. */
static const char *write_damaged(const vision_lab *v, const char *from, const char *tensor)
{
    vision_model m;
    char path[LAB_PATH];
    const char *to = vision_path(v, tensor);
    OWNED(json_t) *report = read_json(from, "report.json");
    vision_read(&m, from);
    vision_find(&m, tensor)->values[0] += 0.5F;
    vision_write(&m, to);
    vision_fini(&m);
    snprintf(path, sizeof path, "%s/report.json", to);
    assert_int_equal(json_dump_file(report, path, 0), 0);
    return to;
}

VISION_TEST(the_identity_sees_a_damaged_tensor)
{
    static const char *const tensors[] = {"conv1.weight",
                                          "bn1.running_mean",
                                          "layer1.0.conv1.weight",
                                          "layer1.1.bn2.weight",
                                          "layer2.0.conv2.weight",
                                          "layer2.0.downsample.0.weight",
                                          "fc.weight"};
    const char *dense = vision_network(v, VISION_BASIC, "dense");
    const char *narrow = vision_path(v, "narrow");
    prune(v, dense, narrow);
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        const grail_comparison c = compare(v, dense, write_damaged(v, narrow, tensors[i]), "cpu");
        assert_int_equal(c.identity_checked, 1);
        assert_true(c.identity_max_abs > 1e-3);
    }
}

VISION_TEST(the_identity_is_not_claimed_for_what_was_fitted_folded_or_repaired)
{
    const char *model = vision_network(v, VISION_BASIC, "dense");
    for (int how = 0; how < 3; how++) {
        const char *output = lab_path_of(&v->l, "out-%d", how);
        grail_compress_options options = vision_options(v, model, output);
        vision_cut(&options, 0.34);
        options.fit.compensate = how == 0 ? "grail" : "none";
        options.cut.selector = how == 1 ? "fold" : "magnitude-l2";
        options.fit.repair = how == 2;
        assert_ok(lab_compress(&options));
        assert_int_equal(compare(v, model, output, "cpu").identity_checked, 0);
    }
}

/* -- refusals --------------------------------------------------------------------------------- */

VISION_TEST(networks_that_read_or_give_something_else_are_not_compared)
{
    grail_comparison c = unset;
    OWNED(grail_model) *dense = vision_model_open(vision_network(v, VISION_BASIC, "dense"));
    OWNED(grail_model) *features = vision_model_open(write_headless(v, "features", 0.0F));
    OPENED(grail_model, text, grail_model_open(lab_golden("llama3"), &text));
    assert_fails(grail_verify_images(dense, features, NULL, 0, NULL, NULL, NULL, &c),
                 GRAIL_ERROR_SHAPE, "the networks have different numbers of outputs: ");
    assert_fails(grail_verify_images(dense, text, NULL, 0, NULL, NULL, NULL, &c),
                 GRAIL_ERROR_ARGUMENT, "cannot compare a text network with an image network");
    assert_fails(grail_verify(text, dense, NULL, 0, NULL, NULL, NULL, &c), GRAIL_ERROR_ARGUMENT,
                 "cannot compare a text network with an image network");
    assert_fails(grail_verify(dense, text, NULL, 0, NULL, NULL, NULL, &c), GRAIL_ERROR_ARGUMENT,
                 "cannot compare a text network with an image network");
    assert_fails(grail_verify(dense, dense, NULL, 0, NULL, NULL, NULL, &c), GRAIL_ERROR_ARGUMENT,
                 "read images; expected networks that read text");
    assert_int_equal(c.compared, unset.compared);
}

static grail_status verify_once(void *context)
{
    grail_comparison c;
    void **given = context;
    const grail_status status =
        grail_verify_images(given[0], given[1], given[2], 2, NULL, NULL, NULL, &c);
    return status == GRAIL_OK
               ? grail_verify_images(given[0], given[1], NULL, 0, NULL, NULL, NULL, &c)
               : status;
}

VISION_TEST(every_failing_allocation_is_survived)
{
    OWNED(grail_model) *dense = vision_model_open(vision_network(v, VISION_BASIC, "dense"));
    prune(v, vision_path(v, "dense"), vision_path(v, "narrow"));
    OWNED(grail_model) *narrow = vision_model_open(vision_path(v, "narrow"));
    void *context[] = {dense, narrow, &v->images};
    support_fail_each_allocation(verify_once, context);
}

CMFixtureFunction support_setup = json_memory_use;
