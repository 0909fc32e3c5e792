#include "pipeline/network/rounding.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/network/pass.h"
#include "pipeline/network/refit_maps.h"
#include "pipeline/network/rounding_weights.h"

typedef struct rounding_pass {
    calibration_network *network;
    gguf_export *file;
    bool *is_put; /* [parameter_count]: into the file */
} rounding_pass;

/* Rounds a parameter, by itself where there is no feedback. */
static grail_status round_parameter(rounding_pass *p, int parameter, const feedback *f)
{
    grail_status status = GRAIL_OK;
    parameter_store *store = p->network->current.parameters;
    const grail_dtype dtype = gguf_export_dtypes(p->file)[parameter];
    float *values = NULL;
    unsigned char *stored = NULL;
    int64_t elements = 0;
    size_t bytes = 0;
    TRY(parameter_store_read_f32(store, parameter, &values, &elements));
    if (!dtype_bytes(dtype, elements, &bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "%lld elements do not fill blocks of %s", (long long)elements,
             grail_dtype_name(dtype));
    }
    TRY(memory_new_unset(&stored, bytes, 1));
    if (f == NULL) {
        TRY(blocks_from_f32(dtype, values, elements / dtype_block(dtype), stored));
        blocks_to_f32(dtype, stored, elements / dtype_block(dtype), values);
    } else {
        TRY(feedback_round(f, dtype, elements / f->columns, values, stored));
    }
    TRY(gguf_export_put(p->file, parameter, stored));
    TRY(parameter_store_set(store, parameter,
                            p->network->request->graph->parameters[parameter].shape, values));
    p->is_put[parameter] = true;
out:
    memory_free(values);
    memory_free(stored);
    return error_in(status, "'%s'", p->network->request->graph->parameters[parameter].name);
}

static bool is_due(const rounding_pass *p, int parameter)
{
    return parameter != GRAPH_NONE && !p->is_put[parameter] &&
           dtype_is_quantiser(gguf_export_dtypes(p->file)[parameter]);
}

/* Tables of embeddings, which the head may share. */
static grail_status round_tables(rounding_pass *p)
{
    const graph *g = p->network->request->graph;
    for (int n = 0; n < g->node_count; n++) {
        if (!node_is_linear(&g->nodes[n]) && is_due(p, g->nodes[n].weight)) {
            CHECK(round_parameter(p, g->nodes[n].weight, NULL));
        }
    }
    return GRAIL_OK;
}

/* -- Linears ----------------------------------------------------------------------------------- */

/* What Linears read together. */
typedef struct rounding_group {
    int first; /* of their nodes */
    grail_statistics *read;
    grail_statistics *part; /* of the chunk whose batches are being added */
} rounding_group;

static grail_status add_rows(calibration_network *network, const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    const rounding_group *group = user;
    const matrix x = execution_value(e, e->graph->nodes[group->first].inputs[0]);
    double *roots = NULL;
    matrix z = {0};
    TRY(rounding_weight_roots(e, group->first, x, &roots));
    TRY(matrix_pool_take(network->pool, x.rows, x.columns, &z));
    TRY(matrix_copy(x, z));
    TRY(statistics_accumulate_weighted(group->part, roots, z, (matrix){0}));
out:
    matrix_pool_give(network->pool, &z);
    memory_free(roots);
    return status;
}

/* What is held out of fits counts here, too. */
static chunk_sums sums_of_rows(void *user, bool held_out)
{
    (void)held_out;
    const rounding_group *group = user;
    return chunk_sums_of_statistics(group->part, group->read);
}

static int count_together(const graph *g, int first)
{
    int count = 1;
    while (first + count < g->node_count && node_is_linear(&g->nodes[first + count]) &&
           g->nodes[first + count].inputs[0] == g->nodes[first].inputs[0]) {
        count++;
    }
    return count;
}

