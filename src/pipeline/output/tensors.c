#include "pipeline/output/tensors.h"

#include "base/checksum.h"

#include <string.h>

/* Whether it lies in an ONNX file and is no weight of the graph: such as what pads before a
 * maximum, or masks. */
static bool is_constant_of_nodes(const grail_model *model, const tensor_view *tensor)
{
    for (int i = 0; i < model->graph->parameter_count; i++) {
        if (strcmp(model->graph->parameters[i].tensor, tensor->name) == 0) {
            return false;
        }
    }
    return checkpoint_onnx(model->checkpoint) != NULL;
}

static grail_status note_non_finite(const compression_request *request, int64_t index, bool keep,
                                    json_t *names)
{
    const tensor_view *tensor = checkpoint_at(request->model->checkpoint, index);
    int64_t count = 0;
    if (!shape_elements(tensor->rank, tensor->shape, &count)) {
        return error_set(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", tensor->name);
    }
    CHECK(checkpoint_need(request->model->checkpoint, tensor));
    const int64_t bad = find_non_finite_stored(tensor->dtype, tensor->data, count);
    checkpoint_release(request->model->checkpoint, tensor);
    if (bad < 0) {
        return GRAIL_OK;
    }
    if (keep || is_constant_of_nodes(request->model, tensor)) {
        return json_push(names, json_text(tensor->name));
    }
    const grail_status status = model_error_non_finite(request->model, tensor, bad);
    error_append("; where nothing computes with the tensor, it can be copied as it is");
    return error_about(status, "output.keep_non_finite");
}

grail_status result_tensors_init(const compression_request *request, bool keep, result_tensors *out)
{
    *out = (result_tensors){.non_finite = json_array()};
    CHECK(tensor_map_init(request, &out->map));
    CHECK(tensor_map_shapes(&out->map, request, &out->shapes));
    for (int64_t i = 0; i < out->map.tensor_count; i++) {
        /* nodes that grail does not narrow may mask by an infinite constant */
        const bool is_of_others = checkpoint_onnx(request->model->checkpoint) != NULL &&
                                  out->map.first_parameter[i] == GRAPH_NONE;
        if (out->map.names[i] != NULL && !is_of_others) {
            CHECK(note_non_finite(request, i, keep, out->non_finite));
        }
    }
    return GRAIL_OK;
}

void result_tensors_fini(result_tensors *tensors)
{
    json_decref(tensors->non_finite);
    memory_free(tensors->shapes);
    tensor_map_fini(&tensors->map);
    *tensors = (result_tensors){0};
}

typedef struct tensor_sink {
    tensor_taker take;
    void *user;
} tensor_sink;

/* The first parameter of a tensor of the result, with the rows in the order of the graph. */
static grail_status put_tensor(const compression_request *request, int parameter,
                               const tensor_sink *sink, const char *name, const void *data,
                               size_t bytes)
{
    grail_status status = GRAIL_OK;
    const gguf_target *target = request->narrowed.target;
    void *moved = NULL;
    if (target == NULL) {
        return sink->take(sink->user, name, data, bytes);
    }
    const int64_t rows = request->narrowed.graph->parameters[parameter].shape[0];
    TRY(memory_new_unset(&moved, bytes, 1));
    gguf_move_rows(&target->places[parameter].map.rows, rows, bytes / (size_t)rows, false, data,
                   moved);
    TRY(sink->take(sink->user, name, moved, bytes));
out:
    memory_free(moved);
    return status;
}

/* The dense features that those of a narrowed axis stand for: the kept ones, or for a merged unit
 * those of its first member. NULL if the axis, which has `dense` features, is not cut; *out is
 * owned. */
static grail_status origins_of(const calibration_network *network, const cut_axis *axis,
                               int64_t dense, int64_t **out)
{
    const plan *p = &network->request->plan;
    int64_t at = 0;
    if (axis->site == GRAPH_NONE) {
        return GRAIL_OK;
    }
    const int64_t size = cut_narrow_place(p, axis, dense);
    CHECK(memory_new(out, (size_t)size, sizeof **out));
    int64_t *origins = *out;
    for (; axis != NULL; axis = axis->next) {
        const grail_reducer *r = network->results[axis->site].reducer;
        const int64_t u = axis->features;
        while (at < axis->first) {
            *origins++ = at++;
        }
        const int64_t groups = axis_groups(axis); /* of columns: those of the first rows' group */
        for (int64_t j = r->units / groups - 1; j >= 0; j--) {
            for (int64_t f = 0; r->labels[j] >= 0 && f < u; f++) {
                origins[r->labels[j] * u + f] = at + j * u + f;
            }
        }
        origins += r->kept / groups * u;
        at += r->units / groups * u;
    }
    while (at < dense) {
        *origins++ = at++;
    }
    return GRAIL_OK;
}

/* What is left of the parameters of a tensor, with origins. The caller calls pieces_free. */
static grail_status find_pieces(const calibration_network *network, const tensor_map *map,
                                int64_t index, storage_piece **out)
{
    int count = 0;
    CHECK(tensor_map_pieces(map, network->request, index, out));
    for (int p = map->first_parameter[index]; p != GRAPH_NONE; p = map->next_part[p]) {
        const parameter_cut *cut = &network->request->cuts[p];
        const int64_t *dense = network->request->graph->parameters[p].shape;
        const int64_t taps = weight_taps(&network->request->graph->parameters[p]);
        int64_t *rows = NULL;
        int64_t *columns = NULL;
        CHECK(origins_of(network, &cut->rows, dense[0], &rows));
        (*out)[count].row_origin = rows;
        CHECK(origins_of(network, &cut->columns, dense[1] * taps, &columns));
        (*out)[count].column_origin = columns;
        count++;
    }
    return GRAIL_OK;
}

static void pieces_free(int count, storage_piece *pieces)
{
    for (int i = 0; pieces != NULL && i < count; i++) {
        memory_free((int64_t *)(uintptr_t)pieces[i].row_origin);
        memory_free((int64_t *)(uintptr_t)pieces[i].column_origin);
    }
    memory_free(pieces);
}

static bool is_gone(const calibration_network *network, int parameter)
{
    return graph_parameter_is_gone(&network->request->narrowed.graph->parameters[parameter]);
}

/* matrix[rows, columns] of the narrowed tensor as f32, owned. A parameter that is its tensor needs
 * no copy. */
static grail_status assemble(const calibration_network *network, const tensor_map *map,
                             int64_t index, const storage_layout *layout, float **out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    int i = 0;
    const tensor_view *tensor = checkpoint_at(network->request->model->checkpoint, index);
    if (layout->count == 1 && storage_is_plain(&layout->pieces[0].dense.map)) {
        return narrow_parameter(network, map->first_parameter[index], out);
    }
    TRY(memory_new_unset(out, (size_t)(layout->rows * layout->columns), sizeof **out));
    for (int p = map->first_parameter[index]; p != GRAPH_NONE; p = map->next_part[p]) {
        if (is_gone(network, p)) {
            i++;
            continue;
        }
        TRY(narrow_parameter(network, p, &values));
        TRY(storage_put(layout, i++, tensor, values, *out));
        memory_free(values);
        values = NULL;
    }
out:
    memory_free(values);
    return status;
}

static grail_dtype written_dtype(const calibration_network *network, const tensor_map *map,
                                 int64_t index)
{
    const compression_request *request = network->request;
    const int parameter = map->first_parameter[index];
    return parameter == GRAPH_NONE
               ? model_written_dtype(request->model,
                                     checkpoint_at(request->model->checkpoint, index))
               : request_written_dtype(request, parameter);
}

static grail_status write_changed(const calibration_network *network, const tensor_map *map,
                                  int64_t index, const tensor_sink *sink)
{
    grail_status status = GRAIL_OK;
    const tensor_view *tensor = checkpoint_at(network->request->model->checkpoint, index);
    const int count = tensor_map_count(map, index);
    storage_piece *pieces = NULL;
    storage_layout layout = {0};
    float *assembled = NULL;
    void *stored = NULL;
    size_t bytes = 0;
    const int parameter = map->first_parameter[index];
    const grail_dtype dtype = written_dtype(network, map, index);
    TRY(find_pieces(network, map, index, &pieces));
    TRY(storage_lay_out(count, pieces, &layout));
    TRY(assemble(network, map, index, &layout, &assembled));
    if (!dtype_bytes(dtype, layout.rows * layout.columns, &bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", tensor->name);
    }
    TRY(memory_new_unset(&stored, bytes, 1));
    TRY(convert_from_f32(dtype, assembled, layout.rows * layout.columns, stored));
    TRY(put_tensor(network->request, parameter, sink, tensor->name, stored, bytes));
out:
    memory_free(stored);
    memory_free(assembled);
    storage_layout_fini(&layout);
    pieces_free(count, pieces);
    return status;
}

/* Matrices that are rounded are tensors of their own. The rows that are left keep their order. */
static grail_status write_rounded(const calibration_network *network, int parameter,
                                  const tensor_sink *sink)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const int64_t *shape = request->narrowed.graph->parameters[parameter].shape;
    const unsigned char *blocks = network->rounded[parameter];
    int64_t *origins = NULL;
    unsigned char *kept = NULL;
    size_t row = 0;
    if (blocks == NULL ||
        !dtype_bytes(rounded_dtype(&request->rounded, parameter), shape[1], &row)) {
        FAIL(GRAIL_ERROR_INTERNAL, "matrix '%s' was not rounded",
             request->graph->parameters[parameter].name);
    }
    TRY(origins_of(network, &request->cuts[parameter].rows,
                   request->graph->parameters[parameter].shape[0], &origins));
    TRY(memory_new_unset(&kept, (size_t)shape[0], row));
    for (int64_t r = 0; r < shape[0]; r++) {
        const int64_t from = origins == NULL ? r : origins[r];
        memcpy(kept + (size_t)r * row, blocks + (size_t)from * row, row);
    }
    TRY(put_tensor(request, parameter, sink, request->model->tensors[parameter]->name, kept,
                   (size_t)shape[0] * row));
out:
    memory_free(kept);
    memory_free(origins);
    return status;
}

static bool tensor_is_changed(const calibration_network *network, const tensor_map *map,
                              int64_t index)
{
    const grail_model *model = network->request->model;
    const tensor_view *tensor = checkpoint_at(model->checkpoint, index);
    const int first = map->first_parameter[index];
    if (written_dtype(network, map, index) != tensor->dtype) {
        return true;
    }
    if (request_orders_rows(network->request) && first != GRAPH_NONE &&
        !storage_is_plain(&network->request->graph->parameters[first].map)) {
        return true;
    }
    for (int p = first; p != GRAPH_NONE; p = map->next_part[p]) {
        if (parameter_is_changed(network, p) || is_gone(network, p)) {
            return true;
        }
    }
    return false;
}

grail_status tensors_give(const calibration_network *network, const tensor_map *map, int64_t i,
                          tensor_taker take, void *user)
{
    const compression_request *request = network->request;
    checkpoint *like = request->model->checkpoint;
    const tensor_view *tensor = checkpoint_at(like, i);
    const tensor_sink sink = {.take = take, .user = user};
    const int first = map->first_parameter[i];
    if (first != GRAPH_NONE && parameter_is_rounded(&request->rounded, first)) {
        return write_rounded(network, first, &sink);
    }
    if (tensor_is_changed(network, map, i)) {
        return write_changed(network, map, i, &sink);
    }
    CHECK(checkpoint_need(like, tensor));
    CHECK(put_tensor(request, first, &sink, tensor->name, tensor->data, tensor->bytes));
    checkpoint_release(like, tensor);
    return GRAIL_OK;
}

/* Tensors that are being written, and their checksums. */
typedef struct written_tensors {
    checkpoint_writer *writer;
    json_t *checksums;
} written_tensors;

static grail_status put_written(void *user, const char *name, const void *data, size_t bytes)
{
    char text[CHECKSUM_TEXT_SIZE];
    const written_tensors *written = user;
    CHECK(checkpoint_writer_put(written->writer, name, data, bytes));
    return json_put(written->checksums, name, json_text(checksum_text(data, bytes, text)));
}

grail_status tensors_write(const calibration_network *network, const tensor_map *map, int block,
                           checkpoint_writer *writer, json_t *checksums)
{
    written_tensors written = {.writer = writer, .checksums = checksums};
    for (int64_t i = 0; i < map->tensor_count; i++) {
        if (tensor_map_block(map, i) == block && map->names[i] != NULL) {
            CHECK(tensors_give(network, map, i, put_written, &written));
        }
    }
    return GRAIL_OK;
}

/* Tensor `name` of the model, in the shape that it has in the result. *data is owned. */
static grail_status read_back(const checkpoint_writer *writer, const char *name,
                              const tensor_view *shape, void **data, size_t *bytes)
{
    int64_t count = 0;
    if (!shape_elements(shape->rank, shape->shape, &count) ||
        !dtype_bytes(shape->dtype, count, bytes)) {
        return error_set(GRAIL_ERROR_SHAPE, "tensor '%s' is too large to address", name);
    }
    CHECK(memory_new_unset(data, *bytes, 1));
    return checkpoint_writer_get(writer, name, *data, *bytes);
}

static grail_status verify_tensor(const char *name, const tensor_view *shape,
                                  const checkpoint_writer *writer, const char *recorded,
                                  const char *place)
{
    grail_status status = GRAIL_OK;
    void *data = NULL;
    size_t bytes = 0;
    TRY(read_back(writer, name, shape, &data, &bytes));
    TRY(checksum_verify(shape->name, place, data, bytes, recorded));
out:
    memory_free(data);
    return status;
}

grail_status tensors_verify(const compression_request *request, const tensor_view shapes[],
                            const checkpoint_writer *writer, const json_t *checksums,
                            const char *place)
{
    const checkpoint *like = request->model->checkpoint;
    for (int64_t i = 0; i < checkpoint_count(like); i++) {
        const char *name = checkpoint_at(like, i)->name;
        const char *recorded = json_string_value(json_object_get(checksums, name));
        if (recorded != NULL && shapes[i].name != NULL) {
            CHECK(verify_tensor(name, &shapes[i], writer, recorded, place));
        }
    }
    return GRAIL_OK;
}

/* Which part of its tensor a parameter is, in the order of tensor_map_pieces. */
static int part_of(const tensor_map *map, int64_t index, int parameter)
{
    int part = 0;
    for (int p = map->first_parameter[index]; p != parameter; p = map->next_part[p]) {
        part++;
    }
    return part;
}

/* *data <- the rows of a tensor in the order of the graph. */
static grail_status order_rows(const compression_request *request, int parameter, size_t bytes,
                               void **data)
{
    const gguf_target *target = request->narrowed.target;
    void *moved = NULL;
    if (target == NULL) {
        return GRAIL_OK;
    }
    const int64_t rows = request->narrowed.graph->parameters[parameter].shape[0];
    CHECK(memory_new_unset(&moved, bytes, 1));
    gguf_move_rows(&target->places[parameter].map.rows, rows, bytes / (size_t)rows, true, *data,
                   moved);
    memory_free(*data);
    *data = moved;
    return GRAIL_OK;
}

grail_status tensors_read_parameter(const calibration_network *network, const tensor_map *map,
                                    const checkpoint_writer *writer, int parameter, int64_t *count,
                                    float **out)
{
    grail_status status = GRAIL_OK;
    const grail_model *model = network->request->model;
    tensor_view shape = *model->tensors[parameter];
    shape.dtype = request_written_dtype(network->request, parameter);
    const int64_t index = checkpoint_index_of(model->checkpoint, shape.name);
    const int part = part_of(map, index, parameter);
    storage_piece *pieces = NULL;
    storage_layout layout = {0};
    float *assembled = NULL;
    void *data = NULL;
    size_t bytes = 0;
    TRY(find_pieces(network, map, index, &pieces));
    TRY(storage_lay_out(tensor_map_count(map, index), pieces, &layout));
    TRY(storage_narrow_shape(&layout, &shape, shape.shape));
    TRY(read_back(writer, shape.name, &shape, &data, &bytes));
    TRY(order_rows(network->request, parameter, bytes, &data));
    const int64_t all = layout.rows * layout.columns;
    *count = pieces[part].rows * pieces[part].columns;
    TRY(memory_new_unset(&assembled, (size_t)all, sizeof assembled[0]));
    TRY(memory_new_unset(out, (size_t)*count, sizeof **out));
    TRY(convert_to_f32(shape.dtype, data, all, assembled));
    storage_get(&layout, part, assembled, *out);
out:
    memory_free(assembled);
    memory_free(data);
    storage_layout_fini(&layout);
    pieces_free(tensor_map_count(map, index), pieces);
    return status;
}
