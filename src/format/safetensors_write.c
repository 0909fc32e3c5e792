/* Writing safetensors files. The header depends on names, dtypes and shapes alone, so the file is
 * laid out at once: header and reserved space go to a temporary file that is renamed when both are
 * on disk. So a file under its final name has its whole header and its space, always. */
#include "format/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include "format/name_index.h"
#include "format/utf8.h"

#include <errno.h>
#include <fcntl.h>
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

/* Where the file system cannot reserve, the file only gets its size, and a full disk shows at a
 * later write. */
static grail_status reserve_space(int descriptor, const char *path, size_t bytes)
{
    int code = 0;
    do {
        code = posix_fallocate(descriptor, 0, (off_t)bytes);
    } while (code == EINTR);
    if ((code == EOPNOTSUPP || code == EINVAL) && ftruncate(descriptor, (off_t)bytes) == 0) {
        return GRAIL_OK;
    }
    if (code == 0) {
        return GRAIL_OK;
    }
    errno = code;
    const grail_status status = error_from_errno("cannot reserve space for", path);
    error_append(" (%zu bytes needed)", bytes);
    return status;
}

/* Makes a rename in the file's directory last. */
static grail_status sync_parent(const char *path)
{
    char *directory = NULL;
    grail_status status = memory_copy_string(&directory, path);
    if (status != GRAIL_OK) {
        return status;
    }
    char *slash = strrchr(directory, '/');
    if (slash != NULL) {
        slash[slash == directory ? 1 : 0] = 0;
    }
    status = directory_sync(slash == NULL ? "." : directory);
    memory_free(directory);
    return status;
}

static grail_status fill_new_file(safetensors_writer *writer, const char *path)
{
    grail_status status = GRAIL_OK;
    TRY(reserve_space(writer->descriptor, path, writer->header.size + writer->data_bytes));
    TRY(file_write_at(writer->descriptor, path, writer->header.bytes, writer->header.size, 0));
    if (fsync(writer->descriptor) != 0) {
        TRY(error_from_errno("cannot flush", path));
    }
    if (rename(path, writer->path) != 0) {
        TRY(error_from_errno("cannot rename to", writer->path));
    }
    TRY(sync_parent(writer->path));
out:
    return status;
}

static grail_status create_file(safetensors_writer *writer)
{
    char *temporary = NULL;
    grail_status status = memory_format(&temporary, "%s.tmp", writer->path);
    if (status != GRAIL_OK) {
        return status;
    }
    writer->descriptor = open(temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer->descriptor < 0) {
        status = error_from_errno("cannot create", temporary);
    } else {
        status = fill_new_file(writer, temporary);
        if (status != GRAIL_OK) {
            unlink(temporary);
        }
    }
    memory_free(temporary);
    return status;
}

static grail_status check_same_layout(const safetensors_writer *writer)
{
    file_map map = {0};
    grail_status status = file_map_open(&map, writer->path);
    if (status != GRAIL_OK) {
        return status;
    }
    const size_t header = writer->header.size;
    const bool same = map.size == header + writer->data_bytes &&
                      memcmp(map.data, writer->header.bytes, header) == 0;
    file_map_close(&map);
    if (!same) {
        status = error_set(GRAIL_ERROR_EXISTS,
                           "'%s' was laid out for other tensors and cannot be continued; remove it "
                           "to start anew",
                           writer->path);
    }
    return status;
}

static grail_status continue_file(safetensors_writer *writer)
{
    const grail_status status = check_same_layout(writer);
    if (status != GRAIL_OK) {
        return status;
    }
    writer->descriptor = open(writer->path, O_RDWR | O_CLOEXEC);
    return writer->descriptor < 0 ? error_from_errno("cannot open", writer->path) : GRAIL_OK;
}

static grail_status open_file(safetensors_writer *writer, bool resume)
{
    if (!file_exists(writer->path)) {
        return create_file(writer);
    }
    if (resume) {
        return continue_file(writer);
    }
    return error_set(GRAIL_ERROR_EXISTS, "'%s' already exists; remove it first", writer->path);
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
