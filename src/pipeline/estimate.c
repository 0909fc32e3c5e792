/* Estimates how much memory a run takes, so that several runs can share a machine. */
#include "arch/model.h"
#include "graph/operators.h"
#include "heal/heal_options.h"
#include "pipeline/request/consumer_tail.h"
#include "pipeline/request/cuts.h"
#include "pipeline/request/options.h"
#include "pipeline/request/usual_samples.h"

#include <math.h>
#include <string.h>

enum {
    PARAMETER_COPIES = 4,
    FOLDED_COPIES = 6,
    HEALED_COPIES = 6,  /* gradients, their sums, two moments, best values, the dense ones again */
    BATCH_IMAGES = 128, /* of the evaluation; fewer if a value would exceed BATCH_BYTES */
    BATCH_BYTES = 128 << 20,
    BATCH_VALUES = 4, /* that are in memory at the same time */
    TEXT_CONTEXT =
        2048,         /* tokens of a window where the options do not say it, or the model's most */
    TEXT_ROWS = 4096, /* positions that are run or scored at the same time */
    TEXT_EVALUATION = 1 << 30, /* of the windows that are measured at the same time */
    JOINED_MAPS = 3,           /* that read one input and are fitted together: q, k and v */
    TAPE_IMAGES = 16,          /* of a pass that is trained */
    STREAM_VALUES = 2
};

/* The options that decide the estimate. */
typedef struct request {
    const graph *graph;
    site_list sites;
    const selector *selector;
    compensation how;
    double sparsity[SITE_KINDS];
    double samples;
    double context; /* tokens of a sample of text; 0: images */
    bool repair, open_loop, selects_openly;
    metric_kind metric;
    heal_options heal;
} request;

/* Widths at one consumer: the features of each group, and the outputs of all. */
typedef struct fit_size {
    double groups, features, outputs;
} fit_size;

static grail_status read_options(const grail_model *model, const grail_compress_options *o,
                                 request *out)
{
    grail_compress_options copy = *o;
    const int64_t usual = model->context < TEXT_CONTEXT ? model->context : TEXT_CONTEXT;
    const int64_t context = o->read.text.context > 0 ? o->read.text.context : usual;
    request r = {.graph = model->graph,
                 .context = model->graph->input_kind == INPUT_IMAGES ? 0.0 : (double)context,
                 .repair = o->fit.repair != 0,
                 .open_loop = o->fit.open_loop != 0,
                 .selects_openly = o->cut.select != NULL && strcmp(o->cut.select, "open") == 0};
    r.samples = (double)(o->read.samples > 0 ? o->read.samples
                                             : usual_samples(model->graph, (int64_t)r.context));
    if (o->amount.plan != NULL || o->amount.plan_text != NULL ||
        o->amount.site_sparsity_count > 0) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "cannot estimate the memory for a plan or for sparsities of "
                         "single sites; give one sparsity per kind of site");
    }
    CHECK(selector_from_name(o->cut.selector, &r.selector));
    r.metric = METRIC_AUTO;
    if (o->cut.metric != NULL) {
        int metric = 0;
        CHECK(option_find_word("metric", o->cut.metric, metric_words, &metric));
        r.metric = (metric_kind)metric;
    }
    CHECK(compensation_from_options(o, r.selector, &r.how));
    CHECK(heal_options_read(&o->heal, model->graph, &r.heal));
    for (int k = 0; k < SITE_KINDS; k++) {
        r.sparsity[k] = *grail_compress_sparsity(&copy, site_kind_name((site_kind)k));
    }
    CHECK(sites_derive(model->graph, GQA_KV_GROUPS, &r.sites));
    *out = r;
    return GRAIL_OK;
}

static bool cuts_site(const request *r, const site *s)
{
    return r->sparsity[s->kind] > 0.0;
}

/* How many times wider a cut axis is in the calibration network: units that are remade are behind
 * those that they were made from. */
static double widening(const request *r, const site *s)
{
    return (r->selector->folds || s->normed) && cuts_site(r, s) ? 2.0 - r->sparsity[s->kind] : 1.0;
}

/* A kernel fit has one column for every tap of the convolution. */
static fit_size size_of_fit(const request *r, const site *s, const site_end *consumer)
{
    const graph *g = r->graph;
    const graph_parameter *weight = &g->parameters[g->nodes[consumer->node].weight];
    const bool each_tap =
        r->how.enabled && map_is_fitted_by_tap(&r->how, &g->nodes[consumer->node]);
    double taps = 1.0;
    for (int d = 2; d < weight->rank; d++) {
        taps *= (double)weight->shape[d];
    }
    const double groups = (double)node_groups(&g->nodes[consumer->node]);
    return (fit_size){
        .groups = groups,
        .features = widening(r, s) * (double)(s->units * consumer->features_per_unit) / groups *
                    (each_tap ? taps : 1.0),
        .outputs = widening(r, s) * (double)weight->shape[0] * (each_tap ? 1.0 : taps),
    };
}

