#include "oracle.h"

#include <math.h>

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, K = ORACLE_KEPT, O = ORACLE_OUTPUTS };

/* residual[T, O] = target - Z W0^T */
static void residual_of(const oracle *o, const double *target, double *residual)
{
    for (int64_t i = 0; i < T * O; i++) {
        residual[i] = target[i];
        for (int64_t k = 0; k < K; k++) {
            residual[i] -= (double)o->z[i / O * K + k] * (double)o->prior[i % O * K + k];
        }
    }
}

static double column_product(const double *a, int64_t a_stride, const double *b, int64_t b_stride)
{
    double sum = 0.0;
    for (int64_t t = 0; t < T; t++) {
        sum += a[t * a_stride] * b[t * b_stride];
    }
    return sum;
}

/* Every sum of the regression against its definition on the rows. */
static void assert_sums(const oracle *o, const double *target, const regression *r,
                        double tolerance)
{
    double z[T * K];
    double residual[T * O];
    const double one = 1.0;
    oracle_widen(T * K, o->z, z);
    residual_of(o, target, residual);
    assert_int_equal(r->width, K);
    assert_int_equal(r->outputs, O);
    assert_true(r->weight == T);
    for (int64_t k = 0; k < K; k++) {
        assert_near(r->sum[k], column_product(z + k, K, &one, 0), tolerance);
        for (int64_t j = 0; j <= k; j++) {
            assert_near(support_element(r->gram, k, j), column_product(z + k, K, z + j, K),
                        tolerance);
        }
    }
    for (int64_t i = 0; i < O; i++) {
        const double *column = residual + i;
        for (int64_t k = 0; k < K; k++) {
            assert_near(support_element(r->cross, i, k), column_product(column, O, z + k, K),
                        tolerance);
        }
        assert_near(r->residual_sum[i], column_product(column, O, &one, 0), tolerance);
        assert_near(r->residual_square[i], column_product(column, O, column, O), tolerance);
        assert_near(r->target_square[i], column_product(target + i, O, target + i, O), tolerance);
    }
}

TEST(the_residual_of_the_own_output_equals_its_definition)
{
    oracle o;
    oracle_fill(&o, 1);
    OWNED(regression) r = oracle_regression(on_ref, &o, 0, T, false);
    assert_sums(&o, o.own, &r, 1e-9);
}

TEST(the_residual_of_a_given_target_equals_its_definition)
{
    oracle o;
    oracle_fill(&o, 2);
    OWNED(regression) r = oracle_regression(on_ref, &o, 0, T, true);
    assert_sums(&o, o.other, &r, 1e-9);
}

TEST(the_cpu_backend_agrees_with_the_definition)
{
    oracle o;
    oracle_fill(&o, 3);
    OWNED(regression) own = oracle_regression(on_cpu, &o, 0, T, false);
    OWNED(regression) given = oracle_regression(on_cpu, &o, 0, T, true);
    assert_sums(&o, o.own, &own, 2e-3);
    assert_sums(&o, o.other, &given, 2e-3);
}

TEST(measured_statistics_of_the_narrow_input_give_the_same_sums)
{
    oracle o;
    oracle_fill(&o, 4);
    OWNED(regression) r = {0};
    OWNED(matrix) z = support_rows(on_ref, T, K, K, o.z);
    OWNED(matrix) y = support_rows(on_ref, T, O, O, o.given);
    OPENED(grail_statistics, s, statistics_create(on_ref, K, O, &s));
    assert_ok(statistics_accumulate(s, z, y));
    assert_ok(oracle_regress(NULL, s, NULL, 1, s->outputs, NULL, o.prior, &r));
    assert_sums(&o, o.other, &r, 1e-9);
    assert_false(matrix_exists(s->gram));
}

TEST(parts_add_up_to_the_whole)
{
    oracle o;
    oracle_fill(&o, 5);
    for (int64_t split = 0; split <= T; split += 20) {
        OWNED(regression) first = oracle_regression(on_ref, &o, 0, split, true);
        OWNED(regression) second = oracle_regression(on_ref, &o, split, T, true);
        assert_ok(regression_add(&first, &second));
        assert_sums(&o, o.other, &first, 1e-9);
    }
}

TEST(parts_of_different_shapes_do_not_add)
{
    regression a = {.width = 2, .outputs = 3};
    const regression b = {.width = 3, .outputs = 3};
    assert_fails(regression_add(&a, &b), GRAIL_ERROR_SHAPE, "cannot add 3 x 3 sums to 3 x 2");
}

/* Wide enough for several panels, with units of two features. */
enum { UNITS = 350, U = 2, WIDE = UNITS * U, KEPT_UNITS = 200, NARROW = KEPT_UNITS * U };

