/* A bias alone, which authors of selectors fit, and which cross-validation may choose too. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, K = ORACLE_KEPT, O = ORACLE_OUTPUTS, SPLIT = 40 };

/* bias[O] = mean(Y) - W0 mean(Z) over rows 0 .. end-1. */
static void mean_residual(const oracle *o, int64_t end, const double *target, double *bias)
{
    memset(bias, 0, O * sizeof bias[0]);
    for (int64_t t = 0; t < end; t++) {
        for (int64_t i = 0; i < O; i++) {
            bias[i] += target[t * O + i] / (double)end;
            for (int64_t k = 0; k < K; k++) {
                bias[i] -= (double)o->prior[i * K + k] * (double)o->z[t * K + k] / (double)end;
            }
        }
    }
}

static void assert_keeps_weights(const oracle *o, const double *weight)
{
    for (int64_t i = 0; i < O * K; i++) {
        const float rounded = (float)weight[i];
        assert_memory_equal(&rounded, &o->prior[i], sizeof rounded);
    }
}

/* With a held-out part the errors are those of the bias of the other rows; the bias itself is that
 * of all rows. */
TEST(the_bias_is_the_mean_of_what_is_missing)
{
    const double alphas[] = {1e-5, 1e-3};
    oracle o;
    oracle_fill(&o, 31);
    double prior[O * K];
    oracle_widen(O * K, o.prior, prior);
    for (int i = 0; i < 8; i++) {
        const int64_t split = (i & 1) != 0 ? T : SPLIT;
        const double *target = (i & 2) != 0 ? o.other : o.own;
        const ridge_options options = {.ridge = (i & 4) != 0 ? RIDGE_PRIOR : RIDGE_ZERO,
                                       .bias = true,
                                       .keeps_weights = true,
                                       .alphas = alphas,
                                       .alpha_count = (i & 4) != 0 ? 2 : 0};
        double weight[O * K];
        double change[O];
        double expected[O];
        double of_fit[O];
        const ridge_result r =
            oracle_run(on_ref, &o, split, target == o.other, &options, weight, change);
        assert_keeps_weights(&o, weight);
        mean_residual(&o, T, target, expected);
        mean_residual(&o, split, target, of_fit);
        assert_all_near(O, change, expected, 1e-12);
        assert_near(r.fit_before, oracle_error(&o, 0, split, target, prior, NULL), 1e-12);
        assert_near(r.fit_after, oracle_error(&o, 0, split, target, prior, of_fit), 1e-12);
        assert_true(r.fit_after < r.fit_before);
        if (split < T) {
            assert_near(r.held_before, oracle_error(&o, split, T, target, prior, NULL), 1e-12);
            assert_near(r.held_after, oracle_error(&o, split, T, target, prior, of_fit), 1e-12);
        }
        assert_true(isinf(r.alpha) && isinf(r.lambda) && r.condition == 1.0);
        assert_int_equal(r.fallback, RIDGE_FALLBACK_NONE);
    }
}

/* The consumer's own output lacks the removed features: b' = b + W_R mean(X_R). */
TEST(it_is_what_the_removed_features_gave_on_average)
{
    oracle o;
    oracle_fill(&o, 32);
    OWNED(grail_reducer) *reducer = oracle_reducer();
    const ridge_options options = {.ridge = RIDGE_PRIOR, .bias = true, .keeps_weights = true};
    double weight[O * K];
    double change[O];
    double expected[O] = {0.0};
    for (int64_t i = 0; i < O * T * H; i++) {
        const int64_t h = i % H;
        const int64_t t = i / H % T;
        if (reducer->labels[h] < 0) {
            expected[i / H / T] +=
                (double)o.consumer[i / H / T * H + h] * (double)o.x[t * H + h] / T;
        }
    }
    oracle_run(on_ref, &o, SPLIT, false, &options, weight, change);
    assert_all_near(O, change, expected, 1e-12);
}

/* The target is what W0 gives, and beside noise a constant: one on the fit part, one behind it. */
static void make_shifted(oracle *o, float fitted, float held)
{
    static const float noise = 2.0F;
    oracle_fill(o, 34);
    for (int64_t i = 0; i < T * O; i++) {
        o->given[i] = noise * o->given[i] + (i / O < SPLIT ? fitted : held);
        for (int64_t k = 0; k < K; k++) {
            o->given[i] += o->z[i / O * K + k] * o->prior[i % O * K + k];
        }
    }
    oracle_derive(o);
}

