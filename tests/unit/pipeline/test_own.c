/* --compensate own: the update that a selector's authors make themselves, on complete networks. */
#include "vision_sites.h"

#include "../solve/oracle.h"

#include <math.h>
#include <string.h>

enum { MOST = 64, LAYERS = 2 };

static grail_compress_options own_options(const lab *l, const char *model, const char *output)
{
    grail_compress_options options = lab_options(l, model, output);
    options.cut.selector = "flap";
    options.fit.compensate = "own";
    return options;
}

/* -- a transformer of images, whose values can be looked at ------------------------------------ */

static double mean_of(const vision_values *x, int64_t column)
{
    double sum = 0.0;
    for (int64_t t = 0; t < x->rows; t++) {
        sum += x->data[t * x->width + column];
    }
    return sum / (double)x->rows;
}

static bool is_kept(const int64_t *kept, int count, int64_t unit)
{
    for (int i = 0; i < count; i++) {
        if (kept[i] == unit) {
            return true;
        }
    }
    return false;
}

/* Narrow weights equal the kept columns of the dense ones, and b' = b + W_R mean(X_R). */
static void assert_only_the_bias_moved(const vision_lab *v, const char *model, const char *output)
{
    OWNED(vision_model) dense;
    OWNED(vision_model) narrow;
    int64_t kept[MOST];
    vision_read(&dense, model);
    vision_read(&narrow, output);
    const int count = vision_kept_units(output, "blocks.0.attn.proj", kept, MOST);
    const vision_tensor *w = vision_find(&dense, "blocks.0.attn.proj.weight");
    const vision_tensor *less = vision_find(&narrow, "blocks.0.attn.proj.weight");
    vision_values x = vision_tap_input(v, model, "blocks.0.attn.proj.weight");
    const int64_t outputs = w->shape.shape[0];
    assert_int_equal(less->shape.shape[1], count * VISION_HEAD_DIM);
    for (int64_t o = 0; o < outputs; o++) {
        double missing = 0.0;
        int64_t next = o * less->shape.shape[1];
        for (int64_t j = 0; j < x.width; j++) {
            const float weight = w->values[o * x.width + j];
            if (is_kept(kept, count, j / VISION_HEAD_DIM)) {
                assert_true(less->values[next++] == weight);
            } else {
                missing += (double)weight * mean_of(&x, j);
            }
        }
        const double before = (double)vision_find(&dense, "blocks.0.attn.proj.bias")->values[o];
        const double after = (double)vision_find(&narrow, "blocks.0.attn.proj.bias")->values[o];
        assert_near(after - before, missing, 1e-5);
    }
    memory_free(x.data);
}

/* The mean of the consumer's output over the calibration set is that of the dense network; without
 * the bias it is not. */
static double mean_difference(const vision_lab *v, const char *model, const char *output)
{
    double largest = 0.0;
    vision_values dense = vision_tap(v, model, "blocks.0.attn.proj.weight", 0);
    vision_values narrow = vision_tap(v, output, "blocks.0.attn.proj.weight", 0);
    for (int64_t o = 0; o < dense.width; o++) {
        largest = fmax(largest, fabs(mean_of(&dense, o) - mean_of(&narrow, o)));
    }
    memory_free(dense.data);
    memory_free(narrow.data);
    return largest;
}

VISION_TEST(flap_moves_the_bias_by_the_means_of_what_it_removed)
{
    const char *model = vision_network(v, VISION_TIMM_VIT, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "own"));
    vision_cut(&options, 0.5);
    options.cut.selector = "flap";
    options.fit.compensate = "own";
    assert_ok(lab_compress(&options));
    assert_only_the_bias_moved(v, model, options.output.path);
    assert_near(mean_difference(v, model, options.output.path), 0.0, 1e-5);
    options.output.path = vision_path(v, "none");
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    assert_true(mean_difference(v, model, options.output.path) > 1e-2);
}

