/* What the solve computes, against explicit formulas. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, K = ORACLE_KEPT, O = ORACLE_OUTPUTS, SPLIT = 40 };

/* alpha * mean diag G of all features, over rows 0 .. end-1. */
static double lambda_of_all(const oracle *o, int64_t end, double alpha)
{
    double total = 0.0;
    for (int64_t i = 0; i < end * H; i++) {
        total += (double)o->x[i] * (double)o->x[i];
    }
    return alpha * total / H;
}

static double lambda_of(const oracle *o, int64_t end, const ridge_options *options)
{
    return options->of_all ? lambda_of_all(o, end, options->alpha)
                           : oracle_lambda(o, 0, end, options->alpha, options->bias);
}

/* The fit to rows 0 .. end-1. */
static void solve_out(const oracle *o, int64_t end, const double *target,
                      const ridge_options *options, double *weight, double *bias)
{
    double penalty[K];
    oracle_diagonal(o, 0, end, options->bias, penalty);
    for (int64_t k = 0; k < K; k++) {
        penalty[k] = options->scale == RIDGE_SCALE_DIAGONAL ? options->alpha * penalty[k]
                                                            : lambda_of(o, end, options);
    }
    oracle_solve_penalised(o, 0, end, target, penalty, options->ridge, weight, bias);
}

/* ridge_solve against the normal equations on the rows: the answer is that of all rows, the errors
 * are those of a fit to the first `split` ones. */
static void assert_equals_oracle(backend *b, const ridge_options *options, bool target,
                                 int64_t split, double tolerance)
{
    oracle o;
    oracle_fill(&o, 11);
    double weight[O * K];
    double expected[O * K];
    double prior[O * K];
    double change[O];
    double moved[O];
    double *bias = options->bias ? moved : NULL;
    const double *y = target ? o.other : o.own;
    const ridge_result r =
        oracle_run(b, &o, split, target, options, weight, options->bias ? change : NULL);
    const double lambda = lambda_of(&o, T, options);
    assert_near(r.lambda, lambda, tolerance * lambda);
    assert_int_equal(r.fallback, RIDGE_FALLBACK_NONE);
    solve_out(&o, T, y, options, expected, bias);
    assert_all_near(O * K, weight, expected, tolerance);
    assert_all_near(options->bias ? O : 0, change, moved, tolerance);
    solve_out(&o, split, y, options, expected, bias);
    oracle_widen(O * K, o.prior, prior);
    assert_near(r.fit_before, oracle_error(&o, 0, split, y, prior, NULL), tolerance);
    assert_near(r.fit_after, oracle_error(&o, 0, split, y, expected, bias), tolerance);
    if (split < T) {
        assert_near(r.held_before, oracle_error(&o, split, T, y, prior, NULL), tolerance);
        assert_near(r.held_after, oracle_error(&o, split, T, y, expected, bias), tolerance);
    } else {
        assert_true(isnan(r.held_before) && isnan(r.held_after));
    }
}

TEST(every_choice_equals_the_normal_equations_on_the_rows)
{
    static const double alphas[] = {0.0, 1e-3, 0.5};
    for (int choice = 0; choice < 16; choice++) {
        for (int i = 0; i < 9; i++) {
            const ridge_options options = {.ridge = choice & 1 ? RIDGE_PRIOR : RIDGE_ZERO,
                                           .bias = (choice & 2) != 0,
                                           .scale =
                                               i / 3 == 1 ? RIDGE_SCALE_DIAGONAL : RIDGE_SCALE_MEAN,
                                           .of_all = i / 3 == 2,
                                           .alpha = alphas[i % 3]};
            assert_equals_oracle(on_ref, &options, (choice & 4) != 0, choice & 8 ? SPLIT : T,
                                 1e-10);
        }
    }
}

