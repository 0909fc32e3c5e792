/* The numerics on plain buffers choose and fit what runs do: complete runs on small networks are
 * watched where they choose units and fit matrices, and the same is done there with the public
 * functions alone, from the same sums and weights. */
#include "vision_lab.h"

#include "pipeline/compression.h"
#include "pipeline/network/compensate.h"
#include "pipeline/network/decide.h"
#include "pipeline/network/regional.h"
#include "pipeline/request/consumer_tail.h"

#include <grail/select.h>

#include <string.h>

enum { MOST_ENDS = 8, MOST_EXPERTS = 16 };

/* What a run sets in the place of a weight: consumer_set, map_set. */
static struct {
    bool watched;
    float *weight; /* owned */
    double *bias;  /* owned */
    int64_t count, outputs;
    int choices, fits, refits, drifts; /* compared so far */
} seen;

static void forget(void)
{
    memory_free(seen.weight);
    memory_free(seen.bias);
    seen.weight = NULL;
    seen.bias = NULL;
}

static void note(matrix weight, const double *bias)
{
    if (seen.watched) {
        forget();
        assert_int_equal(matrix_count(weight), seen.count);
        assert_ok(memory_new(&seen.weight, (size_t)seen.count, sizeof seen.weight[0]));
        assert_ok(matrix_download_f32(weight, seen.weight));
        if (bias != NULL) {
            assert_ok(memory_new(&seen.bias, (size_t)seen.outputs, sizeof seen.bias[0]));
            memcpy(seen.bias, bias, (size_t)seen.outputs * sizeof bias[0]);
        }
    }
}

grail_status __real_consumer_set_matrix(const cutting *cut, parameter_store *current,
                                        const grail_reducer *reducer, int site, int consumer,
                                        matrix narrow, const double *bias_change);
grail_status __wrap_consumer_set_matrix(const cutting *cut, parameter_store *current,
                                        const grail_reducer *reducer, int site, int consumer,
                                        matrix narrow, const double *bias_change);
grail_status __wrap_consumer_set_matrix(const cutting *cut, parameter_store *current,
                                        const grail_reducer *reducer, int index, int consumer,
                                        matrix narrow, const double *bias_change)
{
    note(narrow, bias_change);
    return __real_consumer_set_matrix(cut, current, reducer, index, consumer, narrow, bias_change);
}

grail_status __real_map_set(const cutting *cut, parameter_store *current, int node_index,
                            matrix weight, const double *bias_change);
grail_status __wrap_map_set(const cutting *cut, parameter_store *current, int node_index,
                            matrix weight, const double *bias_change);
grail_status __wrap_map_set(const cutting *cut, parameter_store *current, int node_index,
                            matrix weight, const double *bias_change)
{
    note(weight, bias_change);
    return __real_map_set(cut, current, node_index, weight, bias_change);
}

/* -- sites as plain buffers -------------------------------------------------------------------- */

typedef struct plain_site {
    grail_site site;
    grail_unit_rows producers[MOST_ENDS], channels[MOST_ENDS];
    grail_unit_columns consumers[MOST_ENDS];
    float *owned[4 * MOST_ENDS];
    int owned_count;
} plain_site;

static const float *weights_of(parameter_store *dense, int parameter, plain_site *out)
{
    float *values = NULL;
    int64_t count = 0;
    if (parameter == GRAPH_NONE) {
        return NULL;
    }
    assert_ok(parameter_store_read_f32(dense, parameter, &values, &count));
    assert_true(out->owned_count < 4 * MOST_ENDS);
    out->owned[out->owned_count++] = values;
    return values;
}

static int64_t positions_of(const graph_parameter *p)
{
    return p->rank == 4 ? p->shape[2] * p->shape[3] : 1;
}

static grail_unit_rows rows_of(parameter_store *dense, const site_end *end, plain_site *out)
{
    const graph *g = dense->model->graph;
    const node *n = &g->nodes[end->node];
    grail_unit_rows rows = {.weight = weights_of(dense, n->weight, out),
                            .bias = weights_of(dense, n->bias, out),
                            .features_per_unit = end->features_per_unit,
                            .exchangeable = end->exchangeable};
    if (rows.weight != NULL) {
        const graph_parameter *p = &g->parameters[n->weight];
        rows.positions = positions_of(p);
        rows.columns = p->rank == 1 ? 1 : p->shape[1] * rows.positions;
    }
    return rows;
}

