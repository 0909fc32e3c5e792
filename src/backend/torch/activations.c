/* Functions of single elements, straight into their output, which may be their input: of each
 * activation its value and its slope. */
#include "backend/torch/kernels.h"

#include <math.h>

#define QUICK 1.702 /* of quick_gelu: x sigmoid(QUICK x) */

static void apply(torch_frame *f, const char *name, torch_tensor x, torch_tensor out)
{
    (void)torch_call(f, name, "out", A_TENSOR(x), A_TENSOR(out));
}

static void apply_gradient(torch_frame *f, const char *name, torch_tensor x, torch_tensor dy,
                           torch_tensor dx)
{
    (void)torch_call(f, name, "grad_input", A_TENSOR(dy), A_TENSOR(x), A_TENSOR(dx));
}

/* -- activations ------------------------------------------------------------------------------- */

static void gelu(torch_frame *f, const char *kind, torch_tensor x, torch_tensor y)
{
    (void)torch_call(f, "aten::gelu", "out", A_TENSOR(x), A_TEXT(kind), A_TENSOR(y));
}

static void quick_gelu(torch_frame *f, torch_tensor x, torch_tensor y)
{
    const torch_tensor gate = torch_scaled(f, x, QUICK);
    apply(f, "aten::sigmoid", gate, gate);
    torch_times_into(f, x, gate, y);
}

/* min(x, 0) as a new tensor. */
static torch_tensor below_zero(torch_frame *f, torch_tensor x)
{
    const torch_tensor out = torch_scaled(f, x, 1.0);
    torch_limit(f, -HUGE_VAL, 0.0, out, out);
    return out;
}

/* max(x, 0) + (exp(min(x, 0)) - 1) */
static void elu(torch_frame *f, torch_tensor x, torch_tensor y)
{
    const torch_tensor below = below_zero(f, x);
    const torch_tensor above = torch_unary(f, "aten::relu", x);
    apply(f, "aten::expm1", below, below);
    torch_copy(f, torch_sum(f, above, below, 1.0), y);
}

/* log(exp(x) + exp(0)) */
static void softplus(torch_frame *f, torch_tensor x, torch_tensor y)
{
    (void)torch_call(f, "aten::logaddexp", "out", A_TENSOR(x), A_TENSOR(torch_number(f, 0.0)),
                     A_TENSOR(y));
}

/* Activations that torch has as they are. */
static const char *const values[ACTIVATION_KINDS] = {
    [ACTIVATION_SILU] = "aten::silu",       [ACTIVATION_RELU] = "aten::relu",
    [ACTIVATION_SIGMOID] = "aten::sigmoid", [ACTIVATION_HARD_SIGMOID] = "aten::hardsigmoid",
    [ACTIVATION_TANH] = "aten::tanh",
};

KERNEL(activate)
{
    const activation_kind kind = o->with.activation;
    const torch_tensor x = torch_matrix(f, o->m[0]);
    const torch_tensor y = torch_matrix(f, o->m[1]);
    if (values[kind] != NULL) {
        apply(f, values[kind], x, y);
    } else if (kind == ACTIVATION_QUICK_GELU) {
        quick_gelu(f, torch_wide(f, o->m[0]), y);
    } else if (kind == ACTIVATION_ELU) {
        elu(f, torch_wide(f, o->m[0]), y);
    } else if (kind == ACTIVATION_ERF) { /* which torch makes 0 of small values in bf16 */
        apply(f, "aten::erf", torch_wide(f, o->m[0]), y);
    } else if (kind == ACTIVATION_SOFTPLUS) {
        softplus(f, torch_wide(f, o->m[0]), y);
    } else if (kind == ACTIVATION_RELU6) {
        torch_limit(f, 0.0, 6.0, x, y);
    } else {
        gelu(f, kind == ACTIVATION_GELU ? "none" : "tanh", x, y);
    }
}

/* -- their slopes ------------------------------------------------------------------------------ */

/* x, but no further from 0 than where slopes have ended: cubes and products of larger ones overflow
 * and make NaN. */
static torch_tensor within_reach(torch_frame *f, torch_tensor x)
{
    const double far = 1000.0;
    const torch_tensor out = torch_scaled(f, x, 1.0);
    torch_limit(f, -far, far, out, out);
    return out;
}

static void gelu_gradient(torch_frame *f, const char *kind, torch_tensor x, torch_tensor dy,
                          torch_tensor dx)
{
    (void)torch_call(f, "aten::gelu_backward", "grad_input", A_TENSOR(dy), A_TENSOR(x),
                     A_TEXT(kind), A_TENSOR(dx));
}

/* That of silu(u) / QUICK at u = QUICK x. */
static void quick_gelu_gradient(torch_frame *f, torch_tensor x, torch_tensor dy, torch_tensor dx)
{
    const torch_tensor u = within_reach(f, x);
    torch_times_into(f, u, torch_number(f, QUICK), u);
    apply_gradient(f, "aten::silu_backward", u, dy, dx);
}

