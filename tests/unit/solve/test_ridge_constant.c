/* Features that are constant, in sums that f32 products leave inexact, against the fit of the site
 * that does not have them. */
#include "oracle.h"
#include "stats/constant_features.h"
#include "support/matrices.h"

#include <math.h>

enum { T = 10000, H = 6, O = 2 };

typedef struct fitted {
    float prior[O * H];
    double *weight; /* [O, width] */
    double bias[O];
    ridge_result result;
} fitted;

/* X[T, H], of which feature 4 is `constant` in every row, and feature 5 has the mean 1000 and a
 * deviation of 1 % of it; Y[T, O] depends on both. */
static void fill_rows(float constant, float *x, float *y)
{
    support_fill_normal(x, T * H, 31);
    support_fill_normal(y, T * O, 32);
    for (int64_t t = 0; t < T; t++) {
        float *row = x + t * H;
        row[4] = constant;
        row[5] = 1000.0F + 10.0F * row[5];
        for (int64_t o = 0; o < O; o++) {
            y[t * O + o] += row[0] - 2.0F * row[o] + 0.3F * row[5] + 2.0F * row[4];
        }
    }
}

/* The fit to the rows; `with` the constant feature or without it. lambda is relative to the mean
 * over all features, so alpha is less without. */
static fitted fit_of(float constant, bool with, ridge_kind kind)
{
    static float x[T * H];
    static float y[T * O];
    fitted f = {0};
    OWNED(regression) r = {0};
    OWNED(matrix) weight = no_matrix;
    const int64_t width = with ? H : H - 1;
    const ridge_options options = {.ridge = kind, .bias = true, .alpha = 1e-3 * (double)width / H};
    fill_rows(constant, x, y);
    for (int64_t i = 0; !with && i < T * H; i++) {
        x[i] = i % H == 4 ? x[i + 1] : x[i];
    }
    for (int64_t i = 0; i < O * width; i++) {
        const int64_t j = i % width;
        f.prior[i] = 0.25F * (float)(1 + i / width + (!with && j == 4 ? 5 : j));
    }
    OWNED(matrix) rows = support_rows(on_cpu, T, width, H, x);
    OWNED(matrix) targets = support_rows(on_cpu, T, O, O, y);
    OPENED(grail_statistics, s, statistics_create(on_cpu, width, O, &s));
    assert_ok(statistics_accumulate(s, rows, targets));
    assert_ok(statistics_settle_constants(s));
    assert_ok(oracle_regress(NULL, s, NULL, 1, s->outputs, NULL, f.prior, &r));
    assert_ok(matrix_new(on_cpu, GRAIL_DTYPE_F64, O, width, &weight));
    assert_ok(oracle_ridge(&r, NULL, f.prior, &options, weight, f.bias, &f.result));
    f.weight = support_values(weight);
    return f;
}

static void check_constant(float constant, ridge_kind kind)
{
    fitted with = fit_of(constant, true, kind);
    fitted without = fit_of(constant, false, kind);
    assert_int_equal(with.result.fallback, RIDGE_FALLBACK_NONE);
    assert_near(with.result.lambda, without.result.lambda, 1e-12 * without.result.lambda);
    for (int64_t o = 0; o < O; o++) {
        const double *w = with.weight + o * H;
        const double *expected = without.weight + o * (H - 1);
        const double kept = kind == RIDGE_PRIOR ? (double)with.prior[o * H + 4] : 0.0;
        assert_near(w[4], kept, 1e-12);
        assert_near(with.bias[o] + w[4] * (double)constant, without.bias[o],
                    1e-4 * (1.0 + fabs((double)constant)));
        for (int64_t j = 0; j < H - 1; j++) {
            assert_near(w[j < 4 ? j : 5], expected[j], 1e-6);
        }
        assert_near(w[5], 0.3, 0.05);
    }
    memory_free(with.weight);
    memory_free(without.weight);
}

/* Rounding leaves more than nothing of some of these, and less of others. */
TEST(the_fit_is_that_without_the_feature_and_the_bias_has_its_mean)
{
    static const float constants[] = {1.0F, 1.1F, 1.3F, 1.7F, 1000.1F, -777.7F, 1333.3F, 12345.6F};
    for (int i = 0; i < 8; i++) {
        check_constant(constants[i], RIDGE_PRIOR);
        check_constant(constants[i], RIDGE_ZERO);
    }
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
