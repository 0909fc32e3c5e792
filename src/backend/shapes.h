/* What the rows of operation_list.h say of the shapes of matrices. */
#ifndef GRAIL_BACKEND_SHAPES_H
#define GRAIL_BACKEND_SHAPES_H

#include "backend/operations.h"

bool same_shape(matrix a, matrix b);
bool is_square(matrix a);
/** Whether there is a row of so many columns. */
bool is_row(matrix m, int64_t columns);
/** The same; true for a missing matrix. */
bool has_columns(matrix m, int64_t columns);
/** Whether a matrix has the shape of another, or is missing. */
bool has_shape(matrix m, matrix like);
/** Whether each row of B belongs to as many rows of Y, and each column, or the only one, to Y's. */
bool spreads_to(matrix b, matrix y);
/** Whether the columns of X fall into groups of as many as the weight has. */
bool groups_fit(matrix x, matrix weight);

/** C = op(A) op(B) */
bool product_fits(bool transpose_a, bool transpose_b, matrix a, matrix b, matrix c);
bool rotation_fits(const rope_shape *s, matrix x);
bool attention_fits(const attention_shape *s, matrix q, matrix k, matrix v, matrix out);
bool biases_fit(const attention_shape *s, matrix biases);
/** Whether X has the rows and columns of a window's input, and Y those of its output. */
bool window_fits(const conv_shape *s, matrix x, matrix y);
/** The same, of means over a window. */
bool averages_fit(const conv_shape *s, matrix x, matrix y);
/** The same, for a weight of one kernel for each channel. */
bool kernels_fit(const conv_shape *s, matrix x, matrix weight, matrix y);
bool patches_fit(const conv_shape *s, int64_t begin, int64_t end, matrix x, matrix p);
bool convolution_fits(const conv_shape *s, matrix x, matrix weight, matrix y);
/** Whether X and Y are those of a shortcut, and of windows side by side. */
bool shortcut_fits(const position_shape *s, matrix x, matrix y);
bool windows_fit(const position_shape *s, matrix x, matrix y);
/** Whether indices[count], or 0, 1, 2, ... where there are none, are all in 0 .. below - 1. */
bool indices_fit(const int64_t *indices, int64_t count, int64_t below);
/** Whether `features` are those of so many units, each of which has a label among `folded` ones. */
bool units_fit(int64_t units, const int64_t *labels, int64_t features, int64_t folded);
/** Whether a matrix has one element. */
bool is_one(matrix m);
/** u of blocks [., u u] */
int64_t block_features(matrix blocks);
/** Whether blocks are those on the diagonals of two matrices of so many columns. */
bool blocks_fit(matrix blocks, int64_t columns);
/** Whether factors lead from pairs of rows to rows; true where both are missing. */
bool factors_fit(matrix factors, matrix rows, matrix pairs);

#endif
