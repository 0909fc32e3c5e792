/* Nodes that treat every row on its own, and attention. */
#include "exec/node_run.h"

grail_status run_linear(execution *e, const node *n, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    const matrix weight = p->weight->values;
    matrix y = {0};
    if (x.columns != weight.columns) {
        FAIL(GRAIL_ERROR_INTERNAL,
             "block %d: '%s' has %lld columns, but its input has %lld features", n->block,
             e->graph->parameters[n->weight].name, (long long)weight.columns, (long long)x.columns);
    }
    TRY(execution_make(e, n->output, weight.rows, &y));
    TRY(matrix_linear(x, weight, entry_values(p->bias), y));
out:
    return status;
}

attention_shape attention_of(const execution *e, const node *n)
{
    const extent positions = e->extents[n->inputs[0]];
    return (attention_shape){
        .sequences = e->shape.samples,
        .length = positions.height * positions.width,
        .query_heads = e->values[n->inputs[0]].columns / n->head_dim,
        .kv_heads = e->values[n->inputs[1]].columns / n->head_dim,
        .head_dim = n->head_dim,
        .window = n->attention_window,
        .bidirectional = n->bidirectional,
        .scale = n->scale,
    };
}

grail_status run_attention(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const matrix q = e->values[n->inputs[0]];
    const matrix k = e->values[n->inputs[1]];
    const matrix v = e->values[n->inputs[2]];
    const attention_shape shape = attention_of(e, n);
    matrix out = {0};
    TRY(execution_make(e, n->output, q.columns, &out));
    TRY(matrix_attention(&shape, q, k, v, out));
out:
    return status;
}

rope_shape rotation_of(const execution *e, const node *n)
{
    const extent positions = e->extents[n->output];
    return (rope_shape){
        .sequences = e->shape.samples,
        .length = positions.height * positions.width,
        .head_dim = n->head_dim,
        .frequency = n->table,
    };
}

static grail_status rotate(const execution *e, const node *n, matrix x, matrix y)
{
    grail_status status = GRAIL_OK;
    const rope_shape shape = rotation_of(e, n);
    if (y.allocation != x.allocation) {
        TRY(matrix_copy(x, y));
    }
    TRY(matrix_rope(&shape, y));
out:
    return status;
}

static grail_status normalise(const node *n, const node_entries *p, matrix x, matrix y)
{
    const matrix weight = entry_values(p->weight);
    const matrix bias = entry_values(p->bias);
    switch (n->kind) {
    case NODE_RMS_NORM:
        return matrix_rms_norm(n->epsilon, x, weight, y);
    case NODE_BATCH_NORM:
        return matrix_batch_norm(n->epsilon, x, p->mean->values, p->variance->values, weight, bias,
                                 y);
    case NODE_LAYER_NORM:
        return matrix_layer_norm(n->epsilon, x, weight, bias, y);
    default:
        return matrix_unit_length(x, y);
    }
}

static grail_status run_on_rows(const execution *e, const node *n, const node_entries *p, matrix x,
                                matrix other, matrix y)
{
    switch (n->kind) {
    case NODE_ROPE:
        return rotate(e, n, x, y);
    case NODE_ACTIVATION:
        return matrix_activate(n->activation, x, y);
    case NODE_MULTIPLY:
        return matrix_multiply(x, other, y);
    case NODE_ADD:
        return matrix_add(x, other, y);
    default:
        return normalise(n, p, x, y);
    }
}

grail_status run_elementwise(execution *e, int index, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const node *n = &e->graph->nodes[index];
    const matrix x = e->values[n->inputs[0]];
    const matrix other = n->input_count > 1 ? e->values[n->inputs[1]] : no_matrix;
    matrix y = {0};
    TRY(execution_make_elementwise(e, index, &y));
    TRY(run_on_rows(e, n, p, x, other, y));
out:
    return status;
}
