#include "pipeline/network/decision_input.h"

#include <math.h>

int deciding_consumers(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    const unsigned needs = site_decision_needs(&request->plan, index, s);
    return (needs & NEEDS_OF_CONSUMERS) == 0    ? 0
           : (needs & NEEDS_ALL_CONSUMERS) != 0 ? s->consumer_count
                                                : 1;
}

/* -- norms of a producer's input --------------------------------------------------------------- */

scored_producers producers_that_score(const compression_request *request, const site *s,
                                      bool by_norms)
{
    const stream_score how = request->plan.stream_score;
    const bool one = s->kind == SITE_STREAM && how != STREAM_SCORE_ALL;
    return (scored_producers){
        .first = one && how == STREAM_SCORE_BRANCH ? site_branch_producer(request->graph, s) : 0,
        .count = one || by_norms ? 1 : s->producer_count};
}

int scored_node(const compression_request *request, int index)
{
    const site *s = site_at(request, index);
    return s->producers[producers_that_score(request, s, true).first].node;
}

static int scored_weight(const compression_request *request, int index)
{
    return request->graph->nodes[scored_node(request, index)].weight;
}

int64_t scored_input_width(const compression_request *request, int index)
{
    return request->graph->parameters[scored_weight(request, index)].shape[1];
}

int scored_input_site(const compression_request *request, int index)
{
    return request->cuts[scored_weight(request, index)].columns.site;
}

void norms_of_squares(const grail_reducer *reducer, int64_t width, double *squares)
{
    for (int64_t i = 0; i < width; i++) {
        const bool removed = reducer != NULL && reducer->labels[i / (width / reducer->units)] < 0;
        squares[i] = removed ? 0.0 : sqrt(squares[i]);
    }
}
