/* Operations that a backend leaves out: they are done on the host, counted, and give the same. */
#include "backend/kind.h"
#include "base/parallel.h"
#include "conformance/odd_backends.h"

#include <string.h>

TEST(test_operations_have_names_of_their_own)
{
    assert_int_equal(operation_count(), SLOT_COUNT);
    for (int i = 0; i < operation_count(); i++) {
        assert_non_null(operation_name(i));
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(operation_name(i), operation_name(j));
        }
    }
}

static const backend_kind *kind_of(const char *name)
{
    int i = 0;
    while (strcmp(backend_kind_name(backend_kind_at(i)), name) != 0) {
        i++;
    }
    return backend_kind_at(i);
}

TEST(test_a_backend_says_which_operations_it_leaves_out)
{
    for (int i = 0; i < operation_count(); i++) {
        const char *name = operation_name(i);
        const bool guarded_lacks = strcmp(name, "eigen") == 0 || strcmp(name, "fold_rows") == 0 ||
                                   strcmp(name, "windows") == 0 ||
                                   strcmp(name, "layer_norm") == 0 ||
                                   strcmp(name, "layer_norm_gradient") == 0;
        assert_false(backend_leaves_out(kind_of("cpu"), i));
        assert_false(backend_leaves_out(kind_of("ref"), i));
        assert_true(backend_leaves_out(kind_of("bare f32"), i));
        assert_true(backend_leaves_out(kind_of("guarded"), i) == guarded_lacks);
    }
}

/* A run of some operations; the results are owned by the caller. */
typedef double *(*some_operations)(backend *b, int64_t *count);

static double *take_results(matrix m, int64_t *count)
{
    double *out = results_of(m);
    *count = matrix_count(m);
    matrix_free(&m);
    return out;
}

static double *run_eigen(backend *b, int64_t *count)
{
    enum { N = 12 };
    OWNED(double) *a = normal_doubles(N * N, 1);
    matrix m = matrix_of(b, GRAIL_DTYPE_F64, N, N, a);
    OWNED(matrix) values = blank_of(b, GRAIL_DTYPE_F64, 1, N);
    assert_ok(matrix_eigen(m, values));
    return take_results(m, count);
}

static double *run_fold_rows(backend *b, int64_t *count)
{
    static const int64_t labels[] = {1, 0, 1};
    static const double share[] = {1.0, 0.3};
    OWNED(double) *x = normal_doubles(9 * 10, 2);
    OWNED(matrix) in = matrix_of(b, GRAIL_DTYPE_F64, 9, 10, x);
    matrix out = matrix_of(b, GRAIL_DTYPE_F64, 6, 10, x);
    assert_ok(
        matrix_fold_rows(3, labels, share, matrix_columns(in, 1, 7), matrix_columns(out, 2, 7)));
    return take_results(out, count);
}

static double *run_windows(backend *b, int64_t *count)
{
    const position_shape s = {2, {4, 6}, {2, 3}, WINDOW2D(2, 2, 2, 0, 1), 0};
    OWNED(float) *x = normals(48 * 5, 3, 1.0);
    OWNED(matrix) in = values_of(b, 48, 5, x);
    matrix out = blank_values(b, 12, 20);
    assert_ok(matrix_windows(&s, in, out));
    return take_results(out, count);
}

static double *run_layer_norm(backend *b, int64_t *count)
{
    OWNED(float) *x = normals(7 * 31, 4, 1.0);
    matrix m = values_of(b, 7, 31, x);
    OWNED(matrix) weight = values_of(b, 1, 31, x + 31);
    assert_ok(matrix_layer_norm(1e-5, m, weight, no_matrix, m));
    return take_results(m, count);
}

