#include "oracle.h"

#include <math.h>
#include <string.h>

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
    backend_ref.from_f32(T * K, o->z, z);
    residual_of(o, target, residual);
    assert_int_equal(r->width, K);
    assert_int_equal(r->outputs, O);
    assert_int_equal(r->count, T);
    for (int64_t k = 0; k < K; k++) {
        assert_near(r->sum[k], column_product(z + k, K, &one, 0), tolerance);
        for (int64_t j = 0; j <= k; j++) {
            assert_near(r->gram[k * K + j], column_product(z + k, K, z + j, K), tolerance);
        }
    }
    for (int64_t i = 0; i < O; i++) {
        const double *column = residual + i;
        for (int64_t k = 0; k < K; k++) {
            assert_near(r->cross[i * K + k], column_product(column, O, z + k, K), tolerance);
        }
        assert_near(r->residual_sum[i], column_product(column, O, &one, 0), tolerance);
        assert_near(r->residual_square[i], column_product(column, O, column, O), tolerance);
        assert_near(r->target_square[i], column_product(target + i, O, target + i, O), tolerance);
    }
}

static void the_residual_of_the_own_output_equals_its_definition(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 1);
    regression r = oracle_regression(&backend_ref, &o, 0, T, false);
    assert_sums(&o, o.own, &r, 1e-9);
    regression_fini(&r);
}

static void the_residual_of_a_given_target_equals_its_definition(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 2);
    regression r = oracle_regression(&backend_ref, &o, 0, T, true);
    assert_sums(&o, o.other, &r, 1e-9);
    regression_fini(&r);
}

static void the_cpu_backend_agrees_with_the_definition(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 3);
    regression own = oracle_regression(&backend_cpu, &o, 0, T, false);
    regression given = oracle_regression(&backend_cpu, &o, 0, T, true);
    assert_sums(&o, o.own, &own, 2e-3);
    assert_sums(&o, o.other, &given, 2e-3);
    regression_fini(&own);
    regression_fini(&given);
}

static void measured_statistics_of_the_narrow_input_give_the_same_sums(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 4);
    double z[T * K];
    double y[T * O];
    backend_ref.from_f32(T * K, o.z, z);
    backend_ref.from_f32(T * O, o.given, y);
    grail_statistics *s = NULL;
    regression r = {0};
    assert_ok(grail_statistics_create(K, O, &s));
    assert_ok(statistics_accumulate(s, &backend_ref, T, z, K, y, O));
    assert_ok(regression_from_measured(&backend_ref, s, o.prior, &r));
    assert_sums(&o, o.other, &r, 1e-9);
    assert_null(s->gram);
    grail_statistics_free(s);
    regression_fini(&r);
}

static void parts_add_up_to_the_whole(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 5);
    for (int64_t split = 0; split <= T; split += 20) {
        regression first = oracle_regression(&backend_ref, &o, 0, split, true);
        regression second = oracle_regression(&backend_ref, &o, split, T, true);
        assert_ok(regression_add(&first, &second));
        assert_sums(&o, o.other, &first, 1e-9);
        regression_fini(&first);
        regression_fini(&second);
    }
}

static void parts_of_different_shapes_do_not_add(void **state)
{
    (void)state;
    regression a = {.width = 2, .outputs = 3};
    const regression b = {.width = 3, .outputs = 3};
    assert_fails(regression_add(&a, &b), GRAIL_ERROR_SHAPE, "cannot add 3 x 3 sums to 3 x 2");
}

/* Wide enough for several panels, with units of two features: G[P, P] must be the plain gather. */
static void compaction_in_place_equals_the_plain_gather(void **state)
{
    (void)state;
    enum { UNITS = 350, U = 2, WIDE = UNITS * U, KEPT_UNITS = 200, NARROW = KEPT_UNITS * U };
    int64_t kept[KEPT_UNITS];
    int64_t features[NARROW];
    float weight[WIDE];
    support_fill_normal(weight, WIDE, 1);
    for (int64_t k = 0; k < KEPT_UNITS; k++) {
        kept[k] = k + k * (UNITS - KEPT_UNITS) / KEPT_UNITS;
    }
    grail_reducer *reducer = NULL;
    grail_statistics *s = NULL;
    double *before = NULL;
    assert_ok(grail_reducer_from_selection(UNITS, KEPT_UNITS, kept, &reducer));
    assert_ok(grail_statistics_create(WIDE, 0, &s));
    assert_ok(memory_new(&before, WIDE * WIDE, sizeof *before));
    for (int64_t i = 0; i < WIDE * WIDE; i++) {
        before[i] = (double)(i * 37 % 1001);
        s->gram[i] = i % WIDE > i / WIDE ? NAN : before[i];
    }
    regression r = {0};
    assert_ok(regression_from_selection(&backend_ref, s, reducer, U, 1, weight, &r));
    reducer_kept_features(reducer, U, features);
    for (int64_t i = 0; i < NARROW; i++) {
        for (int64_t j = 0; j <= i; j++) {
            assert_true(r.gram[i * NARROW + j] == before[features[i] * WIDE + features[j]]);
        }
        double cross = 0.0;
        for (int64_t h = 0; h < WIDE; h++) {
            const int64_t row = h > features[i] ? h : features[i];
            const int64_t column = h > features[i] ? features[i] : h;
            const bool removed = grail_reducer_label(reducer, h / U) < 0;
            cross += removed ? (double)weight[h] * before[row * WIDE + column] : 0.0;
        }
        assert_near(r.cross[i], cross, 1e-8);
    }
    memory_free(before);
    regression_fini(&r);
    grail_statistics_free(s);
    grail_reducer_free(reducer);
}

