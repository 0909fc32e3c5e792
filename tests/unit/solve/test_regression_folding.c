/* The regression of a folding from statistics of the input before it, Z = X M. */
#include "oracle.h"

#include <string.h>

/* Six units of two features in three clusters. */
enum {
    T = ORACLE_ROWS,
    H = ORACLE_WIDTH,
    O = ORACLE_OUTPUTS,
    U = 2,
    CLUSTERS = 3,
    K = CLUSTERS * U
};

static const int64_t labels[H / U] = {0, 1, 0, 2, 1, 0};

typedef struct folded {
    oracle o;
    grail_reducer *reducer;
    float prior[O * K]; /* sums of the members' columns */
    double z[T * K];    /* means of the members */
    double residual[T * O];
} folded;

static void setup(folded *f, uint64_t seed)
{
    oracle_fill(&f->o, seed);
    assert_ok(grail_reducer_from_labels(H / U, CLUSTERS, labels, &f->reducer));
    memset(f->z, 0, sizeof f->z);
    memset(f->prior, 0, sizeof f->prior);
    for (int64_t i = 0; i < T * H; i++) {
        const int64_t cluster = labels[i % H / U];
        const int64_t k = cluster * U + i % U;
        f->z[i / H * K + k] += (double)f->o.x[i] / (double)f->reducer->members[cluster];
        if (i < O * H) {
            f->prior[i / H * K + k] += f->o.consumer[i];
        }
    }
    for (int64_t i = 0; i < T * O; i++) {
        f->residual[i] = f->o.own[i];
        for (int64_t k = 0; k < K; k++) {
            f->residual[i] -= f->z[i / O * K + k] * (double)f->prior[i % O * K + k];
        }
    }
}

static double product(const double *a, int64_t a_stride, const double *b, int64_t b_stride)
{
    double sum = 0.0;
    for (int64_t t = 0; t < T; t++) {
        sum += a[t * a_stride] * b[t * b_stride];
    }
    return sum;
}

static void assert_sums(const folded *f, const regression *r, double tolerance)
{
    const double one = 1.0;
    double diagonal = 0.0;
    assert_int_equal(r->width, K);
    assert_int_equal(r->outputs, O);
    assert_true(r->weight == T);
    for (int64_t k = 0; k < K; k++) {
        assert_near(r->sum[k], product(f->z + k, K, &one, 0), tolerance);
        diagonal += product(f->z + k, K, f->z + k, K) / K;
        for (int64_t j = 0; j <= k; j++) {
            assert_near(support_element(r->gram, k, j), product(f->z + k, K, f->z + j, K),
                        tolerance);
        }
    }
    assert_near(r->full_diagonal, diagonal, tolerance);
    for (int64_t i = 0; i < O; i++) {
        const double *left = f->residual + i;
        for (int64_t k = 0; k < K; k++) {
            assert_near(support_element(r->cross, i, k), product(left, O, f->z + k, K), tolerance);
        }
        assert_near(r->residual_sum[i], product(left, O, &one, 0), tolerance);
        assert_near(r->residual_square[i], product(left, O, left, O), tolerance);
        assert_near(r->target_square[i], product(f->o.own + i, O, f->o.own + i, O), tolerance);
    }
}

TEST(every_sum_equals_its_definition_on_the_rows)
{
    folded f;
    static const double tolerances[] = {1e-9, 5e-3};
    backend *const backends[] = {on_ref, on_cpu};
    for (int b = 0; b < 2; b++) {
        regression r = {0};
        setup(&f, 21);
        grail_statistics *s = oracle_statistics(backends[b], &f.o, 0, T, false);
        assert_ok(oracle_regress(NULL, s, f.reducer, U, O, f.o.consumer, f.prior, &r));
        assert_sums(&f, &r, tolerances[b]);
        regression_fini(&r);
        grail_statistics_free(s);
        grail_reducer_free(f.reducer);
    }
}

TEST(equal_units_leave_no_residual)
{
    folded f;
    regression r = {0};
    oracle_fill(&f.o, 23);
    const int64_t first[CLUSTERS] = {0, 1, 3};
    for (int64_t i = 0; i < T * H; i++) {
        f.o.x[i] = f.o.x[i / H * H + first[labels[i % H / U]] * U + i % U];
    }
    const oracle equal = f.o;
    setup(&f, 23);
    f.o = equal;
    oracle_derive(&f.o);
    grail_statistics *s = oracle_statistics(on_ref, &f.o, 0, T, false);
    assert_ok(oracle_regress(NULL, s, f.reducer, U, O, f.o.consumer, f.prior, &r));
    for (int64_t i = 0; i < O * K; i++) {
        assert_near(support_element(r.cross, i / K, i % K), 0.0,
                    1e-3); /* the prior's sums are rounded to f32 */
    }
    for (int64_t i = 0; i < O; i++) {
        assert_near(r.residual_square[i] / r.target_square[i], 0.0, 1e-6);
    }
    regression_fini(&r);
    grail_statistics_free(s);
    grail_reducer_free(f.reducer);
}

static grail_status fold_once(void *context)
{
    folded *f = context;
    OWNED(regression) r = {0};
    OWNED(grail_statistics) *s = NULL;
    grail_status status = statistics_create(on_ref, H, 0, &s);
    if (status == GRAIL_OK) {
        status = oracle_regress(NULL, s, f->reducer, U, O, f->o.consumer, f->prior, &r);
    }
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    folded f;
    setup(&f, 24);
    support_fail_each_allocation(fold_once, &f);
    grail_reducer_free(f.reducer);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
