/* The backend for torch: its devices, and its types of values. Statistics are f64
 * (docs/numerics.md). */
#include "backend/torch/kernels.h"
#include "backend/torch/memory.h"

#define F32_ROUNDING 0x1p-16 /* as of the backend cpu: products of panels in f32 */
/* Sums of a panel of equal products are off by up to 8192 2^-25, and GPUs cut off what they add. */
#define NARROW_ROUNDING 0x1p-12

const backend_kind backend_torch_cpu = {
    .name = "torch:cpu",
    .precision = "f32",
    .summary = "the processor, by PyTorch, in f32, bf16 or f16",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = F32_ROUNDING,
    .devices = 1,
    TORCH_MEMORY,
    .slots =
        {
#define OPERATION(name, ...) [SLOT_##name] = torch_run_##name,
#include "backend/operation_list.h"
        },
};

/* Another device, or type of values, of the same kernels. */
#define LIKE_IT(bits, is_of, bound)                                                                \
    .precision = (bits), .type = (is_of), .gram_rounding = (bound), TORCH_MEMORY,                  \
    .like = &backend_torch_cpu

#define ON_CPU .name = "torch:cpu", .devices = 1
/* Calls are long beside the time that one takes to reach the device. */
#define ON_CUDA .name = "torch:cuda", .devices = TORCH_DEVICES, .batch_rows = 1 << 14

const backend_kind backend_torch_cpu_bf16 = {
    ON_CPU,
    LIKE_IT("bf16", GRAIL_DTYPE_BF16, NARROW_ROUNDING),
    .summary = "the processor, by PyTorch, with values of bf16",
};

const backend_kind backend_torch_cpu_f16 = {
    ON_CPU,
    LIKE_IT("f16", GRAIL_DTYPE_F16, NARROW_ROUNDING),
    .summary = "the processor, by PyTorch, with values of f16",
};

const backend_kind backend_torch_cuda = {
    ON_CUDA,
    LIKE_IT("f32", GRAIL_DTYPE_F32, F32_ROUNDING),
    .summary = "a GPU, by PyTorch, in f32, bf16 or f16",
};

const backend_kind backend_torch_cuda_bf16 = {
    ON_CUDA,
    LIKE_IT("bf16", GRAIL_DTYPE_BF16, NARROW_ROUNDING),
    .summary = "a GPU, by PyTorch, with values of bf16",
    .pays = torch_has_gpu,
};

const backend_kind backend_torch_cuda_f16 = {
    ON_CUDA,
    LIKE_IT("f16", GRAIL_DTYPE_F16, NARROW_ROUNDING),
    .summary = "a GPU, by PyTorch, with values of f16",
    .pays = torch_has_gpu,
};

/* The first GPU where there is one, else the processor. */
#define CHOICE(ending, bits, is_of, what)                                                          \
    static const backend_kind *choose##ending(void)                                                \
    {                                                                                              \
        return torch_has_gpu() ? &backend_torch_cuda##ending : &backend_torch_cpu##ending;         \
    }                                                                                              \
    const backend_kind backend_torch##ending = {                                                   \
        .name = "torch",                                                                           \
        .precision = (bits),                                                                       \
        .summary = "PyTorch, on a GPU where there is one, else on the processor, " what,           \
        .type = (is_of),                                                                           \
        .devices = 1,                                                                              \
        .choose = choose##ending,                                                                  \
        .like = &backend_torch_cpu,                                                                \
        .pays = torch_has_gpu,                                                                     \
    };
CHOICE(, "f32", GRAIL_DTYPE_F32, "in f32, bf16 or f16")
CHOICE(_bf16, "bf16", GRAIL_DTYPE_BF16, "with values of bf16")
CHOICE(_f16, "f16", GRAIL_DTYPE_F16, "with values of f16")
