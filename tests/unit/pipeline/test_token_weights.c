/* Fits whose rows are weighted by the inverse square of the dense residual stream. */
#include "vision_lab.h"
#include "vision_sites.h"

#include "../solve/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2 };

static const char *run(const lab *l, grail_compress_options options, const char *weights,
                       const char *name)
{
    options.fit.token_weights = weights;
    options.output.path = lab_path(l, name);
    assert_ok(lab_compress(&options));
    return options.output.path;
}

/* -- decoders --------------------------------------------------------------------------------- */

LAB_TEST(weights_change_the_fit_and_it_still_repairs)
{
    grail_site_report sites[2 * LAYERS];
    grail_compress_options options = lab_options(l, lab_f32(l, "llama3", "dense"), NULL);
    const char *open = run(l, options, NULL, "open");
    const char *none = run(l, options, "none", "none");
    const char *stream = run(l, options, "stream", "stream");
    assert_same_checkpoint(open, stream);
    assert_true(largest_weight_difference(none, stream) > 1e-3);
    options.output.path = lab_path(l, "again");
    options.fit.token_weights = "stream";
    assert_int_equal(lab_compress_reports(&options, sites, 2 * LAYERS), 2 * LAYERS);
    for (int i = 0; i < 2 * LAYERS; i++) {
        assert_true(lab_is_repaired(&sites[i]));
    }
    assert_same_checkpoint(stream, options.output.path);
}

/* Embeddings of +-4096 in the first half of the residual stream, to which no block adds anything:
 * all rows of the stream have the same norm, but for the blocks' small second half. */
static const char *write_equal_norms(const lab *l)
{
    static const char *const parts[] = {"self_attn.o_proj.weight", "mlp.down_proj.weight"};
    OWNED(lab_model) m;
    const char *path = lab_path(l, "equal");
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        lab_tensor *t = &m.tensors[i];
        for (int64_t j = 0;
             strcmp(t->name, "model.embed_tokens.weight") == 0 && j < lab_elements(t); j++) {
            const bool first = j % t->shape[1] < t->shape[1] / 2;
            t->values[j] = first ? copysignf(4096.0F, t->values[j]) : 0.0F;
        }
    }
    for (int i = 0; i < 2 * LAYERS; i++) {
        lab_tensor *t = lab_find(&m, i / 2, parts[i % 2]);
        memset(t->values, 0, (size_t)(lab_elements(t) / 2) * sizeof t->values[0]);
    }
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

LAB_TEST(rows_of_equal_norm_count_alike)
{
    const grail_compress_options options = lab_options(l, write_equal_norms(l), NULL);
    const char *none = run(l, options, "none", "none");
    const char *stream = run(l, options, "stream", "stream");
    assert_true(largest_weight_difference(none, stream) < 1e-4);
}

/* Every window begins with token 5, whose embedding is scaled: with 0 its rows are 0 in the entire
 * network. */
