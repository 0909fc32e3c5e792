/* What the functions that call operations check of the shapes of matrices. A mismatch is a caller's
 * mistake: the library never makes such a call. */
#ifndef GRAIL_BACKEND_SHAPES_H
#define GRAIL_BACKEND_SHAPES_H

#include "backend/kind.h"

grail_status wrong_shape(operation_slot slot) GRAIL_MUST_CHECK;

bool same_shape(matrix a, matrix b);
bool is_square(matrix a);
/** Whether there is a row of so many columns. */
bool is_row(matrix m, int64_t columns);
/** The same; true for a missing matrix. */
bool has_columns(matrix m, int64_t columns);

/** C = op(A) op(B) */
bool product_fits(bool transpose_a, bool transpose_b, matrix a, matrix b, matrix c);
bool attention_fits(const attention_shape *s, matrix q, matrix k, matrix v, matrix out);
/** Whether X has the rows and columns of a window's input. */
bool has_positions(const conv_shape *s, matrix x);
/** Whether Y has those of its output, too. */
bool window_fits(const conv_shape *s, matrix x, matrix y);
bool convolution_fits(const conv_shape *s, matrix x, matrix weight, matrix y);
/** Whether X and Y are those of a shortcut, and of windows side by side. */
bool shortcut_fits(const position_shape *s, matrix x, matrix y);
bool windows_fit(const position_shape *s, matrix x, matrix y);
/** Whether indices[count], or 0, 1, 2, ... where there are none, are all in 0 .. below - 1. */
bool indices_fit(const int64_t *indices, int64_t count, int64_t below);

#endif
