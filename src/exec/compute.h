/* Opening the backend that a caller chose for a model. */
#ifndef GRAIL_EXEC_COMPUTE_H
#define GRAIL_EXEC_COMPUTE_H

#include "arch/model.h"
#include "backend/backend.h"

#include <grail/machine.h>

/** Name of the backend; NULL or a missing name stand for "cpu". */
const char *compute_backend(const grail_compute *compute);
/** The precision to be asked for: what the caller named, or for "auto" "bf16" where the model's
 * weights are stored in 16 bits, are many, and it pays. NULL: the backend's first. */
const char *compute_precision(const grail_compute *compute, const grail_model *model);
/** The same for work that makes statistics: "auto" makes them of rounded values, too, where that
 * pays, since these are what products of bf16 read. */
const char *compute_statistics_precision(const grail_compute *compute, const grail_model *model);
/** Opens it, for work that is not shared out: several ranks are GRAIL_ERROR_UNSUPPORTED. *out is
 * owned: backend_close. */
grail_status compute_open(const grail_compute *compute, const grail_model *model,
                          backend **out) GRAIL_MUST_CHECK;

#endif