/* In place, with a missing bias. */
static double *run_layer_norm_gradient(backend *b, int64_t *count)
{
    float *x = normals(8 * 31, 4, 1.0);
    matrix in = values_of(b, 7, 31, x);
    matrix m = values_of(b, 8, 31, x);
    matrix weight = values_of(b, 1, 31, x + 31);
    const matrix dy = matrix_rows(m, 0, 7);
    assert_ok(
        matrix_layer_norm_gradient(1e-5, in, weight, dy, dy, matrix_rows(m, 7, 1), no_matrix));
    memory_free(x);
    free_matrices(&in, &weight);
    return take_results(m, count);
}

static void assert_same_bits(const char *name, const char *other, some_operations run)
{
    OWNED(backend) *b = open_with(name, 0);
    OWNED(backend) *like = open_with(other, 0);
    int64_t count = 0;
    double *actual = run(b, &count);
    double *expected = run(like, &count);
    assert_memory_equal(actual, expected, (size_t)count * sizeof *actual);
    free_blocks(actual, expected);
    assert_int_equal(backend_bytes(b), 0);
    assert_int_equal(backend_bytes(backend_host()), 0);
}

TEST(test_a_left_out_operation_has_the_bits_of_the_host)
{
    static const some_operations runs[] = {run_eigen, run_fold_rows, run_windows, run_layer_norm,
                                           run_layer_norm_gradient};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        assert_same_bits("guarded", "cpu", runs[i]);
        assert_same_bits("bare f32", "cpu", runs[i]);
        assert_same_bits("bare f64", "ref", runs[i]);
    }
}

static int slot_named(const char *name)
{
    int i = 0;
    while (strcmp(operation_name(i), name) != 0) {
        i++;
    }
    return i;
}

static void assert_counts(const backend *b, const char *name, int64_t times)
{
    for (int i = 0; i < operation_count(); i++) {
        assert_int_equal(backend_fallbacks(b, i), i == slot_named(name) ? times : 0);
    }
}

TEST(test_fallbacks_are_counted_for_each_instance)
{
    static const struct {
        const char *name;
        some_operations run;
    } cases[] = {{"eigen", run_eigen},
                 {"fold_rows", run_fold_rows},
                 {"windows", run_windows},
                 {"layer_norm", run_layer_norm},
                 {"layer_norm_gradient", run_layer_norm_gradient}};
    OWNED(backend) *cpu = open_with("cpu", 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        OWNED(backend) *b = open_with("guarded", 0);
        for (int times = 1; times <= 3; times++) {
            int64_t count = 0;
            memory_free(cases[i].run(b, &count));
            memory_free(cases[i].run(cpu, &count));
            assert_counts(b, cases[i].name, times);
            assert_counts(cpu, cases[i].name, 0);
        }
    }
}

/* Operations with repeated rows, strides, missing matrices, and results that are not matrices. */
static double *run_several(backend *b, int64_t *count)
{
    enum { ROWS = 6, COLUMNS = 8, WIDTH = 11 };
    static const int32_t target[ROWS] = {3, 1, 4, 1, 5, 2};
    int64_t found = 0;
    float *x = normals(ROWS * WIDTH, 5, 1.0);
    entropy_sums sums[ROWS];
    matrix in = values_of(b, ROWS, COLUMNS, x);
    matrix wide = values_of(b, ROWS, WIDTH, x);
    matrix product = blank_values(b, ROWS, ROWS);
    matrix row = values_of(b, 1, COLUMNS, x + ROWS);
    const matrix part = matrix_columns(wide, 2, COLUMNS);
    assert_ok(matrix_add(in, matrix_repeat_row(row, ROWS), part));
    assert_ok(matrix_subtract(matrix_repeat_row(row, ROWS), part, in));
    assert_ok(matrix_linear(in, in, no_matrix, product));
    assert_ok(matrix_cross_entropy(product, 0, target, sums));
    assert_ok(matrix_find_non_finite(false, wide, &found));
    assert_int_equal(found, -1);
    for (int64_t i = 0; i < ROWS; i++) { /* so that all results are in one matrix */
        x[i] = (float)entropy_of(&sums[i]);
    }
    assert_ok(matrix_upload_f32(matrix_columns(matrix_rows(wide, 1, 1), 0, ROWS), x));
    assert_ok(matrix_copy(product, matrix_columns(wide, 5, ROWS)));
    memory_free(x);
    free_matrices(&in, &product, &row);
    return take_results(wide, count);
}

