#include "backend/shapes.h"

#include <math.h>

grail_status matrix_linear(matrix x, matrix weight, matrix bias, matrix y)
{
    if (x.columns != weight.columns || x.rows != y.rows || weight.rows != y.columns ||
        !has_columns(bias, y.columns)) {
        return wrong_shape(SLOT_LINEAR);
    }
    return operation_run(&(operation){.slot = SLOT_LINEAR, .m = {x, weight, bias, y}});
}

grail_status matrix_rms_norm(double epsilon, matrix x, matrix weight, matrix y)
{
    if (!same_shape(x, y) || weight.rows < 1 || weight.columns < 1 ||
        x.columns % weight.columns != 0) {
        return wrong_shape(SLOT_RMS_NORM);
    }
    return operation_run(
        &(operation){.slot = SLOT_RMS_NORM, .m = {x, weight, y}, .with = {.epsilon = epsilon}});
}

grail_status matrix_rope(const rope_shape *shape, matrix x)
{
    if (x.rows != shape->sequences * shape->length || x.columns % shape->head_dim != 0) {
        return wrong_shape(SLOT_ROPE);
    }
    return operation_run(&(operation){.slot = SLOT_ROPE, .m = {x}, .with = {.rope = shape}});
}

grail_status matrix_attention(const attention_shape *shape, matrix q, matrix k, matrix v,
                              matrix out)
{
    return attention_fits(shape, q, k, v, out)
               ? operation_run(&(operation){
                     .slot = SLOT_ATTENTION, .m = {q, k, v, out}, .with = {.attention = shape}})
               : wrong_shape(SLOT_ATTENTION);
}

grail_status matrix_activate(activation_kind kind, matrix x, matrix y)
{
    if (!same_shape(x, y)) {
        return wrong_shape(SLOT_ACTIVATE);
    }
    return operation_run(
        &(operation){.slot = SLOT_ACTIVATE, .m = {x, y}, .with = {.activation = kind}});
}

static grail_status combine(operation_slot slot, matrix a, matrix b, matrix y)
{
    return same_shape(a, y) && same_shape(b, y)
               ? operation_run(&(operation){.slot = slot, .m = {a, b, y}})
               : wrong_shape(slot);
}

grail_status matrix_multiply(matrix a, matrix b, matrix y)
{
    return combine(SLOT_MULTIPLY, a, b, y);
}

grail_status matrix_add(matrix a, matrix b, matrix y)
{
    return combine(SLOT_ADD, a, b, y);
}

grail_status matrix_subtract(matrix a, matrix b, matrix y)
{
    return combine(SLOT_SUBTRACT, a, b, y);
}

grail_status matrix_scale_rows(matrix factor, matrix x, matrix y)
{
    return same_shape(x, y) && is_row(factor, x.rows)
               ? operation_run(&(operation){.slot = SLOT_SCALE_ROWS, .m = {factor, x, y}})
               : wrong_shape(SLOT_SCALE_ROWS);
}

grail_status matrix_cross_entropy(matrix logits, int64_t first, const int32_t *target,
                                  entropy_sums *sums)
{
    return operation_run(&(operation){.slot = SLOT_CROSS_ENTROPY,
                                      .m = {logits},
                                      .with = {.begin = first, .target = target, .entropy = sums}});
}

double entropy_of(const entropy_sums *sums)
{
    return log(sums->total) + sums->largest - sums->target;
}

grail_status matrix_find_non_finite(bool lower, matrix x, int64_t *index)
{
    if (lower && !is_square(x)) {
        return wrong_shape(SLOT_FIND_NON_FINITE);
    }
    return operation_run(&(operation){
        .slot = SLOT_FIND_NON_FINITE, .m = {x}, .with = {.lower = lower, .index = index}});
}

