/* Norms, their gradients, and means over positions. Sums are f64. */
#include "backend/torch/kernels.h"

/* ||x||_2 of each row; the squares are f64, too. */
static torch_tensor lengths_of(torch_frame *f, torch_tensor x)
{
    return torch_call(f, "aten::norm", "ScalarOpt_dim_dtype", A_TENSOR(x), NOTHING, INTEGERS(1),
                      A_TRUTH(true), A_TYPE(GRAIL_DTYPE_F64));
}

/* 1 / sqrt(x + epsilon) */
static torch_tensor inverse_deviation(torch_frame *f, torch_tensor x, double epsilon)
{
    return torch_unary(f, "aten::rsqrt", torch_shifted(f, x, epsilon));
}

static torch_tensor as_values(torch_frame *f, torch_tensor x)
{
    return torch_as(f, GRAIL_DTYPE_F32, x);
}

/* A parameter or fixed moment, which is the first row of its matrix. */
static torch_tensor first_row(torch_frame *f, matrix m)
{
    return torch_view(f, m, 2, (int64_t[]){1, m.columns}, (int64_t[]){m.columns, 1});
}

/* m += sums, where that gradient of a parameter is wanted. */
static void add_sums(torch_frame *f, torch_tensor sums, matrix m)
{
    const torch_tensor own = first_row(f, m);
    if (own != NULL) {
        torch_copy(f, torch_sum(f, own, sums, 1.0), own);
    }
}

static void add_column_sums(torch_frame *f, torch_tensor x, matrix m)
{
    if (matrix_exists(m)) {
        add_sums(f, torch_sums(f, x, MAYBE_INTEGERS(0)), m);
    }
}

/* -- RMS ----------------------------------------------------------------------------------------*/

/* The groups of X as rows. */
static torch_tensor groups_of(torch_frame *f, matrix x, int64_t group)
{
    return torch_matrix(f, matrix_reshape(x, matrix_count(x) / group, group));
}

static torch_tensor wide_groups_of(torch_frame *f, matrix x, int64_t group)
{
    return torch_widened(f, x, groups_of(f, x, group));
}

/* 1 / sqrt(mean(x^2) + epsilon) of each row */
static torch_tensor inverse_root(torch_frame *f, torch_tensor x, int64_t width, double epsilon)
{
    const torch_tensor squares = torch_unary(f, "aten::square", lengths_of(f, x));
    return inverse_deviation(f, torch_scaled(f, squares, 1.0 / (double)width), epsilon);
}

/* A GPU's own kernel for values of 16 bits, which reads them once. */
static void rms_norm_fused(torch_frame *f, const operation *o, int64_t group)
{
    torch_tensor results[2];
    const matrix w = o->m[1];
    const torch_tensor weight = torch_view(f, w, 1, &w.columns, (int64_t[]){1});
    const bool fits = w.type == o->m[0].type;
    const torch_tensor y = groups_of(f, o->m[2], group);
    const torch_tensor normed = torch_call_many(
        f, "aten::_fused_rms_norm", "", 2, results, A_TENSOR(groups_of(f, o->m[0], group)),
        INTEGERS(group), MAYBE_TENSOR(fits ? weight : NULL), MAYBE_REAL(o->with.epsilon));
    if (fits) {
        torch_copy(f, normed, y);
    } else {
        torch_times_into(f, normed, weight, y);
    }
}

KERNEL(rms_norm)
{
    const int64_t group = o->m[1].columns;
    if (torch_is_cuda(f->owner) && torch_is_narrow(o->m[0]) && matrix_count(o->m[0]) > 0) {
        rms_norm_fused(f, o, group);
        return;
    }
    const torch_tensor x = wide_groups_of(f, o->m[0], group);
    const torch_tensor y = groups_of(f, o->m[2], group);
    const torch_tensor scaled = torch_is_narrow(o->m[2]) ? x : y;
    torch_times_into(f, x, as_values(f, inverse_root(f, x, group, o->with.epsilon)), scaled);
    torch_times_into(f, scaled, first_row(f, o->m[1]), y);
}

