/* The kernels of the backend for torch: torch_NAME for rows of operation_list.h. */
#ifndef GRAIL_BACKEND_TORCH_KERNELS_H
#define GRAIL_BACKEND_TORCH_KERNELS_H

#include "backend/torch/calls.h"

#define OPERATION(name, ...) grail_status torch_run_##name(const operation *o) GRAIL_MUST_CHECK;
#include "backend/operation_list.h"

#endif
