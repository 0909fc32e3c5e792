/* Opening a run: everything that can be checked is checked here, before anything is written. */
#include "pipeline/compression.h"

#include "arch/model_text.h"
#include "base/file.h"
#include "reduce/budget.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    DEFAULT_SAMPLES = 128,
    BATCH_ROWS = 2048,
    PLAN_MAXIMUM = 64 << 20,
};

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
    if (file_exists(c->output)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it",
             c->output);
    }
    TRY(absolute_parent(c->output, &parent));
    if (access(parent, W_OK) != 0) {
        TRY(error_from_errno("cannot write to", parent));
    }
    model = realpath(options->model, NULL);
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
    if (output == NULL || output[0] == 0) {
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

static grail_status read_compensation(const grail_compress_options *o, compensation *out)
{
    grail_status status = GRAIL_OK;
    compensation c = {0};
    TRY(compensation_from_name(o->compensate, &c));
    if (o->target != NULL) {
        TRY(target_from_name(o->target, &c.target));
    }
    if (o->bias != NULL) {
        TRY(bias_from_name(o->bias, &c.bias));
    }
    if (o->ridge != NULL) {
        TRY(shrink_from_name(o->ridge, &c.shrink));
    }
    if (isinf(o->alpha)) {
        c.alpha = (double)NAN;
    } else if (!isnan(o->alpha)) {
        c.alpha = o->alpha;
    }
    if (c.alpha < 0.0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "alpha %g is negative", c.alpha);
    }
    *out = c;
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
    TRY(read_compensation(o, &how));
    if (o->plan != NULL) {
        TRY(read_plan_file(o->plan, &document));
        TRY(plan_read_gqa(o->plan, document, &gqa));
    }
    TRY(grail_model_sites(c->model,
                          gqa == GQA_KV_GROUPS ? GRAIL_GQA_KV_GROUPS : GRAIL_GQA_QUERY_PER_GROUP,
                          &c->sites));
    c->plan = (plan){.gqa = gqa, .seed = o->seed, .compensation = how};
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
            .sparsity = {[SITE_FFN] = o->sparsity_ffn, [SITE_HEADS] = o->sparsity_heads},
            .align = o->align,
        };
        TRY(budget_apply(&b, c->model->graph, &c->sites->list, &c->plan));
    }
out:
    memory_free(overrides);
    json_decref(document);
    return status;
}

static grail_status check_sites(const grail_compression *c)
{
    for (int i = 0; i < c->sites->list.count; i++) {
        const site *s = &c->sites->list.sites[i];
        if (site_is_cut(c, i) && s->consumer_count != 1) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "site '%s' has %d consumers; one is supported", s->name,
                             s->consumer_count);
        }
        if (site_is_cut(c, i) && s->groups > 1 && selector_folds(c->plan.sites[i].selector)) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "site '%s': folding works on whole KV groups; use --gqa kv-groups",
                             s->name);
        }
        const node *consumer = &c->model->graph->nodes[s->consumers[0].node];
        if (site_is_cut(c, i) && c->plan.compensation.enabled &&
            c->plan.compensation.bias == BIAS_ON && consumer->bias == GRAPH_NONE) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "site '%s': the checkpoint has no place for a bias there, and stock "
                             "loaders would not read one; use --bias auto or off",
                             s->name);
        }
    }
    return GRAIL_OK;
}

static bool needs_data(const grail_compression *c)
{
    for (int i = 0; i < c->sites->list.count; i++) {
        if (site_needs_statistics(c, i)) {
            return true;
        }
    }
    return false;
}

static grail_status read_windows(grail_compression *c, const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    TRY(model_read_windows(c->model, &o->calibration, &c->windows, c->tokenizer_hash));
    const int64_t most = c->windows.count < DEFAULT_SAMPLES ? c->windows.count : DEFAULT_SAMPLES;
    TRY(windows_sample(&c->windows, o->samples == 0 ? most : o->samples, o->seed));
    TRY(shingles_of_windows(&c->windows, &c->shingles));
out:
    return status;
}

static grail_status shingles_to_json(const shingle_set *set, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *list = json_array();
    for (int64_t i = 0; i < set->count; i++) {
        TRY(json_push(list, json_sprintf("%016llx", (unsigned long long)set->hashes[i])));
    }
    *out = list;
    list = NULL;
out:
    json_decref(list);
    return status;
}