/* H[width, width] = X^T X + lambda I with lambda = 0.01 of the mean diagonal, which is returned. */
static double damped_gram(const vision_values *x, double *h)
{
    double lambda = 0.0;
    memset(h, 0, (size_t)(x->width * x->width) * sizeof h[0]);
    for (int64_t i = 0; i < x->width * x->width; i++) {
        for (int64_t t = 0; t < x->rows; t++) {
            h[i] += x->data[t * x->width + i / x->width] * x->data[t * x->width + i % x->width];
        }
        lambda += i / x->width == i % x->width ? 0.01 * h[i] / (double)x->width : 0.0;
    }
    for (int64_t i = 0; i < x->width; i++) {
        h[i * x->width + i] += lambda;
    }
    return lambda;
}

/* W' = W H[:,P] H[P,P]^-1 of the dense weights, for the features of the kept heads. */
static void second_order_update(const vision_tensor *w, const double *h, int64_t features,
                                const int64_t *kept, double *out)
{
    static double inner[MOST * MOST];
    const int64_t width = w->shape.shape[1];
    memset(out, 0, (size_t)(w->shape.shape[0] * features) * sizeof out[0]);
    for (int64_t i = 0; i < features; i++) {
        const int64_t p = kept[i / VISION_HEAD_DIM] * VISION_HEAD_DIM + i % VISION_HEAD_DIM;
        for (int64_t j = 0; j < w->shape.shape[0] * width; j++) {
            out[j / width * features + i] += (double)w->values[j] * h[j % width * width + p];
        }
        for (int64_t j = 0; j < features; j++) {
            const int64_t q = kept[j / VISION_HEAD_DIM] * VISION_HEAD_DIM + j % VISION_HEAD_DIM;
            inner[j * features + i] = h[q * width + p];
        }
    }
    oracle_divide(features, inner, w->shape.shape[0], out);
}

VISION_TEST(ziplm_makes_the_second_order_update_of_all_features)
{
    static double h[MOST * MOST];
    static double expected[MOST * MOST];
    OWNED(vision_model) dense;
    OWNED(vision_model) narrow;
    int64_t kept[MOST];
    const char *model = vision_network(v, VISION_TIMM_VIT, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "out"));
    vision_cut(&options, 0.5);
    options.cut.selector = "ziplm";
    options.fit.compensate = "own";
    assert_ok(lab_compress(&options));
    vision_read(&dense, model);
    vision_read(&narrow, options.output.path);
    const int count = vision_kept_units(options.output.path, "blocks.0.attn.proj", kept, MOST);
    const vision_tensor *w = vision_find(&dense, "blocks.0.attn.proj.weight");
    const vision_tensor *less = vision_find(&narrow, "blocks.0.attn.proj.weight");
    vision_values x = vision_tap_input(v, model, "blocks.0.attn.proj.weight");
    assert_true(x.width <= MOST && w->shape.shape[0] <= MOST);
    const double lambda = damped_gram(&x, h);
    second_order_update(w, h, count * VISION_HEAD_DIM, kept, expected);
    for (int64_t i = 0; i < vision_elements(less); i++) {
        assert_near((double)less->values[i], expected[i], 1e-4);
    }
    json_t *report = read_json(options.output.path, "report.json");
    const json_t *entry = vision_reported_site(report, "blocks.0.attn.proj");
    assert_near(json_real_value(json_object_get(entry, "lambda")), lambda, 1e-5 * lambda);
    json_decref(report);
    memory_free(x.data);
}

/* -- decoders ---------------------------------------------------------------------------------- */

LAB_TEST(a_decoder_with_biases_gets_new_ones)
{
    static const char *const selectors[] = {"flap", "flap-ifv", "flap-wifn"};
    grail_site_report reports[2 * LAYERS];
    const char *model = lab_with_biases(l, "llama3", "biased");
    for (int i = 0; i < 3; i++) {
        const char *plain = lab_path_of(l, "plain-%d", i);
        grail_compress_options options = own_options(l, model, lab_path(l, selectors[i]));
        options.cut.selector = selectors[i];
        assert_int_equal(lab_compress_reports(&options, reports, 2 * LAYERS), 2 * LAYERS);
        for (int s = 0; s < 2 * LAYERS; s++) {
            assert_true(reports[s].fit.fit_after < reports[s].fit.fit_before);
            assert_true(reports[s].fit.bias == 1);
            assert_string_equal(reports[s].fit.fallback, "none");
        }
        options.output.path = plain;
        options.fit.compensate = "none";
        assert_ok(lab_compress(&options));
        /* of the first site, which both runs see alike */
        const char *own = lab_path(l, selectors[i]);
        assert_true(same_tensor(own, plain, "model.layers.0.self_attn.o_proj.weight"));
        assert_false(same_tensor(own, plain, "model.layers.0.self_attn.o_proj.bias"));
        assert_true(same_tensor(own, plain, "model.layers.0.self_attn.v_proj.bias"));
    }
}

