#include "hand_site.h"

static grail_status borrow(void *context, int parameter, const float **out, float **owned)
{
    const hand_site *f = context;
    *owned = NULL;
    *out = f->weights[parameter];
    return GRAIL_OK;
}

void hand_begin(hand_site *f, site_kind kind, int64_t units, int64_t kept)
{
    *f = (hand_site){0};
    f->graph = (graph){.nodes = f->nodes, .parameters = f->parameters};
    f->site = (site){.kind = kind,
                     .units = units,
                     .groups = 1,
                     .subunits = 1,
                     .producers = f->producers,
                     .consumers = f->consumers,
                     .channels = f->channels};
    f->view = (site_view){.graph = &f->graph,
                          .site = &f->site,
                          .kept = kept,
                          .weights = {.borrow = borrow, .context = f},
                          .seed = 42,
                          .inputs = f->inputs,
                          .input_count = 1};
}

static int add_node(hand_site *f, int64_t rows, int64_t columns, const float *weight)
{
    const int i = f->graph.node_count++;
    f->nodes[i] = (node){.kind = NODE_LINEAR, .weight = i, .bias = GRAPH_NONE};
    f->parameters[i] = (graph_parameter){.rank = 2, .shape = {rows, columns}};
    f->weights[i] = weight;
    return i;
}

void hand_add_producer(hand_site *f, int64_t features, int64_t columns, const float *weight)
{
    const int i = add_node(f, f->site.units * features, columns, weight);
    f->producers[f->site.producer_count++] = (site_end){.node = i, .features_per_unit = features};
    f->view.scored_producers = f->site.producer_count;
}

static int add_reader(hand_site *f, int64_t features, int64_t outputs, int64_t columns,
                      const float *weight)
{
    const int i = add_node(f, outputs, columns, weight);
    f->consumers[f->site.consumer_count++] = (site_end){.node = i, .features_per_unit = features};
    f->view.input_count = f->site.consumer_count;
    return i;
}

void hand_add_consumer(hand_site *f, int64_t features, int64_t outputs, const float *weight)
{
    add_reader(f, features, outputs, f->site.units * features, weight);
}

void hand_add_convolution(hand_site *f, int64_t taps, int64_t outputs, const float *weight)
{
    const int i = add_reader(f, 1, outputs, f->site.units, weight);
    f->nodes[i].kind = NODE_CONV2D;
    f->parameters[i] = (graph_parameter){.rank = 4, .shape = {outputs, f->site.units, 1, taps}};
}

void hand_add_kernels(hand_site *f, int64_t taps, const float *weight)
{
    const int i = add_node(f, f->site.units, taps, weight);
    f->nodes[i].kind = NODE_DEPTHWISE;
    f->parameters[i] = (graph_parameter){.rank = 4, .shape = {f->site.units, 1, 1, taps}};
    f->channels[f->site.channel_count++] = (site_end){.node = i, .features_per_unit = 1};
}

void assert_kept(const grail_reducer *r, const char *pattern)
{
    for (int64_t j = 0; j < r->units; j++) {
        assert_int_equal(grail_reducer_label(r, j) >= 0, pattern[j] == '1');
    }
}

void assert_decides(hand_site *f, const selector *s, const char *pattern)
{
    assert_ok(selector_decide(s, &f->view, &f->reducer));
    assert_kept(f->reducer, pattern);
    grail_reducer_free(f->reducer);
    f->reducer = NULL;
}

/* How many units come before unit j. */
static int64_t rank_of(int64_t units, const double *scores, int64_t j)
{
    int64_t rank = 0;
    for (int64_t i = 0; i < units; i++) {
        rank += scores[i] > scores[j] || (scores[i] == scores[j] && i < j);
    }
    return rank;
}

void assert_ranks(hand_site *f, const selector *s, const double *scores)
{
    const int64_t units = f->site.units;
    for (int64_t kept = 1; kept <= units; kept++) {
        f->view.kept = kept;
        assert_ok(selector_decide(s, &f->view, &f->reducer));
        for (int64_t j = 0; j < units; j++) {
            assert_int_equal(grail_reducer_label(f->reducer, j) >= 0,
                             rank_of(units, scores, j) < kept);
        }
        grail_reducer_free(f->reducer);
        f->reducer = NULL;
    }
}
