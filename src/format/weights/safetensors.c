/* Strict reading of safetensors files. Everything is checked before a tensor is handed out: the
 * header's length, its nesting and entry count (before it is parsed), its JSON, each entry's
 * fields, and that the byte ranges cover the data without hole, overlap or rest.
 *
 * Rules: huggingface/safetensors, tensor.rs. This reader is stricter: it always refuses a key that
 * occurs twice, entries nest three levels at most, dimensions and offsets are below 2^63, and the
 * limits of weights_limits.h and tensor_limits.h hold. */
#include "format/weights/safetensors.h"

#include "base/bytes.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_extent.h"
#include "format/name_index.h"
#include "format/tensor_limits.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_SIZE = 8 };

static const char metadata_key[] = "__metadata__";

struct safetensors {
    file_map map; /* empty when the bytes are the caller's */
    const unsigned char *bytes;
    tensor_view *tensors; /* in the order of the data */
    int64_t count;
    name_index index;
    char *names; /* memory of the names in `tensors` */
};

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

/* Limits the nesting and the size of what the parser gets. Malformed JSON passes here; the parser
 * reports it. */
static grail_status check_extent(const unsigned char *text, size_t size)
{
    const json_extent extent = json_measure(text, size);
    if (extent.depth > SAFETENSORS_DEEPEST) {
        return error_set(GRAIL_ERROR_FORMAT, "header nests deeper than %d levels",
                         SAFETENSORS_DEEPEST);
    }
    if (extent.members > TENSOR_MOST_IN_FILE) {
        return error_set(GRAIL_ERROR_FORMAT, "header lists more than %d tensors",
                         TENSOR_MOST_IN_FILE);
    }
    return GRAIL_OK;
}

static grail_status parse_header(const unsigned char *text, size_t size, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *header = NULL;
    TRY(check_extent(text, size));
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

static grail_status check_metadata(json_t *metadata)
{
    if (metadata == NULL || json_is_null(metadata)) {
        return GRAIL_OK;
    }
    if (!json_is_object(metadata)) {
        return error_set(GRAIL_ERROR_FORMAT, "\"%s\" is not an object", metadata_key);
    }
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (metadata, key, value) {
        if (!json_is_string(value)) {
            return error_set(GRAIL_ERROR_FORMAT, "\"%s\": \"%s\" is not a string", metadata_key,
                             key);
        }
    }
    return GRAIL_OK;
}

static grail_status read_dtype(const json_t *entry, grail_dtype *out)
{
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (name == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "\"dtype\" is missing or not a string");
    }
    if (!dtype_from_name(name, out)) {
        return error_set(GRAIL_ERROR_FORMAT, "dtype \"%s\" is unknown", name);
    }
    return GRAIL_OK;
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

static grail_status read_shape(const json_t *entry, tensor_view *view)
{
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
    return GRAIL_OK;
}

static grail_status read_offsets(const json_t *entry, int64_t *begin, int64_t *end)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (json_array_size(offsets) != 2 || !read_count(json_array_get(offsets, 0), begin) ||
        !read_count(json_array_get(offsets, 1), end)) {
        return error_set(GRAIL_ERROR_FORMAT, "\"data_offsets\" is missing or not two byte counts");
    }
    return GRAIL_OK;
}

/* Fills dtype, shape, bytes and data; offsets refer to `data` of `size` bytes. */
static grail_status read_entry(const json_t *entry, const unsigned char *data, size_t size,
                               tensor_view *view)
{
    int64_t begin = 0;
    int64_t end = 0;
    int64_t elements = 0;
    char text[128];
    if (!json_is_object(entry)) {
        return error_set(GRAIL_ERROR_FORMAT, "its entry in the header is not a JSON object");
    }
    CHECK(read_dtype(entry, &view->dtype));
    CHECK(read_shape(entry, view));
    CHECK(read_offsets(entry, &begin, &end));
    shape_text(view->rank, view->shape, text, sizeof text);
    if (!shape_elements(view->rank, view->shape, &elements) ||
        !dtype_bytes(view->dtype, elements, &view->bytes)) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "%s elements of %s do not fill their last byte, or take 2^61 bytes or more", text,
            grail_dtype_name(view->dtype));
    }
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
                         text, grail_dtype_name(view->dtype), view->bytes,
                         (long long)(end - begin));
    }
    view->data = data + begin;
    return GRAIL_OK;
}

/* Allocates `count` tensors and a copy of every name. The sum of the names cannot overflow, since
 * the header has a limited length. */