static grail_reducer *wide_reducer(void)
{
    int64_t kept[KEPT_UNITS];
    grail_reducer *reducer = NULL;
    for (int64_t k = 0; k < KEPT_UNITS; k++) {
        kept[k] = k + k * (UNITS - KEPT_UNITS) / KEPT_UNITS;
    }
    assert_ok(grail_reducer_from_selection(UNITS, KEPT_UNITS, kept, &reducer));
    return reducer;
}

/* Statistics whose Gram matrix has the given lower triangle, and NaN above it. */
static grail_statistics *wide_statistics(int64_t outputs, const double *lower)
{
    grail_statistics *s = NULL;
    OWNED(double) *gram = NULL;
    assert_ok(memory_new(&gram, WIDE * WIDE, sizeof *gram));
    for (int64_t i = 0; i < WIDE * WIDE; i++) {
        gram[i] = i % WIDE > i / WIDE ? (double)NAN : lower[i];
    }
    assert_ok(statistics_create(on_ref, WIDE, outputs, &s));
    assert_ok(matrix_upload(s->gram, gram));
    return s;
}

static double *wide_gram(void)
{
    double *gram = NULL;
    assert_ok(memory_new(&gram, WIDE * WIDE, sizeof *gram));
    for (int64_t i = 0; i < WIDE * WIDE; i++) {
        gram[i] = (double)(i * 37 % 1001);
    }
    return gram;
}

static double element_of(const double *gram, int64_t i, int64_t j)
{
    return i > j ? gram[i * WIDE + j] : gram[j * WIDE + i];
}

/* sum_h w_h G[h, feature] over the kept or over the removed features */
static double weighted_row(const grail_reducer *reducer, bool kept, const float *weight,
                           const double *gram, int64_t feature)
{
    double sum = 0.0;
    for (int64_t h = 0; h < WIDE; h++) {
        const bool counts = (grail_reducer_label(reducer, h / U) >= 0) == kept;
        sum += counts ? (double)weight[h] * element_of(gram, h, feature) : 0.0;
    }
    return sum;
}

/* G[P, P] must be the plain gather. */
TEST(compaction_in_place_equals_the_plain_gather)
{
    int64_t features[NARROW];
    float weight[WIDE];
    support_fill_normal(weight, WIDE, 1);
    OWNED(double) *before = wide_gram();
    OWNED(grail_reducer) *reducer = wide_reducer();
    OWNED(grail_statistics) *s = wide_statistics(0, before);
    OWNED(regression) r = {0};
    assert_ok(oracle_select(s, reducer, U, 1, weight, &r));
    reducer_kept_features(reducer, U, features);
    for (int64_t i = 0; i < NARROW; i++) {
        for (int64_t j = 0; j <= i; j++) {
            assert_true(support_element(r.gram, i, j) == before[features[i] * WIDE + features[j]]);
        }
        assert_near(support_element(r.cross, 0, i),
                    weighted_row(reducer, false, weight, before, features[i]), 1e-8);
    }
    double square = 0.0;
    for (int64_t h = 0; h < WIDE; h++) {
        const bool removed = grail_reducer_label(reducer, h / U) < 0;
        const double image = weighted_row(reducer, false, weight, before, h);
        square += removed ? (double)weight[h] * image : 0.0;
    }
    assert_near(r.residual_square[0], square, 1e-8);
}

/* With C = 0, t = 0 and q = 0: E = -W0 A, the residual sum is -W0 s and its square W0 A W0^T. */
TEST(the_residual_of_a_target_is_summed_over_all_panels)
{
    int64_t features[NARROW];
    float weight[WIDE];
    support_fill_normal(weight, WIDE, 2);
    OWNED(double) *gram = wide_gram();
    OWNED(grail_reducer) *reducer = wide_reducer();
    OWNED(grail_statistics) *s = wide_statistics(1, gram);
    OWNED(regression) r = {0};
    assert_ok(matrix_upload(s->sum, gram)); /* any values */
    assert_ok(oracle_select(s, reducer, U, 1, weight, &r));
    reducer_kept_features(reducer, U, features);
    double sum = 0.0;
    double square = 0.0;
    for (int64_t i = 0; i < NARROW; i++) {
        const double image = weighted_row(reducer, true, weight, gram, features[i]);
        assert_near(support_element(r.cross, 0, i), -image, 1e-8);
        assert_true(r.sum[i] == gram[features[i]]);
        sum += (double)weight[features[i]] * gram[features[i]];
        square += (double)weight[features[i]] * image;
    }
    assert_near(r.residual_sum[0], -sum, 1e-8);
    assert_near(r.residual_square[0], square, 1e-7);
}

