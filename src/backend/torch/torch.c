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
        [SLOT_gemm] = torch_run_gemm, [SLOT_conv2d] = torch_run_conv2d,                            \
        [SLOT_depthwise] = torch_run_depthwise, [SLOT_patches] = torch_run_patches,                \
        [SLOT_max_pool] = torch_run_max_pool, [SLOT_shortcut] = torch_run_shortcut,                \
        [SLOT_windows] = torch_run_windows, [SLOT_conv2d_gradient] = torch_run_conv2d_gradient,    \
        [SLOT_depthwise_gradient] = torch_run_depthwise_gradient,                                  \
        [SLOT_max_pool_gradient] = torch_run_max_pool_gradient,                                    \
        [SLOT_shortcut_gradient] = torch_run_shortcut_gradient,                                    \
    }

const backend_kind backend_torch_cpu = KIND("cpu", "the processor, by PyTorch, in f32");
const backend_kind backend_torch_cuda = KIND("cuda", "a GPU, by PyTorch, in f32");
