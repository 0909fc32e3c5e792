#include "pipeline/ranks.h"

#include "base/hash.h"
#include "pipeline/output/fingerprint.h"
#include "pipeline/output/run_records.h"
#include "pipeline/output/tensors.h"

#include <string.h>

/* -- agreeing ---------------------------------------------------------------------------------- */

/* *other becomes the document of rank 0; owned. */
static grail_status exchange(const grail_comm *comm, const json_t *own, json_t **other)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    char *received = NULL;
    buffer_init(&text, SIZE_MAX / 4);
    if (comm_rank(comm) == 0) {
        TRY(json_append_text(own, &text));
        TRY(memory_copy_string(&received, (const char *)text.bytes));
    }
    TRY(comm_broadcast_text(comm, 0, &received));
    TRY(json_parse("what rank 0 tells", received, strlen(received), other));
out:
    buffer_fini(&text);
    memory_free(received);
    return status;
}

grail_status ranks_agree(const compression_request *request, const grail_compress_options *options)
{
    grail_status status = GRAIL_OK;
    const source_files none = {0}; /* they are compared by what they hold */
    json_t *own = NULL;
    json_t *first = NULL;
    char tensors[HASH_TEXT_SIZE];
    if (!comm_is_shared(request->comm)) {
        return GRAIL_OK;
    }
    own = json_object();
    TRY(fingerprint_of_run(request, options, &none, own));
    model_digest(request->model, tensors);
    TRY(json_put(own, "tensors", json_text(tensors)));
    TRY(exchange(request->comm, own, &first));
    TRY(fingerprint_compare_ranks(first, own));
out:
    json_decref(own);
    json_decref(first);
    return status;
}

/* -- going on ---------------------------------------------------------------------------------- */

grail_status ranks_begin(grail_compression *c)
{
    int32_t state[] = {0, 0, c->network->keep_activations ? 1 : 0};
    if (c->output != NULL) {
        state[0] = c->output->blocks_recorded;
        state[1] = c->output->is_complete ? 1 : 0;
    }
    CHECK(comm_broadcast(c->request->comm, 0, state, sizeof state));
    c->blocks_recorded = state[0];
    c->is_written = state[1] != 0;
    c->network->keep_activations = state[2] != 0;
    return GRAIL_OK;
}

grail_status ranks_restore_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    json_t *record = NULL;
    if (!comm_is_shared(c->request->comm)) {
        return output_restore_block(c->output, block, c->network);
    }
    TRY(exchange(c->request->comm,
                 c->output == NULL ? NULL : record_of_block(c->output->directory, block), &record));
    TRY(record_restore(record, block, false, "what rank 0 tells", c->network));
out:
    json_decref(record);
    return status;
}

grail_status ranks_read_parameter(const grail_compression *c, int parameter, float **out)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = c->request->comm;
    float *values = NULL;
    int64_t count = 0;
    if (comm_rank(comm) == 0) {
        TRY(tensors_read_parameter(c->network, &c->output->map, c->output->writer, parameter,
                                   &count, &values));
    }
    TRY(comm_broadcast(comm, 0, &count, sizeof count));
    if (comm_rank(comm) != 0) {
        TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    }
    TRY(comm_broadcast(comm, 0, values, (size_t)count * sizeof values[0]));
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}
