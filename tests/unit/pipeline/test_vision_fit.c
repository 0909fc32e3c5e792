/* What the fit of convolutions, residual streams, neurons and heads promises: nothing is lost that
 * the kept features can express, means are kept, and the answer equals that of the regression
 * written out. */
#include "vision_sites.h"

#include "../solve/oracle.h"

#include <string.h>

enum { MOST_SITES = 16, MOST_UNITS = 64 };

/* A family with every unit twice, the second copy a multiple of the first. */
static const char *write_scaled(const vision_lab *v, vision_family family)
{
    OWNED(vision_model) m;
    const char *original = vision_network(v, family, "original");
    vision_make(&m, family);
    vision_double(&m, original, VISION_SCALED);
    vision_write(&m, vision_path(v, "scaled"));
    return vision_path(v, "scaled");
}

/* Prunes the second copies, so that everything removed is a multiple of what is kept. */
static grail_compress_options halve_exactly(const vision_lab *v, const char *model,
                                            const char *output)
{
    grail_compress_options options = vision_options(v, model, output);
    vision_cut(&options, 0.5);
    options.cut.selector = "wanda";
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-8};
    return options;
}

TEST(removed_multiples_of_what_is_kept_cost_nothing)
{
    vision_lab v;
    for (int f = 0; f < VISION_FAMILIES; f++) {
        vision_open(&v);
        const char *model = write_scaled(&v, (vision_family)f);
        grail_compress_options options = halve_exactly(&v, model, vision_path(&v, "plain"));
        options.fit.compensate = "none";
        assert_ok(lab_compress(&options));
        assert_true(vision_difference(&v, model, options.output.path) > 0.01);
        options.output.path = vision_path(&v, "grail");
        options.fit.compensate = "grail";
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, model, options.output.path), 0.0, 1e-3);
        options.output.path = vision_path(&v, "full");
        options.fit.compensate = "full";
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, model, options.output.path), 0.0, 1e-3);
        options.output.path = vision_path(&v, "open");
        options.fit.open_loop = 1;
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, model, options.output.path), 0.0, 1e-3);
        vision_close(&v);
    }
}

/* Compares the kept columns of a dense value with all columns of the narrow one. */
static void assert_kept_columns(const vision_lab *v, const char *model, const char *output,
                                const char *of_site, const char *name, int behind)
{
    int64_t kept[MOST_UNITS];
    const int count = vision_kept_units(output, of_site, kept, MOST_UNITS);
    vision_values dense = vision_tap(v, model, name, behind);
    vision_values narrow = vision_tap(v, output, name, behind);
    assert_int_equal(narrow.width, count);
    assert_int_equal(narrow.rows, dense.rows);
    for (int64_t i = 0; i < narrow.rows * narrow.width; i++) {
        const int64_t row = i / narrow.width;
        const double wide = dense.data[row * dense.width + kept[i % narrow.width]];
        assert_near(narrow.data[i], wide, 1e-3);
    }
    memory_free(dense.data);
    memory_free(narrow.data);
}

VISION_TEST(kept_channels_of_a_stream_are_the_dense_ones_where_nothing_is_lost)
{
    const char *model = write_scaled(v, VISION_BASIC);
    grail_compress_options options = halve_exactly(v, model, vision_path(v, "narrow"));
    assert_ok(lab_compress(&options));
    /* behind the stem: norm, relu; behind a block's last convolution: norm, add, relu */
    assert_kept_columns(v, model, options.output.path, "layer1.0.conv1", "conv1.weight", 2);
    assert_kept_columns(v, model, options.output.path, "layer1.0.conv1", "layer1.0.conv2.weight",
                        3);
    assert_kept_columns(v, model, options.output.path, "layer1.0.conv1", "layer1.1.conv2.weight",
                        3);
    assert_kept_columns(v, model, options.output.path, "fc", "layer2.0.conv2.weight", 3);
}

