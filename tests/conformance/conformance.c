#include "conformance/conformance.h"

#include "support/guarded.h"

#include <string.h>

enum { GUARD = 16 };

static const double guard_value = -12288.0; /* exact in 16 bits */

/* Type of values of the backend that was opened last. */
static grail_dtype type_at_hand = GRAIL_DTYPE_F32;

__attribute__((constructor)) static void add_backends(void)
{
    guarded_add();
}

/* The backend is of the i-th kind, or of the next one that this processor can compute with. */
static backend *open_kind(int i)
{
    backend *b = NULL;
    for (; b == NULL && backend_kind_at(i) != NULL; i++) {
        const backend_kind *kind = backend_kind_at(i);
        const backend_options options = {.precision = backend_kind_precision(kind)};
        const grail_status status = backend_open(backend_kind_name(kind), &options, &b);
        if (status != GRAIL_ERROR_UNSUPPORTED) {
            assert_ok(status);
        }
    }
    type_at_hand = b == NULL ? GRAIL_DTYPE_F32 : backend_type(b);
    return b;
}

backend *backend_first(void)
{
    return open_kind(0);
}

backend *backend_after(backend *b)
{
    int i = 0;
    while (strcmp(backend_kind_name(backend_kind_at(i)), backend_name(b)) != 0 ||
           strcmp(backend_kind_precision(backend_kind_at(i)), backend_precision(b)) != 0) {
        i++;
    }
    if (backend_bytes(b) != 0) {
        fail_msg("%lld bytes of matrices of '%s' were not freed", (long long)backend_bytes(b),
                 backend_name(b));
    }
    backend_close(b);
    return open_kind(i + 1);
}

bool has_foreign_memory(const backend *b)
{
    return strncmp(backend_name(b), "torch", 5) == 0;
}

double rounding_of(grail_dtype type)
{
    return type == GRAIL_DTYPE_F64    ? 0x1p-53
           : type == GRAIL_DTYPE_F32  ? 0x1p-24
           : type == GRAIL_DTYPE_BF16 ? 0x1p-8
                                      : 0x1p-11;
}

double rounding(const backend *b)
{
    return rounding_of(backend_type(b));
}

/* What two parts of bf16 leave of a value. */
#define TWO_PARTS 0x1p-16

double unit_of_operands(const backend *b)
{
    return strcmp(backend_precision(b), "bf16x3") == 0     ? TWO_PARTS
           : strncmp(backend_precision(b), "bf16", 4) == 0 ? 0x1p-8
           : backend_type(b) == GRAIL_DTYPE_F16            ? 0x1p-11
                                                           : 0.0;
}

double rounding_of_products(const backend *b, int64_t terms)
{
    const double operand = unit_of_operands(b);
    return operand > 0.0 ? 2.0 * operand + operand * operand + (double)(terms + 1) * rounding(b)
                         : 32.0 * rounding(b);
}

static float rounded_to(grail_dtype type, float value)
{
    uint16_t rounded = 0;
    assert_ok(convert_from_f32(type, &value, 1, &rounded));
    assert_ok(convert_to_f32(type, &rounded, 1, &value));
    return value;
}

double as_operand(const backend *b, float value)
{
    const grail_dtype type =
        backend_type(b) == GRAIL_DTYPE_F16 ? GRAIL_DTYPE_F16 : GRAIL_DTYPE_BF16;
    return (double)(unit_of_operands(b) > TWO_PARTS ? rounded_to(type, value) : value);
}

float as_summed(const backend *b, float value)
{
    return strcmp(backend_precision(b), "bf16-gram") == 0 ? rounded_to(GRAIL_DTYPE_BF16, value)
                                                          : value;
}

float *normals(int64_t count, uint64_t seed, double deviation)
{
    float *values = NULL;
    assert_ok(memory_new_unset(&values, (size_t)count, sizeof *values));
    support_fill_normal(values, count, seed);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)((double)values[i] * deviation);
        values[i] =
            element_size(type_at_hand) == 2 ? rounded_to(type_at_hand, values[i]) : values[i];
    }
    return values;
}

float largest_value(const backend *b)
{
    return backend_type(b) == GRAIL_DTYPE_F16 ? 65504.0F : 3.38e38F;
}

float held(const backend *b, float value)
{
    const grail_dtype type = backend_type(b);
    return element_size(type) == 2 ? rounded_to(type, value) : value;
}

