/* Backends: the arithmetic of a run. An instance of a backend owns its memory, has a precision and
 * a number of threads, and computes on matrices (matrix.h) through operations (operations.h).
 *
 * `cpu` computes values in f32 (BLIS products, oneDNN convolutions, our kernels), `ref` in f64 with
 * plain loops (the reference), `torch` through PyTorch. Statistics and solves are f64 in every
 * backend. In the precision bf16 of `cpu` values are f32, and products round their operands to bf16
 * and sum in f32; in bf16 and f16 of `torch` values are of these types. */
#ifndef GRAIL_BACKEND_BACKEND_H
#define GRAIL_BACKEND_BACKEND_H

#include "backend/matrix.h"

#include <grail/machine.h>

typedef struct backend_kind backend_kind;

/** Zeroed: the backend's own precision, its first device, and as many threads as the loops of the
 * calling thread. */
typedef struct backend_options {
    const char *precision; /* "f32", "f64", "bf16", "f16", "bf16-gram", "bf16x3"; NULL: the
                              backend's first one */
    int device;            /* from 0 */
    const char *scratch;   /* directory whose files hold matrices of 1 MiB and more, for an instance
                              on the host; NULL: memory holds all. Borrowed by the instance */
    int threads;           /* 0: parallel_threads() of the thread that calls an operation */
} backend_options;

/** Opens an instance of a backend; options may be NULL. Behind the name of one with several devices
 * a colon and a number choose one, as in "torch:cuda:1", before the options do.
 * GRAIL_ERROR_ARGUMENT names the known backends, or what this one offers; GRAIL_ERROR_MEMORY tells
 * that there are not enough threads or memory. *out is owned: backend_close, after all its matrices
 * are freed. Several threads may use an instance at once. */
grail_status backend_open(const char *name, const backend_options *options,
                          backend **out) GRAIL_MUST_CHECK;
void backend_close(backend *b); /* NULL is allowed */

/** Whether it is what backend_open gives for the name and precision, without a device in options.
 */
bool backend_is(const backend *b, const char *name, const char *precision);

/** The instances of `cpu` and of `ref` that the whole program shares; never closed. */
backend *backend_host(void);
backend *backend_reference(void);

/** "cpu" */
const char *backend_name(const backend *b);
/** "f32", "f64", "bf16", "f16", "bf16-gram" or "bf16x3" */
const char *backend_precision(const backend *b);
/** Type of values: GRAIL_DTYPE_F64, F32, BF16 or F16. */
grail_dtype backend_type(const backend *b);
/** Type of parameters that change, and of gradients of parameters: that of values, or F32 where
 * those have 16 bits. */
grail_dtype backend_master_type(const backend *b);
/** Type in which weights of products are best held: that of values, or GRAIL_DTYPE_BF16 (matrix.h).
 */
grail_dtype backend_weight_type(const backend *b);
/** The share of its value by which the sum of squares over `rows` rows of a constant feature,
 * weighted or not, may differ from the square of its sum, beside f64 rounding (kind.h). */
double backend_gram_rounding(const backend *b, int64_t rows);
/** Whether its memory is the host's, which waits for no device and sees packed matrices without a
 * copy. */
bool backend_is_host(const backend *b);
/** Bytes of one value. */
size_t backend_value_size(const backend *b);
/** Sets the name of its device, "" for the host, and its memory. */
void backend_describe_device(const backend *b, grail_device *out);
/** Bytes that its matrices may still take: what was free when it was opened, less what they have,
 * since a device keeps freed memory for later. On the host, and where a device does not say, what
 * the host has available; -1 unknown. */
int64_t backend_room(const backend *b);
/** Bytes of the matrices that exist. */
int64_t backend_bytes(const backend *b);

/** i-th backend, NULL beyond the last: for listings and for the conformance suite. Those of one
 * name differ in their precision. */
const backend_kind *backend_kind_at(int i);
const char *backend_kind_name(const backend_kind *kind);
const char *backend_kind_summary(const backend_kind *kind); /* what it is, for help */
/** "f32", "f64", "bf16", "f16", "bf16-gram" or "bf16x3" */
const char *backend_kind_precision(const backend_kind *kind);
/** The precision that a backend of this name computes in unless another is named; NULL: there is
 * none of the name. */
const char *backend_first_precision(const char *name);
/** Whether a backend of this name offers a precision of 16 bits and is faster in it on this
 * machine. The first call may try that for two seconds; all calls of a process answer the same. */
bool backend_prefers(const char *name, const char *precision);
/** `usual`, or the rows that an instance wants at a time where a call costs more than some rows. */
int64_t backend_panel(const backend *b, int64_t usual);
/** Rows of values that a backend of this name wants at a time. */
int64_t backend_batch_rows(const char *name);
/** Bytes that values should not exceed where fewer samples at once can hold them there; 0: any. */
int64_t backend_near_bytes(const backend *b);
/** Adds a backend to those that backend_open finds, before any thread looks for one. The kind must
 * stay valid. GRAIL_ERROR_ARGUMENT when there are too many, or one of this name and precision. One
 * with the name of another follows it. */
grail_status backend_add(const backend_kind *kind) GRAIL_MUST_CHECK;

/** How many operations there are, their names, whether a backend leaves one out, and how often an
 * instance had such a one done on the host. */
int operation_count(void);
const char *operation_name(int operation);
bool backend_leaves_out(const backend_kind *kind, int operation);
int64_t backend_fallbacks(const backend *b, int operation);

#endif
