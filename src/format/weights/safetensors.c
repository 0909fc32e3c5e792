/* Reads safetensors files strictly, and writes them. Everything is checked before a tensor is
 * handed out: the header's length, its nesting and entry count (before it is parsed), its JSON,
 * each entry's fields, and that the byte ranges cover the data without hole, overlap or rest.
 *
 * Rules: huggingface/safetensors, tensor.rs. This reader is stricter: it always refuses a key that
 * occurs twice, entries nest three levels at most, dimensions and offsets are below 2^63, and the
 * limits of safetensors.h and tensor_limits.h hold. */
#include "format/weights/safetensors.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "base/output_file.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_SIZE = 8, HEADER_ALIGNMENT = 8 };

static const char metadata_key[] = "__metadata__";

static grail_status header_length(const unsigned char *bytes, size_t size, size_t *out)
{
    if (size < LENGTH_SIZE) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "has %zu bytes, too few for a safetensors file: truncated?", size);
    }
    const uint64_t length = load_little(bytes, LENGTH_SIZE);
    if (length == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "is unfinished: the length of its header is 0");
    }
    if (length > SAFETENSORS_LARGEST_HEADER) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "claims a header of %llu bytes, more than the allowed %d: is it a "
                         "safetensors file?",
                         (unsigned long long)length, SAFETENSORS_LARGEST_HEADER);
    }
    if (length > size - LENGTH_SIZE) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the header ends at byte %llu, but the file has %zu bytes: truncated?",
                         (unsigned long long)length + LENGTH_SIZE, size);
    }
    *out = (size_t)length;
    return GRAIL_OK;
}

/* The nesting and the size of what the parser gets are limited. Malformed JSON passes there; the
 * parser reports it. */
static grail_status parse_header(const unsigned char *text, size_t size, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *header = NULL;
    const json_extent extent = json_measure(text, size);
    if (extent.depth > SAFETENSORS_DEEPEST) {
        FAIL(GRAIL_ERROR_FORMAT, "header nests deeper than %d levels", SAFETENSORS_DEEPEST);
    }
    if (extent.members > TENSOR_MOST_IN_FILE) {
        FAIL(GRAIL_ERROR_FORMAT, "header lists more than %d tensors", TENSOR_MOST_IN_FILE);
    }
    TRY(json_parse("header", text, size, &header));
    if (!json_is_object(header)) {
        FAIL(GRAIL_ERROR_FORMAT, "header is not a JSON object");
    }
    *out = header;
    header = NULL;
out:
    json_decref(header);
    return status;
}

/* A count of elements or bytes; jansson itself refuses what does not fit 64 bits with sign. */
static bool read_count(const json_t *value, int64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (int64_t)json_integer_value(value);
    return true;
}

/* Fills dtype, shape, bytes and data; offsets refer to `data` of `size` bytes. */
static grail_status read_entry(const json_t *entry, const unsigned char *data, size_t size,
                               tensor_view *view)
{
    int64_t begin = 0;
    int64_t end = 0;
    char text[128];
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry)) {
        return error_set(GRAIL_ERROR_FORMAT, "its entry in the header is not a JSON object");
    }
    if (dtype == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "\"dtype\" is missing or not a string");
    }
    if (!dtype_from_name(dtype, &view->dtype)) {
        return error_set(GRAIL_ERROR_FORMAT, "dtype \"%s\" is unknown", dtype);
    }
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) {
        return error_set(GRAIL_ERROR_FORMAT, "\"shape\" is missing or not an array");
    }
    const size_t rank = json_array_size(shape);
    if (rank > TENSOR_MAX_RANK) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "has %zu dimensions, more than the supported %d",
                         rank, TENSOR_MAX_RANK);
    }
    view->rank = (int)rank;
    for (size_t d = 0; d < rank; d++) {
        if (!read_count(json_array_get(shape, d), &view->shape[d])) {
            return error_set(GRAIL_ERROR_FORMAT, "dimension %zu is not an integer of 0 or more", d);
        }
    }
    if (json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), &begin) ||
        !read_count(json_array_get(offsets, 1), &end)) {
        return error_set(GRAIL_ERROR_FORMAT, "\"data_offsets\" is missing or not two byte counts");
    }
    CHECK(tensor_measure(view, GRAIL_ERROR_FORMAT));
    if (end < begin) {
        return error_set(GRAIL_ERROR_FORMAT, "begins at byte %lld but ends at %lld",
                         (long long)begin, (long long)end);
    }
    if ((uint64_t)end > size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "ends at byte %lld of the data, but the data has %zu bytes: truncated?",
                         (long long)end, size);
    }
    if ((size_t)(end - begin) != view->bytes) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s elements of %s take %zu bytes, but its data_offsets give it %lld",
                         shape_text(view->rank, view->shape, text, sizeof text),
                         grail_dtype_name(view->dtype), view->bytes, (long long)(end - begin));
    }
    view->data = data + begin;
    return GRAIL_OK;
}

/* Orders by first byte, then by last, so that an empty tensor comes before the tensor that begins
 * at its place. */
