/* Public fits against what they promise of the rows that their sums are of: normal equations,
 * held-out errors, mixed targets, refits. */
#include <grail/ridge.h>

#include "support/support.h"

#include <math.h>
#include <string.h>

enum { ROWS = 64, HELD = 24, H = 6, K = 4, O = 3 };

static float x[(ROWS + HELD) * H]; /* of the compressed stream, then held-out rows */
static float d[(ROWS + HELD) * H]; /* the same of the dense one */
static float w[O * H];
static float y[(ROWS + HELD) * O]; /* d W^T */
static const int64_t kept[K] = {0, 1, 3, 5};

static void multiply(int rows, const float *in, const float *weight, float *out)
{
    for (int t = 0; t < rows; t++) {
        for (int o = 0; o < O; o++) {
            double sum = 0.0;
            for (int i = 0; i < H; i++) {
                sum += (double)in[t * H + i] * (double)weight[o * H + i];
            }
            out[t * O + o] = (float)sum;
        }
    }
}

static int fill(void **state)
{
    support_fill_normal(x, (ROWS + HELD) * H, 1);
    support_fill_normal(w, O * H, 2);
    support_fill_normal(d, (ROWS + HELD) * H, 3);
    for (int i = 0; i < (ROWS + HELD) * H; i++) {
        x[i] += i % H == 0 ? 2.0F : 0.5F * x[i - i % H]; /* means, and features that resemble */
        d[i] = 1.3F * x[i] + 0.5F + 0.3F * d[i];
    }
    multiply(ROWS + HELD, d, w, y);
    return 0;
}

static grail_statistics *sums_of(const float *in, const float *target, int begin, int rows)
{
    grail_statistics *s = NULL;
    assert_ok(grail_statistics_create(H, target == NULL ? 0 : O, &s));
    assert_ok(grail_statistics_accumulate(s, rows, in + begin * H, H,
                                          target == NULL ? NULL : target + begin * O, O));
    return s;
}

static grail_reducer *selection(void)
{
    grail_reducer *r = NULL;
    assert_ok(grail_reducer_from_selection(H, K, kept, &r));
    return r;
}

static double narrow_input(int t, int k)
{
    return (double)x[t * H + kept[k]];
}

/* Y - Z W'^T - d of one row and output; with W' NULL of the plain cut. */
static double residual(const float *target, const float *weight, const double *bias, int t, int o)
{
    double left = (double)target[t * O + o] - (bias == NULL ? 0.0 : bias[o]);
    for (int k = 0; k < K; k++) {
        left -=
            narrow_input(t, k) * (double)(weight == NULL ? w[o * H + kept[k]] : weight[o * K + k]);
    }
    return left;
}

static double error_of(const float *target, const float *weight, const double *bias, int begin,
                       int rows)
{
    double error = 0.0;
    double square = 0.0;
    for (int t = begin; t < begin + rows; t++) {
        for (int o = 0; o < O; o++) {
            error += pow(residual(target, weight, bias, t, o), 2.0);
            square += pow((double)target[t * O + o], 2.0);
        }
    }
    return error / square;
}

/* The gradient of the fit's objective vanishes: (Y - Z W'^T - 1 d^T)^T Z = (W' - P) diag(penalty),
 * and with a bias the residuals sum to 0. */
