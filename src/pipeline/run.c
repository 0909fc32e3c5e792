/* The run: streams begin, blocks one after the other, companions last. */
#include "pipeline/compression.h"

#include <string.h>

static void release_block(grail_compression *c, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(c->request->graph, block, &begin, &end);
    parameter_store_release_range(c->network->current.parameters, begin, end);
    parameter_store_release_range(c->network->dense.parameters, begin, end);
    buffer_pool_clear(c->network->pool);
}

/* Without data a finished block needs no replay: nothing later depends on a stream. */
static grail_status replay_blocks(grail_compression *c, int finished)
{
    grail_status status = GRAIL_OK;
    checkpoint *recorded = NULL;
    if (finished == 0) {
        return GRAIL_OK;
    }
    TRY(checkpoint_open(c->output->partial, &recorded));
    for (int block = 0; block < finished; block++) {
        TRY(state_restore_block(c, block));
        TRY(compress_block(c, block, recorded));
        release_block(c, block);
    }
    c->network->blocks_replayed = finished;
out:
    checkpoint_close(recorded);
    return status;
}

static grail_status fresh_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    TRY(compress_block(c, block, NULL));
    if (!c->request->finishes_with_network) {
        TRY(write_block(c, block));
        TRY(state_record_block(c, block));
        release_block(c, block);
    }
    TRY(tell_observer(c, block, NULL)); /* a run cancelled here has lost nothing */
out:
    return status;
}

/* What is outside the blocks: written at once where nothing there is cut, with everything else at
 * the end where it is. */
static grail_status run_beginning(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    if (!c->request->finishes_with_network) {
        TRY(write_block(c, GRAPH_NONE));
    }
    if (c->request->plan.loop == LOOP_OPEN && c->request->samples->count > 0) {
        TRY(open_loop_collect(c));
    }
    TRY(compress_block(c, GRAPH_NONE, NULL));
out:
    return status;
}

/* The head, REPAIR after an open loop, and all that could not be written before. */
static grail_status run_end(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    if (!c->request->finishes_with_network) {
        return GRAIL_OK;
    }
    TRY(compress_block(c, c->request->graph->block_count, NULL));
    if (c->request->plan.loop == LOOP_OPEN) {
        TRY(repair_network(c));
    }
    for (int block = GRAPH_NONE; c->output != NULL && block < c->request->graph->block_count;
         block++) {
        TRY(write_block(c, block));
    }
out:
    return status;
}

grail_status grail_compression_run(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const int finished = c->output == NULL ? 0 : c->output->blocks_recorded;
    c->network->started = clock_seconds();
    TRY(run_beginning(c));
    TRY(replay_blocks(c, finished));
    c->network->started = clock_seconds();
    for (int block = finished; block < c->request->graph->block_count; block++) {
        TRY(fresh_block(c, block));
    }
    TRY(run_end(c));
    if (c->output != NULL) {
        TRY(write_companions(c));
    }
out:
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED && c->output != NULL) {
        state_after_failure(c, status);
    }
    return status;
}

int grail_compression_site_count(const grail_compression *c)
{
    return c->request->sites->list.count;
}

grail_site_report grail_compression_site(const grail_compression *c, int i)
{
    return c->network->results[i].report;
}

grail_compression_totals grail_compression_totals_get(const grail_compression *c)
{
    grail_compression_totals t = {
        .samples = c->request->samples->count,
        .context = c->request->samples->windows.length,
        .calibration_tokens = c->request->samples->count * c->request->samples->windows.length,
        .calibrate_seconds = c->network->calibrate_seconds,
        .compensate_seconds = c->network->compensate_seconds,
    };
    if (grail_model_describe(c->request->model, &t.dense) != GRAIL_OK) {
        return t;
    }
    grail_model_facts narrow = {0};
    if (model_describe_graph(c->request->model, c->request->narrowed.graph, &narrow) == GRAIL_OK) {
        t.parameters = narrow.parameters;
        t.bytes = narrow.bytes;
        t.macs_per_token = narrow.macs_per_token;
        t.kv_bytes_per_token = narrow.kv_bytes_per_token;
    }
    return t;
}

int grail_compression_loader(const grail_compression *c, int i, const char **loader, int *loads,
                             const char **reason)
{
    if (i < 0 || i >= LOADER_COUNT) {
        return 0;
    }
    *loader = c->request->narrowed.verdicts[i].loader;
    *loads = c->request->narrowed.verdicts[i].loads ? 1 : 0;
    *reason = c->request->narrowed.verdicts[i].reason;
    return 1;
}
