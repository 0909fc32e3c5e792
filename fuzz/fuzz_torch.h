/* In every accepted torch checkpoint each tensor has a name, and its bytes can be read
 * and have the size of its shape. */
#ifndef GRAIL_FUZZ_TORCH_H
#define GRAIL_FUZZ_TORCH_H

#include "fuzz.h"

#include "format/torch/torch_file.h"

static inline void fuzz_torch(const uint8_t *data, size_t size)
{
    tensor_file *file = NULL;
    size_t sum = 0;
    if (torch_file_open_bytes("input", data, size, &file) != GRAIL_OK) {
        return;
    }
    if (tensor_file_load(file) != GRAIL_OK) {
        tensor_file_close(file);
        return;
    }
    for (int64_t i = 0; i < file->count; i++) {
        const tensor_view *view = &file->tensors[i];
        fuzz_require(view->name != NULL);
        int64_t elements = 0;
        size_t bytes = 0;
        fuzz_require(view->rank >= 0 && view->rank <= TENSOR_MAX_RANK);
        fuzz_require(shape_elements(view->rank, view->shape, &elements));
        fuzz_require(dtype_bytes(view->dtype, elements, &bytes) && bytes == view->bytes);
        for (size_t k = 0; k < view->bytes; k++) {
            sum += ((const uint8_t *)view->data)[k];
        }
        tensor_file_release(file, view);
    }
    fuzz_require(file->wrapper != NULL && sum < SIZE_MAX);
    tensor_file_close(file);
}

#endif
