/* The table of the cpu backend. */
#include "backend/cpu/cpu.h"

#include <string.h>

static void from_f32(int64_t count, const float *in, void *out)
{
    memcpy(out, in, (size_t)count * sizeof *in);
}

static void to_f32(int64_t count, const void *in, float *out)
{
    memcpy(out, in, (size_t)count * sizeof *out);
}

const backend backend_cpu = {
    .name = "cpu",
    .element_size = sizeof(float),
    .start = cpu_start,
    .from_f32 = from_f32,
    .to_f32 = to_f32,
    .linear = cpu_linear,
    .rms_norm = cpu_rms_norm,
    .rope = cpu_rope,
    .attention = cpu_attention,
    .activation = cpu_activation,
    .multiply = cpu_multiply,
    .add = cpu_add,
    .subtract = cpu_subtract,
    .cross_entropy = cpu_cross_entropy,
    .find_non_finite = cpu_find_non_finite,
    .conv2d = cpu_conv2d,
    .patches = cpu_patches,
    .max_pool = cpu_max_pool,
    .mean_positions = cpu_mean_positions,
    .batch_norm = cpu_batch_norm,
    .layer_norm = cpu_layer_norm,
    .unit_length = cpu_unit_length,
    .gram = cpu_gram,
    .cross = cpu_cross,
    .column_sums = cpu_column_sums,
    .gemm = cpu_gemm,
    .cholesky = cpu_cholesky,
    .cholesky_solve = cpu_cholesky_solve,
    .eigen = cpu_eigen,
};