TEST(the_cpu_backend_agrees_within_the_rounding_of_its_statistics)
{
    static const ridge_options plain = {.ridge = RIDGE_ZERO, .alpha = 1e-3};
    static const ridge_options other = {.ridge = RIDGE_PRIOR, .bias = true, .alpha = 1e-3};
    assert_equals_oracle(on_cpu, &plain, false, T, 1e-4);
    assert_equals_oracle(on_cpu, &other, true, T, 1e-4);
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
        OWNED(regression) same = {0};
        ridge_result result;
        assert_ok(oracle_load(backends[i], &sums, &same));
        assert_ok(oracle_fit(&same, NULL, o.prior, &options, weight[i], change[i], &result));
    }
    assert_all_near(O * K, weight[0], weight[1], 1e-11);
    assert_all_near(O, change[0], change[1], 1e-11);
    memory_free(gram);
    memory_free(cross);
    regression_fini(&r);
}

/* H = G + lambda I of all features, both triangles. */
static void damped_gram(const oracle *o, double lambda, double *h)
{
    OWNED(grail_statistics) *s = oracle_statistics(on_ref, o, 0, T, false);
    for (int64_t i = 0; i < H * H; i++) {
        h[i] = grail_statistics_gram(s, i / H, i % H) + (i / H == i % H ? lambda : 0.0);
    }
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
    OWNED(grail_reducer) *reducer = oracle_reducer();
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
}

/* Sequential OBS = joint OBS W H[:,P] H[P,P]^-1 = prior ridge. Removed features are as large as
 * kept ones, so lambda of all features is another one. */
TEST(the_prior_ridge_equals_sequential_and_joint_brain_surgery)
{
    oracle o;
    oracle_fill(&o, 14);
    for (int of_all = 0; of_all < 2; of_all++) {
        const ridge_options options = {.ridge = RIDGE_PRIOR, .of_all = of_all == 1, .alpha = 0.01};
        const double lambda = lambda_of(&o, T, &options);
        double h[H * H];
        double sequential[O * H];
        double joint[O * K] = {0};
        double kept[K * K];
        double weight[O * K];
        damped_gram(&o, lambda, h);
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
        const ridge_result r = oracle_run(on_ref, &o, T, false, &options, weight, NULL);
        assert_true(r.alpha == options.alpha);
        for (int64_t i = 0; i < O * K; i++) {
            assert_near(weight[i], joint[i], 1e-10);
            assert_near(weight[i], sequential[i / K * H + oracle_kept[i % K]], 1e-10);
        }
    }
    assert_true(fabs(lambda_of_all(&o, T, 1.0) / oracle_lambda(&o, 0, T, 1.0, false) - 1.0) > 0.01);
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

/* Removed features become sums of kept ones, plus a constant. */
static void make_dependent(oracle *o)
{
    grail_reducer *reducer = oracle_reducer();
    for (int64_t i = 0; i < T * H; i++) {
        const int64_t h = i % H;
        const float *z = o->x + i / H * H;
        if (reducer->labels[h] < 0) {
            o->x[i] = z[oracle_kept[h % K]] - 0.5F * z[oracle_kept[(h + 1) % K]] + 3.0F;
        }
    }
    grail_reducer_free(reducer);
    oracle_derive(o);
}

TEST(affinely_dependent_features_prune_without_loss_with_a_bias)
{
    oracle o;
    oracle_fill(&o, 17);
    make_dependent(&o);
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
    OWNED(grail_reducer) *reducer = oracle_reducer();
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
}

/* -- a ridge relative to all features ---------------------------------------------------------- */

/* X with X^T X = [2 1 0; 1 2 1; 0 1 2]; of three neurons the outer ones stay. */
TEST(the_worked_example)
{
    static const float x[] = {1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1};
    /* the sum of the neurons, and each of them, which gives the rows of B */
    static const float w[] = {1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1};
    static const float prior[] = {1, 1, 1, 0, 0, 0, 0, 1};
    static const double alphas[] = {0.0, 0.1};
    static const int64_t outer[] = {0, 2};
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(3, 2, outer, &reducer));
    for (int i = 0; i < 2; i++) {
        const double part = i == 0 ? 0.5 : 1.0 / 2.2;
        const double expected[] = {1.0 + part, 1.0 + part, 1.0, 0.0, part, part, 0.0, 1.0};
        const ridge_options options = {.ridge = RIDGE_PRIOR, .of_all = true, .alpha = alphas[i]};
        OWNED(regression) r = {0};
        ridge_result result;
        double weight[8];
        OWNED(matrix) rows = support_rows(on_ref, 4, 3, 3, x);
        OPENED(grail_statistics, s, statistics_create(on_ref, 3, 0, &s));
        assert_ok(statistics_accumulate(s, rows, no_matrix));
        assert_ok(oracle_select(s, reducer, 1, 4, w, &r));
        assert_ok(oracle_fit(&r, NULL, prior, &options, weight, NULL, &result));
        assert_all_near(8, weight, expected, 1e-14);
        assert_near(result.lambda, 2.0 * alphas[i], 1e-15);
    }
}

