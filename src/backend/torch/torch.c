/* The backend for torch: its devices. Values are f32, sums of products f64 (docs/numerics.md). */
#include "backend/torch/kernels.h"
#include "backend/torch/memory.h"

#define F32_ROUNDING 0x1p-16 /* as of the backend cpu: products of panels in f32 */

#define MEMORY                                                                                     \
    .enter = torch_enter, .allocate = torch_allocate, .address = torch_address,                    \
    .release = torch_release, .upload = torch_upload, .download = torch_download

const backend_kind backend_torch_cpu = {
    .name = "torch:cpu",
    .precision = "f32",
    .summary = "the processor, by PyTorch, in f32",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = F32_ROUNDING,
    .devices = 1,
    MEMORY,
    .slots =
        {
#define OPERATION(name, ...) [SLOT_##name] = torch_run_##name,
#include "backend/operation_list.h"
        },
};

const backend_kind backend_torch_cuda = {
    .name = "torch:cuda",
    .precision = "f32",
    .summary = "a GPU, by PyTorch, in f32",
    .type = GRAIL_DTYPE_F32,
    .gram_rounding = F32_ROUNDING,
    .devices = TORCH_DEVICES,
    MEMORY,
    .like = &backend_torch_cpu,
};

/* The first GPU where there is one. */
static const backend_kind *choose(void)
{
    backend gpu = {.kind = &backend_torch_cuda};
    return torch_enter(&gpu) == GRAIL_OK ? &backend_torch_cuda : &backend_torch_cpu;
}

const backend_kind backend_torch = {
    .name = "torch",
    .precision = "f32",
    .summary = "PyTorch, on a GPU where there is one, else on the processor",
    .type = GRAIL_DTYPE_F32,
    .devices = 1,
    .choose = choose,
    .like = &backend_torch_cpu,
};
