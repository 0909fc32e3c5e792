/* Fits by the drift of an input against the regression of the map's own outputs, whose rows are
 * written out. */
#include "oracle.h"
#include "solve/drift.h"
#include "solve/mixed_target.h"

#include "stats/constant_features.h"

#include <math.h>
#include <string.h>

enum { T = 90, FIT = 60, H = 9, O = 2 * REGRESSION_MEASURED + 30 };

typedef struct rows {
    float x[T * H], z[T * H], y[T * O]; /* y = x W^T */
    float weight[O * H];
} rows;

/* X, Z with a drift of its own, and a feature that is constant in Z. */
static void fill(rows *r, uint64_t seed, float drift)
{
    support_fill_normal(r->x, T * H, seed);
    support_fill_normal(r->z, T * H, seed + 1);
    support_fill_normal(r->weight, O * H, seed + 2);
    for (int64_t i = 0; i < T * H; i++) {
        r->x[i] += 0.5F;
        r->z[i] = r->x[i] + drift * (r->z[i] - 0.6F * r->x[i]);
        r->z[i] = i % H == 4 ? 0.75F : r->z[i];
    }
    for (int64_t i = 0; i < T * O; i++) {
        double sum = 0.0;
        for (int64_t k = 0; k < H; k++) {
            sum += (double)r->x[i / O * H + k] * (double)r->weight[i % O * H + k];
        }
        r->y[i] = (float)sum;
    }
}

static drift_sums drift_of(backend *b, const rows *r, int64_t begin, int64_t end)
{
    drift_sums s = {0};
    const int64_t count = end - begin;
    OWNED(matrix) z = support_rows(b, count, H, H, r->z + begin * H);
    OWNED(matrix) x = support_rows(b, count, H, H, r->x + begin * H);
    assert_ok(drift_sums_create(b, H, &s));
    assert_ok(drift_sums_accumulate(&s, z, x));
    assert_ok(drift_sums_settle(&s));
    return s;
}

static grail_statistics *outputs_of(backend *b, const rows *r, int64_t begin, int64_t end)
{
    grail_statistics *s = NULL;
    OWNED(matrix) z = support_rows(b, end - begin, H, H, r->z + begin * H);
    OWNED(matrix) y = support_rows(b, end - begin, O, O, r->y + begin * O);
    assert_ok(statistics_create(b, H, O, &s));
    assert_ok(statistics_accumulate(s, z, y));
    assert_ok(statistics_settle_constants(s));
    return s;
}

typedef struct answer {
    double weight[O * H];
    double bias[O];
    double share;
    ridge_result result;
} answer;

/* By sums of all outputs. */
static void solve_outputs(backend *b, const rows *r, int64_t split, bool mixes,
                          const ridge_options *options, answer *out)
{
    regression sums[2] = {0};
    target_gap gap = {0};
    const int64_t ends[] = {0, split, T};
    grail_statistics *parts[2];
    matrix weight = {0};
    matrix dense = support_rows(b, O, H, H, r->weight);
    for (int i = 0; i < 2; i++) {
        parts[i] = outputs_of(b, r, ends[i], ends[i + 1]);
        assert_ok(target_gap_add(parts[i], dense, &gap));
    }
    out->share = mixes ? target_gap_share(&gap) : 1.0;
    for (int i = 0; i < 2; i++) {
        assert_ok(statistics_mix_target(parts[i], dense, out->share));
        assert_ok(oracle_regress(NULL, parts[i], NULL, 1, O, NULL, r->weight, &sums[i]));
        grail_statistics_free(parts[i]);
    }
    assert_ok(matrix_new(b, GRAIL_DTYPE_F64, O, H, &weight));
    assert_ok(oracle_ridge(&sums[0], &sums[1], r->weight, options, weight,
                           options->bias ? out->bias : NULL, &out->result));
    assert_ok(matrix_download(weight, out->weight));
    matrix_free(&dense);
    matrix_free(&weight);
    regression_fini(&sums[0]);
    regression_fini(&sums[1]);
}

