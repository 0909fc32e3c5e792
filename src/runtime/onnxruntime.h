/* ONNX Runtime, found at run time: no header and no library of it are needed to build grail. Its
 * functions are C: a table that only grows from release to release. */
#ifndef GRAIL_RUNTIME_ONNXRUNTIME_H
#define GRAIL_RUNTIME_ONNXRUNTIME_H

#include "format/onnx/onnx_message.h"

/** A tensor in the host's memory, packed. */
typedef struct ort_tensor {
    const char *name; /* of an input or output of the model */
    int element;      /* numbered as in a file; 0: no tensor */
    int rank;         /* -1: of no tensor, or more than ONNX_MAX_RANK */
    int64_t shape[ONNX_MAX_RANK];
    const float *values; /* of ONNX_FLOAT, and of truths that are made; NULL of other types that
                            are */
    bool is_half;        /* for the library it is of ONNX_FLOAT16 */
    float *widened;      /* `values`, where that is so of one that is made */
    struct ort_value *held;
} ort_tensor;

/** A model that is ready to be computed. */
typedef struct ort_session ort_session;

/**
 * Loads the library once for the process: the file that GRAIL_ONNXRUNTIME names, or that of the
 * package or archive whose directory it names. GRAIL_ERROR_UNSUPPORTED says what was looked for and
 * what to do. Several threads may call this and the functions below.
 */
grail_status ort_load(void) GRAIL_MUST_CHECK;

/** Opens a model of bytes, which are not needed any more afterwards, with as many threads as
 * parallel_for has; *out is owned: ort_session_close. What the library refuses is
 * GRAIL_ERROR_UNSUPPORTED, in its words. */
grail_status ort_session_open(const void *model, size_t size, ort_session **out) GRAIL_MUST_CHECK;
void ort_session_close(ort_session *s); /* NULL is allowed */

/** Computes outputs[output_count], whose names are given, of inputs[input_count], which are of
 * ONNX_FLOAT, integers or truths, whatever `values` is a pointer to.
 * ort_tensors_fini of the outputs, even after a failure. */
grail_status ort_session_run(ort_session *s, int input_count, const ort_tensor inputs[],
                             int output_count, ort_tensor outputs[]) GRAIL_MUST_CHECK;
void ort_tensors_fini(int count, ort_tensor tensors[]);

#endif
