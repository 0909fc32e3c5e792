#include "pipeline/network/rounding.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/network/pass.h"
#include "stats/row_squares.h"
#include "tensor/groups.h"
#include "tensor/quantize.h"

#include <math.h>
#include <string.h>

/* -- how much rows count ----------------------------------------------------------------------- */

/* of the median squared length: longer rows count as if they had this */
static const double most_share = 16.0;
/* of its window: what the first token counts as, where attention reads it */
static const double first_share = 1.0 / 16.0;

/* Whether attention runs before the next Linear that reads something else. */
static bool attention_follows(const graph *g, int first)
{
    const int input = g->nodes[first].inputs[0];
    for (int n = first + 1; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_ATTENTION) {
            return true;
        }
        if (node_is_linear(&g->nodes[n]) && g->nodes[n].inputs[0] != input) {
            return false;
        }
    }
    return false;
}

grail_status rounding_weight_roots(const execution *e, int first, matrix x, matrix *out)
{
    grail_status status = GRAIL_OK;
    const int64_t length = e->shape.positions.height * e->shape.positions.width;
    const double weight = fmax(1.0, first_share * (double)length);
    matrix median = {0};
    TRY(row_squares_make(x, x.rows, out));
    TRY(matrix_new(x.owner, GRAIL_DTYPE_F64, 1, 1, &median));
    TRY(matrix_median(*out, median));
    TRY(matrix_limit_roots(most_share, median, *out, *out));
    if (attention_follows(e->graph, first) && x.rows == e->shape.samples * length) {
        const matrix windows = matrix_reshape(*out, e->shape.samples, length);
        const matrix firsts = matrix_columns(windows, 0, 1);
        TRY(matrix_scale(sqrt(weight), firsts, firsts));
    }
out:
    matrix_free(&median);
    return status;
}

/* -- what Linears read together ---------------------------------------------------------------- */

typedef struct rounding_group {
    int first; /* of their nodes */
    grail_statistics *read;
    grail_statistics *part; /* of the chunk whose batches are being added */
} rounding_group;

static grail_status add_rows(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    const rounding_group *group = user;
    const matrix x = execution_value(e, e->graph->nodes[group->first].inputs[0]);
    matrix room = {0};
    matrix root = {0};
    TRY(rounding_weight_roots(e, group->first, x, &root));
    TRY(matrix_pool_take(e->pool, x.rows, x.columns, &room));
    TRY(statistics_accumulate_weighted(group->part, root, x, no_matrix, room));
out:
    matrix_free(&root);
    matrix_pool_give(e->pool, &room);
    return status;
}

/* What is held out of fits counts here, too. */
static chunk_sums sums_of_rows(void *user, bool held_out)
{
    (void)held_out;
    const rounding_group *group = user;
    return chunk_sums_of_statistics(group->part, group->read);
}

/* What rounds the Linears that read the input of node `first` in the current network. The sample
 * stream is carried there. The caller calls feedback_fini, even after a failure. */
static grail_status feedback_of_input(sample_passes *passes, int first, feedback *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = passes->current->graph;
    parameter_store *parameters = passes->current->parameters;
    const graph_parameter *weight = &g->parameters[g->nodes[first].weight];
    rounding_group group = {.first = first};
    const visitor v = {.add = add_rows, .sums = sums_of_rows, .user = &group};
    const parameter_entry *entry = NULL;
    TRY(parameter_store_get(parameters, g->nodes[first].weight, &entry));
    TRY(statistics_create(parameters->backend, entry->shape[1], 0, &group.read));
    TRY(statistics_create(parameters->backend, entry->shape[1], 0, &group.part));
    TRY(pass_visit(passes, first, GRAPH_NONE, v));
    matrix_pool_clear(passes->pool);
    TRY(error_in(statistics_check_finite(group.read), "input of '%s'", weight->name));
    TRY(error_in(feedback_init(&group.read->gram, out), "input of '%s'", weight->name));
out:
    grail_statistics_free(group.read);
    grail_statistics_free(group.part);
    return status;
}

/* -- one matrix -------------------------------------------------------------------------------- */

/* Rounds a parameter of a store, by itself where there is no feedback. *stored, owned, becomes what
 * a result holds: *bytes of it. */
static grail_status round_parameter(parameter_store *store, int parameter, grail_dtype dtype,
                                    const feedback *f, unsigned char **stored, size_t *bytes)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *entry = NULL;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    float *values = NULL;
    unsigned char *blocks = NULL;
    int64_t elements = 0;
    TRY(parameter_store_get(store, parameter, &entry));
    memcpy(shape, entry->shape, sizeof shape);
    TRY(parameter_store_read_f32(store, parameter, &values, &elements));
    if (!dtype_bytes(dtype, elements, bytes)) {
        FAIL(GRAIL_ERROR_SHAPE, "%lld elements do not fill blocks of %s", (long long)elements,
             grail_dtype_name(dtype));
    }
    TRY(memory_new_unset(&blocks, *bytes, 1));
    if (f == NULL) {
        TRY(blocks_from_f32(dtype, values, elements / dtype_block(dtype), blocks));
        blocks_to_f32(dtype, blocks, elements / dtype_block(dtype), values);
    } else {
        TRY(feedback_round(f, dtype, shape[0], values, blocks));
    }
    TRY(parameter_store_set(store, parameter, shape, values));
    *stored = blocks;
    blocks = NULL;
out:
    memory_free(values);
    memory_free(blocks);
    return status;
}

/* -- matrices of a run's result ---------------------------------------------------------------- */

bool node_is_rounded(const rounded_types *types, const node *n)
{
    return n->weight != GRAPH_NONE && parameter_is_rounded(types, n->weight);
}

/* Readers compute elements in the dtype in which scales are stored. */
static void settle_heads(grail_dtype dtype, grail_dtype stored, unsigned char *blocks, size_t bytes)
{
    size_t block = 0;
    if (group_bits(dtype) > 0 && dtype_bytes(dtype, dtype_block(dtype), &block)) {
        for (size_t at = 0; at < bytes; at += block) {
            group_put_head(blocks + at, group_scale(blocks + at), stored);
        }
    }
}

/* Without feedback where f is NULL. */
static grail_status keep_rounded(const network_run *current, const rounded_types *types,
                                 int parameter, const feedback *f, unsigned char **rounded)
{
    grail_status status = GRAIL_OK;
    const grail_dtype dtype = rounded_dtype(types, parameter);
    const grail_dtype stored = current->parameters->model->tensors[parameter]->dtype;
    unsigned char *blocks = NULL;
    size_t bytes = 0;
    TRY(round_parameter(current->parameters, parameter, dtype, f, &blocks, &bytes));
    settle_heads(dtype, stored, blocks, bytes);
    memory_free(rounded[parameter]);
    rounded[parameter] = blocks;
out:
    return error_in(status, "'%s'", current->graph->parameters[parameter].name);
}

grail_status round_table(const network_run *current, const rounded_types *types, int parameter,
                         unsigned char **rounded)
{
    return keep_rounded(current, types, parameter, NULL, rounded);
}

grail_status round_maps(sample_passes *passes, const rounded_types *types, int first, int count,
                        unsigned char **rounded)
{
    grail_status status = GRAIL_OK;
    const node *nodes = passes->current->graph->nodes;
    feedback f = {0};
    TRY(feedback_of_input(passes, first, &f));
    for (int n = first; n < first + count; n++) {
        if (node_is_rounded(types, &nodes[n])) {
            TRY(keep_rounded(passes->current, types, nodes[n].weight, &f, rounded));
        }
    }
out:
    feedback_fini(&f);
    return status;
}
