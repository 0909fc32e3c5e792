#include "reduce/fold.h"

#include "base/parallel.h"
#include "support/matrices.h"

#include <math.h>
#include <string.h>

static const kmeans_options usual = {.restarts = 4, .sweeps = 20, .stop_changes = 0.0, .seed = 42};

/* P = X X^T of points[n, d], lower triangle; the upper one is poisoned. */
static matrix products_of(int64_t n, int64_t d, const float *points)
{
    OWNED(double) *products = NULL;
    assert_ok(memory_new(&products, (size_t)(n * n), sizeof *products));
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            for (int64_t c = 0; c < d; c++) {
                products[i * n + j] += (double)points[i * d + c] * (double)points[j * d + c];
            }
            products[i * n + j] = j > i ? (double)NAN : products[i * n + j];
        }
    }
    const matrix made = support_matrix(backend_host(), n, n, products);
    return made;
}

/* sum_i ||x_i - c_label(i)||^2 straight from the points */
static double inertia_of(int64_t n, int64_t d, int64_t clusters, const float *points,
                         const int64_t *labels)
{
    double inertia = 0.0;
    for (int64_t t = 0; t < clusters; t++) {
        for (int64_t c = 0; c < d; c++) {
            double sum = 0.0;
            double squares = 0.0;
            int64_t members = 0;
            for (int64_t i = 0; i < n; i++) {
                const double x = labels[i] == t ? (double)points[i * d + c] : 0.0;
                sum += x;
                squares += x * x;
                members += labels[i] == t;
            }
            assert_true(members > 0);
            inertia += squares - sum * sum / (double)members;
        }
    }
    return inertia;
}

TEST(the_inertia_is_that_of_the_points_and_no_cluster_is_empty)
{
    enum { N = 60, D = 3 };
    float points[N * D];
    support_fill_normal(points, N * D, 5);
    for (int64_t clusters = 1; clusters <= N; clusters += 7) {
        int64_t labels[N];
        double inertia = 0.0;
        OWNED(matrix) products = products_of(N, D, points);
        assert_ok(kmeans_hartigan(clusters, products, &usual, labels, &inertia, NULL));
        assert_near(inertia, inertia_of(N, D, clusters, points, labels), 1e-9);
    }
}

TEST(the_inertia_never_increases_from_sweep_to_sweep)
{
    enum { N = 120, D = 4, SWEEPS = 20 };
    float points[N * D];
    for (uint64_t seed = 0; seed < 10; seed++) {
        support_fill_normal(points, N * D, seed);
        int64_t labels[N];
        double inertia = 0.0;
        double trace[SWEEPS];
        OWNED(matrix) products = products_of(N, D, points);
        assert_ok(kmeans_hartigan(50, products, &usual, labels, &inertia, trace));
        double last = trace[0];
        assert_false(isnan(trace[1]));
        for (int s = 1; s < SWEEPS && !isnan(trace[s]); s++) {
            assert_true(trace[s] <= last + 1e-9);
            last = trace[s];
        }
        assert_near(last, inertia, 0.0);
    }
}

/* Small clusters, where the weight n / (n + 1) of Hartigan's rule matters. */
enum { MOVED = 40, MOVED_CLUSTERS = 18, MOVED_COLUMNS = 2 };

static void assert_no_move_improves(const float *points, int64_t *labels, double inertia)
{
    for (int64_t i = 0; i < MOVED; i++) {
        const int64_t home = labels[i];
        int64_t members = 0;
        for (int64_t j = 0; j < MOVED; j++) {
            members += labels[j] == home;
        }
        for (int64_t t = 0; members > 1 && t < MOVED_CLUSTERS; t++) {
            labels[i] = t;
            assert_true(inertia_of(MOVED, MOVED_COLUMNS, MOVED_CLUSTERS, points, labels) >=
                        inertia - 1e-9);
        }
        labels[i] = home;
    }
}