/* How many Gram matrices of a consumer's width exist beside those that are fitted: two of the dense
 * network where a run keeps them, and one more while a selector sees all consumers'. */
static double dense_grams(const request *r, const site *s)
{
    const unsigned needs = selector_needs(r->selector, s);
    const bool of_all =
        (needs & NEEDS_ALL_CONSUMERS) != 0 || (s->normed && (needs & NEEDS_OF_CONSUMERS) != 0);
    const double kept = r->open_loop || r->selects_openly || of_all ? 2.0 : 0.0;
    return kept + (of_all && (needs & NEEDS_GRAM) != 0 ? 1.0 : 0.0);
}

/* A fit of w features and o outputs holds what is summed, to fit and held out, and its solve. */
static double fit_bytes(double features, double outputs)
{
    return 4.0 * features * features + 2.0 * features * outputs;
}

/* The largest fit of maps of text networks that were not cut. */
static double refit_bytes(const request *r)
{
    const graph *g = r->graph;
    double largest = 0.0;
    for (int i = 0; r->context > 0.0 && i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (node_is_linear(n) && n->block >= 0 && n->block < g->block_count) {
            const int64_t *shape = g->parameters[n->weight].shape;
            largest = fmax(largest, fit_bytes((double)shape[1], JOINED_MAPS * (double)shape[0]));
        }
    }
    return largest;
}

static double statistics_bytes(const request *r)
{
    double largest = refit_bytes(r);
    double dense = 0.0;
    for (int i = 0; i < r->sites.count; i++) {
        const site *s = &r->sites.sites[i];
        for (int c = 0; cuts_site(r, s) && c < s->consumer_count; c++) {
            const fit_size f = size_of_fit(r, s, &s->consumers[c]);
            const double gram = f.groups * f.features * f.features;
            largest = fmax(largest, f.groups * fit_bytes(f.features, f.outputs / f.groups));
            dense += dense_grams(r, s) * gram;
        }
    }
    return sizeof(double) * (largest + dense);
}

/* What an evaluation keeps: for text the windows, and the values and logits of some positions. */
static double batch_bytes(const request *r, double value)
{
    if (r->context > 0.0) {
        const double positions = fmax(TEXT_ROWS, r->context);
        const double of_position = BATCH_VALUES * value / r->context;
        return TEXT_EVALUATION +
               positions * sizeof(float) * (of_position + (double)r->graph->vocabulary);
    }
    const double bytes = BATCH_IMAGES * value * sizeof(float);
    return BATCH_VALUES * (bytes < (double)BATCH_BYTES ? bytes : (double)BATCH_BYTES);
}

static double parameter_bytes(const request *r, const grail_model *model)
{
    const double copies = r->selector->folds ? FOLDED_COPIES : PARAMETER_COPIES;
    double bytes = 0.0;
    for (int p = 0; p < r->graph->parameter_count; p++) {
        bytes += copies * (double)sizeof(float) * (double)model_parameter_elements(model, p);
    }
    return bytes;
}

/* Elements of all parameters of the nodes [begin, end). */
static double elements_of_nodes(const request *r, const grail_model *model, int begin, int end)
{
    double elements = 0.0;
    for (int i = begin; i < end; i++) {
        const int parameters[] = {r->graph->nodes[i].weight, r->graph->nodes[i].bias};
        for (int p = 0; p < 2; p++) {
            elements += parameters[p] == GRAPH_NONE
                            ? 0.0
                            : (double)model_parameter_elements(model, parameters[p]);
        }
    }
    return elements;
}

/* What is trained at the same time: some blocks, or the network. The way back keeps what the nodes
 * of one block made, and in the network also what lies between blocks. */
static double healing_bytes(const request *r, const grail_model *model, double value)
{
    const graph *g = r->graph;
    double trained = 0.0;
    double values = 0.0;
    for (int block = GRAPH_NONE; block <= g->block_count; block++) {
        int first = block; /* of those that are trained together */
        int last = block;
        int begin = 0;
        int end = 0;
        int ignored = 0;
        if (block >= 0 && block < g->block_count) {
            heal_group_of(&r->heal, block, g->block_count, &first, &last);
        }
        graph_block_range(g, first, &begin, &ignored);
        graph_block_range(g, last, &ignored, &end);
        trained = fmax(trained, elements_of_nodes(r, model, begin, end));
        values = fmax(values, (double)(end - begin));
    }
    if (r->heal.network) {
        trained = elements_of_nodes(r, model, 0, g->node_count);
        values += (double)g->block_count;
    }
    const double part = fmax(TAPE_IMAGES, ceil((double)r->heal.chosen.batch / 4.0));
    return sizeof(float) * (HEALED_COPIES * trained + fmin(r->samples, part) * values * value);
}

