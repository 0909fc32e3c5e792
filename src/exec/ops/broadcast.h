/* Products and sums whose second operand is repeated over positions or channels. */
#ifndef GRAIL_EXEC_OPS_BROADCAST_H
#define GRAIL_EXEC_OPS_BROADCAST_H

#include "exec/ops/operator_code.h"

/** The second operand in the shape of the first: the operand itself where it has that shape, else
 * *made, of the pool, which the caller gives back. */
grail_status broadcast_second(const node_run *r, matrix *made, matrix *out) GRAIL_MUST_CHECK;

/** dx[1] <- *gradient[rows, columns of the first operand], which is taken over, summed (in the
 * precision of values) over what the second operand was repeated for. */
grail_status broadcast_back(node_back *b, matrix *gradient) GRAIL_MUST_CHECK;

#endif
