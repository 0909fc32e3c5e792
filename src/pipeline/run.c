/* The run: the nodes before the blocks, the blocks one after another, the nodes after them. */
#include "base/clock.h"
#include "pipeline/compression.h"
#include "pipeline/network/fisher.h"
#include "pipeline/network/heal.h"
#include "pipeline/network/open_loop.h"
#include "pipeline/network/walk.h"
#include "pipeline/output/run_records.h"
#include "pipeline/ranks.h"

/* Restores the finished blocks of an interrupted run: puts their narrow tensors back, and carries
 * the sample streams through them. */
static grail_status replay_blocks(grail_compression *c)
{
    const recorded_parameters recorded = {
        .read = ranks_read_parameter, .from = c, .narrowed = c->request->narrowed.graph};
    for (int block = 0; block < c->blocks_recorded; block++) {
        CHECK(ranks_restore_block(c, block));
        CHECK(compress_block(c->network, block, &recorded));
        network_release_block(c->network, block);
    }
    return GRAIL_OK;
}

static grail_status finish_block(grail_compression *c, int block)
{
    if (c->output != NULL) {
        CHECK(output_write_block(c->output, c->network, block));
    }
    network_release_block(c->network, block);
    return GRAIL_OK;
}

/* Blocks that are healed together are finished together. */
static grail_status fresh_block(grail_compression *c, int block)
{
    int first = 0;
    int last = 0;
    const compression_request *r = c->request;
    heal_group_of(&r->heal, block, r->graph->block_count, &first, &last);
    CHECK(compress_block(c->network, block, NULL));
    for (int i = first; !r->finishes_with_network && block == last && i <= last; i++) {
        CHECK(finish_block(c, i));
    }
    /* a run that is cancelled here loses nothing */
    return progress_tell(&c->network->passes.progress, block, NULL);
}

/* Tensors outside the blocks are written now, unless the head is changed after the blocks or the
 * network is finished at once at the end. */
static grail_status run_beginning(grail_compression *c)
{
    const compression_request *r = c->request;
    if (!r->finishes_with_network && !r->finishes_with_head && c->output != NULL) {
        CHECK(output_write_block(c->output, c->network, GRAPH_NONE));
    }
    CHECK(fisher_measure(c->network));
    CHECK(choose_openly(c->network));
    return compress_block(c->network, GRAPH_NONE, NULL);
}

/* Heals the whole fitted network; where it is written, it can be continued. Behind it the weights
 * are written, as they were before it, which took `writing` seconds. */
static grail_status heal_fitted(grail_compression *c, double writing)
{
    const double slower = 1.5;
    heal_memory memory = {0};
    if (c->output != NULL) {
        memory = (heal_memory){
            .save = training_save, .restore = training_restore, .user = c->output->record};
    }
    CHECK(heal_network(c->network, &memory, c->request->deadline - slower * writing));
    if (c->output != NULL) {
        CHECK(output_write_network(c->output, c->network));
    }
    return GRAIL_OK;
}

/* Runs the head and, after an open loop, REPAIR; writes everything that could not be written
 * before. */
static grail_status run_end(grail_compression *c)
{
    const compression_request *request = c->request;
    if (request->finishes_with_network || request->finishes_with_head) {
        CHECK(compress_block(c->network, request->graph->block_count, NULL));
    }
    if (request->finishes_with_head && !request->finishes_with_network && c->output != NULL) {
        CHECK(output_write_block(c->output, c->network, GRAPH_NONE));
    }
    if (request->finishes_with_network && request->plan.loop == LOOP_OPEN) {
        CHECK(repair_network(c->network));
    }
    CHECK(heal_blocks_after_walk(c->network));
    const double written = clock_seconds();
    if (c->output != NULL && request->heal.network) {
        CHECK(output_write_fitted(c->output, c->network));
    } else if (c->output != NULL && request->finishes_with_network) {
        CHECK(output_write_network(c->output, c->network));
    }
    if (request->heal.network) {
        CHECK(heal_fitted(c, clock_seconds() - written));
    }
    return GRAIL_OK;
}

static grail_status run_network(grail_compression *c)
{
    const int finished = c->blocks_recorded;
    progress_start(&c->network->passes.progress, 0);
    CHECK(run_beginning(c));
    if (finished > 0) {
        CHECK(replay_blocks(c));
    }
    progress_start(&c->network->passes.progress, finished);
    for (int block = finished; block < c->request->graph->block_count; block++) {
        CHECK(fresh_block(c, block));
    }
    return run_end(c);
}

/* A run that was interrupted while the network was healed. */
static grail_status continue_healing(grail_compression *c)
{
    const recorded_parameters recorded = {
        .read = ranks_read_parameter, .from = c, .narrowed = c->request->narrowed.graph};
    progress_start(&c->network->passes.progress, c->request->graph->block_count);
    const double read = clock_seconds(); /* which takes about as long as writing */
    CHECK(ranks_restore_fitted(c, &recorded));
    return heal_fitted(c, clock_seconds() - read);
}

/* A continued run whose weights are all written has nothing left to compute. */
static grail_status compute(grail_compression *c)
{
    if (c->is_written) {
        return ranks_restore(c, RECORD_WEIGHTS);
    }
    return c->is_fitted ? continue_healing(c) : run_network(c);
}

static const char *state_text(run_state state)
{
    switch (state) {
    case RUN_DESCRIBED:
        return "it was opened to describe a run (dry_run)";
    case RUN_OPEN:
        return "it has not run yet";
    case RUN_ENDED_EARLY:
        return "it failed or was cancelled; close it, and open another, which may continue its "
               "output";
    case RUN_DONE:
        return "it has run already";
    case RUN_COMMITTED:
        break;
    }
    return "it is finished already";
}

static grail_status out_of_order(const grail_compression *c, const char *wanted)
{
    return error_set(GRAIL_ERROR_ARGUMENT, "cannot %s this compression: %s", wanted,
                     state_text(c->state));
}

grail_status run_check_result(const grail_compression *c, const char *wanted)
{
    return c->state == RUN_DONE ? GRAIL_OK : out_of_order(c, wanted);
}

grail_status grail_compression_run(grail_compression *c)
{
    if (c->state != RUN_OPEN) {
        return out_of_order(c, "run");
    }
    profile *before = profile_use(c->profile);
    const grail_status status = comm_end(c->request->comm, compute(c));
    profile_use(before);
    c->state = status == GRAIL_OK ? RUN_DONE : RUN_ENDED_EARLY;
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED && c->output != NULL) {
        output_after_failure(c->output, status);
    }
    return status;
}
