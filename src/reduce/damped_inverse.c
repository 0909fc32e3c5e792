#include "reduce/damped_inverse.h"

#include "base/memory.h"

#include <math.h>

enum { MOST_RAISES = 6 };

static const double raise_floor = 1e-8; /* of the mean diagonal */

/* Lower triangle <- G + lambda I, from the upper triangle and the diagonal of G. */
static grail_status load_damped(const double *diagonal, double lambda, matrix gram)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    TRY(matrix_import(gram.owner, GRAIL_DTYPE_F64, 1, gram.rows, gram.rows, diagonal, &row));
    TRY(matrix_fill_lower(gram));
    TRY(matrix_set_diagonal(row, gram));
    TRY(matrix_shift_diagonal(lambda, gram));
out:
    matrix_free(&row);
    return status;
}

grail_status mean_of_diagonal(int64_t n, const double *diagonal, double *mean)
{
    *mean = 0.0;
    for (int64_t i = 0; i < n; i++) {
        *mean += diagonal[i] / (double)n;
    }
    if (!isfinite(*mean)) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "the diagonal of the Gram matrix is not finite; look for NaN or infinity "
                         "in the activations");
    }
    return *mean > 0.0 ? GRAIL_OK
                       : error_set(GRAIL_ERROR_NUMERIC,
                                   "no feature varies in the calibration data, so no unit can be "
                                   "told from another; use other data, or a selector that looks "
                                   "at weights alone");
}

/* Factors G + lambda I in the lower triangle, raising lambda until that succeeds. */
static grail_status factor_damped(const double *diagonal, double mean, matrix gram, double *lambda)
{
    grail_status status = GRAIL_OK;
    int64_t failing = -1;
    for (int raises = 0;; raises++) {
        TRY(load_damped(diagonal, *lambda, gram));
        TRY(matrix_cholesky(gram, &failing));
        if (failing < 0) {
            return GRAIL_OK;
        }
        if (raises == MOST_RAISES) {
            FAIL(GRAIL_ERROR_NUMERIC,
                 "the Gram matrix is indefinite: its factorisation fails at feature %lld even "
                 "with %g added to its diagonal; look for errors in the activations",
                 (long long)failing, *lambda);
        }
        *lambda = fmax(10.0 * *lambda, raise_floor * mean);
    }
out:
    return status;
}

grail_status damped_inverse(double damping, matrix gram, double *lambda)
{
    grail_status status = GRAIL_OK;
    double mean = 0.0;
    double *diagonal = NULL;
    TRY(memory_new_unset(&diagonal, (size_t)gram.rows, sizeof diagonal[0]));
    TRY(matrix_download_diagonal(gram, diagonal));
    TRY(mean_of_diagonal(gram.rows, diagonal, &mean));
    TRY(matrix_fill_upper(gram));
    *lambda = damping * mean;
    TRY(factor_damped(diagonal, mean, gram, lambda));
    TRY(matrix_cholesky_invert(gram));
out:
    memory_free(diagonal);
    return status;
}