/* Cuts one site alone. */
static grail_compress_options cut_one(const vision_lab *v, const char *model, const char *output,
                                      const grail_site_sparsity *cut)
{
    grail_compress_options options = vision_options(v, model, output);
    options.amount.site_sparsities = cut;
    options.amount.site_sparsity_count = 1;
    options.fit.target = "local";
    options.fit.bias = "off";
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-10};
    options.run.backend = "ref";
    return options;
}

/* -- affine features -------------------------------------------------------------------------- */

/* Inner channels 1, 3, 5 of the first block's 3 x 3 convolution become 0.7 times their left
 * neighbour plus 3, where no relu bends them, and with small rows, so that they are removed. */
static const char *write_affine(const vision_lab *v)
{
    OWNED(vision_model) m;
    vision_make(&m, VISION_BOTTLENECK);
    vision_tensor *conv = vision_find(&m, "layer1.0.conv2.weight");
    float *gamma = vision_find(&m, "layer1.0.bn2.weight")->values;
    float *beta = vision_find(&m, "layer1.0.bn2.bias")->values;
    float *mean = vision_find(&m, "layer1.0.bn2.running_mean")->values;
    float *variance = vision_find(&m, "layer1.0.bn2.running_var")->values;
    const int64_t width = vision_elements(conv) / conv->shape.shape[0];
    for (int64_t j = 1; j < conv->shape.shape[0]; j += 2) {
        for (int64_t i = 0; i < width; i++) {
            conv->values[j * width + i] = conv->values[(j - 1) * width + i] / 64.0F;
        }
        beta[j - 1] = 40.0F;
        beta[j] = 0.7F * beta[j - 1] + 3.0F;
        gamma[j] = 0.7F * 64.0F * gamma[j - 1];
        mean[j] = mean[j - 1] / 64.0F;
        variance[j] = variance[j - 1];
    }
    vision_write(&m, vision_path(v, "affine"));
    return vision_path(v, "affine");
}

VISION_TEST(removed_affine_features_cost_nothing_with_a_bias)
{
    static const grail_site_sparsity inner = {.site = "layer1.0.conv3", .sparsity = 0.5};
    grail_site_report sites[MOST_SITES];
    const char *model = write_affine(v);
    grail_compress_options options = cut_one(v, model, vision_path(v, "off"), &inner);
    assert_ok(lab_compress(&options));
    const double off = vision_difference(v, model, options.output.path);
    options.output.path = vision_path(v, "auto");
    options.fit.bias = "auto";
    lab_compress_reports(&options, sites, MOST_SITES);
    assert_near(vision_difference(v, model, options.output.path), 0.0, 1e-4);
    assert_true(off > 1e-3);
    /* it went into the mean of the BatchNorm behind */
    assert_false(same_tensor(model, options.output.path, "layer1.0.bn3.running_mean"));
    assert_true(same_tensor(model, options.output.path, "layer1.0.bn3.bias"));
    assert_true(same_tensor(model, options.output.path, "layer1.0.bn3.running_var"));
    assert_true(same_tensor(model, vision_path(v, "off"), "layer1.0.bn3.running_mean"));
}

/* Channels 1, 3, 5 in front of a 3 x 3 convolution become constants, which are removed. */
static const char *write_constant(const vision_lab *v)
{
    OWNED(vision_model) m;
    vision_make(&m, VISION_BASIC);
    vision_tensor *conv = vision_find(&m, "layer1.0.conv1.weight");
    float *gamma = vision_find(&m, "layer1.0.bn1.weight")->values;
    float *beta = vision_find(&m, "layer1.0.bn1.bias")->values;
    const int64_t width = vision_elements(conv) / conv->shape.shape[0];
    for (int64_t i = 0; i < vision_elements(conv); i++) {
        conv->values[i] *= i / width % 2 == 1 ? 1.0F / 64.0F : 1.0F;
    }
    for (int64_t j = 1; j < conv->shape.shape[0]; j += 2) {
        gamma[j] = 0.0F;
        beta[j] = 0.5F + 0.2F * (float)j;
    }
    vision_write(&m, vision_path(v, "constant"));
    return vision_path(v, "constant");
}

