#include "graph/node.h"

int node_parameters(const node *n, int out[NODE_MAX_PARAMETERS])
{
    const int all[NODE_MAX_PARAMETERS] = {n->weight, n->bias, n->mean, n->variance};
    int count = 0;
    for (int i = 0; i < NODE_MAX_PARAMETERS; i++) {
        if (all[i] != GRAPH_NONE) {
            out[count++] = all[i];
        }
    }
    return count;
}

static int64_t positions_along(const window_axis *a, bool rounds_up, int64_t in)
{
    const int64_t room = in + a->before + a->behind - a->dilation * (a->kernel - 1) - 1;
    const int64_t last = (room + (rounds_up ? a->stride - 1 : 0)) / a->stride;
    if (room < 0) {
        return 0;
    }
    return rounds_up && last * a->stride >= in + a->before ? last : last + 1;
}

extent window_positions(const window2d *w, extent in)
{
    return (extent){.height = positions_along(&w->height, w->rounds_up, in.height),
                    .width = positions_along(&w->width, w->rounds_up, in.width)};
}