TEST(no_second_gram_matrix_is_held)
{
    const int64_t gram = (int64_t)sizeof(double) * WIDE * WIDE;
    float weight[WIDE] = {0};
    OWNED(double) *zeros = NULL;
    assert_ok(memory_new(&zeros, WIDE * WIDE, sizeof *zeros));
    OWNED(grail_reducer) *reducer = wide_reducer();
    OWNED(grail_statistics) *s = wide_statistics(0, zeros);
    OWNED(regression) r = {0};
    const int64_t before = memory_in_use();
    memory_peak_begin();
    assert_ok(oracle_select(s, reducer, U, 1, weight, &r));
    assert_true(memory_peak() < before + gram / 2);
    assert_true(memory_in_use() < before - gram / 2);
    assert_int_equal(backend_bytes(on_ref), sizeof(double) * (NARROW * NARROW + NARROW));
}

TEST(errors_of_many_outputs_are_measured_on_some_of_all_taps)
{
    assert_int_equal(regression_measured_stride(0), 1);
    assert_int_equal(regression_measured_stride(256), 1);
    assert_int_equal(regression_measured_stride(257), 4);
    assert_int_equal(regression_measured_stride(576), 5);
    assert_int_equal(regression_measured_stride(1152), 10); /* 128 of 3 x 3 taps */
}

enum { MANY = 1100 };

/* G = I: the residual square of output o is the square of its removed weight, here o. */
TEST(measured_outputs_are_every_stride_th)
{
    const int64_t kept[] = {0};
    float weight[2 * MANY];
    for (int64_t i = 0; i < MANY; i++) {
        weight[2 * i] = 1.0F;
        weight[2 * i + 1] = (float)i;
    }
    OWNED(regression) r = {0};
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(2, 1, kept, &reducer));
    OPENED(grail_statistics, s, statistics_create(on_ref, 2, 0, &s));
    support_set_element(s->gram, 0, 0, 1.0);
    support_set_element(s->gram, 1, 1, 1.0);
    support_set_element(s->sum, 0, 1, 3.0);
    assert_ok(oracle_select(s, reducer, 1, MANY, weight, &r));
    for (int64_t i = 0; i < MANY; i += regression_measured_stride(MANY)) {
        assert_near(r.residual_square[i], (double)(i * i), 0.0);
        assert_near(r.target_square[i], (double)(i * i + 1), 0.0);
    }
    for (int64_t i = 0; i < MANY; i++) {
        assert_near(r.residual_sum[i], (double)(3 * i), 0.0);
    }
}

/* A = 4, w0 = 1: the residual square of output o is q - 2 C + A, here (o - 2)^2, and its residual
 * sum t - s, here 10 o. */
TEST(many_outputs_of_a_target_are_measured_likewise)
{
    float prior[MANY];
    double cross[MANY];
    double sum[MANY];
    double square[MANY];
    for (int64_t i = 0; i < MANY; i++) {
        prior[i] = 1.0F;
        cross[i] = (double)(2 * i);
        sum[i] = (double)(10 * i + 5);
        square[i] = (double)(i * i);
    }
    OWNED(regression) r = {0};
    OPENED(grail_statistics, s, statistics_create(on_ref, 1, MANY, &s));
    support_set_element(s->gram, 0, 0, 4.0);
    support_set_element(s->sum, 0, 0, 5.0);
    assert_ok(matrix_upload(s->cross, cross));
    assert_ok(matrix_upload(s->target_sum, sum));
    assert_ok(matrix_upload(s->target_square, square));
    assert_ok(oracle_regress(NULL, s, NULL, 1, s->outputs, NULL, prior, &r));
    for (int64_t i = 0; i < MANY; i++) {
        assert_near(support_element(r.cross, i, 0), (double)(2 * i - 4), 0.0);
        assert_near(r.residual_sum[i], (double)(10 * i), 0.0);
        assert_near(r.target_square[i], (double)(i * i), 0.0);
    }
    for (int64_t i = 0; i < MANY; i += regression_measured_stride(MANY)) {
        assert_near(r.residual_square[i], (double)((i - 2) * (i - 2)), 0.0);
    }
}

/* Statistics of the kept columns, with what the removed ones give as their target. */
static grail_statistics *sums_of_kept(const oracle *o)
{
    float rest[T * O];
    grail_statistics *s = NULL;
    for (int64_t i = 0; i < T * O; i++) {
        double sum = o->own[i];
        for (int64_t k = 0; k < K; k++) {
            sum -= (double)o->z[i / O * K + k] * (double)o->prior[i % O * K + k];
        }
        rest[i] = (float)sum;
    }
    matrix z = support_rows(on_ref, T, K, K, o->z);
    matrix y = support_rows(on_ref, T, O, O, rest);
    assert_ok(statistics_create(on_ref, K, O, &s));
    assert_ok(statistics_accumulate(s, z, y));
    matrix_free(&z);
    matrix_free(&y);
    return s;
}