static void solve_drift(backend *b, const rows *r, int64_t split, bool mixes,
                        const ridge_options *options, answer *out)
{
    static float weight[O * H];
    matrix given = {0};
    matrix fitted = {0};
    OWNED(drift_sums) fit = drift_of(b, r, 0, split);
    OWNED(drift_sums) held = drift_of(b, r, split, T);
    assert_ok(matrix_import(b, GRAIL_DTYPE_F32, O, H, H, r->weight, &given));
    assert_ok(matrix_new(b, GRAIL_DTYPE_F32, O, H, &fitted));
    assert_ok(drift_solve(&fit, &held, given, mixes, options, fitted,
                          options->bias ? out->bias : NULL, &out->share, &out->result));
    assert_ok(matrix_download(fitted, weight));
    matrix_free(&given);
    matrix_free(&fitted);
    oracle_widen(O * H, weight, out->weight);
}

static void assert_same(double a, double b, double tolerance)
{
    assert_true((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= tolerance);
}

static void assert_same_answer(const answer *a, const answer *b, bool bias)
{
    assert_same(a->share, b->share, 1e-6);
    assert_true(a->result.alpha == b->result.alpha ||
                (isinf(a->result.alpha) && isinf(b->result.alpha)));
    assert_int_equal(a->result.fallback, b->result.fallback);
    assert_same(a->result.lambda, b->result.lambda, 1e-6 * b->result.lambda);
    assert_same(a->result.fit_before, b->result.fit_before, 1e-5);
    assert_same(a->result.fit_after, b->result.fit_after, 1e-5);
    assert_same(a->result.held_before, b->result.held_before, 1e-5);
    assert_same(a->result.held_after, b->result.held_after, 1e-5);
    for (int64_t i = 0; i < O * H; i++) {
        assert_near(a->weight[i], b->weight[i], 2e-4);
    }
    for (int64_t i = 0; bias && i < O; i++) {
        assert_near(a->bias[i], b->bias[i], 2e-4);
    }
}

static const double alphas[] = {1e-4, 1e-3, 1e-2, 1e-1};

/* Both ways, on both instances, with and without a held-out part. */
static void compare(const rows *r, bool mixes, ridge_options options)
{
    static answer by_outputs;
    static answer by_drift;
    backend *const instances[] = {on_ref, on_cpu};
    for (int i = 0; i < 4; i++) {
        backend *b = instances[i / 2];
        const int64_t split = i % 2 == 0 ? FIT : T;
        solve_outputs(b, r, split, mixes, &options, &by_outputs);
        solve_drift(b, r, split, mixes, &options, &by_drift);
        assert_same_answer(&by_drift, &by_outputs, options.bias);
    }
}

TEST(the_fit_is_that_of_all_outputs)
{
    static rows r;
    static bool judged[O];
    fill(&r, 11, 0.3F);
    for (int64_t o = 0; o < O; o++) {
        judged[o] = o % 3 != 0;
    }
    for (int i = 0; i < 64; i++) {
        const ridge_options options = {
            .ridge = i & 1 ? RIDGE_PRIOR : RIDGE_ZERO,
            .scale = i & 2 ? RIDGE_SCALE_DIAGONAL : RIDGE_SCALE_MEAN,
            .bias = (i & 4) != 0,
            .of_all = (i & 8) != 0,
            .alpha = 1e-2,
            .alphas = alphas,
            .alpha_count = i & 16 ? 4 : 0,
            .judged = i & 8 ? judged : NULL,
        };
        compare(&r, (i & 32) != 0, options);
    }
}

TEST(a_bias_alone_is_fitted_beside_the_same_weights)
{
    static rows r;
    static answer found;
    fill(&r, 12, 0.3F);
    const ridge_options options = {
        .ridge = RIDGE_PRIOR, .bias = true, .keeps_weights = true, .alpha = 1e-3};
    compare(&r, true, options);
    solve_drift(on_ref, &r, FIT, true, &options, &found);
    for (int64_t i = 0; i < O * H; i++) {
        assert_true(found.weight[i] == (double)r.weight[i]);
    }
}

/* Without a drift nothing is missing, and the weights keep their bits. */
TEST(a_value_without_drift_leaves_the_map_as_it_is)
{
    static rows r;
    static answer found;
    fill(&r, 13, 0.0F);
    for (int64_t i = 0; i < T * H; i++) {
        r.z[i] = r.x[i];
    }
    const ridge_options options = {.ridge = RIDGE_PRIOR, .alphas = alphas, .alpha_count = 4};
    solve_drift(on_cpu, &r, FIT, true, &options, &found);
    assert_true(found.share == 1.0);
    assert_true(found.result.fit_before == 0.0 && found.result.fit_after == 0.0);
    for (int64_t i = 0; i < O * H; i++) {
        assert_true(found.weight[i] == (double)r.weight[i]);
    }
}

/* Where the drift of held-out rows has nothing to do with that of the others. */
TEST(a_map_that_no_fit_helps_keeps_its_bits)
{
    static rows r;
    static answer found;
    fill(&r, 14, 0.3F);
    for (int64_t i = FIT * H; i < T * H; i++) {
        r.z[i] = 2.0F * r.x[i] - r.z[i];
    }
    const ridge_options options = {
        .ridge = RIDGE_PRIOR, .bias = true, .alphas = alphas, .alpha_count = 4};
    solve_drift(on_cpu, &r, FIT, true, &options, &found);
    assert_int_equal(found.result.fallback, RIDGE_FALLBACK_PLAIN);
    for (int64_t i = 0; i < O * H; i++) {
        assert_true(found.weight[i] == (double)r.weight[i]);
    }
    for (int64_t i = 0; i < O; i++) {
        assert_true(found.bias[i] == 0.0);
    }
}

TEST(parts_of_chunks_add_up)
{
    static rows r;
    fill(&r, 15, 0.3F);
    OWNED(drift_sums) whole = drift_of(on_ref, &r, 0, T);
    OWNED(drift_sums) total = {0};
    OWNED(drift_sums) part = {0};
    assert_ok(drift_sums_create(on_ref, H, &total));
    assert_ok(drift_sums_create(on_ref, H, &part));
    for (int64_t begin = 0; begin < T; begin += 30) {
        OWNED(matrix) z = support_rows(on_ref, 30, H, H, r.z + begin * H);
        OWNED(matrix) x = support_rows(on_ref, 30, H, H, r.x + begin * H);
        assert_ok(drift_sums_accumulate(&part, z, x));
        const chunk_sums sums = drift_chunk_sums(&part, &total);
        assert_ok(chunk_sums_fold(&sums));
    }
    assert_ok(drift_sums_settle(&total));
    assert_int_equal(total.input->count, T);
    for (int64_t i = 0; i < H * H; i++) {
        assert_near(support_element(total.square, i / H, i % H),
                    support_element(whole.square, i / H, i % H), 1e-9);
        assert_near(support_element(total.input->cross, i / H, i % H),
                    support_element(whole.input->cross, i / H, i % H), 1e-9);
        assert_near(support_element(total.input->gram, i / H, i % H),
                    support_element(whole.input->gram, i / H, i % H), 1e-9);
    }
}

TEST(rows_that_are_not_finite_are_named)
{
    static rows r;
    OWNED(drift_sums) s = {0};
    fill(&r, 16, 0.3F);
    r.x[7 * H + 2] = NAN;
    OWNED(matrix) z = support_rows(on_cpu, T, H, H, r.z);
    OWNED(matrix) x = support_rows(on_cpu, T, H, H, r.x);
    assert_ok(drift_sums_create(on_cpu, H, &s));
    assert_fails(backend_settle(on_cpu, drift_sums_accumulate(&s, z, x)), GRAIL_ERROR_NUMERIC,
                 "row 7, feature 2");
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