static void errors_are_measured_on_at_most_512_outputs(void **state)
{
    (void)state;
    assert_int_equal(regression_measured_stride(1), 1);
    assert_int_equal(regression_measured_stride(512), 1);
    assert_int_equal(regression_measured_stride(513), 2);
    assert_int_equal(regression_measured_stride(1025), 3);
}

/* G = I: the residual square of output o is the square of its removed weight, here o. */
static void measured_outputs_are_every_stride_th(void **state)
{
    (void)state;
    enum { MANY = 1100 };
    const int64_t kept[] = {0};
    float weight[2 * MANY];
    for (int64_t i = 0; i < MANY; i++) {
        weight[2 * i] = 1.0F;
        weight[2 * i + 1] = (float)i;
    }
    grail_reducer *reducer = NULL;
    grail_statistics *s = NULL;
    regression r = {0};
    assert_ok(grail_reducer_from_selection(2, 1, kept, &reducer));
    assert_ok(grail_statistics_create(2, 0, &s));
    s->gram[0] = 1.0;
    s->gram[3] = 1.0;
    assert_ok(regression_from_selection(&backend_ref, s, reducer, 1, MANY, weight, &r));
    for (int64_t i = 0; i < MANY; i += regression_measured_stride(MANY)) {
        assert_near(r.residual_square[i], (double)(i * i), 0.0);
        assert_near(r.target_square[i], (double)(i * i + 1), 0.0);
    }
    regression_fini(&r);
    grail_statistics_free(s);
    grail_reducer_free(reducer);
}

static void keeping_everything_leaves_no_residual(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 6);
    int64_t all[H];
    for (int64_t h = 0; h < H; h++) {
        all[h] = h;
    }
    grail_reducer *reducer = NULL;
    regression r = {0};
    grail_statistics *s = oracle_statistics(&backend_ref, &o, 0, T, false);
    assert_ok(grail_reducer_from_selection(H, H, all, &reducer));
    assert_ok(regression_from_selection(&backend_ref, s, reducer, 1, O, o.consumer, &r));
    for (int64_t i = 0; i < O * H; i++) {
        assert_true(r.cross[i] == 0.0);
    }
    assert_true(r.residual_sum[0] == 0.0 && r.residual_square[0] == 0.0);
    regression_fini(&r);
    grail_statistics_free(s);
    grail_reducer_free(reducer);
}

static void shapes_that_do_not_fit_leave_the_statistics_alone(void **state)
{
    (void)state;
    oracle o;
    oracle_fill(&o, 7);
    const int64_t labels[H] = {0};
    grail_reducer *reducer = oracle_reducer();
    grail_reducer *folding = NULL;
    regression r = {0};
    grail_statistics *s = oracle_statistics(&backend_ref, &o, 0, T, true);
    grail_statistics *own = oracle_statistics(&backend_ref, &o, 0, T, false);
    assert_ok(grail_reducer_from_labels(H, 1, labels, &folding));
    assert_fails(regression_from_selection(&backend_ref, s, reducer, 2, O, o.consumer, &r),
                 GRAIL_ERROR_SHAPE, "12 features, but the reducer has 12 units of 2");
    assert_fails(regression_from_selection(&backend_ref, s, reducer, 1, O - 1, o.consumer, &r),
                 GRAIL_ERROR_SHAPE, "4 outputs, but the target has 5");
    assert_fails(regression_from_selection(&backend_ref, s, folding, 1, O, o.consumer, &r),
                 GRAIL_ERROR_ARGUMENT, "folded input");
    assert_fails(regression_from_measured(&backend_ref, own, o.consumer, &r), GRAIL_ERROR_ARGUMENT,
                 "need a target");
    assert_non_null(s->gram);
    assert_non_null(own->gram);
    grail_statistics_free(s);
    grail_statistics_free(own);
    grail_reducer_free(reducer);
    grail_reducer_free(folding);
}

static grail_status build_regression(void *context)
{
    const bool *target = context;
    const int64_t kept[] = {0, 2};
    const float weight[] = {1, 2, 3};
    grail_statistics *s = NULL;
    grail_reducer *reducer = NULL;
    regression r = {0};
    grail_status status = grail_statistics_create(3, *target ? 1 : 0, &s);
    if (status == GRAIL_OK) {
        status = grail_reducer_from_selection(3, 2, kept, &reducer);
    }
    if (status == GRAIL_OK) {
        status = regression_from_selection(&backend_ref, s, reducer, 1, 1, weight, &r);
    }
    regression_fini(&r);
    grail_reducer_free(reducer);
    grail_statistics_free(s);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    bool target = false;
    support_fail_each_allocation(build_regression, &target);
    target = true;
    support_fail_each_allocation(build_regression, &target);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_residual_of_the_own_output_equals_its_definition),
        cmocka_unit_test(the_residual_of_a_given_target_equals_its_definition),
        cmocka_unit_test(the_cpu_backend_agrees_with_the_definition),
        cmocka_unit_test(measured_statistics_of_the_narrow_input_give_the_same_sums),
        cmocka_unit_test(parts_add_up_to_the_whole),
        cmocka_unit_test(parts_of_different_shapes_do_not_add),
        cmocka_unit_test(compaction_in_place_equals_the_plain_gather),
        cmocka_unit_test(errors_are_measured_on_at_most_512_outputs),
        cmocka_unit_test(measured_outputs_are_every_stride_th),
        cmocka_unit_test(keeping_everything_leaves_no_residual),
        cmocka_unit_test(shapes_that_do_not_fit_leave_the_statistics_alone),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