static double *widened(int64_t count, const float *values)
{
    double *out = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        out[i] = (double)values[i];
    }
    return out;
}

double *normal_doubles(int64_t count, uint64_t seed)
{
    OWNED(float) *values = normals(count, seed, 1.0);
    double *out = widened(count, values);
    return out;
}

double *doubles(int64_t count, double value)
{
    double *out = NULL;
    assert_ok(memory_new_unset(&out, (size_t)count, sizeof *out));
    for (int64_t i = 0; i < count; i++) {
        out[i] = value;
    }
    return out;
}

double *copy_of_doubles(int64_t count, const double *values)
{
    double *out = doubles(count, 0.0);
    memcpy(out, values, (size_t)count * sizeof *out);
    return out;
}

/* All of an allocation as one row. */
static matrix with_guard(matrix m)
{
    m.rows = 1;
    m.columns = (int64_t)(m.capacity / element_size(m.type));
    m.stride = m.columns;
    return m;
}

matrix matrix_of(backend *b, grail_dtype type, int64_t rows, int64_t columns, const double *values)
{
    const int64_t count = rows * columns;
    matrix m = {0};
    host_view v = {0};
    assert_ok(matrix_new(b, type, 1, count + GUARD, &m));
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    double *all = v.values;
    for (int64_t i = 0; i < count + GUARD; i++) {
        all[i] = i < count ? values[i] : guard_value;
    }
    assert_ok(host_view_close(&v));
    m.rows = rows;
    m.columns = columns;
    m.stride = columns;
    return m;
}

matrix values_of(backend *b, int64_t rows, int64_t columns, const float *values)
{
    OWNED(double) *wide = widened(rows * columns, values);
    const matrix m = matrix_of(b, backend_type(b), rows, columns, wide);
    return m;
}

matrix parameters_of(backend *b, int64_t columns, const float *values)
{
    OWNED(double) *wide = widened(columns, values);
    const matrix m = matrix_of(b, backend_master_type(b), 1, columns, wide);
    return m;
}

matrix blank_of(backend *b, grail_dtype type, int64_t rows, int64_t columns)
{
    OWNED(double) *nothing = doubles(rows * columns, NAN);
    const matrix m = matrix_of(b, type, rows, columns, nothing);
    return m;
}

matrix blank_values(backend *b, int64_t rows, int64_t columns)
{
    return blank_of(b, backend_type(b), rows, columns);
}

static double *download(matrix m)
{
    host_view v = {0};
    assert_ok(host_view_open(m, GRAIL_DTYPE_F64, HOST_READS, &v));
    double *out = copy_of_doubles(matrix_count(m), v.values);
    assert_ok(host_view_close(&v));
    return out;
}

double *results_of(matrix m)
{
    const int64_t count = matrix_count(m);
    if (m.allocation == NULL) {
        return download(m);
    }
    double *out = download(with_guard(m));
    for (int64_t i = count; i < count + GUARD; i++) {
        if (out[i] != guard_value) {
            fail_msg("%s wrote %lld elements behind the end", backend_name(m.owner),
                     (long long)(i - count + 1));
        }
    }
    return out;
}

void free_block_list(void *const blocks[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        memory_free(blocks[i]);
    }
}

void free_matrix_list(matrix *const matrices[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        matrix_free(matrices[i]);
    }
}

void assert_all_near(const backend *b, const char *what, int64_t count, const double *actual,
                     const double *expected, const double *scale, double tolerance)
{
    const double vanishing = backend_type(b) == GRAIL_DTYPE_F16 ? 0x1p-24 : 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double allowed = tolerance * (scale == NULL ? 1.0 : scale[i]) + vanishing;
        const bool both_nan = isnan(actual[i]) && isnan(expected[i]);
        if (!both_nan && !(fabs(actual[i] - expected[i]) <= allowed)) {
            fail_msg("%s in %s, %s: element %lld is %.17g, expected %.17g within %.3g",
                     backend_name(b), backend_precision(b), what, (long long)i, actual[i],
                     expected[i], allowed);
        }
    }
}

void assert_matrix_near(const char *what, matrix m, const double *expected, double tolerance)
{
    OWNED(double) *actual = results_of(m);
    assert_all_near(m.owner, what, matrix_count(m), actual, expected, NULL, tolerance);
}

double norm_of(int64_t count, const double *a)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * a[i];
    }
    return sqrt(sum);
}
