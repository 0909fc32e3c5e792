/* The lengths of the rows of a matrix, and what is usual among them. */
#ifndef GRAIL_STATS_ROW_SQUARES_H
#define GRAIL_STATS_ROW_SQUARES_H

#include "backend/matrix.h"

/** squares[rows] = |x_r|^2, on the host. X of another number of rows is GRAIL_ERROR_INTERNAL. */
grail_status row_squares(matrix x, int64_t rows, double *squares) GRAIL_MUST_CHECK;

/** *out = the upper median of values[count]; 0 where there are none. */
grail_status median_of(int64_t count, const double *values, double *out) GRAIL_MUST_CHECK;

#endif
