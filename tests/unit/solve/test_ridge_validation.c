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
        oracle_run(on_ref, &o, SPLIT, true, &options, weight, bias ? change : NULL);
    assert_near(result.alpha, best_alpha(&o, kind, bias), 0.0);
    *chosen = result.alpha;
}

TEST(the_alpha_of_least_held_out_error_is_chosen)
{
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
TEST(only_judged_outputs_count)
{
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
        results[run] = oracle_run(on_ref, &o, SPLIT, true, &options, weights[run], NULL);
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
TEST(equal_candidates_go_to_the_larger_alpha)
{
    oracle o;
    oracle_fill(&o, 22);
    memset(o.consumer, 0, sizeof o.consumer);
    oracle_derive(&o);
    const double unordered[] = {1e-3, 1e-1, 1e-5};
    double weight[O * K];
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alphas = unordered, .alpha_count = 3};
    const ridge_result result = oracle_run(on_ref, &o, SPLIT, false, &options, weight, NULL);
    assert_near(result.alpha, 1e-1, 0.0);
}

/* Pure noise on few rows: weak ridges fit the noise and do worse on the held-out rows than W0. */
TEST(where_no_candidate_helps_the_plain_consumer_stays)
{
    const double weak[] = {1e-5, 1e-4};
    oracle o;
    oracle_fill(&o, 21);
    make_target(&o, 0.0F, 2.0F);
    double weight[O * K];
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alphas = weak, .alpha_count = 2};
    const ridge_result result = oracle_run(on_ref, &o, SPLIT, true, &options, weight, NULL);
    assert_int_equal(result.fallback, RIDGE_FALLBACK_PLAIN);
    assert_near(result.held_after, result.held_before, 0.0);
    for (int64_t i = 0; i < O * K; i++) {
        assert_true(weight[i] == (double)o.prior[i]);
    }
}

TEST(errors_are_those_of_the_fit_on_the_fit_part_alone)
{
    for (int bias = 0; bias < 2; bias++) {
        oracle o;
        oracle_fill(&o, 23);
        double fitted[O * K];
        double weight[O * K];
        double prior[O * K];
        double change[O];
        double *shift = bias ? change : NULL;
        const ridge_options options = {.ridge = RIDGE_PRIOR, .bias = bias != 0, .alpha = 0.01};
        const ridge_result result = oracle_run(on_ref, &o, SPLIT, true, &options, weight, shift);
        oracle_widen(O * K, o.prior, prior);
        oracle_solve(&o, 0, SPLIT, o.other, oracle_lambda(&o, 0, SPLIT, 0.01, bias != 0),
                     RIDGE_PRIOR, fitted, shift);
        assert_near(result.fit_before, oracle_error(&o, 0, SPLIT, o.other, prior, NULL), 1e-10);
        assert_near(result.held_before, oracle_error(&o, SPLIT, T, o.other, prior, NULL), 1e-10);
        assert_near(result.fit_after, oracle_error(&o, 0, SPLIT, o.other, fitted, shift), 1e-10);
        assert_near(result.held_after, oracle_error(&o, SPLIT, T, o.other, fitted, shift), 1e-10);
        assert_true(result.held_after > result.fit_after);
    }
}

TEST(the_answer_is_refitted_on_both_parts)
{
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
            oracle_run(on_ref, &o, SPLIT, true, &options, weight, bias ? change : NULL);
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

TEST(without_a_held_out_part_the_candidate_nearest_1e_3_is_used)
{
    oracle o;
    oracle_fill(&o, 25);
    double weight[O * K];
    const double candidates[] = {0.0, 1e-1, 5e-3, 1e-5};
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alphas = candidates, .alpha_count = 4};
    const ridge_result result = oracle_run(on_ref, &o, T, true, &options, weight, NULL);
    assert_near(result.alpha, 5e-3, 0.0);
    assert_true(isnan(result.held_before) && isnan(result.held_after));
}

