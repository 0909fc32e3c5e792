#include "pipeline/request/usual_samples.h"

#include "graph/operators.h"

#include <math.h>

/* Rows for each feature of a map. Fewer of them where a router chose the rows: 64 for each of many
 * experts would be millions of tokens. */
enum { LEAST_SAMPLES = 128, ROWS_OF_FEATURE = 64, CHOSEN_ROWS_OF_FEATURE = 16 };

/* Rows of the network that give the map as many as its features ask for. */
static double rows_wanted(const graph *g, const node *n)
{
    const double share = node_row_share(g, n);
    const double rows = share < 1.0 ? CHOSEN_ROWS_OF_FEATURE / share : ROWS_OF_FEATURE;
    return rows * (double)g->parameters[n->weight].shape[1];
}

int64_t usual_samples(const graph *g, int64_t length)
{
    double rows = 0.0;
    if (g->input_kind == INPUT_IMAGES || length < 1) {
        return LEAST_SAMPLES;
    }
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (node_is_linear(n) && n->block >= 0 && n->block < g->block_count) {
            rows = fmax(rows, rows_wanted(g, n));
        }
    }
    const double wanted = ceil(rows / (double)length);
    return wanted > LEAST_SAMPLES ? (int64_t)fmin(wanted, (double)INT32_MAX) : LEAST_SAMPLES;
}