grail_status matrix_conv2d(const conv_shape *shape, bool relu, matrix x, matrix weight, matrix bias,
                           matrix residual, matrix y)
{
    if (!convolution_fits(shape, x, weight, y) || !has_columns(bias, y.columns) ||
        (matrix_exists(residual) && !same_shape(residual, y))) {
        return wrong_shape(SLOT_CONV2D);
    }
    return operation_run(&(operation){.slot = SLOT_CONV2D,
                                      .m = {x, weight, bias, residual, y},
                                      .with = {.conv = shape, .relu = relu}});
}

grail_status matrix_patches(const conv_shape *shape, int64_t begin, int64_t end, matrix x, matrix p)
{
    const int64_t taps = shape->window.kernel_height * shape->window.kernel_width;
    if (!has_positions(shape, x) || begin < 0 || end > shape->samples * shape->out.height ||
        p.columns != shape->channels_in * taps || p.rows != (end - begin) * shape->out.width) {
        return wrong_shape(SLOT_PATCHES);
    }
    return operation_run(&(operation){
        .slot = SLOT_PATCHES, .m = {x, p}, .with = {.conv = shape, .begin = begin, .end = end}});
}

grail_status matrix_max_pool(const conv_shape *shape, matrix x, matrix y)
{
    return window_fits(shape, x, y)
               ? operation_run(
                     &(operation){.slot = SLOT_MAX_POOL, .m = {x, y}, .with = {.conv = shape}})
               : wrong_shape(SLOT_MAX_POOL);
}

grail_status matrix_mean_positions(matrix x, matrix y)
{
    if (x.columns != y.columns || (y.rows == 0 ? x.rows != 0 : x.rows % y.rows != 0)) {
        return wrong_shape(SLOT_MEAN_POSITIONS);
    }
    return operation_run(&(operation){.slot = SLOT_MEAN_POSITIONS, .m = {x, y}});
}

grail_status matrix_batch_norm(double epsilon, matrix x, matrix mean, matrix variance,
                               matrix weight, matrix bias, matrix y)
{
    if (!same_shape(x, y) || !is_row(mean, x.columns) || !is_row(variance, x.columns) ||
        !has_columns(weight, x.columns) || !has_columns(bias, x.columns)) {
        return wrong_shape(SLOT_BATCH_NORM);
    }
    return operation_run(&(operation){.slot = SLOT_BATCH_NORM,
                                      .m = {x, mean, variance, weight, bias, y},
                                      .with = {.epsilon = epsilon}});
}

grail_status matrix_layer_norm(double epsilon, matrix x, matrix weight, matrix bias, matrix y)
{
    if (!same_shape(x, y) || !has_columns(weight, x.columns) || !has_columns(bias, x.columns)) {
        return wrong_shape(SLOT_LAYER_NORM);
    }
    return operation_run(&(operation){
        .slot = SLOT_LAYER_NORM, .m = {x, weight, bias, y}, .with = {.epsilon = epsilon}});
}

grail_status matrix_unit_length(matrix x, matrix y)
{
    return same_shape(x, y) ? operation_run(&(operation){.slot = SLOT_UNIT_LENGTH, .m = {x, y}})
                            : wrong_shape(SLOT_UNIT_LENGTH);
}

grail_status matrix_shortcut(const position_shape *shape, matrix x, matrix y)
{
    return shortcut_fits(shape, x, y)
               ? operation_run(
                     &(operation){.slot = SLOT_SHORTCUT, .m = {x, y}, .with = {.positions = shape}})
               : wrong_shape(SLOT_SHORTCUT);
}

grail_status matrix_windows(const position_shape *shape, matrix x, matrix y)
{
    return windows_fit(shape, x, y)
               ? operation_run(
                     &(operation){.slot = SLOT_WINDOWS, .m = {x, y}, .with = {.positions = shape}})
               : wrong_shape(SLOT_WINDOWS);
}

grail_status matrix_gram(matrix x, matrix g)
{
    return g.rows == x.columns && g.columns == x.columns
               ? operation_run(&(operation){.slot = SLOT_GRAM, .m = {x, g}})
               : wrong_shape(SLOT_GRAM);
}