static const char *write_first_token(const lab *l, float scale, const char *name)
{
    OWNED(lab_model) m;
    const char *path = lab_path(l, name);
    lab_read(&m, lab_golden("llama3"));
    for (int i = 0; i < m.count; i++) {
        lab_tensor *t = &m.tensors[i];
        for (int64_t k = 0; strcmp(t->name, "model.embed_tokens.weight") == 0 && k < t->shape[1];
             k++) {
            t->values[5 * t->shape[1] + k] *= scale;
        }
    }
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

LAB_TEST(rows_of_almost_nothing_decide_nothing)
{
    int32_t ids[LAB_SAMPLES * LAB_LENGTH];
    for (int i = 0; i < LAB_SAMPLES * LAB_LENGTH; i++) {
        ids[i] = i % LAB_LENGTH == 0 ? 5 : 6 + i * 31 % 89;
    }
    lab_write_ids(l, "first.npy", LAB_SAMPLES, LAB_LENGTH, ids);
    grail_compress_options options = lab_options(l, write_first_token(l, 0.0F, "zero"), NULL);
    options.read.text.path = lab_path(l, "first.npy");
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    const char *zero = run(l, options, "stream", "of-zero");
    options.read.model = write_first_token(l, 1e-8F, "tiny");
    const char *tiny = run(l, options, "stream", "of-tiny");
    assert_true(compare_models(zero, tiny, "cpu").max_abs < 1e-3);
}

/* Two of the windows have other tokens than 5, so that the median is 0. */
LAB_TEST(rows_of_zeros_have_no_weight)
{
    int32_t ids[LAB_SAMPLES * LAB_LENGTH];
    grail_site_report sites[2 * LAYERS];
    for (int i = 0; i < LAB_SAMPLES * LAB_LENGTH; i++) {
        ids[i] = i / LAB_LENGTH == 3 || i / LAB_LENGTH == 12 ? 6 + i * 31 % 89 : 5;
    }
    lab_write_ids(l, "zeros.npy", LAB_SAMPLES, LAB_LENGTH, ids);
    grail_compress_options options = lab_options(l, write_first_token(l, 0.0F, "zero"), NULL);
    options.read.text.path = lab_path(l, "zeros.npy");
    options.fit.token_weights = "stream";
    options.output.path = lab_path(l, "out");
    assert_int_equal(lab_compress_reports(&options, sites, 2 * LAYERS), 2 * LAYERS);
    for (int i = 0; i < 2 * LAYERS; i++) {
        assert_true(lab_is_repaired(&sites[i]));
    }
}

/* -- transformers of images ------------------------------------------------------------------- */

static grail_compress_options image_options(const vision_lab *v, const char *model)
{
    grail_compress_options options = vision_options(v, model, vision_path(v, "narrow"));
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    options.run.backend = "ref";
    options.fit.token_weights = "stream";
    options.fit.target = "dense";
    return options;
}

static int compare_squares(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The upper median of the first batch, a fourth of the rows. */
static double median_of_first_batch(const double *squares, int64_t rows)
{
    OWNED(double) *sorted = NULL;
    const int64_t count = rows / 4;
    assert_ok(memory_new(&sorted, (size_t)count, sizeof sorted[0]));
    memcpy(sorted, squares, (size_t)count * sizeof sorted[0]);
    qsort(sorted, (size_t)count, sizeof sorted[0], compare_squares);
    return sorted[count / 2];
}

/* 1 / |x_t|^2 of the rows of a value, within the limits of |x_t|^2; owned. */
static double *weights_of(const vision_values *x)
{
    double *weights = NULL;
    assert_ok(memory_new(&weights, (size_t)x->rows, sizeof weights[0]));
    for (int64_t t = 0; t < x->rows; t++) {
        for (int64_t k = 0; k < x->width; k++) {
            weights[t] += x->data[t * x->width + k] * x->data[t * x->width + k];
        }
    }
    const double median = median_of_first_batch(weights, x->rows);
    for (int64_t t = 0; t < x->rows; t++) {
        weights[t] = 1.0 / fmin(fmax(weights[t], 1e-4 * median), 256.0 * median);
    }
    return weights;
}

/* The means of the sum behind a consumer in both networks, weighted by the dense one, or not. */
static double mean_difference(const vision_lab *v, const char *model, const char *output,
                              const char *name, bool weighted)
{
    vision_values dense = vision_tap(v, model, name, 1);
    vision_values narrow = vision_tap(v, output, name, 1);
    double *weights = weights_of(&dense);
    double largest = 0.0;
    for (int64_t k = 0; k < dense.width; k++) {
        double difference = 0.0;
        double all = 0.0;
        for (int64_t t = 0; t < dense.rows; t++) {
            const double w = weighted ? weights[t] : 1.0;
            difference += w * (dense.data[t * dense.width + k] - narrow.data[t * dense.width + k]);
            all += w;
        }
        largest = fmax(largest, fabs(difference / all));
    }
    memory_free(weights);
    memory_free(dense.data);
    memory_free(narrow.data);
    return largest;
}

/* The consumers have biases of their own, which are in the dense network's output. */
static void assert_weighted_means_are_kept(const vision_lab *v, const char *model, double tolerance)
{
    static const char *const parts[] = {"attn.proj", "mlp.fc2"};
    grail_compress_options options = image_options(v, model);
    options.amount.sparsity_ffn = 0.5;
    options.amount.sparsity_heads = 0.5;
    assert_ok(lab_compress(&options));
    for (int i = 0; i < 2 * LAYERS; i++) {
        char name[LAB_NETWORK_NAME];
        snprintf(name, sizeof name, "blocks.%d.%s.weight", i / 2, parts[i % 2]);
        assert_near(mean_difference(v, model, options.output.path, name, true), 0.0, tolerance);
        assert_true(mean_difference(v, model, options.output.path, name, false) > 10 * tolerance);
    }
}

VISION_TEST(a_fitted_bias_keeps_the_weighted_mean_of_the_stream)
{
    assert_weighted_means_are_kept(v, vision_network(v, VISION_TIMM_VIT, "model"), 1e-5);
}

/* The class token begins some thousand times as long as the patches. */
static const char *write_massive(const vision_lab *v, const char *model)
{
    const char *path = vision_path(v, "massive");
    OWNED(vision_model) m;
    vision_read(&m, model);
    vision_tensor *positions = vision_find(&m, "pos_embed");
    for (int64_t k = 0; k < positions->shape.shape[2]; k++) {
        positions->values[k] = k % 2 == 0 ? 300.0F : -200.0F;
    }
    vision_write(&m, path);
    return path;
}

VISION_TEST(massive_rows_count_as_sixteen_times_as_long_as_others)
{
    const char *model = write_massive(v, vision_network(v, VISION_TIMM_VIT, "model"));
    assert_weighted_means_are_kept(v, model, 1e-5);
}

/* -- the regression written out ---------------------------------------------------------------- */

enum { MOST = 48, OUTPUTS = 32 };

/* One cut FFN: rows of its kept neurons, of its output, and their weights. */
typedef struct written_out {
    vision_values z, y, sum;
    double *weights;
    int64_t kept[MOST];
    int64_t count;
    const float *dense_weight;
} written_out;

static void write_out(const vision_lab *v, const char *model, const char *output,
                      const char *of_site, written_out *w)
{
    char name[LAB_NETWORK_NAME];
    snprintf(name, sizeof name, "%s.weight", of_site);
    w->z = vision_tap_input(v, model, name);
    w->y = vision_tap(v, model, name, 0);
    w->sum = vision_tap(v, model, name, 1);
    w->weights = weights_of(&w->sum);
    w->count = vision_kept_units(output, of_site, w->kept, MOST);
    assert_true(w->y.width <= OUTPUTS);
}

static void written_out_fini(written_out *w)
{
    memory_free(w->z.data);
    memory_free(w->y.data);
    memory_free(w->sum.data);
    memory_free(w->weights);
}

/* a[n, n] += w r r^T and x[O, n] += w y r^T with the row r = (z_kept, 1). */
static void add_row(const written_out *w, int64_t t, double *a, double *x)
{
    double row[MOST + 1];
    const int64_t n = w->count + 1;
    for (int64_t k = 0; k < n; k++) {
        row[k] = k < w->count ? w->z.data[t * w->z.width + w->kept[k]] : 1.0;
    }
    for (int64_t i = 0; i < n * n; i++) {
        a[i] += w->weights[t] * row[i / n] * row[i % n];
    }
    for (int64_t i = 0; i < w->y.width * n; i++) {
        x[i] += w->weights[t] * w->y.data[t * w->y.width + i / n] * row[i % n];
    }
}

/* fit[O, n]: weights and, last, the bias of the prior ridge. */
static void solve_out(const written_out *w, double alpha, double *fit)
{
    double a[(MOST + 1) * (MOST + 1)] = {0};
    const int64_t n = w->count + 1;
    double trace = 0.0;
    memset(fit, 0, (size_t)(w->y.width * n) * sizeof fit[0]);
    for (int64_t t = 0; t < w->z.rows; t++) {
        add_row(w, t, a, fit);
    }
    const double all = a[n * n - 1];
    for (int64_t k = 0; k < w->count; k++) {
        trace += a[k * n + k] - a[k * n + n - 1] * a[k * n + n - 1] / all;
    }
    const double lambda = alpha * trace / (double)w->count;
    for (int64_t k = 0; k < w->count; k++) {
        a[k * n + k] += lambda;
        for (int64_t o = 0; o < w->y.width; o++) {
            fit[o * n + k] += lambda * (double)w->dense_weight[o * w->z.width + w->kept[k]];
        }
    }
    oracle_divide(n, a, w->y.width, fit);
}

VISION_TEST(the_fit_is_the_weighted_least_squares_answer)
{
    static const grail_site_sparsity cut = {.site = "blocks.1.mlp.fc2", .sparsity = 0.5};
    static const double alpha = 0.01;
    double fit[OUTPUTS * (MOST + 1)];
    vision_model dense;
    vision_model narrow;
    written_out w;
    const char *model = vision_network(v, VISION_TIMM_VIT, "model");
    grail_compress_options options = image_options(v, model);
    options.amount.site_sparsities = &cut;
    options.amount.site_sparsity_count = 1;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, alpha};
    assert_ok(lab_compress(&options));
    write_out(v, model, options.output.path, cut.site, &w);
    vision_read(&dense, model);
    vision_read(&narrow, options.output.path);
    w.dense_weight = vision_find(&dense, "blocks.1.mlp.fc2.weight")->values;
    solve_out(&w, alpha, fit);
    const float *weight = vision_find(&narrow, "blocks.1.mlp.fc2.weight")->values;
    const float *bias = vision_find(&narrow, "blocks.1.mlp.fc2.bias")->values;
    for (int64_t o = 0; o < w.y.width; o++) {
        for (int64_t k = 0; k < w.count; k++) {
            assert_near((double)weight[o * w.count + k], fit[o * (w.count + 1) + k], 1e-6);
        }
        assert_near((double)bias[o], fit[o * (w.count + 1) + w.count], 1e-6);
    }
    vision_fini(&dense);
    vision_fini(&narrow);
    written_out_fini(&w);
}

/* -- where rows count alike -------------------------------------------------------------------- */

/* Whether the weights change what a run on a network of a family gives. */
static bool weights_matter(vision_family family, const char *target, int open_loop)
{
    vision_lab v;
    vision_open(&v);
    grail_compress_options options = vision_options(&v, vision_network(&v, family, "model"), NULL);
    options.amount.sparsity_ffn = 0.5;
    options.amount.sparsity_conv = 0.5;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    options.fit.target = target;
    options.fit.open_loop = open_loop;
    const char *none = run(&v.l, options, "none", "none");
    const char *stream = run(&v.l, options, "stream", "stream");
    const double difference = vision_difference(&v, none, stream);
    vision_close(&v);
    assert_true(difference == 0.0 || difference > 1e-5);
    return difference > 0.0;
}

TEST(rows_count_alike_without_a_dense_stream_or_behind_a_batch_norm)
{
    assert_true(weights_matter(VISION_TIMM_VIT, "dense", 0));
    assert_false(weights_matter(VISION_TIMM_VIT, "local", 0));
    assert_false(weights_matter(VISION_TIMM_VIT, "dense", 1));
    assert_true(weights_matter(VISION_PRE_ACTIVATION, "dense", 0));
    assert_false(weights_matter(VISION_BASIC, "dense", 0));
}