KERNEL(rms_norm_gradient)
{
    const int64_t group = o->m[1].columns;
    const torch_tensor x = wide_groups_of(f, o->m[0], group);
    const torch_tensor dy = wide_groups_of(f, o->m[2], group);
    const torch_tensor factor = inverse_root(f, x, group, o->with.epsilon);
    const torch_tensor scaled = torch_times(f, x, as_values(f, factor));
    const torch_tensor product = torch_times(f, dy, scaled);
    const torch_tensor g = torch_times(f, dy, first_row(f, o->m[1]));
    add_column_sums(f, product, o->m[4]);
    torch_times_into(f, product, first_row(f, o->m[1]), product);
    const torch_tensor share =
        torch_scaled(f, torch_sums(f, product, MAYBE_INTEGERS(1)), 1.0 / (double)group);
    const torch_tensor part = torch_times(f, scaled, as_values(f, share));
    torch_times_into(f, torch_sum(f, g, part, -1.0), as_values(f, factor),
                     groups_of(f, o->m[3], group));
}

/* -- layer norm: all in f64 ---------------------------------------------------------------------*/

static torch_tensor widened(torch_frame *f, torch_tensor x)
{
    return torch_as(f, GRAIL_DTYPE_F64, x);
}

/* A parameter as torch's operators want it; NULL for one that is missing. */
static torch_tensor parameter(torch_frame *f, matrix m)
{
    return matrix_exists(m) ? widened(f, torch_view(f, m, 1, &m.columns, (int64_t[]){1})) : NULL;
}

KERNEL(layer_norm)
{
    torch_tensor results[3];
    const torch_tensor x = widened(f, torch_matrix(f, o->m[0]));
    const torch_tensor weight = parameter(f, o->m[1]);
    const torch_tensor bias = parameter(f, o->m[2]);
    torch_copy(f,
               torch_call_many(f, "aten::native_layer_norm", "", 3, results, A_TENSOR(x),
                               INTEGERS(o->m[0].columns), MAYBE_TENSOR(weight), MAYBE_TENSOR(bias),
                               A_REAL(o->with.epsilon)),
               torch_matrix(f, o->m[3]));
}

/* torch gives the gradient of a weight only where there is one. */
static torch_tensor weight_or_ones(torch_frame *f, matrix weight, int64_t width)
{
    const torch_tensor memory = torch_empty(f, GRAIL_DTYPE_F64, 1, width);
    const torch_tensor row = torch_reshaped(f, memory, 1, &width, (int64_t[]){1}, 0);
    return matrix_exists(weight) ? parameter(f, weight) : torch_fill(f, row, 1.0);
}

KERNEL(layer_norm_gradient)
{
    const int64_t width = o->m[0].columns;
    torch_tensor moments[2] = {NULL}; /* variance, mean */
    torch_tensor gradients[3] = {NULL};
    const torch_tensor x = widened(f, torch_matrix(f, o->m[0]));
    const torch_tensor weight = weight_or_ones(f, o->m[1], width);
    const torch_tensor dy = widened(f, torch_matrix(f, o->m[2]));
    (void)torch_call_many(f, "aten::var_mean", "dim", 2, moments, A_TENSOR(x), MAYBE_INTEGERS(1),
                          A_TRUTH(false), A_TRUTH(true));
    const torch_tensor factor = inverse_deviation(f, moments[0], o->with.epsilon);
    (void)torch_call_many(f, "aten::native_layer_norm_backward", "", 3, gradients, A_TENSOR(dy),
                          A_TENSOR(x), INTEGERS(width), A_TENSOR(moments[1]), A_TENSOR(factor),
                          MAYBE_TENSOR(weight), NOTHING, INTEGERS(1, 1, 0));
    torch_copy(f, gradients[0], torch_matrix(f, o->m[3]));
    add_sums(f, gradients[1], o->m[4]);
    add_column_sums(f, dy, o->m[5]);
}

/* -- batch norm ---------------------------------------------------------------------------------*/

/* 1 / sqrt(variance + epsilon) of each column in f64. */
static torch_tensor inverse_of_variance(torch_frame *f, matrix variance, double epsilon)
{
    return inverse_deviation(f, widened(f, first_row(f, variance)), epsilon);
}

