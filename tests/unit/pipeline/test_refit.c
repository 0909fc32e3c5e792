/* --refit all: maps that were not cut are fitted where the stream that they read has drifted, and
 * nowhere else. */
#include "vision_lab.h"

#include "../solve/oracle.h"

#include <string.h>

static grail_compress_options refitting(const lab *l, const char *model, const char *output)
{
    grail_compress_options options = lab_options(l, model, output);
    options.fit.refit = "all";
    return options;
}

/* The entry of a map in report.json's refits, or NULL. */
static const json_t *refit_of(const json_t *report, const char *map)
{
    const json_t *list = json_object_get(report, "refits");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (strcmp(json_string_value(json_object_get(one, "map")), map) == 0) {
            return one;
        }
    }
    return NULL;
}

LAB_TEST(maps_behind_a_cut_are_refitted_and_no_others)
{
    grail_compress_options options = refitting(l, lab_golden("llama3"), lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    OWNED(json_t) *report = read_json(options.output.path, "report.json");
    static const char *const behind[] = {
        "model.layers.0.mlp.gate_proj.weight",    "model.layers.0.mlp.up_proj.weight",
        "model.layers.1.self_attn.q_proj.weight", "model.layers.1.self_attn.k_proj.weight",
        "model.layers.1.self_attn.v_proj.weight", "model.layers.1.mlp.gate_proj.weight",
        "model.layers.1.mlp.up_proj.weight",
    };
    assert_int_equal(json_array_size(json_object_get(report, "refits")), 7);
    for (int i = 0; i < 7; i++) {
        const json_t *made = refit_of(report, behind[i]);
        assert_non_null(made);
        const double before = json_number_value(json_object_get(made, "held_error_before"));
        const double after = json_number_value(json_object_get(made, "held_error_after"));
        assert_true(before > 0.0);
        assert_true(after <= before);
    }
}

/* The first block's q, k and v read no drift, so their kept rows keep their bytes. */
LAB_TEST(maps_before_the_first_cut_keep_their_bytes)
{
    const char *model = lab_f32(l, "llama3", "model");
    grail_compress_options plain = lab_options(l, model, lab_path(l, "plain"));
    plain.amount.sparsity_ffn = 0.0;
    assert_ok(lab_compress(&plain));
    grail_compress_options options = refitting(l, model, lab_path(l, "refitted"));
    options.amount.sparsity_ffn = 0.0;
    assert_ok(lab_compress(&options));
    assert_true(same_tensor(plain.output.path, options.output.path,
                            "model.layers.0.self_attn.q_proj.weight"));
    assert_true(same_tensor(plain.output.path, options.output.path,
                            "model.layers.0.self_attn.v_proj.weight"));
    assert_true(same_tensor(plain.output.path, options.output.path, "model.embed_tokens.weight"));
    assert_true(same_tensor(plain.output.path, options.output.path, "model.norm.weight"));
    assert_false(
        same_tensor(plain.output.path, options.output.path, "model.layers.0.mlp.up_proj.weight"));
}

LAB_TEST(a_network_that_is_not_cut_is_not_changed)
{
    const char *model = lab_f32(l, "qwen2", "model");
    grail_compress_options options = refitting(l, model, lab_path(l, "out"));
    options.amount.sparsity_ffn = options.amount.sparsity_heads = 0.0;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(model, options.output.path);
}

static double divergence(const lab *l, const char *model, const char *selector, const char *refit)
{
    const char *output = lab_path(l, refit);
    grail_compress_options options = lab_options(l, model, output);
    options.fit.refit = refit;
    options.fit.target = "dense";
    options.cut.selector = selector;
    assert_ok(lab_compress(&options));
    const grail_comparison c = compare_models(model, output, "cpu");
    return c.mean_kl;
}

TEST(refits_bring_the_network_nearer_to_the_dense_one)
{
    static const char *const models[] = {"llama3", "qwen2", "llama-mha"};
    for (int i = 0; i < 3; i++) {
        OWNED(lab) l;
        lab_open(&l);
        const char *model = lab_f32(&l, models[i], "model");
        const char *selector = i == 2 ? "fold" : "wanda";
        assert_true(divergence(&l, model, selector, "all") <
                    divergence(&l, model, selector, "none"));
    }
}

/* -- q, k and v share a Gram matrix; each regression written out ------------------------------- */

enum { MOST = 64 };

/* fit[O, n + 1]: weights and, last, the bias of the ridge of y over z that shrinks to `prior`. */
static void solve_out(const vision_values *z, const vision_values *y, const float *prior,
                      double alpha, double *fit)
{
    double a[(MOST + 1) * (MOST + 1)] = {0};
    const int64_t n = z->width;
    const int64_t all = n + 1;
    double trace = 0.0;
    memset(fit, 0, (size_t)(y->width * all) * sizeof fit[0]);
    for (int64_t t = 0; t < z->rows; t++) {
        double row[MOST + 1];
        memcpy(row, z->data + t * n, (size_t)n * sizeof row[0]);
        row[n] = 1.0;
        for (int64_t i = 0; i < all * all; i++) {
            a[i] += row[i / all] * row[i % all];
        }
        for (int64_t i = 0; i < y->width * all; i++) {
            fit[i] += y->data[t * y->width + i / all] * row[i % all];
        }
    }
    for (int64_t k = 0; k < n; k++) {
        trace += a[k * all + k] - a[k * all + n] * a[k * all + n] / (double)z->rows;
    }
    const double lambda = alpha * trace / (double)n;
    for (int64_t k = 0; k < n; k++) {
        a[k * all + k] += lambda;
        for (int64_t o = 0; o < y->width; o++) {
            fit[o * all + k] += lambda * (double)prior[o * n + k];
        }
    }
    oracle_divide(all, a, y->width, fit);
}

/* The refit of one map of block 1 against the rows of the narrowed network's input there and of the
 * dense network's output. */
static void assert_refitted(const vision_lab *v, const char *model, const char *output,
                            const char *part, double alpha)
{
    char weight_name[LAB_NETWORK_NAME];
    char bias_name[LAB_NETWORK_NAME];
    vision_model dense;
    vision_model narrow;
    static double fit[MOST * (MOST + 1)];
    snprintf(weight_name, sizeof weight_name, "vit.encoder.layer.1.attention.attention.%s.weight",
             part);
    snprintf(bias_name, sizeof bias_name, "vit.encoder.layer.1.attention.attention.%s.bias", part);
    vision_values z = vision_tap_input(v, output, weight_name);
    vision_values y = vision_tap(v, model, weight_name, 0);
    assert_true(z.width <= MOST && y.width <= MOST);
    vision_read(&dense, model);
    vision_read(&narrow, output);
    solve_out(&z, &y, vision_find(&dense, weight_name)->values, alpha, fit);
    const float *weight = vision_find(&narrow, weight_name)->values;
    const float *bias = vision_find(&narrow, bias_name)->values;
    for (int64_t o = 0; o < y.width; o++) {
        for (int64_t k = 0; k < z.width; k++) {
            assert_near((double)weight[o * z.width + k], fit[o * (z.width + 1) + k], 1e-5);
        }
        assert_near((double)bias[o], fit[o * (z.width + 1) + z.width], 1e-5);
    }
    vision_fini(&dense);
    vision_fini(&narrow);
    memory_free(z.data);
    memory_free(y.data);
}

VISION_TEST(maps_of_one_input_get_their_own_least_squares)
{
    static const char *const parts[] = {"query", "key", "value"};
    static const double alpha = 0.01;
    const grail_site_sparsity cut = {.site = "vit.encoder.layer.0.output.dense", .sparsity = 0.5};
    const char *model = vision_network(v, VISION_HUGGING_FACE_VIT, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "narrow"));
    options.run.backend = "ref";
    options.fit.refit = "all";
    options.fit.target = "dense";
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, alpha};
    options.amount.site_sparsities = &cut;
    options.amount.site_sparsity_count = 1;
    assert_ok(lab_compress(&options));
    for (int i = 0; i < 3; i++) {
        assert_refitted(v, model, options.output.path, parts[i], alpha);
    }
}

LAB_TEST(a_refit_needs_the_dense_target_in_a_closed_loop)
{
    grail_compress_options options = refitting(l, lab_golden("llama3"), lab_path(l, "out"));
    options.fit.compensate = "grail";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "needs the target 'dense' or 'mixed'");
    options.fit.compensate = "full";
    options.fit.open_loop = 1;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "found target 'mixed' in an open loop");
    options.fit.open_loop = 0;
    options.fit.refit = "some";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "unknown refit 'some'");
}