static bool is_border(int64_t row)
{
    const int64_t x = row % VISION_SIDE;
    const int64_t y = row / VISION_SIDE % VISION_SIDE;
    return x == 0 || y == 0 || x == VISION_SIDE - 1 || y == VISION_SIDE - 1;
}

/* For each kernel position the constant is the same everywhere, so the shares of all kernel
 * positions add up where the patch lies inside the image. */
VISION_TEST(a_bias_fitted_by_channel_is_that_of_all_taps)
{
    static const grail_site_sparsity inner = {.site = "layer1.0.conv2", .sparsity = 0.5};
    const char *model = write_constant(v);
    grail_compress_options options = cut_one(v, model, vision_path(v, "narrow"), &inner);
    options.fit.bias = "auto";
    options.fit.conv_fit = "channel";
    assert_ok(lab_compress(&options));
    vision_values dense = vision_tap(v, model, "layer1.0.conv2.weight", 1);
    vision_values narrow = vision_tap(v, options.output.path, "layer1.0.conv2.weight", 1);
    for (int64_t i = 0; i < dense.rows * dense.width; i++) {
        if (!is_border(i / dense.width)) {
            assert_near(narrow.data[i], dense.data[i], 1e-4);
        }
    }
    assert_true(vision_distance(&dense, &narrow) > 1e-3); /* at the border it cannot be right */
    memory_free(dense.data);
    memory_free(narrow.data);
}

/* -- means ------------------------------------------------------------------------------------ */

static void assert_equal_means(const vision_lab *v, const char *model, const char *output,
                               const char *name, int behind)
{
    vision_values dense = vision_tap(v, model, name, behind);
    vision_values narrow = vision_tap(v, output, name, behind);
    assert_int_equal(dense.width, narrow.width);
    for (int64_t k = 0; k < dense.width; k++) {
        double difference = 0.0;
        for (int64_t t = 0; t < dense.rows; t++) {
            difference += dense.data[t * dense.width + k] - narrow.data[t * dense.width + k];
        }
        assert_near(difference / (double)dense.rows, 0.0, 1e-5);
    }
    memory_free(dense.data);
    memory_free(narrow.data);
}

static grail_compress_options with_bias(const vision_lab *v, const char *model, const char *output,
                                        const char *target)
{
    grail_compress_options options = vision_options(v, model, output);
    options.fit.target = target;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    options.fit.bias = "auto";
    options.run.backend = "ref";
    return options;
}

/* One site alone: everything before it is the dense network. */
TEST(with_a_bias_the_mean_of_every_output_is_the_dense_one)
{
    static const grail_site_sparsity cuts[] = {
        {.site = "layer1.0.conv2", .sparsity = 0.5},
        {.site = "layer2.0.conv2", .sparsity = 0.5},
        {.site = "blocks.1.mlp.fc2", .sparsity = 0.5},
        {.site = "blocks.1.attn.proj", .sparsity = 0.5},
        {.site = "layer1.0.conv2", .sparsity = 0.5},
    };
    static const vision_family families[] = {VISION_BASIC, VISION_BASIC, VISION_TIMM_VIT,
                                             VISION_TIMM_VIT, VISION_BOTTLENECK};
    static const char *const targets[] = {"local", "dense"};
    vision_lab v;
    for (int i = 0; i < 10; i++) {
        if (!support_takes(i / 2 + i % 2, 2)) { /* the targets take turns */
            continue;
        }
        char weight[LAB_NETWORK_NAME];
        vision_open(&v);
        const grail_site_sparsity *cut = &cuts[i / 2];
        const char *model = vision_network(&v, families[i / 2], "model");
        grail_compress_options options =
            with_bias(&v, model, vision_path(&v, "narrow"), targets[i % 2]);
        options.amount.site_sparsities = cut;
        options.amount.site_sparsity_count = 1;
        assert_ok(lab_compress(&options));
        snprintf(weight, sizeof weight, "%s.weight", cut->site);
        /* a convolution's mean is put right by the BatchNorm behind it */
        const int behind = vision_family_is_tower(families[i / 2]) ? 0 : 1;
        assert_equal_means(&v, model, options.output.path, weight, behind);
        vision_close(&v);
    }
}