static grail_status describe_calibration(grail_compression *c, const grail_text_source *source)
{
    grail_status status = GRAIL_OK;
    json_t *shingles = NULL;
    const bool used = c->windows.count > 0;
    c->calibration = json_object();
    if (!used) {
        return json_put(c->calibration, "samples", json_integer(0));
    }
    TRY(json_put(c->calibration, "file", json_string(source->path)));
    TRY(json_put(c->calibration, "text_sha256", json_string(c->windows.text_hash)));
    TRY(json_put(c->calibration, "tokenizer_sha256", json_string(c->tokenizer_hash)));
    TRY(json_put(c->calibration, "protocol",
                 json_string(source->protocol == NULL ? "plain" : source->protocol)));
    TRY(json_put(c->calibration, "context", json_integer(c->windows.length)));
    TRY(json_put(c->calibration, "window_bos", json_boolean(source->window_bos)));
    TRY(json_put(c->calibration, "samples", json_integer(c->windows.count)));
    TRY(json_put(c->calibration, "tokens", json_integer(c->windows.count * c->windows.length)));
    TRY(shingles_to_json(&c->shingles, &shingles));
    TRY(json_put(c->calibration, "shingles", shingles));
out:
    return status;
}

static grail_status read_calibration(grail_compression *c, const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    if (needs_data(c)) {
        if (o->calibration.path == NULL) {
            FAIL(GRAIL_ERROR_ARGUMENT,
                 "selector '%s' with this compensation needs calibration text; give --calib FILE",
                 o->selector);
        }
        TRY(read_windows(c, o));
    }
    TRY(describe_calibration(c, &o->calibration));
out:
    return status;
}

/* At least four batches when there are four samples, so that some can be held out. */
static void plan_batches(grail_compression *c)
{
    if (c->windows.count == 0) {
        return;
    }
    int64_t per_batch = BATCH_ROWS / c->windows.length;
    const int64_t quarter = (c->windows.count + 3) / 4;
    per_batch = per_batch > quarter ? quarter : per_batch;
    c->batch_sequences = per_batch > 1 ? per_batch : 1;
    c->batch_count = (c->windows.count + c->batch_sequences - 1) / c->batch_sequences;
}

/* Widest consumer input that would be kept for all tokens, in bytes. */
static double kept_bytes(const grail_compression *c)
{
    int64_t widest = 0;
    for (int i = 0; i < c->sites->list.count; i++) {
        const int64_t width = c->sites->facts[i].width;
        widest = site_is_cut(c, i) && width > widest ? width : widest;
    }
    return (double)widest * (double)c->windows.count * (double)c->windows.length *
           (double)c->backend->element_size;
}

static void decide_keeping(grail_compression *c, int64_t memory)
{
    double limit = (double)memory;
    if (memory == 0) {
        limit = 0.5 * (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    }
    c->keep_activations = kept_bytes(c) <= limit;
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
    TRY(stream_init(&c->stream, g, c->backend, c->batch_count));
    TRY(stream_init(&c->dense_stream, g, c->backend, c->batch_count));
    c->has_dense_stream = c->batch_count > 0 && c->plan.compensation.enabled &&
                          c->plan.compensation.target == TARGET_DENSE;
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
            .alpha = nan,
            .lambda = nan,
            .condition = nan,
            .fit_before = nan,
            .fit_after = nan,
            .held_before = nan,
            .held_after = nan,
            .fallback = "none",
        };
    }
out:
    return status;
}

grail_status grail_compression_open(const grail_compress_options *options, grail_compression **out)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    if (options->model == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no model was given");
    }
    TRY(memory_new(&c, 1, sizeof *c));
    c->observer = options->observer;
    c->observer_user = options->observer_user;
    TRY(set_paths(c, options->output));
    TRY(check_output(c, options));
    TRY(backend_find(options->backend, &c->backend));
    TRY(grail_model_open(options->model, &c->model));
    TRY(make_plan(c, options));
    TRY(check_sites(c));
    TRY(describe_result(c));
    if (!options->dry_run) {
        TRY(read_calibration(c, options));
    }
    plan_batches(c);
    decide_keeping(c, options->memory);
    TRY(create_runs(c));
    TRY(create_results(c));
    if (!options->dry_run) {
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
        grail_reducer_free(c->results[i].reducer);
    }
    memory_free(c->results);
    json_decref(c->state);
    json_decref(c->calibration);
    json_decref(c->config);
    checkpoint_writer_close(c->writer);
    memory_free(c->parameter_block);
    stream_fini(&c->stream);
    stream_fini(&c->dense_stream);
    execution_free(c->run);
    execution_free(c->dense_run);
    parameter_store_free(c->current);
    parameter_store_free(c->dense);
    buffer_pool_free(c->pool);
    token_windows_fini(&c->windows);
    shingle_set_fini(&c->shingles);
    graph_free(c->narrowed);
    plan_fini(&c->plan);
    grail_site_list_free(c->sites);
    grail_model_close(c->model);
    memory_free(c->output);
    memory_free(c->partial);
    memory_free(c);
}
