#include "format/tensor_writer.h"

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/file.h"
#include "base/utf8.h"
#include "format/tensor_limits.h"

#include <string.h>
#include <unistd.h>

static grail_status check_tensor(const tensor_view *tensor)
{
    const size_t length = strlen(tensor->name);
    if (length > TENSOR_LONGEST_NAME) {
        return error_set(GRAIL_ERROR_ARGUMENT, "the name has more than %d bytes",
                         TENSOR_LONGEST_NAME);
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

static grail_status fill_slot(const tensor_view *tensor, tensor_slot *slot)
{
    int64_t elements = 0;
    CHECK(check_tensor(tensor));
    CHECK(memory_copy_string(&slot->name, tensor->name));
    slot->dtype = tensor->dtype;
    slot->rank = tensor->rank;
    memcpy(slot->shape, tensor->shape, (size_t)tensor->rank * sizeof tensor->shape[0]);
    if (!shape_elements(tensor->rank, tensor->shape, &elements) ||
        !dtype_bytes(tensor->dtype, elements, &slot->bytes)) {
        char text[128];
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "%s elements of %s do not fill their last byte, or take 2^61 bytes or more",
            shape_text(tensor->rank, tensor->shape, text, sizeof text),
            grail_dtype_name(tensor->dtype));
    }
    return GRAIL_OK;
}

grail_status tensor_writer_declare(tensor_writer *writer, int64_t count,
                                   const tensor_view tensors[])
{
    if (count < 0 || count > TENSOR_MOST_IN_FILE) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%lld tensors are not in 0 .. %d", (long long)count,
                         TENSOR_MOST_IN_FILE);
    }
    CHECK(memory_new(&writer->items, (size_t)count, sizeof *writer->items));
    for (int64_t i = 0; i < count; i++) {
        writer->count = i + 1; /* before filling, so that a partly filled slot is freed too */
        CHECK(error_in(fill_slot(&tensors[i], &writer->items[i]), "tensor '%s'", tensors[i].name));
    }
    return GRAIL_OK;
}

grail_status tensor_writer_index(tensor_writer *writer)
{
    CHECK(name_index_init(&writer->index, writer->count, writer->items, sizeof writer->items[0]));
    const char *twice = name_index_twice(&writer->index);
    return twice == NULL ? GRAIL_OK
                         : error_set(GRAIL_ERROR_ARGUMENT, "tensor '%s' is given twice", twice);
}

grail_status tensor_writer_open(const char *path, tensor_layout lay_out, const void *own,
                                int64_t count, const tensor_view tensors[], layout_start start,
                                tensor_writer **out)
{
    grail_status status = GRAIL_OK;
    tensor_writer *writer = NULL;
    TRY(memory_new(&writer, 1, sizeof *writer));
    writer->descriptor = -1;
    TRY(memory_copy_string(&writer->path, path));
    TRY(error_in(lay_out(writer, own, count, tensors), "%s", path));
    TRY(file_layout_open(&writer->layout, path, start, &writer->descriptor));
    *out = writer;
    writer = NULL;
out:
    tensor_writer_close(writer);
    return status;
}

/* The item of a declared tensor of that size. */
static grail_status find(const tensor_writer *writer, const char *name, size_t bytes,
                         tensor_slot **out)
{
    const int64_t i = name_index_find(&writer->index, name);
    if (i < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: has no place for a tensor '%s'", writer->path,
                         name);
    }
    if (bytes != writer->items[i].bytes) {
        return error_set(GRAIL_ERROR_SHAPE, "%s: tensor '%s' takes %zu bytes, but %zu are given",
                         writer->path, name, writer->items[i].bytes, bytes);
    }
    *out = &writer->items[i];
    return GRAIL_OK;
}

/* The bytes, then their checksum. A run that is interrupted in between writes the tensor again when
 * it is resumed.
 */
static grail_status write_slot(const tensor_writer *writer, const tensor_slot *slot,
                               const void *data)
{
    CHECK(file_write_at(writer->descriptor, writer->path, data, slot->bytes, slot->place));
    for (int i = 0; i < 2 && slot->checksums[i] > 0; i++) {
        unsigned char bytes[4];
        store_little(bytes, sizeof bytes, checksum_crc32(data, slot->bytes));
        CHECK(file_write_at(writer->descriptor, writer->path, bytes, sizeof bytes,
                            slot->checksums[i]));
    }
    return GRAIL_OK;
}

grail_status tensor_writer_put(tensor_writer *writer, const char *name, const void *data,
                               size_t bytes)
{
    tensor_slot *slot = NULL;
    CHECK(find(writer, name, bytes, &slot));
    if (slot->written) {
        return error_set(GRAIL_ERROR_ARGUMENT, "%s: tensor '%s' is written a second time",
                         writer->path, name);
    }
    CHECK(write_slot(writer, slot, data));
    slot->written = true;
    return GRAIL_OK;
}

grail_status tensor_writer_get(const tensor_writer *writer, const char *name, void *data,
                               size_t bytes)
{
    tensor_slot *slot = NULL;
    CHECK(find(writer, name, bytes, &slot));
    return file_read_at(writer->descriptor, writer->path, data, bytes, slot->place);
}

grail_status tensor_writer_flush(const tensor_writer *writer)
{
    return file_flush(writer->descriptor, writer->path);
}

grail_status tensor_writer_seal(const tensor_writer *writer)
{
    return file_layout_seal(&writer->layout, writer->descriptor, writer->path);
}

void tensor_writer_close(tensor_writer *writer)
{
    if (writer == NULL) {
        return;
    }
    for (int64_t i = 0; i < writer->count; i++) {
        memory_free(writer->items[i].name);
    }
    memory_free(writer->items);
    name_index_fini(&writer->index);
    if (writer->descriptor >= 0) {
        close(writer->descriptor);
    }
    memory_free(writer->pieces);
    buffer_fini(&writer->bytes);
    memory_free(writer->path);
    memory_free(writer);
}
