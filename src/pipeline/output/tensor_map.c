#include "pipeline/output/tensor_map.h"

static grail_status mark_blocks(const compression_request *request, tensor_map *map)
{
    const graph *g = request->graph;
    CHECK(memory_new(&map->parameter_block, (size_t)g->parameter_count,
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
    return GRAIL_OK;
}

static grail_status index_parts(const compression_request *request, tensor_map *map)
{
    const checkpoint *like = request->model->checkpoint;
    const int64_t tensors = checkpoint_count(like);
    const int count = request->graph->parameter_count;
    CHECK(memory_new(&map->first_parameter, (size_t)tensors, sizeof map->first_parameter[0]));
    CHECK(memory_new(&map->next_part, (size_t)count, sizeof map->next_part[0]));
    for (int64_t i = 0; i < tensors; i++) {
        map->first_parameter[i] = GRAPH_NONE;
    }
    for (int p = count - 1; p >= 0; p--) {
        const int64_t i = checkpoint_index_of(like, request->model->tensors[p]->name);
        map->next_part[p] = map->first_parameter[i];
        map->first_parameter[i] = p;
    }
    return GRAIL_OK;
}

/* Whether the result has no parameter of the tensor any more. */
static bool is_gone(const compression_request *request, const tensor_map *map, int64_t i)
{
    bool gone = map->first_parameter[i] != GRAPH_NONE;
    for (int p = map->first_parameter[i]; p != GRAPH_NONE; p = map->next_part[p]) {
        gone = gone && graph_parameter_is_gone(&request->narrowed.graph->parameters[p]);
    }
    return gone;
}

/* The name of tensor i; numbers of blocks, of which some may be left out, follow the network's
 * prefix. */
static grail_status renumber(const compression_request *request, int64_t i, char **out)
{
    grail_status status = GRAIL_OK;
    const grail_model *model = request->model;
    const int blocks = request->graph->block_count;
    size_t begin = 0;
    char *name = NULL;
    char *own = NULL;
    *out = NULL;
    TRY(model_result_name(model, i, &name, &begin));
    const bool drops = request->narrowed.blocks_left != blocks &&
                       model->architecture->rename_tensor != NULL; /* else a block may be empty */
    if (!drops || !checkpoint_is_inside(model->checkpoint, i)) {
        *out = name;
        name = NULL;
        goto out;
    }
    TRY(model->architecture->rename_tensor(name + begin, blocks, request->narrowed.block_number,
                                           &own));
    if (own != NULL) {
        TRY(memory_format(out, "%.*s%s", (int)begin, name, own));
    }
out:
    memory_free(name);
    memory_free(own);
    return status;
}

/* A GGUF file that is made from a directory has no tensors outside the graph. */
static grail_status name_tensor(const compression_request *request, int parameter, int64_t i,
                                char **out)
{
    const narrowed_model *narrowed = &request->narrowed;
    if (narrowed->target != NULL) {
        return parameter == GRAPH_NONE
                   ? GRAIL_OK
                   : memory_copy_string(out, narrowed->target->tensors[parameter].name);
    }
    return renumber(request, i, out);
}

static grail_status name_tensors(const compression_request *request, tensor_map *map)
{
    const checkpoint *like = request->model->checkpoint;
    map->tensor_count = checkpoint_count(like);
    CHECK(memory_new(&map->names, (size_t)map->tensor_count, sizeof(char *)));
    for (int64_t i = 0; i < map->tensor_count; i++) {
        const bool is_of_nodes = request_keeps_values(request) && checkpoint_is_computed(like, i);
        if (!is_gone(request, map, i) && !request->model->left_out[i] && !is_of_nodes) {
            CHECK(name_tensor(request, map->first_parameter[i], i, &map->names[i]));
        }
    }
    return GRAIL_OK;
}

grail_status tensor_map_init(const compression_request *request, tensor_map *out)
{
    *out = (tensor_map){0};
    CHECK(mark_blocks(request, out));
    CHECK(index_parts(request, out));
    return name_tensors(request, out);
}

void tensor_map_fini(tensor_map *map)
{
    memory_free(map->parameter_block);
    memory_free(map->first_parameter);
    memory_free(map->next_part);
    for (int64_t i = 0; map->names != NULL && i < map->tensor_count; i++) {
        memory_free(map->names[i]);
    }
    memory_free(map->names);
    *map = (tensor_map){0};
}

int tensor_map_block(const tensor_map *map, int64_t i)
{
    const int p = map->first_parameter[i];
    return p == GRAPH_NONE ? GRAPH_NONE : map->parameter_block[p];
}

int tensor_map_count(const tensor_map *map, int64_t i)
{
    int count = 0;
    for (int p = map->first_parameter[i]; p != GRAPH_NONE; p = map->next_part[p]) {
        count++;
    }
    return count;
}

/* A parameter and how much of it is left, without origins. */
static storage_piece piece_of(const compression_request *request, int parameter)
{
    const graph_parameter *narrow = &request->narrowed.graph->parameters[parameter];
    storage_piece piece = {.dense = graph_stored(&request->graph->parameters[parameter]),
                           .rows = narrow->shape[0],
                           .columns = row_elements(narrow->rank, narrow->shape)};
    if (request_orders_rows(request)) {
        piece.dense.map.rows = (storage_axis){0};
    }
    return piece;
}

grail_status tensor_map_pieces(const tensor_map *map, const compression_request *request, int64_t i,
                               storage_piece **out)
{
    storage_piece *pieces = NULL;
    int count = 0;
    const grail_status status =
        memory_new(&pieces, (size_t)tensor_map_count(map, i), sizeof pieces[0]);
    for (int p = map->first_parameter[i]; status == GRAIL_OK && p != GRAPH_NONE;
         p = map->next_part[p]) {
        pieces[count++] = piece_of(request, p);
    }
    *out = pieces;
    return status;
}

static grail_status narrow_shape(const tensor_map *map, const compression_request *request,
                                 int64_t i, int64_t *shape)
{
    grail_status status = GRAIL_OK;
    storage_piece *pieces = NULL;
    storage_layout layout = {0};
    if (map->first_parameter[i] == GRAPH_NONE) {
        return GRAIL_OK; /* outside the graph */
    }
    TRY(tensor_map_pieces(map, request, i, &pieces));
    TRY(storage_lay_out(tensor_map_count(map, i), pieces, &layout));
    TRY(storage_narrow_shape(&layout, checkpoint_at(request->model->checkpoint, i), shape));
out:
    storage_layout_fini(&layout);
    memory_free(pieces);
    return status;
}

grail_status tensor_map_shapes(const tensor_map *map, const compression_request *request,
                               tensor_view **out)
{
    const checkpoint *like = request->model->checkpoint;
    const int64_t count = checkpoint_count(like);
    CHECK(memory_new(out, (size_t)count, sizeof **out));
    tensor_view *shapes = *out;
    for (int64_t i = 0; i < count; i++) {
        shapes[i] = *checkpoint_at(like, i);
        shapes[i].name = map->names[i];
        if (map->names[i] != NULL) {
            CHECK(narrow_shape(map, request, i, shapes[i].shape));
            shapes[i].dtype = map->first_parameter[i] == GRAPH_NONE
                                  ? model_written_dtype(request->model, checkpoint_at(like, i))
                                  : request_written_dtype(request, map->first_parameter[i]);
        }
    }
    return GRAIL_OK;
}
