/* The oracle: every slot as its formula, in f64, with plain loops and no dependency. */
#include "backend/ref/reference.h"

#include <math.h>

static grail_status linear(int64_t rows, int64_t in, int64_t out, const void *x, const void *weight,
                           const void *bias, void *y)
{
    ref_gemm(false, true, rows, out, in, 1.0, x, in, weight, in, 0.0, y, out);
    const double *b = bias;
    double *result = y;
    for (int64_t i = 0; b != NULL && i < rows * out; i++) {
        result[i] += b[i % out];
    }
    return GRAIL_OK;
}

static void rms_norm(int64_t rows, int64_t width, int64_t group, double epsilon, const void *x,
                     const void *weight, void *y)
{
    const double *w = weight;
    for (int64_t start = 0; start < rows * width; start += group) {
        const double *in = (const double *)x + start;
        double *out = (double *)y + start;
        double squares = 0.0;
        for (int64_t i = 0; i < group; i++) {
            squares += in[i] * in[i];
        }
        const double factor = 1.0 / sqrt(squares / (double)group + epsilon);
        for (int64_t i = 0; i < group; i++) {
            out[i] = w[i] * in[i] * factor;
        }
    }
}

static void rope(const rope_shape *s, int64_t heads, void *x)
{
    const int64_t half = s->head_dim / 2;
    for (int64_t row = 0; row < s->sequences * s->length; row++) {
        for (int64_t head = 0; head < heads; head++) {
            double *first = (double *)x + (row * heads + head) * s->head_dim;
            double *second = first + half;
            for (int64_t k = 0; k < half; k++) {
                const double turn = (double)(row % s->length) * s->frequency[k];
                const double angle = s->backward ? -turn : turn;
                const double a = first[k];
                const double b = second[k];
                first[k] = a * cos(angle) - b * sin(angle);
                second[k] = b * cos(angle) + a * sin(angle);
            }
        }
    }
}

static double activate(activation_kind kind, double x)
{
    switch (kind) {
    case ACTIVATION_SILU:
        return x / (1.0 + exp(-x));
    case ACTIVATION_GELU:
        return 0.5 * x * erfc(-x * M_SQRT1_2);
    case ACTIVATION_GELU_TANH:
        return 0.5 * x * (1.0 + tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case ACTIVATION_QUICK_GELU:
        return x / (1.0 + exp(-1.702 * x));
    case ACTIVATION_RELU:
        break;
    }
    return x < 0.0 ? 0.0 : x;
}

static void activation(activation_kind kind, int64_t count, const void *x, void *y)
{
    for (int64_t i = 0; i < count; i++) {
        ((double *)y)[i] = activate(kind, ((const double *)x)[i]);
    }
}

static void multiply(int64_t count, const void *a, const void *b, void *y)
{
    for (int64_t i = 0; i < count; i++) {
        ((double *)y)[i] = ((const double *)a)[i] * ((const double *)b)[i];
    }
}

static void add(int64_t count, const void *a, const void *b, void *y)
{
    for (int64_t i = 0; i < count; i++) {
        ((double *)y)[i] = ((const double *)a)[i] + ((const double *)b)[i];
    }
}

static void subtract(int64_t count, const void *a, const void *b, void *y)
{
    for (int64_t i = 0; i < count; i++) {
        ((double *)y)[i] = ((const double *)a)[i] - ((const double *)b)[i];
    }
}

static void cross_entropy(int64_t rows, int64_t classes, const void *logits, int64_t first,
                          const int32_t *target, entropy_sums *sums)
{
    for (int64_t i = 0; i < rows; i++) {
        const double *row = (const double *)logits + i * classes;
        entropy_sums s = first == 0 ? (entropy_sums){-HUGE_VAL, 0.0, 0.0} : sums[i];
        double largest = s.largest;
        for (int64_t t = 0; t < classes; t++) {
            largest = fmax(largest, row[t]);
        }
        s.total *= exp(s.largest - largest);
        s.largest = largest;
        for (int64_t t = 0; t < classes; t++) {
            s.total += exp(row[t] - largest);
            s.target = first + t == target[i] ? row[t] : s.target;
        }
        sums[i] = s;
    }
}

static int64_t first_non_finite(int64_t count, const void *x)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(((const double *)x)[i])) {
            return i;
        }
    }
    return -1;
}

static grail_status gram(int64_t rows, int64_t width, const void *x, int64_t stride, double *g)
{
    for (int64_t r = 0; r < rows; r++) {
        const double *row = (const double *)x + r * stride;
        for (int64_t i = 0; i < width; i++) {
            for (int64_t j = 0; j <= i; j++) {
                g[i * width + j] += row[i] * row[j];
            }
        }
    }
    return GRAIL_OK;
}

static grail_status cross(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                          const void *x, int64_t x_stride, double *c)
{
    ref_gemm(true, false, m, n, rows, 1.0, y, y_stride, x, x_stride, 1.0, c, n);
    return GRAIL_OK;
}

static void column_sums(int64_t rows, int64_t width, const void *x, int64_t stride, double *sum,
                        double *square)
{
    for (int64_t r = 0; r < rows; r++) {
        const double *row = (const double *)x + r * stride;
        for (int64_t i = 0; sum != NULL && i < width; i++) {
            sum[i] += row[i];
        }
        for (int64_t i = 0; square != NULL && i < width; i++) {
            square[i] += row[i] * row[i];
        }
    }
}

static const host_kernels kernels = {
    .linear = linear,
    .rms_norm = rms_norm,
    .rope = rope,
    .attention = ref_attention,
    .activation = activation,
    .multiply = multiply,
    .add = add,
    .subtract = subtract,
    .cross_entropy = cross_entropy,
    .find_non_finite = first_non_finite,
    .conv2d = ref_conv2d,
    .patches = ref_patches,
    .max_pool = ref_max_pool,
    .mean_positions = ref_mean_positions,
    .batch_norm = ref_batch_norm,
    .layer_norm = ref_layer_norm,
    .unit_length = ref_unit_length,
    .gram = gram,
    .cross = cross,
    .column_sums = column_sums,
    .gemm = ref_gemm,
    .add_symmetric = ref_add_symmetric,
    .cholesky = ref_cholesky,
    .cholesky_solve = ref_cholesky_solve,
    .cholesky_invert = ref_cholesky_invert,
    .eigen = ref_eigen,
    .gradients =
        {
            .product = ref_product,
            .rms_norm = ref_rms_norm_gradient,
            .layer_norm = ref_layer_norm_gradient,
            .batch_norm = ref_batch_norm_gradient,
            .unit_length = ref_unit_length_gradient,
            .attention = ref_attention_gradient,
            .activation = ref_activation_gradient,
            .conv2d = ref_conv2d_gradient,
            .max_pool = ref_max_pool_gradient,
            .divergence = ref_divergence,
            .descend = ref_descend,
        },
};

const backend_kind backend_ref = {
    .name = "ref",
    .precision = "f64",
    .summary = "plain loops in f64, slow, for checking",
    .type = GRAIL_DTYPE_F64,
    .kernels = &kernels,
    HOST_BACKEND,
};
