/* How long a run will take, from its work of each kind and what a unit of it takes. */
#include "pipeline/forecast.h"
#include "base/machine_memory.h"
#include "graph/operators.h"
#include "pipeline/network/fisher.h"
#include "pipeline/request/consumer_tail.h"
#include "pipeline/request/usual_samples.h"

#include <grail/machine.h>

#include <math.h>
#include <string.h>

enum { USUAL_CONTEXT = 2048, MEASURED_OUTPUTS = 512, HELD_PARTS = 2, BASE_BYTES = 64 << 20 };

/* Alphas that are tried where the best one is the usual one or the next. */
static const double alphas_tried = 3.0;

/* The samples in rows: what lies at one position of one sample. */
typedef struct rows_of {
    const compression_request *request;
    const int64_t *widths; /* of values */
    const extent *extents; /* of values; one position for text */
    int64_t count;         /* windows or images */
    double samples;        /* windows times their tokens, or images */
    double length;         /* tokens of a window; 1 for images */
    int end;               /* block behind which nothing is counted */
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

/* The first node behind those that are counted. */
static int end_node(const rows_of *r, const graph *g)
{
    int begin = 0;
    int end = 0;
    graph_block_range(g, r->end, &begin, &end);
    return end;
}

/* Adds `times` a pass of all samples through the nodes before `end`. */
static grail_status add_forward(const rows_of *r, const graph *g, int end, double times,
                                double *work)
{
    int64_t *widths = NULL;
    CHECK(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    const grail_status status = graph_widths(g, widths);
    for (int i = 0; status == GRAIL_OK && i < end; i++) {
        const node *n = &g->nodes[i];
        const extent *x = &r->extents[n->output];
        const double positions = (double)(x->height * x->width);
        const double values = times * r->samples * positions * (double)widths[n->output];
        const double products = (double)node_products(g, n, *x);
        work[PROFILE_PRODUCTS] += 2.0 * times * r->samples * products;
        work[PROFILE_WEIGHTS] += node_is_map(n) ? elements_of(g, n) : 0.0;
        if (n->kind == NODE_ATTENTION) {
            work[PROFILE_ATTENTION] += 2.0 * values * fmax(r->length, positions);
        } else if (!node_is_map(n)) {
            work[PROFILE_ELEMENTWISE] += values;
        }
    }
    memory_free(widths);
    return status;
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
                    double *work)
{
    const double kept = share * m->features;
    const double measured = fmin(m->outputs, MEASURED_OUTPUTS);
    const double tried = r->request->plan.compensation.alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED
                             ? alphas_tried
                             : 0.0;
    work[PROFILE_STATISTICS] += has_target ? 2.0 * m->rows * m->features * m->outputs : 0.0;
    work[PROFILE_FITS] +=
        HELD_PARTS * 2.0 * m->outputs * (has_target ? kept : m->features - kept) * kept;
    work[PROFILE_FITS] +=
        tried * (m->groups * kept * kept * kept / 3.0 + 3.0 * measured * kept * kept);
    work[PROFILE_FITS] += m->groups * kept * kept * kept / 3.0 + 2.0 * m->outputs * kept * kept;
}

/* Whether a pass of the dense network that chooses units comes before the walk. */
static bool passes_twice(const plan *p)
{
    return p->loop == LOOP_CLOSED && plan_selects_openly(p);
}

/* One of the consumers of a cut site. Second-order selectors invert the Gram matrix and update it
 * with each removal. */
static void add_consumer(const rows_of *r, const site *s, const plan_site *p, const site_end *end,
                         double *work)
{
    const compensation *how = &r->request->plan.compensation;
    const map_size m = size_of(r, &r->request->graph->nodes[end->node]);
    const bool decides =
        p->kept_units == NULL && (selector_needs(p->selector, s) & NEEDS_GRAM) != 0;
    const bool observes =
        p->kept_units == NULL && (selector_needs(p->selector, s) & NEEDS_OF_CONSUMERS) != 0;
    const bool twice = how->enabled && observes && passes_twice(&r->request->plan);
    if (how->enabled || decides) {
        work[PROFILE_STATISTICS] +=
            (twice ? 2.0 : 1.0) * m.groups * m.rows * m.features * m.features;
    }
    if (decides) {
        work[PROFILE_SELECTION] += 1.5 * m.groups * m.features * m.features * m.features;
    }
    if (how->enabled) {
        add_fit(r, &m, (double)p->kept / (double)p->units, compensation_uses_dense(how), work);
    }
}

/* The other maps of the blocks, which are fitted to what the cuts have changed. Those that share an
 * input share its Gram matrix. */
static void add_refits(const rows_of *r, double *work)
{
    const graph *g = r->request->graph;
    int input = GRAPH_NONE;
    for (int i = 0; i < end_node(r, g); i++) {
        const node *n = &g->nodes[i];
        const bool in_block = node_is_map(n) && n->block >= 0 && n->block < g->block_count;
        const int cut = in_block ? r->request->cuts[n->weight].columns.site : GRAPH_NONE;
        if (in_block && (cut == GRAPH_NONE || !site_is_cut(&r->request->plan, cut))) {
            const map_size m = size_of(r, n);
            work[PROFILE_STATISTICS] +=
                n->inputs[0] == input ? 0.0 : m.groups * m.rows * m.features * m.features;
            input = n->inputs[0];
            add_fit(r, &m, 1.0, true, work);
        }
    }
}

/* The errors of every width of the sites that are cut, in front of trials. */
static grail_status count_curves(const rows_of *r, double *work)
{
    const compression_request *request = r->request;
    const graph *g = request->graph;
    for (int i = 0; i < request->plan.count; i++) {
        const site *s = site_at(request, i);
        for (int k = 0; site_is_cut(&request->plan, i) && k < s->consumer_count; k++) {
            const map_size m = size_of(r, &g->nodes[s->consumers[k].node]);
            work[PROFILE_STATISTICS] += m.groups * m.rows * m.features * m.features;
            work[PROFILE_SELECTION] += 1.5 * m.groups * m.features * m.features * m.features;
        }
    }
    return add_forward(r, g, g->node_count, 1.0, work);
}

/* The closed form; *uses_data tells whether it reads samples. */
static grail_status count_closed(const rows_of *r, double *work, double *refits, bool *uses_data)
{
    const compression_request *request = r->request;
    const graph *g = request->graph;
    const plan *p = &request->plan;
    *uses_data = (p->compensation.enabled || p->repair) && anything_is_cut(p);
    for (int i = 0; i < p->count; i++) {
        const site *s = site_at(request, i);
        for (int k = 0; site_is_cut(p, i) && k < s->consumer_count; k++) {
            if (s->consumers[k].node < end_node(r, g)) {
                add_consumer(r, s, &p->sites[i], &s->consumers[k], work);
            }
        }
        *uses_data = *uses_data || (site_is_cut(p, i) && p->sites[i].kept_units == NULL &&
                                    p->sites[i].selector->uses_data);
    }
    if (p->compensation.enabled && plan_refits(p)) {
        add_refits(r, refits);
    }
    for (int kind = 0; kind < PROFILE_KINDS; kind++) {
        work[kind] += refits[kind];
    }
    if (!*uses_data) {
        return GRAIL_OK;
    }
    const bool beside = compensation_uses_dense(&p->compensation) || p->repair;
    const graph *narrowed = request->narrowed.graph;
    CHECK(add_forward(r, g, end_node(r, g), 1.0, work));
    CHECK(add_forward(r, narrowed, beside ? end_node(r, narrowed) : 0, 1.0, work));
    return add_forward(r, g, passes_twice(p) ? g->node_count : 0, 1.0, work);
}

/* Adds `samples` of the way through a network: up to its outputs and what losses make of
 * these, or with `blocks` to the end of the blocks. */
static grail_status add_samples(const rows_of *r, const graph *g, bool blocks, double samples,
                                double *work)
{
    int begin = 0;
    int end = 0;
    rows_of some = *r;
    some.samples = samples * r->samples / (double)r->count;
    graph_block_range(g, g->block_count - 1, &begin, &end);
    if (blocks) {
        return add_forward(&some, g, end, 1.0, work);
    }
    const int64_t outputs = r->widths[r->request->graph->output];
    work[PROFILE_ELEMENTWISE] += rows_at(&some, g->output) * (double)outputs;
    return add_forward(&some, g, g->node_count, 1.0, work);
}

/* A metric of errors: forward and back, which is twice as much, and the products of the gradients
 * at each consumer that has one. */
static grail_status count_metric(const rows_of *r, double *work)
{
    static const double passes = 3.0;
    const compression_request *request = r->request;
    const graph *g = request->graph;
    const double seen = (double)fisher_samples(g, r->count);
    bool any = false;
    for (int i = 0; i < request->plan.count; i++) {
        const site *s = site_at(request, i);
        if (site_takes_metric(&request->plan, i, s)) {
            const map_size m = size_of(r, &g->nodes[s->consumers[0].node]);
            work[PROFILE_STATISTICS] += seen / (double)r->count * m.rows * m.outputs * m.outputs;
            any = true;
        }
    }
    return any ? add_samples(r, g, false, passes * seen, work) : GRAIL_OK;
}

/* All trainings, as if none ended early. A step runs forward and back, which is twice as much. The
 * dense network runs once for each sample, or for images, which change, in every pass. */
static grail_status count_healing(const rows_of *r, double *work)
{
    enum { SHOWN = 3, FEWEST = 4, JUDGEMENTS = 16 }; /* losses that are told, and judgements */
    static const double step = 3.0;
    const compression_request *request = r->request;
    const heal_options *h = &request->heal;
    const graph *g = request->graph;
    const graph *narrow = request->narrowed.graph;
    const input_kind input = g->input_kind;
    const bool of_images = input == INPUT_IMAGES;
    const int64_t count = h->chosen.own_samples > 0 ? h->chosen.own_samples : r->count;
    const double held = (double)heal_held_samples(input, count);
    const double seen = fmax(1.0, (double)count - held);
    const double stepped = (double)h->chosen.steps *
                           (double)heal_step_samples(h, input, (int64_t)r->length, (int64_t)seen);
    /* fewer where all would take more than an eighth of the steps, of four passes each */
    const double paid = fmax(FEWEST, 0.5 * stepped / held);
    const double judged = held * (SHOWN + fmin(fmin(JUDGEMENTS, paid), (double)h->chosen.steps));
    if (h->blocks) {
        CHECK(add_samples(r, g, true, (double)count, work));
        CHECK(add_samples(r, narrow, true, step * stepped + judged, work));
    }
    if (h->network) {
        const double beside = of_images ? stepped + judged : fmin((double)count, stepped + held);
        CHECK(add_samples(r, g, false, beside, work));
        CHECK(add_samples(r, narrow, false, step * stepped + judged, work));
    }
    return GRAIL_OK;
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
    r->length = of_images ? 1.0 : (double)tokens;
    r->samples = (double)r->count * r->length;
    return GRAIL_OK;
}

grail_status run_work_count(const grail_compression *c, const grail_compress_options *options,
                            int end, run_work *out)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    extent *extents = NULL;
    const graph *g = c->request->graph;
    rows_of r = {.request = c->request, .end = end};
    *out = (run_work){0};
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    TRY(measure(options, &r, widths, extents));
    TRY(count_closed(&r, out->closed, out->refits, &out->uses_data));
    TRY(count_curves(&r, out->curves));
    TRY(count_metric(&r, out->closed));
    if (heals(&c->request->heal)) {
        TRY(count_healing(&r, out->healing));
    }
    TRY(add_samples(&r, g, false, 1.0, out->sample));
    out->blocks = g->block_count;
    out->samples = r.count;
    out->drawn = c->request->samples->drawn;
    out->tokens_of_sample = r.length;
    out->bytes = BASE_BYTES + weight_bytes(&r);
    if (out->uses_data) {
        const double free = 0.5 * (double)machine_memory_read("").available;
        out->bytes += statistics_bytes(&r) + stream_bytes(&r, free);
    }
out:
    memory_free(widths);
    memory_free(extents);
    return status;
}

double run_work_seconds(const double *work, const grail_rates *rates)
{
    return work[PROFILE_PRODUCTS] * rates->products + work[PROFILE_ATTENTION] * rates->attention +
           work[PROFILE_ELEMENTWISE] * rates->elementwise +
           work[PROFILE_STATISTICS] * rates->statistics +
           work[PROFILE_SELECTION] * rates->selection + work[PROFILE_FITS] * rates->fits +
           work[PROFILE_WEIGHTS] * rates->weights;
}

/* Without a measurement a place takes what reading all weights does, and a token its part of a
 * sample. */
double run_work_drawing(const run_work *w, int64_t drawn, const grail_rates *rates)
{
    enum { AT_ONCE = 64 };
    const bool is_measured = rates->draw_windows > 0;
    const double sample = run_work_seconds(w->sample, rates);
    const drawing_times guessed = {.step = w->sample[PROFILE_WEIGHTS] * rates->weights,
                                   .window = sample / fmax(w->tokens_of_sample, 1.0),
                                   .at_once = AT_ONCE};
    const drawing_times measured = {
        .step = rates->draw_place, .window = rates->draw_token, .at_once = rates->draw_windows};
    return drawing_seconds(is_measured ? &measured : &guessed, drawn, (int64_t)w->tokens_of_sample);
}

/* What work that was counted for all samples takes for a share of them. */
static double seconds_of_share(const double *work, double share, const grail_rates *rates)
{
    static const profile_kind by_sample[] = {PROFILE_PRODUCTS, PROFILE_ATTENTION,
                                             PROFILE_ELEMENTWISE, PROFILE_STATISTICS};
    double part[PROFILE_KINDS];
    memcpy(part, work, sizeof part);
    for (size_t i = 0; i < sizeof by_sample / sizeof by_sample[0]; i++) {
        part[by_sample[i]] *= share;
    }
    return run_work_seconds(part, rates);
}

sample_cost run_work_cost(const double *work, int64_t samples, const grail_rates *rates)
{
    const double fixed = seconds_of_share(work, 0.0, rates);
    const double each = (seconds_of_share(work, 1.0, rates) - fixed) / (double)samples;
    return (sample_cost){.fixed = fixed, .each = each};
}

/* Trials of one site each: before the block that is cut the dense network is carried once, behind
 * it, half of the blocks on average, the quarter that judges alone. Two compressions judge. */
double run_work_of_trials(const run_work *w, width_trials t, const grail_rates *rates)
{
    double own[PROFILE_KINDS];
    const double count = (double)w->samples;
    const double share = fmin(1.0, (double)t.samples / count);
    for (int kind = 0; kind < PROFILE_KINDS; kind++) {
        own[kind] = w->closed[kind] - w->refits[kind];
    }
    const double run = seconds_of_share(own, share, rates);
    const double dense = seconds_of_share(w->sample, share * count, rates);
    const double behind = 0.5 * seconds_of_share(w->sample, share * count / JUDGING_ONE_IN, rates);
    const double blocks_more = fmax(0.0, t.alone / fmax(1.0, w->blocks) - 1.0);
    const double alone =
        t.alone > 0 ? run + 2.0 * blocks_more * dense + dense + t.alone * behind : 0.0;
    return seconds_of_share(w->curves, share, rates) + alone +
           (t.together + 2.0 * t.verdicts) * run;
}

/* A value is read and written at about 2 GB/s, and so is a weight. */
grail_rates grail_rates_of_machine(const grail_machine *machine, const char *precision)
{
    static const double reached = 0.8; /* bench_compress had 0.79 to 0.86 */
    static const double value = 4e-9;
    const bool in_bf16 = strncmp(precision, "bf16", 4) == 0;
    const double f32 = 1e-9 / reached / machine->sgemm_gflops;
    const double products = in_bf16 ? 1e-9 / reached / machine->bf16_gflops : f32;
    const double f64 = 1e-9 / reached / machine->dgemm_gflops;
    return (grail_rates){.products = products,
                         .attention = f32,
                         .elementwise = value,
                         .statistics = f32,
                         .selection = f64,
                         .fits = f64,
                         .weights = value,
                         .healing = 1.0};
}

grail_status grail_compression_forecast_at(const grail_compression *c,
                                           const grail_compress_options *options,
                                           const grail_rates *rates, grail_forecast *out)
{
    run_work work = {0};
    CHECK(run_work_count(c, options, c->request->graph->block_count, &work));
    const double closed = work.uses_data ? run_work_seconds(work.closed, rates) : 0.0;
    const double healing = rates->healing * run_work_seconds(work.healing, rates);
    *out = (grail_forecast){.bytes = (int64_t)work.bytes,
                            .heal_seconds = fmin(healing, c->request->heal.chosen.time)};
    out->draw_seconds = run_work_drawing(&work, work.drawn, rates);
    out->seconds = closed + out->heal_seconds + out->draw_seconds;
    if (work.uses_data || heals(&c->request->heal)) {
        out->samples = work.samples;
    }
    return GRAIL_OK;
}

grail_status grail_compression_forecast(const grail_compression *c,
                                        const grail_compress_options *options,
                                        const grail_machine *machine, grail_forecast *out)
{
    const grail_rates rates =
        grail_rates_of_machine(machine, backend_precision(c->request->backend));
    return grail_compression_forecast_at(c, options, &rates, out);
}
