/* Opening a run: everything that can be checked is checked here, before anything is written. */
#include "pipeline/compression.h"

#include "base/file.h"
#include "pipeline/options.h"
#include "reduce/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLAN_MAXIMUM = 64 << 20 };

void grail_compress_options_init(grail_compress_options *options)
{
    *options = (grail_compress_options){
        .selector = "wanda",
        .compensate = "full",
        .alpha = (double)NAN,
        .backend = "cpu",
    };
}

const char *grail_selector_at(int i)
{
    return selector_name_at(i);
}

const site *site_at(const grail_compression *c, int index)
{
    return &c->sites->list.sites[index];
}

bool site_is_cut(const grail_compression *c, int index)
{
    return c->plan.sites[index].kept < c->plan.sites[index].units;
}

bool site_needs_statistics(const grail_compression *c, int index)
{
    return site_is_cut(c, index) && (c->plan.compensation.enabled ||
                                     selector_needs_statistics(c->plan.sites[index].selector));
}

/* Absolute path of a directory's parent joined with its name: OUTPUT does not exist yet. */
static grail_status absolute_parent(const char *path, char **out)
{
    grail_status status = GRAIL_OK;
    char *copy = NULL;
    char *real = NULL;
    TRY(memory_copy_string(&copy, path));
    char *slash = strrchr(copy, '/');
    if (slash == copy) {
        slash[1] = 0;
    } else if (slash != NULL) {
        *slash = 0;
    }
    const char *parent = slash == NULL ? "." : copy;
    real = realpath(parent, NULL);
    if (real == NULL) {
        TRY(error_from_errno("cannot find the directory of the output,", parent));
    }
    TRY(memory_copy_string(out, real));
out:
    free(real); /* realpath's own allocator */
    memory_free(copy);
    return status;
}

static bool is_inside(const char *path, const char *directory)
{
    const size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (path[length] == 0 || path[length] == '/');
}

static grail_status check_output(const grail_compression *c, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    char *parent = NULL;
    char *model = NULL;
    if (c->output == NULL) {
        return GRAIL_OK;
    }
    if (file_exists(c->output)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it",
             c->output);
    }
    TRY(absolute_parent(c->output, &parent));
    if (access(parent, W_OK) != 0) {
        TRY(error_from_errno("cannot write to", parent));
    }
    model = options->model == NULL ? NULL : realpath(options->model, NULL);
    if (model != NULL && is_inside(parent, model)) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the output '%s' lies inside the model '%s'; choose another",
             c->output, options->model);
    }
out:
    free(model); /* realpath's own allocator */
    memory_free(parent);
    return status;
}

/* "OUT/" and "OUT" are the same directory. */
static grail_status set_paths(grail_compression *c, const char *output)
{
    grail_status status = GRAIL_OK;
    if (output == NULL) {
        return GRAIL_OK;
    }
    if (output[0] == 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no output directory was given");
    }
    TRY(memory_copy_string(&c->output, output));
    size_t length = strlen(c->output);
    while (length > 1 && c->output[length - 1] == '/') {
        c->output[--length] = 0;
    }
    TRY(memory_format(&c->partial, "%s.partial", c->output));
out:
    return status;
}

static grail_status read_plan_file(const char *path, json_t **out)
{
    return json_read_file(path, PLAN_MAXIMUM, out);
}

/* Plan from a document, or from selector and sparsity. */
static grail_status make_plan(grail_compression *c, const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    site_sparsity *overrides = NULL;
    selector_kind selector = SELECTOR_WANDA;
    gqa_mode gqa = o->gqa == GRAIL_GQA_KV_GROUPS ? GQA_KV_GROUPS : GQA_QUERY_PER_GROUP;
    compensation how = {0};
    TRY(selector_from_name(o->selector, &selector));
    TRY(compensation_from_options(o, &how));
    if (o->plan != NULL) {
        TRY(read_plan_file(o->plan, &document));
        TRY(plan_read_gqa(o->plan, document, &gqa));
    }
    TRY(grail_model_sites(c->model,
                          gqa == GQA_KV_GROUPS ? GRAIL_GQA_KV_GROUPS : GRAIL_GQA_QUERY_PER_GROUP,
                          &c->sites));
    c->plan = (plan){.gqa = gqa,
                     .seed = o->seed,
                     .loop = o->open_loop != 0 ? LOOP_OPEN : LOOP_CLOSED,
                     .repair = o->repair != 0,
                     .compensation = how};
    if (o->stream_score != NULL) {
        TRY(stream_score_from_name(o->stream_score, &c->plan.stream_score));
    }
    TRY(plan_init(&c->plan, &c->sites->list, selector));
    if (document != NULL) {
        TRY(plan_read(o->plan, document, &c->sites->list, &c->plan));
    } else {
        TRY(memory_new(&overrides, (size_t)o->site_sparsity_count, sizeof overrides[0]));
        for (int i = 0; i < o->site_sparsity_count; i++) {
            overrides[i] = (site_sparsity){.site = o->site_sparsities[i].site,
                                           .sparsity = o->site_sparsities[i].sparsity};
        }
        const budget b = {
            .overrides = overrides,
            .override_count = o->site_sparsity_count,
            .sparsity = {[SITE_FFN] = o->sparsity_ffn,
                         [SITE_HEADS] = o->sparsity_heads,
                         [SITE_CONV] = o->sparsity_conv,
                         [SITE_STREAM] = o->sparsity_stream},
            .align = o->align,
        };
        TRY(budget_apply(&b, c->model->graph, &c->sites->list, &c->plan));
    }
out:
    memory_free(overrides);
    json_decref(document);
    return status;
}

