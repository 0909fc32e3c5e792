/* Writes safetensors files. The header depends only on names, dtypes and shapes, so the file is
 * laid out at once. */
#include "format/weights/safetensors.h"

#include "base/bytes.h"
#include "base/json.h"
#include "base/output_file.h"
#include "format/tensor_writer.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_SIZE = 8, HEADER_ALIGNMENT = 8 };

static const char metadata_key[] = "__metadata__";

/* Descending dtype order, so that each tensor is aligned to its element size; then by name. */
static int compare_slots(const void *a, const void *b)
{
    const tensor_slot *left = a;
    const tensor_slot *right = b;
    if (left->dtype != right->dtype) {
        return left->dtype > right->dtype ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

/* Places relative to the data. */
static grail_status place_tensors(tensor_writer *writer, size_t *data_bytes)
{
    for (int64_t i = 0; i < writer->count; i++) {
        if (strcmp(writer->items[i].name, metadata_key) == 0) {
            return error_set(GRAIL_ERROR_ARGUMENT, "tensor '%s': the name is reserved",
                             metadata_key);
        }
        writer->items[i].place = *data_bytes;
        if (!size_add(*data_bytes, writer->items[i].bytes, data_bytes) ||
            *data_bytes > INT64_MAX / 2) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "the tensors take more bytes than a file can hold");
        }
    }
    return GRAIL_OK;
}

static grail_status put_entry(json_t *header, const tensor_slot *tensor)
{
    json_t *entry = json_object();
    CHECK(json_put(header, tensor->name, entry));
    CHECK(json_put(entry, "dtype", json_text(grail_dtype_name(tensor->dtype))));
    json_t *shape = json_array();
    CHECK(json_put(entry, "shape", shape));
    for (int d = 0; d < tensor->rank; d++) {
        CHECK(json_push(shape, json_integer(tensor->shape[d])));
    }
    return json_put(entry, "data_offsets",
                    json_pack("[I, I]", (json_int_t)tensor->place,
                              (json_int_t)(tensor->place + tensor->bytes)));
}

static grail_status append_header(buffer *out, const json_t *header)
{
    static const unsigned char unknown_length[LENGTH_SIZE];
    CHECK(buffer_append(out, unknown_length, sizeof unknown_length));
    CHECK(json_append_text(header, out));
    while (out->size % HEADER_ALIGNMENT != 0) {
        CHECK(buffer_append_string(out, " "));
    }
    store_little(out->bytes, LENGTH_SIZE, out->size - LENGTH_SIZE);
    return GRAIL_OK;
}

/* The length of the JSON, then the padded JSON. */
static grail_status build_header(tensor_writer *writer)
{
    grail_status status = GRAIL_OK;
    json_t *header = json_object();
    if (header == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory while building the header");
    }
    /* transformers refuses files without this entry */
    TRY(json_put(header, metadata_key, json_pack("{s:o}", "format", json_text("pt"))));
    for (int64_t i = 0; i < writer->count; i++) {
        TRY(put_entry(header, &writer->items[i]));
    }
    buffer_init(&writer->layout.bytes, SAFETENSORS_LARGEST_HEADER + LENGTH_SIZE);
    TRY(append_header(&writer->layout.bytes, header));
out:
    json_decref(header);
    return status;
}

/* The length is the seal: every reader refuses a header of length 0. */
static grail_status lay_out(tensor_writer *writer, const void *nothing)
{
    (void)nothing;
    file_layout *layout = &writer->layout;
    size_t data_bytes = 0;
    qsort(writer->items, (size_t)writer->count, sizeof *writer->items, compare_slots);
    CHECK(place_tensors(writer, &data_bytes));
    CHECK(build_header(writer));
    CHECK(memory_new(&layout->pieces, 1, sizeof layout->pieces[0]));
    const size_t header = layout->bytes.size;
    layout->pieces[0] =
        (layout_piece){.begin = LENGTH_SIZE, .at = LENGTH_SIZE, .size = header - LENGTH_SIZE};
    layout->piece_count = 1;
    layout->seal.size = LENGTH_SIZE;
    layout->file_size = header + data_bytes;
    for (int64_t i = 0; i < writer->count; i++) {
        writer->items[i].place += header;
    }
    return GRAIL_OK;
}

grail_status safetensors_writer_open(const char *path, int64_t count, const tensor_view tensors[],
                                     layout_start start, tensor_writer **out)
{
    return tensor_writer_open(path, lay_out, NULL, count, tensors, start, out);
}

static grail_status write_all(const char *path, int64_t count, const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    tensor_writer *writer = NULL;
    TRY(safetensors_writer_open(path, count, tensors, LAYOUT_EMPTY, &writer));
    for (int64_t i = 0; i < count; i++) {
        TRY(tensor_writer_put(writer, tensors[i].name, tensors[i].data, tensors[i].bytes));
    }
    TRY(tensor_writer_seal(writer));
out:
    tensor_writer_close(writer);
    return status;
}

grail_status safetensors_write_file(const char *path, bool replaces, int64_t count,
                                    const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    output_file file = {.descriptor = -1};
    TRY(output_file_open(path, replaces, &file));
    TRY(write_all(file.temporary, count, tensors));
    TRY(output_file_commit(&file));
out:
    output_file_fini(&file);
    return status;
}
