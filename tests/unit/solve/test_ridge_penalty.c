/* A penalty of each feature's own: alpha times its diagonal element. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, K = ORACLE_KEPT, O = ORACLE_OUTPUTS, SPLIT = 40 };

static void assert_all_near(int64_t count, const double *a, const double *b, double tolerance)
{
    for (int64_t i = 0; i < count; i++) {
        assert_near(a[i], b[i], tolerance);
    }
}

/* ridge_solve against the normal equations on the rows, for one combination of choices. */
static void assert_equals_oracle(ridge_kind kind, bool bias, bool target, double alpha)
{
    oracle o;
    oracle_fill(&o, 31);
    double weight[O * K];
    double expected[O * K];
    double change[O];
    double expected_change[O];
    double penalty[K];
    const double *y = target ? o.other : o.own;
    const ridge_options options = {
        .ridge = kind, .scale = RIDGE_SCALE_DIAGONAL, .bias = bias, .alpha = alpha};
    const ridge_result result =
        oracle_run(on_ref, &o, T, target, &options, weight, bias ? change : NULL);
    oracle_diagonal(&o, 0, T, bias, penalty);
    for (int64_t k = 0; k < K; k++) {
        penalty[k] *= alpha;
    }
    oracle_solve_penalised(&o, 0, T, y, penalty, kind, expected, bias ? expected_change : NULL);
    assert_all_near(O * K, weight, expected, 1e-10);
    assert_all_near(bias ? O : 0, change, expected_change, 1e-10);
    assert_near(result.fit_after,
                oracle_error(&o, 0, T, y, expected, bias ? expected_change : NULL), 1e-10);
    assert_near(result.lambda, oracle_lambda(&o, 0, T, alpha, bias), 1e-10 * result.lambda);
    assert_int_equal(result.fallback, RIDGE_FALLBACK_NONE);
}

TEST(every_choice_equals_the_normal_equations_on_the_rows)
{
    const double alphas[] = {0.0, 1e-3, 0.5};
    for (int choice = 0; choice < 8; choice++) {
        for (int a = 0; a < 3; a++) {
            assert_equals_oracle(choice & 1 ? RIDGE_PRIOR : RIDGE_ZERO, (choice & 2) != 0,
                                 (choice & 4) != 0, alphas[a]);
        }
    }
}

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
    regression r = {0};
    ridge_result result;
    assert_ok(oracle_load(on_ref, &s->all, &r));
    assert_ok(oracle_fit(&r, NULL, prior, options, weight, options->bias ? change : NULL, &result));
    regression_fini(&r);
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
        regression r = oracle_regression(on_ref, &o, 0, T, true);
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
        regression_fini(&r);
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

enum { N = 3 };

/* One output on three features, prior (1, 1, 3). */
static ridge_result solve_small(const double gram[N * N], const double cross[N],
                                const double sum[N], ridge_options options, double *weight)
{
    const float prior[N] = {1, 1, 3};
    const double residual[] = {10};
    const double target[] = {20};
    const double none[] = {0};
    const regression_sums sums = {.width = N,
                                  .outputs = 1,
                                  .weight = 100,
                                  .gram = gram,
                                  .cross = cross,
                                  .sum = sum,
                                  .residual_sum = none,
                                  .residual_square = residual,
                                  .target_square = target};
    regression r = {0};
    ridge_result result;
    double change = 0.0;
    assert_ok(oracle_load(on_cpu, &sums, &r));
    assert_ok(
        oracle_fit(&r, NULL, prior, &options, weight, options.bias ? &change : NULL, &result));
    regression_fini(&r);
    return result;
}

static const double no_sum[N] = {0};

/* Feature 1 never fires: it keeps its weight, and the others their own penalty. */
TEST(a_dead_feature_has_the_mean_penalty)
{
    const double gram[] = {2, 0, 0, 0, 0, 0, 0, 0, 4};
    const double cross[] = {3, 0, 6};
    double weight[N];
    ridge_options options = {.scale = RIDGE_SCALE_DIAGONAL, .ridge = RIDGE_PRIOR, .alpha = 0.5};
    ridge_result result = solve_small(gram, cross, no_sum, options, weight);
    assert_near(result.lambda, 1.0, 1e-15);
    assert_near(weight[0], 1.0 + 3.0 / 3.0, 1e-15);
    assert_true(weight[1] == 1.0);
    assert_near(weight[2], 3.0 + 6.0 / 6.0, 1e-15);
    assert_near(result.condition, 6.0, 0.1);
    options.alpha = 0.0;
    result = solve_small(gram, cross, no_sum, options, weight);
    assert_near(result.lambda, 2e-8, 1e-22);
    assert_int_equal(result.fallback, RIDGE_FALLBACK_NONE);
    options = (ridge_options){.scale = RIDGE_SCALE_DIAGONAL, .alpha = 0.5};
    solve_small(gram, cross, no_sum, options, weight);
    assert_near(weight[0], 1.0 + (3.0 - 1.0) / 3.0, 1e-15);
    assert_near(weight[1], 0.0, 1e-15);
}

