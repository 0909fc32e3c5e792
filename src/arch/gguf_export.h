/* A language model that is being written as a GGUF file, parameter by parameter in any order. */
#ifndef GRAIL_ARCH_GGUF_EXPORT_H
#define GRAIL_ARCH_GGUF_EXPORT_H

#include "arch/model.h"

#include <grail/gguf.h>

typedef struct gguf_export gguf_export;

/** Begins the file, which appears with the commit. `options` may be NULL; `model` must outlive it.
 * *out is owned, even after a failure: gguf_export_free. */
grail_status gguf_export_open(const grail_model *model, const char *path,
                              const grail_gguf_options *options,
                              gguf_export **out) GRAIL_MUST_CHECK;
void gguf_export_free(gguf_export *e); /* NULL is allowed */

/** [parameters] dtypes in which the file holds those of the model's graph. */
const grail_dtype *gguf_export_dtypes(const gguf_export *e);
/** Writes a parameter that is not written yet: rows of the graph's order, in that dtype. */
grail_status gguf_export_put(gguf_export *e, int parameter, const void *stored) GRAIL_MUST_CHECK;
/** The same from f32 values, which are rounded without regard to anything else. */
grail_status gguf_export_put_f32(gguf_export *e, int parameter,
                                 const float *values) GRAIL_MUST_CHECK;

/** Writes what was not written yet from the model, and finishes the file. facts may be NULL. */
grail_status gguf_export_commit(gguf_export *e, grail_gguf_facts *facts) GRAIL_MUST_CHECK;

#endif
