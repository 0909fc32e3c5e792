/* A GPU for tests, in place of libtorch_cuda.so: loaded before all else, it gives PyTorch's
 * processor as the first GPU, so that programs run as they do on one, and fails as GPUs fail.
 *
 * GRAIL_TEST_GPUS    how many there are (1)
 * GRAIL_TEST_GPU_MOST    the most bytes that can be taken at once (no limit)
 * GRAIL_TEST_GPU_COPIES  how many copies go well before the context is lost (all)
 * GRAIL_TEST_GPU_PINNED  how many pieces of pinned memory there are (no limit)
 * GRAIL_TEST_GPU_TELLS   at its end the program tells how many were taken, and how many copies from
 *                        them began without being waited for
 *
 * A call after the loss is told on standard error. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *tensor;
typedef uint64_t value;

enum { INVALID_DEVICE = 101, ASSERTED = 710 };

static const char *text = "no failure of this GPU";
static bool lost;

static int64_t setting(const char *name, int64_t usual)
{
    const char *given = getenv(name);
    return given == NULL ? usual : strtoll(given, NULL, 10);
}

/* The function that this one stands before. */
static void find(const char *name, void *out)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        fprintf(stderr, "the GPU of tests: PyTorch lacks %s\n", name);
        abort();
    }
    memcpy(out, &found, sizeof found);
}

static bool fails_after_loss(const char *name)
{
    if (lost) {
        fprintf(stderr, "the GPU of tests: %s was called after the loss\n", name);
    }
    return lost;
}

/* -- the runtime ------------------------------------------------------------------------------- */

int cudaGetDeviceCount(int *count);
int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaMemGetInfo(size_t *free, size_t *total);
const char *cudaGetErrorString(int code);

int cudaGetDeviceCount(int *count)
{
    *count = (int)setting("GRAIL_TEST_GPUS", 1);
    return *count > 0 ? 0 : INVALID_DEVICE;
}

int cudaGetDevice(int *device)
{
    *device = 0;
    return 0;
}

int cudaSetDevice(int device)
{
    return lost ? ASSERTED : device == 0 ? 0 : INVALID_DEVICE;
}

int cudaMemGetInfo(size_t *free, size_t *total)
{
    *free = 1 << 28;
    *total = 1 << 30;
    return lost ? ASSERTED : 0;
}

const char *cudaGetErrorString(int code)
{
    return code == ASSERTED ? "device-side assert triggered" : "no such GPU in this test";
}

/* -- PyTorch ----------------------------------------------------------------------------------- */

int32_t aoti_torch_device_type_cuda(void);
const char *torch_exception_get_what_without_backtrace(void);
int aoti_torch_empty_strided(int64_t rank, const int64_t *shape, const int64_t *strides,
                             int32_t type, int32_t device, int32_t index, tensor *out);
int aoti_torch_empty_strided_pinned(int64_t rank, const int64_t *shape, const int64_t *strides,
                                    int32_t type, int32_t device, int32_t index, tensor *out);
int aoti_torch_copy_(tensor to, tensor from, int32_t later);
int aoti_torch_delete_tensor_object(tensor t);
int aoti_torch_cuda_addmm_out(tensor out, tensor c, tensor a, tensor b, double beta, double alpha);
int aoti_torch_cuda_mul_Scalar(tensor t, double by, tensor *out);
int aoti_torch_cuda_add_Scalar(tensor t, double more, double times, tensor *out);
int aoti_torch_cuda_fill__Scalar(tensor t, double with);
int aoti_torch_call_dispatcher(const char *name, const char *overload, value *stack);

int32_t aoti_torch_device_type_cuda(void)
{
    return 0; /* the processor's */
}

const char *torch_exception_get_what_without_backtrace(void)
{
    return text;
}

int aoti_torch_empty_strided(int64_t rank, const int64_t *shape, const int64_t *strides,
                             int32_t type, int32_t device, int32_t index, tensor *out)
{
    int (*next)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *) =
        NULL;
    if (fails_after_loss("aoti_torch_empty_strided")) {
        return 1;
    }
    if (index == 0 && rank > 0 &&
        shape[0] * strides[0] > setting("GRAIL_TEST_GPU_MOST", INT64_MAX)) {
        text = "CUDA out of memory. Tried to allocate more than this test allows.\nSee the manual.";
        return 1;
    }
    find("aoti_torch_empty_strided", &next);
    return next(rank, shape, strides, type, device, index, out);
}

