/* The kernels of the reference backend: ref_NAME for each row OPERATION of operation_list.h. */
#ifndef GRAIL_BACKEND_REF_REFERENCE_H
#define GRAIL_BACKEND_REF_REFERENCE_H

#include "backend/host/host.h"

#define OPERATION(name, ...) grail_status ref_##name(const operation *o) GRAIL_MUST_CHECK;
#define HOST_OPERATION(...)
#include "backend/operation_list.h"

/** C = alpha op(A) op(B) + beta C, with any row strides; beta 0 does not read C. */
void ref_product_of(bool transpose_a, bool transpose_b, double alpha, matrix a, matrix b,
                    double beta, matrix c);

#endif
