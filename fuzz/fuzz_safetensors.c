/* Any bytes as a safetensors file. In an accepted file the tensors cover the data in order, each is
 * found by its name, and its bytes can be read and have the size of its shape. */
#include "fuzz.h"

#include "format/weights/safetensors.h"

static size_t sum_bytes(const tensor_view *view)
{
    const unsigned char *bytes = view->data;
    size_t sum = 0;
    for (size_t i = 0; i < view->bytes; i++) {
        sum += bytes[i];
    }
    return sum;
}

static void check_tensor(const tensor_file *file, const tensor_view *view)
{
    int64_t elements = 0;
    size_t bytes = 0;
    fuzz_require(tensor_file_find(file, view->name) == view);
    fuzz_require(view->rank >= 0 && view->rank <= TENSOR_MAX_RANK);
    fuzz_require(shape_elements(view->rank, view->shape, &elements));
    fuzz_require(dtype_bytes(view->dtype, elements, &bytes) && bytes == view->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tensor_file *file = NULL;
    if (safetensors_open_bytes("input", data, size, &file) != GRAIL_OK) {
        return 0;
    }
    const uint8_t *next = NULL;
    for (int64_t i = 0; i < file->count; i++) {
        const tensor_view *view = &file->tensors[i];
        check_tensor(file, view);
        fuzz_require(next == NULL || next == view->data);
        next = (const uint8_t *)view->data + view->bytes;
        fuzz_require(sum_bytes(view) <= 255 * view->bytes);
        tensor_file_release(file, view);
    }
    fuzz_require(next == NULL || next == data + size);
    tensor_file_close(file);
    return 0;
}
