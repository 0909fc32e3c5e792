/* What the solve computes, against explicit formulas. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, K = ORACLE_KEPT, R = H - K, O = ORACLE_OUTPUTS };

static void assert_all_near(int64_t count, const double *a, const double *b, double tolerance)
{
    for (int64_t i = 0; i < count; i++) {
        assert_near(a[i], b[i], tolerance);
    }
}

/* ridge_solve against the normal equations on the rows, for one combination of choices. */
static void assert_equals_oracle(backend *b, ridge_kind kind, bool bias, bool target, double alpha,
                                 double tolerance)
{
    oracle o;
    oracle_fill(&o, 11);
    double weight[O * K];
    double expected[O * K];
    double change[O];
    double expected_change[O];
    const double *y = target ? o.other : o.own;
    const ridge_options options = {.ridge = kind, .bias = bias, .alpha = alpha};
    const ridge_result result =
        oracle_run(b, &o, T, target, &options, weight, bias ? change : NULL);
    const double lambda = oracle_lambda(&o, 0, T, alpha, bias);
    oracle_solve(&o, 0, T, y, lambda, kind, expected, bias ? expected_change : NULL);
    assert_near(result.lambda, lambda, tolerance * lambda);
    assert_all_near(O * K, weight, expected, tolerance);
    assert_all_near(bias ? O : 0, change, expected_change, tolerance);
    assert_near(result.fit_after,
                oracle_error(&o, 0, T, y, expected, bias ? expected_change : NULL), tolerance);
    double prior[O * K];
    oracle_widen(O * K, o.prior, prior);
    assert_near(result.fit_before, oracle_error(&o, 0, T, y, prior, NULL), tolerance);
    assert_true(isnan(result.held_before) && isnan(result.held_after));
    assert_int_equal(result.fallback, RIDGE_FALLBACK_NONE);
}

TEST(every_choice_equals_the_normal_equations_on_the_rows)
{
    const double alphas[] = {0.0, 1e-3, 0.5};
    for (int choice = 0; choice < 8; choice++) {
        for (int a = 0; a < 3; a++) {
            assert_equals_oracle(on_ref, choice & 1 ? RIDGE_PRIOR : RIDGE_ZERO, (choice & 2) != 0,
                                 (choice & 4) != 0, alphas[a], 1e-10);
        }
    }
}

TEST(the_cpu_backend_agrees_within_the_rounding_of_its_statistics)
{
    assert_equals_oracle(on_cpu, RIDGE_ZERO, false, false, 1e-3, 1e-4);
    assert_equals_oracle(on_cpu, RIDGE_PRIOR, true, true, 1e-3, 1e-4);
}

/* Both solves from the same f64 sums: only the order of operations differs. */
TEST(both_backends_solve_the_same_sums_alike)
{
    oracle o;
    oracle_fill(&o, 12);
    double weight[2][O * K];
    double change[2][O];
    backend *const backends[] = {on_ref, on_cpu};
    const ridge_options options = {.ridge = RIDGE_PRIOR, .bias = true, .alpha = 1e-4};
    regression r = oracle_regression(on_ref, &o, 0, T, false);
    double *gram = support_values(r.gram);
    double *cross = support_values(r.cross);
    const regression_sums sums = {
        K, O, T, gram, cross, r.sum, r.residual_sum, r.residual_square, r.target_square};
    for (int i = 0; i < 2; i++) {
        regression same = {0};
        ridge_result result;
        assert_ok(oracle_load(backends[i], &sums, &same));
        assert_ok(oracle_fit(&same, NULL, o.prior, &options, weight[i], change[i], &result));
        regression_fini(&same);
    }
    assert_all_near(O * K, weight[0], weight[1], 1e-11);
    assert_all_near(O, change[0], change[1], 1e-11);
    memory_free(gram);
    memory_free(cross);
    regression_fini(&r);
}

