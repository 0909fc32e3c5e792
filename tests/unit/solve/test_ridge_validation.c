/* The choice of alpha and the errors that are reported. */
#include "oracle.h"

#include <math.h>
#include <string.h>

enum { T = ORACLE_ROWS, K = ORACLE_KEPT, O = ORACLE_OUTPUTS, SPLIT = 40 };

static const double alphas[] = {1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0};

enum { ALPHAS = sizeof alphas / sizeof alphas[0] };

/* The candidate that is best on the held-out rows, by solving for each on the fit rows. */
static double best_alpha(const oracle *o, ridge_kind kind, bool bias)
{
    double best = 0.0;
    double least = INFINITY;
    for (int a = 0; a < ALPHAS; a++) {
        double weight[O * K];
        double change[O];
        oracle_solve(o, 0, SPLIT, o->other, oracle_lambda(o, 0, SPLIT, alphas[a], bias), kind,
                     weight, bias ? change : NULL);
        const double error = oracle_error(o, SPLIT, T, o->other, weight, bias ? change : NULL);
        best = error < least ? alphas[a] : best;
        least = error < least ? error : least;
    }
    return best;
}

/* target = Z (W0 + distance * random)^T + noise * random. */
static void make_target(oracle *o, float distance, float noise)
{
    float shift[O * K];
    support_fill_normal(shift, O * K, 77);
    for (int64_t i = 0; i < T * O; i++) {
        float sum = noise * o->given[i];
        for (int64_t k = 0; k < K; k++) {
            const int64_t w = i % O * K + k;
            sum += o->z[i / O * K + k] * (o->prior[w] + distance * shift[w]);
        }
        o->given[i] = sum;
    }
    oracle_derive(o);
}

static void assert_choice(float distance, float noise, ridge_kind kind, bool bias, double *chosen)
{
    oracle o;
    oracle_fill(&o, 21);
    make_target(&o, distance, noise);
    double weight[O * K];
    double change[O];
    const ridge_options options = {
        .ridge = kind, .bias = bias, .alphas = alphas, .alpha_count = ALPHAS};
    const ridge_result result =
        oracle_run(&backend_ref, &o, SPLIT, true, &options, weight, bias ? change : NULL);
    assert_near(result.alpha, best_alpha(&o, kind, bias), 0.0);
    *chosen = result.alpha;
}

static void the_alpha_of_least_held_out_error_is_chosen(void **state)
{
    (void)state;
    double clean = 0.0;
    double middle = 0.0;
    double noisy = 0.0;
    for (int bias = 0; bias < 2; bias++) {
        assert_choice(1.0F, 0.01F, RIDGE_PRIOR, bias != 0, &clean);
        assert_choice(0.2F, 2.0F, RIDGE_PRIOR, bias != 0, &middle);
        assert_choice(0.0F, 2.0F, RIDGE_PRIOR, bias != 0, &noisy);
        assert_true(clean < middle && middle <= noisy);
    }
    assert_choice(1.0F, 1.0F, RIDGE_ZERO, false, &middle);
}

/* An output that is not judged changes neither the choice nor the errors. */
static void only_judged_outputs_count(void **state)
{
    (void)state;
    bool judged[O];
    ridge_result results[3];
    double weights[3][O * K];
    for (int64_t i = 0; i < O; i++) {
        judged[i] = i > 0;
    }
    for (int run = 0; run < 3; run++) {
        oracle o;
        oracle_fill(&o, 21);
        make_target(&o, 0.2F, 2.0F);
        for (int64_t i = 0; run > 0 && i < T; i++) {
            o.given[i * O] *= 50.0F;
        }
        oracle_derive(&o);
        const ridge_options options = {.ridge = RIDGE_PRIOR,
                                       .alphas = alphas,
                                       .alpha_count = ALPHAS,
                                       .judged = run < 2 ? judged : NULL};
        results[run] = oracle_run(&backend_ref, &o, SPLIT, true, &options, weights[run], NULL);
    }
    assert_near(results[0].alpha, results[1].alpha, 0.0);
    assert_near(results[0].fit_before, results[1].fit_before, 1e-12);
    assert_near(results[0].fit_after, results[1].fit_after, 1e-12);
    assert_near(results[0].held_before, results[1].held_before, 1e-12);
    assert_near(results[0].held_after, results[1].held_after, 1e-12);
    assert_memory_equal(weights[0] + K, weights[1] + K, (O - 1) * K * sizeof(double));
    assert_true(fabs(results[2].held_before - results[1].held_before) > 0.1);
}

