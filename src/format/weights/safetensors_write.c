/* Writes safetensors files. The header depends only on names, dtypes and shapes, so the file is
 * laid out at once. */
#include "format/weights/safetensors.h"

#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"
#include "format/tensor_slots.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_SIZE = 8, HEADER_ALIGNMENT = 8 };

static const char metadata_key[] = "__metadata__";

struct safetensors_writer {
    tensor_slots slots; /* in the order of the data */
    size_t *begins;     /* [slots.count], relative to the data */
    size_t data_bytes;
    buffer header; /* everything before the data: the length of the JSON, then the padded JSON */
    layout_piece text; /* the header without its length; the length is the seal */
    file_layout layout;
};

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

static grail_status declare(safetensors_writer *writer, const char *path, int64_t count,
                            const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    tensor_slots *slots = &writer->slots;
    TRY(tensor_slots_declare(slots, path, count, tensors));
    qsort(slots->items, (size_t)count, sizeof *slots->items, compare_slots);
    TRY(tensor_slots_index(slots));
    if (name_index_find(&slots->index, metadata_key) >= 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "tensor '%s': the name is reserved", metadata_key);
    }
out:
    return status;
}

static grail_status place_tensors(safetensors_writer *writer)
{
    grail_status status = GRAIL_OK;
    const tensor_slots *slots = &writer->slots;
    TRY(memory_new_unset(&writer->begins, (size_t)slots->count, sizeof *writer->begins));
    for (int64_t i = 0; i < slots->count; i++) {
        writer->begins[i] = writer->data_bytes;
        if (!size_add(writer->data_bytes, slots->items[i].bytes, &writer->data_bytes) ||
            writer->data_bytes > INT64_MAX / 2) {
            FAIL(GRAIL_ERROR_ARGUMENT, "the tensors take more bytes than a file can hold");
        }
    }
out:
    return status;
}

static grail_status put_entry(json_t *header, const tensor_slot *tensor, size_t begin)
{
    grail_status status = GRAIL_OK;
    json_t *entry = json_object();
    json_t *shape = json_array(); /* owned by `entry` once put there */
    json_t *offsets = json_array();
    TRY(json_put(header, tensor->name, json_incref(entry)));
    TRY(json_put(entry, "dtype", json_text(grail_dtype_name(tensor->dtype))));
    TRY(json_put(entry, "shape", json_incref(shape)));
    for (int d = 0; d < tensor->rank; d++) {
        TRY(json_push(shape, json_integer(tensor->shape[d])));
    }
    TRY(json_put(entry, "data_offsets", json_incref(offsets)));
    TRY(json_push(offsets, json_integer((json_int_t)begin)));
    TRY(json_push(offsets, json_integer((json_int_t)(begin + tensor->bytes))));
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
    const grail_status status = json_put(header, metadata_key, metadata);
    return status == GRAIL_OK ? json_put(metadata, "format", json_text("pt")) : status;
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
    for (int64_t i = 0; i < writer->slots.count; i++) {
        TRY(put_entry(header, &writer->slots.items[i], writer->begins[i]));
    }
    buffer_init(&writer->header, SAFETENSORS_LARGEST_HEADER + LENGTH_SIZE);
    TRY(append_header(&writer->header, header));
out:
    json_decref(header);
    return status;
}

/* Every reader refuses a header of length 0. */
static grail_status open_file(safetensors_writer *writer, layout_start start)
{
    const size_t text = writer->header.size - LENGTH_SIZE;
    writer->text = (layout_piece){.begin = LENGTH_SIZE, .at = LENGTH_SIZE, .size = text};
    writer->layout = (file_layout){
        .bytes = writer->header.bytes,
        .pieces = &writer->text,
        .piece_count = 1,
        .seal = {.size = LENGTH_SIZE},
        .file_size = writer->header.size + writer->data_bytes,
    };
    return tensor_slots_open(&writer->slots, &writer->layout, start);
}

grail_status safetensors_writer_open(const char *path, int64_t count, const tensor_view tensors[],
                                     layout_start start, safetensors_writer **out)
{
    grail_status status = GRAIL_OK;
    safetensors_writer *writer = NULL;
    TRY(memory_new(&writer, 1, sizeof *writer));
    status = declare(writer, path, count, tensors);
    if (status == GRAIL_OK) {
        status = place_tensors(writer);
    }
    if (status == GRAIL_OK) {
        status = build_header(writer);
    }
    if (status != GRAIL_OK) {
        error_prefix("%s", path);
        goto out;
    }
    TRY(open_file(writer, start));
    *out = writer;
    writer = NULL;
out:
    safetensors_writer_close(writer);
    return status;
}

grail_status safetensors_writer_put(safetensors_writer *writer, const char *name, const void *data,
                                    size_t bytes)
{
    int64_t i = 0;
    tensor_slots *slots = &writer->slots;
    grail_status status = tensor_slots_find_unwritten(slots, name, bytes, &i);
    if (status == GRAIL_OK) {
        status = file_write_at(slots->descriptor, slots->path, data, bytes,
                               writer->header.size + writer->begins[i]);
        slots->items[i].written = status == GRAIL_OK;
    }
    return status;
}

grail_status safetensors_writer_get(const safetensors_writer *writer, const char *name, void *data,
                                    size_t bytes)
{
    int64_t i = 0;
    const tensor_slots *slots = &writer->slots;
    const grail_status status = tensor_slots_find(slots, name, bytes, &i);
    return status == GRAIL_OK ? file_read_at(slots->descriptor, slots->path, data, bytes,
                                             writer->header.size + writer->begins[i])
                              : status;
}

grail_status safetensors_writer_flush(const safetensors_writer *writer)
{
    return tensor_slots_flush(&writer->slots);
}

grail_status safetensors_writer_seal(const safetensors_writer *writer)
{
    return tensor_slots_seal(&writer->slots);
}

void safetensors_writer_close(safetensors_writer *writer)
{
    if (writer != NULL) {
        tensor_slots_fini(&writer->slots);
        memory_free(writer->begins);
        buffer_fini(&writer->header);
        memory_free(writer);
    }
}

static grail_status write_all(const char *path, int64_t count, const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    safetensors_writer *writer = NULL;
    TRY(safetensors_writer_open(path, count, tensors, LAYOUT_EMPTY, &writer));
    for (int64_t i = 0; i < count; i++) {
        TRY(safetensors_writer_put(writer, tensors[i].name, tensors[i].data, tensors[i].bytes));
    }
    TRY(safetensors_writer_seal(writer));
out:
    safetensors_writer_close(writer);
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
