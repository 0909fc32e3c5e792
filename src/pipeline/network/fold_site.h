/* Folds a site: clusters its units by the dense weights. */
#ifndef GRAIL_PIPELINE_NETWORK_FOLD_SITE_H
#define GRAIL_PIPELINE_NETWORK_FOLD_SITE_H

#include "exec/parameters.h"
#include "pipeline/request/request.h"
#include "reduce/reducer.h"

/** *out is owned. */
grail_status site_fold(const compression_request *request, parameter_store *dense, int site,
                       grail_reducer **out) GRAIL_MUST_CHECK;

#endif