/* Fits of the weights follow the noise, so that they do worse on the held-out part. */
static const double weak_alphas[] = {1e-5, 1e-4};
static const ridge_options validated = {.ridge = RIDGE_PRIOR,
                                        .bias = true,
                                        .moves_prior = true,
                                        .alphas = weak_alphas,
                                        .alpha_count = 2};

static double square_of(int64_t count, const double *values)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += values[i] * values[i];
    }
    return sum;
}

TEST(where_no_fit_of_the_weights_helps_the_bias_is_still_free)
{
    oracle o;
    make_shifted(&o, 1.0F, 1.0F);
    double prior[O * K];
    double weight[O * K];
    double change[O];
    double expected[O];
    double of_fit[O];
    oracle_widen(O * K, o.prior, prior);
    mean_residual(&o, T, o.other, expected);
    mean_residual(&o, SPLIT, o.other, of_fit);
    const ridge_result r = oracle_run(on_ref, &o, SPLIT, true, &validated, weight, change);
    assert_int_equal(r.fallback, RIDGE_FALLBACK_BIAS);
    assert_true(isinf(r.alpha) && isinf(r.lambda));
    assert_keeps_weights(&o, weight);
    assert_all_near(O, change, expected, 1e-12);
    assert_near(r.fit_before - r.fit_after,
                SPLIT * square_of(O, of_fit) / square_of(SPLIT * O, o.other), 1e-12);
    assert_near(r.held_after, oracle_error(&o, SPLIT, T, o.other, prior, of_fit), 1e-12);
    assert_true(r.held_after < r.held_before);
}

/* It is the fit that keeps the weights by wish. */
TEST(the_bias_that_is_chosen_is_that_of_the_bias_alone)
{
    ridge_result results[2];
    double weights[2][O * K];
    double changes[2][O];
    for (int wish = 0; wish < 2; wish++) {
        oracle o;
        ridge_options options = validated;
        options.keeps_weights = wish == 1;
        make_shifted(&o, 1.0F, 1.0F);
        results[wish] = oracle_run(on_ref, &o, SPLIT, true, &options, weights[wish], changes[wish]);
    }
    assert_memory_equal(weights[0], weights[1], sizeof weights[0]);
    assert_memory_equal(changes[0], changes[1], sizeof changes[0]);
    assert_near(results[0].fit_after, results[1].fit_after, 0.0);
    assert_near(results[0].held_after, results[1].held_after, 0.0);
}

/* A map that was not cut. */
TEST(a_prior_that_must_not_move_keeps_its_bias)
{
    oracle o;
    double weight[O * K];
    double change[O];
    ridge_options options = validated;
    options.moves_prior = false;
    make_shifted(&o, 1.0F, 1.0F);
    const ridge_result r = oracle_run(on_ref, &o, SPLIT, true, &options, weight, change);
    assert_int_equal(r.fallback, RIDGE_FALLBACK_PLAIN);
    assert_keeps_weights(&o, weight);
    assert_near(square_of(O, change), 0.0, 0.0);
}

/* The mean of the held-out part lies on the other side, so the bias does worse there, too. */
TEST(where_not_even_a_bias_helps_the_plain_consumer_stays)
{
    oracle o;
    double weight[O * K];
    double change[O];
    make_shifted(&o, 1.0F, -1.0F);
    const ridge_result r = oracle_run(on_ref, &o, SPLIT, true, &validated, weight, change);
    assert_int_equal(r.fallback, RIDGE_FALLBACK_PLAIN);
    assert_keeps_weights(&o, weight);
    assert_near(square_of(O, change), 0.0, 0.0);
    assert_near(r.fit_after, r.fit_before, 0.0);
    assert_near(r.held_after, r.held_before, 0.0);
}

TEST(without_a_place_for_it_nothing_changes)
{
    oracle o;
    oracle_fill(&o, 33);
    const ridge_options options = {.ridge = RIDGE_PRIOR, .keeps_weights = true};
    double weight[O * K];
    const ridge_result r = oracle_run(on_cpu, &o, SPLIT, false, &options, weight, NULL);
    assert_keeps_weights(&o, weight);
    assert_true(r.fit_after == r.fit_before && r.held_after == r.held_before);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
