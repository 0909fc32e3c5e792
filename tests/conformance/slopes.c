#include "conformance/slopes.h"

slopes slopes_new(slope_function f, const void *context, const slope_input inputs[SLOPE_INPUTS],
                  int64_t rows, int64_t columns, const float *dy)
{
    slopes s = {.f = f, .context = context};
    assert_ok(backend_open("ref", NULL, &s.reference));
    for (int i = 0; i < SLOPE_INPUTS; i++) {
        if (inputs[i].values != NULL) {
            s.inputs[i] =
                values_of(s.reference, inputs[i].rows, inputs[i].columns, inputs[i].values);
        }
    }
    s.y = blank_values(s.reference, rows, columns);
    s.dy = doubles(rows * columns, 0.0);
    for (int64_t i = 0; i < rows * columns; i++) {
        s.dy[i] = (double)dy[i];
    }
    return s;
}

void slopes_free(slopes *s)
{
    for (int i = 0; i < SLOPE_INPUTS; i++) {
        matrix_free(&s->inputs[i]);
    }
    matrix_free(&s->y);
    memory_free(s->dy);
    backend_close(s->reference);
}

static double loss_at(slopes *s, matrix element, double value)
{
    host_view v = {0};
    double sum = 0.0;
    assert_ok(matrix_upload(element, &value));
    s->f(s->context, s->inputs, s->y);
    assert_ok(host_view_open(s->y, GRAIL_DTYPE_F64, HOST_READS, &v));
    for (int64_t i = 0; i < matrix_count(s->y); i++) {
        sum += s->dy[i] * ((const double *)v.values)[i];
    }
    assert_ok(host_view_close(&v));
    return sum;
}

static double slope_at(slopes *s, matrix input, int64_t index)
{
    const double step = 1e-5;
    const matrix row = matrix_rows(input, index / input.columns, 1);
    const matrix element = matrix_columns(row, index % input.columns, 1);
    double value = 0.0;
    assert_ok(matrix_download(element, &value));
    const double above = loss_at(s, element, value + step);
    const double below = loss_at(s, element, value - step);
    assert_ok(matrix_upload(element, &value));
    return (above - below) / (2.0 * step);
}

void assert_slopes(const char *what, slopes *s, int input, double before, matrix gradient,
                   double tolerance)
{
    enum { MOST = 101 };
    const int64_t count = matrix_count(gradient);
    const int64_t stride = count / MOST + 1;
    double *actual = results_of(gradient);
    double *chosen = doubles(MOST, 0.0);
    double *expected = doubles(MOST, 0.0);
    double size = fabs(before);
    int64_t n = 0;
    for (int64_t i = 0; i < count; i += stride) {
        chosen[n] = actual[i];
        expected[n] = before + slope_at(s, s->inputs[input], i);
        size = fmax(size, fabs(expected[n]));
        n++;
    }
    assert_all_near(gradient.owner, what, n, chosen, expected, NULL, tolerance * size);
    free_blocks(actual, chosen, expected);
}

double slope_tolerance(const backend *b, double factor)
{
    return backend_type(b) == GRAIL_DTYPE_F64 ? 1e-6 : factor * rounding(b);
}
