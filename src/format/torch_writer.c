/* Writing torch checkpoints in the zip format: archive/data.pkl, byteorder and version, then every
 * tensor as a storage of its own. */
#include "format/torch_file.h"

#include "base/file.h"
#include "format/name_index.h"
#include "format/torch_internal.h"
#include "format/torch_pickle.h"
#include "format/utf8.h"
#include "format/zip_layout.h"

#include <string.h>
#include <unistd.h>
#include <zlib.h>

struct torch_writer {
    char *path;
    int descriptor;
    zip_layout layout;
    int64_t first; /* member of the first tensor */
    int64_t count;
    bool *written; /* [count] */
    char **names;  /* [count] */
    name_index index;
};

static grail_status check_tensor(const tensor_view *tensor)
{
    int64_t elements = 0;
    size_t bytes = 0;
    const size_t length = strlen(tensor->name);
    if (length > TORCH_LONGEST_NAME) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name has more than %d bytes",
                         TORCH_LONGEST_NAME);
    }
    if (utf8_valid_prefix(tensor->name, length) != length) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name is not UTF-8");
    }
    if (tensor->rank < 0 || tensor->rank > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_ARGUMENT, "rank %d is not in 0 .. %d", tensor->rank,
                         TENSOR_MAX_RANK);
    }
    if (torch_dtype_for(tensor->dtype) == NULL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "torch has no dtype for %s; write safetensors",
                         grail_dtype_name(tensor->dtype));
    }
    if (!shape_elements(tensor->rank, tensor->shape, &elements) ||
        !dtype_bytes(tensor->dtype, elements, &bytes)) {
        char text[128];
        return error_set(GRAIL_ERROR_ARGUMENT, "%s elements of %s take more than 2^61 bytes",
                         shape_text(tensor->rank, tensor->shape, text, sizeof text),
                         grail_dtype_name(tensor->dtype));
    }
    return GRAIL_OK;
}

static grail_status copy_names(torch_writer *writer, int64_t count, const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    TRY(memory_new(&writer->names, (size_t)count, sizeof writer->names[0]));
    TRY(memory_new(&writer->written, (size_t)count, sizeof writer->written[0]));
    for (int64_t i = 0; i < count; i++) {
        status = check_tensor(&tensors[i]);
        if (status != GRAIL_OK) {
            error_prefix("tensor '%s'", tensors[i].name);
            goto out;
        }
        TRY(memory_copy_string(&writer->names[i], tensors[i].name));
        writer->count = i + 1;
    }
    TRY(name_index_init(&writer->index, count, (const char *const *)writer->names));
    const int64_t twice = name_index_duplicate(&writer->index);
    if (twice >= 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "tensor '%s' is given twice", writer->index.entries[twice].name);
    }
out:
    return status;
}

static grail_status add_text(zip_layout *layout, const char *name, const char *text)
{
    return zip_layout_add(layout, name, text, strlen(text));
}

static grail_status add_storage(zip_layout *layout, int64_t key, const tensor_view *tensor)
{
    char *name = NULL;
    int64_t elements = 0;
    size_t bytes = 0;
    grail_status status = memory_format(&name, "archive/data/%lld", (long long)key);
    if (status == GRAIL_OK && shape_elements(tensor->rank, tensor->shape, &elements) &&
        dtype_bytes(tensor->dtype, elements, &bytes)) {
        status = zip_layout_add(layout, name, NULL, bytes);
    }
    memory_free(name);
    return status;
}

static grail_status lay_out(torch_writer *writer, const char *wrapper, const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    buffer object = {0};
    buffer_init(&object, TORCH_LARGEST_PICKLE);
    zip_layout *layout = &writer->layout;
    zip_layout_init(layout);
    TRY(torch_pickle_append(wrapper, writer->count, tensors, &object));
    TRY(zip_layout_add(layout, "archive/data.pkl", object.bytes, object.size));
    TRY(add_text(layout, "archive/byteorder", "little"));
    TRY(add_text(layout, "archive/version", "3\n"));
    writer->first = layout->count;
    for (int64_t i = 0; i < writer->count; i++) {
        TRY(add_storage(layout, i, &tensors[i]));
    }
    TRY(zip_layout_finish(layout));
out:
    buffer_fini(&object);
    return status;
}

