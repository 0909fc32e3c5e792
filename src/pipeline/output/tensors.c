#include "pipeline/output/tensors.h"

#include "pipeline/network/narrow.h"

/* One part's values as stored, behind what is there already. */
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
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' is too large", tensor->name);
    }
    TRY(memory_new_unset(&stored, bytes, 1));
    TRY(convert_from_f32(tensor->dtype, values, count, stored));
    TRY(buffer_append(out, stored, bytes));
out:
    memory_free(values);
    memory_free(stored);
    return status;
}

static grail_status write_changed(const tensor_map *map, const calibration_network *network,
                                  int64_t index, checkpoint_writer *writer)
{
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    const tensor_view *tensor = checkpoint_at(network->request->model->checkpoint, index);
    buffer_init(&bytes, SIZE_MAX / 2);
    for (int p = map->parameter[index]; p != GRAPH_NONE; p = map->next_part[p]) {
        TRY(append_stored(network, p, tensor, &bytes));
    }
    TRY(checkpoint_writer_put(writer, tensor->name, bytes.bytes, bytes.size));
out:
    buffer_fini(&bytes);
    return status;
}

static bool tensor_is_changed(const tensor_map *map, const calibration_network *network,
                              int64_t index)
{
    for (int p = map->parameter[index]; p != GRAPH_NONE; p = map->next_part[p]) {
        if (parameter_is_changed(network, p)) {
            return true;
        }
    }
    return false;
}

grail_status tensors_write_block(const tensor_map *map, const calibration_network *network,
                                 int block, checkpoint_writer *writer)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = network->request->model->checkpoint;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const tensor_view *tensor = checkpoint_at(like, i);
        if (map->block[i] != block) {
            continue;
        }
        if (tensor_is_changed(map, network, i)) {
            TRY(write_changed(map, network, i, writer));
        } else {
            TRY(checkpoint_writer_put(writer, tensor->name, tensor->data, tensor->bytes));
            checkpoint_release(like, tensor);
        }
    }
    TRY(checkpoint_writer_sync(writer));
out:
    return status;
}
