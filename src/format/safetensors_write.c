/* Writing safetensors files. The header depends on names, dtypes and shapes alone, so the file is
 * laid out at once. */
#include "format/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include "format/file_layout.h"
#include "format/name_index.h"
#include "format/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTH_SIZE = 8, HEADER_ALIGNMENT = 8 };

typedef struct placed_tensor {
    char *name; /* owned */
    grail_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    size_t bytes;
    size_t begin; /* relative to the data */
    bool written;
} placed_tensor;

struct safetensors_writer {
    char *path;
    int descriptor;
    placed_tensor *tensors; /* in the order of the data */
    int64_t count;
    name_index index;
    buffer header; /* with its length before it, padded: everything before the data */
    size_t data_bytes;
};

static grail_status check_tensor(const tensor_view *tensor)
{
    if (strcmp(tensor->name, "__metadata__") == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name is reserved");
    }
    const size_t length = strlen(tensor->name);
    if (length > SAFETENSORS_LONGEST_NAME) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name has more than %d bytes",
                         SAFETENSORS_LONGEST_NAME);
    }
    const size_t valid = utf8_valid_prefix(tensor->name, length);
    if (valid != length) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name is not UTF-8 at byte %zu", valid);
    }
    if (tensor->rank < 0 || tensor->rank > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_ARGUMENT, "rank %d is not in 0 .. %d", tensor->rank,
                         TENSOR_MAX_RANK);
    }
    return GRAIL_OK;
}

static grail_status copy_tensor(const tensor_view *tensor, placed_tensor *out)
{
    grail_status status = GRAIL_OK;
    int64_t elements = 0;
    TRY(check_tensor(tensor));
    TRY(memory_copy_string(&out->name, tensor->name));
    out->dtype = tensor->dtype;
    out->rank = tensor->rank;
    memcpy(out->shape, tensor->shape, (size_t)tensor->rank * sizeof tensor->shape[0]);
    if (!shape_elements(tensor->rank, tensor->shape, &elements) ||
        !dtype_bytes(tensor->dtype, elements, &out->bytes)) {
        char text[128];
        FAIL(GRAIL_ERROR_ARGUMENT, "%s elements of %s are not a whole number of bytes below 2^61",
             shape_text(tensor->rank, tensor->shape, text, sizeof text),
             grail_dtype_name(tensor->dtype));
    }
out:
    if (status != GRAIL_OK) {
        error_prefix("tensor '%s'", tensor->name);
    }
    return status;
}