/* E = 0: every candidate gives W0, and its error. */
static void equal_candidates_go_to_the_larger_alpha(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 22);
    memset(o.consumer, 0, sizeof o.consumer);
    oracle_derive(&o);
    const double unordered[] = {1e-3, 1e-1, 1e-5};
    double weight[O * K];
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alphas = unordered, .alpha_count = 3};
    const ridge_result result = oracle_run(&backend_ref, &o, SPLIT, false, &options, weight, NULL);
    assert_near(result.alpha, 1e-1, 0.0);
}

/* Pure noise on few rows: weak ridges fit the noise and do worse on the held-out rows than W0. */
static void where_no_candidate_helps_the_plain_consumer_stays(void **state)
{
    (void)state;
    const double weak[] = {1e-5, 1e-4};
    for (int bias = 0; bias < 2; bias++) {
        oracle o;
        oracle_fill(&o, 21);
        make_target(&o, 0.0F, 2.0F);
        double weight[O * K];
        double change[O];
        const ridge_options options = {
            .ridge = RIDGE_PRIOR, .bias = bias != 0, .alphas = weak, .alpha_count = 2};
        const ridge_result result =
            oracle_run(&backend_ref, &o, SPLIT, true, &options, weight, bias ? change : NULL);
        assert_int_equal(result.fallback, RIDGE_FALLBACK_PLAIN);
        assert_near(result.held_after, result.held_before, 0.0);
        for (int64_t i = 0; i < O * K; i++) {
            assert_true(weight[i] == (double)o.prior[i]);
        }
        for (int64_t i = 0; bias != 0 && i < O; i++) {
            assert_true(change[i] == 0.0);
        }
    }
}

static void errors_are_those_of_the_fit_on_the_fit_part_alone(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        oracle o;
        oracle_fill(&o, 23);
        double fitted[O * K];
        double weight[O * K];
        double prior[O * K];
        double change[O];
        double *shift = bias ? change : NULL;
        const ridge_options options = {.ridge = RIDGE_PRIOR, .bias = bias != 0, .alpha = 0.01};
        const ridge_result result =
            oracle_run(&backend_ref, &o, SPLIT, true, &options, weight, shift);
        backend_ref.from_f32(O * K, o.prior, prior);
        oracle_solve(&o, 0, SPLIT, o.other, oracle_lambda(&o, 0, SPLIT, 0.01, bias != 0),
                     RIDGE_PRIOR, fitted, shift);
        assert_near(result.fit_before, oracle_error(&o, 0, SPLIT, o.other, prior, NULL), 1e-10);
        assert_near(result.held_before, oracle_error(&o, SPLIT, T, o.other, prior, NULL), 1e-10);
        assert_near(result.fit_after, oracle_error(&o, 0, SPLIT, o.other, fitted, shift), 1e-10);
        assert_near(result.held_after, oracle_error(&o, SPLIT, T, o.other, fitted, shift), 1e-10);
        assert_true(result.held_after > result.fit_after);
    }
}

static void the_answer_is_refitted_on_both_parts(void **state)
{
    (void)state;
    for (int bias = 0; bias < 2; bias++) {
        oracle o;
        oracle_fill(&o, 24);
        double weight[O * K];
        double expected[O * K];
        double change[O];
        double expected_change[O];
        const ridge_options options = {
            .ridge = RIDGE_ZERO, .bias = bias != 0, .alphas = alphas, .alpha_count = ALPHAS};
        const ridge_result result =
            oracle_run(&backend_ref, &o, SPLIT, true, &options, weight, bias ? change : NULL);
        const double lambda = oracle_lambda(&o, 0, T, result.alpha, bias != 0);
        oracle_solve(&o, 0, T, o.other, lambda, RIDGE_ZERO, expected,
                     bias ? expected_change : NULL);
        assert_near(result.lambda, lambda, 1e-10 * lambda);
        for (int64_t i = 0; i < O * K; i++) {
            assert_near(weight[i], expected[i], 1e-10);
        }
        for (int64_t i = 0; bias && i < O; i++) {
            assert_near(change[i], expected_change[i], 1e-10);
        }
    }
}

static void without_a_held_out_part_the_candidate_nearest_1e_3_is_used(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 25);
    double weight[O * K];
    const double candidates[] = {0.0, 1e-1, 5e-3, 1e-5};
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alphas = candidates, .alpha_count = 4};
    const ridge_result result = oracle_run(&backend_ref, &o, T, true, &options, weight, NULL);
    assert_near(result.alpha, 5e-3, 0.0);
    assert_true(isnan(result.held_before) && isnan(result.held_after));
}