/* What is merged already has no other features. */
/* Two halves of a problem's outputs, joined, have the errors of the whole. */
TEST(results_of_other_outputs_join_to_those_of_all)
{
    enum { FIRST = 2 };
    oracle o;
    oracle_fill(&o, 17);
    ridge_result parts[2];
    ridge_result all;
    OWNED(grail_reducer) *reducer = oracle_reducer();
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alpha = 1e-2};
    for (int i = 0; i < 3; i++) {
        const int64_t begin = i == 1 ? FIRST : 0;
        const int64_t count = i == 2 ? O : i == 1 ? O - FIRST : FIRST;
        regression fit = {0};
        regression held = {0};
        grail_statistics *rows[2] = {oracle_statistics(on_ref, &o, 0, SPLIT, false),
                                     oracle_statistics(on_ref, &o, SPLIT, T, false)};
        matrix weight = no_matrix;
        assert_ok(oracle_select(rows[0], reducer, 1, count, o.consumer + begin * H, &fit));
        assert_ok(oracle_select(rows[1], reducer, 1, count, o.consumer + begin * H, &held));
        assert_ok(matrix_new(on_ref, GRAIL_DTYPE_F64, count, K, &weight));
        assert_ok(oracle_ridge(&fit, &held, o.prior + begin * K, &options, weight, NULL,
                               i == 2 ? &all : &parts[i]));
        matrix_free(&weight);
        regression_fini(&fit);
        regression_fini(&held);
        grail_statistics_free(rows[0]);
        grail_statistics_free(rows[1]);
    }
    parts[1].fallback = RIDGE_FALLBACK_PLAIN; /* as if one half had kept its weights */
    parts[1].alpha = (double)INFINITY;
    ridge_result_join(&parts[0], &parts[1]);
    assert_near(parts[0].fit_before, all.fit_before, 1e-12);
    assert_near(parts[0].fit_after, all.fit_after, 1e-12);
    assert_near(parts[0].held_before, all.held_before, 1e-12);
    assert_near(parts[0].held_after, all.held_after, 1e-12);
    assert_near(parts[0].alpha, all.alpha, 0.0);
    assert_int_equal(parts[0].fallback, RIDGE_FALLBACK_NONE);
    parts[0].fallback = RIDGE_FALLBACK_BIAS;
    ridge_result_join(&parts[0], &parts[1]);
    assert_int_equal(parts[0].fallback, RIDGE_FALLBACK_BIAS);
}

TEST(a_folding_is_its_own_whole)
{
    oracle o;
    oracle_fill(&o, 36);
    OWNED(regression) r = {0};
    OWNED(grail_statistics) *s = oracle_statistics(on_ref, &o, 0, T, true);
    assert_ok(oracle_regress(NULL, s, NULL, 1, s->outputs, NULL, o.consumer, &r));
    assert_near(r.full_diagonal, lambda_of_all(&o, T, 1.0), 1e-10);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
