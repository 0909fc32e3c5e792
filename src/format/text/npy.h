/* Arrays, and token ids, from numpy's .npy files.
 *
 * Layout (numpy.lib.format): "\x93NUMPY", major and minor version, header length (u16 in version 1,
 * u32 in 2 and 3, little-endian), then a Python dict literal with 'descr', 'fortran_order' and
 * 'shape', padded with spaces and ended by a newline, then the elements. */
#ifndef GRAIL_FORMAT_TEXT_NPY_H
#define GRAIL_FORMAT_TEXT_NPY_H

#include "base/memory.h"
#include "tensor/tensor.h"

enum { NPY_MOST_DIMENSIONS = 4 };

/** Numbers in C order. */
typedef struct npy_array {
    const unsigned char *data; /* borrowed from the file's bytes */
    grail_dtype dtype;         /* F64, F32, F16 or U8; of integers any of these, or BOOL */
    int rank;
    int64_t shape[NPY_MOST_DIMENSIONS]; /* each at least 1 */
} npy_array;

/** Reads the header of a complete file of one to four dimensions, of integers or of what pixels may
 * be. GRAIL_ERROR_FORMAT: a malformed header, too few or too many bytes, no elements.
 * GRAIL_ERROR_UNSUPPORTED: other dtypes, orders and dimensions. */
grail_status npy_read_array(const void *bytes, size_t size, bool of_integers,
                            npy_array *out) GRAIL_MUST_CHECK;
/** Element i of an array of integers; of U64 beyond INT64_MAX that. */
int64_t npy_integer_at(const npy_array *a, int64_t i);

typedef struct npy_ids {
    const unsigned char *data; /* borrowed from the file's bytes */
    size_t width;              /* bytes of an id */
    bool is_signed;
    int64_t count;
    int64_t row; /* ids per row of a two-dimensional array, 0 for one dimension */
} npy_ids;

/**
 * Reads the header of a complete file. The ids must be little-endian or one-byte integers, in one
 * or two dimensions and in C order. GRAIL_ERROR_FORMAT: a malformed header, too few or too many
 * bytes, no ids. GRAIL_ERROR_UNSUPPORTED: other dtypes, orders and dimensions.
 */
grail_status npy_read_header(const void *bytes, size_t size, npy_ids *out) GRAIL_MUST_CHECK;

/** Copies ids[first .. first + count) to out. An id that is negative or beyond int32 is
 * GRAIL_ERROR_FORMAT. */
grail_status npy_read_ids(const npy_ids *ids, int64_t first, int64_t count,
                          int32_t *out) GRAIL_MUST_CHECK;

#endif