/* With the dense target and its drift the means of the sums are the dense ones even behind blocks
 * that lost something. */
TEST(and_that_of_every_sum_on_a_stream_with_the_dense_target)
{
    vision_lab v;
    vision_open(&v);
    const char *model = vision_network(&v, VISION_BASIC, "model");
    grail_compress_options options = with_bias(&v, model, vision_path(&v, "narrow"), "dense");
    options.amount.sparsity_conv = 0.5;
    assert_ok(lab_compress(&options));
    assert_equal_means(&v, model, options.output.path, "layer1.0.conv2.weight", 2);
    assert_equal_means(&v, model, options.output.path, "layer1.1.conv2.weight", 2);
    assert_equal_means(&v, model, options.output.path, "layer2.0.conv2.weight", 2);
    vision_close(&v);
    vision_open(&v);
    model = vision_network(&v, VISION_TIMM_VIT, "model");
    options = with_bias(&v, model, vision_path(&v, "narrow"), "dense");
    options.amount.sparsity_ffn = 0.5;
    options.amount.sparsity_heads = 0.5;
    assert_ok(lab_compress(&options));
    for (int layer = 0; layer < 2; layer++) {
        char name[LAB_NETWORK_NAME];
        snprintf(name, sizeof name, "blocks.%d.attn.proj.weight", layer);
        assert_equal_means(&v, model, options.output.path, name, 1);
        snprintf(name, sizeof name, "blocks.%d.mlp.fc2.weight", layer);
        assert_equal_means(&v, model, options.output.path, name, 1);
    }
    vision_close(&v);
}

/* -- the regression written out ---------------------------------------------------------------- */

enum { INNER = 6, KEPT = 3, OUTPUTS = 8, TAPS = 9, COLUMNS = KEPT * TAPS };

/* Rows of patches of some channels: x[images, side, side, width] -> [positions, count * TAPS],
 * 3 x 3 with padding 1 and stride 1, zero outside. */
static double *unfold(const vision_values *x, const int64_t *channels, int count)
{
    double *out = NULL;
    assert_ok(memory_new(&out, (size_t)(x->rows * count * TAPS), sizeof out[0]));
    for (int64_t i = 0; i < x->rows * count * TAPS; i++) {
        const int64_t tap = i % TAPS;
        const int64_t position = i / (count * TAPS) % (VISION_SIDE * VISION_SIDE);
        const int64_t first = i / (count * TAPS) - position;
        const int64_t r = position / VISION_SIDE + tap / 3 - 1;
        const int64_t c = position % VISION_SIDE + tap % 3 - 1;
        if (r >= 0 && r < VISION_SIDE && c >= 0 && c < VISION_SIDE) {
            const int64_t row = first + r * VISION_SIDE + c;
            out[i] = x->data[row * x->width + channels[i / TAPS % count]];
        }
    }
    return out;
}

/* c[m, n] = a[rows, m]^T b[rows, n] */
static void inner_products(int64_t rows, int64_t m, const double *a, int64_t n, const double *b,
                           double *c)
{
    memset(c, 0, (size_t)(m * n) * sizeof c[0]);
    for (int64_t t = 0; t < rows; t++) {
        for (int64_t i = 0; i < m * n; i++) {
            c[i] += a[t * m + i / n] * b[t * n + i % n];
        }
    }
}

typedef struct written_out {
    vision_values x; /* input of the consumer in the dense network */
    int64_t kept[KEPT];
    double *z, *y; /* [rows, COLUMNS], [rows, OUTPUTS] */
    float *weight; /* [OUTPUTS, INNER, TAPS] of the dense network */
    double prior[OUTPUTS * COLUMNS];
} written_out;