static grail_unit_columns columns_of(parameter_store *dense, const site_end *end, plain_site *out)
{
    const graph *g = dense->model->graph;
    const node *n = &g->nodes[end->node];
    const graph_parameter *p = &g->parameters[n->weight];
    return (grail_unit_columns){.weight = weights_of(dense, n->weight, out),
                                .outputs = p->shape[0],
                                .features_per_unit = end->features_per_unit,
                                .positions = positions_of(p),
                                .exchangeable = end->exchangeable};
}

/* A site without statistics. */
static void describe(const cutting *cut, parameter_store *dense, int index, plain_site *out)
{
    const site *s = cut_site(cut, index);
    *out = (plain_site){.owned_count = 0};
    grail_site_init(&out->site);
    out->site.kind = site_kind_name(s->kind);
    out->site.units = s->units;
    out->site.groups = s->groups;
    out->site.subunits = s->subunits;
    assert_true(s->producer_count <= MOST_ENDS && s->channel_count <= MOST_ENDS &&
                s->consumer_count <= MOST_ENDS);
    for (int i = 0; i < s->producer_count; i++) {
        out->producers[i] = rows_of(dense, &s->producers[i], out);
    }
    for (int i = 0; i < s->channel_count; i++) {
        out->channels[i] = rows_of(dense, &s->channels[i], out);
    }
    for (int i = 0; i < s->consumer_count; i++) {
        out->consumers[i] = columns_of(dense, &s->consumers[i], out);
    }
    out->site.producers = out->producers;
    out->site.producer_count = s->producer_count;
    out->site.channels = out->channels;
    out->site.channel_count = s->channel_count;
    out->site.consumers = out->consumers;
    out->site.consumer_count = s->consumer_count;
    out->site.seed = cut->plan->seed;
    out->site.stream = (uint64_t)index;
    out->site.bias = s->consumer_count > 0 &&
                     consumer_fits_bias(cut->graph, &cut->plan->compensation, s->consumers[0].node);
}

static void plain_site_fini(plain_site *s)
{
    for (int i = 0; i < s->owned_count; i++) {
        memory_free(s->owned[i]);
    }
}

static void assert_same_reducer(const grail_reducer *a, const grail_reducer *b)
{
    const int64_t units = grail_reducer_units(a);
    assert_int_equal(units, grail_reducer_units(b));
    assert_int_equal(grail_reducer_kept(a), grail_reducer_kept(b));
    assert_int_equal(grail_reducer_folds(a), grail_reducer_folds(b));
    assert_int_equal(grail_reducer_tied(a), grail_reducer_tied(b));
    assert_int_equal(grail_reducer_subunits(a), grail_reducer_subunits(b));
    for (int64_t j = 0; j < units; j++) {
        assert_int_equal(grail_reducer_label(a, j), grail_reducer_label(b, j));
    }
    int64_t *orders[2] = {NULL, NULL};
    const int64_t blocks = units * grail_reducer_subunits(a);
    for (int i = 0; i < 2; i++) {
        assert_ok(memory_new(&orders[i], (size_t)blocks, sizeof orders[i][0]));
        grail_reducer_order(i == 0 ? a : b, orders[i]);
    }
    assert_memory_equal(orders[0], orders[1], (size_t)blocks * sizeof orders[0][0]);
    memory_free(orders[0]);
    memory_free(orders[1]);
}

static void assert_selects(const cutting *cut, int index, plain_site *s,
                           const grail_reducer *chosen)
{
    grail_reducer *own = NULL;
    const plan_site *planned = &cut->plan->sites[index];
    assert_ok(grail_select(planned->selector->name, &s->site, planned->kept, &own));
    assert_same_reducer(own, chosen);
    grail_reducer_free(own);
    seen.choices++;
}

/* -- choices that are made from norms, from weights, or from the dense network's statistics ---- */

