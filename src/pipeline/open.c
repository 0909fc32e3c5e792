/* Opening a run: everything that can be checked is checked here, before anything is written. */
#include "pipeline/compression.h"

#include "base/file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (file_exists(c->output->path)) {
        FAIL(GRAIL_ERROR_EXISTS, "'%s' exists already; choose another output or delete it",
             c->output->path);
    }
    TRY(absolute_parent(c->output->path, &parent));
    if (access(parent, W_OK) != 0) {
        TRY(error_from_errno("cannot write to", parent));
    }
    model = options->model == NULL ? NULL : realpath(options->model, NULL);
    if (model != NULL && is_inside(parent, model)) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the output '%s' lies inside the model '%s'; choose another",
             c->output->path, options->model);
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
    TRY(memory_new(&c->output, 1, sizeof *c->output));
    c->output->lock = -1;
    TRY(memory_copy_string(&c->output->path, output));
    char *path = c->output->path;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        path[--length] = 0;
    }
    TRY(memory_format(&c->output->partial, "%s.partial", path));
out:
    return status;
}

/* Widest consumer input that would be kept for all tokens, in bytes. */
static grail_status kept_bytes(const grail_compression *c, double *out)
{
    grail_status status = GRAIL_OK;
    extent *extents = NULL;
    double widest = 0.0;
    const graph *g = c->request->graph;
    TRY(memory_new(&extents, (size_t)g->value_count, sizeof extents[0]));
    TRY(graph_extents(g, c->request->samples->positions, extents));
    for (int i = 0; i < c->request->sites->list.count; i++) {
        const site *s = &c->request->sites->list.sites[i];
        for (int k = 0; site_is_cut(&c->request->plan, i) && k < s->consumer_count; k++) {
            const extent *x = &extents[g->nodes[s->consumers[k].node].inputs[0]];
            const double elements = (double)(site_wide_units(&c->request->plan, i) *
                                             s->consumers[k].features_per_unit) *
                                    (double)x->height * (double)x->width;
            widest = elements > widest ? elements : widest;
        }
    }
    *out = widest * (double)c->request->samples->count * (double)c->request->backend->element_size;
out:
    memory_free(extents);
    return status;
}

static grail_status decide_keeping(grail_compression *c, int64_t memory)
{
    double limit = (double)memory;
    double wanted = 0.0;
    grail_status status = GRAIL_OK;
    if (c->request->samples->count > 0) {
        TRY(kept_bytes(c, &wanted));
    }
    if (memory == 0) {
        limit = 0.5 * (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    }
    c->network->keep_activations = wanted <= limit;
out:
    return status;
}

static grail_status create_runs(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->request->graph;
    TRY(parameter_store_create(c->request->model, c->request->backend, NULL,
                               &c->network->dense.parameters));
    TRY(parameter_store_create(c->request->model, c->request->backend, c->network->dense.parameters,
                               &c->network->current.parameters));
    TRY(buffer_pool_create(&c->network->pool));
    TRY(execution_create(g, c->request->backend, c->network->pool, &c->network->current.execution));
    TRY(execution_create(g, c->request->backend, c->network->pool, &c->network->dense.execution));
    TRY(stream_init(&c->network->current.stream, g, c->request->backend,
                    c->request->samples->batch_count));
    TRY(stream_init(&c->network->dense.stream, g, c->request->backend,
                    c->request->samples->batch_count));
    c->network->has_dense_stream = c->request->samples->batch_count > 0 &&
                                   c->request->plan.compensation.enabled &&
                                   c->request->plan.compensation.target == TARGET_DENSE &&
                                   c->request->plan.loop == LOOP_CLOSED;
out:
    return status;
}

static grail_status create_results(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    TRY(memory_new(&c->network->results, (size_t)c->request->sites->list.count,
                   sizeof c->network->results[0]));
    for (int i = 0; i < c->request->sites->list.count; i++) {
        const grail_site_facts *facts = &c->request->sites->facts[i];
        const plan_site *planned = &c->request->plan.sites[i];
        const double nan = (double)NAN;
        c->network->results[i].report = (grail_site_report){
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

grail_status grail_compression_open(const grail_compress_options *options, grail_compression **out)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    if (options->model == NULL && options->session == NULL) {
        FAIL(GRAIL_ERROR_ARGUMENT, "no model was given");
    }
    TRY(memory_new(&c, 1, sizeof *c));
    TRY(memory_new(&c->network, 1, sizeof *c->network));
    TRY(set_paths(c, options->output));
    TRY(check_output(c, options));
    TRY(request_open(options, &c->request));
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

static void run_fini(network_run *run)
{
    stream_fini(&run->stream);
    execution_free(run->execution);
    parameter_store_free(run->parameters);
}

static void free_network(calibration_network *network, int sites)
{
    if (network == NULL) {
        return;
    }
    for (int i = 0; network->results != NULL && i < sites; i++) {
        site_result_fini(&network->results[i]);
    }
    memory_free(network->results);
    run_fini(&network->current);
    run_fini(&network->dense);
    buffer_pool_free(network->pool);
    memory_free(network);
}

static void close_output(grail_compression *c)
{
    narrow_output *output = c->output;
    if (output == NULL) {
        return;
    }
    json_decref(output->records);
    checkpoint_writer_close(output->writer);
    state_end(c);
    memory_free(output->parameter_block);
    memory_free(output->tensor_parameter);
    memory_free(output->next_part);
    memory_free(output->path);
    memory_free(output->partial);
    memory_free(output);
}

void grail_compression_close(grail_compression *c)
{
    if (c == NULL) {
        return;
    }
    close_output(c);
    free_network(c->network, c->request == NULL ? 0 : c->request->plan.count);
    request_close(c->request);
    memory_free(c);
}