TEST(the_fit_solves_its_normal_equations)
{
    float own[ROWS * O];
    multiply(ROWS, x, w, own);
    for (int i = 0; i < 32; i++) {
        grail_compensate_options options;
        grail_compensate_result result;
        float weight[O * K];
        double bias[O];
        grail_compensate_options_init(&options);
        options.prior = i & 1;
        options.bias = i >> 1 & 1;
        options.diagonal = i >> 2 & 1;
        options.target = (i >> 3 & 1) != 0 ? GRAIL_FIT_LOCAL : GRAIL_FIT_USUAL;
        options.alpha = (i >> 4 & 1) != 0 ? 0.3 : 1e-3;
        const float *target = options.target == GRAIL_FIT_LOCAL ? own : y;
        OWNED(grail_statistics) *s = sums_of(x, y, 0, ROWS);
        OWNED(grail_reducer) *r = selection();
        assert_ok(grail_compensate(s, NULL, r, 1, O, w, &options, weight,
                                   options.bias != 0 ? bias : NULL, &result));
        for (int o = 0; o < O; o++) {
            double total = 0.0;
            for (int t = 0; t < ROWS; t++) {
                total += residual(target, weight, options.bias != 0 ? bias : NULL, t, o);
            }
            for (int k = 0; k < K; k++) {
                double gradient = 0.0;
                double square = 0.0;
                double mean = 0.0;
                for (int t = 0; t < ROWS; t++) {
                    const double in = narrow_input(t, k);
                    gradient +=
                        in * residual(target, weight, options.bias != 0 ? bias : NULL, t, o);
                    square += in * in;
                    mean += in / ROWS;
                }
                square -= options.bias != 0 ? ROWS * mean * mean : 0.0;
                const double prior = options.prior != 0 ? (double)w[o * H + kept[k]] : 0.0;
                const double penalty =
                    options.diagonal != 0 ? options.alpha * square : result.lambda;
                assert_near(gradient, penalty * ((double)weight[o * K + k] - prior), 2e-4);
            }
            assert_true(options.bias == 0 || fabs(total) < 2e-4);
        }
        assert_near(result.error_after,
                    error_of(target, weight, options.bias != 0 ? bias : NULL, 0, ROWS), 1e-6);
        assert_near(result.error_before, error_of(target, NULL, NULL, 0, ROWS), 1e-6);
        assert_true(isnan(result.held_before) && isnan(result.held_after));
    }
}

/* Each candidate by itself, judged on the held-out rows in plain loops. */
TEST(alpha_is_the_candidate_that_does_best_on_held_out_rows)
{
    static const double candidates[] = {3.0, 1e-4, 0.1, 1e-2};
    OWNED(grail_statistics) *fit = sums_of(x, y, 0, ROWS);
    OWNED(grail_statistics) *held = sums_of(x, y, ROWS, HELD);
    OWNED(grail_reducer) *r = selection();
    grail_compensate_options options;
    grail_compensate_result result;
    float weight[O * K];
    double best = INFINITY;
    double alpha = 0.0;
    grail_compensate_options_init(&options);
    options.prior = 1;
    for (int i = 0; i < 4; i++) {
        options.alpha = candidates[i];
        assert_ok(grail_compensate(fit, NULL, r, 1, O, w, &options, weight, NULL, &result));
        const double error = error_of(y, weight, NULL, ROWS, HELD);
        alpha = error < best ? candidates[i] : alpha;
        best = error < best ? error : best;
    }
    options.cross_validate = 1;
    options.alphas = candidates;
    options.alpha_count = 4;
    assert_ok(grail_compensate(fit, held, r, 1, O, w, &options, weight, NULL, &result));
    assert_near(result.alpha, alpha, 0.0);
    assert_near(result.held_after, best, 1e-6);
    assert_near(result.held_before, error_of(y, NULL, NULL, ROWS, HELD), 1e-6);
    /* The answer is that of all rows. */
    float all[O * K];
    options.cross_validate = 0;
    options.alpha = alpha;
    assert_ok(grail_statistics_add(fit, held));
    assert_ok(grail_compensate(fit, NULL, r, 1, O, w, &options, all, NULL, &result));
    for (int i = 0; i < O * K; i++) {
        assert_near((double)weight[i], (double)all[i], 1e-6);
    }
}

/* Without rows to judge by the usual candidate is taken, and the result says that nothing was
 * measured. */
TEST(without_a_held_out_part_alpha_is_the_candidate_next_to_the_usual_one)
{
    OWNED(grail_statistics) *fit = sums_of(x, y, 0, ROWS);
    OWNED(grail_statistics) *none = sums_of(x, y, 0, 0);
    OWNED(grail_reducer) *r = selection();
    grail_compensate_options options;
    float weight[2][O * K];
    grail_compensate_options_init(&options);
    options.cross_validate = 1;
    for (int i = 0; i < 2; i++) {
        grail_compensate_result result;
        assert_ok(grail_compensate(fit, i == 0 ? NULL : none, r, 1, O, w, &options, weight[i], NULL,
                                   &result));
        assert_near(result.alpha, 1e-3, 0.0);
        assert_true(isnan(result.held_after));
    }
    assert_memory_equal(weight[0], weight[1], sizeof weight[0]);
}

