#include "format/tensor_file.h"

#include <string.h>

static grail_status read_tensors(tensor_file *file, tensor_reader read)
{
    CHECK(read(file));
    CHECK(name_index_init(&file->index, file->count, file->tensors, sizeof file->tensors[0]));
    const char *twice = name_index_twice(&file->index);
    return twice == NULL ? GRAIL_OK
                         : error_set(GRAIL_ERROR_FORMAT, "tensor '%s' occurs twice", twice);
}

grail_status tensor_file_open_bytes(const char *name, const void *bytes, size_t size,
                                    tensor_reader read, tensor_file **out)
{
    grail_status status = GRAIL_OK;
    tensor_file *file = NULL;
    TRY(memory_new(&file, 1, sizeof *file));
    *file = (tensor_file){.bytes = bytes, .size = size, .wrapper = "", .rival = ""};
    TRY(error_in(read_tensors(file, read), "%s", name));
    *out = file;
    file = NULL;
out:
    tensor_file_close(file);
    return status;
}

grail_status tensor_file_open(const char *path, tensor_reader read, tensor_file **out)
{
    grail_status status = GRAIL_OK;
    file_map map = {0};
    TRY(file_map_open(&map, path));
    TRY(tensor_file_open_bytes(path, map.data, map.size, read, out));
    (*out)->map = map;
    map = (file_map){0};
out:
    file_map_close(&map);
    return status;
}

void tensor_file_close(tensor_file *file)
{
    if (file == NULL) {
        return;
    }
    if (file->parts != NULL) {
        file->free_parts(file->parts);
    }
    for (int64_t i = 0; i < file->count; i++) {
        memory_free(file->names[i]);
    }
    memory_free(file->names);
    memory_free(file->tensors);
    name_index_fini(&file->index);
    file_map_close(&file->map);
    memory_free(file);
}

grail_status tensor_file_add(tensor_file *file, const char *name, tensor_view **out)
{
    const size_t count = (size_t)file->count;
    const size_t length = strlen(name);
    if (file->count == TENSOR_MOST_IN_FILE) {
        return error_set(GRAIL_ERROR_FORMAT, "holds more than %d tensors", TENSOR_MOST_IN_FILE);
    }
    if (length > TENSOR_LONGEST_NAME) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "a tensor's name has %zu bytes, more than the allowed %d", length,
                         TENSOR_LONGEST_NAME);
    }
    CHECK(memory_reserve(&file->tensors, count + 1, sizeof file->tensors[0]));
    CHECK(memory_reserve(&file->names, count + 1, sizeof file->names[0]));
    CHECK(memory_copy_string(&file->names[count], name));
    file->tensors[count] = (tensor_view){.name = file->names[count]};
    *out = &file->tensors[file->count++];
    return GRAIL_OK;
}

grail_status tensor_measure(tensor_view *view, grail_status fault)
{
    char text[128];
    return shape_bytes(view->dtype, view->rank, view->shape, &view->bytes)
               ? GRAIL_OK
               : error_set(
                     fault,
                     "%s elements of %s do not fill their last byte, or take 2^61 bytes or more",
                     shape_text(view->rank, view->shape, text, sizeof text),
                     grail_dtype_name(view->dtype));
}

grail_status tensor_file_load(tensor_file *file)
{
    return file->load == NULL ? GRAIL_OK : file->load(file);
}

const tensor_view *tensor_file_find(const tensor_file *file, const char *name)
{
    const int64_t i = name_index_find(&file->index, name);
    return i < 0 ? NULL : &file->tensors[i];
}

/* The number of a tensor of this file; -1 for another one, such as one that joins several. */
static int64_t number_of(const tensor_file *file, const tensor_view *tensor)
{
    const uintptr_t begin = (uintptr_t)file->tensors;
    const uintptr_t at = (uintptr_t)tensor;
    const bool inside = at >= begin && at - begin < (size_t)file->count * sizeof *tensor;
    return inside ? (int64_t)((at - begin) / sizeof *tensor) : -1;
}

grail_status tensor_file_need(const tensor_file *file, const tensor_view *tensor)
{
    const int64_t i = file->need == NULL ? -1 : number_of(file, tensor);
    return i < 0 ? GRAIL_OK : file->need(file, i);
}

/* Releases only mapped data: a copy would have to be made again. */
void tensor_file_release(const tensor_file *file, const tensor_view *tensor)
{
    const int64_t i = file->drop == NULL ? -1 : number_of(file, tensor);
    if (i >= 0) {
        file->drop(file, i);
    }
    const uintptr_t begin = (uintptr_t)file->bytes;
    const uintptr_t at = (uintptr_t)tensor->data;
    if (at >= begin && at - begin <= file->size && tensor->bytes <= file->size - (at - begin)) {
        file_map_release(&file->map, at - begin, tensor->bytes);
    }
}
