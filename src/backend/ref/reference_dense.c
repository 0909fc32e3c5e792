/* Textbook f64 algebra: triple-loop product, row-by-row Cholesky, cyclic Jacobi. */
#include "backend/ref/reference.h"

#include <float.h>
#include <math.h>
#include <string.h>

void ref_product_of(bool transpose_a, bool transpose_b, double alpha, matrix a, matrix b,
                    double beta, matrix c)
{
    const double *left = a.memory;
    const double *right = b.memory;
    const int64_t inner = transpose_a ? a.rows : a.columns;
    for (int64_t i = 0; i < c.rows; i++) {
        double *row = host_row(c, i);
        for (int64_t j = 0; j < c.columns; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < inner; p++) {
                sum += left[transpose_a ? p * a.stride + i : i * a.stride + p] *
                       right[transpose_b ? j * b.stride + p : p * b.stride + j];
            }
            /* beta = 0 must not read C, which may hold NaN. */
            row[j] = beta == 0.0 ? alpha * sum : alpha * sum + beta * row[j];
        }
    }
}

grail_status ref_gemm(const operation *o)
{
    const operation_settings *s = &o->with;
    ref_product_of(s->transpose_a, s->transpose_b, s->alpha, o->m[0], o->m[1], s->beta, o->m[2]);
    return GRAIL_OK;
}

grail_status ref_product(const operation *o)
{
    const operation_settings *s = &o->with;
    ref_product_of(s->transpose_a, s->transpose_b, 1.0, o->m[0], o->m[1], s->beta, o->m[2]);
    return GRAIL_OK;
}

/* L[i,j] = (A[i,j] - sum_{p<j} L[i,p] L[j,p]) / L[j,j], L[i,i] = sqrt(A[i,i] - sum_{p<i} L[i,p]^2)
 */
grail_status ref_cholesky(const operation *o)
{
    const matrix a = o->m[0];
    *o->with.index = -1;
    for (int64_t i = 0; i < a.rows; i++) {
        double *row = host_row(a, i);
        for (int64_t j = 0; j < i; j++) {
            const double *above = host_row(a, j);
            row[j] = (row[j] - host_dot(j, row, above)) / above[j];
        }
        const double pivot = row[i] - host_dot(i, row, row);
        if (!(pivot > 0.0) || !isfinite(pivot)) {
            *o->with.index = i;
            break;
        }
        row[i] = sqrt(pivot);
    }
    return GRAIL_OK;
}

grail_status ref_add_symmetric(const operation *o)
{
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    for (int64_t i = 0; i < o->m[2].rows; i++) {
        double *c = host_row(o->m[2], i);
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < a.rows; p++) {
                sum += ((const double *)host_row(a, p))[i] * ((const double *)host_row(b, p))[j];
            }
            c[j] += o->with.alpha * sum;
        }
    }
    return GRAIL_OK;
}

/* (L L^T)^-1 = X^T X in place: element (i, j) reads rows from i on, and is read no more. */
grail_status ref_cholesky_invert(const operation *o)
{
    const int64_t n = o->m[0].rows;
    const int64_t stride = o->m[0].stride;
    double *l = o->m[0].memory;
    /* L <- X = L^-1, row by row: X_ij = -(sum_{j <= k < i} L_ik X_kj) / L_ii. */
    for (int64_t i = 0; i < n; i++) {
        double *row = l + i * stride;
        for (int64_t j = 0; j < i; j++) {
            double sum = 0.0;
            for (int64_t k = j; k < i; k++) {
                sum += row[k] * l[k * stride + j];
            }
            row[j] = -sum / row[i];
        }
        row[i] = 1.0 / row[i];
    }
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (int64_t k = i; k < n; k++) {
                sum += l[k * stride + i] * l[k * stride + j];
            }
            l[i * stride + j] = sum;
        }
    }
    return host_fill_upper(o);
}

/* One row x of B: forward L y = x, then backward L^T z = y. */
static void solve_row(int64_t n, const double *l, int64_t l_stride, double *x)
{
    for (int64_t i = 0; i < n; i++) {
        const double *row = l + i * l_stride;
        x[i] = (x[i] - host_dot(i, row, x)) / row[i];
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        double sum = x[i];
        for (int64_t p = i + 1; p < n; p++) {
            sum -= l[p * l_stride + i] * x[p];
        }
        x[i] = sum / l[i * l_stride + i];
    }
}