/* The metrics of all sites, and the way back that they are taken on: with all weights, what the
 * nodes of a block made of a part, and what lies between blocks. */
static double metric_bytes(const request *r, const grail_model *model, double value)
{
    const graph *g = r->graph;
    const bool is_open = r->open_loop || r->selects_openly;
    const bool auto_is_fisher = !is_open && gradients_choose_better(g);
    double sums = 0.0;
    for (int i = 0; i < r->sites.count; i++) {
        const site *s = &r->sites.sites[i];
        if (metric_measures(r->metric, auto_is_fisher, r->selector, s->kind)) {
            const int weight = g->nodes[s->consumers[0].node].weight;
            const double outputs = (double)g->parameters[weight].shape[0];
            sums += outputs * outputs;
        }
    }
    const double part = r->context > 0.0 ? 1.0 : 2.0 * TAPE_IMAGES;
    const double blocks = fmax(1.0, (double)g->block_count);
    const double values = part * value * ((double)g->node_count / blocks + blocks);
    const double back = elements_of_nodes(r, model, 0, g->node_count) + values;
    return sums > 0.0 ? sizeof(double) * sums + sizeof(float) * back : 0.0;
}

/* `value`: elements of the largest value between nodes, for one sample that has `input` elements.
 */
static double calibration_bytes(const request *r, double input, double value)
{
    const bool measures = r->how.enabled || r->selector->uses_data;
    const bool has_dense_stream =
        heals(&r->heal) || (compensation_uses_dense(&r->how) && !r->open_loop);
    const bool waits =
        r->heal.blocks && r->heal.chosen.group > 1; /* before blocks healed together */
    const double streams = 1.0 + (has_dense_stream ? 1.0 : 0.0) + (waits ? 1.0 : 0.0);
    double bytes = 0.0;
    if (measures || r->repair || heals(&r->heal)) {
        bytes += r->samples * sizeof(float) * (input + streams * STREAM_VALUES * value);
    }
    if (measures) {
        bytes += statistics_bytes(r);
    }
    return bytes;
}

/* Elements of the largest value between nodes for one sample. Logits of text are made for a few
 * positions at a time. */
static grail_status largest_value(const request *r, extent image, double *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    int64_t largest = 0;
    if (r->context == 0.0) {
        TRY(graph_largest_value(r->graph, image, 0, r->graph->node_count, &largest));
        *out = (double)largest;
        return GRAIL_OK;
    }
    TRY(memory_new(&widths, (size_t)r->graph->value_count, sizeof widths[0]));
    TRY(graph_widths(r->graph, widths));
    for (int v = 0; v < r->graph->value_count; v++) {
        const bool is_output = r->graph->value_source[v] == r->graph->node_count - 1;
        largest = !is_output && widths[v] > largest ? widths[v] : largest;
    }
    *out = r->context * (double)largest;
out:
    memory_free(widths);
    return status;
}

grail_status grail_compress_estimate(const grail_model *model,
                                     const grail_compress_options *options, int64_t *out)
{
    grail_status status = GRAIL_OK;
    request r = {0};
    double value = 0.0;
    double widest = 1.0;
    bool cuts = false;
    TRY(read_options(model, options, &r));
    const extent image = r.context > 0.0 ? (extent){0} : model_image_extent(model);
    TRY(largest_value(&r, image, &value));
    for (int i = 0; i < r.sites.count; i++) {
        const double wide = widening(&r, &r.sites.sites[i]);
        widest = wide > widest ? wide : widest;
        cuts = cuts || cuts_site(&r, &r.sites.sites[i]);
    }
    value *= widest;
    double bytes = parameter_bytes(&r, model) + batch_bytes(&r, value);
    if (cuts) {
        const double pixels = (double)image.height * (double)image.width;
        bytes +=
            calibration_bytes(&r, fmax(r.context, pixels * (double)model->graph->channels), value);
    }
    bytes += cuts ? metric_bytes(&r, model, value) : 0.0;
    if (cuts && heals(&r.heal)) {
        bytes += healing_bytes(&r, model, value);
    }
    *out = bytes < 9e18 ? (int64_t)bytes : INT64_MAX;
out:
    site_list_fini(&r.sites);
    return status;
}