/* Statistics with the sums of a view's input; what it lacks is zero. */
static grail_statistics *statistics_of(const input_statistics *in)
{
    const size_t width = (size_t)in->width;
    grail_statistics *s = NULL;
    OWNED(double) *gram = NULL;
    OWNED(double) *sum = NULL;
    assert_false(matrix_exists(in->cross));
    assert_ok(memory_new(&gram, width * width, sizeof gram[0]));
    assert_ok(memory_new(&sum, width, sizeof sum[0]));
    if (matrix_exists(in->gram)) {
        assert_ok(matrix_download(in->gram, gram));
    }
    for (size_t i = 0; i < width; i++) {
        gram[i * width + i] = in->diagonal != NULL ? in->diagonal[i] : gram[i * width + i];
        sum[i] = in->means != NULL ? in->means[i] * in->weight : 0.0;
    }
    assert_ok(grail_statistics_create(in->width, 0, &s));
    const grail_sums sums = {.gram = gram, .sum = sum};
    assert_ok(grail_statistics_add_sums(s, (int64_t)in->rows, in->weight, &sums));
    return s;
}

grail_status __real_decide_site(const cutting *cut, int index, const site_view *known,
                                grail_reducer **out);
grail_status __wrap_decide_site(const cutting *cut, int index, const site_view *known,
                                grail_reducer **out);
grail_status __wrap_decide_site(const cutting *cut, int index, const site_view *known,
                                grail_reducer **out)
{
    plain_site s;
    grail_statistics *made[MOST_ENDS] = {NULL};
    const unsigned needs = selector_needs(cut->plan->sites[index].selector, cut_site(cut, index));
    double norms[MOST_EXPERTS] = {0.0};
    int64_t rows[MOST_EXPERTS] = {0};
    if (known->input_count > 0 && (needs & NEEDS_ALL_CONSUMERS) == 0) { /* seen at the consumer */
        return __real_decide_site(cut, index, known, out);
    }
    describe(cut, known->weights.context, index, &s);
    s.site.input_norms = known->input_norms;
    for (int64_t e = 0; known->routed != NULL && e < s.site.units; e++) {
        assert_true(e < MOST_EXPERTS);
        norms[e] = known->routed[e].norms;
        rows[e] = known->routed[e].rows;
    }
    s.site.routed_norms = known->routed == NULL ? NULL : norms;
    s.site.routed_rows = known->routed == NULL ? NULL : rows;
    for (int k = 0; k < known->input_count; k++) {
        made[k] = statistics_of(&known->inputs[k]);
        s.consumers[k].fit = made[k];
    }
    const grail_status status = __real_decide_site(cut, index, known, out);
    assert_ok(status);
    assert_selects(cut, index, &s, *out);
    for (int k = 0; k < known->input_count; k++) {
        grail_statistics_free(made[k]);
    }
    plain_site_fini(&s);
    return status;
}

/* -- choices and fits at a consumer ------------------------------------------------------------ */

/* The sums before the run changes them, and what else the fit takes. */
typedef struct plain_fit {
    grail_statistics *fit, *held;
    float *consumer;
    int64_t features, outputs, width;
    unsigned char *judged;
    grail_compensate_options options;
} plain_fit;

static void take_judged(const cutting *cut, const site_result *results, const observation *o,
                        plain_fit *out)
{
    const cut_axis *rows = &cut->axes[cut->graph->nodes[o->node].weight].rows;
    const grail_reducer *r = rows->site == GRAPH_NONE ? NULL : results[rows->site].reducer;
    if (r == NULL) {
        return;
    }
    assert_ok(memory_new(&out->judged, (size_t)out->outputs, sizeof out->judged[0]));
    for (int64_t i = 0; i < out->outputs; i++) {
        const int64_t unit = i / o->layout.tap_rows / rows->features;
        out->judged[i] = site_is_remade(cut->plan, rows->site) ? unit >= grail_reducer_units(r)
                                                               : grail_reducer_label(r, unit) >= 0;
    }
    out->options.judged = out->judged;
}

static grail_compensate_options options_of(const cutting *cut, const observation *o)
{
    const compensation *how = &cut->plan->compensation;
    grail_compensate_options options = {
        .target = o->mixes && !o->remade ? GRAIL_FIT_MIXED : GRAIL_FIT_USUAL,
        .prior = how->ridge == RIDGE_PRIOR,
        .diagonal = how->ridge_scale == RIDGE_SCALE_DIAGONAL,
        .of_all = how->ridge_of == RIDGE_OF_ALL,
        .bias = consumer_fits_bias(cut->graph, how, o->node),
        .bias_only = how->fit == FIT_BIAS_ONLY,
        .reduced = o->remade,
        .alpha = how->alpha.choice == GRAIL_NUMBER_GIVEN ? how->alpha.value : 1e-3,
        .cross_validate = how->alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED,
    };
    options.bias_only = options.bias_only && options.bias;
    return options;
}

