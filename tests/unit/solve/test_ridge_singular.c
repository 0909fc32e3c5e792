/* Sums that a plain Cholesky factorisation cannot take: dead features, dependent features, matrices
 * that are no Gram matrices, and NaN. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { K = 3 };

/* One output on three features; every array is the test's to change. */
typedef struct small_problem {
    double rows;
    double gram[K * K];
    double sum[K];
    double cross[K];
    double residual_sum[1];
    double residual_square[1];
    double target_square[1];
    float prior[K];
    double weight[K];
    double change[1];
    ridge_result result;
} small_problem;

static small_problem problem_of(const double gram[K * K], const double cross[K])
{
    small_problem p = {
        .rows = 4, .residual_square = {10}, .target_square = {20}, .prior = {1, -0.0F, 3}};
    memcpy(p.gram, gram, sizeof p.gram);
    memcpy(p.cross, cross, sizeof p.cross);
    return p;
}

static grail_status solve(backend *b, small_problem *p, ridge_options options)
{
    OWNED(regression) r = {0};
    const regression_sums sums = {.width = K,
                                  .outputs = 1,
                                  .weight = p->rows,
                                  .gram = p->gram,
                                  .cross = p->cross,
                                  .sum = p->sum,
                                  .residual_sum = p->residual_sum,
                                  .residual_square = p->residual_square,
                                  .target_square = p->target_square};
    CHECK(oracle_load(b, &sums, &r));
    return oracle_fit(&r, NULL, p->prior, &options, p->weight, options.bias ? p->change : NULL,
                      &p->result);
}

static const double nothing[K * K] = {0};

TEST(no_activation_at_all_gives_the_prior_or_zero)
{
    for (int kind = RIDGE_ZERO; kind <= RIDGE_PRIOR; kind++) {
        small_problem p = problem_of(nothing, nothing);
        assert_ok(solve(on_cpu, &p, (ridge_options){.ridge = kind, .alpha = 1e-3}));
        for (int64_t k = 0; k < K; k++) {
            const float weight = (float)p.weight[k];
            assert_true(kind == RIDGE_PRIOR ? memcmp(&weight, &p.prior[k], sizeof weight) == 0
                                            : weight == 0.0F);
        }
        assert_near(p.result.lambda, 0.0, 0.0);
        assert_near(p.result.fit_before, 0.5, 0.0);
        assert_true(kind == RIDGE_ZERO || p.result.fit_after == 0.5);
    }
}

/* Every row is (1, 2, 3): nothing varies, only the bias can help. mean(residual) = 5. */
TEST(constant_features_leave_the_fit_to_the_bias)
{
    const double gram[] = {4, 8, 12, 8, 16, 24, 12, 24, 36};
    const double cross[] = {20, 40, 60};
    small_problem p = problem_of(gram, cross);
    memcpy(p.sum, (const double[]){4, 8, 12}, sizeof p.sum);
    p.residual_sum[0] = 20.0;
    p.residual_square[0] = 100.0;
    p.target_square[0] = 200.0;
    assert_ok(
        solve(on_ref, &p, (ridge_options){.ridge = RIDGE_PRIOR, .bias = true, .alpha = 1e-3}));
    assert_near(p.weight[0], 1.0, 0.0);
    assert_near(p.change[0], 5.0, 1e-15);
    assert_near(p.result.fit_after, 0.0, 1e-15);
}

/* Feature 1 never fires: it keeps its weight, and others their own penalty. lambda is at least 1e-8
 * of the mean diagonal. */
TEST(a_dead_feature_keeps_its_weight)
{
    static const struct {
        ridge_scale scale;
        ridge_kind ridge;
        double alpha, lambda, weights[K];
    } cases[] = {
        {RIDGE_SCALE_MEAN, RIDGE_PRIOR, 0.0, 2e-8, {2.0, 7.0, 5.0}},
        {RIDGE_SCALE_DIAGONAL, RIDGE_PRIOR, 0.0, 2e-8, {2.0, 7.0, 5.0}},
        {RIDGE_SCALE_DIAGONAL, RIDGE_PRIOR, 0.5, 1.0, {1.0 + 2.0 / 3.0, 7.0, 3.0 + 8.0 / 6.0}},
        {RIDGE_SCALE_DIAGONAL, RIDGE_ZERO, 0.5, 1.0, {1.0 + 1.0 / 3.0, 0.0, 3.0 + 2.0 / 6.0}}};
    const double gram[] = {2, 0, 0, 0, 0, 0, 0, 0, 4};
    const double cross[] = {2, 0, 8};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const double tolerance = cases[i].alpha > 0.0 ? 1e-15 : 1e-7;
        small_problem p = problem_of(gram, cross);
        p.prior[1] = 7.0F;
        assert_ok(solve(on_cpu, &p,
                        (ridge_options){.ridge = cases[i].ridge,
                                        .scale = cases[i].scale,
                                        .alpha = cases[i].alpha}));
        assert_near(p.result.lambda, cases[i].lambda, 1e-15 * cases[i].lambda);
        assert_int_equal(p.result.fallback, RIDGE_FALLBACK_NONE);
        assert_true(p.weight[1] == cases[i].weights[1]);
        assert_near(p.weight[0], cases[i].weights[0], tolerance);
        assert_near(p.weight[2], cases[i].weights[2], 2.0 * tolerance);
        if (cases[i].alpha > 0.0) {
            assert_near(p.result.condition, 6.0, 0.1);
        }
    }
}