static torch_tensor relu6_slope(torch_frame *f, torch_tensor x)
{
    return torch_times(f, torch_compared(f, "aten::gt", x, 0.0),
                       torch_compared(f, "aten::lt", x, 6.0));
}

/* sigmoid(x) sigmoid(-x), which keeps its digits where sigmoid(x) is next to 1. */
static torch_tensor sigmoid_slope(torch_frame *f, torch_tensor x)
{
    const torch_tensor slope = torch_unary(f, "aten::neg", x);
    apply(f, "aten::sigmoid", slope, slope);
    torch_times_into(f, slope, torch_unary(f, "aten::sigmoid", x), slope);
    return slope;
}

/* exp(-x^2) 2 / sqrt(pi) */
static torch_tensor erf_slope(torch_frame *f, torch_tensor x)
{
    const torch_tensor near = within_reach(f, x);
    const torch_tensor square = torch_unary(f, "aten::neg", torch_times(f, near, near));
    apply(f, "aten::exp", square, square);
    return torch_scaled(f, square, M_2_SQRTPI);
}

static void multiply_slope(torch_frame *f, activation_kind kind, torch_tensor x, torch_tensor dy,
                           torch_tensor dx)
{
    switch (kind) {
    case ACTIVATION_SILU:
        apply_gradient(f, "aten::silu_backward", x, dy, dx);
        break;
    case ACTIVATION_QUICK_GELU:
        quick_gelu_gradient(f, x, dy, dx);
        break;
    case ACTIVATION_HARD_SIGMOID:
        apply_gradient(f, "aten::hardsigmoid_backward", x, dy, dx);
        break;
    case ACTIVATION_RELU:
        torch_times_into(f, dy, torch_compared(f, "aten::gt", x, 0.0), dx);
        break;
    case ACTIVATION_RELU6:
        torch_times_into(f, dy, relu6_slope(f, x), dx);
        break;
    case ACTIVATION_SIGMOID:
        torch_times_into(f, dy, sigmoid_slope(f, x), dx);
        break;
    case ACTIVATION_TANH: /* 4 s(2 x) s(-2 x) */
        torch_times_into(f, torch_scaled(f, sigmoid_slope(f, torch_scaled(f, x, 2.0)), 4.0), dy,
                         dx);
        break;
    case ACTIVATION_ERF:
        torch_times_into(f, dy, erf_slope(f, x), dx);
        break;
    case ACTIVATION_ELU:
        torch_times_into(f, dy, torch_unary(f, "aten::exp", below_zero(f, x)), dx);
        break;
    case ACTIVATION_SOFTPLUS:
        torch_times_into(f, dy, torch_unary(f, "aten::sigmoid", x), dx);
        break;
    case ACTIVATION_GELU:
        gelu_gradient(f, "none", x, dy, dx);
        break;
    default:
        gelu_gradient(f, "tanh", within_reach(f, x), dy, dx);
    }
}

KERNEL(activate_gradient)
{
    const bool rounds_once = o->with.activation == ACTIVATION_SILU; /* torch's own is f32 within */
    torch_tensor (*const seen)(torch_frame *, matrix) = rounds_once ? torch_matrix : torch_wide;
    multiply_slope(f, o->with.activation, seen(f, o->m[0]), seen(f, o->m[1]),
                   torch_matrix(f, o->m[2]));
}

/* -- bounds ------------------------------------------------------------------------------------ */

KERNEL(soft_cap)
{
    const torch_tensor y = torch_matrix(f, o->m[1]);
    const torch_tensor share = torch_scaled(f, torch_wide(f, o->m[0]), 1.0 / o->with.alpha);
    apply(f, "aten::tanh", share, share);
    torch_times_into(f, share, torch_number(f, o->with.alpha), y);
}

KERNEL(soft_cap_gradient)
{
    const torch_tensor share = torch_scaled(f, torch_wide(f, o->m[0]), 1.0 / o->with.alpha);
    apply_gradient(f, "aten::tanh_backward", share, torch_wide(f, o->m[1]),
                   torch_matrix(f, o->m[2]));
}

KERNEL(clamp)
{
    const clamp_attributes *c = o->with.clamp;
    const torch_tensor y = torch_matrix(f, o->m[1]);
    torch_limit(f, c->low, c->high, torch_matrix(f, o->m[0]), y);
    if (c->offset != 0.0) {
        torch_copy(f, torch_shifted(f, y, c->offset), y);
    }
}

/* A product with 0 would let NaN through. */
KERNEL(clamp_gradient)
{
    const clamp_attributes *c = o->with.clamp;
    const torch_tensor x = torch_matrix(f, o->m[0]);
    const torch_tensor outside =
        torch_call(f, "aten::logical_or", "", A_TENSOR(torch_compared(f, "aten::lt", x, c->low)),
                   A_TENSOR(torch_compared(f, "aten::gt", x, c->high)));
    const torch_tensor dx = torch_matrix(f, o->m[2]);
    torch_copy(f, torch_matrix(f, o->m[1]), dx);
    torch_put(f, outside, 0.0, dx);
}