/* The output of the dense network contains the map's bias. */
static void shift(const network_run *current, const observation *o, plain_fit *out)
{
    const int parameter = current->graph->nodes[o->node].bias;
    float *bias = NULL;
    double *wide = NULL;
    int64_t count = 0;
    if (parameter == GRAPH_NONE || o->target != OBSERVES_DENSE_OUTPUT) {
        return;
    }
    assert_ok(parameter_store_read_f32(current->parameters, parameter, &bias, &count));
    assert_ok(memory_new(&wide, (size_t)count, sizeof wide[0]));
    for (int64_t i = 0; i < count; i++) {
        wide[i] = (double)bias[i];
    }
    assert_ok(grail_statistics_shift_target(out->fit, wide));
    assert_ok(grail_statistics_shift_target(out->held, wide));
    memory_free(bias);
    memory_free(wide);
}

static void take_fit(const cutting *cut, const network_run *current, const site_result *results,
                     const observation *o, plain_fit *out)
{
    const consumer_layout *l = &o->layout;
    *out = (plain_fit){.outputs = l->rows * l->tap_rows, .width = l->features * l->taps};
    const size_t count = (size_t)(out->outputs * out->width);
    assert_ok(statistics_copy(o->fit, &out->fit));
    assert_ok(statistics_copy(o->held, &out->held));
    assert_ok(memory_new(&out->consumer, count, sizeof out->consumer[0]));
    memcpy(out->consumer, o->weight, count * sizeof out->consumer[0]);
    shift(current, o, out);
    out->options = options_of(cut, o);
    take_judged(cut, results, o, out);
}

static void plain_fit_fini(plain_fit *f)
{
    grail_statistics_free(f->fit);
    grail_statistics_free(f->held);
    memory_free(f->consumer);
    memory_free(f->judged);
}

/* The fit of the public functions is what was set last, bit for bit. */
static void assert_fits(plain_fit *f, const grail_reducer *reducer)
{
    grail_compensate_result result;
    float *weight = NULL;
    double *bias = NULL;
    assert_ok(memory_new(&weight, (size_t)seen.count, sizeof weight[0]));
    assert_ok(memory_new(&bias, (size_t)f->outputs, sizeof bias[0]));
    assert_ok(grail_compensate(f->fit, f->held, reducer, f->features, f->outputs, f->consumer,
                               &f->options, weight, f->options.bias != 0 ? bias : NULL, &result));
    if (seen.weight != NULL) {
        assert_memory_equal(weight, seen.weight, (size_t)seen.count * sizeof weight[0]);
    } else { /* a map that stays as it is */
        assert_int_equal(result.fallback, GRAIL_FALLBACK_PLAIN);
    }
    if (seen.bias != NULL) {
        assert_memory_equal(bias, seen.bias, (size_t)f->outputs * sizeof bias[0]);
    }
    memory_free(weight);
    memory_free(bias);
}

grail_status __real_compensate_consumer(const cutting *cut, observation *o, sample_passes *passes,
                                        const regional_gradients *gradients, matrix metric,
                                        site_result *results);
grail_status __wrap_compensate_consumer(const cutting *cut, observation *o, sample_passes *passes,
                                        const regional_gradients *gradients, matrix metric,
                                        site_result *results);
