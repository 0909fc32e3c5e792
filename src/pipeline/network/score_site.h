/* Selections from scores of a site's units: from the rows of its producers where those make
 * channels or plain neurons, from the consumer's columns where the units are gated neurons or heads
 * (methods.md 5.3, 5.4). Weights are those of the dense network. */
#ifndef GRAIL_PIPELINE_NETWORK_SCORE_SITE_H
#define GRAIL_PIPELINE_NETWORK_SCORE_SITE_H

#include "exec/parameters.h"
#include "pipeline/request/request.h"
#include "reduce/reducer.h"

/** Whether the site's selector looks at the producers' rows (channels, plain neurons), not at the
 * consumer's columns. */
bool site_scores_rows(const compression_request *request, int site);
/** From the producers' rows; norms[width of the first producer's input] of its features, or NULL.
 * *out is owned. */
grail_status site_select_by_rows(const compression_request *request, parameter_store *dense,
                                 int site, const double *norms,
                                 grail_reducer **out) GRAIL_MUST_CHECK;
/** From the first consumer's columns; gram_diagonal may be NULL where the selector needs none.
 * *out is owned. */
grail_status site_select_by_columns(const compression_request *request, parameter_store *dense,
                                    int site, const double *gram_diagonal,
                                    grail_reducer **out) GRAIL_MUST_CHECK;

#endif