grail_status matrix_cross(matrix y, matrix x, matrix c)
{
    return y.rows == x.rows && c.rows == y.columns && c.columns == x.columns
               ? operation_run(&(operation){.slot = SLOT_CROSS, .m = {y, x, c}})
               : wrong_shape(SLOT_CROSS);
}

grail_status matrix_column_sums(matrix x, matrix sum, matrix square)
{
    return has_columns(sum, x.columns) && has_columns(square, x.columns)
               ? operation_run(&(operation){.slot = SLOT_COLUMN_SUMS, .m = {x, sum, square}})
               : wrong_shape(SLOT_COLUMN_SUMS);
}

grail_status matrix_copy(matrix in, matrix out)
{
    return same_shape(in, out) ? operation_run(&(operation){.slot = SLOT_COPY, .m = {in, out}})
                               : wrong_shape(SLOT_COPY);
}

grail_status matrix_zero(matrix m)
{
    return operation_run(&(operation){.slot = SLOT_ZERO, .m = {m}});
}

grail_status matrix_gather(const int64_t *rows, const int64_t *columns, matrix in, matrix out)
{
    if (!indices_fit(rows, out.rows, in.rows) || !indices_fit(columns, out.columns, in.columns)) {
        return wrong_shape(SLOT_GATHER);
    }
    return operation_run(&(operation){
        .slot = SLOT_GATHER, .m = {in, out}, .with = {.rows = rows, .columns = columns}});
}

static grail_status fold(operation_slot slot, int64_t units, const int64_t *labels,
                         const double *share, matrix in, matrix out)
{
    const bool by_columns = slot == SLOT_FOLD_COLUMNS;
    const int64_t features = by_columns ? in.columns : in.rows;
    const int64_t folded = by_columns ? out.columns : out.rows;
    if (in.type != out.type || units < 1 || features < units || features % units != 0 ||
        (by_columns ? in.rows != out.rows : in.columns != out.columns) ||
        !indices_fit(labels, units, folded / (features / units))) {
        return wrong_shape(slot);
    }
    return operation_run(&(operation){
        .slot = slot,
        .m = {in, out},
        .with = {.units = units, .labels = labels, .share = share},
    });
}

grail_status matrix_fold_columns(int64_t units, const int64_t *labels, const double *share,
                                 matrix in, matrix out)
{
    return fold(SLOT_FOLD_COLUMNS, units, labels, share, in, out);
}

grail_status matrix_fold_rows(int64_t units, const int64_t *labels, const double *share, matrix in,
                              matrix out)
{
    return fold(SLOT_FOLD_ROWS, units, labels, share, in, out);
}

grail_status matrix_gemm(bool transpose_a, bool transpose_b, double alpha, matrix a, matrix b,
                         double beta, matrix c)
{
    if (!product_fits(transpose_a, transpose_b, a, b, c)) {
        return wrong_shape(SLOT_GEMM);
    }
    return operation_run(&(operation){
        .slot = SLOT_GEMM,
        .m = {a, b, c},
        .with = {
            .transpose_a = transpose_a, .transpose_b = transpose_b, .alpha = alpha, .beta = beta}});
}

grail_status matrix_add_symmetric(double alpha, matrix a, matrix b, matrix c)
{
    return same_shape(a, b) && is_square(c) && c.columns == a.columns
               ? operation_run(&(operation){
                     .slot = SLOT_ADD_SYMMETRIC, .m = {a, b, c}, .with = {.alpha = alpha}})
               : wrong_shape(SLOT_ADD_SYMMETRIC);
}

grail_status matrix_add_scaled(double alpha, matrix x, matrix y)
{
    return same_shape(x, y) ? operation_run(&(operation){
                                  .slot = SLOT_ADD_SCALED, .m = {x, y}, .with = {.alpha = alpha}})
                            : wrong_shape(SLOT_ADD_SCALED);
}

grail_status matrix_add_outer(bool lower, double alpha, matrix x, matrix y, matrix a)
{
    if (x.rows != 1 || y.rows != 1 || a.rows != x.columns || a.columns != y.columns ||
        (lower && !is_square(a))) {
        return wrong_shape(SLOT_ADD_OUTER);
    }
    return operation_run(&(operation){
        .slot = SLOT_ADD_OUTER, .m = {x, y, a}, .with = {.lower = lower, .alpha = alpha}});
}

