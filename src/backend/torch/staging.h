/* Transfers between the host and a GPU by way of pinned memory, which PyTorch keeps for the next
 * ones: an upload then goes in its turn behind what the GPU has at hand, while the host goes on. */
#ifndef GRAIL_BACKEND_TORCH_STAGING_H
#define GRAIL_BACKEND_TORCH_STAGING_H

#include "backend/torch/calls.h"

/** Copies packed host values to a matrix, or from it. Values may be changed as soon as it returns.
 */
void torch_transfer(torch_frame *f, matrix m, void *values, bool up);

#endif
