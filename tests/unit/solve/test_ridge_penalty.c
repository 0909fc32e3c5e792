/* A penalty of each feature's own: alpha times its diagonal element. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, K = ORACLE_KEPT, O = ORACLE_OUTPUTS, SPLIT = 40 };

/* Sums whose arrays belong to a test. */
typedef struct own_sums {
    double gram[K * K], cross[O * K], sum[K];
    regression_sums all; /* with these arrays, and others of a regression */
} own_sums;

static void take_sums(const regression *r, own_sums *s)
{
    assert_ok(matrix_download(r->gram, s->gram));
    assert_ok(matrix_download(r->cross, s->cross));
    memcpy(s->sum, r->sum, sizeof s->sum);
    s->all = (regression_sums){.width = K,
                               .outputs = O,
                               .weight = r->weight,
                               .gram = s->gram,
                               .cross = s->cross,
                               .sum = s->sum,
                               .residual_sum = r->residual_sum,
                               .residual_square = r->residual_square,
                               .target_square = r->target_square};
}

/* The sums of inputs z_k scale[k]; the residual stays. */
static void scale_sums(const double scale[K], own_sums *s)
{
    for (int64_t i = 0; i < K * K; i++) {
        s->gram[i] *= scale[i / K] * scale[i % K];
    }
    for (int64_t i = 0; i < O * K; i++) {
        s->cross[i] *= scale[i % K];
    }
    for (int64_t k = 0; k < K; k++) {
        s->sum[k] *= scale[k];
    }
}

static void fit_sums(const own_sums *s, const float *prior, const ridge_options *options,
                     double *weight, double *change)
{
    OWNED(regression) r = {0};
    ridge_result result;
    assert_ok(oracle_load(on_ref, &s->all, &r));
    assert_ok(oracle_fit(&r, NULL, prior, options, weight, options->bias ? change : NULL, &result));
}

/* Features of unit variance have the same penalty with either choice; then they are scaled by
 * powers of two, and the weights by the inverse, which is exact. */
TEST(it_is_the_mean_penalty_of_features_scaled_to_unit_diagonal)
{
    const double scale[K] = {1, 0.25, 8, 1, 64, 0.5, 2};
    oracle o;
    oracle_fill(&o, 32);
    for (int choice = 0; choice < 4; choice++) {
        own_sums s;
        double unit[K];
        float prior[O * K];
        double weight[2][O * K];
        double change[2][O];
        OWNED(regression) r = oracle_regression(on_ref, &o, 0, T, true);
        ridge_options options = {.ridge = choice & 1 ? RIDGE_PRIOR : RIDGE_ZERO,
                                 .bias = (choice & 2) != 0,
                                 .alpha = 0.1};
        take_sums(&r, &s);
        oracle_diagonal(&o, 0, T, options.bias, unit);
        for (int64_t k = 0; k < K; k++) {
            unit[k] = 1.0 / sqrt(unit[k]);
        }
        scale_sums(unit, &s);
        fit_sums(&s, o.prior, &options, weight[0], change[0]);
        scale_sums(scale, &s);
        for (int64_t i = 0; i < O * K; i++) {
            prior[i] = o.prior[i] / (float)scale[i % K];
        }
        options.scale = RIDGE_SCALE_DIAGONAL;
        fit_sums(&s, prior, &options, weight[1], change[1]);
        for (int64_t i = 0; i < O * K; i++) {
            assert_near(weight[1][i] * scale[i % K], weight[0][i], 1e-10);
        }
        assert_all_near(options.bias ? O : 0, change[1], change[0], 1e-10);
    }
}

/* The largest change of a fitted weight, in units of the unscaled features, and of a bias, when all
 * features are scaled and the columns of the dense consumer the other way. */
static double change_by_scaling(ridge_scale penalty, bool bias)
{
    static const float scale[4] = {1.0F, 32.0F, 0.125F, 4.0F};
    const double alphas[] = {1e-3, 1e-1, 1.0};
    const ridge_options options = {
        .ridge = RIDGE_PRIOR, .scale = penalty, .bias = bias, .alphas = alphas, .alpha_count = 3};
    oracle o;
    double weight[2][O * K];
    double shift[2][O] = {{0}};
    double largest = 0.0;
    oracle_fill(&o, 33);
    oracle_run(on_ref, &o, SPLIT, true, &options, weight[0], bias ? shift[0] : NULL);
    for (int64_t i = 0; i < T * H; i++) {
        o.x[i] *= scale[i % H % 4];
    }
    for (int64_t i = 0; i < O * H; i++) {
        o.consumer[i] /= scale[i % H % 4];
    }
    oracle_derive(&o);
    oracle_run(on_ref, &o, SPLIT, true, &options, weight[1], bias ? shift[1] : NULL);
    for (int64_t i = 0; i < O * K; i++) {
        const double back = weight[1][i] * (double)scale[oracle_kept[i % K] % 4];
        largest = fmax(largest, fabs(back - weight[0][i]));
    }
    for (int64_t i = 0; i < O; i++) {
        largest = fmax(largest, fabs(shift[1][i] - shift[0][i]));
    }
    return largest;
}

TEST(the_fitted_outputs_do_not_depend_on_the_scale_of_features)
{
    for (int bias = 0; bias < 2; bias++) {
        assert_true(change_by_scaling(RIDGE_SCALE_DIAGONAL, bias != 0) < 1e-12);
        assert_true(change_by_scaling(RIDGE_SCALE_MEAN, bias != 0) > 1e-2);
    }
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