TEST(no_single_move_improves_the_result)
{
    float points[MOVED * MOVED_COLUMNS];
    for (uint64_t seed = 0; seed < 10; seed++) {
        support_fill_normal(points, MOVED * MOVED_COLUMNS, seed);
        int64_t labels[MOVED];
        double inertia = 0.0;
        OWNED(matrix) products = products_of(MOVED, MOVED_COLUMNS, points);
        const kmeans_options patient = {.restarts = 1, .sweeps = 200, .seed = seed};
        assert_ok(kmeans_hartigan(MOVED_CLUSTERS, products, &patient, labels, &inertia, NULL));
        assert_no_move_improves(points, labels, inertia);
    }
}

TEST(separate_groups_are_found_and_numbered_by_their_first_member)
{
    enum { N = 12 };
    const int64_t group[N] = {2, 0, 1, 1, 2, 0, 0, 2, 1, 2, 0, 1};
    const int64_t expected[N] = {0, 1, 2, 2, 0, 1, 1, 0, 2, 0, 1, 2};
    float points[2 * N];
    support_fill_normal(points, 2 * N, 4);
    for (int64_t i = 0; i < N; i++) {
        points[2 * i] += 100.0F * (float)group[i];
    }
    int64_t labels[N];
    double inertia = 0.0;
    OWNED(matrix) products = products_of(N, 2, points);
    assert_ok(kmeans_hartigan(3, products, &usual, labels, &inertia, NULL));
    assert_memory_equal(labels, expected, sizeof expected);
}

TEST(duplicated_points_share_a_cluster)
{
    enum { N = 200, D = 8 };
    float points[N * D];
    support_fill_normal(points, N * D, 6);
    memcpy(points + N / 2 * D, points, sizeof points / 2);
    int64_t labels[N];
    double inertia = 1.0;
    OWNED(matrix) products = products_of(N, D, points);
    assert_ok(kmeans_hartigan(N / 2, products, &usual, labels, &inertia, NULL));
    assert_near(inertia, 0.0, 1e-9);
    assert_memory_equal(labels, labels + N / 2, N / 2 * sizeof *labels);
}

TEST(more_clusters_than_different_points_leave_none_empty)
{
    const float points[] = {3, 3, 3, 5, 5, 3};
    int64_t labels[6];
    double inertia = 1.0;
    OWNED(matrix) products = products_of(6, 1, points);
    assert_ok(kmeans_hartigan(4, products, &usual, labels, &inertia, NULL));
    assert_near(inertia, inertia_of(6, 1, 4, points, labels), 1e-9);
    assert_near(inertia, 0.0, 1e-9);
}

/* Units whose inner products say little or nothing of their distances. */
enum { NASTY = 24, NASTY_COLUMNS = 3, NASTY_POINTS = NASTY * NASTY_COLUMNS };
typedef enum nasty_kind { LONG, TINY, EQUAL, NEARLY_EQUAL, MIXED, ZERO, NASTY_KINDS } nasty_kind;

static void make_nasty(nasty_kind kind, uint64_t seed, float *points)
{
    support_fill_normal(points, NASTY_POINTS, seed);
    for (int64_t i = 0; i < NASTY_POINTS; i++) {
        const float normal = points[i];
        const float of_kind[NASTY_KINDS] = {
            [LONG] = 1e18F * normal,
            [TINY] = 1e-18F * normal,
            [EQUAL] = 1.1F + (float)(i % NASTY_COLUMNS),
            [NEARLY_EQUAL] = 1e9F + 64.0F * normal, /* neighbours in f32 are 64 apart */
            [MIXED] = i % 2 == 0 ? 1e9F + 64.0F * normal : normal,
        };
        points[i] = of_kind[kind];
    }
}

/* sum_i P_ii - sum_t sum_ij P_ij / n_t, with an assertion that no cluster is empty. */
static double inertia_of_products(const double *products, int64_t clusters, const int64_t *labels)
{
    double inertia = 0.0;
    for (int64_t t = 0; t < clusters; t++) {
        double own = 0.0;
        double pairs = 0.0;
        int64_t members = 0;
        for (int64_t i = 0; i < NASTY; i++) {
            members += labels[i] == t;
            own += labels[i] == t ? products[i * NASTY + i] : 0.0;
            for (int64_t j = 0; j < NASTY; j++) {
                pairs += labels[i] == t && labels[j] == t ? products[i * NASTY + j] : 0.0;
            }
        }
        assert_true(members > 0);
        inertia += own - pairs / (double)members;
    }
    return inertia;
}

