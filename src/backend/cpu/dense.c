/* Cholesky, its solve, and eigenvalues in f64, over the blocked products of BLAS and LAPACK. */
#include "backend/cpu/blas.h"
#include "backend/cpu/cpu.h"

#include "base/parallel.h"

#include <math.h>

/* LAPACK, column-major: eigenvalues ascending in w, eigenvectors in the columns of a. */
extern void dsyevd_(const char *jobz, const char *uplo, const int *n, double *a, const int *lda,
                    double *w, double *work, const int *lwork, int *iwork, const int *liwork,
                    int *info);

static double dot(int64_t count, const double *a, const double *b)
{
    double sum = 0.0;
    for (int64_t p = 0; p < count; p++) {
        sum += a[p] * b[p];
    }
    return sum;
}

/* Row by row, for blocks that fit the first-level cache. */
static pivot_index cholesky_small(int64_t n, double *a, int64_t stride)
{
    for (int64_t i = 0; i < n; i++) {
        double *row = a + i * stride;
        for (int64_t j = 0; j < i; j++) {
            const double *above = a + j * stride;
            row[j] = (row[j] - dot(j, row, above)) / above[j];
        }
        const double pivot = row[i] - dot(i, row, row);
        if (!(pivot > 0.0) || !isfinite(pivot)) {
            return i;
        }
        row[i] = sqrt(pivot);
    }
    return -1;
}

/* [A11; A21 A22]: A11 = L11 L11^T, L21 = A21 L11^-T, A22 - L21 L21^T = L22 L22^T. The recursion
 * puts nearly all work into large products. */
pivot_index cpu_cholesky(int64_t n, double *a, int64_t stride)
{
    enum { SMALL = 64 };
    if (n <= SMALL) {
        return cholesky_small(n, a, stride);
    }
    const int threads = parallel_threads();
    const int64_t half = (n / 2 + SMALL - 1) / SMALL * SMALL;
    double *below = a + half * stride;
    const pivot_index pivot = cpu_cholesky(half, a, stride);
    if (pivot >= 0) {
        return pivot;
    }
    blas_dtrsm(threads, true, n - half, half, a, stride, below, stride);
    blas_dsyrk_subtract(threads, n - half, half, below, stride, below + half, stride);
    const pivot_index rest = cpu_cholesky(n - half, below + half, stride);
    return rest >= 0 ? half + rest : -1;
}

/* X L L^T = B: Y = B L^-T, X = Y L^-1. */
void cpu_cholesky_solve(int64_t rows, int64_t n, const double *l, int64_t l_stride, double *b,
                        int64_t b_stride)
{
    const int threads = parallel_threads();
    blas_dtrsm(threads, true, rows, n, l, l_stride, b, b_stride);
    blas_dtrsm(threads, false, rows, n, l, l_stride, b, b_stride);
}

/* A row-major lower triangle is a column-major upper one, and LAPACK's eigenvector columns are the
 * rows that backend.h asks for. */
grail_status cpu_eigen(int64_t n, double *a, double *values)
{
    enum { LARGEST = 32766 }; /* 1 + 6 n + 2 n^2 must fit LAPACK's 32-bit work size */
    grail_status status = GRAIL_OK;
    double *work = NULL;
    int *integer_work = NULL;
    if (n == 0) {
        return GRAIL_OK;
    }
    if (n > LARGEST) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "eigenvalues of order %lld: at most %d are supported",
             (long long)n, (int)LARGEST);
    }
    const int order = (int)n;
    const int lwork = 1 + 6 * order + 2 * order * order;
    const int liwork = 3 + 5 * order;
    int info = 0;
    TRY(memory_new_unset(&work, (size_t)lwork, sizeof *work));
    TRY(memory_new_unset(&integer_work, (size_t)liwork, sizeof *integer_work));
    blas_kernel();
    dsyevd_("V", "U", &order, a, &order, values, work, &lwork, integer_work, &liwork, &info);
    if (info != 0) {
        FAIL(GRAIL_ERROR_NUMERIC, "eigenvalues of a matrix of order %d: dsyevd gave %d", order,
             info);
    }

out:
    memory_free(integer_work);
    memory_free(work);
    return status;
}
