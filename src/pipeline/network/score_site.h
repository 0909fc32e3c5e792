/* Selects units of a site by scores. Channels, and plain neurons by magnitude, are scored by the
 * rows of the producers, other units by the columns of the first consumer (docs/numerics.md,
 * Scores). Weights are those of the dense network. */
#ifndef GRAIL_PIPELINE_NETWORK_SCORE_SITE_H
#define GRAIL_PIPELINE_NETWORK_SCORE_SITE_H

#include "exec/parameters.h"
#include "pipeline/request/request.h"
#include "reduce/reducer.h"

/** Whether the site's selector looks at the producers' rows (channels, plain neurons), not at the
 * consumer's columns. */
bool site_scores_rows(const compression_request *request, int site);
/** Selects by the producers' rows. norms are those of the features of the first producer's input,
 * as many as it has columns, or NULL; with norms the first producer alone is scored. *out is owned.
 */
grail_status site_select_by_rows(const compression_request *request, parameter_store *dense,
                                 int site, const double *norms,
                                 grail_reducer **out) GRAIL_MUST_CHECK;
/** Selects by the first consumer's columns; gram_diagonal may be NULL if the selector needs no
 * statistics. *out is owned. */
grail_status site_select_by_columns(const compression_request *request, parameter_store *dense,
                                    int site, const double *gram_diagonal,
                                    grail_reducer **out) GRAIL_MUST_CHECK;

#endif