static int compare_places(const void *a, const void *b)
{
    const tensor_view *left = a;
    const tensor_view *right = b;
    if (left->data != right->data) {
        return (const char *)left->data < (const char *)right->data ? -1 : 1;
    }
    if (left->bytes != right->bytes) {
        return left->bytes < right->bytes ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

static grail_status read_file(tensor_file *file)
{
    grail_status status = GRAIL_OK;
    json_t *header = NULL;
    const char *key = NULL;
    json_t *entry = NULL;
    size_t length = 0;
    TRY(header_length(file->bytes, file->size, &length));
    TRY(parse_header(file->bytes + LENGTH_SIZE, length, &header));
    json_t *metadata = json_object_get(header, metadata_key);
    if (metadata != NULL && !json_is_null(metadata) && !json_is_object(metadata)) {
        FAIL(GRAIL_ERROR_FORMAT, "\"%s\" is not an object", metadata_key);
    }
    json_object_foreach (metadata, key, entry) {
        if (!json_is_string(entry)) {
            FAIL(GRAIL_ERROR_FORMAT, "\"%s\": \"%s\" is not a string", metadata_key, key);
        }
    }
    const unsigned char *data = file->bytes + LENGTH_SIZE + length;
    const size_t data_size = file->size - LENGTH_SIZE - length;
    json_object_foreach (header, key, entry) {
        if (strcmp(key, metadata_key) != 0) {
            tensor_view *view = NULL;
            TRY(tensor_file_add(file, key, &view));
            TRY(error_in(read_entry(entry, data, data_size, view), "tensor '%s'", key));
        }
    }
    if (file->count > 0) {
        qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_places);
    }
    size_t covered = 0;
    for (int64_t i = 0; i < file->count; i++) {
        const tensor_view *view = &file->tensors[i];
        const size_t begin = (size_t)((const unsigned char *)view->data - data);
        if (begin != covered) {
            FAIL(GRAIL_ERROR_FORMAT,
                 "tensor '%s' begins at byte %zu of the data, but the one before it "
                 "ends at %zu: %s",
                 view->name, begin, covered, begin < covered ? "overlap" : "hole");
        }
        covered += view->bytes;
    }
    if (covered != data_size) {
        FAIL(GRAIL_ERROR_FORMAT,
             "the tensors end at byte %zu of the data, but the data has %zu bytes", covered,
             data_size);
    }
out:
    json_decref(header);
    return status;
}

grail_status safetensors_open_bytes(const char *name, const void *bytes, size_t size,
                                    tensor_file **out)
{
    return tensor_file_open_bytes(name, bytes, size, read_file, out);
}

grail_status safetensors_open(const char *path, tensor_file **out)
{
    return tensor_file_open(path, read_file, out);
}

/* -- writing. The header depends only on names, dtypes and shapes, so the file is laid out at once.
 */

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

/* The length of the JSON, then the padded JSON. */
static grail_status build_header(tensor_writer *writer)
{
    static const unsigned char unknown_length[LENGTH_SIZE];
    grail_status status = GRAIL_OK;
    buffer *out = &writer->layout.bytes;
    json_t *header = json_object();
    if (header == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "out of memory while building the header");
    }
    /* transformers refuses files without this entry */
    TRY(json_put(header, metadata_key, json_pack("{s:o}", "format", json_text("pt"))));
    for (int64_t i = 0; i < writer->count; i++) {
        json_t *entry = json_object();
        TRY(json_put(header, writer->items[i].name, entry));
        TRY(json_put(entry, "dtype", json_text(grail_dtype_name(writer->items[i].dtype))));
        json_t *shape = json_array();
        TRY(json_put(entry, "shape", shape));
        for (int d = 0; d < writer->items[i].rank; d++) {
            TRY(json_push(shape, json_integer(writer->items[i].shape[d])));
        }
        TRY(json_put(entry, "data_offsets",
                     json_pack("[I, I]", (json_int_t)writer->items[i].place,
                               (json_int_t)(writer->items[i].place + writer->items[i].bytes))));
    }
    buffer_init(out, SAFETENSORS_LARGEST_HEADER + LENGTH_SIZE);
    TRY(buffer_append(out, unknown_length, sizeof unknown_length));
    TRY(json_append_text(header, out));
    while (out->size % HEADER_ALIGNMENT != 0) {
        TRY(buffer_append_string(out, " "));
    }
    store_little(out->bytes, LENGTH_SIZE, out->size - LENGTH_SIZE);
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
    for (int64_t i = 0; i < writer->count; i++) { /* places relative to the data */
        tensor_slot *slot = &writer->items[i];
        if (strcmp(slot->name, metadata_key) == 0) {
            return error_set(GRAIL_ERROR_ARGUMENT, "tensor '%s': the name is reserved",
                             metadata_key);
        }
        slot->place = data_bytes;
        if (!size_add(data_bytes, slot->bytes, &data_bytes) || data_bytes > INT64_MAX / 2) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "the tensors take more bytes than a file can hold");
        }
    }
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

grail_status safetensors_write_file(const char *path, bool replaces, int64_t count,
                                    const tensor_view tensors[])
{
    grail_status status = GRAIL_OK;
    output_file file = {.descriptor = -1};
    tensor_writer *writer = NULL;
    TRY(output_file_open(path, replaces, &file));
    TRY(safetensors_writer_open(file.temporary, count, tensors, LAYOUT_EMPTY, &writer));
    for (int64_t i = 0; i < count; i++) {
        TRY(tensor_writer_put(writer, tensors[i].name, tensors[i].data, tensors[i].bytes));
    }
    TRY(tensor_writer_seal(writer));
    TRY(output_file_commit(&file));
out:
    tensor_writer_close(writer);
    output_file_fini(&file);
    return status;
}
