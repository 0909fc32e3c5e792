#include "backend/gradients.h"

#include "backend/kind.h"
#include "backend/shapes.h"

grail_status matrix_product(bool transpose_a, bool transpose_b, matrix a, matrix b, double beta,
                            matrix c)
{
    return product_fits(transpose_a, transpose_b, a, b, c)
               ? operation_run(&(operation){.slot = SLOT_PRODUCT,
                                            .m = {a, b, c},
                                            .with = {.transpose_a = transpose_a,
                                                     .transpose_b = transpose_b,
                                                     .beta = beta}})
               : wrong_shape(SLOT_PRODUCT);
}

grail_status matrix_rms_norm_gradient(double epsilon, matrix x, matrix weight, matrix dy, matrix dx,
                                      matrix dweight)
{
    if (!same_shape(x, dy) || !same_shape(x, dx) || weight.rows < 1 || weight.columns < 1 ||
        x.columns % weight.columns != 0 || !has_columns(dweight, weight.columns)) {
        return wrong_shape(SLOT_RMS_NORM_GRADIENT);
    }
    return operation_run(&(operation){.slot = SLOT_RMS_NORM_GRADIENT,
                                      .m = {x, weight, dy, dx, dweight},
                                      .with = {.epsilon = epsilon}});
}

grail_status matrix_layer_norm_gradient(double epsilon, matrix x, matrix weight, matrix dy,
                                        matrix dx, matrix dweight, matrix dbias)
{
    if (!same_shape(x, dy) || !same_shape(x, dx) || !has_columns(weight, x.columns) ||
        !has_columns(dweight, x.columns) || !has_columns(dbias, x.columns)) {
        return wrong_shape(SLOT_LAYER_NORM_GRADIENT);
    }
    return operation_run(&(operation){.slot = SLOT_LAYER_NORM_GRADIENT,
                                      .m = {x, weight, dy, dx, dweight, dbias},
                                      .with = {.epsilon = epsilon}});
}

grail_status matrix_batch_norm_gradient(double epsilon, matrix x, matrix mean, matrix variance,
                                        matrix weight, matrix dy, matrix dx, matrix dweight,
                                        matrix dbias)
{
    if (!same_shape(x, dy) || (matrix_exists(dx) && !same_shape(x, dx)) ||
        !is_row(mean, x.columns) || !is_row(variance, x.columns) ||
        !has_columns(weight, x.columns) || !has_columns(dweight, x.columns) ||
        !has_columns(dbias, x.columns)) {
        return wrong_shape(SLOT_BATCH_NORM_GRADIENT);
    }
    return operation_run(&(operation){.slot = SLOT_BATCH_NORM_GRADIENT,
                                      .m = {x, mean, variance, weight, dy, dx, dweight, dbias},
                                      .with = {.epsilon = epsilon}});
}

grail_status matrix_unit_length_gradient(matrix x, matrix dy, matrix dx)
{
    return same_shape(x, dy) && same_shape(x, dx)
               ? operation_run(&(operation){.slot = SLOT_UNIT_LENGTH_GRADIENT, .m = {x, dy, dx}})
               : wrong_shape(SLOT_UNIT_LENGTH_GRADIENT);
}

grail_status matrix_attention_gradient(const attention_shape *shape, matrix q, matrix k, matrix v,
                                       matrix out, matrix dout, matrix dq, matrix dk, matrix dv)
{
    if (!attention_fits(shape, q, k, v, out) || !same_shape(out, dout) || !same_shape(q, dq) ||
        !same_shape(k, dk) || !same_shape(v, dv)) {
        return wrong_shape(SLOT_ATTENTION_GRADIENT);
    }
    return operation_run(&(operation){.slot = SLOT_ATTENTION_GRADIENT,
                                      .m = {q, k, v, out, dout, dq, dk, dv},
                                      .with = {.attention = shape}});
}

grail_status matrix_activate_gradient(activation_kind kind, matrix x, matrix dy, matrix dx)
{
    return same_shape(x, dy) && same_shape(x, dx)
               ? operation_run(&(operation){.slot = SLOT_ACTIVATE_GRADIENT,
                                            .m = {x, dy, dx},
                                            .with = {.activation = kind}})
               : wrong_shape(SLOT_ACTIVATE_GRADIENT);
}

grail_status matrix_conv2d_gradient(const conv_shape *shape, matrix x, matrix weight, matrix dy,
                                    matrix dx, matrix dweight, matrix dbias)
{
    if (!convolution_fits(shape, x, weight, dy) || (matrix_exists(dx) && !same_shape(x, dx)) ||
        (matrix_exists(dweight) && !same_shape(weight, dweight)) ||
        !has_columns(dbias, dy.columns)) {
        return wrong_shape(SLOT_CONV2D_GRADIENT);
    }
    return operation_run(&(operation){.slot = SLOT_CONV2D_GRADIENT,
                                      .m = {x, weight, dy, dx, dweight, dbias},
                                      .with = {.conv = shape}});
}

grail_status matrix_max_pool_gradient(const conv_shape *shape, matrix x, matrix dy, matrix dx)
{
    return window_fits(shape, x, dy) && same_shape(x, dx)
               ? operation_run(&(operation){
                     .slot = SLOT_MAX_POOL_GRADIENT, .m = {x, dy, dx}, .with = {.conv = shape}})
               : wrong_shape(SLOT_MAX_POOL_GRADIENT);
}

grail_status matrix_shortcut_gradient(const position_shape *shape, matrix dy, matrix dx)
{
    return shortcut_fits(shape, dx, dy)
               ? operation_run(&(operation){
                     .slot = SLOT_SHORTCUT_GRADIENT, .m = {dy, dx}, .with = {.positions = shape}})
               : wrong_shape(SLOT_SHORTCUT_GRADIENT);
}

grail_status matrix_divergence(matrix target, matrix logits, double scale, matrix gradient,
                               double *divergence)
{
    return same_shape(target, logits) && (!matrix_exists(gradient) || same_shape(logits, gradient))
               ? operation_run(&(operation){.slot = SLOT_DIVERGENCE,
                                            .m = {target, logits, gradient},
                                            .with = {.alpha = scale, .divergence = divergence}})
               : wrong_shape(SLOT_DIVERGENCE);
}

grail_status matrix_descend(const descent *step, matrix gradient, matrix first, matrix second,
                            matrix weight)
{
    const bool has_first = matrix_exists(first);
    return same_shape(gradient, weight) && same_shape(second, weight) &&
                   (has_first ? same_shape(first, weight) : step->first_decay == 0.0)
               ? operation_run(&(operation){.slot = SLOT_DESCEND,
                                            .m = {gradient, first, second, weight},
                                            .with = {.descent = step}})
               : wrong_shape(SLOT_DESCEND);
}