grail_status __wrap_compensate_consumer(const cutting *cut, observation *o, sample_passes *passes,
                                        const regional_gradients *gradients, matrix metric,
                                        site_result *results)
{
    plain_fit f;
    plain_site s;
    const bool chooses = results[o->site].reducer == NULL;
    const plan_site *planned = &cut->plan->sites[o->site];
    const site_end *end = &cut_site(cut, o->site)->consumers[o->consumer];
    const bool fits = cut->plan->compensation.enabled;
    take_fit(cut, passes->current, results, o, &f);
    if (chooses) {
        describe(cut, passes->dense->parameters, o->site, &s);
        s.site.target = f.options.target;
        s.consumers[o->consumer].fit = f.fit;
        s.consumers[o->consumer].held = f.held;
        s.consumers[o->consumer].gradients =
            regional_gradients_of(gradients, cut->graph->nodes[o->node].weight);
        assert_int_equal(o->consumer, 0);
    }
    f.features = end->features_per_unit * o->layout.taps;
    f.options.exchangeable = end->exchangeable;
    seen.watched = true;
    seen.count = f.outputs * planned->kept * f.features;
    seen.outputs = f.outputs;
    const grail_status status =
        __real_compensate_consumer(cut, o, passes, gradients, metric, results);
    seen.watched = false;
    assert_ok(status);
    if (chooses) {
        assert_selects(cut, o->site, &s, results[o->site].reducer);
        plain_site_fini(&s);
    }
    if (fits && grail_statistics_count(f.fit) > 0) {
        assert_fits(&f, results[o->site].reducer);
        seen.fits++;
    }
    forget();
    plain_fit_fini(&f);
    return status;
}

/* -- refits ------------------------------------------------------------------------------------ */

grail_status __real_compensate_map(const cutting *cut, observation *o, sample_passes *passes,
                                   const site_result *results, refit_list *refits);
grail_status __wrap_compensate_map(const cutting *cut, observation *o, sample_passes *passes,
                                   const site_result *results, refit_list *refits);
grail_status __wrap_compensate_map(const cutting *cut, observation *o, sample_passes *passes,
                                   const site_result *results, refit_list *refits)
{
    plain_fit f;
    take_fit(cut, passes->current, results, o, &f);
    f.features = 1;
    seen.watched = true;
    seen.count = f.outputs * f.width;
    seen.outputs = f.outputs;
    const grail_status status = __real_compensate_map(cut, o, passes, results, refits);
    seen.watched = false;
    assert_ok(status);
    assert_fits(&f, NULL);
    seen.refits++;
    forget();
    plain_fit_fini(&f);
    return status;
}

static void assert_refits_drift(const drift_sums *fit, const drift_sums *held, const plain_fit *f)
{
    const grail_drift parts[2] = {{*fit}, {*held}};
    grail_compensate_result result;
    OWNED(float) *weight = NULL;
    OWNED(double) *bias = NULL;
    assert_ok(memory_new(&weight, (size_t)seen.count, sizeof weight[0]));
    assert_ok(memory_new(&bias, (size_t)f->outputs, sizeof bias[0]));
    assert_ok(grail_drift_compensate(&parts[0], &parts[1], f->outputs, f->consumer, &f->options,
                                     weight, f->options.bias != 0 ? bias : NULL, &result));
    if (seen.weight != NULL) {
        assert_memory_equal(weight, seen.weight, (size_t)seen.count * sizeof weight[0]);
    } else {
        assert_int_equal(result.fallback, GRAIL_FALLBACK_PLAIN);
    }
}

grail_status __real_compensate_drifted_map(const cutting *cut, int node_index,
                                           const drift_sums *fit, const drift_sums *held,
                                           sample_passes *passes, const site_result *results,
                                           refit_list *refits);
grail_status __wrap_compensate_drifted_map(const cutting *cut, int node_index,
                                           const drift_sums *fit, const drift_sums *held,
                                           sample_passes *passes, const site_result *results,
                                           refit_list *refits);
grail_status __wrap_compensate_drifted_map(const cutting *cut, int node_index,
                                           const drift_sums *fit, const drift_sums *held,
                                           sample_passes *passes, const site_result *results,
                                           refit_list *refits)
{
    observation o = {0};
    plain_fit f = {0};
    assert_ok(observation_read_map(cut, passes->current->parameters, node_index, &o));
    f.outputs = o.layout.rows;
    f.consumer = o.weight;
    f.options = options_of(cut, &o);
    take_judged(cut, results, &o, &f);
    seen.watched = true;
    seen.count = o.layout.rows * o.layout.features;
    seen.outputs = f.outputs;
    const grail_status status =
        __real_compensate_drifted_map(cut, node_index, fit, held, passes, results, refits);
    seen.watched = false;
    assert_ok(status);
    assert_refits_drift(fit, held, &f);
    seen.drifts++;
    forget();
    memory_free(f.judged);
    observation_fini(&o);
    return status;
}

