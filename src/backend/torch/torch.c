/* The backend for torch: its devices. Values are f32, sums of products f64 (docs/numerics.md). */
#include "backend/torch/kernels.h"
#include "backend/torch/memory.h"

#define F32_ROUNDING 0x1p-16 /* as of the backend cpu: products of panels in f32 */

#define KIND(device, count, text)                                                                  \
    {                                                                                              \
        .name = "torch:" device, .precision = "f32", .summary = text, .type = GRAIL_DTYPE_F32,     \
        .gram_rounding = F32_ROUNDING, .devices = (count), .enter = torch_enter,                   \
        .allocate = torch_allocate, .address = torch_address, .release = torch_release,            \
        .upload = torch_upload, .download = torch_download, .slots = SLOTS                         \
    }
#define SLOTS                                                                                      \
    {                                                                                              \
        [SLOT_linear] = torch_run_linear, [SLOT_product] = torch_run_product,                      \
        [SLOT_gram] = torch_run_gram, [SLOT_cross] = torch_run_cross,                              \
        [SLOT_gemm] = torch_run_gemm, [SLOT_column_sums] = torch_run_column_sums,                  \
        [SLOT_row_dots] = torch_run_row_dots, [SLOT_add_symmetric] = torch_run_add_symmetric,      \
        [SLOT_add_scaled] = torch_run_add_scaled, [SLOT_add_outer] = torch_run_add_outer,          \
        [SLOT_diagonal] = torch_run_diagonal, [SLOT_set_diagonal] = torch_run_set_diagonal,        \
        [SLOT_shift_diagonal] = torch_run_shift_diagonal,                                          \
        [SLOT_fill_upper] = torch_run_fill_upper, [SLOT_fill_lower] = torch_run_fill_lower,        \
        [SLOT_divide_columns] = torch_run_divide_columns, [SLOT_cholesky] = torch_run_cholesky,    \
        [SLOT_cholesky_solve] = torch_run_cholesky_solve,                                          \
        [SLOT_cholesky_multiply] = torch_run_cholesky_multiply,                                    \
        [SLOT_cholesky_invert] = torch_run_cholesky_invert, [SLOT_eigen] = torch_run_eigen,        \
    }

const backend_kind backend_torch_cpu = KIND("cpu", 1, "the processor, by PyTorch, in f32");
const backend_kind backend_torch_cuda = KIND("cuda", TORCH_DEVICES, "a GPU, by PyTorch, in f32");

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