/* W' = W G[:, P] (A + lambda I)^-1: the paper's formula from the full Gram matrix. */
TEST(the_zero_ridge_equals_the_formula_of_the_paper)
{
    oracle o;
    oracle_fill(&o, 13);
    double weight[O * K];
    double expected[O * K] = {0};
    double a[K * K];
    grail_statistics *s = oracle_statistics(on_ref, &o, 0, T, false);
    const double lambda = oracle_lambda(&o, 0, T, 1e-3, false);
    for (int64_t k = 0; k < K; k++) {
        for (int64_t j = 0; j < K; j++) {
            a[k * K + j] =
                grail_statistics_gram(s, oracle_kept[k], oracle_kept[j]) + (k == j ? lambda : 0.0);
        }
        for (int64_t i = 0; i < O * H; i++) {
            expected[i / H * K + k] +=
                (double)o.consumer[i] * grail_statistics_gram(s, i % H, oracle_kept[k]);
        }
    }
    oracle_divide(K, a, O, expected);
    const ridge_options options = {.ridge = RIDGE_ZERO, .alpha = 1e-3};
    oracle_run(on_ref, &o, T, false, &options, weight, NULL);
    assert_all_near(O * K, weight, expected, 1e-10);
    grail_statistics_free(s);
}

/* H = G + lambda I of all features, both triangles. */
static void damped_gram(const oracle *o, double lambda, double *h)
{
    grail_statistics *s = oracle_statistics(on_ref, o, 0, T, false);
    for (int64_t i = 0; i < H * H; i++) {
        h[i] = grail_statistics_gram(s, i / H, i % H) + (i / H == i % H ? lambda : 0.0);
    }
    grail_statistics_free(s);
}

static void identity_matrix(double *a)
{
    for (int64_t i = 0; i < H * H; i++) {
        a[i] = i / H == i % H ? 1.0 : 0.0;
    }
}

/* Optimal brain surgeon, one feature after the other: W -= W_q Hi_q,: / Hi_qq, and Hi is downdated
 * likewise; units of one feature. weight[O, H]. */
static void remove_one_by_one(const oracle *o, const double *h, double *weight)
{
    double inverse[H * H];
    identity_matrix(inverse);
    oracle_divide(H, h, H, inverse);
    oracle_widen(O * H, o->consumer, weight);
    grail_reducer *reducer = oracle_reducer();
    for (int64_t q = 0; q < H; q++) {
        double row[H];
        memcpy(row, inverse + q * H, sizeof row);
        for (int64_t i = 0; reducer->labels[q] < 0 && i < O + H; i++) {
            double *target = i < O ? weight + i * H : inverse + (i - O) * H;
            const double factor = target[q] / row[q];
            for (int64_t j = 0; j < H; j++) {
                target[j] -= factor * row[j];
            }
        }
    }
    grail_reducer_free(reducer);
}

/* Sequential OBS = joint OBS W H[:,P] H[P,P]^-1 = prior ridge. */
TEST(the_prior_ridge_equals_sequential_and_joint_brain_surgery)
{
    oracle o;
    oracle_fill(&o, 14);
    const double alpha = 1e-2;
    double h[H * H];
    double sequential[O * H];
    double joint[O * K] = {0};
    double kept[K * K];
    double weight[O * K];
    damped_gram(&o, oracle_lambda(&o, 0, T, alpha, false), h);
    remove_one_by_one(&o, h, sequential);
    for (int64_t k = 0; k < K; k++) {
        for (int64_t i = 0; i < O * H; i++) {
            joint[i / H * K + k] += (double)o.consumer[i] * h[i % H * H + oracle_kept[k]];
        }
        for (int64_t j = 0; j < K; j++) {
            kept[k * K + j] = h[oracle_kept[k] * H + oracle_kept[j]];
        }
    }
    oracle_divide(K, kept, O, joint);
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alpha = alpha};
    oracle_run(on_ref, &o, T, false, &options, weight, NULL);
    for (int64_t i = 0; i < O * K; i++) {
        assert_near(weight[i], joint[i], 1e-10);
        assert_near(weight[i], sequential[i / K * H + oracle_kept[i % K]], 1e-10);
    }
}