static grail_status open_file(torch_writer *writer, bool resume)
{
    const file_layout layout = {
        .bytes = writer->layout.bytes.bytes,
        .pieces = writer->layout.pieces,
        .piece_count = writer->layout.piece_count,
        .file_size = writer->layout.file_size,
    };
    return file_layout_open(&layout, writer->path, resume, &writer->descriptor);
}

grail_status torch_writer_open(const char *path, const char *wrapper, int64_t count,
                               const tensor_view tensors[], bool resume, torch_writer **out)
{
    grail_status status = GRAIL_OK;
    torch_writer *writer = NULL;
    if (count < 0 || count > TORCH_MOST_TENSORS) {
        FAIL(GRAIL_ERROR_ARGUMENT, "%s: %lld tensors are not in 0 .. %d", path, (long long)count,
             TORCH_MOST_TENSORS);
    }
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->descriptor = -1;
    TRY(memory_copy_string(&writer->path, path));
    status = copy_names(writer, count, tensors);
    if (status == GRAIL_OK) {
        status = lay_out(writer, wrapper, tensors);
    }
    if (status != GRAIL_OK) {
        error_prefix("%s", path);
        goto out;
    }
    TRY(open_file(writer, resume));
    *out = writer;
    writer = NULL;
out:
    torch_writer_close(writer);
    return status;
}

/* The bytes, then their checksum at its two places: a run that ends between them writes the tensor
 * again when it continues. */
static grail_status write_member(const torch_writer *writer, const zip_place *place,
                                 const void *data)
{
    grail_status status = GRAIL_OK;
    const uint32_t crc = (uint32_t)crc32_z(crc32_z(0, NULL, 0), data, place->size);
    const unsigned char bytes[] = {(unsigned char)crc, (unsigned char)(crc >> 8),
                                   (unsigned char)(crc >> 16), (unsigned char)(crc >> 24)};
    const int file = writer->descriptor;
    TRY(file_write_at(file, writer->path, data, place->size, place->data));
    TRY(file_write_at(file, writer->path, bytes, sizeof bytes, place->header_crc));
    TRY(file_write_at(file, writer->path, bytes, sizeof bytes, place->directory_crc));
out:
    return status;
}

grail_status torch_writer_put(torch_writer *writer, const char *name, const void *data,
                              size_t bytes)
{
    const int64_t i = name_index_find(&writer->index, name);
    if (i < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: was not laid out for a tensor '%s'",
                         writer->path, name);
    }
    const zip_place *place = &writer->layout.members[writer->first + i];
    if (writer->written[i]) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: tensor '%s' is written a second time",
                         writer->path, name);
    }
    if (bytes != place->size) {
        return error_set(GRAIL_ERROR_SHAPE, "%s: tensor '%s' takes %zu bytes, but %zu are given",
                         writer->path, name, place->size, bytes);
    }
    const grail_status status = write_member(writer, place, data);
    writer->written[i] = status == GRAIL_OK;
    return status;
}

grail_status torch_writer_sync(torch_writer *writer)
{
    return fsync(writer->descriptor) == 0 ? GRAIL_OK
                                          : error_from_errno("cannot flush", writer->path);
}

void torch_writer_close(torch_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (int64_t i = 0; i < writer->count; i++) {
        memory_free(writer->names[i]);
    }
    memory_free(writer->names);
    memory_free(writer->written);
    name_index_fini(&writer->index);
    zip_layout_fini(&writer->layout);
    if (writer->descriptor >= 0) {
        close(writer->descriptor);
    }
    memory_free(writer->path);
    memory_free(writer);
}
