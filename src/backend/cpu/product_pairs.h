/* The products of gradients over squares of pairs (pairs.h), where the processor has matrix units:
 * C = A B and C (+)= A^T B in bf16, or of two parts each, with f32 sums. */
#ifndef GRAIL_BACKEND_CPU_PRODUCT_PAIRS_H
#define GRAIL_BACKEND_CPU_PRODUCT_PAIRS_H

#include "backend/host/host.h"

/** None of the matrices is empty; B of C = A B may be a weight in squares, but not in parts. */
grail_status pairs_product(const operation *o, bool in_parts) GRAIL_MUST_CHECK;

#endif