/* Features 1 and 2 are 1 in each of the 100 rows, up to errors of their sums as products in f32
 * leave them, which would make A indefinite. */
TEST(constant_features_up_to_rounding_do_not_spoil_the_factorisation)
{
    const double gram[] = {100, 0, 0, 0, 100 + 2e-6, 0, 0, 100 + 3e-6, 100 + 1e-6};
    const double cross[] = {50, 1e-6, -1e-6};
    small_problem p = problem_of(gram, cross);
    p.rows = 100;
    p.prior[1] = 1.0F;
    p.sum[1] = p.sum[2] = 100;
    assert_ok(solve(
        on_cpu, &p,
        (ridge_options){
            .scale = RIDGE_SCALE_DIAGONAL, .ridge = RIDGE_PRIOR, .bias = true, .alpha = 1e-4}));
    assert_int_equal(p.result.fallback, RIDGE_FALLBACK_NONE);
    assert_near(p.weight[0], 1.0 + 50.0 / 100.01, 1e-12);
    assert_near(p.weight[1], 1.0, 0.0);
    assert_near(p.weight[2], 3.0, 0.0);
}

/* Feature 1 is ten times feature 0. The change is shared so that each contributes as much. */
TEST(raising_multiplies_the_whole_penalty)
{
    const double gram[] = {1, 0, 0, 10, 100, 0, 0, 0, 1};
    const double cross[] = {1, 10, 0};
    small_problem p = problem_of(gram, cross);
    assert_ok(
        solve(on_cpu, &p, (ridge_options){.scale = RIDGE_SCALE_DIAGONAL, .ridge = RIDGE_PRIOR}));
    assert_int_equal(p.result.fallback, RIDGE_FALLBACK_RAISED);
    assert_int_equal(p.result.raises, 1);
    assert_near(p.result.lambda, 34e-8, 1e-20);
    assert_near(p.weight[0], 1.5, 1e-6);
    assert_near(p.weight[1], 0.05, 1e-6);
    assert_near(p.weight[2], 3.0, 0.0);
}

/* Eigenvalues 3, -1 of the first two features and 4 of the third; lambda = 1e-7 * mean diag. */
TEST(eigenvalues_go_with_the_mean_penalty)
{
    const double gram[] = {1, 0, 0, 2, 1, 0, 0, 0, 4};
    const double cross[] = {3, 1, 5};
    const double lambda = 2e-7;
    small_problem p = problem_of(gram, cross);
    ridge_options options = {.scale = RIDGE_SCALE_DIAGONAL, .ridge = RIDGE_PRIOR, .alpha = 1e-7};
    assert_ok(solve(on_cpu, &p, options));
    assert_int_equal(p.result.fallback, RIDGE_FALLBACK_EIGEN);
    assert_near(p.result.lambda, lambda, 1e-20);
    assert_near(p.weight[0], 1.0 + 2.0 / (3.0 + lambda), 1e-12);
    assert_near(p.weight[2], 3.0 + 5.0 / (4.0 + lambda), 1e-12);
    options.ridge = RIDGE_ZERO;
    assert_ok(solve(on_cpu, &p, options));
    assert_near(p.weight[2], 3.0 + (5.0 - 3.0 * lambda) / (4.0 + lambda), 1e-12);
}

/* Two equal features: A is singular. Raised to 1e-8 mean diag the change is shared evenly. */
TEST(dependent_features_raise_lambda_and_say_so)
{
    const double gram[] = {1, 0, 0, 1, 1, 0, 0, 0, 1};
    const double cross[] = {1, 1, 0};
    backend *const backends[] = {on_ref, on_cpu};
    for (int b = 0; b < 2; b++) {
        small_problem p = problem_of(gram, cross);
        assert_ok(solve(backends[b], &p, (ridge_options){.ridge = RIDGE_PRIOR, .alpha = 0.0}));
        assert_int_equal(p.result.fallback, RIDGE_FALLBACK_RAISED);
        assert_int_equal(p.result.raises, 1);
        assert_near(p.result.lambda, 1e-8, 1e-22);
        assert_near(p.weight[0], 1.5, 1e-6);
        assert_near(p.weight[1], 0.5, 1e-6);
        assert_near(p.weight[2], 3.0, 0.0);
    }
}

/* Matrices of rank 2: the last pivot is 0 but for rounding, of either sign. */
TEST(a_pivot_of_rounding_counts_as_failed)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        float rows[2 * K];
        double gram[K * K];
        support_fill_normal(rows, 2 * K, seed);
        for (int64_t i = 0; i < K * K; i++) {
            gram[i] = (double)rows[i / K] * (double)rows[i % K] +
                      (double)rows[K + i / K] * (double)rows[K + i % K];
        }
        small_problem p = problem_of(gram, nothing);
        assert_ok(solve(on_ref, &p, (ridge_options){.ridge = RIDGE_ZERO, .alpha = 0.0}));
        assert_int_equal(p.result.fallback, RIDGE_FALLBACK_RAISED);
    }
}

