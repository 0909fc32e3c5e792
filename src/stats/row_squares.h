/* The lengths of the rows of a matrix, and what is usual among them. */
#ifndef GRAIL_STATS_ROW_SQUARES_H
#define GRAIL_STATS_ROW_SQUARES_H

#include "backend/matrix.h"

/** *out[1, rows] = |x_r|^2 in f64, owned even after a failure. X of another number of rows is
 * GRAIL_ERROR_INTERNAL. */
grail_status row_squares_make(matrix x, int64_t rows, matrix *out) GRAIL_MUST_CHECK;

/* In a weight 1 / |x_r|^2, |x_r|^2 counts as at least 1e-4 and at most 256 times the median, the
 * usual one. The first bound keeps rows of almost nothing from deciding everything; where the
 * median is 0, no row is too long. The second keeps massive activations: a token of 180 times the
 * usual length would count as 1/32,000 of another where it arises, and lose some percent of its
 * length there, which is ten times the length of another token. */

/** squares[1, rows] = |x_r|^2 become 1 / |x_r|^2, so bounded by their own median; 0 where all are
 * 0. */
grail_status inverses_of_squares(matrix squares) GRAIL_MUST_CHECK;

/** squares[1, rows] = |x_r|^2 become 1 / |x_r|, bounded likewise, with *median; where that is below
 * 0 it is that of these rows first, which are read for it. For values of 16 bits they are rounded
 * to powers of two, which scale rows without an error: such a weight is off by a factor of 2 at
 * most. */
grail_status roots_of_squares(double *median, matrix squares) GRAIL_MUST_CHECK;

#endif