grail_status matrix_diagonal(matrix a, matrix d)
{
    return is_square(a) && is_row(d, a.columns)
               ? operation_run(&(operation){.slot = SLOT_DIAGONAL, .m = {a, d}})
               : wrong_shape(SLOT_DIAGONAL);
}

grail_status matrix_download_diagonal(matrix a, double *diagonal)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    TRY(matrix_new(a.owner, GRAIL_DTYPE_F64, 1, a.rows, &row));
    TRY(matrix_diagonal(a, row));
    TRY(matrix_download(row, diagonal));
out:
    matrix_free(&row);
    return status;
}

grail_status matrix_set_diagonal(matrix d, matrix a)
{
    return is_square(a) && is_row(d, a.columns)
               ? operation_run(&(operation){.slot = SLOT_SET_DIAGONAL, .m = {d, a}})
               : wrong_shape(SLOT_SET_DIAGONAL);
}

grail_status matrix_shift_diagonal(double value, matrix a)
{
    return is_square(a) ? operation_run(&(operation){
                              .slot = SLOT_SHIFT_DIAGONAL, .m = {a}, .with = {.alpha = value}})
                        : wrong_shape(SLOT_SHIFT_DIAGONAL);
}

static grail_status fill_triangle(bool upper, matrix a)
{
    return is_square(a) ? operation_run(&(operation){
                              .slot = SLOT_FILL_TRIANGLE, .m = {a}, .with = {.upper = upper}})
                        : wrong_shape(SLOT_FILL_TRIANGLE);
}

grail_status matrix_fill_upper(matrix a)
{
    return fill_triangle(true, a);
}

grail_status matrix_fill_lower(matrix a)
{
    return fill_triangle(false, a);
}

grail_status matrix_row_dots(matrix a, matrix b, matrix out)
{
    return same_shape(a, b) && a.type == b.type && is_row(out, a.rows)
               ? operation_run(&(operation){.slot = SLOT_ROW_DOTS, .m = {a, b, out}})
               : wrong_shape(SLOT_ROW_DOTS);
}

grail_status matrix_divide_columns(matrix divisor, matrix a)
{
    return is_row(divisor, a.columns)
               ? operation_run(&(operation){.slot = SLOT_DIVIDE_COLUMNS, .m = {divisor, a}})
               : wrong_shape(SLOT_DIVIDE_COLUMNS);
}

grail_status matrix_cholesky(matrix a, int64_t *pivot)
{
    return is_square(a) ? operation_run(&(operation){
                              .slot = SLOT_CHOLESKY, .m = {a}, .with = {.index = pivot}})
                        : wrong_shape(SLOT_CHOLESKY);
}

grail_status matrix_cholesky_solve(matrix l, matrix b)
{
    return is_square(l) && b.columns == l.columns
               ? operation_run(&(operation){.slot = SLOT_CHOLESKY_SOLVE, .m = {l, b}})
               : wrong_shape(SLOT_CHOLESKY_SOLVE);
}

grail_status matrix_cholesky_multiply(matrix l, matrix b)
{
    return is_square(l) && b.columns == l.columns
               ? operation_run(&(operation){.slot = SLOT_CHOLESKY_MULTIPLY, .m = {l, b}})
               : wrong_shape(SLOT_CHOLESKY_MULTIPLY);
}

grail_status matrix_cholesky_invert(matrix l)
{
    return is_square(l) ? operation_run(&(operation){.slot = SLOT_CHOLESKY_INVERT, .m = {l}})
                        : wrong_shape(SLOT_CHOLESKY_INVERT);
}

grail_status matrix_eigen(matrix a, matrix values)
{
    return is_square(a) && is_row(values, a.columns)
               ? operation_run(&(operation){.slot = SLOT_EIGEN, .m = {a, values}})
               : wrong_shape(SLOT_EIGEN);
}
