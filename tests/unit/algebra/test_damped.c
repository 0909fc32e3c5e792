/* Factorisations of A_c + lambda S, by what they promise: residuals, and an A that comes back. */
#include "algebra/damped.h"

#include "support/matrices.h"

enum { T = 40, N = 6, CONSTANT = 4 };

/* Sums of T rows of N features with means that are not 0, one of which does not vary but for the
 * rounding of G. */
typedef struct sums {
    double gram[N * N];
    double sum[N];
    double centred[N * N]; /* G - s s^T / T, exactly 0 where a feature is constant */
} sums;

static void fill(sums *s)
{
    float x[T * N];
    *s = (sums){0};
    support_fill_normal(x, T * N, 5);
    for (int64_t i = 0; i < T * N; i++) {
        x[i] = i % N == CONSTANT ? 3.0F : x[i] + (float)(i % N);
        s->sum[i % N] += (double)x[i];
    }
    for (int64_t i = 0; i < N * N; i++) {
        for (int64_t t = 0; t < T; t++) {
            s->gram[i] += (double)x[t * N + i / N] * (double)x[t * N + i % N];
        }
        const bool constant = i / N == CONSTANT || i % N == CONSTANT;
        s->gram[i] *= constant ? 1.0 + 1e-8 : 1.0;
        s->centred[i] = constant ? 0.0 : s->gram[i] - s->sum[i / N] * s->sum[i % N] / T;
    }
}

static void assert_matrix(matrix m, const double *expected, double tolerance)
{
    for (int64_t i = 0; i < N * N; i++) {
        assert_near(support_element(m, i / N, i % N), expected[i], tolerance);
    }
}

/* || X (A_c + lambda S) - B || with the X that the factor gives for B = (1, 2, 3, ...). */
static void assert_solves(const damped_gram *d, const double *a)
{
    double b[N];
    for (int64_t i = 0; i < N; i++) {
        b[i] = (double)(i + 1);
    }
    OWNED(matrix) x = support_matrix(d->gram.owner, 1, N, b);
    assert_ok(matrix_cholesky_solve(d->gram, x));
    for (int64_t j = 0; j < N; j++) {
        double product = 0.0;
        for (int64_t i = 0; i < N; i++) {
            const double penalty = d->lambda * (d->share == NULL ? 1.0 : d->share[j]);
            product += support_element(x, 0, i) * (a[i * N + j] + (i == j ? penalty : 0.0));
        }
        assert_near(product, b[j], 1e-10);
    }
}

TEST(factors_solve_the_damped_system_and_sums_come_back)
{
    static const double share[N] = {1, 2, 0.5, 3, 1, 0.25};
    backend *const backends[] = {on_ref, on_cpu};
    sums s;
    fill(&s);
    for (int i = 0; i < 8; i++) {
        const bool centred = i / 2 % 2 == 1;
        OWNED(damped_gram) d = {0};
        int64_t failing = 0;
        OWNED(matrix) gram = support_matrix(backends[i % 2], N, N, s.gram);
        assert_ok(damped_init(&d, gram, centred ? s.sum : NULL, T, 1e-6));
        assert_true(d.constant[CONSTANT] == centred);
        d.share = i / 4 == 0 ? NULL : share;
        for (double lambda = 1.0; lambda < 500.0; lambda *= 20.0) {
            assert_ok(damped_factor(&d, lambda, &failing));
            assert_int_equal(failing, -1);
            assert_int_equal(d.raises, 0);
            assert_solves(&d, centred ? s.centred : s.gram);
        }
        assert_ok(damped_restore(&d));
        assert_matrix(gram, s.gram, 0.0);
    }
}

/* What is added to the diagonal in the end belongs to A_c, whose mean diagonal scales it. */
TEST(lambda_is_raised_as_far_as_it_must)
{
    double equal[N * N] = {0};
    double indefinite[N * N] = {0};
    for (int64_t i = 0; i < N * N; i += N + 1) {
        equal[i] = indefinite[i] = 2.0;
    }
    equal[1] = equal[N] = 2.0;
    indefinite[2] = indefinite[2 * N] = 3.0;
    backend *const backends[] = {on_ref, on_cpu};
    for (int b = 0; b < 2; b++) {
        damped_gram d = {0};
        int64_t failing = 0;
        matrix gram = support_matrix(backends[b], N, N, equal);
        assert_ok(damped_init(&d, gram, NULL, 0.0, 0.0));
        assert_ok(damped_factor(&d, 0.0, &failing));
        assert_int_equal(failing, -1);
        assert_int_equal(d.raises, 1);
        assert_near(d.lambda, 2e-8, 1e-22);
        damped_fini(&d);
        matrix_free(&gram);
        gram = support_matrix(backends[b], N, N, indefinite);
        assert_ok(damped_init(&d, gram, NULL, 0.0, 0.0));
        assert_ok(damped_factor(&d, 0.0, &failing));
        assert_int_equal(failing, 2);
        assert_int_equal(d.raises, 6);
        assert_near(d.lambda, 2e-3, 1e-15);
        assert_ok(damped_restore(&d));
        assert_matrix(gram, indefinite, 0.0);
        damped_fini(&d);
        matrix_free(&gram);
    }
}

/* The matrix has rank 2, so that all later pivots are rounding errors of either sign. */
TEST(pivots_of_rounding_count_as_failed)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        float rows[2 * N];
        double gram[N * N];
        OWNED(damped_gram) d = {0};
        int64_t failing = 0;
        support_fill_normal(rows, 2 * N, seed);
        for (int64_t i = 0; i < N * N; i++) {
            gram[i] = (double)rows[i / N] * (double)rows[i % N] +
                      (double)rows[N + i / N] * (double)rows[N + i % N];
        }
        OWNED(matrix) m = support_matrix(on_ref, N, N, gram);
        assert_ok(damped_init(&d, m, NULL, 0.0, 0.0));
        assert_ok(damped_factor(&d, 0.0, &failing));
        assert_int_equal(failing, -1);
        assert_int_equal(d.raises, 1);
    }
}

static grail_status factor_once(void *context)
{
    const sums *s = context;
    OWNED(damped_gram) d = {0};
    int64_t failing = 0;
    OWNED(matrix) gram = no_matrix;
    CHECK(matrix_new(on_ref, GRAIL_DTYPE_F64, N, N, &gram));
    CHECK(matrix_upload(gram, s->gram));
    CHECK(damped_init(&d, gram, s->sum, T, 1e-13));
    d.share = d.diagonal;
    return damped_factor(&d, 1.0, &failing);
}

TEST(every_failing_allocation_is_survived)
{
    sums s;
    fill(&s);
    support_fail_each_allocation(factor_once, &s);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
