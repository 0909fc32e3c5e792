/* ONNX Runtime, where the machine has it: a shared library that is loaded when it is needed. */
#ifndef GRAIL_EVAL_ONNX_RUNTIME_H
#define GRAIL_EVAL_ONNX_RUNTIME_H

#include "base/status.h"

#include <stdint.h>

typedef struct onnx_runtime onnx_runtime;
typedef struct onnx_session onnx_session;

/** Loads the library as onnx_library_load; it stays loaded until the program ends.
 * GRAIL_ERROR_UNSUPPORTED where there is none. *out is owned: onnx_runtime_close. */
grail_status onnx_runtime_open(onnx_runtime **out) GRAIL_MUST_CHECK;
void onnx_runtime_close(onnx_runtime *r);                /* NULL is allowed */
const char *onnx_runtime_version(const onnx_runtime *r); /* such as "1.21.0" */

/** Opens an ONNX file with an input "pixels" F32 and an output "logits" to run on `threads` threads
 * of the processor. *out is owned, even after a failure: onnx_session_close, before the runtime. */
grail_status onnx_session_open(const onnx_runtime *r, const char *path, int threads,
                               onnx_session **out) GRAIL_MUST_CHECK;
void onnx_session_close(onnx_session *s); /* NULL is allowed */

/** Runs on pixels[shape[0], shape[1], shape[2], shape[3]]; the logits are dropped. */
grail_status onnx_session_run(onnx_session *s, const int64_t shape[4],
                              const float *pixels) GRAIL_MUST_CHECK;

#endif
