/* What a cut alone leaves: the dense network, with the columns that read removed units set to zero.
 * A network that was only pruned equals it. */
#ifndef GRAIL_EVAL_ZEROED_STORE_H
#define GRAIL_EVAL_ZEROED_STORE_H

#include "exec/parameters.h"

/**
 * A thin store over `dense` in which the columns of all consumers that read removed units are zero.
 * The report.json beside `narrow` names these units. *out is NULL where there is no report, or
 * where units were folded or experts dropped, or where a norm runs over a width that was cut, which
 * *norm_is_cut tells; with `equal` also where consumers were repaired or BatchNorm statistics
 * recomputed, since `narrow` then does not equal it. A report of another network is
 * GRAIL_ERROR_FORMAT. *out, NULL before, is owned even after a failure: parameter_store_free,
 * before `dense`.
 */
grail_status zeroed_store_create(parameter_store *dense, const grail_model *narrow, bool equal,
                                 bool *norm_is_cut, parameter_store **out) GRAIL_MUST_CHECK;
/** The same where it must exist, whatever was repaired: otherwise GRAIL_ERROR_UNSUPPORTED. */
grail_status zeroed_store_of_cut(parameter_store *dense, const grail_model *narrow,
                                 parameter_store **out) GRAIL_MUST_CHECK;

#endif
