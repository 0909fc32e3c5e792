/* What the functions that call operations check of the shapes of matrices. A mismatch is a caller's
 * mistake: the library never makes such a call. */
#ifndef GRAIL_BACKEND_SHAPES_H
#define GRAIL_BACKEND_SHAPES_H

#include "backend/kind.h"

grail_status wrong_shape(operation_slot slot) GRAIL_MUST_CHECK;

bool same_shape(matrix a, matrix b);
bool is_square(matrix a);
/** True for a missing matrix. */
bool has_columns(matrix m, int64_t columns);

/** C = op(A) op(B) */
bool product_fits(bool transpose_a, bool transpose_b, matrix a, matrix b, matrix c);
bool attention_fits(const attention_shape *s, matrix q, matrix k, matrix v, matrix out);
/** Whether X has the rows and columns of a window's input. */
bool has_positions(const conv_shape *s, matrix x);
/** Whether Y has those of its output, too. */
bool window_fits(const conv_shape *s, matrix x, matrix y);
bool convolution_fits(const conv_shape *s, matrix x, matrix weight, matrix y);
/** Whether X and Y have the rows of a copy of positions. */
bool positions_fit(const position_shape *s, matrix x, matrix y);

#endif
