/* Dtypes, tensor views and conversions to and from f32. */
#ifndef GRAIL_TENSOR_TENSOR_H
#define GRAIL_TENSOR_TENSOR_H

#include "base/memory.h"

#include <grail/dtype.h>

enum { TENSOR_MAX_RANK = 8 };

/** A borrowed, contiguous, row-major, little-endian tensor. `data` may be unaligned. */
typedef struct tensor_view {
    const char *name; /* borrowed */
    grail_dtype dtype;
    int rank;
    int64_t shape[TENSOR_MAX_RANK];
    const void *data;
    size_t bytes;
    const void *scales; /* of packed elements (packed.h); NULL: elements are stored as dtype says */
} tensor_view;

/** Bits of one element; 0 for types of blocks. */
size_t dtype_bits(grail_dtype dtype);

/** Elements of a block, 1 for types without blocks. Along its last dimension a tensor consists of
 * complete blocks. */
int64_t dtype_block(grail_dtype dtype);

/** Case-sensitive safetensors name -> dtype; false when unknown. */
bool dtype_from_name(const char *name, grail_dtype *out);

/** Whether products take it as it is: F32, F16, BF16. */
bool dtype_is_weight(grail_dtype dtype);
/** Whether grail can read it as f32: those three, F64, and all types of blocks. */
bool dtype_is_readable(grail_dtype dtype);
/** Whether it is converted element by element to f32 and back: these three and F64. */
bool dtype_is_float(grail_dtype dtype);

/** Product of the dimensions; false on overflow or if a dimension is negative. */
bool shape_elements(int rank, const int64_t shape[], int64_t *out);

/** Elements of a row: of all dimensions but the first. Ones that were checked. */
int64_t row_elements(int rank, const int64_t shape[]);

/** Bytes of `elements` elements; false on overflow, when bits do not fill bytes, and when elements
 * do not fill blocks. */
bool dtype_bytes(grail_dtype dtype, int64_t elements, size_t *out);

/** Bytes of a tensor; false as above. */
bool shape_bytes(grail_dtype dtype, int rank, const int64_t shape[], size_t *out);

/** Writes "[2, 3]" to text, truncated if it does not fit; returns text. */
const char *shape_text(int rank, const int64_t shape[], char *text, size_t size);

/**
 * Converts `count` elements of F32, F16, BF16 or a type of blocks at `source` (any alignment) to
 * f32, exactly; of blocks complete ones. Other dtypes are GRAIL_ERROR_UNSUPPORTED.
 */
grail_status convert_to_f32(grail_dtype dtype, const void *source, int64_t count,
                            float *out) GRAIL_MUST_CHECK;

/**
 * Converts f32 to F32, F16 or BF16 (round to nearest even) at `out` (any alignment). A finite value
 * that becomes infinite in F16 or BF16 is GRAIL_ERROR_NUMERIC, and the message names its index; all
 * of `out` is converted nevertheless.
 */
grail_status convert_from_f32(grail_dtype dtype, const float *source, int64_t count,
                              void *out) GRAIL_MUST_CHECK;

/** Index of the first NaN or infinity, or -1. */
int64_t find_non_finite(const float *values, int64_t count);
/** The same for `count` stored elements of any dtype at `source` (any alignment), which are not
 * converted; of a complex one either part counts. */
int64_t find_non_finite_stored(grail_dtype dtype, const void *source, int64_t count);

#endif
