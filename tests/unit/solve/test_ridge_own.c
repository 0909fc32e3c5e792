/* What the authors of selectors fit themselves: a bias alone, and a ridge relative to the Gram
 * matrix of all features. */
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

/* -- a bias alone -------------------------------------------------------------------------------
 */

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
static void the_bias_is_the_mean_of_what_is_missing(void **state)
{
    (void)state;
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

/* Of the consumer's own output the removed features are missing: b' = b + W_R mean(X_R). */
static void it_is_what_the_removed_features_gave_on_average(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 32);
    grail_reducer *reducer = oracle_reducer();
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
    grail_reducer_free(reducer);
}

static void without_a_place_for_it_nothing_changes(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 33);
    const ridge_options options = {.ridge = RIDGE_PRIOR, .keeps_weights = true};
    double weight[O * K];
    const ridge_result r = oracle_run(on_cpu, &o, SPLIT, false, &options, weight, NULL);
    assert_keeps_weights(&o, weight);
    assert_true(r.fit_after == r.fit_before && r.held_after == r.held_before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bias_is_the_mean_of_what_is_missing),
        cmocka_unit_test(it_is_what_the_removed_features_gave_on_average),
        cmocka_unit_test(without_a_place_for_it_nothing_changes),
        cmocka_unit_test(no_matrix_is_left),
    };
    return cmocka_run_group_tests(tests, open_backends, close_backends);
}
