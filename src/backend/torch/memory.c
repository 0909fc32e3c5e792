#include "backend/torch/memory.h"

#include "backend/torch/calls.h"
#include "backend/torch/device.h"
#include "backend/torch/staging.h"
#include "base/parallel.h"

#include <stdio.h>

static _Atomic int threads_set; /* what torch was told, 0: nothing yet */
/* Whether memory was had on a GPU once. */
static atomic_bool is_there[TORCH_DEVICES];

static grail_status find_device(const backend *b)
{
    CHECK(torch_gpu_check(b->device));
    torch_frame f = torch_begin(b);
    (void)torch_empty(&f, GRAIL_DTYPE_F32, 1, 1);
    if (f.status != GRAIL_OK) {
        f.status = error_set(GRAIL_ERROR_UNSUPPORTED, "'%s' cannot be used here: %.400s",
                             b->kind->name, torch_library_failure());
    }
    atomic_store(&is_there[b->device], f.status == GRAIL_OK);
    return torch_end(&f);
}

/* Without a number, torch takes as many threads as MKL, which counts no second threads of a core,
 * and makes it that of all loops of the calling thread. */
static void set_threads(void)
{
    const int threads = parallel_threads();
    if (torch._ZN2at15set_num_threadsEi != NULL && torch._ZN2at15get_num_threadsEv != NULL &&
        (atomic_exchange(&threads_set, threads) != threads ||
         torch._ZN2at15get_num_threadsEv() != threads)) {
        torch._ZN2at15set_num_threadsEi(threads);
    }
}

/* Gradients are operations of their own, so torch keeps none. */
grail_status torch_enter(backend *b)
{
    CHECK(torch_library_load(torch_is_cuda(b)));
    set_threads();
    torch.aoti_torch_grad_mode_set_enabled(false);
    CHECK(torch_check_context(b));
    return !torch_is_cuda(b) || atomic_load(&is_there[b->device]) ? GRAIL_OK : find_device(b);
}

bool torch_has_gpu(void)
{
    backend gpu = {.kind = &backend_torch_cuda};
    return torch_enter(&gpu) == GRAIL_OK;
}

grail_status torch_allocate(backend *b, size_t bytes, bool zeroed, void **out)
{
    torch_frame f = torch_begin(b);
    const torch_tensor t = torch_empty(&f, GRAIL_DTYPE_U8, 1, (int64_t)bytes);
    if (zeroed) {
        torch_zero(&f, t);
    }
    *out = torch_take(&f, t);
    return torch_end(&f);
}

void *torch_address(void *allocation)
{
    void *address = NULL;
    (void)torch.aoti_torch_get_data_ptr(allocation, &address);
    return address;
}

void torch_release(backend *b, void *allocation, size_t bytes)
{
    (void)bytes;
    torch_delete(b, allocation);
}

void torch_describe(const backend *b, grail_device *out)
{
    const char *missing = NULL;
    if (!torch_is_cuda(b)) {
        return;
    }
    torch_gpu_name(b->device, out->name);
    torch_gpu_memory(b->device, &out->memory_free, &out->memory_total, &missing);
    snprintf(out->missing, sizeof out->missing, "%s", missing == NULL ? "" : missing);
}

static grail_status transfer(matrix m, void *values, bool up)
{
    torch_frame f = torch_begin(m.owner);
    torch_transfer(&f, m, values, up);
    return torch_end(&f);
}

grail_status torch_upload(matrix m, const void *values)
{
    return transfer(m, (void *)(uintptr_t)values, true);
}

grail_status torch_download(matrix m, void *values)
{
    return transfer(m, values, false);
}
