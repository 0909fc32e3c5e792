/* What a network that was only pruned must equal: the dense one with the columns that read removed
 * units set to zero. */
#ifndef GRAIL_EVAL_ZEROED_STORE_H
#define GRAIL_EVAL_ZEROED_STORE_H

#include "exec/parameters.h"

/**
 * A thin store over `dense` in which every consumer's columns of the units that `narrow` lost are
 * zero, as the report.json beside it tells. *out is NULL where there is no report, or where units
 * were folded, consumers repaired, or BatchNorm statistics taken anew: those do not equal it. A
 * report of another network is GRAIL_ERROR_FORMAT. *out is owned: parameter_store_free, before
 * `dense`.
 */
grail_status zeroed_store_create(parameter_store *dense, const grail_model *narrow,
                                 parameter_store **out) GRAIL_MUST_CHECK;

#endif