static grail_status new_tables(safetensors *file, json_t *header, size_t count)
{
    size_t bytes = 0;
    const char *key = NULL;
    json_t *entry = NULL;
    json_object_foreach (header, key, entry) {
        const size_t length = strlen(key);
        if (length > TENSOR_LONGEST_NAME) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "a tensor's name has %zu bytes, more than the allowed %d", length,
                             TENSOR_LONGEST_NAME);
        }
        bytes += length + 1;
    }
    CHECK(memory_new(&file->tensors, count, sizeof *file->tensors));
    return memory_new_unset(&file->names, bytes, 1);
}

static grail_status read_entries(safetensors *file, json_t *header, const unsigned char *data,
                                 size_t size)
{
    char *next_name = file->names;
    const char *key = NULL;
    json_t *entry = NULL;
    json_object_foreach (header, key, entry) {
        if (strcmp(key, metadata_key) == 0) {
            continue;
        }
        tensor_view *view = &file->tensors[file->count];
        view->name = next_name;
        next_name = stpcpy(next_name, key) + 1;
        CHECK(error_in(read_entry(entry, data, size, view), "tensor '%s'", key));
        file->count++;
    }
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

static grail_status check_coverage(const safetensors *file, const unsigned char *data, size_t size)
{
    size_t covered = 0;
    for (int64_t i = 0; i < file->count; i++) {
        const tensor_view *view = &file->tensors[i];
        const size_t begin = (size_t)((const unsigned char *)view->data - data);
        if (begin != covered) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "tensor '%s' begins at byte %zu of the data, but the one before it "
                             "ends at %zu: %s",
                             view->name, begin, covered, begin < covered ? "overlap" : "hole");
        }
        covered += view->bytes;
    }
    if (covered != size) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "the tensors end at byte %zu of the data, but the data has %zu bytes",
                         covered, size);
    }
    return GRAIL_OK;
}

static grail_status index_names(safetensors *file)
{
    grail_status status = GRAIL_OK;
    const char **names = NULL;
    TRY(memory_new_unset(&names, (size_t)file->count, sizeof *names));
    for (int64_t i = 0; i < file->count; i++) {
        names[i] = file->tensors[i].name;
    }
    TRY(name_index_init(&file->index, file->count, names));
out:
    memory_free(names);
    return status;
}

static grail_status read_header(safetensors *file, const unsigned char *bytes, size_t size)
{
    grail_status status = GRAIL_OK;
    json_t *header = NULL;
    size_t length = 0;
    TRY(header_length(bytes, size, &length));
    TRY(parse_header(bytes + LENGTH_SIZE, length, &header));
    TRY(check_metadata(json_object_get(header, metadata_key)));
    const unsigned char *data = bytes + LENGTH_SIZE + length;
    const size_t data_size = size - LENGTH_SIZE - length;
    TRY(new_tables(file, header, json_object_size(header)));
    TRY(read_entries(file, header, data, data_size));
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_places);
    TRY(check_coverage(file, data, data_size));
    TRY(index_names(file));
    file->bytes = bytes;
out:
    json_decref(header);
    return status;
}

grail_status safetensors_open_bytes(const char *name, const void *bytes, size_t size,
                                    safetensors **out)
{
    grail_status status = GRAIL_OK;
    safetensors *file = NULL;
    TRY(memory_new(&file, 1, sizeof *file));
    TRY(read_header(file, bytes, size));
    *out = file;
    file = NULL;
out:
    if (status != GRAIL_OK) {
        error_prefix("%s", name);
    }
    safetensors_close(file);
    return status;
}

static grail_status open_map(const char *path, const file_map *map, void *out)
{
    safetensors **file = out;
    CHECK(safetensors_open_bytes(path, map->data, map->size, file));
    (*file)->map = *map;
    return GRAIL_OK;
}

grail_status safetensors_open(const char *path, safetensors **out)
{
    return file_map_for(path, open_map, out);
}

void safetensors_close(safetensors *file)
{
    if (file != NULL) {
        name_index_fini(&file->index);
        memory_free(file->tensors);
        memory_free(file->names);
        file_map_close(&file->map);
        memory_free(file);
    }
}

file_identity safetensors_identity(const safetensors *file)
{
    return file->map.identity;
}

int64_t safetensors_count(const safetensors *file)
{
    return file->count;
}

const tensor_view *safetensors_at(const safetensors *file, int64_t i)
{
    return i >= 0 && i < file->count ? &file->tensors[i] : NULL;
}

const tensor_view *safetensors_find(const safetensors *file, const char *name)
{
    const int64_t i = name_index_find(&file->index, name);
    return i < 0 ? NULL : &file->tensors[i];
}

void safetensors_release(const safetensors *file, const tensor_view *tensor)
{
    const size_t offset = (size_t)((const unsigned char *)tensor->data - file->bytes);
    file_map_release(&file->map, offset, tensor->bytes);
}
