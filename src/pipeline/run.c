/* The run: the nodes before the blocks, the blocks one after another, the nodes after them. */
#include "pipeline/compression.h"
#include "pipeline/network/heal.h"
#include "pipeline/network/heal_network.h"
#include "pipeline/network/open_loop.h"
#include "pipeline/network/walk.h"
#include "pipeline/output/tensors.h"

static grail_status read_recorded(const void *from, int parameter, float **out)
{
    const narrow_output *output = from;
    return tensors_read_parameter(output->request, output->writer, parameter, out);
}

/* Restores the finished blocks of an interrupted run: puts their narrow tensors back, and carries
 * the sample streams through them. */
static grail_status replay_blocks(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const recorded_parameters recorded = {.read = read_recorded, .from = c->output};
    for (int block = 0; block < c->output->blocks_recorded; block++) {
        TRY(output_restore_block(c->output, block, c->network));
        TRY(compress_block(c->network, block, &recorded));
        network_release_block(c->network, block);
    }
out:
    return status;
}

static grail_status fresh_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    TRY(compress_block(c->network, block, NULL));
    if (!c->request->finishes_with_network) {
        if (c->output != NULL) {
            TRY(output_write_block(c->output, c->network, block));
        }
        network_release_block(c->network, block);
    }
    /* a run that is cancelled here loses nothing */
    TRY(progress_tell(&c->network->progress, c->request, block, NULL));
out:
    return status;
}

/* Tensors outside the blocks are written now unless the network is finished at once at the end. */
static grail_status run_beginning(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    if (!c->request->finishes_with_network && c->output != NULL) {
        TRY(output_write_block(c->output, c->network, GRAPH_NONE));
    }
    if (open_loop_is_needed(c->request)) {
        TRY(open_loop_collect(c->network));
    }
    TRY(compress_block(c->network, GRAPH_NONE, NULL));
out:
    return status;
}

static grail_status heal_at_the_end(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const heal_memory none = {0};
    TRY(heal_blocks_after_walk(c->network));
    if (c->request->heal.network) {
        TRY(heal_prepare(c->network));
        TRY(heal_network(c->network, &none));
    }
out:
    return status;
}

/* Runs the head and, after an open loop, REPAIR; writes everything that could not be written
 * before. */
static grail_status run_end(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = c->request;
    if (request->finishes_with_network) {
        TRY(compress_block(c->network, request->graph->block_count, NULL));
    }
    if (request->finishes_with_network && request->plan.loop == LOOP_OPEN) {
        TRY(repair_network(c->network));
    }
    TRY(heal_at_the_end(c));
    if (c->output != NULL && (request->finishes_with_network || request->heal.network)) {
        TRY(output_write_network(c->output, c->network));
    }
out:
    return status;
}

static grail_status run_network(grail_compression *c)
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
out:
    return status;
}

/* A continued run whose weights are all written has nothing left to compute. */
grail_status grail_compression_run(grail_compression *c)
{
    const bool is_complete = c->output != NULL && c->output->is_complete;
    const grail_status status =
        is_complete ? output_restore_all(c->output, c->network) : run_network(c);
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED && c->output != NULL) {
        output_after_failure(c->output, status);
    }
    return status;
}