grail_status rounding_feedback(calibration_network *network, int first, feedback *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = network->request->graph;
    const graph_parameter *weight = &g->parameters[g->nodes[first].weight];
    rounding_group group = {.first = first};
    const visitor v = {.add = add_rows, .sums = sums_of_rows, .user = &group};
    const parameter_entry *entry = NULL;
    TRY(parameter_store_get(network->current.parameters, g->nodes[first].weight, &entry));
    TRY(statistics_create(network->request->backend, entry->shape[1], 0, &group.read));
    TRY(statistics_create(network->request->backend, entry->shape[1], 0, &group.part));
    TRY(pass_visit(network, first, GRAPH_NONE, v));
    matrix_pool_clear(network->pool);
    TRY(error_in(statistics_check_finite(group.read), "input of '%s'", weight->name));
    TRY(error_in(feedback_init(&group.read->gram, out), "input of '%s'", weight->name));
out:
    grail_statistics_free(group.read);
    grail_statistics_free(group.part);
    return status;
}

static grail_status round_group(rounding_pass *p, int first, int count)
{
    grail_status status = GRAIL_OK;
    const graph *g = p->network->request->graph;
    feedback f = {0};
    TRY(rounding_feedback(p->network, first, &f));
    for (int i = first; i < first + count; i++) {
        if (is_due(p, g->nodes[i].weight)) {
            TRY(round_parameter(p, g->nodes[i].weight, &f));
        }
    }
out:
    feedback_fini(&f);
    return status;
}

/* Refits may have moved what the file holds without blocks, too. */
static grail_status put_as_it_is(rounding_pass *p, int parameter)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    int64_t elements = 0;
    TRY(parameter_store_read_f32(p->network->current.parameters, parameter, &values, &elements));
    TRY(gguf_export_put_f32(p->file, parameter, values));
    p->is_put[parameter] = true;
out:
    memory_free(values);
    return status;
}

static grail_status put_rest(rounding_pass *p, int begin, int end)
{
    for (int n = begin; n < end; n++) {
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&p->network->request->graph->nodes[n], parameters);
        for (int i = 0; i < count; i++) {
            CHECK(p->is_put[parameters[i]] ? GRAIL_OK : put_as_it_is(p, parameters[i]));
        }
    }
    return GRAIL_OK;
}

/* Refits what reads drift to what the unrounded network has there, and rounds it. */
static grail_status round_block(rounding_pass *p, int block, int begin, int end)
{
    const graph *g = p->network->request->graph;
    for (int n = begin; n < end;) {
        const bool is_linear = node_is_linear(&g->nodes[n]);
        const int count = is_linear ? count_together(g, n) : 1;
        if (is_linear && refits_due(&p->network->refits, n, block)) {
            CHECK(refit_maps(p->network, n, count));
        }
        if (is_linear && is_due(p, g->nodes[n].weight)) {
            CHECK(round_group(p, n, count));
        }
        n += count;
    }
    CHECK(put_rest(p, begin, end));
    return begin < end && end < g->node_count
               ? pass_to(p->network, end, network_dense_end(p->network, block))
               : GRAIL_OK;
}

grail_status rounding_run(calibration_network *network, gguf_export *file)
{
    grail_status status = GRAIL_OK;
    const graph *g = network->request->graph;
    rounding_pass p = {.network = network, .file = file};
    network->progress = progress_start(0);
    network->current.parameters->written = gguf_export_dtypes(file);
    TRY(memory_new(&p.is_put, (size_t)g->parameter_count, sizeof p.is_put[0]));
    TRY(round_tables(&p));
    for (int block = GRAPH_NONE; block <= g->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(g, block, &begin, &end);
        TRY(round_block(&p, block, begin, end));
        network_release_block(network, block);
        if (block >= 0 && block < g->block_count) {
            TRY(progress_tell(&network->progress, network->request, block, NULL));
        }
    }
out:
    memory_free(p.is_put);
    return status;
}
