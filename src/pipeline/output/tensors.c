#include "pipeline/output/tensors.h"

#include "base/checksum.h"
#include "pipeline/network/narrow.h"

#include <string.h>

static grail_status put_tensor(checkpoint_writer *writer, const char *name, const void *data,
                               size_t bytes, json_t *checksums)
{
    grail_status status = GRAIL_OK;
    char text[CHECKSUM_TEXT_SIZE];
    TRY(checkpoint_writer_put(writer, name, data, bytes));
    TRY(json_put(checksums, name, json_text(checksum_text(data, bytes, text))));
out:
    return status;
}

/* Appends the values of one parameter in the dtype of the tensor. */
static grail_status append_stored(const calibration_network *network, int parameter,
                                  const tensor_view *tensor, buffer *out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    void *stored = NULL;
    int64_t count = 0;
    size_t bytes = 0;
    const graph_parameter *narrow = &network->request->narrowed.graph->parameters[parameter];
    TRY(narrow_parameter(network, parameter, &values));
    if (!shape_elements(narrow->rank, narrow->shape, &count) ||
        !dtype_bytes(tensor->dtype, count, &bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", tensor->name);
    }
    TRY(memory_new_unset(&stored, bytes, 1));
    TRY(convert_from_f32(tensor->dtype, values, count, stored));
    TRY(buffer_append(out, stored, bytes));
out:
    memory_free(values);
    memory_free(stored);
    return status;
}

static grail_status write_changed(const calibration_network *network, const tensor_map *map,
                                  int64_t index, checkpoint_writer *writer, json_t *checksums)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    const tensor_view *tensor = checkpoint_at(network->request->model->checkpoint, index);
    buffer_init(&bytes, SIZE_MAX / 2);
    for (int p = map->first_parameter[index]; p != GRAPH_NONE; p = map->next_part[p]) {
        TRY(append_stored(network, p, tensor, &bytes));
    }
    TRY(put_tensor(writer, tensor->name, bytes.bytes, bytes.size, checksums));
out:
    buffer_fini(&bytes);
    return status;
}

static bool tensor_is_changed(const calibration_network *network, const tensor_map *map,
                              int64_t index)
{
    for (int p = map->first_parameter[index]; p != GRAPH_NONE; p = map->next_part[p]) {
        if (parameter_is_changed(network, p)) {
            return true;
        }
    }
    return false;
}

grail_status tensors_write(const calibration_network *network, const tensor_map *map, int block,
                           checkpoint_writer *writer, json_t *checksums)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = network->request->model->checkpoint;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const tensor_view *tensor = checkpoint_at(like, i);
        if (tensor_map_block(map, i) != block) {
            continue;
        }
        if (tensor_is_changed(network, map, i)) {
            TRY(write_changed(network, map, i, writer, checksums));
        } else {
            TRY(put_tensor(writer, tensor->name, tensor->data, tensor->bytes, checksums));
            checkpoint_release(like, tensor);
        }
    }
out:
    return status;
}

/* *data is owned. */
static grail_status read_back(const checkpoint_writer *writer, const tensor_view *shape,
                              void **data, size_t *bytes)
{
    grail_status status = GRAIL_OK;
    void *read = NULL;
    int64_t count = 0;
    if (!shape_elements(shape->rank, shape->shape, &count) ||
        !dtype_bytes(shape->dtype, count, bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", shape->name);
    }
    TRY(memory_new_unset(&read, *bytes, 1));
    TRY(checkpoint_writer_get(writer, shape->name, read, *bytes));
    *data = read;
    read = NULL;
out:
    memory_free(read);
    return status;
}

static grail_status verify_tensor(const tensor_view *shape, const checkpoint_writer *writer,
                                  const char *recorded, const char *place)
{
    grail_status status = GRAIL_OK;
    void *data = NULL;
    size_t bytes = 0;
    char found[CHECKSUM_TEXT_SIZE];
    TRY(read_back(writer, shape, &data, &bytes));
    if (strcmp(checksum_text(data, bytes, found), recorded) != 0) {
        FAIL(GRAIL_ERROR_FORMAT,
             "tensor '%s' in '%s' is damaged: its checksum is %s, expected %s as recorded when it "
             "was written",
             shape->name, place, found, recorded);
    }
out:
    memory_free(data);
    return status;
}

grail_status tensors_verify(const compression_request *request, const tensor_view shapes[],
                            const checkpoint_writer *writer, const json_t *checksums,
                            const char *place)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = request->model->checkpoint;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const char *recorded = json_string_value(json_object_get(checksums, shapes[i].name));
        if (recorded != NULL) {
            TRY(verify_tensor(&shapes[i], writer, recorded, place));
        }
    }
out:
    return status;
}

grail_status tensors_read_parameter(const compression_request *request,
                                    const checkpoint_writer *writer, int parameter, float **out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    void *data = NULL;
    size_t bytes = 0;
    int64_t count = 0;
    const graph_parameter *narrow = &request->narrowed.graph->parameters[parameter];
    const tensor_view *dense = request->model->tensors[parameter];
    tensor_view shape = {.name = dense->name, .dtype = dense->dtype, .rank = narrow->rank};
    memcpy(shape.shape, narrow->shape, (size_t)narrow->rank * sizeof shape.shape[0]);
    if (narrow->part || narrow->transposed || !shape_elements(shape.rank, shape.shape, &count)) {
        FAIL(GRAIL_ERROR_INTERNAL, "tensor '%s' is not one parameter's own", shape.name);
    }
    TRY(read_back(writer, &shape, &data, &bytes));
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(convert_to_f32(shape.dtype, data, count, values));
    *out = values;
    values = NULL;
out:
    memory_free(values);
    memory_free(data);
    return status;
}