/* Features 1 and 2 are 1 in each of the 100 rows, up to errors of their sums as products in f32
 * leave them, which would make A indefinite. */
TEST(constant_features_up_to_rounding_do_not_spoil_the_factorisation)
{
    const double gram[] = {100, 0, 0, 0, 100 + 2e-6, 0, 0, 100 + 3e-6, 100 + 1e-6};
    const double cross[] = {50, 1e-6, -1e-6};
    const double sum[] = {0, 100, 100};
    double weight[N];
    const ridge_options options = {
        .scale = RIDGE_SCALE_DIAGONAL, .ridge = RIDGE_PRIOR, .bias = true, .alpha = 1e-4};
    const ridge_result result = solve_small(gram, cross, sum, options, weight);
    assert_int_equal(result.fallback, RIDGE_FALLBACK_NONE);
    assert_near(weight[0], 1.0 + 50.0 / 100.01, 1e-12);
    assert_near(weight[1], 1.0, 0.0);
    assert_near(weight[2], 3.0, 0.0);
}

/* Feature 1 is ten times feature 0. The change is shared so that each contributes as much. */
TEST(raising_multiplies_the_whole_penalty)
{
    const double gram[] = {1, 0, 0, 10, 100, 0, 0, 0, 1};
    const double cross[] = {1, 10, 0};
    double weight[N];
    const ridge_options options = {
        .scale = RIDGE_SCALE_DIAGONAL, .ridge = RIDGE_PRIOR, .alpha = 0.0};
    const ridge_result result = solve_small(gram, cross, no_sum, options, weight);
    assert_int_equal(result.fallback, RIDGE_FALLBACK_RAISED);
    assert_int_equal(result.raises, 1);
    assert_near(result.lambda, 34e-8, 1e-20);
    assert_near(weight[0], 1.5, 1e-6);
    assert_near(weight[1], 1.05, 1e-6);
    assert_near(weight[2], 3.0, 0.0);
}

/* Eigenvalues 3, -1 of the first two features and 4 of the third; lambda = 1e-7 * mean diag. */
TEST(eigenvalues_go_with_the_mean_penalty)
{
    const double gram[] = {1, 0, 0, 2, 1, 0, 0, 0, 4};
    const double cross[] = {3, 1, 5};
    const double lambda = 2e-7;
    double weight[N];
    ridge_options options = {.scale = RIDGE_SCALE_DIAGONAL, .ridge = RIDGE_PRIOR, .alpha = 1e-7};
    const ridge_result result = solve_small(gram, cross, no_sum, options, weight);
    assert_int_equal(result.fallback, RIDGE_FALLBACK_EIGEN);
    assert_near(result.lambda, lambda, 1e-20);
    assert_near(weight[0], 1.0 + 2.0 / (3.0 + lambda), 1e-12);
    assert_near(weight[2], 3.0 + 5.0 / (4.0 + lambda), 1e-12);
    options.ridge = RIDGE_ZERO;
    solve_small(gram, cross, no_sum, options, weight);
    assert_near(weight[2], 3.0 + (5.0 - 3.0 * lambda) / (4.0 + lambda), 1e-12);
}

static grail_status solve_with_shares(void *context)
{
    (void)context;
    const double gram[] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
    const double ones[] = {1, 1, 1};
    const float prior[] = {1, 2, 3};
    const ridge_options options = {.scale = RIDGE_SCALE_DIAGONAL, .alpha = 0.1};
    const regression_sums sums = {N, 1, 4, gram, ones, ones, ones, ones, ones};
    double weight[N];
    ridge_result result;
    regression r = {0};
    grail_status status = oracle_load(on_ref, &sums, &r);
    if (status == GRAIL_OK) {
        status = oracle_fit(&r, NULL, prior, &options, weight, NULL, &result);
    }
    regression_fini(&r);
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(solve_with_shares, NULL);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
