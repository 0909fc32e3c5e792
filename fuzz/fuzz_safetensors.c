/* Any bytes as a safetensors file. In an accepted file the tensors cover the data in order, each is
 * found by its name, and its bytes can be read and have the size of its shape. Three tensors that
 * are accepted as a packed matrix are joined, and taken apart to the same codes. */
#include "fuzz.h"

#include "format/weights/packed_groups.h"
#include "format/weights/safetensors.h"

#include <stdio.h>
#include <string.h>

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

/* The tensors NAME_packed, NAME_scale and NAME_shape of this NAME_packed. */
static bool find_parts(const tensor_file *file, const char *codes, tensor_view parts[PACKED_PARTS])
{
    char name[256];
    const size_t length = strlen(codes);
    const size_t suffix = strlen(packed_groups_suffixes[0]);
    if (length < suffix || strcmp(codes + length - suffix, packed_groups_suffixes[0]) != 0) {
        return false;
    }
    for (int k = 0; k < PACKED_PARTS; k++) {
        snprintf(name, sizeof name, "%.*s%s", (int)(length - suffix), codes,
                 packed_groups_suffixes[k]);
        const tensor_view *found = tensor_file_find(file, name);
        if (found == NULL) {
            return false;
        }
        parts[k] = *found;
    }
    return true;
}

static void check_packed(const tensor_file *file, const char *codes, size_t size)
{
    tensor_view parts[PACKED_PARTS];
    tensor_view again[PACKED_PARTS];
    tensor_view whole = {0};
    void *data[PACKED_PARTS] = {NULL};
    if (!find_parts(file, codes, parts) || packed_groups_describe(parts, &whole) != GRAIL_OK) {
        return;
    }
    fuzz_require(whole.bytes <= 2 * size);
    unsigned char *blocks = malloc(whole.bytes);
    fuzz_require(blocks != NULL);
    packed_groups_join(parts, &whole, blocks);
    (void)find_non_finite_stored(whole.dtype, blocks, whole.shape[0] * whole.shape[1]);
    packed_groups_parts(&whole, parts[1].dtype, again);
    for (int k = 0; k < PACKED_PARTS; k++) {
        data[k] = malloc(again[k].bytes);
        fuzz_require(data[k] != NULL);
    }
    fuzz_require(packed_groups_split(&whole, blocks, again, data) == GRAIL_OK);
    fuzz_require(again[0].bytes == parts[0].bytes &&
                 memcmp(data[0], parts[0].data, parts[0].bytes) == 0);
    fuzz_require(memcmp(data[2], parts[2].data, parts[2].bytes) == 0);
    for (int k = 0; k < PACKED_PARTS; k++) {
        free(data[k]);
    }
    free(blocks);
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
        check_packed(file, view->name, size);
        tensor_file_release(file, view);
    }
    fuzz_require(next == NULL || next == data + size);
    tensor_file_close(file);
    return 0;
}
