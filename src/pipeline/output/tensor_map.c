#include "pipeline/output/tensor_map.h"

void tensor_map_fini(tensor_map *map)
{
    memory_free(map->parameter);
    memory_free(map->next_part);
    memory_free(map->block);
    *map = (tensor_map){0};
}

/* blocks[parameter_count] of the nodes that use them; what stands behind the last block belongs to
 * none. */
static void mark_blocks(const graph *g, int *blocks)
{
    for (int p = 0; p < g->parameter_count; p++) {
        blocks[p] = GRAPH_NONE;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(n, parameters);
        for (int k = 0; k < count && n->block < g->block_count; k++) {
            blocks[parameters[k]] = n->block;
        }
    }
}

/* From the last parameter to the first, so that parts follow each other in the order of rows. */
static void index_parts(const grail_model *model, const int *blocks, tensor_map *map)
{
    for (int64_t i = 0; i < checkpoint_count(model->checkpoint); i++) {
        map->parameter[i] = GRAPH_NONE;
        map->block[i] = GRAPH_NONE;
    }
    for (int p = model->graph->parameter_count - 1; p >= 0; p--) {
        const int64_t i = checkpoint_index_of(model->checkpoint, model->tensors[p]->name);
        map->next_part[p] = map->parameter[i];
        map->parameter[i] = p;
        map->block[i] = blocks[p];
    }
}

grail_status tensor_map_init(const grail_model *model, tensor_map *out)
{
    grail_status status = GRAIL_OK;
    const size_t tensors = (size_t)checkpoint_count(model->checkpoint);
    const size_t parameters = (size_t)model->graph->parameter_count;
    int *blocks = NULL;
    tensor_map map = {0};
    TRY(memory_new(&map.parameter, tensors, sizeof map.parameter[0]));
    TRY(memory_new(&map.block, tensors, sizeof map.block[0]));
    TRY(memory_new(&map.next_part, parameters, sizeof map.next_part[0]));
    TRY(memory_new(&blocks, parameters, sizeof blocks[0]));
    mark_blocks(model->graph, blocks);
    index_parts(model, blocks, &map);
    *out = map;
    map = (tensor_map){0};
out:
    tensor_map_fini(&map);
    memory_free(blocks);
    return status;
}

/* The shape of a tensor of the result: leading dimensions of 1 that the parameter has not stay. */
static void narrow_shape(const tensor_map *map, const graph *narrowed, int64_t index,
                         tensor_view *tensor)
{
    int64_t rows = 0;
    int p = map->parameter[index];
    if (p == GRAPH_NONE || narrowed->parameters[p].transposed) {
        return; /* outside the graph, or never cut */
    }
    const graph_parameter *narrow = &narrowed->parameters[p];
    const int leading = tensor->rank - narrow->rank;
    for (int d = 0; d < narrow->rank; d++) {
        tensor->shape[leading + d] = narrow->shape[d];
    }
    for (; p != GRAPH_NONE; p = map->next_part[p]) {
        rows += narrowed->parameters[p].shape[0];
    }
    if (narrow->part) {
        tensor->shape[leading] = rows;
    }
}

grail_status tensor_map_views(const tensor_map *map, const compression_request *request,
                              tensor_view **out)
{
    grail_status status = GRAIL_OK;
    const checkpoint *like = request->model->checkpoint;
    const int64_t count = checkpoint_count(like);
    tensor_view *views = NULL;
    TRY(memory_new(&views, (size_t)count, sizeof views[0]));
    for (int64_t i = 0; i < count; i++) {
        views[i] = *checkpoint_at(like, i);
        narrow_shape(map, request->narrowed.graph, i, &views[i]);
    }
    *out = views;
out:
    return status;
}