static int64_t pinned, begun;

__attribute__((destructor)) static void tell(void)
{
    if (setting("GRAIL_TEST_GPU_TELLS", 0) != 0) {
        fprintf(stderr, "the GPU of tests: %s, %s\n", pinned > 0 ? "pinned" : "none pinned",
                begun > 0 ? "begun" : "none begun");
    }
}

int aoti_torch_empty_strided_pinned(int64_t rank, const int64_t *shape, const int64_t *strides,
                                    int32_t type, int32_t device, int32_t index, tensor *out)
{
    int (*next)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *) =
        NULL;
    if (fails_after_loss("aoti_torch_empty_strided_pinned") ||
        pinned == setting("GRAIL_TEST_GPU_PINNED", INT64_MAX)) {
        text = "CUDA error: this test allows no more pinned memory";
        return 1;
    }
    pinned++;
    find("aoti_torch_empty_strided", &next);
    return next(rank, shape, strides, type, device, index, out);
}

int aoti_torch_copy_(tensor to, tensor from, int32_t later)
{
    begun += later != 0;
    static int64_t copies;
    int (*next)(tensor, tensor, int32_t) = NULL;
    if (fails_after_loss("aoti_torch_copy_")) {
        return 1;
    }
    if (copies++ == setting("GRAIL_TEST_GPU_COPIES", INT64_MAX)) {
        text = "CUDA error: device-side assert triggered\nCUDA kernel errors may be told later.";
        lost = true;
        return 1;
    }
    find("aoti_torch_copy_", &next);
    return next(to, from, later);
}

int aoti_torch_delete_tensor_object(tensor t)
{
    int (*next)(tensor) = NULL;
    if (fails_after_loss("aoti_torch_delete_tensor_object")) {
        return 1;
    }
    find("aoti_torch_delete_tensor_object", &next);
    return next(t);
}

int aoti_torch_cuda_addmm_out(tensor out, tensor c, tensor a, tensor b, double beta, double alpha)
{
    int (*next)(tensor, tensor, tensor, tensor, double, double) = NULL;
    find("aoti_torch_cpu_addmm_out", &next);
    return fails_after_loss("aoti_torch_cuda_addmm_out") ? 1 : next(out, c, a, b, beta, alpha);
}

int aoti_torch_cuda_mul_Scalar(tensor t, double by, tensor *out)
{
    int (*next)(tensor, double, tensor *) = NULL;
    find("aoti_torch_cpu_mul_Scalar", &next);
    return fails_after_loss("aoti_torch_cuda_mul_Scalar") ? 1 : next(t, by, out);
}

int aoti_torch_cuda_add_Scalar(tensor t, double more, double times, tensor *out)
{
    int (*next)(tensor, double, double, tensor *) = NULL;
    find("aoti_torch_cpu_add_Scalar", &next);
    return fails_after_loss("aoti_torch_cuda_add_Scalar") ? 1 : next(t, more, times, out);
}

int aoti_torch_cuda_fill__Scalar(tensor t, double with)
{
    int (*next)(tensor, double) = NULL;
    find("aoti_torch_cpu_fill__Scalar", &next);
    return fails_after_loss("aoti_torch_cuda_fill__Scalar") ? 1 : next(t, with);
}

int aoti_torch_call_dispatcher(const char *name, const char *overload, value *stack)
{
    int (*next)(const char *, const char *, value *) = NULL;
    int (*nothing)(tensor *) = NULL;
    find("aoti_torch_call_dispatcher", &next);
    if (fails_after_loss(name)) {
        return 1;
    }
    if (strcmp(name, "aten::_scaled_dot_product_efficient_attention") != 0) {
        return next(name, overload, stack);
    }
    /* q, k, v, bias, whether sums are kept, dropout, causal, scale -> ..., dropout, causal, mask,
     * scale; four results instead of two */
    tensor more[2] = {NULL};
    find("aoti_torch_new_uninitialized_tensor", &nothing);
    memmove(stack + 3, stack + 5, 2 * sizeof stack[0]);
    stack[5] = 0;
    stack[6] = stack[7];
    const int code = next("aten::_scaled_dot_product_flash_attention_for_cpu", "", stack);
    for (int i = 0; code == 0 && i < 2 && nothing(&more[i]) == 0; i++) {
        stack[2 + i] = (value)(uintptr_t)more[i];
    }
    return code;
}