/* Eigenvalues 3, -1 of the first two features and 1 of the third: no lambda up to 1e-3 helps. Along
 * (1, 1) the change is 2 / 3 of the residual's (1, 1); along (1, -1) there is none. */
TEST(an_indefinite_matrix_is_solved_by_its_positive_eigenvalues)
{
    const double gram[] = {1, 0, 0, 2, 1, 0, 0, 0, 1};
    const double cross[] = {3, 1, 5};
    backend *const backends[] = {on_ref, on_cpu};
    for (int b = 0; b < 2; b++) {
        small_problem p = problem_of(gram, cross);
        p.residual_square[0] = 100.0;
        p.target_square[0] = 200.0;
        assert_ok(solve(backends[b], &p, (ridge_options){.ridge = RIDGE_PRIOR, .alpha = 0.0}));
        assert_int_equal(p.result.fallback, RIDGE_FALLBACK_EIGEN);
        assert_int_equal(p.result.raises, 6);
        assert_near(p.result.lambda, 0.0, 0.0);
        assert_near(p.weight[0], 1.0 + 2.0 / 3.0, 1e-12);
        assert_near(p.weight[1], 2.0 / 3.0, 1e-12);
        assert_near(p.weight[2], 8.0, 1e-12);
        assert_near(p.result.condition, 3.0, 1e-12);
        /* 100 - 2 (4 * 2/3 + 25) + 6 * 4/9 + 25 of 200 */
        assert_near(p.result.fit_after, 217.0 / 3.0 / 200.0, 1e-12);
    }
}

TEST(an_eigenvalue_below_1e_10_of_the_largest_is_dropped)
{
    const double gram[] = {1, 0, 0, 2, 1, 0, 0, 0, 2.9e-10};
    const double cross[] = {0, 0, 1};
    small_problem p = problem_of(gram, cross);
    assert_ok(solve(on_ref, &p, (ridge_options){.ridge = RIDGE_PRIOR, .alpha = 0.0}));
    assert_int_equal(p.result.fallback, RIDGE_FALLBACK_EIGEN);
    assert_near(p.weight[2], 3.0, 1e-12);
    p = problem_of(gram, cross);
    p.gram[8] = 3.1e-10;
    assert_ok(solve(on_ref, &p, (ridge_options){.ridge = RIDGE_PRIOR, .alpha = 0.0}));
    assert_near(p.weight[2] * 3.1e-10, 1.0, 1e-6);
}

static void assert_nan_named(double *where, small_problem *p, const char *text)
{
    const double before = *where;
    *where = NAN;
    assert_fails(solve(on_ref, p, (ridge_options){.alpha = 1e-3}), GRAIL_ERROR_NUMERIC, text);
    *where = before;
}

TEST(a_nan_among_the_sums_is_named)
{
    const double gram[] = {2, 0, 0, 0, 3, 0, 0, 0, 4};
    small_problem p = problem_of(gram, nothing);
    assert_nan_named(&p.gram[K + 1], &p, "gram sum of feature 1");
    assert_nan_named(&p.sum[2], &p, "sum of feature 2");
    assert_nan_named(&p.cross[1], &p, "residual sum of output 0");
    assert_nan_named(&p.residual_sum[0], &p, "target sum of output 0");
    assert_nan_named(&p.target_square[0], &p, "target sum of output 0");
    assert_ok(solve(on_ref, &p, (ridge_options){.alpha = 1e-3}));
}

/* The upper triangle of the sums is not read. */
TEST(the_upper_triangle_may_hold_anything)
{
    const double gram[] = {2, NAN, NAN, 0, 3, NAN, 0, 0, 4};
    const double cross[] = {2, 3, 4};
    small_problem p = problem_of(gram, cross);
    assert_ok(solve(on_ref, &p, (ridge_options){.ridge = RIDGE_PRIOR, .alpha = 0.0}));
    assert_near(p.weight[0], 2.0, 1e-15);
    assert_near(p.weight[2], 4.0, 1e-15);
}

/* A plain fit with shares of its own, and one by eigenvalues. */
static grail_status solve_both(void *context)
{
    static const double diagonal[] = {1, 0, 0, 0, 2, 0, 0, 0, 3};
    static const double indefinite[] = {1, 0, 0, 2, 1, 0, 0, 0, 1};
    small_problem p = problem_of(diagonal, nothing);
    CHECK(solve(on_ref, &p, (ridge_options){.scale = RIDGE_SCALE_DIAGONAL, .alpha = 0.1}));
    p = problem_of(indefinite, nothing);
    return solve(on_ref, &p, (ridge_options){.ridge = RIDGE_ZERO, .alpha = 0.0});
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(solve_both, NULL);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
