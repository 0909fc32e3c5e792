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
        [SLOT_gemm] = torch_run_gemm, [SLOT_rms_norm] = torch_run_rms_norm,                        \
        [SLOT_layer_norm] = torch_run_layer_norm, [SLOT_batch_norm] = torch_run_batch_norm,        \
        [SLOT_unit_length] = torch_run_unit_length,                                                \
        [SLOT_rms_norm_gradient] = torch_run_rms_norm_gradient,                                    \
        [SLOT_layer_norm_gradient] = torch_run_layer_norm_gradient,                                \
        [SLOT_batch_norm_gradient] = torch_run_batch_norm_gradient,                                \
        [SLOT_unit_length_gradient] = torch_run_unit_length_gradient,                              \
        [SLOT_mean_positions] = torch_run_mean_positions, [SLOT_rope] = torch_run_rope,            \
        [SLOT_attention] = torch_run_attention,                                                    \
        [SLOT_attention_gradient] = torch_run_attention_gradient,                                  \
    }

const backend_kind backend_torch_cpu = KIND("cpu", "the processor, by PyTorch, in f32");
const backend_kind backend_torch_cuda = KIND("cuda", "a GPU, by PyTorch, in f32");
