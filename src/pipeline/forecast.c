/* How long a run will take, from its operations and the rates of the machine. */
#include "graph/operators.h"
#include "pipeline/compression.h"
#include "pipeline/request/consumer_tail.h"
#include "pipeline/request/usual_samples.h"

#include <grail/machine.h>

#include <math.h>
#include <string.h>

enum { USUAL_CONTEXT = 2048, MEASURED_OUTPUTS = 512, HELD_PARTS = 2 };

/* Alphas that are tried where the best one is the usual one or the next, and the share of its rate
 * that a run reaches: bench_compress had 0.79 to 0.86. */
static const double alphas_tried = 3.0;
static const double reached = 0.8;

typedef struct operations {
    double products; /* of the network */
    double sums;     /* statistics, in f32 */
    double solves;   /* in f64 */
} operations;

/* The samples in rows: what lies at one position of one sample. */
typedef struct rows_of {
    const compression_request *request;
    const int64_t *widths; /* of values */
    const extent *extents; /* of values; one position for text */
    int64_t count;         /* windows or images */
    double samples;        /* windows times their tokens, or images */
} rows_of;

static double rows_at(const rows_of *r, int value)
{
    return r->samples * (double)(r->extents[value].height * r->extents[value].width);
}

static double elements_of(const graph *g, const node *n)
{
    double elements = 1.0;
    for (int d = 0; d < g->parameters[n->weight].rank; d++) {
        elements *= (double)g->parameters[n->weight].shape[d];
    }
    return elements;
}

static double forward(const rows_of *r, const graph *g)
{
    double sum = 0.0;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        sum += 2.0 * r->samples * (double)node_products(g, n, r->extents[n->output]);
    }
    return sum;
}

/* The regression of a map: of patches, or of channels with an output for every tap. In groups there
 * is one for each, of as many features and of its share of the outputs. */
typedef struct map_size {
    double rows, features, outputs, groups;
} map_size;

static map_size size_of(const rows_of *r, const node *n)
{
    const graph_parameter *p = &r->request->graph->parameters[n->weight];
    const double rows = (double)p->shape[0];
    const double columns = elements_of(r->request->graph, n) / rows;
    const double taps = (double)weight_taps(p);
    const bool by_channel = taps > 1.0 && !map_is_fitted_by_tap(&r->request->plan.compensation, n);
    const double groups = (double)node_groups(n);
    return by_channel ? (map_size){rows_at(r, n->inputs[0]), columns / taps, rows * taps, groups}
                      : (map_size){rows_at(r, n->output), columns, rows, groups};
}

/* The fit of a map of which a share of the features stays. */
static void add_fit(const rows_of *r, const map_size *m, double share, bool has_target,
                    operations *o)
{
    const double kept = share * m->features;
    const double measured = fmin(m->outputs, MEASURED_OUTPUTS);
    const double tried = r->request->plan.compensation.alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED
                             ? alphas_tried
                             : 0.0;
    o->sums += has_target ? 2.0 * m->rows * m->features * m->outputs : 0.0;
    o->solves += HELD_PARTS * 2.0 * m->outputs * (has_target ? kept : m->features - kept) * kept;
    o->solves += tried * (m->groups * kept * kept * kept / 3.0 + 3.0 * measured * kept * kept);
    o->solves += m->groups * kept * kept * kept / 3.0 + 2.0 * m->outputs * kept * kept;
}

/* Whether a pass of the dense network that chooses units comes before the walk. */
static bool passes_twice(const plan *p)
{
    return p->loop == LOOP_CLOSED && plan_selects_openly(p);
}

/* One of the consumers of a cut site. Second-order selectors invert the Gram matrix and update it
 * with each removal. */
