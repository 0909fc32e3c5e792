#include "reduce/site_view.h"

#include "base/memory.h"

static grail_status read_matrix(const site_view *v, int parameter, int64_t features, bool rows,
                                unit_matrix *out)
{
    const graph_parameter *p = &v->graph->parameters[parameter];
    unit_matrix m = {0};
    int64_t elements = 1;
    for (int d = 0; d < p->rank; d++) {
        elements *= p->shape[d];
    }
    m.others = rows ? elements / (v->site->units * features) : p->shape[0];
    m.features = rows ? features : elements / (v->site->units * p->shape[0]);
    CHECK(v->weights.borrow(v->weights.context, parameter, &m.values, &m.owned));
    *out = m;
    return GRAIL_OK;
}

/* Nothing where there is no parameter. */
static grail_status read_rows(const site_view *v, const site_end *end, int parameter,
                              unit_matrix *out)
{
    *out = (unit_matrix){0};
    if (parameter == GRAPH_NONE) {
        return GRAIL_OK;
    }
    CHECK(read_matrix(v, parameter, end->features_per_unit, true, out));
    out->exchangeable = end->exchangeable;
    return GRAIL_OK;
}

static const node *node_of_end(const site_view *v, const site_end *end)
{
    return &v->graph->nodes[end->node];
}

/* A site of a graph has all its ends; one of a caller's buffers may lack some. */
static grail_status check_end(const char *what, int index, int count)
{
    return index < count ? GRAIL_OK
                         : error_set(GRAIL_ERROR_ARGUMENT,
                                     "the weights of %s %d of the site are needed, but there are "
                                     "those of %d",
                                     what, index, count);
}

grail_status site_view_producer(const site_view *v, int p, unit_matrix *out)
{
    CHECK(check_end("producer", p, v->site->producer_count));
    const site_end *end = &v->site->producers[p];
    return read_rows(v, end, node_of_end(v, end)->weight, out);
}

grail_status site_view_producer_bias(const site_view *v, int p, unit_matrix *out)
{
    const site_end *end = &v->site->producers[p];
    return read_rows(v, end, node_of_end(v, end)->bias, out);
}

grail_status site_view_consumer(const site_view *v, int k, unit_matrix *out)
{
    CHECK(check_end("consumer", k, v->site->consumer_count));
    const site_end *end = &v->site->consumers[k];
    CHECK(read_matrix(v, node_of_end(v, end)->weight, 0, false, out));
    out->exchangeable = end->exchangeable;
    return GRAIL_OK;
}

grail_status site_view_channel(const site_view *v, int c, unit_matrix *weight, unit_matrix *bias)
{
    const site_end *end = &v->site->channels[c];
    CHECK(read_rows(v, end, node_of_end(v, end)->weight, weight));
    return read_rows(v, end, node_of_end(v, end)->bias, bias);
}

void unit_matrix_fini(unit_matrix *m)
{
    memory_free(m->owned);
    *m = (unit_matrix){0};
}
