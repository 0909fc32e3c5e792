/* Sums that a plain Cholesky factorisation cannot take: dead features, dependent features, matrices
 * that are no Gram matrices, and NaN. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { K = 3 };

/* One output on three features; every array is the test's to change. */
typedef struct small_problem {
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
    small_problem p = {.residual_square = {10}, .target_square = {20}, .prior = {1, -0.0F, 3}};
    memcpy(p.gram, gram, sizeof p.gram);
    memcpy(p.cross, cross, sizeof p.cross);
    return p;
}

static grail_status solve(backend *b, small_problem *p, ridge_options options)
{
    grail_status status = GRAIL_OK;
    regression r = {0};
    const regression_sums sums = {.width = K,
                                  .outputs = 1,
                                  .weight = 4,
                                  .gram = p->gram,
                                  .cross = p->cross,
                                  .sum = p->sum,
                                  .residual_sum = p->residual_sum,
                                  .residual_square = p->residual_square,
                                  .target_square = p->target_square};
    TRY(oracle_load(b, &sums, &r));
    TRY(oracle_fit(&r, NULL, p->prior, &options, p->weight, options.bias ? p->change : NULL,
                   &p->result));
out:
    regression_fini(&r);
    return status;
}

static const double nothing[K * K] = {0};

TEST(no_activation_at_all_gives_the_prior)
{
    small_problem p = problem_of(nothing, nothing);
    assert_ok(solve(on_cpu, &p, (ridge_options){.ridge = RIDGE_PRIOR, .alpha = 1e-3}));
    for (int64_t k = 0; k < K; k++) {
        const float weight = (float)p.weight[k];
        assert_memory_equal(&weight, &p.prior[k], sizeof weight);
    }
    assert_near(p.result.lambda, 0.0, 0.0);
    assert_near(p.result.fit_before, 0.5, 0.0);
    assert_near(p.result.fit_after, 0.5, 0.0);
}

TEST(no_activation_at_all_gives_zero_for_the_zero_ridge)
{
    small_problem p = problem_of(nothing, nothing);
    assert_ok(solve(on_cpu, &p, (ridge_options){.ridge = RIDGE_ZERO, .alpha = 1e-3}));
    for (int64_t k = 0; k < K; k++) {
        assert_true(p.weight[k] == 0.0);
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

/* Feature 1 never fires. lambda = 1e-8 of the mean diagonal although alpha is 0. */
TEST(a_dead_feature_raises_lambda_to_its_floor_and_keeps_its_weight)
{
    const double gram[] = {2, 0, 0, 0, 0, 0, 0, 0, 4};
    const double cross[] = {2, 0, 8};
    small_problem p = problem_of(gram, cross);
    p.prior[1] = 7.0F;
    assert_ok(solve(on_cpu, &p, (ridge_options){.ridge = RIDGE_PRIOR, .alpha = 0.0}));
    assert_near(p.result.lambda, 2e-8, 1e-22);
    assert_int_equal(p.result.fallback, RIDGE_FALLBACK_NONE);
    assert_near(p.weight[0], 2.0, 1e-7);
    assert_true(p.weight[1] == 7.0);
    assert_near(p.weight[2], 5.0, 1e-7);
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

static grail_status solve_indefinite(void *context)
{
    (void)context;
    const double gram[] = {1, 0, 0, 2, 1, 0, 0, 0, 1};
    small_problem p = problem_of(gram, nothing);
    return solve(on_ref, &p, (ridge_options){.ridge = RIDGE_ZERO, .alpha = 0.0});
}

TEST(every_failing_allocation_of_the_fallback_is_survived)
{
    support_fail_each_allocation(solve_indefinite, NULL);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
