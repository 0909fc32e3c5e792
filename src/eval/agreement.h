/* What ranks that share out a measurement compare before it. */
#ifndef GRAIL_EVAL_AGREEMENT_H
#define GRAIL_EVAL_AGREEMENT_H

#include "comm/comm.h"
#include "exec/parameters.h"

/** Whether all ranks measure the same with the same network: `data`, for the message, is what
 * bytes[size] say. GRAIL_ERROR_ARGUMENT on all where one differs in these, in the model, in the
 * precision of `b`, or in the number of threads. */
grail_status agreement_check(const grail_comm *comm, const grail_model *model, const backend *b,
                             const char *data, const void *bytes, size_t size) GRAIL_MUST_CHECK;

#endif
