/* The reference for a network that was only pruned: the dense one, with the columns that read
 * removed units set to zero. */
#ifndef GRAIL_EVAL_ZEROED_STORE_H
#define GRAIL_EVAL_ZEROED_STORE_H

#include "exec/parameters.h"

/**
 * A thin store over `dense` in which the columns of all consumers that read removed units are zero.
 * The report.json beside `narrow` names these units. *out is NULL where there is no report, or
 * where units were folded, consumers repaired, or BatchNorm statistics recomputed: those networks
 * do not equal it. A report of another network is GRAIL_ERROR_FORMAT. *out is owned:
 * parameter_store_free, before `dense`.
 */
grail_status zeroed_store_create(parameter_store *dense, const grail_model *narrow,
                                 parameter_store **out) GRAIL_MUST_CHECK;

#endif
