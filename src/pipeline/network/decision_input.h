/* What a decision is made from: the inputs of consumers, and norms of what a producer reads. */
#ifndef GRAIL_PIPELINE_NETWORK_DECISION_INPUT_H
#define GRAIL_PIPELINE_NETWORK_DECISION_INPUT_H

#include "pipeline/network/network.h"
#include "reduce/input_statistics.h"

/** A decision looks at the inputs of so many of a site's consumers, from the first on. */
int deciding_consumers(const compression_request *request, int site);

/** The producers whose rows score a site: the first of them, and how many. Norms of inputs are
 * those of the first one's, so `by_norms` there is but one. */
typedef struct scored_producers {
    int first, count;
} scored_producers;
scored_producers producers_that_score(const compression_request *request, const site *s,
                                      bool by_norms);

/** The node of the first of them. */
int scored_node(const compression_request *request, int site);
/** How many features its input has in the dense network. */
int64_t scored_input_width(const compression_request *request, int site);
/** The site whose units these features are, GRAPH_NONE: they are not cut. */
int scored_input_site(const compression_request *request, int site);

/** Turns squares[width] of these features into norms (docs/numerics.md, Scores): 0 for those of
 * units that `reducer` removed, which may be NULL. */
void norms_of_squares(const grail_reducer *reducer, int64_t width, double *squares);

#endif
