#include "pipeline/request/usual_samples.h"

#include "graph/operators.h"

enum { LEAST_SAMPLES = 128, ROWS_OF_FEATURE = 64 };

/* The features of the widest Linear in a block. */
static int64_t widest_input(const graph *g)
{
    int64_t widest = 0;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (node_is_linear(n) && n->block >= 0 && n->block < g->block_count) {
            const int64_t features = g->parameters[n->weight].shape[1];
            widest = features > widest ? features : widest;
        }
    }
    return widest;
}

int64_t usual_samples(const graph *g, int64_t length)
{
    if (g->input_kind == INPUT_IMAGES || length < 1) {
        return LEAST_SAMPLES;
    }
    /* Features are at most 2^31, so the product fits. */
    const int64_t wanted = (ROWS_OF_FEATURE * widest_input(g) + length - 1) / length;
    return wanted > LEAST_SAMPLES ? wanted : LEAST_SAMPLES;
}