static void write_out(const vision_lab *v, const char *model, const char *output, written_out *w)
{
    OWNED(vision_model) m;
    assert_int_equal(vision_kept_units(output, "layer1.0.conv2", w->kept, KEPT), KEPT);
    w->x = vision_tap_input(v, model, "layer1.0.conv2.weight");
    w->z = unfold(&w->x, w->kept, KEPT);
    vision_values y = vision_tap(v, model, "layer1.0.conv2.weight", 0);
    assert_int_equal(y.width, OUTPUTS);
    w->y = y.data;
    vision_read(&m, model);
    const float *weight = vision_find(&m, "layer1.0.conv2.weight")->values;
    for (int i = 0; i < OUTPUTS * COLUMNS; i++) {
        const int64_t channel = w->kept[i / TAPS % KEPT];
        w->prior[i] = (double)weight[(i / COLUMNS * INNER + channel) * TAPS + i % TAPS];
    }
}

static void written_out_fini(written_out *w)
{
    memory_free(w->x.data);
    memory_free(w->z);
    memory_free(w->y);
}

/* (Y^T Z + lambda W0) (Z^T Z + lambda I)^-1 over the first `rows` rows */
static void solve_out(const written_out *w, int64_t rows, double alpha, bool prior, double *fit)
{
    double gram[COLUMNS * COLUMNS];
    double lambda = 0.0;
    inner_products(rows, COLUMNS, w->z, COLUMNS, w->z, gram);
    inner_products(rows, OUTPUTS, w->y, COLUMNS, w->z, fit);
    for (int k = 0; k < COLUMNS; k++) {
        lambda += alpha * gram[k * COLUMNS + k] / COLUMNS;
    }
    for (int k = 0; k < COLUMNS; k++) {
        gram[k * COLUMNS + k] += lambda;
    }
    for (int i = 0; prior && i < OUTPUTS * COLUMNS; i++) {
        fit[i] += lambda * w->prior[i];
    }
    oracle_divide(COLUMNS, gram, OUTPUTS, fit);
}

/* || Y - Z W'^T ||^2 / || Y ||^2 over rows begin .. end-1 */
static double error_out(const written_out *w, int64_t begin, int64_t end, const double *fit)
{
    double error = 0.0;
    double all = 0.0;
    for (int64_t i = begin * OUTPUTS; i < end * OUTPUTS; i++) {
        double left = w->y[i];
        for (int k = 0; k < COLUMNS; k++) {
            left -= w->z[i / OUTPUTS * COLUMNS + k] * fit[i % OUTPUTS * COLUMNS + k];
        }
        error += left * left;
        all += w->y[i] * w->y[i];
    }
    return error / all;
}

static void assert_is_the_regression(const char *ridge, bool prior)
{
    static const grail_site_sparsity inner = {.site = "layer1.0.conv2", .sparsity = 0.5};
    static const double alpha = 0.01;
    OWNED(vision_lab) v;
    vision_model m;
    grail_site_report sites[MOST_SITES];
    written_out w;
    double fit[OUTPUTS * COLUMNS];
    vision_open(&v);
    const char *model = vision_network(&v, VISION_BASIC, "model");
    grail_compress_options options = cut_one(&v, model, vision_path(&v, "narrow"), &inner);
    options.fit.ridge = ridge;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, alpha};
    const int count = lab_compress_reports(&options, sites, MOST_SITES);
    write_out(&v, model, options.output.path, &w);
    vision_read(&m, options.output.path);
    const float *narrow = vision_find(&m, "layer1.0.conv2.weight")->values;
    solve_out(&w, w.x.rows, alpha, prior, fit);
    for (int i = 0; i < OUTPUTS * COLUMNS; i++) {
        assert_near((double)narrow[i], fit[i], 1e-6);
    }
    /* errors are those of a fit on three quarters of the images */
    const grail_site_report *s = NULL;
    for (int i = 0; i < count; i++) {
        s = sites[i].kept < sites[i].units ? &sites[i] : s;
    }
    const int64_t part = w.x.rows / 4 * 3;
    solve_out(&w, part, alpha, prior, fit);
    assert_near(s->fit.fit_before, error_out(&w, 0, part, w.prior), 1e-9);
    assert_near(s->fit.fit_after, error_out(&w, 0, part, fit), 1e-9);
    assert_near(s->fit.held_before, error_out(&w, part, w.x.rows, w.prior), 1e-9);
    assert_near(s->fit.held_after, error_out(&w, part, w.x.rows, fit), 1e-9);
    vision_fini(&m);
    written_out_fini(&w);
}