grail_status ref_cholesky_solve(const operation *o)
{
    const matrix l = o->m[0];
    for (int64_t r = 0; r < o->m[1].rows; r++) {
        solve_row(l.rows, l.memory, l.stride, host_row(o->m[1], r));
    }
    return GRAIL_OK;
}

/* Rotates the vectors x and y: x' = c x - s y, y' = s x + c y, elements `step` apart. */
static void rotate(int64_t n, double *x, double *y, int64_t step, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        const double left = x[i * step];
        const double right = y[i * step];
        x[i * step] = c * left - s * right;
        y[i * step] = s * left + c * right;
    }
}

/* The rotation of plane (p, q) that makes A[p,q] zero (Golub and Van Loan, symmetric Schur
 * decomposition of order 2), applied to both sides of the full A and to the rows of V. */
static void annihilate(int64_t n, double *a, double *v, int64_t p, int64_t q)
{
    const double off = a[p * n + q];
    if (off == 0.0) {
        return;
    }
    const double tau = (a[q * n + q] - a[p * n + p]) / (2.0 * off);
    const double t = (tau >= 0.0 ? 1.0 : -1.0) / (fabs(tau) + hypot(1.0, tau));
    const double c = 1.0 / hypot(1.0, t);
    const double s = t * c;
    rotate(n, a + p, a + q, n, c, s);
    rotate(n, a + p * n, a + q * n, 1, c, s);
    rotate(n, v + p * n, v + q * n, 1, c, s);
    a[p * n + q] = 0.0; /* a rounding error left there would keep the sweeps from ending */
    a[q * n + p] = 0.0;
}

/* Square of the Frobenius norm, of the part off the diagonal when asked. */
static double squared_norm(int64_t n, const double *a, bool off_diagonal)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            sum += off_diagonal && i == j ? 0.0 : a[i * n + j] * a[i * n + j];
        }
    }
    return sum;
}

/* Cyclic Jacobi; converges quadratically, so it never takes many more than ten sweeps. */
static bool diagonalise(int64_t n, double *a, double *v)
{
    enum { MOST_SWEEPS = 60 };
    const double enough = DBL_EPSILON * DBL_EPSILON * squared_norm(n, a, false);
    for (int sweep = 0; sweep < MOST_SWEEPS; sweep++) {
        if (squared_norm(n, a, true) <= enough) {
            return true;
        }
        for (int64_t p = 0; p < n; p++) {
            for (int64_t q = p + 1; q < n; q++) {
                annihilate(n, a, v, p, q);
            }
        }
    }
    return false;
}

grail_status ref_eigen(const operation *o)
{
    grail_status status = GRAIL_OK;
    const int64_t n = o->m[0].rows;
    double *a = o->m[0].memory;
    double *values = o->m[1].memory;
    double *v = NULL;
    if (n == 0) {
        return GRAIL_OK;
    }
    TRY(memory_new(&v, (size_t)(n * n), sizeof *v));
    for (int64_t i = 0; i < n; i++) {
        v[i * n + i] = 1.0;
        for (int64_t j = i + 1; j < n; j++) {
            a[i * n + j] = a[j * n + i];
        }
    }
    if (!diagonalise(n, a, v)) {
        FAIL(GRAIL_ERROR_NUMERIC, "the eigenvalues of a %lld x %lld matrix do not converge",
             (long long)n, (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        values[i] = a[i * n + i];
    }
    /* Selection sort of the pairs (values[i], row i of V). */
    for (int64_t i = 0; i < n; i++) {
        int64_t least = i;
        for (int64_t j = i + 1; j < n; j++) {
            least = values[j] < values[least] ? j : least;
        }
        const double value = values[i];
        values[i] = values[least];
        values[least] = value;
        for (int64_t j = 0; j < n && least != i; j++) {
            const double element = v[i * n + j];
            v[i * n + j] = v[least * n + j];
            v[least * n + j] = element;
        }
    }
    memcpy(a, v, (size_t)(n * n) * sizeof *v);

out:
    memory_free(v);
    return status;
}
