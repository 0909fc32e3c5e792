/* The run: what precedes the blocks, blocks one after the other, what follows them, companions. */
#include "pipeline/compression.h"
#include "pipeline/network/open_loop.h"
#include "pipeline/network/walk.h"

/* Finished blocks of an interrupted run: their narrow tensors are put back, and the streams go
 * through them. */
static grail_status replay_blocks(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    checkpoint *recorded = NULL;
    TRY(checkpoint_open(c->output->partial, &recorded));
    for (int block = 0; block < c->output->blocks_recorded; block++) {
        TRY(state_restore_block(c, block));
        TRY(compress_block(c->network, block, recorded));
        network_release_block(c->network, block);
    }
out:
    checkpoint_close(recorded);
    return status;
}

static grail_status fresh_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    TRY(compress_block(c->network, block, NULL));
    if (!c->request->finishes_with_network) {
        TRY(write_block(c, block));
        TRY(state_record_block(c, block));
        network_release_block(c->network, block);
    }
    /* a run cancelled here has lost nothing */
    TRY(progress_tell(&c->network->progress, c->request, block, NULL));
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
        TRY(open_loop_collect(c->network));
    }
    TRY(compress_block(c->network, GRAPH_NONE, NULL));
out:
    return status;
}

/* The head, REPAIR after an open loop, and all that could not be written before. */
static grail_status run_end(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const int blocks = c->request->graph->block_count;
    if (!c->request->finishes_with_network) {
        return GRAIL_OK;
    }
    TRY(compress_block(c->network, blocks, NULL));
    if (c->request->plan.loop == LOOP_OPEN) {
        TRY(repair_network(c->network));
    }
    for (int block = GRAPH_NONE; c->output != NULL && block < blocks; block++) {
        TRY(write_block(c, block));
    }
out:
    return status;
}

grail_status grail_compression_run(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const int finished = c->output == NULL ? 0 : c->output->blocks_recorded;
    c->network->progress = progress_start(0);
    TRY(run_beginning(c));
    if (finished > 0) {
        TRY(replay_blocks(c));
    }
    c->network->progress = progress_start(finished);
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
