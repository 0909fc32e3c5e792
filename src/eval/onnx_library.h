/* Where the shared library of ONNX Runtime is. */
#ifndef GRAIL_EVAL_ONNX_LIBRARY_H
#define GRAIL_EVAL_ONNX_LIBRARY_H

#include "base/status.h"

/** Loads what GRAIL_ONNXRUNTIME names, or else what the system's search finds, or else what the
 * package onnxruntime of the python3 on PATH has; *out is a handle of dlopen. python3 is asked in
 * isolation (-I) and for a few seconds. Nothing in the working directory is loaded or run. Where
 * there is none, GRAIL_ERROR_UNSUPPORTED with the reason. The library is not unloaded: it may have
 * started threads. */
grail_status onnx_library_load(void **out) GRAIL_MUST_CHECK;

#endif