static void add_consumer(const rows_of *r, const site *s, const plan_site *p, const site_end *end,
                         operations *o)
{
    const compensation *how = &r->request->plan.compensation;
    const map_size m = size_of(r, &r->request->graph->nodes[end->node]);
    const bool decides =
        p->kept_units == NULL && (selector_needs(p->selector, s) & NEEDS_GRAM) != 0;
    const bool observes =
        p->kept_units == NULL && (selector_needs(p->selector, s) & NEEDS_OF_CONSUMERS) != 0;
    const bool twice = how->enabled && observes && passes_twice(&r->request->plan);
    if (how->enabled || decides) {
        o->sums += (twice ? 2.0 : 1.0) * m.groups * m.rows * m.features * m.features;
    }
    if (decides) {
        o->solves += 1.5 * m.groups * m.features * m.features * m.features;
    }
    if (how->enabled) {
        add_fit(r, &m, (double)p->kept / (double)p->units, compensation_uses_dense(how), o);
    }
}

/* The other maps of the blocks, which are fitted to what the cuts have changed. Those that share an
 * input share its Gram matrix. */
static void add_refits(const rows_of *r, operations *o)
{
    const graph *g = r->request->graph;
    int input = GRAPH_NONE;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        const bool in_block = node_is_map(n) && n->block >= 0 && n->block < g->block_count;
        const int cut = in_block ? r->request->cuts[n->weight].columns.site : GRAPH_NONE;
        if (in_block && (cut == GRAPH_NONE || !site_is_cut(&r->request->plan, cut))) {
            const map_size m = size_of(r, n);
            o->sums += n->inputs[0] == input ? 0.0 : m.groups * m.rows * m.features * m.features;
            input = n->inputs[0];
            add_fit(r, &m, 1.0, true, o);
        }
    }
}

static operations count_all(const rows_of *r)
{
    const compression_request *request = r->request;
    const plan *p = &request->plan;
    operations o = {0};
    bool uses_data = (p->compensation.enabled || p->repair) && anything_is_cut(p);
    for (int i = 0; i < p->count; i++) {
        const site *s = site_at(request, i);
        for (int k = 0; site_is_cut(p, i) && k < s->consumer_count; k++) {
            add_consumer(r, s, &p->sites[i], &s->consumers[k], &o);
        }
        uses_data = uses_data || (site_is_cut(p, i) && p->sites[i].kept_units == NULL &&
                                  p->sites[i].selector->uses_data);
    }
    if (p->compensation.enabled && plan_refits(p)) {
        add_refits(r, &o);
    }
    if (uses_data) {
        const bool dense = compensation_uses_dense(&p->compensation);
        o.products = forward(r, request->graph);
        o.products += dense || p->repair ? forward(r, request->narrowed.graph) : 0.0;
        o.products += passes_twice(p) ? forward(r, request->graph) : 0.0;
    }
    return o;
}

/* Operations of all trainings, as if none ended early. A step runs forward and back, which is twice
 * as much; through the whole network values are not kept, and another pass makes them again. The
 * dense network runs once for each sample, or for images, which change, in every pass. */
static double healing_products(const rows_of *r, double count)
{
    enum { MEASURED = 19 }; /* judgements, and losses that are told */
    const compression_request *request = r->request;
    const heal_options *h = &request->heal;
    const input_kind input = request->graph->input_kind;
    const double dense = forward(r, request->graph) / count;
    const double narrow = forward(r, request->narrowed.graph) / count;
    const double beside = input == INPUT_IMAGES ? dense : 0.0;
    const double held = (double)heal_held_samples(input, (int64_t)count);
    const double seen = count > held ? count - held : count;
    const int64_t length = input == INPUT_IMAGES ? 1 : (int64_t)(r->samples / count);
    const double stepped =
        (double)h->chosen.steps * (double)heal_step_samples(h, input, length, (int64_t)seen);
    double sum = 0.0;
    if (h->blocks) {
        sum += count * dense + (3.0 * stepped + MEASURED * held) * narrow;
    }
    if (h->network) {
        sum += (input == INPUT_IMAGES ? 0.0 : fmin(count, stepped + held) * dense) +
               stepped * (4.0 * narrow + beside) + MEASURED * held * (narrow + beside);
    }
    return sum;
}

/* Bytes of the statistics and the solve of the largest map, in f64: two parts, and as much again
 * for the solve; see grail_compress_estimate. */
