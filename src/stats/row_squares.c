#include "stats/row_squares.h"

#include "backend/operations.h"

#include <math.h>

/* of the median squared norm */
static const double least_share = 1e-4;
static const double most_share = 256.0;

grail_status row_squares_make(matrix x, int64_t rows, matrix *out)
{
    CHECK(matrix_new(x.owner, GRAIL_DTYPE_F64, 1, rows, out));
    return matrix_row_dots(x, x, *out);
}

/* *out = the upper median of a row, which it is read for. */
static grail_status read_median(matrix row, double *out)
{
    grail_status status = GRAIL_OK;
    matrix median = {0};
    TRY(matrix_new(row.owner, GRAIL_DTYPE_F64, 1, 1, &median));
    TRY(matrix_median(row, median));
    TRY(matrix_download(median, out));
out:
    matrix_free(&median);
    return status;
}

static double most_of(double median)
{
    return median > 0.0 ? most_share * median : (double)INFINITY;
}

grail_status roots_of_squares(double *median, matrix squares)
{
    CHECK(*median < 0.0 ? read_median(squares, median) : GRAIL_OK);
    CHECK(matrix_inverse_roots(least_share * *median, most_of(*median), squares, squares));
    return element_size(backend_type(squares.owner)) == 2 ? matrix_nearest_powers(squares)
                                                          : GRAIL_OK;
}

grail_status inverses_of_squares(matrix squares)
{
    return matrix_inverse_bounded(least_share, most_share, squares, squares);
}