/* -- runs -------------------------------------------------------------------------------------- */

static void run(const grail_compress_options *options)
{
    OPENED(grail_compression, c, grail_compression_open(options, &c));
    assert_ok(grail_compression_run(c));
}

LAB_TEST(every_selector_chooses_as_in_a_run_on_text)
{
    memset(&seen, 0, sizeof seen);
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        const char *name = grail_selector_at(i);
        const int before = seen.choices;
        grail_compress_options options =
            lab_options(l, lab_golden(lab_is_for_experts(name) ? "mixtral" : "llama3"), NULL);
        if (lab_is_for_experts(name)) {
            options.amount.sparsity_ffn = 0.0;
            options.amount.sparsity_heads = 0.0;
            options.amount.sparsity_experts = 0.5;
        }
        options.cut.selector = name;
        options.cut.metric = "plain"; /* grail_select has no other */
        run(&options);
        assert_true(seen.choices > before);
    }
}

VISION_TEST(every_selector_chooses_as_in_a_run_on_images)
{
    static const vision_family families[] = {VISION_BASIC, VISION_TIMM_VIT};
    const char *const models[] = {vision_network(v, families[0], "basic"),
                                  vision_network(v, families[1], "vit")};
    memset(&seen, 0, sizeof seen);
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        const char *name = grail_selector_at(i);
        if (lab_is_for_experts(name) || strcmp(name, "wanda++") == 0) {
            continue;
        }
        for (int f = 0; f < 2; f++) {
            if (f == 0 && strncmp(name, "flap", 4) == 0) {
                continue; /* no rule for channels */
            }
            grail_compress_options options = vision_options(v, models[f], NULL);
            vision_cut(&options, 0.5);
            if (strncmp(name, "flap", 4) == 0) {
                options.amount.sparsity_stream = 0.0;
            }
            options.cut.selector = name;
            run(&options);
        }
    }
    assert_true(seen.choices > 20);
}

LAB_TEST(every_choice_of_the_fit_gives_the_weights_of_a_run)
{
    static const struct {
        const char *compensate, *target, *ridge_scale, *refit, *token_weights;
        double alpha;
    } cases[] = {
        {"grail", "local", "mean", "none", "none", 1e-3},
        {"full", "local", "diagonal", "none", "none", 0.0},
        {"full", "dense", "mean", "all", "stream", 0.0},
        {"full", "mixed", "diagonal", "all", "stream", 0.0},
        {"full", "mixed", "mean", "all", "none", 1e-2},
        {"own", NULL, NULL, NULL, NULL, 0.0},
    };
    static const char *const selectors[] = {"obs", "fold", "slimgpt"};
    const char *const models[] = {lab_golden("llama3"), lab_with_biases(l, "llama3", "biases")};
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int k = 0; k < 3; k++) {
            const bool own = strcmp(cases[i].compensate, "own") == 0;
            grail_compress_options options = lab_options(l, models[i % 2], NULL);
            options.cut.selector = own && k == 1 ? "flap" : selectors[k];
            options.cut.metric = "plain";
            options.fit.compensate = cases[i].compensate;
            if (!own) {
                options.fit.target = cases[i].target;
                options.fit.ridge_scale = cases[i].ridge_scale;
                options.fit.refit = cases[i].refit;
                options.fit.token_weights = cases[i].token_weights;
                if (cases[i].alpha > 0.0) {
                    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, cases[i].alpha};
                }
            }
            run(&options);
        }
    }
    assert_true(seen.fits > 20);
    assert_true(seen.refits + seen.drifts > 10);
    assert_true(seen.refits > 0 && seen.drifts > 0);
}

VISION_TEST(convolutions_are_fitted_as_in_a_run)
{
    static const char *const fits[] = {"kernel", "channel"};
    static const char *const selectors[] = {"obs", "fold"};
    const char *model = vision_network(v, VISION_BASIC, "model");
    memset(&seen, 0, sizeof seen);
    for (int i = 0; i < 4; i++) {
        grail_compress_options options = vision_options(v, model, NULL);
        vision_cut(&options, 0.5);
        options.cut.selector = selectors[i % 2];
        options.fit.conv_fit = fits[i / 2];
        run(&options);
    }
    assert_true(seen.fits > 10);
}