TEST(a_cut_of_nothing_with_the_prior_ridge_changes_nothing)
{
    float own[ROWS * O];
    float weight[O * H];
    const int64_t all[H] = {0, 1, 2, 3, 4, 5};
    OWNED(grail_statistics) *s = sums_of(x, y, 0, ROWS);
    grail_compensate_options options;
    grail_compensate_result result;
    multiply(ROWS, x, w, own);
    grail_compensate_options_init(&options);
    options.prior = 1;
    options.target = GRAIL_FIT_LOCAL;
    OPENED(grail_reducer, r, grail_reducer_from_selection(H, H, all, &r));
    assert_ok(grail_compensate(s, NULL, r, 1, O, w, &options, weight, NULL, &result));
    assert_memory_equal(weight, w, sizeof w);
}

/* x_2 = x_0 + x_1 and x_4 = 2 x_3 - x_5 */
TEST(linearly_dependent_units_are_pruned_without_loss)
{
    float z[ROWS * H];
    float weight[O * K];
    memcpy(z, x, sizeof z);
    for (int t = 0; t < ROWS; t++) {
        float *row = z + t * H;
        row[2] = row[0] + row[1];
        row[4] = 2.0F * row[3] - row[5];
    }
    OWNED(grail_statistics) *s = sums_of(z, NULL, 0, ROWS);
    OWNED(grail_reducer) *r = selection();
    grail_compensate_options options;
    grail_compensate_result result;
    grail_compensate_options_init(&options);
    options.alpha = 1e-12;
    assert_ok(grail_compensate(s, NULL, r, 1, O, w, &options, weight, NULL, &result));
    assert_true(result.error_before > 0.05);
    assert_true(result.error_after < 1e-9);
    for (int o = 0; o < O; o++) {
        assert_near((double)weight[o * K], (double)w[o * H] + (double)w[o * H + 2], 1e-4);
        assert_near((double)weight[o * K + 2], (double)w[o * H + 3] + 2.0 * (double)w[o * H + 4],
                    1e-4);
    }
}

/* Sums of f32 products leave a residue of a constant beside its mean, which would be fitted to. */
TEST(a_constant_unit_goes_into_the_bias_without_loss)
{
    float z[ROWS * H];
    float weight[O * K];
    double bias[O];
    memcpy(z, x, sizeof z);
    for (int t = 0; t < ROWS; t++) {
        z[t * H + 2] = 30017.3F;
        z[t * H + 4] = z[t * H + 1];
    }
    OWNED(grail_statistics) *s = sums_of(z, NULL, 0, ROWS);
    OWNED(grail_reducer) *r = selection();
    grail_compensate_options options;
    grail_compensate_result result;
    grail_compensate_options_init(&options);
    options.alpha = 1e-12;
    options.bias = 1;
    assert_ok(grail_compensate(s, NULL, r, 1, O, w, &options, weight, bias, &result));
    for (int o = 0; o < O; o++) {
        const double gone = 30017.3F * (double)w[o * H + 2];
        assert_near(bias[o], gone, 1e-9 * fabs(gone));
        assert_near((double)weight[o * K], (double)w[o * H], 1e-6);
        assert_near((double)weight[o * K + 1], (double)w[o * H + 1] + (double)w[o * H + 4], 1e-6);
    }
}

/* -- mixed targets ----------------------------------------------------------------------------- */

/* beta of rows: 1 - |Y - X W^T|^2 / |Y|^2 */
static double share_of(int rows, const float *own)
{
    double gap = 0.0;
    double square = 0.0;
    for (int i = 0; i < rows * O; i++) {
        gap += pow((double)y[i] - (double)own[i], 2.0);
        square += pow((double)y[i], 2.0);
    }
    return 1.0 - gap / square;
}

