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

int64_t window_positions(const window2d *w, int64_t in, int64_t kernel)
{
    const int64_t reach = w->dilation * (kernel - 1) + 1;
    const int64_t padded = in + 2 * w->padding;
    return padded < reach ? 0 : (padded - reach) / w->stride + 1;
}
