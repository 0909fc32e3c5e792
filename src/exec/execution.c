#include "exec/execution.h"

#include <string.h>

grail_status execution_create(const graph *g, const backend *b, buffer_pool *pool, execution **out)
{
    grail_status status = GRAIL_OK;
    execution *e = NULL;
    TRY(memory_new(&e, 1, sizeof *e));
    *e = (execution){.graph = g, .backend = b, .pool = pool};
    TRY(memory_new(&e->values, (size_t)g->value_count, sizeof e->values[0]));
    *out = e;
    e = NULL;
out:
    execution_free(e);
    return status;
}

static void drop_value(execution *e, int value)
{
    buffer_pool_give(e->pool, e->values[value].data);
    e->values[value] = (matrix){0};
}

void execution_free(execution *e)
{
    if (e == NULL) {
        return;
    }
    for (int v = 0; e->values != NULL && v < e->graph->value_count; v++) {
        drop_value(e, v);
    }
    memory_free(e->values);
    memory_free(e);
}

void execution_begin(execution *e, batch_shape shape, const int32_t *ids)
{
    for (int v = 0; v < e->graph->value_count; v++) {
        drop_value(e, v);
    }
    e->shape = shape;
    e->ids = ids;
}

const matrix *execution_value(const execution *e, int value)
{
    return &e->values[value];
}

grail_status execution_make(execution *e, int value, int64_t width, void **out)
{
    grail_status status = GRAIL_OK;
    const int64_t rows = e->shape.sequences * e->shape.length;
    size_t bytes = 0;
    if (!size_multiply((size_t)rows, (size_t)width, &bytes) ||
        !size_multiply(bytes, e->backend->element_size, &bytes)) {
        FAIL(GRAIL_ERROR_MEMORY, "an activation of %lld x %lld is too large", (long long)rows,
             (long long)width);
    }
    drop_value(e, value);
    TRY(buffer_pool_take(e->pool, bytes, &e->values[value].data));
    e->values[value].rows = rows;
    e->values[value].width = width;
    *out = e->values[value].data;
out:
    return status;
}

void execution_replace(execution *e, int value, int64_t width, void *data)
{
    const int64_t rows = e->shape.sequences * e->shape.length;
    drop_value(e, value);
    e->values[value] = (matrix){.data = data, .rows = rows, .width = width};
}

/* Output of an elementwise node: the first input's buffer when nobody reads that any more. */
static grail_status make_elementwise(execution *e, int index, void **out)
{
    const node *n = &e->graph->nodes[index];
    for (int i = 0; i < n->input_count; i++) {
        const int input = n->inputs[i];
        if (e->graph->last_use[input] == index) {
            e->values[n->output] = e->values[input];
            *out = e->values[n->output].data;
            return GRAIL_OK;
        }
    }
    return execution_make(e, n->output, e->values[n->inputs[0]].width, out);
}

static grail_status run_embedding(execution *e, parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &e->graph->nodes[index];
    const int64_t width = e->graph->parameters[n->weight].shape[1];
    void *y = NULL;
    if (e->ids == NULL) {
        FAIL(GRAIL_ERROR_INTERNAL, "the embedding was run without token ids");
    }
    TRY(execution_make(e, n->output, width, &y));
    TRY(parameter_store_gather_rows(store, n->weight, e->shape.sequences * e->shape.length, e->ids,
                                    y));
out:
    return status;
}

static grail_status run_linear(execution *e, const node *n, const parameter_entry *weight,
                               const parameter_entry *bias)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    void *y = NULL;
    if (x.width != weight->shape[1]) {
        FAIL(GRAIL_ERROR_INTERNAL, "block %d: '%s' has %lld columns, its input %lld features",
             n->block, e->graph->parameters[n->weight].name, (long long)weight->shape[1],
             (long long)x.width);
    }
    TRY(execution_make(e, n->output, weight->shape[0], &y));
    e->backend->linear(x.rows, x.width, weight->shape[0], x.data, weight->data,
                       bias == NULL ? NULL : bias->data, y);
out:
    return status;
}

