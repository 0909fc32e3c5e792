/* The cpu backend: its kernels, and what it prepares before the first product. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/probe.h"

/* The kernels that do not depend on the precision of products. */
#define COMMON_KERNELS                                                                             \
    .rms_norm = cpu_rms_norm, .rope = cpu_rope, .activation = cpu_activation,                      \
    .multiply = cpu_multiply, .add = cpu_add, .subtract = cpu_subtract,                            \
    .cross_entropy = cpu_cross_entropy, .find_non_finite = cpu_find_non_finite,                    \
    .patches = cpu_patches, .max_pool = cpu_max_pool, .mean_positions = cpu_mean_positions,        \
    .batch_norm = cpu_batch_norm, .layer_norm = cpu_layer_norm, .unit_length = cpu_unit_length,    \
    .gemm = cpu_gemm, .add_symmetric = cpu_add_symmetric, .cholesky = cpu_cholesky,                \
    .cholesky_solve = cpu_cholesky_solve, .cholesky_invert = cpu_cholesky_invert,                  \
    .eigen = cpu_eigen,                                                                            \
    .gradients = {                                                                                 \
        .product = cpu_product,                                                                    \
        .rms_norm = cpu_rms_norm_gradient,                                                         \
        .layer_norm = cpu_layer_norm_gradient,                                                     \
        .batch_norm = cpu_batch_norm_gradient,                                                     \
        .unit_length = cpu_unit_length_gradient,                                                   \
        .attention = cpu_attention_gradient,                                                       \
        .activation = cpu_activation_gradient,                                                     \
        .divergence = cpu_divergence,                                                              \
        .conv2d = cpu_conv2d_gradient,                                                             \
        .max_pool = cpu_max_pool_gradient,                                                         \
        .descend = cpu_descend,                                                                    \
    }

static const host_kernels kernels = {.linear = cpu_linear,
                                     .conv2d = cpu_conv2d,
                                     .attention = cpu_attention,
                                     .gram = cpu_gram,
                                     .cross = cpu_cross,
                                     .column_sums = cpu_column_sums,
                                     COMMON_KERNELS};

#define BF16_PRODUCTS                                                                              \
    .weights = {.order = onednn_weight_order,                                                      \
                .restore = onednn_weight_restore,                                                  \
                .linear = cpu_bf16_weight_linear},                                                 \
    .linear = cpu_bf16_linear, .conv2d = cpu_bf16_conv2d, .attention = cpu_bf16_attention

static const host_kernels bf16_kernels = {BF16_PRODUCTS, .gram = cpu_bf16_gram,
                                          .cross = cpu_bf16_cross, .column_sums = cpu_column_sums,
                                          COMMON_KERNELS};

static const host_kernels bf16_gram_kernels = {
    BF16_PRODUCTS, .gram = cpu_rounded_gram, .cross = cpu_rounded_cross,
    .column_sums = cpu_rounded_column_sums, COMMON_KERNELS};

/* Bounds of kind.h, gram_rounding, as docs/numerics.md, Constant features, derives them. */
#define F32_ROUNDING 0x1p-16
#define PARTS_ROUNDING (0x1p-15 + F32_ROUNDING) /* two of bf16 have 16 bits */

static grail_status enter(backend *b)
{
    (void)b;
    return cpu_start();
}

const backend_kind backend_cpu = {
    .name = "cpu",
    .precision = "f32",
    .summary = "the processor, in f32",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = F32_ROUNDING,
    .enter = enter,
    .kernels = &kernels,
    HOST_BACKEND,
};

static grail_status enter_bf16(backend *b)
{
    (void)b;
    return cpu_start_bf16();
}

const backend_kind backend_cpu_bf16 = {
    .name = "cpu",
    .precision = "bf16",
    .summary = "the processor, with products of bf16 and f32 sums",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = PARTS_ROUNDING,
    .weight_bytes = onednn_weight_bytes,
    .enter = enter_bf16,
    .pays = cpu_bf16_pays,
    .kernels = &bf16_kernels,
    HOST_BACKEND,
};

const backend_kind backend_cpu_bf16_gram = {
    .name = "cpu",
    .precision = "bf16-gram",
    .summary = "the processor, with products and Gram matrices of bf16",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = F32_ROUNDING,
    .statistics_unit = 0x1p-8,
    .weight_bytes = onednn_weight_bytes,
    .enter = enter_bf16,
    .kernels = &bf16_gram_kernels,
    HOST_BACKEND,
};