/* The choice is in the plan, whatever the options of the next run say. */
LAB_TEST(a_plan_repeats_it)
{
    const char *model = lab_with_biases(l, "llama3", "biased");
    grail_compress_options options = own_options(l, model, lab_path(l, "first"));
    assert_ok(lab_compress(&options));
    char plan[LAB_PATH];
    snprintf(plan, sizeof plan, "%s/plan.json", options.output.path);
    grail_compress_options again = lab_options(l, model, lab_path(l, "again"));
    again.amount.plan = plan;
    assert_ok(lab_compress(&again));
    assert_same_checkpoint(options.output.path, again.output.path);
}

static void write_plan(const lab *l, const char *first, const char *second)
{
    char text[512];
    const int length = snprintf(
        text, sizeof text,
        "{\"grail_plan\": 1, \"sites\": ["
        "{\"site\": \"model.layers.0.mlp.down_proj\", \"selector\": \"%s\", \"kept\": 40},"
        "{\"site\": \"model.layers.1.mlp.down_proj\", \"selector\": \"%s\", \"kept\": 40}]}",
        first, second);
    support_write_file(l->directory, "plan.json", text, (size_t)length);
}

/* The plan's selectors decide, not the one that the options name beside it. */
LAB_TEST(it_is_that_of_the_selectors_of_the_plan)
{
    const char *model = lab_with_biases(l, "llama3", "biased");
    grail_compress_options options = own_options(l, model, lab_path(l, "out"));
    options.cut.selector = "wanda";
    options.amount.plan = lab_path(l, "plan.json");
    write_plan(l, "flap", "flap-ifv");
    assert_ok(lab_compress(&options));
    json_t *report = read_json(options.output.path, "report.json");
    const json_t *how = json_object_get(json_object_get(report, "plan"), "compensation");
    assert_string_equal(json_string_value(json_object_get(how, "fit")), "bias-only");
    json_decref(report);
    options.output.path = lab_path(l, "next");
    write_plan(l, "flap", "wanda");
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "the selectors 'flap' and 'wanda' of the plan make different updates of their "
                 "own; choose none, grail or full");
    write_plan(l, "wanda", "wanda");
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "selector 'wanda' has no update of its own");
}

LAB_TEST(a_bias_needs_a_place)
{
    grail_compression *c = NULL;
    grail_compress_options options =
        own_options(l, lab_f32(l, "llama3", "dense"), lab_path(l, "out"));
    options.output.dry_run = 1;
    assert_fails(grail_compression_open(&options, &c), GRAIL_ERROR_UNSUPPORTED,
                 "site 'model.layers.0.self_attn.o_proj': no parameter of the checkpoint can take "
                 "a fitted bias, and stock loaders would not read a new one; use the "
                 "compensation none, grail or full, since this one fits nothing but a bias");
    options.output.dry_run = 0;
    options.fit.bias = "auto"; /* where there is a place: nowhere */
    assert_ok(lab_compress(&options));
    options.output.path = lab_path(l, "plain");
    options.fit.bias = NULL;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "out"), options.output.path);
}

LAB_TEST(nothing_cut_changes_nothing)
{
    grail_compress_options options = own_options(l, lab_golden("llama3-bf16"), lab_path(l, "out"));
    options.amount.sparsity_ffn = 0.0;
    options.amount.sparsity_heads = 0.0;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(options.read.model, options.output.path);
}
