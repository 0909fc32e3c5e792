#include "pipeline/ranks.h"

#include "base/hash.h"
#include "pipeline/network/narrow.h"
#include "pipeline/output/fingerprint.h"
#include "pipeline/output/run_records.h"
#include "pipeline/output/tensors.h"

#include <string.h>

/* -- agreeing ---------------------------------------------------------------------------------- */

static grail_status text_of(const json_t *document, char **out)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, SIZE_MAX / 4);
    TRY(json_append_text(document, &text));
    TRY(memory_copy_string(out, (const char *)text.bytes));
out:
    buffer_fini(&text);
    return status;
}

/* *other becomes the document of rank 0; owned. All ranks fail where one does. */
static grail_status exchange(const grail_comm *comm, const json_t *own, json_t **other)
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    TRY(comm_settle(comm, comm_rank(comm) == 0 ? text_of(own, &text) : GRAIL_OK));
    TRY(comm_broadcast_text(comm, 0, &text));
    TRY(comm_settle(comm, json_parse("what rank 0 tells", text, strlen(text), other)));
out:
    memory_free(text);
    return status;
}

/* Takes out where samples lie, in their description with all its parts: each rank may have them
 * elsewhere, and hashes say what they hold. */
static void forget_places(json_t *description)
{
    static const char *const keys[] = {"file", "images"};
    const char *key = NULL;
    json_t *value = NULL;
    size_t i = 0;
    for (size_t k = 0; json_is_object(description) && k < sizeof keys / sizeof keys[0]; k++) {
        if (json_is_string(json_object_get(description, keys[k]))) {
            (void)json_object_del(description, keys[k]);
        }
    }
    json_object_foreach (description, key, value) {
        forget_places(value);
    }
    json_array_foreach (description, i, value) {
        forget_places(value);
    }
}

/* What must be the same on all ranks, with what decides where a rank ends. Files are compared by
 * what they hold. */
static grail_status describe(const compression_request *request,
                             const grail_compress_options *options, json_t *own)
{
    CHECK(fingerprint_of_run(request, options, NULL, own));
    forget_places(json_object_get(own, "calibration"));
    CHECK(json_put(own, "dry_run", json_boolean(options->output.dry_run != 0)));
    return json_put(own, "has_output", json_boolean(options->output.path != NULL));
}

grail_status ranks_agree(const compression_request *request, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    json_t *own = NULL;
    json_t *first = NULL;
    if (!comm_is_shared(request->comm)) {
        return GRAIL_OK;
    }
    own = json_object();
    TRY(comm_settle(request->comm, describe(request, options, own)));
    TRY(exchange(request->comm, own, &first));
    TRY(comm_settle(request->comm, fingerprint_compare_ranks(first, own)));
out:
    json_decref(own);
    json_decref(first);
    return status;
}

/* -- going on ---------------------------------------------------------------------------------- */

grail_status ranks_begin(grail_compression *c)
{
    int32_t state[] = {0, 0, c->network->passes.keep_activations ? 1 : 0, 0};
    if (c->output != NULL) {
        state[0] = c->output->blocks_recorded;
        state[1] = c->output->is_complete ? 1 : 0;
        state[3] = c->output->is_fitted ? 1 : 0;
    }
    CHECK(comm_broadcast(c->request->comm, 0, state, sizeof state));
    c->blocks_recorded = state[0];
    c->is_written = state[1] != 0;
    c->network->passes.keep_activations = state[2] != 0;
    c->is_fitted = state[3] != 0;
    return GRAIL_OK;
}

/* Restores the results of a block, or with `every` of all, from a record that rank 0 has. */
static grail_status restore_record(grail_compression *c, const json_t *own, int block, bool every)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = c->request->comm;
    json_t *record = NULL;
    if (!comm_is_shared(comm)) {
        return record_restore(own, block, every, record_partial(c->output->record), c->network);
    }
    TRY(exchange(comm, own, &record));
    TRY(comm_settle(comm, record_restore(record, block, every, "what rank 0 tells", c->network)));
out:
    json_decref(record);
    return status;
}

grail_status ranks_restore_block(grail_compression *c, int block)
{
    return restore_record(
        c, c->output == NULL ? NULL : record_get(c->output->record, RECORD_BLOCK, &block), block,
        false);
}

/* The record of all blocks at once, or with finished blocks one for each. */
grail_status ranks_restore(grail_compression *c, const char *key)
{
    const json_t *all = c->output == NULL ? NULL : record_get(c->output->record, key, NULL);
    bool at_once = all != NULL;
    CHECK(comm_broadcast(c->request->comm, 0, &at_once, sizeof at_once));
    if (at_once) {
        return restore_record(c, all, GRAPH_NONE, true);
    }
    for (int block = 0; block < c->blocks_recorded; block++) {
        CHECK(ranks_restore_block(c, block));
    }
    return GRAIL_OK;
}

grail_status ranks_restore_fitted(grail_compression *c, const recorded_parameters *recorded)
{
    const graph *g = c->request->graph;
    CHECK(ranks_restore(c, RECORD_FITTED));
    for (int p = 0; p < g->parameter_count; p++) {
        if (!graph_is_table(g, p)) { /* such a one is as it was */
            CHECK(restore_parameter(p, recorded, c->network->current.parameters));
        }
    }
    return silence_dropped(&c->request->cut, c->network->current.parameters);
}

grail_status ranks_read_parameter(const void *compression, int parameter, float **out)
{
    const grail_compression *c = compression;
    grail_status status = GRAIL_OK;
    const grail_comm *comm = c->request->comm;
    const bool reads = comm_rank(comm) == 0;
    float *values = NULL;
    int64_t count = 0;
    TRY(comm_settle(comm,
                    reads ? tensors_read_parameter(c->network, &c->output->tensors.map,
                                                   c->output->writer, parameter, &count, &values)
                          : GRAIL_OK));
    TRY(comm_broadcast(comm, 0, &count, sizeof count));
    TRY(comm_settle(comm,
                    reads ? GRAIL_OK : memory_new_unset(&values, (size_t)count, sizeof values[0])));
    TRY(comm_broadcast_next(comm, 0, values, (size_t)count * sizeof values[0]));
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}