/* Where a bias of a consumer could go is known before anything is run. */
static grail_status check_bias(const grail_compression *c, const site *s)
{
    const graph *g = c->model->graph;
    for (int k = 0; k < s->consumer_count; k++) {
        const node *n = &g->nodes[s->consumers[k].node];
        if (c->plan.compensation.enabled && c->plan.compensation.bias == BIAS_ON &&
            consumer_bias_slot(g, n).parameter == GRAPH_NONE) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "site '%s': the checkpoint has no place for a bias there, and stock "
                             "loaders would not read one; use --bias auto or off",
                             s->name);
        }
    }
    return GRAIL_OK;
}

static grail_status check_site(const grail_compression *c, int index)
{
    const site *s = &c->sites->list.sites[index];
    const selector_kind selector = c->plan.sites[index].selector;
    if (s->groups > 1 && selector_folds(selector)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "site '%s': folding works on whole KV groups; use --gqa kv-groups",
                         s->name);
    }
    if (s->kind == SITE_HEADS && selector_folds(selector) && loop_is_open(c)) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "site '%s': folded heads are not the mean of heads, so their output must "
                         "be observed; use --loop closed",
                         s->name);
    }
    if (s->kind == SITE_STREAM && selector_needs_statistics(selector) &&
        c->plan.stream_score == STREAM_SCORE_ALL) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "site '%s': selector '%s' is decided before the later producers have run; "
                         "use --stream-score first",
                         s->name, selector_name(selector));
    }
    return check_bias(c, s);
}

static grail_status check_sites(const grail_compression *c)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; i < c->sites->list.count; i++) {
        if (site_is_cut(c, i)) {
            TRY(check_site(c, i));
        }
    }
out:
    return status;
}

bool loop_is_open(const grail_compression *c)
{
    return c->plan.loop == LOOP_OPEN;
}

static bool needs_data(const grail_compression *c)
{
    if (c->plan.repair && anything_is_cut(c)) {
        return true;
    }
    for (int i = 0; i < c->sites->list.count; i++) {
        if (site_needs_statistics(c, i)) {
            return true;
        }
    }
    return false;
}

/* Whether a consumer is cut by rows too: its narrow tensor does not give back what is left out. */
static bool is_read_by_a_producer(const grail_compression *c, const site *s)
{
    for (int k = 0; k < s->consumer_count; k++) {
        const int weight = c->model->graph->nodes[s->consumers[k].node].weight;
        if (c->cuts[weight].rows.site != GRAPH_NONE) {
            return true;
        }
    }
    return false;
}

/* A site that spans blocks, one outside all blocks, and BatchNorms everywhere are finished only
 * with the network; so is what nobody writes. */
static bool finishes_at_once(const grail_compression *c)
{
    const graph *g = c->model->graph;
    for (int i = 0; i < c->sites->list.count; i++) {
        const site *s = &c->sites->list.sites[i];
        const bool outside = s->block == GRAPH_NONE || s->block == g->block_count;
        if (site_is_cut(c, i) &&
            (outside || site_spans_blocks(g, s) || is_read_by_a_producer(c, s))) {
            return true;
        }
    }
    return c->output == NULL || loop_is_open(c) || (c->plan.repair && anything_is_cut(c));
}

static grail_status read_calibration(grail_compression *c, const grail_compress_options *o)
{
    return needs_data(c) && !o->dry_run ? session_calibration(c->session, o, &c->calibration)
                                        : calibration_empty(&c->calibration);
}

/* Units of a cut site in the calibration network: of a folding, the clusters too. */
static int64_t calibrated_units(const grail_compression *c, int index)
{
    const plan_site *p = &c->plan.sites[index];
    return p->units + (selector_folds(p->selector) ? p->kept : 0);
}

