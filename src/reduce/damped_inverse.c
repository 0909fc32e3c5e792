#include "reduce/damped_inverse.h"

#include "algebra/damped.h"

#include <math.h>

grail_status check_diagonal(double mean)
{
    if (!isfinite(mean)) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "the diagonal of the Gram matrix is not finite; look for NaN or infinity "
                         "in the activations");
    }
    return mean > 0.0 ? GRAIL_OK
                      : error_set(GRAIL_ERROR_NUMERIC,
                                  "no feature varies in the calibration data, so no unit can be "
                                  "told from another; use other data, or a selector that looks "
                                  "at weights alone");
}

grail_status damped_cholesky(double damping, matrix gram, double *lambda)
{
    grail_status status = GRAIL_OK;
    damped_gram d = {0};
    int64_t failing = -1;
    TRY(damped_init(&d, gram, NULL, 0.0, 0.0));
    TRY(check_diagonal(d.scale));
    TRY(damped_factor(&d, damping * d.scale, &failing));
    if (failing >= 0) {
        FAIL(GRAIL_ERROR_NUMERIC,
             "the Gram matrix is indefinite: its factorisation fails at feature %lld even "
             "with %g added to its diagonal; look for errors in the activations",
             (long long)failing, d.lambda);
    }
    *lambda = d.lambda;
out:
    damped_fini(&d);
    return status;
}

grail_status damped_inverse(double damping, matrix gram, double *lambda)
{
    CHECK(damped_cholesky(damping, gram, lambda));
    return matrix_cholesky_invert(gram);
}
