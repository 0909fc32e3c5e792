#include "pipeline/network/progress.h"

#include "base/clock.h"

#include <math.h>

void progress_start(progress *p, int blocks_replayed)
{
    p->started = clock_seconds();
    p->blocks_replayed = blocks_replayed;
    p->block = GRAPH_NONE;
    p->reached = 0.0;
}

grail_status progress_cancelled(int block, int blocks, bool ended)
{
    if (block < 0) {
        return error_set(GRAIL_ERROR_CANCELLED, "cancelled before the first of %d blocks", blocks);
    }
    if (block >= blocks) {
        return error_set(GRAIL_ERROR_CANCELLED, "cancelled behind the last of %d blocks", blocks);
    }
    return error_set(GRAIL_ERROR_CANCELLED, "cancelled %s block %d of %d", ended ? "after" : "in",
                     block + 1, blocks);
}

grail_status progress_tell(const progress *p, int block, const grail_site_report *report)
{
    if (p->observer == NULL) {
        return GRAIL_OK;
    }
    const int blocks = p->graph->block_count;
    const int done = block + (report == NULL ? 1 : 0) - p->blocks_replayed;
    const double elapsed = clock_seconds() - p->started;
    const double left =
        done > 0 ? elapsed / done * (blocks - p->blocks_replayed - done) : (double)NAN;
    if (p->observer(p->user, report, block, blocks, left) != 0) {
        return progress_cancelled(block, blocks, report == NULL);
    }
    return GRAIL_OK;
}

grail_status progress_step(progress *p, int from, int to, int64_t batch)
{
    int begin = 0;
    int end = 0;
    const graph *g = p->graph;
    const double part = (double)(batch + 1) / (double)p->batches;
    const double position = from + part * (to - from);
    const int last = (int)ceil(position) - 1; /* the node that ends there or behind */
    const int block = last < 0 ? GRAPH_NONE : g->nodes[last].block;
    if (p->step_observer == NULL || block < 0 || block >= g->block_count) {
        return GRAIL_OK;
    }
    graph_block_range(g, block, &begin, &end);
    const double done = (position - begin) / (end - begin);
    p->reached = p->block == block ? fmax(p->reached, done) : done;
    p->block = block;
    if (p->step_observer(p->user, block, g->block_count, p->reached) != 0) {
        return progress_cancelled(block, g->block_count, false);
    }
    return GRAIL_OK;
}

grail_status progress_before(const progress *p, int work, double done)
{
    const int blocks = p->graph->block_count;
    return p->step_observer == NULL || p->step_observer(p->user, work, blocks, done) == 0
               ? GRAIL_OK
               : progress_cancelled(GRAPH_NONE, blocks, false);
}