TEST(a_fitted_kernel_is_the_least_squares_answer_on_patches)
{
    assert_is_the_regression("zero", false);
    assert_is_the_regression("prior", true);
}

/* -- geometries ------------------------------------------------------------------------------- */

static const grail_site_report *cut_report(const grail_site_report *sites, int count)
{
    for (int i = 0; i < count; i++) {
        if (sites[i].kept < sites[i].units) {
            return &sites[i];
        }
    }
    fail_msg("nothing was cut");
    return NULL;
}

/* Cuts one site with a small alpha; its report, and where the result lies. */
static grail_site_report fit_of(const vision_lab *v, const char *model, const char *name,
                                const char *conv_fit, const char *target, const char **output)
{
    static int runs;
    char fresh[32];
    grail_site_report sites[MOST_SITES];
    const grail_site_sparsity cut = {.site = name, .sparsity = 0.5};
    snprintf(fresh, sizeof fresh, "fit-%d", runs++);
    *output = vision_path(v, fresh);
    grail_compress_options options = cut_one(v, model, *output, &cut);
    options.fit.conv_fit = conv_fit;
    options.fit.target = target;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-8};
    options.run.backend = "cpu";
    const int count = lab_compress_reports(&options, sites, MOST_SITES);
    return *cut_report(sites, count);
}

/* || Y - Y' ||^2 of what a consumer makes in the dense and in the narrow network */
static double output_error(const vision_lab *v, const char *model, const char *output,
                           const char *name)
{
    char weight[LAB_NETWORK_NAME];
    double error = 0.0;
    snprintf(weight, sizeof weight, "%s.weight", name);
    vision_values dense = vision_tap(v, model, weight, 0);
    vision_values narrow = vision_tap(v, output, weight, 0);
    assert_int_equal(dense.rows * dense.width, narrow.rows * narrow.width);
    for (int64_t i = 0; i < dense.rows * dense.width; i++) {
        const double difference = dense.data[i] - narrow.data[i];
        error += difference * difference;
    }
    memory_free(dense.data);
    memory_free(narrow.data);
    return error;
}

/* Behind a pool; 3 x 3 with stride 1 and 2; 1 x 1; 1 x 1 with stride 2; a Linear. A residual stream
 * has several consumers, whose reports are averaged. */
static void assert_is_fitted(const vision_lab *v, const char *model, const grail_site_facts *facts,
                             int target_count)
{
    static const char *const targets[] = {"local", "dense"};
    const bool stream = strcmp(facts->kind, "stream") == 0;
    const char *outputs[2] = {NULL, NULL};
    for (int t = 0; t < target_count; t++) {
        const grail_site_report kernel =
            fit_of(v, model, facts->name, "kernel", targets[t], &outputs[0]);
        const grail_site_report channel =
            fit_of(v, model, facts->name, "channel", targets[t], &outputs[1]);
        assert_true(kernel.fit.fit_before > 1e-4);
        assert_true(kernel.fit.fit_after < kernel.fit.fit_before);
        assert_true(channel.fit.fit_after < channel.fit.fit_before);
        if (!stream && t == 0) {
            assert_true(output_error(v, model, outputs[0], facts->name) <=
                        output_error(v, model, outputs[1], facts->name) * (1.0 + 1e-5));
        }
    }
}

VISION_TEST(every_geometry_is_fitted_and_kernels_at_least_as_well_as_channels)
{
    for (int f = 0; f < VISION_FAMILIES; f++) {
        const char *path = vision_network(v, (vision_family)f, vision_family_name(f));
        OWNED(grail_model) *m = vision_model_open(path);
        OPENED(grail_site_list, sites, grail_model_sites(m, GRAIL_GQA_KV_GROUPS, &sites));
        for (int i = 0; i < grail_site_list_count(sites); i++) {
            const grail_site_facts facts = grail_site_list_at(sites, i);
            assert_is_fitted(v, path, &facts, support_takes(i + f, 4) ? 2 : 1);
        }
    }
}
