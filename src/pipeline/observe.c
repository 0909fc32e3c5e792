/* Observing: statistics of a consumer's input, and of the target it should produce. */
#include "pipeline/compression.h"

#include <string.h>

int consumer_end(const graph *g, int consumer)
{
    const int y = g->nodes[consumer].output;
    const int next = consumer + 1;
    const bool added = next < g->node_count && g->nodes[next].kind == NODE_ADD &&
                       g->last_use[y] == next &&
                       (g->nodes[next].inputs[0] == y) != (g->nodes[next].inputs[1] == y);
    return added ? next + 1 : next;
}

/* The other operand of the Add behind the consumer, GRAPH_NONE without one. */
static int skip_value(const graph *g, int consumer)
{
    const int end = consumer_end(g, consumer);
    if (end == consumer + 1) {
        return GRAPH_NONE;
    }
    const node *add = &g->nodes[consumer + 1];
    return add->inputs[0] == g->nodes[consumer].output ? add->inputs[1] : add->inputs[0];
}

static const node *consumer_node(const grail_compression *c, int index)
{
    return &c->model->graph->nodes[c->sites->list.sites[index].consumers[0].node];
}

static bool has_target(const grail_compression *c, bool folds)
{
    return c->plan.compensation.enabled && (folds || c->plan.compensation.target == TARGET_DENSE);
}

void observation_fini(observation *o)
{
    grail_statistics_free(o->fit);
    grail_statistics_free(o->held);
    parameter_store_free(o->trial);
    memory_free(o->prior);
    *o = (observation){0};
}

static grail_status begin_folding(grail_compression *c, observation *o)
{
    grail_status status = GRAIL_OK;
    site_result *result = &c->results[o->site];
    TRY(site_fold(c, o->site, &result->reducer));
    TRY(parameter_store_create(c->model, c->backend, c->current, &o->trial));
    TRY(site_narrow_producers(c, o->site, result->reducer, o->trial));
    TRY(site_plain_consumer(c, o->site, result->reducer, &o->prior));
out:
    return status;
}

grail_status observation_init(grail_compression *c, int index, observation *o)
{
    grail_status status = GRAIL_OK;
    const grail_site_facts *facts = &c->sites->facts[index];
    const plan_site *planned = &c->plan.sites[index];
    *o = (observation){.site = index, .folds = selector_folds(planned->selector)};
    const int64_t width = o->folds ? planned->kept * facts->features_per_unit : facts->width;
    const int64_t outputs = has_target(c, o->folds) ? facts->outputs : 0;
    if (o->folds) {
        TRY(begin_folding(c, o));
    }
    TRY(grail_statistics_create(width, outputs, &o->fit));
    TRY(grail_statistics_create(width, outputs, &o->held));
out:
    if (status != GRAIL_OK) {
        observation_fini(o);
    }
    return status;
}

/* Every fourth batch judges alpha and the error; with two or three batches the last one. */
static bool is_held_out(const grail_compression *c, int64_t batch)
{
    if (c->batch_count < 4) {
        return c->batch_count > 1 && batch == c->batch_count - 1;
    }
    return batch % 4 == 3;
}

/* Y = dense stream behind the residual Add - compressed stream before it: what the consumer has to
 * give so that the sum is what the dense network had. Without an Add, the dense output itself. */
static grail_status dense_target(grail_compression *c, const node *consumer, void **out)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->model->graph;
    const int node_index = (int)(consumer - g->nodes);
    const int skip = skip_value(g, node_index);
    const int sum = g->nodes[consumer_end(g, node_index) - 1].output;
    const matrix *dense = execution_value(c->dense_run, sum);
    const size_t count = (size_t)(dense->rows * dense->width);
    void *y = NULL;
    TRY(buffer_pool_take(c->pool, count * c->backend->element_size, &y));
    if (skip == GRAPH_NONE) {
        memcpy(y, dense->data, count * c->backend->element_size);
    } else {
        c->backend->subtract((int64_t)count, dense->data, execution_value(c->run, skip)->data, y);
    }
    *out = y;
out:
    return status;
}

/* Y = X W^T with the unfolded producers on the compressed stream: the target of folding when it is
 * local. c->dense_run is free then and runs them. */
static grail_status local_target(grail_compression *c, const node *consumer, void **out)
{
    grail_status status = GRAIL_OK;
    const parameter_entry *weight = NULL;
    const matrix *x = execution_value(c->dense_run, consumer->inputs[0]);
    void *y = NULL;
    TRY(parameter_store_get(c->current, consumer->weight, &weight));
    const size_t count = (size_t)(x->rows * weight->shape[0]);
    TRY(buffer_pool_take(c->pool, count * c->backend->element_size, &y));
    c->backend->linear(x->rows, x->width, weight->shape[0], x->data, weight->data, NULL, y);
    *out = y;
out:
    return status;
}

grail_status observation_add(grail_compression *c, observation *o, int64_t batch)
{
    grail_status status = GRAIL_OK;
    const node *consumer = consumer_node(c, o->site);
    const matrix *z = execution_value(c->run, consumer->inputs[0]);
    grail_statistics *into = is_held_out(c, batch) ? o->held : o->fit;
    void *y = NULL;
    if (has_target(c, o->folds)) {
        if (c->plan.compensation.target == TARGET_DENSE) {
            TRY(dense_target(c, consumer, &y));
        } else {
            TRY(local_target(c, consumer, &y));
        }
    }
    TRY(statistics_accumulate(into, c->backend, z->rows, z->data, z->width, y, into->outputs));
out:
    buffer_pool_give(c->pool, y);
    return status;
}
