#include "pipeline/output/tensor_map.h"

static grail_status mark_blocks(const compression_request *request, tensor_map *map)
{
    grail_status status = GRAIL_OK;
    const graph *g = request->graph;
    TRY(memory_new(&map->parameter_block, (size_t)g->parameter_count,
                   sizeof map->parameter_block[0]));
    for (int p = 0; p < g->parameter_count; p++) {
        map->parameter_block[p] = GRAPH_NONE;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(n, parameters);
        for (int k = 0; k < count && n->block < g->block_count; k++) {
            map->parameter_block[parameters[k]] = n->block;
        }
    }
out:
    return status;
}

static grail_status index_parts(const compression_request *request, tensor_map *map)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = request->model->checkpoint;
    const int64_t tensors = checkpoint_count(like);
    const int count = request->graph->parameter_count;
    TRY(memory_new(&map->first_parameter, (size_t)tensors, sizeof map->first_parameter[0]));
    TRY(memory_new(&map->next_part, (size_t)count, sizeof map->next_part[0]));
    for (int64_t i = 0; i < tensors; i++) {
        map->first_parameter[i] = GRAPH_NONE;
    }
    for (int p = count - 1; p >= 0; p--) {
        const int64_t i = checkpoint_index_of(like, request->model->tensors[p]->name);
        map->next_part[p] = map->first_parameter[i];
        map->first_parameter[i] = p;
    }
out:
    return status;
}

grail_status tensor_map_init(const compression_request *request, tensor_map *out)
{
    grail_status status = GRAIL_OK;
    *out = (tensor_map){0};
    TRY(mark_blocks(request, out));
    TRY(index_parts(request, out));
out:
    return status;
}

void tensor_map_fini(tensor_map *map)
{
    memory_free(map->parameter_block);
    memory_free(map->first_parameter);
    memory_free(map->next_part);
    *map = (tensor_map){0};
}

int tensor_map_block(const tensor_map *map, int64_t i)
{
    const int p = map->first_parameter[i];
    return p == GRAPH_NONE ? GRAPH_NONE : map->parameter_block[p];
}

/* Keeps leading dimensions of 1 that only the tensor has, not the parameter. */
static void narrow_shape(const tensor_map *map, const compression_request *request, int64_t index,
                         int64_t *shape)
{
    int64_t rows = 0;
    const graph *narrowed = request->narrowed.graph;
    int p = map->first_parameter[index];
    if (p == GRAPH_NONE || narrowed->parameters[p].transposed) {
        return; /* outside the graph, or transposed: never cut */
    }
    const graph_parameter *narrow = &narrowed->parameters[p];
    const int leading = checkpoint_at(request->model->checkpoint, index)->rank - narrow->rank;
    for (int d = 0; d < narrow->rank; d++) {
        shape[leading + d] = narrow->shape[d];
    }
    for (; p != GRAPH_NONE; p = map->next_part[p]) {
        rows += narrowed->parameters[p].shape[0];
    }
    if (narrow->part) {
        shape[leading] = rows;
    }
}

grail_status tensor_map_shapes(const tensor_map *map, const compression_request *request,
                               tensor_view **out)
{
    tensor_view *shapes = NULL;
    const checkpoint *like = request->model->checkpoint;
    const int64_t count = checkpoint_count(like);
    const grail_status status = memory_new(&shapes, (size_t)count, sizeof shapes[0]);
    for (int64_t i = 0; status == GRAIL_OK && i < count; i++) {
        shapes[i] = *checkpoint_at(like, i);
        narrow_shape(map, request, i, shapes[i].shape);
    }
    *out = shapes;
    return status;
}
