#include "solve/quadratic.h"

double dot_product(int64_t count, const double *a, const double *b)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

grail_status quadratic_forms(const backend *b, int64_t n, const double *a, int64_t m,
                             const double *d, double *forms)
{
    grail_status status = GRAIL_OK;
    double *panel = NULL; /* D A[:, begin ..] */
    const int64_t width = n < SOLVE_PANEL ? n : SOLVE_PANEL;
    TRY(memory_new_unset(&panel, (size_t)(m * width), sizeof *panel));
    for (int64_t i = 0; i < m; i++) {
        forms[i] = 0.0;
    }
    for (int64_t begin = 0; begin < n; begin += width) {
        const int64_t count = begin + width < n ? width : n - begin;
        b->gemm(false, false, m, count, n, 1.0, d, n, a + begin, n, 0.0, panel, width);
        for (int64_t i = 0; i < m; i++) {
            forms[i] += dot_product(count, panel + i * width, d + i * n + begin);
        }
    }
out:
    memory_free(panel);
    return status;
}