static void a_negative_or_nan_alpha_is_refused(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 26);
    double weight[O * K];
    ridge_result result;
    regression r = oracle_regression(&backend_ref, &o, 0, T, false);
    const double candidates[] = {1e-3, -1.0};
    ridge_options options = {.alpha = NAN};
    assert_fails(ridge_solve(&backend_ref, &r, NULL, o.prior, &options, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "alpha is nan");
    options = (ridge_options){.alphas = candidates, .alpha_count = 2};
    assert_fails(ridge_solve(&backend_ref, &r, NULL, o.prior, &options, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "alpha is -1");
    regression_fini(&r);
}

static void parts_of_different_shapes_are_refused(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 27);
    double weight[O * K];
    ridge_result result;
    regression fit = oracle_regression(&backend_ref, &o, 0, T, false);
    regression held = {.width = 3, .outputs = O, .count = 1};
    const ridge_options options = {.alpha = 1e-3};
    assert_fails(ridge_solve(&backend_ref, &fit, &held, o.prior, &options, weight, NULL, &result),
                 GRAIL_ERROR_SHAPE, "the held-out sums are 5 x 3, but the sums to fit are 5 x 7");
    regression_fini(&fit);
}

/* A = diag(1, 4, 100), so cond_2 = 100. */
static void the_condition_estimate_finds_the_extreme_eigenvalues(void **state)
{
    (void)state;
    double gram[] = {1, 0, 0, 0, 4, 0, 0, 0, 100};
    double zeros[3] = {0};
    double cross[3] = {1, 1, 1};
    double square[1] = {1};
    const float prior[3] = {0};
    double weight[3];
    ridge_result result;
    regression r = {.width = 3,
                    .outputs = 1,
                    .count = 10,
                    .gram = gram,
                    .sum = zeros,
                    .cross = cross,
                    .residual_sum = zeros,
                    .residual_square = square,
                    .target_square = square};
    const ridge_options options = {.ridge = RIDGE_ZERO, .alpha = 0.0};
    assert_ok(ridge_solve(&backend_ref, &r, NULL, prior, &options, weight, NULL, &result));
    assert_near(result.condition, 100.0, 0.5);
    assert_near(weight[2], 0.01, 1e-15);
}

typedef struct solve_context {
    const oracle *o;
    bool validate;
} solve_context;

static grail_status build_part(const oracle *o, int64_t begin, int64_t end, regression *out)
{
    grail_statistics *s = NULL;
    grail_reducer *reducer = NULL;
    grail_status status = grail_statistics_create(ORACLE_WIDTH, 0, &s);
    if (status == GRAIL_OK) {
        status = grail_statistics_accumulate(s, end - begin, o->x + begin * ORACLE_WIDTH,
                                             ORACLE_WIDTH, NULL, 0);
    }
    if (status == GRAIL_OK) {
        status = grail_reducer_from_selection(ORACLE_WIDTH, K, oracle_kept, &reducer);
    }
    if (status == GRAIL_OK) {
        status = regression_from_selection(&backend_cpu, s, reducer, 1, O, o->consumer, out);
    }
    grail_statistics_free(s);
    grail_reducer_free(reducer);
    return status;
}

static grail_status build_and_solve(void *context)
{
    const solve_context *c = context;
    regression fit = {0};
    regression held = {0};
    double weight[O * K];
    double change[O];
    ridge_result result;
    const ridge_options options = {.bias = true, .alphas = alphas, .alpha_count = ALPHAS};
    grail_status status = build_part(c->o, 0, SPLIT, &fit);
    if (status == GRAIL_OK && c->validate) {
        status = build_part(c->o, SPLIT, T, &held);
    }
    if (status == GRAIL_OK) {
        status =
            ridge_solve(&backend_cpu, &fit, &held, c->o->prior, &options, weight, change, &result);
    }
    regression_fini(&fit);
    regression_fini(&held);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 28);
    solve_context context = {.o = &o, .validate = false};
    support_fail_each_allocation(build_and_solve, &context);
    context.validate = true;
    support_fail_each_allocation(build_and_solve, &context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_alpha_of_least_held_out_error_is_chosen),
        cmocka_unit_test(only_judged_outputs_count),
        cmocka_unit_test(equal_candidates_go_to_the_larger_alpha),
        cmocka_unit_test(where_no_candidate_helps_the_plain_consumer_stays),
        cmocka_unit_test(errors_are_those_of_the_fit_on_the_fit_part_alone),
        cmocka_unit_test(the_answer_is_refitted_on_both_parts),
        cmocka_unit_test(without_a_held_out_part_the_candidate_nearest_1e_3_is_used),
        cmocka_unit_test(a_negative_or_nan_alpha_is_refused),
        cmocka_unit_test(parts_of_different_shapes_are_refused),
        cmocka_unit_test(the_condition_estimate_finds_the_extreme_eigenvalues),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
