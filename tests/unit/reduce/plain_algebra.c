#include "plain_algebra.h"

#include <string.h>

double *plain_normal(int64_t count, uint64_t seed)
{
    double *values = NULL;
    random_state random;
    random_seed(&random, seed, 0);
    assert_ok(memory_new(&values, (size_t)count, sizeof *values));
    for (int64_t i = 0; i < count; i++) {
        values[i] = random_normal(&random);
    }
    return values;
}

double *plain_copy(int64_t count, const double *values)
{
    double *copy = NULL;
    assert_ok(memory_new(&copy, (size_t)count, sizeof *copy));
    memcpy(copy, values, (size_t)count * sizeof *copy);
    return copy;
}

void plain_add_product(int64_t m, int64_t n, int64_t k, const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t p = 0; p < k; p++) {
            for (int64_t j = 0; j < n; j++) {
                c[i * n + j] += a[p * m + i] * b[p * n + j];
            }
        }
    }
}

double *plain_gram(int64_t rows, int64_t n, double shift, const double *x)
{
    double *gram = NULL;
    assert_ok(memory_new(&gram, (size_t)(n * n), sizeof *gram));
    plain_add_product(n, n, rows, x, x, gram);
    for (int64_t i = 0; i < n; i++) {
        gram[i * n + i] += shift;
    }
    return gram;
}

/* Gauss-Jordan without pivoting, in place. */
void plain_invert(int64_t n, double *a)
{
    for (int64_t p = 0; p < n; p++) {
        const double pivot = a[p * n + p];
        assert_true(pivot > 0.0);
        a[p * n + p] = 1.0;
        for (int64_t j = 0; j < n; j++) {
            a[p * n + j] /= pivot;
        }
        for (int64_t i = 0; i < n; i++) {
            const double factor = a[i * n + p];
            if (i == p) {
                continue;
            }
            a[i * n + p] = 0.0;
            for (int64_t j = 0; j < n; j++) {
                a[i * n + j] -= factor * a[p * n + j];
            }
        }
    }
}

void plain_block(int64_t n, const double *a, int64_t rows, const int64_t *row, int64_t columns,
                 const int64_t *column, double *out)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            out[i * columns + j] = a[row[i] * n + column[j]];
        }
    }
}

double plain_trace(int64_t n, const double *a, const double *b)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n * n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* tr(D H D^T) of D[m, n] */
static double form(int64_t m, int64_t n, const double *d, const double *h)
{
    double total = 0.0;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (int64_t k = 0; k < n; k++) {
                sum += d[i * n + k] * h[k * n + j];
            }
            total += sum * d[i * n + j];
        }
    }
    return total;
}

/* W'[m, n] = W H[:, P] H[P, P]^-1 in the columns P, else 0. */
static void refit_columns(int64_t m, int64_t n, const double *h, const double *w, int64_t count,
                          const int64_t *kept, double *fitted)
{
    OWNED(double) *block = NULL;
    assert_ok(memory_new(&block, (size_t)(count * count), sizeof *block));
    plain_block(n, h, count, kept, count, kept, block);
    plain_invert(count, block);
    for (int64_t o = 0; o < m; o++) {
        for (int64_t p = 0; p < count; p++) {
            double right = 0.0; /* (W H)[o, p] */
            for (int64_t j = 0; j < n; j++) {
                right += w[o * n + j] * h[j * n + kept[p]];
            }
            for (int64_t q = 0; q < count; q++) {
                fitted[o * n + kept[q]] += right * block[p * count + q];
            }
        }
    }
}

double plain_refit(int64_t m, int64_t n, const double *h, const double *w, const bool *kept,
                   double *fitted)
{
    OWNED(int64_t) *list = NULL;
    OWNED(double) *fit = NULL;
    int64_t count = 0;
    assert_ok(memory_new(&list, (size_t)n, sizeof *list));
    assert_ok(memory_new(&fit, (size_t)(m * n), sizeof *fit));
    for (int64_t j = 0; j < n; j++) {
        if (kept[j]) {
            list[count++] = j;
        }
    }
    refit_columns(m, n, h, w, count, list, fit);
    if (fitted != NULL) {
        memcpy(fitted, fit, (size_t)(m * n) * sizeof *fit);
    }
    for (int64_t i = 0; i < m * n; i++) {
        fit[i] = w[i] - fit[i];
    }
    return form(m, n, fit, h);
}
