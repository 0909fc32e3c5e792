#include "conformance/conformance.h"

#include <string.h>

enum { GUARD = 16 };

static const float guard_value = -12345.0F;

const backend *backend_after(const backend *b)
{
    int i = 0;
    while (backend_at(i) != b) {
        i++;
    }
    return backend_at(i + 1);
}

double rounding(const backend *b)
{
    return b->element_size == sizeof(float) ? 0x1p-24 : 0x1p-53;
}

float *normals(int64_t count, uint64_t seed, double deviation)
{
    float *values = NULL;
    assert_ok(memory_new_unset(&values, (size_t)count, sizeof *values));
    support_fill_normal(values, count, seed);
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)((double)values[i] * deviation);
    }
    return values;
}

void *elements(const backend *b, int64_t count, const float *values)
{
    void *out = NULL;
    assert_ok(memory_new_unset(&out, (size_t)count, b->element_size));
    b->from_f32(count, values, out);
    return out;
}

void *blank(const backend *b, int64_t count)
{
    float *values = NULL;
    assert_ok(memory_new_unset(&values, (size_t)(count + GUARD), sizeof *values));
    for (int64_t i = 0; i < count + GUARD; i++) {
        values[i] = i < count ? NAN : guard_value;
    }
    void *out = elements(b, count + GUARD, values);
    memory_free(values);
    return out;
}

static double element(const backend *b, const void *x, int64_t i)
{
    return b->element_size == sizeof(float) ? (double)((const float *)x)[i]
                                            : ((const double *)x)[i];
}

double *results(const backend *b, int64_t count, const void *outputs)
{
    double *out = doubles(count, 0.0);
    for (int64_t i = 0; i < count; i++) {
        out[i] = element(b, outputs, i);
    }
    for (int64_t i = count; i < count + GUARD; i++) {
        if (element(b, outputs, i) != (double)guard_value) {
            fail_msg("%s wrote %lld elements behind the end", b->name, (long long)(i - count + 1));
        }
    }
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

void assert_all_near(const backend *b, const char *what, int64_t count, const double *actual,
                     const double *expected, const double *scale, double tolerance)
{
    for (int64_t i = 0; i < count; i++) {
        const double allowed = tolerance * (scale == NULL ? 1.0 : scale[i]);
        const bool both_nan = isnan(actual[i]) && isnan(expected[i]);
        if (!both_nan && !(fabs(actual[i] - expected[i]) <= allowed)) {
            fail_msg("%s %s: element %lld is %.17g, expected %.17g within %.3g", b->name, what,
                     (long long)i, actual[i], expected[i], allowed);
        }
    }
}

double norm_of(int64_t count, const double *a)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * a[i];
    }
    return sqrt(sum);
}