static torch_tensor weighted(torch_frame *f, torch_tensor factor, matrix weight)
{
    const torch_tensor by = first_row(f, weight);
    return as_values(f, by == NULL ? factor : torch_times(f, factor, by));
}

KERNEL(batch_norm)
{
    const torch_tensor factor = inverse_of_variance(f, o->m[2], o->with.epsilon);
    const torch_tensor bias = first_row(f, o->m[4]);
    const torch_tensor centred = torch_sum(f, torch_wide(f, o->m[0]), first_row(f, o->m[1]), -1.0);
    const torch_tensor y = torch_matrix(f, o->m[5]);
    const torch_tensor scaled = torch_is_narrow(o->m[5]) && bias != NULL ? centred : y;
    torch_times_into(f, centred, weighted(f, factor, o->m[3]), scaled);
    if (bias != NULL) {
        torch_copy(f, torch_sum(f, scaled, bias, 1.0), y);
    }
}

KERNEL(batch_norm_gradient)
{
    const torch_tensor factor = inverse_of_variance(f, o->m[2], o->with.epsilon);
    const torch_tensor dy = torch_wide(f, o->m[4]);
    if (matrix_exists(o->m[6])) {
        const torch_tensor centred =
            torch_sum(f, torch_wide(f, o->m[0]), first_row(f, o->m[1]), -1.0);
        const torch_tensor sums = torch_sums(f, torch_times(f, dy, centred), MAYBE_INTEGERS(0));
        add_sums(f, torch_times(f, sums, factor), o->m[6]);
    }
    add_column_sums(f, dy, o->m[7]);
    if (matrix_exists(o->m[5])) {
        torch_times_into(f, dy, weighted(f, factor, o->m[3]), torch_matrix(f, o->m[5]));
    }
}

/* -- unit length --------------------------------------------------------------------------------*/

static const double least_length = 1e-12;

static torch_tensor inverse_length(torch_frame *f, torch_tensor lengths)
{
    const torch_tensor bounded = torch_call(f, "aten::maximum", "", A_TENSOR(lengths),
                                            A_TENSOR(torch_number(f, least_length)));
    return as_values(f, torch_unary(f, "aten::reciprocal", bounded));
}

KERNEL(unit_length)
{
    const torch_tensor x = torch_wide(f, o->m[0]);
    torch_times_into(f, x, inverse_length(f, lengths_of(f, x)), torch_matrix(f, o->m[1]));
}

KERNEL(unit_length_gradient)
{
    const torch_tensor x = torch_wide(f, o->m[0]);
    const torch_tensor dy = torch_wide(f, o->m[1]);
    const torch_tensor lengths = lengths_of(f, x);
    const torch_tensor factor = inverse_length(f, lengths);
    const torch_tensor y = torch_times(f, x, factor);
    const torch_tensor product = torch_sums(f, torch_times(f, y, dy), MAYBE_INTEGERS(1));
    const torch_tensor longer = torch_call(f, "aten::gt", "Tensor", A_TENSOR(lengths),
                                           A_TENSOR(torch_number(f, least_length)));
    const torch_tensor share = torch_times(f, product, longer);
    const torch_tensor part = torch_times(f, y, as_values(f, share));
    torch_times_into(f, torch_sum(f, dy, part, -1.0), factor, torch_matrix(f, o->m[2]));
}

/* -- positions ----------------------------------------------------------------------------------*/

KERNEL(mean_positions)
{
    const matrix x = o->m[0];
    const matrix y = o->m[1];
    const int64_t positions = y.rows > 0 ? x.rows / y.rows : 0;
    const torch_tensor samples = torch_view(f, x, 3, (int64_t[]){y.rows, positions, y.columns},
                                            (int64_t[]){positions * x.columns, x.columns, 1});
    torch_copy(f,
               torch_call(f, "aten::mean", "dim", A_TENSOR(samples), MAYBE_INTEGERS(1),
                          A_TRUTH(false), MAYBE_TYPE(GRAIL_DTYPE_F64)),
               torch_matrix(f, y));
}
