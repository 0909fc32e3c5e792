/* Opens a run: checks everything that can be checked before anything is written. */
#include "pipeline/compression.h"
#include "pipeline/output/output_place.h"
#include "pipeline/ranks.h"
#include "pipeline/request/options.h"

static bool writes(const grail_compress_options *options)
{
    return options->output.path != NULL && comm_rank(options->run.comm) == 0;
}

/* What this rank can check by itself; *out is owned, also after a failure. */
static grail_status open_request(const grail_compress_options *options, request_purpose purpose,
                                 grail_compression **out)
{
    CHECK(compress_options_check(options));
    CHECK(memory_new(out, 1, sizeof **out));
    grail_compression *c = *out;
    buffer_init(&c->sections, SIZE_MAX / 4);
    if (options->run.profile != 0) {
        CHECK(memory_new(&c->profile, 1, sizeof *c->profile));
        profile_start(c->profile);
        profile_use(c->profile);
        profile_enter(PROFILE_FILES);
    }
    if (options->output.command != NULL) {
        CHECK(memory_copy_string(&c->command, options->output.command));
    }
    if (writes(options)) {
        CHECK(output_check_place(options, purpose.is_file));
    }
    CHECK(request_open(options, purpose, &c->request));
    const bool has_types = c->request->narrowed.target != NULL; /* of all tensors */
    return options->output.path != NULL && !has_types ? model_check_written(c->request->model)
                                                      : GRAIL_OK;
}

static grail_status open_network(const grail_compress_options *options, grail_compression *c)
{
    CHECK(network_create(c->request, options->run.memory, &c->network));
    if (options->output.dry_run != 0) {
        return GRAIL_OK;
    }
    if (options->output.path == NULL) {
        return kept_result_open(c->network, options->output.keep_non_finite != 0, &c->kept);
    }
    return writes(options)
               ? output_open(c->request, options, &c->network->passes.keep_activations, &c->output)
               : GRAIL_OK;
}

static grail_status look(grail_compression *c, const grail_compress_options *options)
{
    c->blocks_recorded = GRAPH_NONE;
    return writes(options) ? output_look(c->request, options, &c->blocks_recorded) : GRAIL_OK;
}

/* Where another rank failed, this one's output, which could begin, goes again. */
static grail_status settle_network(const grail_comm *comm, grail_status own, grail_compression *c)
{
    const grail_status status = comm_settle(comm, own);
    if (own == GRAIL_OK && status != GRAIL_OK && c->output != NULL) {
        output_after_failure(c->output, status);
    }
    return status;
}

grail_status compression_open(const grail_compress_options *options, request_purpose purpose,
                              grail_compression **out)
{
    grail_status status = GRAIL_OK;
    grail_compression *c = NULL;
    profile *before = profile_use(NULL);
    const grail_comm *comm = options->run.comm;
    TRY(comm_check(comm));
    TRY(comm_settle(comm, open_request(options, purpose, &c)));
    TRY(ranks_agree(c->request, options));
    TRY(settle_network(comm, open_network(options, c), c));
    TRY(ranks_begin(c));
    if (options->output.dry_run != 0) {
        TRY(comm_settle(comm, look(c, options)));
    }
    c->state = options->output.dry_run != 0 ? RUN_DESCRIBED : RUN_OPEN;
    *out = c;
    c = NULL;
out:
    profile_enter(PROFILE_REST);
    profile_use(before);
    grail_compression_close(c);
    return status;
}

grail_status grail_compression_open(const grail_compress_options *options, grail_compression **out)
{
    return compression_open(options, (request_purpose){.kept = NULL}, out);
}

void grail_compression_close(grail_compression *c)
{
    if (c == NULL) {
        return;
    }
    output_close(c->output);
    kept_result_free(c->kept);
    network_free(c->network);
    request_close(c->request);
    json_decref(c->report);
    buffer_fini(&c->sections);
    memory_free(c->command);
    memory_free(c->profile);
    memory_free(c);
}