TEST(a_strong_prior_gives_the_plainly_narrowed_consumer)
{
    oracle o;
    oracle_fill(&o, 15);
    double weight[O * K];
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alpha = 1e14};
    oracle_run(on_ref, &o, T, false, &options, weight, NULL);
    for (int64_t i = 0; i < O * K; i++) {
        assert_near(weight[i], (double)o.prior[i], 1e-11);
    }
}

/* Removed features become sums of kept ones, plus `shift`. */
static void make_dependent(oracle *o, float shift)
{
    grail_reducer *reducer = oracle_reducer();
    for (int64_t i = 0; i < T * H; i++) {
        const int64_t h = i % H;
        const float *z = o->x + i / H * H;
        if (reducer->labels[h] < 0) {
            o->x[i] = z[oracle_kept[h % K]] - 0.5F * z[oracle_kept[(h + 1) % K]] + shift;
        }
    }
    grail_reducer_free(reducer);
    oracle_derive(o);
}

TEST(linearly_dependent_features_prune_without_loss)
{
    oracle o;
    oracle_fill(&o, 16);
    make_dependent(&o, 0.0F);
    double weight[O * K];
    const ridge_options options = {.ridge = RIDGE_ZERO, .alpha = 1e-13};
    const ridge_result result = oracle_run(on_ref, &o, T, false, &options, weight, NULL);
    assert_true(result.fit_before > 0.1);
    assert_true(oracle_error(&o, 0, T, o.own, weight, NULL) < 1e-13);
}

TEST(affinely_dependent_features_prune_without_loss_with_a_bias)
{
    oracle o;
    oracle_fill(&o, 17);
    make_dependent(&o, 3.0F);
    double weight[O * K];
    double change[O];
    ridge_options options = {.ridge = RIDGE_PRIOR, .alpha = 1e-13};
    oracle_run(on_ref, &o, T, false, &options, weight, NULL);
    assert_true(oracle_error(&o, 0, T, o.own, weight, NULL) > 1e-4);
    options.bias = true;
    oracle_run(on_ref, &o, T, false, &options, weight, change);
    assert_true(oracle_error(&o, 0, T, o.own, weight, change) < 1e-13);
}

/* With a bias the mean output over the calibration rows is the target's. */
TEST(a_bias_keeps_the_mean_of_the_target_exactly)
{
    oracle o;
    oracle_fill(&o, 18);
    double weight[O * K];
    double change[O];
    for (int kind = RIDGE_ZERO; kind <= RIDGE_PRIOR; kind++) {
        const ridge_options options = {.ridge = kind, .bias = true, .alpha = 0.1};
        oracle_run(on_ref, &o, 40, true, &options, weight, change);
        for (int64_t i = 0; i < O; i++) {
            double left = 0.0;
            for (int64_t t = 0; t < T; t++) {
                left += o.other[t * O + i] - change[i];
                for (int64_t k = 0; k < K; k++) {
                    left -= (double)o.z[t * K + k] * weight[i * K + k];
                }
            }
            assert_near(left / T, 0.0, 1e-12);
        }
    }
}

/* Nothing is wrong, so nothing changes: E = 0 gives W0 bit for bit, negative zeros included. */
TEST(no_residual_leaves_every_bit_of_the_prior)
{
    oracle o;
    oracle_fill(&o, 19);
    grail_reducer *reducer = oracle_reducer();
    for (int64_t i = 0; i < O * H; i++) {
        o.consumer[i] = reducer->labels[i % H] < 0 ? 0.0F : i % 5 == 0 ? -0.0F : o.consumer[i];
    }
    oracle_derive(&o);
    double weight[O * K];
    double change[O];
    const ridge_options options = {.ridge = RIDGE_PRIOR, .bias = true, .alpha = 1e-3};
    const ridge_result result = oracle_run(on_cpu, &o, T, false, &options, weight, change);
    for (int64_t i = 0; i < O * K; i++) {
        const float rounded = (float)weight[i];
        assert_memory_equal(&rounded, &o.prior[i], sizeof rounded);
    }
    for (int64_t i = 0; i < O; i++) {
        assert_true(change[i] == 0.0);
    }
    assert_true(result.fit_before == 0.0 && result.fit_after == 0.0);
    grail_reducer_free(reducer);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
