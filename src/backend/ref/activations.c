/* Activations of the reference backend: of each its value and its slope. */
#include "backend/ref/reference.h"

#include <math.h>

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double sigmoid_slope(double x)
{
    return sigmoid(x) * sigmoid(-x);
}

/* The slope of x s(u), s(u) = 1 / (1 + exp(-u)) with du/dx = slope. */
static double gated_slope(double x, double u, double slope)
{
    const double s = sigmoid(u);
    return s + x * s * (1.0 - s) * slope;
}

static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static double silu_slope(double x)
{
    return gated_slope(x, x, 1.0);
}

static double gelu(double x)
{
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}

/* Phi(x) + x phi(x) */
static double gelu_slope(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2) + 0.5 * (M_2_SQRTPI * M_SQRT1_2) * x * exp(-0.5 * x * x);
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1.0 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
}

/* 0.5 x (1 + tanh u) = x s(2 u) */
static double gelu_tanh_slope(double x)
{
    const double factor = M_2_SQRTPI * M_SQRT1_2; /* sqrt(2 / pi) */
    return gated_slope(x, 2.0 * factor * (x + 0.044715 * x * x * x),
                       2.0 * factor * (1.0 + 3.0 * 0.044715 * x * x));
}

static double quick_gelu(double x)
{
    return x / (1.0 + exp(-1.702 * x));
}

static double quick_gelu_slope(double x)
{
    return gated_slope(x, 1.702 * x, 1.702);
}

static double relu(double x)
{
    return x < 0.0 ? 0.0 : x;
}

static double relu_slope(double x)
{
    return x > 0.0 ? 1.0 : 0.0;
}

static double relu6(double x)
{
    return x > 6.0 ? 6.0 : relu(x);
}

static double relu6_slope(double x)
{
    return x > 0.0 && x < 6.0 ? 1.0 : 0.0;
}

static double hard_sigmoid(double x)
{
    return relu6(x + 3.0) / 6.0;
}

static double hard_sigmoid_slope(double x)
{
    return relu6_slope(x + 3.0) / 6.0;
}

/* 1 - tanh^2, without a difference that cancels */
static double tanh_slope(double x)
{
    return 4.0 * sigmoid_slope(2.0 * x);
}

static double erf_slope(double x)
{
    return M_2_SQRTPI * exp(-x * x);
}

static double elu(double x)
{
    return x < 0.0 ? expm1(x) : x;
}

static double elu_slope(double x)
{
    return x < 0.0 ? exp(x) : 1.0;
}

static double softplus(double x)
{
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

static double softplus_slope(double x)
{
    return sigmoid(x);
}

typedef double (*element_function)(double x);

static const element_function values[] = {
#define ACTIVATION(kind, name) [ACTIVATION_##kind] = name,
#include "graph/activation_list.h"
#undef ACTIVATION
};

static const element_function slopes[] = {
#define ACTIVATION(kind, name) [ACTIVATION_##kind] = name##_slope,
#include "graph/activation_list.h"
#undef ACTIVATION
};

grail_status ref_activate(const operation *o)
{
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        y[i] = values[o->with.activation](x[i]);
    }
    return GRAIL_OK;
}

grail_status ref_activate_gradient(const operation *o)
{
    const double *x = o->m[0].memory;
    const double *dy = o->m[1].memory;
    double *dx = o->m[2].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        dx[i] = slopes[o->with.activation](x[i]) * dy[i];
    }
    return GRAIL_OK;
}

grail_status ref_soft_cap(const operation *o)
{
    const double *x = o->m[0].memory;
    double *y = o->m[1].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        y[i] = o->with.alpha * tanh(x[i] / o->with.alpha);
    }
    return GRAIL_OK;
}

grail_status ref_soft_cap_gradient(const operation *o)
{
    const double *y = o->m[0].memory;
    const double *dy = o->m[1].memory;
    double *dx = o->m[2].memory;
    for (int64_t i = 0; i < matrix_count(o->m[0]); i++) {
        const double share = y[i] / o->with.alpha;
        dx[i] = (1.0 - share * share) * dy[i];
    }
    return GRAIL_OK;
}