/* Descending dtype order, so that each tensor is aligned to its element size; then by name. */
static int compare_tensors(const void *a, const void *b)
{
    const placed_tensor *left = a;
    const placed_tensor *right = b;
    if (left->dtype != right->dtype) {
        return left->dtype > right->dtype ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

static grail_status index_names(safetensors_writer *writer)
{
    grail_status status = GRAIL_OK;
    const char **names = NULL;
    TRY(memory_new_unset(&names, (size_t)writer->count, sizeof *names));
    for (int64_t i = 0; i < writer->count; i++) {
        names[i] = writer->tensors[i].name;
    }
    TRY(name_index_init(&writer->index, writer->count, names));
    const int64_t twice = name_index_duplicate(&writer->index);
    if (twice >= 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "tensor '%s' is given twice", writer->index.entries[twice].name);
    }
out:
    memory_free(names);
    return status;
}

static grail_status place_tensors(safetensors_writer *writer, int64_t count,
                                  const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    TRY(memory_new(&writer->tensors, (size_t)count, sizeof *writer->tensors));
    for (int64_t i = 0; i < count; i++) {
        writer->count = i + 1; /* before the copy: what it began is freed with the rest */
        TRY(copy_tensor(&tensors[i], &writer->tensors[i]));
    }
    qsort(writer->tensors, (size_t)count, sizeof *writer->tensors, compare_tensors);
    TRY(index_names(writer));
    for (int64_t i = 0; i < count; i++) {
        writer->tensors[i].begin = writer->data_bytes;
        if (!size_add(writer->data_bytes, writer->tensors[i].bytes, &writer->data_bytes) ||
            writer->data_bytes > INT64_MAX / 2) {
            FAIL(GRAIL_ERROR_ARGUMENT, "the tensors take more bytes than a file can hold");
        }
    }
out:
    return status;
}

static grail_status put_entry(json_t *header, const placed_tensor *tensor)
{
    grail_status status = GRAIL_OK;
    json_t *entry = json_object();
    json_t *shape = json_array(); /* owned by `entry` once put there */
    json_t *offsets = json_array();
    TRY(json_put(header, tensor->name, json_incref(entry)));
    TRY(json_put(entry, "dtype", json_string(grail_dtype_name(tensor->dtype))));
    TRY(json_put(entry, "shape", json_incref(shape)));
    for (int d = 0; d < tensor->rank; d++) {
        TRY(json_push(shape, json_integer(tensor->shape[d])));
    }
    TRY(json_put(entry, "data_offsets", json_incref(offsets)));
    TRY(json_push(offsets, json_integer((json_int_t)tensor->begin)));
    TRY(json_push(offsets, json_integer((json_int_t)(tensor->begin + tensor->bytes))));
out:
    json_decref(entry);
    json_decref(shape);
    json_decref(offsets);
    return status;
}

/* transformers refuses files without the "format" entry. */
static grail_status put_metadata(json_t *header)
{
    json_t *metadata = json_object();
    const grail_status status = json_put(header, "__metadata__", metadata);
    return status == GRAIL_OK ? json_put(metadata, "format", json_string("pt")) : status;
}

static grail_status append_header(buffer *out, const json_t *header)
{
    static const unsigned char unknown_length[LENGTH_SIZE];
    grail_status status = GRAIL_OK;
    TRY(buffer_append(out, unknown_length, sizeof unknown_length));
    TRY(json_append_text(header, out));
    while (out->size % HEADER_ALIGNMENT != 0) {
        TRY(buffer_append_string(out, " "));
    }
    for (int i = 0; i < LENGTH_SIZE; i++) {
        out->bytes[i] = (unsigned char)((uint64_t)(out->size - LENGTH_SIZE) >> (8 * i));
    }
out:
    return status;
}

static grail_status build_header(safetensors_writer *writer)
{
    grail_status status = GRAIL_OK;
    json_t *header = json_object();
    if (header == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory while building the header");
    }
    TRY(put_metadata(header));
    for (int64_t i = 0; i < writer->count; i++) {
        TRY(put_entry(header, &writer->tensors[i]));
    }
    buffer_init(&writer->header, SAFETENSORS_LARGEST_HEADER + LENGTH_SIZE);
    TRY(append_header(&writer->header, header));
out:
    json_decref(header);
    return status;
}

static grail_status open_file(safetensors_writer *writer, bool resume)
{
    const layout_piece header = {.size = writer->header.size};
    const file_layout layout = {
        .bytes = writer->header.bytes,
        .pieces = &header,
        .piece_count = 1,
        .file_size = writer->header.size + writer->data_bytes,
    };
    return file_layout_open(&layout, writer->path, resume, &writer->descriptor);
}

grail_status safetensors_writer_open(const char *path, int64_t count, const tensor_view tensors[],
                                     bool resume, safetensors_writer **out)
{
    grail_status status = GRAIL_OK;
    safetensors_writer *writer = NULL;
    if (count < 0 || count > SAFETENSORS_MOST_TENSORS) {
        FAIL(GRAIL_ERROR_ARGUMENT, "%s: %lld tensors are not in 0 .. %d", path, (long long)count,
             SAFETENSORS_MOST_TENSORS);
    }
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->descriptor = -1;
    TRY(memory_copy_string(&writer->path, path));
    status = place_tensors(writer, count, tensors);
    if (status == GRAIL_OK) {
        status = build_header(writer);
    }
    if (status != GRAIL_OK) {
        error_prefix("%s", path);
        goto out;
    }
    TRY(open_file(writer, resume));
    *out = writer;
    writer = NULL;
out:
    safetensors_writer_close(writer);
    return status;
}

grail_status safetensors_writer_put(safetensors_writer *writer, const char *name, const void *data,
                                    size_t bytes)
{
    const int64_t i = name_index_find(&writer->index, name);
    if (i < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: was not laid out for a tensor '%s'",
                         writer->path, name);
    }
    placed_tensor *tensor = &writer->tensors[i];
    if (tensor->written) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: tensor '%s' is written a second time",
                         writer->path, name);
    }
    if (bytes != tensor->bytes) {
        return error_set(GRAIL_ERROR_SHAPE, "%s: tensor '%s' takes %zu bytes, but %zu are given",
                         writer->path, name, tensor->bytes, bytes);
    }
    const grail_status status = file_write_at(writer->descriptor, writer->path, data, bytes,
                                              writer->header.size + tensor->begin);
    tensor->written = status == GRAIL_OK;
    return status;
}

grail_status safetensors_writer_sync(safetensors_writer *writer)
{
    return fsync(writer->descriptor) == 0 ? GRAIL_OK
                                          : error_from_errno("cannot flush", writer->path);
}

void safetensors_writer_close(safetensors_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (int64_t i = 0; i < writer->count; i++) {
        memory_free(writer->tensors[i].name);
    }
    memory_free(writer->tensors);
    name_index_fini(&writer->index);
    buffer_fini(&writer->header);
    if (writer->descriptor >= 0) {
        close(writer->descriptor);
    }
    memory_free(writer->path);
    memory_free(writer);
}