static double statistics_bytes(const rows_of *r)
{
    const graph *g = r->request->graph;
    double largest = 0.0;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (node_is_map(n) && n->block < g->block_count) {
            const map_size m = size_of(r, n);
            largest =
                fmax(largest, 8.0 * (4.0 * m.groups * m.features + 2.0 * m.outputs) * m.features);
        }
    }
    return largest;
}

/* Bytes of the largest block's weights in f32; of all weights where a network is finished as a
 * whole. */
static double weight_bytes(const rows_of *r)
{
    const graph *g = r->request->graph;
    double largest = 0.0;
    double sum = 0.0;
    for (int i = 0, block = GRAPH_NONE; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (n->block != block && !r->request->finishes_with_network) {
            sum = 0.0;
        }
        block = n->block;
        sum += node_is_map(n) ? 4.0 * elements_of(g, n) : 0.0;
        largest = fmax(largest, sum);
    }
    return 2.0 * largest; /* dense, and as narrowed */
}

/* The values between blocks of all samples, of the dense network too where that runs beside. */
static double stream_bytes(const rows_of *r, double limit)
{
    double largest = 0.0;
    for (int value = 0; value < r->request->graph->value_count; value++) {
        const double width = (double)r->widths[value];
        largest = fmax(largest, 4.0 * width * rows_at(r, value));
    }
    const double streams = compensation_uses_dense(&r->request->plan.compensation) ? 2.0 : 1.0;
    return fmin(streams * largest, limit);
}

static grail_status measure(const grail_compress_options *options, rows_of *r, int64_t *widths,
                            extent *extents)
{
    const grail_model *model = r->request->model;
    const int64_t usual = model->context < USUAL_CONTEXT ? model->context : USUAL_CONTEXT;
    const int64_t length = options->read.text.context > 0 ? options->read.text.context : usual;
    CHECK(graph_widths(r->request->graph, widths));
    CHECK(graph_extents(r->request->graph, model_usual_positions(model), extents));
    r->widths = widths;
    r->extents = extents;
    const calibration *named = r->request->samples;
    const int64_t tokens = named->count > 0 ? windows_mean_size(&named->windows) : length;
    r->count = named->count > 0            ? named->count
               : options->read.samples > 0 ? options->read.samples
                                           : usual_samples(r->request->graph, length);
    const bool of_images = model->graph->input_kind == INPUT_IMAGES;
    r->samples = (double)r->count * (of_images ? 1.0 : (double)tokens);
    return GRAIL_OK;
}

grail_status grail_compression_forecast(const grail_compression *c,
                                        const grail_compress_options *options,
                                        const grail_machine *machine, grail_forecast *out)
{
    grail_status status = GRAIL_OK;
    enum { BASE_BYTES = 64 << 20 };
    int64_t *widths = NULL;
    extent *extents = NULL;
    rows_of r = {.request = c->request};
    const size_t values = (size_t)c->request->graph->value_count;
    const bool in_bf16 = strncmp(backend_precision(c->request->backend), "bf16", 4) == 0;
    TRY(memory_new(&widths, values, sizeof widths[0]));
    TRY(memory_new(&extents, values, sizeof extents[0]));
    TRY(measure(options, &r, widths, extents));
    *out = (grail_forecast){.bytes = (int64_t)(BASE_BYTES + weight_bytes(&r))};
    const operations o = count_all(&r);
    const double products = in_bf16 ? machine->bf16_gflops : machine->sgemm_gflops;
    if (heals(&c->request->heal)) {
        out->heal_seconds = fmin(1e-9 / reached * healing_products(&r, (double)r.count) / products,
                                 c->request->heal.chosen.time);
    }
    if (o.products > 0.0) {
        out->seconds = 1e-9 / reached *
                       (o.products / products + o.sums / machine->sgemm_gflops +
                        o.solves / machine->dgemm_gflops);
        out->bytes += (int64_t)(statistics_bytes(&r) +
                                stream_bytes(&r, 0.5 * (double)machine->memory_available));
    }
    if (o.products > 0.0 || heals(&c->request->heal)) {
        out->samples = r.count;
    }
    out->seconds += out->heal_seconds;
out:
    memory_free(widths);
    memory_free(extents);
    return status;
}