TEST(the_mixed_target_of_sums_is_that_of_its_rows)
{
    float own[ROWS * O];
    float mixed[ROWS * O];
    float weights[2][O * K];
    double biases[2][O];
    grail_compensate_result result[2];
    grail_compensate_options options;
    double share = 0.0;
    multiply(ROWS, x, w, own);
    memcpy(mixed, y, sizeof mixed);
    assert_ok(grail_mix_target(ROWS, O, NULL, own, O, mixed, O, &share));
    assert_near(share, share_of(ROWS, own), 1e-6);
    assert_true(share > 0.2 && share < 0.995);
    for (int i = 0; i < ROWS * O; i++) {
        assert_near((double)mixed[i], share * (double)y[i] + (1.0 - share) * (double)own[i], 1e-5);
    }
    OWNED(grail_reducer) *r = selection();
    grail_compensate_options_init(&options);
    options.prior = 1;
    options.bias = 1;
    for (int i = 0; i < 2; i++) {
        OWNED(grail_statistics) *s = sums_of(x, i == 0 ? y : mixed, 0, ROWS);
        options.target = i == 0 ? GRAIL_FIT_MIXED : GRAIL_FIT_DENSE;
        assert_ok(
            grail_compensate(s, NULL, r, 1, O, w, &options, weights[i], biases[i], &result[i]));
    }
    assert_near(result[0].dense_share, share, 1e-6);
    assert_near(result[1].dense_share, 1.0, 0.0);
    for (int i = 0; i < O * K; i++) {
        assert_near((double)weights[0][i], (double)weights[1][i], 1e-5);
    }
    for (int o = 0; o < O; o++) {
        assert_near(biases[0][o], biases[1][o], 1e-4);
    }
}

/* -- maps that were not cut -------------------------------------------------------------------- */

/* From sums of its own target, and from the drift of its input; Y = D W^T. */
TEST(a_map_that_was_not_cut_is_refitted_to_the_dense_output)
{
    for (int mixed = 0; mixed < 2; mixed++) {
        float weights[2][O * H];
        double biases[2][O];
        grail_compensate_result result[2];
        grail_compensate_options options;
        grail_drift *parts[2] = {NULL, NULL};
        OWNED(grail_statistics) *fit = sums_of(x, y, 0, ROWS);
        OWNED(grail_statistics) *held = sums_of(x, y, ROWS, HELD);
        for (int i = 0; i < 2; i++) {
            const int begin = i == 0 ? 0 : ROWS;
            assert_ok(grail_drift_create(H, &parts[i]));
            assert_ok(grail_drift_accumulate(parts[i], 4, x + begin * H, H, d + begin * H, H));
            grail_drift *rest = NULL;
            assert_ok(grail_drift_create(H, &rest));
            assert_ok(grail_drift_accumulate(rest, (i == 0 ? ROWS : HELD) - 4, x + (begin + 4) * H,
                                             H, d + (begin + 4) * H, H));
            assert_ok(grail_drift_add(parts[i], rest));
            grail_drift_free(rest);
            assert_int_equal(grail_drift_count(parts[i]), i == 0 ? ROWS : HELD);
        }
        assert_ok(grail_compensate_options_named("full", NULL, 1, &options));
        options.target = mixed ? GRAIL_FIT_MIXED : GRAIL_FIT_DENSE;
        assert_ok(grail_compensate(fit, held, NULL, 1, O, w, &options, weights[0], biases[0],
                                   &result[0]));
        assert_ok(grail_drift_compensate(parts[0], parts[1], O, w, &options, weights[1], biases[1],
                                         &result[1]));
        assert_near(result[0].alpha, result[1].alpha, 0.0);
        assert_near(result[0].dense_share, result[1].dense_share, 1e-5);
        assert_true(result[0].held_after < 0.8 * result[0].held_before);
        for (int i = 0; i < O * H; i++) {
            assert_near((double)weights[0][i], (double)weights[1][i], 1e-4);
        }
        for (int o = 0; o < O; o++) {
            assert_near(biases[0][o], biases[1][o], 1e-4);
        }
        for (int i = 0; i < 2; i++) {
            grail_drift_free(parts[i]);
        }
    }
}

