/* Nodes that treat every row on its own, and attention. */
#include "exec/node_run.h"

#include <string.h>

grail_status run_linear(execution *e, const node *n, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const matrix x = e->values[n->inputs[0]];
    const int64_t *shape = p->weight->shape;
    void *y = NULL;
    if (x.width != shape[1]) {
        FAIL(GRAIL_ERROR_INTERNAL,
             "block %d: '%s' has %lld columns, but its input has %lld features", n->block,
             e->graph->parameters[n->weight].name, (long long)shape[1], (long long)x.width);
    }
    TRY(execution_make(e, n->output, shape[0], &y));
    e->backend->linear(x.rows, x.width, shape[0], x.data, p->weight->data, entry_data(p->bias), y);
out:
    return status;
}

grail_status run_attention(execution *e, const node *n)
{
    grail_status status = GRAIL_OK;
    const matrix *q = &e->values[n->inputs[0]];
    const matrix *k = &e->values[n->inputs[1]];
    const matrix *v = &e->values[n->inputs[2]];
    const extent positions = e->extents[n->inputs[0]];
    const attention_shape shape = {
        .sequences = e->shape.samples,
        .length = positions.height * positions.width,
        .query_heads = q->width / n->head_dim,
        .kv_heads = k->width / n->head_dim,
        .head_dim = n->head_dim,
        .window = n->attention_window,
        .bidirectional = n->bidirectional,
        .scale = n->scale,
    };
    void *out = NULL;
    TRY(execution_make(e, n->output, q->width, &out));
    TRY(e->backend->attention(&shape, q->data, k->data, v->data, out));
out:
    return status;
}

static void rotate(const execution *e, const node *n, const matrix *x, void *y)
{
    const extent positions = e->extents[n->output];
    if (y != x->data) {
        memcpy(y, x->data, (size_t)(x->rows * x->width) * e->backend->element_size);
    }
    e->backend->rope(e->shape.samples, positions.height * positions.width, x->width / n->head_dim,
                     n->head_dim, n->table, y);
}

static void normalise(const backend *b, const node *n, const node_entries *p, const matrix *x,
                      void *y)
{
    const void *weight = entry_data(p->weight);
    const void *bias = entry_data(p->bias);
    switch (n->kind) {
    case NODE_RMS_NORM:
        b->rms_norm(x->rows, x->width, n->group == 0 ? x->width : n->group, n->epsilon, x->data,
                    weight, y);
        break;
    case NODE_BATCH_NORM:
        b->batch_norm(x->rows, x->width, n->epsilon, x->data, p->mean->data, p->variance->data,
                      weight, bias, y);
        break;
    case NODE_LAYER_NORM:
        b->layer_norm(x->rows, x->width, n->epsilon, x->data, weight, bias, y);
        break;
    default:
        b->unit_length(x->rows, x->width, x->data, y);
        break;
    }
}

grail_status run_elementwise(execution *e, int index, const node_entries *p)
{
    grail_status status = GRAIL_OK;
    const backend *b = e->backend;
    const node *n = &e->graph->nodes[index];
    const matrix x = e->values[n->inputs[0]];
    const void *other = n->input_count > 1 ? e->values[n->inputs[1]].data : NULL;
    const int64_t count = x.rows * x.width;
    void *y = NULL;
    TRY(execution_make_elementwise(e, index, &y));
    switch (n->kind) {
    case NODE_ROPE:
        rotate(e, n, &x, y);
        break;
    case NODE_ACTIVATION:
        b->activation(n->activation, count, x.data, y);
        break;
    case NODE_MULTIPLY:
        b->multiply(count, x.data, other, y);
        break;
    case NODE_ADD:
        b->add(count, x.data, other, y);
        break;
    default:
        normalise(b, n, p, &x, y);
        break;
    }
out:
    return status;
}