TEST(sums_of_the_residual_give_the_same_regression)
{
    oracle o;
    oracle_fill(&o, 8);
    grail_statistics *s = sums_of_kept(&o);
    grail_statistics *wrong = sums_of_kept(&o);
    regression r = {0};
    matrix prior = support_rows(on_ref, O, K, K, o.prior);
    assert_fails(regression_of_residual(wrong, matrix_rows(prior, 0, O - 1), &r), GRAIL_ERROR_SHAPE,
                 "the sums are 5 x 7, but the consumer is 4 x 7");
    assert_true(matrix_exists(wrong->gram));
    assert_ok(regression_of_residual(s, prior, &r));
    assert_false(matrix_exists(s->gram));
    assert_sums(&o, o.own, &r, 1e-4);
    regression_fini(&r);
    matrix_free(&prior);
    grail_statistics_free(s);
    grail_statistics_free(wrong);
}

static grail_status build_of_residual(void *context)
{
    const float weight[] = {1, 2};
    grail_statistics *s = NULL;
    regression r = {0};
    matrix prior = no_matrix;
    (void)context;
    grail_status status = statistics_create(on_ref, 2, 1, &s);
    if (status == GRAIL_OK) {
        status = matrix_import(on_ref, GRAIL_DTYPE_F32, 1, 2, 2, weight, &prior);
    }
    if (status == GRAIL_OK) {
        status = regression_of_residual(s, prior, &r);
    }
    regression_fini(&r);
    matrix_free(&prior);
    grail_statistics_free(s);
    return status;
}

TEST(keeping_everything_leaves_no_residual)
{
    oracle o;
    oracle_fill(&o, 6);
    int64_t all[H];
    for (int64_t h = 0; h < H; h++) {
        all[h] = h;
    }
    OWNED(regression) r = {0};
    OWNED(grail_statistics) *s = oracle_statistics(on_ref, &o, 0, T, false);
    OPENED(grail_reducer, reducer, grail_reducer_from_selection(H, H, all, &reducer));
    assert_ok(oracle_select(s, reducer, 1, O, o.consumer, &r));
    for (int64_t i = 0; i < O * H; i++) {
        assert_true(support_element(r.cross, i / H, i % H) == 0.0);
    }
    assert_true(r.residual_sum[0] == 0.0 && r.residual_square[0] == 0.0);
}

TEST(shapes_that_do_not_fit_leave_the_statistics_alone)
{
    oracle o;
    oracle_fill(&o, 7);
    OWNED(grail_reducer) *reducer = oracle_reducer();
    regression r = {0};
    OWNED(grail_statistics) *s = oracle_statistics(on_ref, &o, 0, T, true);
    OWNED(grail_statistics) *own = oracle_statistics(on_ref, &o, 0, T, false);
    assert_fails(oracle_regress(NULL, s, reducer, 2, O, o.consumer, o.x, &r), GRAIL_ERROR_SHAPE,
                 "12 features, but the reducer has 12 units of 2");
    assert_fails(oracle_regress(NULL, s, reducer, 1, O - 1, o.consumer, o.prior, &r),
                 GRAIL_ERROR_SHAPE, "4 outputs, but the target has 5");
    assert_fails(oracle_regress(NULL, own, NULL, 1, O, NULL, o.consumer, &r), GRAIL_ERROR_ARGUMENT,
                 "need a target");
    assert_true(matrix_exists(s->gram));
    assert_true(matrix_exists(own->gram));
}

static grail_status build_regression(void *context)
{
    const bool *target = context;
    const int64_t kept[] = {0, 2};
    const float weight[] = {1, 2, 3};
    OWNED(grail_statistics) *s = NULL;
    OWNED(grail_reducer) *reducer = NULL;
    OWNED(regression) r = {0};
    grail_status status = statistics_create(on_ref, 3, *target ? 1 : 0, &s);
    if (status == GRAIL_OK) {
        status = grail_reducer_from_selection(3, 2, kept, &reducer);
    }
    if (status == GRAIL_OK) {
        status = oracle_select(s, reducer, 1, 1, weight, &r);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    bool target = false;
    support_fail_each_allocation(build_regression, &target);
    target = true;
    support_fail_each_allocation(build_regression, &target);
    support_fail_each_allocation(build_of_residual, NULL);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