TEST(an_output_that_is_not_judged_does_not_choose)
{
    static const unsigned char first[O] = {1, 0, 0};
    static const unsigned char none[O] = {0, 0, 0};
    OWNED(grail_statistics) *s = sums_of(x, y, 0, ROWS);
    OWNED(grail_reducer) *r = selection();
    grail_compensate_options options;
    grail_compensate_result result;
    float weight[O * K];
    double error = 0.0;
    double square = 0.0;
    grail_compensate_options_init(&options);
    options.judged = first;
    assert_ok(grail_compensate(s, NULL, r, 1, O, w, &options, weight, NULL, &result));
    for (int t = 0; t < ROWS; t++) {
        error += pow(residual(y, weight, NULL, t, 0), 2.0);
        square += pow((double)y[t * O], 2.0);
    }
    assert_near(result.error_after, error / square, 1e-6);
    options.judged = none;
    assert_fails(grail_compensate(s, NULL, r, 1, O, w, &options, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "no output is judged");
}

/* -- presets ----------------------------------------------------------------------------------- */

TEST(presets_are_those_of_runs)
{
    grail_compensate_options o;
    assert_ok(grail_compensate_options_named("grail", NULL, 1, &o));
    assert_true(o.target == GRAIL_FIT_LOCAL && o.prior == 0 && o.bias == 0 && o.alpha == 1e-3 &&
                o.cross_validate == 0);
    assert_ok(grail_compensate_options_named("full", NULL, 0, &o));
    assert_true(o.target == GRAIL_FIT_MIXED && o.prior == 1 && o.bias == 0 &&
                o.cross_validate == 1);
    assert_ok(grail_compensate_options_named("full", NULL, 1, &o));
    assert_int_equal(o.bias, 1);
    assert_ok(grail_compensate_options_named("own", "flap", 1, &o));
    assert_true(o.bias_only == 1 && o.bias == 1);
    assert_ok(grail_compensate_options_named("own", "slimgpt", 1, &o));
    assert_true(o.of_all == 1 && o.bias == 0);
    assert_fails(grail_compensate_options_named("own", NULL, 1, &o), GRAIL_ERROR_ARGUMENT,
                 "no selector");
    assert_fails(grail_compensate_options_named("own", "random", 1, &o), GRAIL_ERROR_ARGUMENT,
                 "random");
    assert_fails(grail_compensate_options_named("fulll", NULL, 1, &o), GRAIL_ERROR_ARGUMENT,
                 "'full'");
    assert_fails(grail_compensate_options_named("none", NULL, 1, &o), GRAIL_ERROR_ARGUMENT,
                 "no fit");
    assert_fails(grail_compensate_options_named(NULL, NULL, 1, &o), GRAIL_ERROR_ARGUMENT,
                 "no name");
}

/* -- hostile calls ----------------------------------------------------------------------------- */

TEST(the_result_may_lie_where_the_consumer_does)
{
    float apart[O * K];
    float same[O * H];
    OWNED(grail_statistics) *s = sums_of(x, y, 0, ROWS);
    OWNED(grail_reducer) *r = selection();
    grail_compensate_options options;
    grail_compensate_result result;
    grail_compensate_options_init(&options);
    memcpy(same, w, sizeof same);
    assert_ok(grail_compensate(s, s, r, 1, O, w, &options, apart, NULL, &result));
    assert_ok(grail_compensate(s, s, r, 1, O, same, &options, same, NULL, &result));
    assert_memory_equal(apart, same, sizeof apart);
}

TEST(fits_that_mean_nothing_are_refused)
{
    static const double negative[] = {1e-3, -1.0};
    const float nan[O * H] = {[4] = (float)NAN};
    float weight[O * H];
    double bias[O];
    OWNED(grail_statistics) *own = sums_of(x, NULL, 0, ROWS);
    OWNED(grail_statistics) *s = sums_of(x, y, 0, ROWS);
    OWNED(grail_reducer) *r = selection();
    grail_compensate_result result;
    grail_compensate_options o;
    grail_compensate_options_init(&o);
#define REFUSED(code, text)                                                                        \
    assert_fails(grail_compensate(s, NULL, r, 1, O, w, &o, weight, NULL, &result), code, text)
    o.alphas = negative;
    REFUSED(GRAIL_ERROR_ARGUMENT, "give both or neither");
    o.alpha_count = 2;
    REFUSED(GRAIL_ERROR_ARGUMENT, "candidate for alpha is -1");
    grail_compensate_options_init(&o);
    o.alpha = (double)INFINITY;
    REFUSED(GRAIL_ERROR_ARGUMENT, "alpha is inf");
    grail_compensate_options_init(&o);
    o.bias_only = 1;
    REFUSED(GRAIL_ERROR_ARGUMENT, "bias_only");
    grail_compensate_options_init(&o);
    o.target = (grail_fit_target)7;
    REFUSED(GRAIL_ERROR_ARGUMENT, "target");
    grail_compensate_options_init(&o);
    o.reduced = 1;
    REFUSED(GRAIL_ERROR_SHAPE, "6 features, expected 4 units");
    grail_compensate_options_init(&o);
    o.target = GRAIL_FIT_MIXED;
    assert_fails(grail_compensate(own, NULL, r, 1, O, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "mixed target needs");
    assert_fails(grail_compensate(s, own, r, 1, O, w, &o, weight, NULL, &result), GRAIL_ERROR_SHAPE,
                 "held-out statistics have 6 features and 0 outputs");
    grail_compensate_options_init(&o);
    assert_fails(grail_compensate(own, NULL, NULL, 1, O, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_SHAPE, "was not cut");
    assert_fails(grail_compensate(s, NULL, r, 0, O, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_SHAPE, "units of 0 features");
    assert_fails(grail_compensate(s, NULL, r, 1, O + 1, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_SHAPE, "has 3 outputs, but the consumer has 4");
    assert_fails(grail_compensate(s, NULL, r, 1, INT64_MAX, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_SHAPE, "outputs");
    assert_fails(grail_compensate(s, NULL, r, 1, O, NULL, &o, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "consumer");
    assert_fails(grail_compensate(s, NULL, r, 1, O, w, NULL, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "options");
    assert_fails(grail_compensate(NULL, NULL, r, 1, O, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "no object of statistics");
    assert_fails(grail_compensate(s, NULL, r, 1, O, nan, &o, weight, NULL, &result),
                 GRAIL_ERROR_NUMERIC, "not finite");
    assert_fails(grail_compensate(s, NULL, r, 1, O, w, &o, weight, bias, &result),
                 GRAIL_ERROR_ARGUMENT, "bias_change");
    OPENED(grail_drift, drift, grail_drift_create(H, &drift));
    OPENED(grail_drift, wide, grail_drift_create(H + 1, &wide));
    assert_ok(grail_drift_accumulate(drift, 0, NULL, 0, NULL, 0));
    assert_fails(grail_drift_accumulate(drift, 1, x, H, NULL, H), GRAIL_ERROR_ARGUMENT, "1 rows");
    assert_fails(grail_drift_accumulate(drift, 1, x, H, nan, H), GRAIL_ERROR_NUMERIC,
                 "dense stream is not finite at row 0, feature 4");
    assert_fails(grail_drift_add(drift, wide), GRAIL_ERROR_SHAPE, "7 features");
    assert_fails(grail_drift_compensate(drift, wide, O, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_SHAPE, "7 features");
    o.target = GRAIL_FIT_LOCAL;
    assert_fails(grail_drift_compensate(drift, NULL, O, w, &o, weight, NULL, &result),
                 GRAIL_ERROR_ARGUMENT, "target");
    o.target = GRAIL_FIT_USUAL; /* no rows: the map stays */
    assert_ok(grail_drift_compensate(drift, NULL, O, w, &o, weight, NULL, &result));
    assert_memory_equal(weight, w, sizeof w);
    assert_fails(grail_mix_target(1, O, NULL, nan + 3, O, weight, O, NULL), GRAIL_ERROR_NUMERIC,
                 "local target is not finite");
    assert_fails(grail_mix_target(0, O, NULL, w, O, weight, O, NULL), GRAIL_ERROR_ARGUMENT,
                 "0 rows");
#undef REFUSED
}

static grail_status fit_all(void *context)
{
    OWNED(grail_statistics) *s = NULL;
    OWNED(grail_drift) *drift = NULL;
    OWNED(grail_reducer) *r = NULL;
    grail_compensate_options options;
    grail_compensate_result result;
    static const unsigned char judged[O] = {1, 1, 0};
    float weight[O * H];
    float mixed[O];
    double bias[O];
    memcpy(mixed, y, sizeof mixed);
    CHECK(grail_compensate_options_named("full", NULL, 1, &options));
    options.judged = judged;
    CHECK(grail_statistics_create(H, O, &s));
    CHECK(grail_statistics_accumulate(s, ROWS, x, H, y, O));
    CHECK(grail_reducer_from_selection(H, K, kept, &r));
    CHECK(grail_compensate(s, s, r, 1, O, w, &options, weight, bias, &result));
    CHECK(grail_compensate(s, s, NULL, 1, O, w, &options, weight, bias, &result));
    CHECK(grail_drift_create(H, &drift));
    CHECK(grail_drift_accumulate(drift, ROWS, x, H, d, H));
    CHECK(grail_drift_compensate(drift, drift, O, w, &options, weight, bias, &result));
    return grail_mix_target(1, O, NULL, w, O, mixed, O, NULL);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(fit_all, NULL);
}

CMFixtureFunction support_setup = fill;