TEST(a_negative_or_nan_alpha_is_refused)
{
    oracle o;
    oracle_fill(&o, 26);
    double weight[O * K];
    ridge_result result;
    OWNED(regression) r = oracle_regression(on_ref, &o, 0, T, false);
    const double candidates[] = {1e-3, -1.0};
    ridge_options options = {.alpha = NAN};
    assert_fails(oracle_fit(&r, NULL, o.prior, &options, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "alpha is nan");
    options = (ridge_options){.alphas = candidates, .alpha_count = 2};
    assert_fails(oracle_fit(&r, NULL, o.prior, &options, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "alpha is -1");
}

TEST(parts_of_different_shapes_are_refused)
{
    oracle o;
    oracle_fill(&o, 27);
    double weight[O * K];
    ridge_result result;
    OWNED(regression) fit = oracle_regression(on_ref, &o, 0, T, false);
    regression held = {.width = 3, .outputs = O, .weight = 1};
    const ridge_options options = {.alpha = 1e-3};
    assert_fails(oracle_fit(&fit, &held, o.prior, &options, weight, NULL, &result),
                 GRAIL_ERROR_SHAPE, "the held-out sums are 5 x 3, but the sums to fit are 5 x 7");
}

/* A = diag(1, 4, 100), so cond_2 = 100. */
TEST(the_condition_estimate_finds_the_extreme_eigenvalues)
{
    const double gram[] = {1, 0, 0, 0, 4, 0, 0, 0, 100};
    const double zeros[3] = {0};
    const double cross[3] = {1, 1, 1};
    const double square[1] = {1};
    const float prior[3] = {0};
    double weight[3];
    ridge_result result;
    OWNED(regression) r = {0};
    const regression_sums sums = {.width = 3,
                                  .outputs = 1,
                                  .weight = 10,
                                  .gram = gram,
                                  .cross = cross,
                                  .sum = zeros,
                                  .residual_sum = zeros,
                                  .residual_square = square,
                                  .target_square = square};
    assert_ok(oracle_load(on_ref, &sums, &r));
    const ridge_options options = {.ridge = RIDGE_ZERO, .alpha = 0.0};
    assert_ok(oracle_fit(&r, NULL, prior, &options, weight, NULL, &result));
    assert_near(result.condition, 100.0, 0.5);
    assert_near(weight[2], 0.01, 1e-15);
}

/* Two features, more outputs than are measured. */
enum { MANY = 1100, ROWS = 50 };

static const double many_gram[] = {9, NAN, 2, 5}; /* the upper triangle is not read */
static const double many_sum[] = {3, -4};

typedef struct many_outputs {
    double cross[MANY * 2];
    double residual_sum[MANY];
    double square[MANY]; /* of the residual and of the target */
    float prior[MANY * 2];
} many_outputs;

static void fill_many(many_outputs *m)
{
    float values[MANY];
    support_fill_normal(m->prior, MANY * 2, 31);
    support_fill_normal(values, MANY, 32);
    for (int64_t o = 0; o < MANY; o++) {
        m->cross[2 * o] = (double)values[o];
        m->cross[2 * o + 1] = (double)values[MANY - 1 - o];
        m->residual_sum[o] = (double)values[(o + 7) % MANY];
        m->square[o] = 100.0 + (double)(o % 11);
    }
}

/* The squared error of output o after its fit with the zero ridge and a bias, by 2 x 2 formulas. */
static double error_of_output(const many_outputs *m, int64_t o, double alpha)
{
    const double *s = many_sum;
    const double *e = m->cross + 2 * o;
    double a[3] = {many_gram[0] - s[0] * s[0] / ROWS, many_gram[2] - s[0] * s[1] / ROWS,
                   many_gram[3] - s[1] * s[1] / ROWS};
    const double lambda = alpha * (a[0] + a[2]) / 2.0;
    a[0] += lambda;
    a[2] += lambda;
    double x[2];
    for (int k = 0; k < 2; k++) {
        x[k] = e[k] - m->residual_sum[o] * s[k] / ROWS - lambda * (double)m->prior[2 * o + k];
    }
    const double determinant = a[0] * a[2] - a[1] * a[1];
    const double d[2] = {(x[0] * a[2] - x[1] * a[1]) / determinant,
                         (x[1] * a[0] - x[0] * a[1]) / determinant};
    const double left = m->residual_sum[o] - d[0] * s[0] - d[1] * s[1];
    const double bias = left / ROWS;
    return m->square[o] - 2.0 * (d[0] * e[0] + d[1] * e[1]) + d[0] * d[0] * many_gram[0] +
           2.0 * d[0] * d[1] * many_gram[2] + d[1] * d[1] * many_gram[3] - 2.0 * bias * left +
           ROWS * bias * bias;
}

TEST(many_outputs_are_measured_by_every_stride_th)
{
    static many_outputs m;
    static double weight[MANY * 2];
    static double change[MANY];
    const ridge_options options = {.ridge = RIDGE_ZERO, .bias = true, .alpha = 0.2};
    const regression_sums sums = {.width = 2,
                                  .outputs = MANY,
                                  .weight = ROWS,
                                  .gram = many_gram,
                                  .cross = m.cross,
                                  .sum = many_sum,
                                  .residual_sum = m.residual_sum,
                                  .residual_square = m.square,
                                  .target_square = m.square};
    double error = 0.0;
    double square = 0.0;
    fill_many(&m);
    for (int64_t o = 0; o < MANY; o += regression_measured_stride(MANY)) {
        error += error_of_output(&m, o, options.alpha);
        square += m.square[o];
    }
    for (int validates = 0; validates < 2; validates++) {
        ridge_result result;
        OWNED(regression) fit = {0};
        OWNED(regression) held = {0};
        assert_ok(oracle_load(on_cpu, &sums, &fit));
        assert_ok(oracle_load(on_cpu, &sums, &held));
        assert_ok(
            oracle_fit(&fit, validates ? &held : NULL, m.prior, &options, weight, change, &result));
        assert_near(result.fit_after, error / square, 1e-12);
        if (validates) {
            assert_near(result.held_after, error / square, 1e-12);
        }
    }
}

typedef struct solve_context {
    const oracle *o;
    bool validate;
} solve_context;

static grail_status build_part(const oracle *o, int64_t begin, int64_t end, regression *out)
{
    OWNED(grail_statistics) *s = NULL;
    OWNED(grail_reducer) *reducer = NULL;
    grail_status status = grail_statistics_create(ORACLE_WIDTH, 0, &s);
    if (status == GRAIL_OK) {
        status = grail_statistics_accumulate(s, end - begin, o->x + begin * ORACLE_WIDTH,
                                             ORACLE_WIDTH, NULL, 0);
    }
    if (status == GRAIL_OK) {
        status = grail_reducer_from_selection(ORACLE_WIDTH, K, oracle_kept, &reducer);
    }
    if (status == GRAIL_OK) {
        status = oracle_regress(NULL, s, reducer, 1, O, o->consumer, o->prior, out);
    }
    return status;
}

static grail_status build_and_solve(void *context)
{
    const solve_context *c = context;
    OWNED(regression) fit = {0};
    OWNED(regression) held = {0};
    double weight[O * K];
    double change[O];
    ridge_result result;
    const ridge_options options = {.bias = true, .alphas = alphas, .alpha_count = ALPHAS};
    grail_status status = build_part(c->o, 0, SPLIT, &fit);
    if (status == GRAIL_OK && c->validate) {
        status = build_part(c->o, SPLIT, T, &held);
    }
    if (status == GRAIL_OK) {
        status = oracle_fit(&fit, &held, c->o->prior, &options, weight, change, &result);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    oracle o;
    oracle_fill(&o, 28);
    solve_context context = {.o = &o, .validate = false};
    support_fail_each_allocation(build_and_solve, &context);
    context.validate = true;
    support_fail_each_allocation(build_and_solve, &context);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
