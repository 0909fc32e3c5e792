#include "support/matrices.h"

#include "support/guarded.h"

#include <limits.h>
#include <stdlib.h>

backend *on_ref;
backend *on_cpu;

int open_backends(void **state)
{
    const bool guarded = getenv("GRAIL_TEST_GUARDED") != NULL;
    (void)state;
    guarded_add();
    assert_ok(backend_open("ref", NULL, &on_ref));
    assert_ok(backend_open(guarded ? "guarded" : "cpu", NULL, &on_cpu));
    return 0;
}

int close_backends(void **state)
{
    (void)state;
    backend_close(on_ref);
    backend_close(on_cpu);
    return 0;
}

static void no_matrix_is_left(void **state)
{
    (void)state;
    if (on_ref != NULL) {
        assert_ok(backend_settle(on_cpu, GRAIL_OK)); /* of what no caller settled */
        assert_int_equal(backend_bytes(on_ref), 0);
        assert_int_equal(backend_bytes(on_cpu), 0);
    }
    assert_int_equal(backend_bytes(backend_host()), 0);
}

__attribute__((constructor)) static void no_matrix_is_left_is_a_test(void)
{
    support_add_test(INT_MAX, "no_matrix_is_left", no_matrix_is_left, NULL, NULL);
}

matrix support_matrix(backend *b, int64_t rows, int64_t columns, const double *values)
{
    matrix m = no_matrix;
    assert_ok(matrix_new(b, GRAIL_DTYPE_F64, rows, columns, &m));
    assert_ok(matrix_upload(m, values));
    return m;
}

matrix support_rows(backend *b, int64_t rows, int64_t columns, int64_t stride, const float *values)
{
    matrix m = no_matrix;
    assert_ok(matrix_new(b, backend_type(b), rows, columns, &m));
    for (int64_t r = 0; r < rows; r++) {
        assert_ok(matrix_upload_f32(matrix_rows(m, r, 1), values + r * stride));
    }
    return m;
}

double *support_values(matrix m)
{
    double *values = NULL;
    assert_ok(memory_new_unset(&values, (size_t)matrix_count(m), sizeof *values));
    assert_ok(matrix_download(m, values));
    return values;
}

static matrix element(matrix m, int64_t row, int64_t column)
{
    assert_true(row < m.rows && column < m.columns);
    return matrix_columns(matrix_rows(m, row, 1), column, 1);
}

double support_element(matrix m, int64_t row, int64_t column)
{
    double value = 0.0;
    assert_ok(matrix_download(element(m, row, column), &value));
    return value;
}

void support_set_element(matrix m, int64_t row, int64_t column, double value)
{
    assert_ok(matrix_upload(element(m, row, column), &value));
}