/* Widest consumer input that would be kept for all tokens, in bytes. */
static grail_status kept_bytes(const grail_compression *c, double *out)
{
    grail_status status = GRAIL_OK;
    extent *extents = NULL;
    double widest = 0.0;
    const graph *g = c->model->graph;
    TRY(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    TRY(graph_extents(g, c->calibration->positions, extents));
    for (int i = 0; i < c->sites->list.count; i++) {
        const site *s = &c->sites->list.sites[i];
        for (int k = 0; site_is_cut(c, i) && k < s->consumer_count; k++) {
            const extent *x = &extents[g->nodes[s->consumers[k].node].inputs[0]];
            const double elements =
                (double)(calibrated_units(c, i) * s->consumers[k].features_per_unit) *
                (double)x->height * (double)x->width;
            widest = elements > widest ? elements : widest;
        }
    }
    *out = widest * (double)c->calibration->count * (double)c->backend->element_size;
out:
    memory_free(extents);
    return status;
}

static grail_status decide_keeping(grail_compression *c, int64_t memory)
{
    double limit = (double)memory;
    double wanted = 0.0;
    grail_status status = GRAIL_OK;
    if (c->calibration->count > 0) {
        TRY(kept_bytes(c, &wanted));
    }
    if (memory == 0) {
        limit = 0.5 * (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    }
    c->keep_activations = wanted <= limit;
out:
    return status;
}

static grail_status create_runs(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->model->graph;
    TRY(parameter_store_create(c->model, c->backend, NULL, &c->dense));
    TRY(parameter_store_create(c->model, c->backend, c->dense, &c->current));
    TRY(buffer_pool_create(&c->pool));
    TRY(execution_create(g, c->backend, c->pool, &c->run));
    TRY(execution_create(g, c->backend, c->pool, &c->dense_run));
    TRY(stream_init(&c->stream, g, c->backend, c->calibration->batch_count));
    TRY(stream_init(&c->dense_stream, g, c->backend, c->calibration->batch_count));
    c->has_dense_stream = c->calibration->batch_count > 0 && c->plan.compensation.enabled &&
                          c->plan.compensation.target == TARGET_DENSE && !loop_is_open(c);
out:
    return status;
}

static grail_status create_results(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    TRY(memory_new(&c->results, (size_t)c->sites->list.count, sizeof c->results[0]));
    for (int i = 0; i < c->sites->list.count; i++) {
        const grail_site_facts *facts = &c->sites->facts[i];
        const plan_site *planned = &c->plan.sites[i];
        const double nan = (double)NAN;
        c->results[i].report = (grail_site_report){
            .name = facts->name,
            .kind = facts->kind,
            .selector = selector_name(planned->selector),
            .block = facts->block,
            .units = planned->units,
            .kept = planned->kept,
            .width = facts->width,
            .narrow = planned->kept * facts->features_per_unit,
            .fit = {.alpha = nan,
                    .lambda = nan,
                    .condition = nan,
                    .fit_before = nan,
                    .fit_after = nan,
                    .held_before = nan,
                    .held_after = nan,
                    .fallback = "none"},
        };
    }
out:
    return status;
}

static grail_status use_session(grail_compression *c, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    if (options->session == NULL) {
        TRY(grail_session_open(options->model, options->reading, &c->own_session));
    }
    c->session = options->session != NULL ? options->session : c->own_session;
    c->model = c->session->model;
out:
    return status;
}

grail_status grail_compression_open(const grail_compress_options *options, grail_compression **out)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    if (options->model == NULL && options->session == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no model was given");
    }
    TRY(memory_new(&c, 1, sizeof *c));
    c->lock = -1;
    c->observer = options->observer;
    c->observer_user = options->observer_user;
    TRY(set_paths(c, options->output));
    TRY(check_output(c, options));
    TRY(backend_find(options->backend, &c->backend));
    TRY(use_session(c, options));
    TRY(make_plan(c, options));
    TRY(map_cuts(c));
    TRY(check_sites(c));
    TRY(describe_result(c));
    TRY(read_calibration(c, options));
    c->whole = finishes_at_once(c);
    TRY(decide_keeping(c, options->memory));
    TRY(create_runs(c));
    TRY(create_results(c));
    if (!options->dry_run && c->output != NULL) {
        TRY(state_begin(c, options));
    }
    *out = c;
    c = NULL;
out:
    grail_compression_close(c);
    return status;
}

void grail_compression_close(grail_compression *c)
{
    if (c == NULL) {
        return;
    }
    for (int i = 0; c->results != NULL && i < c->sites->list.count; i++) {
        site_result_fini(&c->results[i]);
    }
    memory_free(c->results);
    json_decref(c->state);
    json_decref(c->config);
    checkpoint_writer_close(c->writer);
    state_end(c);
    memory_free(c->parameter_block);
    memory_free(c->tensor_parameter);
    memory_free(c->next_part);
    memory_free(c->cuts);
    stream_fini(&c->stream);
    stream_fini(&c->dense_stream);
    execution_free(c->run);
    execution_free(c->dense_run);
    parameter_store_free(c->current);
    parameter_store_free(c->dense);
    buffer_pool_free(c->pool);
    calibration_release(c->calibration);
    graph_free(c->narrowed);
    plan_fini(&c->plan);
    grail_site_list_free(c->sites);
    grail_session_close(c->own_session);
    memory_free(c->output);
    memory_free(c->partial);
    memory_free(c);
}
