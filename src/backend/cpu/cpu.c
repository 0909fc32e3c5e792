/* The cpu backend: its precisions, and what it prepares before the first product. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/probe.h"

/* Bounds of kind.h, gram_rounding, as docs/numerics.md, Constant features, derives them. */
#define F32_ROUNDING 0x1p-16
#define PARTS_ROUNDING (0x1p-15 + F32_ROUNDING) /* two of bf16 have 16 bits */

enum { NEAR_BYTES = 32 << 20 };

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
    .near_bytes = NEAR_BYTES,
    HOST_MEMORY,
    .slots =
        {
#define OPERATION(name, ...) [SLOT_##name] = cpu_##name,
#define HOST_OPERATION(name, ...) [SLOT_##name] = host_##name,
#include "backend/operation_list.h"
        },
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
    .weights = &cpu_bf16_weights,
    .enter = enter_bf16,
    .pays = cpu_bf16_pays,
    .near_bytes = NEAR_BYTES,
    HOST_MEMORY,
    .like = &backend_cpu,
    .slots = {[SLOT_linear] = cpu_bf16_linear,
              [SLOT_conv2d] = cpu_bf16_conv2d,
              [SLOT_attention] = cpu_bf16_attention,
              [SLOT_attention_gradient] = cpu_bf16_attention_gradient,
              [SLOT_product] = cpu_bf16_product,
              [SLOT_gram] = cpu_bf16_gram,
              [SLOT_cross] = cpu_bf16_cross},
};

/* Elsewhere Gram matrices of bf16 are no faster than those of f32. */
static bool has_tiles(void)
{
    return pairs_has(PAIR_TILES);
}

const backend_kind backend_cpu_bf16_gram = {
    .name = "cpu",
    .precision = "bf16-gram",
    .summary = "the processor, with products and Gram matrices of bf16",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = F32_ROUNDING,
    .statistics_unit = 0x1p-8,
    .weights = &cpu_bf16_weights,
    .enter = enter_bf16,
    .pays = has_tiles,
    .near_bytes = NEAR_BYTES,
    HOST_MEMORY,
    .like = &backend_cpu_bf16,
    .slots = {[SLOT_gram] = cpu_rounded_gram,
              [SLOT_cross] = cpu_rounded_cross,
              [SLOT_column_sums] = cpu_rounded_column_sums},
};

const backend_kind backend_cpu_bf16x3 = {
    .name = "cpu",
    .precision = "bf16x3",
    .summary = "the processor, with products of f32 made of three of bf16",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = PARTS_ROUNDING,
    .enter = enter_bf16,
    .pays = has_tiles,
    .near_bytes = NEAR_BYTES,
    HOST_MEMORY,
    .like = &backend_cpu,
    .slots = {[SLOT_linear] = cpu_parts_linear,
              [SLOT_product] = cpu_parts_product,
              [SLOT_gram] = cpu_bf16_gram,
              [SLOT_cross] = cpu_bf16_cross},
};
