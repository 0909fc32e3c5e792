#include "site_fixture.h"

static grail_status borrow(void *context, int parameter, const float **out, float **owned)
{
    const fixture *f = context;
    *owned = NULL;
    *out = f->weights[parameter];
    return GRAIL_OK;
}

void begin_site(fixture *f, site_kind kind, int64_t units, int64_t kept)
{
    *f = (fixture){0};
    f->graph = (graph){.nodes = f->nodes, .parameters = f->parameters};
    f->site = (site){.kind = kind,
                     .units = units,
                     .groups = 1,
                     .subunits = 1,
                     .producers = f->producers,
                     .consumers = f->consumers};
    f->view = (site_view){.graph = &f->graph,
                          .site = &f->site,
                          .kept = kept,
                          .weights = {borrow, f},
                          .seed = 42,
                          .inputs = f->inputs,
                          .input_count = 1};
}

static int add_node(fixture *f, int64_t rows, int64_t columns, const float *weight)
{
    const int i = f->graph.node_count++;
    assert_true(i < MOST);
    f->nodes[i] = (node){.kind = NODE_LINEAR, .weight = i, .bias = GRAPH_NONE};
    f->parameters[i] = (graph_parameter){.rank = 2, .shape = {rows, columns}};
    f->weights[i] = weight;
    return i;
}

void add_producer(fixture *f, int64_t features, int64_t columns, const float *weight)
{
    const int i = add_node(f, f->site.units * features, columns, weight);
    f->producers[f->site.producer_count++] = (site_end){.node = i, .features_per_unit = features};
    f->view.scored_producers = f->site.producer_count;
}

void add_consumer(fixture *f, int64_t features, int64_t outputs, const float *weight)
{
    const int i = add_node(f, outputs, f->site.units * features, weight);
    f->consumers[f->site.consumer_count++] = (site_end){.node = i, .features_per_unit = features};
}

void add_convolution(fixture *f, int64_t outputs, int64_t taps, const float *weight)
{
    add_consumer(f, 1, outputs, weight);
    const int i = f->graph.node_count - 1;
    f->nodes[i].kind = NODE_CONV2D;
    f->parameters[i] = (graph_parameter){.rank = 4, .shape = {outputs, f->site.units, 1, taps}};
}

void assert_kept(const grail_reducer *r, const char *pattern)
{
    for (int64_t j = 0; j < r->units; j++) {
        assert_int_equal(grail_reducer_label(r, j) >= 0, pattern[j] == '1');
    }
}

void assert_decides(fixture *f, const selector *s, const char *pattern)
{
    assert_ok(s->decide(&f->view, &f->reducer));
    assert_kept(f->reducer, pattern);
    grail_reducer_free(f->reducer);
    f->reducer = NULL;
}