TEST(test_the_host_takes_repeated_rows_strides_and_missing_matrices)
{
    assert_same_bits("bare f32", "cpu", run_several);
    assert_same_bits("bare f64", "ref", run_several);
    assert_same_bits("guarded", "cpu", run_several);
    assert_same_bits("distant", "cpu", run_several);
}

/* Bytes that an operation with a block of memory for each thread takes at most. */
static int64_t peak_of_gram(backend *b)
{
    enum { ROWS = 9000, COLUMNS = 16 };
    float *x = normals(ROWS * COLUMNS, 6, 1.0);
    matrix in = values_of(b, ROWS, COLUMNS, x);
    matrix g = zeros_in(b, GRAIL_DTYPE_F64, COLUMNS, COLUMNS);
    const int64_t before = memory_in_use();
    memory_peak_begin();
    assert_ok(matrix_gram(in, g));
    const int64_t peak = memory_peak() - before;
    memory_free(x);
    free_matrices(&in, &g);
    return peak;
}

TEST(test_the_host_works_with_the_instances_threads)
{
    const int before = parallel_threads();
    OWNED(backend) *one = open_with("bare f32", 1);
    OWNED(backend) *two = open_with("bare f32", 2);
    parallel_set_threads(1);
    const int64_t peak_of_one = peak_of_gram(one);
    const int64_t peak_of_two = peak_of_gram(two);
    assert_true(peak_of_two > peak_of_one);
    parallel_set_threads(2);
    assert_int_equal(peak_of_gram(one), peak_of_one);
    assert_int_equal(peak_of_gram(two), peak_of_two);
    assert_int_equal(parallel_threads(), 2);
    parallel_set_threads(before);
}

static grail_status fall_back(void *context)
{
    const matrix *m = context;
    const grail_status status = matrix_add(m[0], m[1], m[0]);
    assert_int_equal(backend_bytes(backend_host()), 0);
    return status;
}

TEST(test_a_fallback_without_memory_leaves_nothing_behind)
{
    OWNED(backend) *b = open_with("distant", 0);
    matrix m[] = {zeros_in(b, GRAIL_DTYPE_F32, 5, 6), zeros_in(b, GRAIL_DTYPE_F32, 5, 6)};
    const int64_t before = memory_in_use();
    support_fail_each_allocation(fall_back, m);
    assert_int_equal(memory_in_use(), before);
    free_matrices(&m[0], &m[1]);
}

TEST_IN(test_a_failing_transfer_is_reported, NULL, forget_failures)
{
    static const float values[30] = {0.0F};
    OWNED(backend) *b = open_with("distant", 0);
    OWNED(matrix) m = zeros_in(b, GRAIL_DTYPE_F32, 5, 6);
    matrix imported = {0};
    host_view v = {0};
    const int64_t before = memory_in_use();
    recorded.download = GRAIL_ERROR_IO;
    assert_fails(matrix_add(m, m, m), GRAIL_ERROR_IO, "cannot download");
    assert_fails(host_view_open(m, GRAIL_DTYPE_F64, HOST_UPDATES, &v), GRAIL_ERROR_IO, "download");
    assert_null(v.copy);
    recorded.download = GRAIL_OK;
    recorded.upload = GRAIL_ERROR_IO;
    assert_fails(matrix_add(m, m, m), GRAIL_ERROR_IO, "cannot upload");
    assert_fails(matrix_import(b, GRAIL_DTYPE_F32, 5, 6, 6, values, &imported), GRAIL_ERROR_IO,
                 "cannot upload");
    assert_false(matrix_exists(imported));
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    assert_fails(host_view_close(&v), GRAIL_ERROR_IO, "cannot upload");
    assert_null(v.copy);
    assert_int_equal(memory_in_use(), before);
}

CMFixtureFunction support_setup = add_odd_backends;