static grail_status run_attention(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const matrix *q = &e->values[n->inputs[0]];
    const matrix *k = &e->values[n->inputs[1]];
    const matrix *v = &e->values[n->inputs[2]];
    const attention_shape shape = {
        .sequences = e->shape.sequences,
        .length = e->shape.length,
        .query_heads = q->width / n->head_dim,
        .kv_heads = k->width / n->head_dim,
        .head_dim = n->head_dim,
        .window = n->window,
        .scale = n->scale,
    };
    void *out = NULL;
    TRY(execution_make(e, n->output, q->width, &out));
    TRY(e->backend->attention(&shape, q->data, k->data, v->data, out));
out:
    return status;
}

static grail_status run_elementwise(execution *e, int index, const parameter_entry *weight)
{
    grail_status status = GRAIL_OK;
    const backend *b = e->backend;
    const node *n = &e->graph->nodes[index];
    const matrix x = e->values[n->inputs[0]];
    const void *other = n->input_count > 1 ? e->values[n->inputs[1]].data : NULL;
    const int64_t count = x.rows * x.width;
    void *y = NULL;
    TRY(make_elementwise(e, index, &y));
    switch (n->kind) {
    case NODE_RMS_NORM:
        b->rms_norm(x.rows, x.width, n->group == 0 ? x.width : n->group, n->epsilon, x.data,
                    weight->data, y);
        break;
    case NODE_ROPE:
        if (y != x.data) {
            memcpy(y, x.data, (size_t)count * b->element_size);
        }
        b->rope(e->shape.sequences, e->shape.length, x.width / n->head_dim, n->head_dim,
                n->frequency, y);
        break;
    case NODE_ACTIVATION:
        b->activation(n->activation, count, x.data, y);
        break;
    case NODE_MULTIPLY:
        b->multiply(count, x.data, other, y);
        break;
    default:
        b->add(count, x.data, other, y);
        break;
    }
out:
    return status;
}

/* Drops what node `index` read for the last time. A buffer that became the output stays. */
static void drop_inputs(execution *e, int index)
{
    const node *n = &e->graph->nodes[index];
    for (int i = 0; i < n->input_count; i++) {
        const int input = n->inputs[i];
        if (e->graph->last_use[input] == index && e->values[input].data != NULL) {
            if (e->values[input].data == e->values[n->output].data) {
                e->values[input] = (matrix){0};
            } else {
                drop_value(e, input);
            }
        }
    }
}

static grail_status check_finite(const execution *e, const node *n)
{
    const matrix *y = &e->values[n->output];
    const int64_t bad = e->backend->find_non_finite(y->rows * y->width, y->data);
    if (bad < 0) {
        return GRAIL_OK;
    }
    const char *name = n->weight == GRAPH_NONE ? "attention" : e->graph->parameters[n->weight].name;
    return error_set(GRAIL_ERROR_NUMERIC,
                     "block %d: the output of '%s' is NaN or infinite at row %lld, feature %lld",
                     n->block, name, (long long)(bad / y->width), (long long)(bad % y->width));
}

static grail_status run_node(execution *e, parameter_store *store, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &e->graph->nodes[index];
    const parameter_entry *weight = NULL;
    const parameter_entry *bias = NULL;
    if (n->weight != GRAPH_NONE && n->kind != NODE_EMBEDDING) {
        TRY(parameter_store_get(store, n->weight, &weight));
    }
    if (n->bias != GRAPH_NONE) {
        TRY(parameter_store_get(store, n->bias, &bias));
    }
    switch (n->kind) {
    case NODE_EMBEDDING:
        TRY(run_embedding(e, store, index));
        break;
    case NODE_LINEAR:
        TRY(run_linear(e, n, weight, bias));
        TRY(check_finite(e, n));
        break;
    case NODE_ATTENTION:
        TRY(run_attention(e, n));
        TRY(check_finite(e, n));
        break;
    default:
        TRY(run_elementwise(e, index, weight));
        break;
    }
    drop_inputs(e, index);
out:
    return status;
}

grail_status execution_run(execution *e, parameter_store *store, int begin, int end)
{
    grail_status status = GRAIL_OK;
    for (int i = begin; i < end; i++) {
        TRY(run_node(e, store, i));
    }
out:
    return status;
}