/* The start with its sweeps is no worse than the start, and both have all K clusters. */
static void check_nasty(matrix products, int64_t clusters, uint64_t seed)
{
    int64_t labels[NASTY];
    double inertia[2] = {-1.0, -1.0};
    double squares = 0.0;
    for (int64_t i = 0; i < NASTY; i++) {
        squares += support_element(products, i, i);
    }
    for (int swept = 0; swept <= 1; swept++) {
        const kmeans_options options = {.restarts = 1, .sweeps = 20 * swept, .seed = seed};
        assert_ok(kmeans_hartigan(clusters, products, &options, labels, &inertia[swept], NULL));
        OWNED(double) *values = support_values(products);
        assert_near(inertia[swept], fmax(0.0, inertia_of_products(values, clusters, labels)),
                    1e-12 * squares);
    }
    assert_true(inertia[1] <= inertia[0] + 1e-12 * squares);
}

TEST(no_input_empties_a_cluster_or_ends_worse_than_it_began)
{
    static const int64_t counts[] = {1, 2, NASTY / 2, NASTY - 1, NASTY};
    backend *const instances[] = {on_ref, on_cpu};
    for (int run = 0; run < 20 * NASTY_KINDS; run++) {
        float points[NASTY_POINTS];
        OWNED(matrix) products = no_matrix;
        make_nasty((nasty_kind)(run % NASTY_KINDS), (uint64_t)run, points);
        assert_ok(matrix_new_zero(instances[run / NASTY_KINDS % 2], GRAIL_DTYPE_F64, NASTY, NASTY,
                                  &products));
        assert_ok(fold_add_rows(1, NASTY_COLUMNS, points, products));
        for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
            check_nasty(products, counts[k], (uint64_t)run);
        }
    }
}

TEST(the_answer_repeats_and_does_not_depend_on_the_threads)
{
    enum { N = 80, D = 5, CLUSTERS = 30 };
    float points[N * D];
    int64_t labels[3][N];
    double inertia[3];
    support_fill_normal(points, N * D, 8);
    const int threads = parallel_threads();
    for (int run = 0; run < 3; run++) {
        parallel_set_threads(run + 1);
        OWNED(matrix) products = products_of(N, D, points);
        assert_ok(kmeans_hartigan(CLUSTERS, products, &usual, labels[run], &inertia[run], NULL));
    }
    parallel_set_threads(threads);
    assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    assert_memory_equal(labels[0], labels[2], sizeof labels[0]);
    assert_true(inertia[0] == inertia[1] && inertia[0] == inertia[2]);
}

TEST(more_restarts_never_end_worse)
{
    enum { N = 50, D = 3 };
    float points[N * D];
    support_fill_normal(points, N * D, 2);
    double last = INFINITY;
    for (int restarts = 1; restarts <= 16; restarts *= 2) {
        int64_t labels[N];
        double inertia = 0.0;
        const kmeans_options options = {.restarts = restarts, .sweeps = 20, .seed = 5};
        OWNED(matrix) products = products_of(N, D, points);
        assert_ok(kmeans_hartigan(8, products, &options, labels, &inertia, NULL));
        assert_true(inertia <= last);
        last = inertia;
    }
}

TEST(as_many_clusters_as_points_is_the_identity)
{
    const float points[] = {1, 1, 2};
    const int64_t expected[] = {0, 1, 2};
    int64_t labels[3];
    double inertia = 1.0;
    OWNED(matrix) products = products_of(3, 1, points);
    assert_ok(kmeans_hartigan(3, products, &usual, labels, &inertia, NULL));
    assert_memory_equal(labels, expected, sizeof expected);
    assert_near(inertia, 0.0, 1e-12);
}

