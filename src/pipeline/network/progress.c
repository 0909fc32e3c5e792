#include "pipeline/network/progress.h"

#include "base/clock.h"

#include <math.h>

progress progress_start(int blocks_replayed)
{
    return (progress){.started = clock_seconds(), .blocks_replayed = blocks_replayed};
}

grail_status progress_tell(const progress *p, const compression_request *request, int block,
                           const grail_site_report *report)
{
    if (request->observer == NULL) {
        return GRAIL_OK;
    }
    const int blocks = request->graph->block_count;
    const int done = block + (report == NULL ? 1 : 0) - p->blocks_replayed;
    const double elapsed = clock_seconds() - p->started;
    const double left =
        done > 0 ? elapsed / done * (blocks - p->blocks_replayed - done) : (double)NAN;
    if (request->observer(request->observer_user, report, block, blocks, left) != 0) {
        return error_set(GRAIL_ERROR_CANCELLED, "cancelled in block %d of %d", block, blocks);
    }
    return GRAIL_OK;
}
