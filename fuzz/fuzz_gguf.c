/* Any bytes as a GGUF file. In an accepted file each tensor is found by its name, its bytes lie in
 * the file and have the size of its shape, and each key has elements that can be read. */
#include "fuzz.h"

#include "format/gguf/gguf.h"

#include <string.h>

static void check_tensor(const tensor_file *file, const tensor_view *view)
{
    enum { MOST_VALUES = 4096 };
    static float values[MOST_VALUES];
    int64_t elements = 0;
    size_t bytes = 0;
    const unsigned char *data = view->data;
    fuzz_require(tensor_file_find(file, view->name) == view);
    fuzz_require(shape_elements(view->rank, view->shape, &elements));
    fuzz_require(dtype_bytes(view->dtype, elements, &bytes) && bytes == view->bytes);
    fuzz_require(data >= file->bytes && bytes <= file->size - (size_t)(data - file->bytes));
    if (dtype_is_readable(view->dtype) && elements <= MOST_VALUES) {
        fuzz_require(convert_to_f32(view->dtype, data, elements, values) == GRAIL_OK);
        (void)find_non_finite_stored(view->dtype, data, elements);
    }
}

static void check_texts(const gguf_value *value)
{
    gguf_walk walk = {.value = value};
    const char *text = NULL;
    size_t size = 0;
    uint64_t count = 0;
    while (gguf_walk_next(&walk, &text, &size)) {
        fuzz_require((const unsigned char *)text + size <= value->bytes + value->size);
        count++;
    }
    fuzz_require(count == value->count);
}

static void check_value(const gguf_metadata *m, const gguf_value *value)
{
    int64_t integer = 0;
    double real = 0;
    char *text = NULL;
    fuzz_require(gguf_find(m, value->key) == value);
    if (value->type == GGUF_TEXT) {
        check_texts(value);
    }
    for (uint64_t i = 0; i < value->count && value->type != GGUF_TEXT; i++) {
        const bool is_number = gguf_real_at(value, i, &real) == GRAIL_OK;
        fuzz_require(is_number || gguf_integer_at(value, i, &integer) != GRAIL_OK);
    }
    if (gguf_get_text(m, value->key, &text) == GRAIL_OK) {
        fuzz_require(strlen(text) + 8 == value->size);
        memory_free(text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tensor_file *file = NULL;
    if (gguf_open_bytes("input", data, size, &file) != GRAIL_OK) {
        return 0;
    }
    const gguf_metadata *m = gguf_metadata_of(file);
    for (int64_t i = 0; i < m->count; i++) {
        check_value(m, &m->values[i]);
    }
    for (int64_t i = 0; i < file->count; i++) {
        check_tensor(file, &file->tensors[i]);
    }
    tensor_file_close(file);
    return 0;
}
