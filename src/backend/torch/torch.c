/* The backend for torch: its devices. Values are f32, sums of products f64 (docs/numerics.md). */
#include "backend/torch/kernels.h"
#include "backend/torch/memory.h"

#define F32_ROUNDING 0x1p-16 /* as of the backend cpu: products of panels in f32 */

#define KIND(device, text)                                                                         \
    {                                                                                              \
        .name = "torch:" device, .precision = "f32", .summary = text, .type = GRAIL_DTYPE_F32,     \
        .gram_rounding = F32_ROUNDING, .devices = TORCH_DEVICES, .enter = torch_enter,             \
        .allocate = torch_allocate, .address = torch_address, .release = torch_release,            \
        .upload = torch_upload, .download = torch_download, .slots = SLOTS                         \
    }
#define SLOTS                                                                                      \
    {                                                                                              \
        [SLOT_linear] = torch_run_linear, [SLOT_product] = torch_run_product,                      \
        [SLOT_gram] = torch_run_gram, [SLOT_cross] = torch_run_cross,                              \
        [SLOT_gemm] = torch_run_gemm, [SLOT_activate] = torch_run_activate,                        \
        [SLOT_soft_cap] = torch_run_soft_cap, [SLOT_clamp] = torch_run_clamp,                      \
        [SLOT_multiply] = torch_run_multiply, [SLOT_add] = torch_run_add,                          \
        [SLOT_subtract] = torch_run_subtract, [SLOT_scale_rows] = torch_run_scale_rows,            \
        [SLOT_cross_entropy] = torch_run_cross_entropy,                                            \
        [SLOT_find_non_finite] = torch_run_find_non_finite, [SLOT_copy] = torch_run_copy,          \
        [SLOT_zero] = torch_run_zero, [SLOT_gather] = torch_run_gather,                            \
        [SLOT_fold_columns] = torch_run_fold_columns, [SLOT_fold_rows] = torch_run_fold_rows,      \
        [SLOT_activate_gradient] = torch_run_activate_gradient,                                    \
        [SLOT_soft_cap_gradient] = torch_run_soft_cap_gradient,                                    \
        [SLOT_clamp_gradient] = torch_run_clamp_gradient,                                          \
        [SLOT_spread_gradient] = torch_run_spread_gradient,                                        \
        [SLOT_divergence] = torch_run_divergence, [SLOT_descend] = torch_run_descend,              \
    }

const backend_kind backend_torch_cpu = KIND("cpu", "the processor, by PyTorch, in f32");
const backend_kind backend_torch_cuda = KIND("cuda", "a GPU, by PyTorch, in f32");
