#include "pipeline/network/rounding_weights.h"

#include "base/memory.h"
#include "graph/operators.h"
#include "stats/row_squares.h"

#include <math.h>

/* of the median squared length: longer rows count as if they had this */
static const double most_share = 16.0;
/* of its window: what the first token counts as, where attention reads it */
static const double first_share = 1.0 / 16.0;

/* Whether attention runs before the next Linear that reads something else. */
static bool attention_follows(const graph *g, int first)
{
    const int input = g->nodes[first].inputs[0];
    for (int n = first + 1; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_ATTENTION) {
            return true;
        }
        if (node_is_linear(&g->nodes[n]) && g->nodes[n].inputs[0] != input) {
            return false;
        }
    }
    return false;
}

static double root_of_length(double square, double median)
{
    const double most = most_share * median;
    return most > 0.0 && square > most ? sqrt(most / square) : 1.0;
}

grail_status rounding_weight_roots(const execution *e, int first, matrix x, double **out)
{
    grail_status status = GRAIL_OK;
    const int64_t length = e->shape.positions.height * e->shape.positions.width;
    const double weight = fmax(1.0, first_share * (double)length);
    const bool parks = attention_follows(e->graph, first) && x.rows == e->shape.samples * length;
    double *roots = NULL;
    double median = 0.0;
    TRY(memory_new_unset(&roots, (size_t)x.rows, sizeof roots[0]));
    TRY(row_squares(x, x.rows, roots));
    TRY(median_of(x.rows, roots, &median));
    for (int64_t t = 0; t < x.rows; t++) {
        const bool is_first = parks && t % length == 0;
        roots[t] = root_of_length(roots[t], median) * (is_first ? sqrt(weight) : 1.0);
    }
    *out = roots;
    roots = NULL;
out:
    memory_free(roots);
    return status;
}
