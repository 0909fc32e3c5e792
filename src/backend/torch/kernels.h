/* The kernels of the backend for torch: torch_NAME for rows of operation_list.h. */
#ifndef GRAIL_BACKEND_TORCH_KERNELS_H
#define GRAIL_BACKEND_TORCH_KERNELS_H

#include "backend/torch/calls.h"

#define OPERATION(name, ...) grail_status torch_run_##name(const operation *o) GRAIL_MUST_CHECK;
#include "backend/operation_list.h"

/** KERNEL(NAME) { ... } is the kernel of a row: it has the operation `o` and a frame `f`, whose
 * first failure is the kernel's. */
#define KERNEL(name)                                                                               \
    static void compute_##name(torch_frame *f, const operation *o);                                \
    grail_status torch_run_##name(const operation *o)                                              \
    {                                                                                              \
        torch_frame frame = torch_begin(o->m[0].owner);                                            \
        compute_##name(&frame, o);                                                                 \
        return torch_end(&frame);                                                                  \
    }                                                                                              \
    static void compute_##name(torch_frame *f, const operation *o)

#endif