TEST(impossible_counts_and_nan_are_refused)
{
    const double values[] = {1, 0, NAN, 1};
    OWNED(matrix) products = support_matrix(backend_host(), 2, 2, values);
    int64_t labels[2];
    double inertia = 0.0;
    assert_fails(kmeans_hartigan(3, products, &usual, labels, &inertia, NULL), GRAIL_ERROR_ARGUMENT,
                 "2 units into 3 clusters");
    assert_fails(kmeans_hartigan(0, products, &usual, labels, &inertia, NULL), GRAIL_ERROR_ARGUMENT,
                 "into 0 clusters");
    assert_fails(kmeans_hartigan(1, products, &usual, labels, &inertia, NULL), GRAIL_ERROR_NUMERIC,
                 "units 1 and 0");
}

/* Products of units straight from in[rows, columns]: unit j owns a block of rows or of columns. */
static double unit_product(const float *in, int64_t columns, bool by_rows, int64_t units, int64_t u,
                           int64_t rows, int64_t i, int64_t j)
{
    double sum = 0.0;
    for (int64_t f = 0; f < u; f++) {
        for (int64_t c = 0; c < (by_rows ? columns : rows); c++) {
            const int64_t a = by_rows ? (i * u + f) * columns + c : c * units * u + i * u + f;
            const int64_t b = by_rows ? (j * u + f) * columns + c : c * units * u + j * u + f;
            sum += (double)in[a] * (double)in[b];
        }
    }
    return sum;
}

static void assert_products(backend *b, bool by_rows, double tolerance)
{
    enum { UNITS = 19, U = 3, LENGTH = 70 };
    float in[UNITS * U * LENGTH];
    support_fill_normal(in, UNITS * U * LENGTH, 1);
    OWNED(matrix) products = no_matrix;
    assert_ok(matrix_new_zero(b, GRAIL_DTYPE_F64, UNITS, UNITS, &products));
    support_set_element(products, 0, 0, 1.0); /* sums are added to what is there */
    if (by_rows) {
        assert_ok(fold_add_rows(U, LENGTH, in, products));
    } else {
        assert_ok(fold_add_columns(U, LENGTH, in, products));
    }
    support_set_element(products, 0, 0, support_element(products, 0, 0) - 1.0);
    for (int64_t i = 0; i < UNITS; i++) {
        for (int64_t j = 0; j <= i; j++) {
            assert_near(support_element(products, i, j),
                        unit_product(in, LENGTH, by_rows, UNITS, U, LENGTH, i, j), tolerance);
        }
    }
}

TEST(row_blocks_give_their_inner_products)
{
    assert_products(on_ref, true, 1e-10);
    assert_products(on_cpu, true, 1e-3);
}

TEST(column_blocks_give_their_inner_products)
{
    assert_products(on_ref, false, 1e-10);
    assert_products(on_cpu, false, 1e-3);
}

/* Longer than one panel: 2 units of 2^20 components. */
TEST(long_units_are_added_panel_by_panel)
{
    enum { LENGTH = 1 << 20 };
    OWNED(float) *in = NULL;
    OWNED(matrix) products = no_matrix;
    assert_ok(matrix_new_zero(on_ref, GRAIL_DTYPE_F64, 2, 2, &products));
    assert_ok(memory_new(&in, (size_t)2 * LENGTH, sizeof *in));
    for (int64_t i = 0; i < LENGTH; i++) {
        in[i] = 1.0F;
        in[LENGTH + i] = i % 2 == 0 ? 2.0F : 0.0F;
    }
    assert_ok(fold_add_rows(1, LENGTH, in, products));
    assert_near(support_element(products, 0, 0), LENGTH, 0.0);
    assert_near(support_element(products, 1, 0), LENGTH, 0.0);
    assert_near(support_element(products, 1, 1), 2.0 * LENGTH, 0.0);
}

static grail_status cluster_rows(void *context)
{
    const float in[] = {1, 2, 3, 5};
    OWNED(matrix) products = no_matrix;
    int64_t labels[4];
    double inertia = 0.0;
    CHECK(matrix_new_zero(on_ref, GRAIL_DTYPE_F64, 4, 4, &products));
    CHECK(fold_add_rows(1, 1, in, products));
    return kmeans_hartigan(2, products, &usual, labels, &inertia, NULL);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(cluster_rows, NULL);
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
