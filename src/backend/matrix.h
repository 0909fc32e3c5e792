/* Matrices: memory of a backend's instance, seen as rows.
 *
 * A matrix is a value: copies and views share its memory. Only what matrix_new made owns memory,
 * and only the operations of its instance (operations.h) follow its address: host code writes and
 * reads a matrix by upload, download, or a host view.
 *
 * Where values are BF16 or F16, parameters may be F32 as well, and their gradients are: a step of
 * training is smaller than what a value of 16 bits can tell.
 *
 * An instance of F32 values with products in bf16 also holds weights as matrices of BF16, in an
 * order of its own. Such an ordered matrix is uploaded, downloaded, copied from and into values and
 * read by matrix_linear; it has no views.
 */
#ifndef GRAIL_BACKEND_MATRIX_H
#define GRAIL_BACKEND_MATRIX_H

#include "tensor/tensor.h"

typedef struct backend backend;

typedef struct matrix {
    backend *owner;   /* the instance; NULL: no matrix */
    void *memory;     /* of the first element, in the owner's address space */
    grail_dtype type; /* GRAIL_DTYPE_F64, F32, BF16 or F16; of an ordered weight BF16 */
    int64_t rows;
    int64_t columns;
    int64_t stride;   /* elements from a row to the next one; 0: every row is the same */
    void *allocation; /* what matrix_free releases; NULL in views and in borrowed memory */
    size_t capacity;  /* bytes of the allocation */
} matrix;

/** Room for [rows, columns], packed; unset, or zeros. *out is owned: matrix_free. */
grail_status matrix_new(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                        matrix *out) GRAIL_MUST_CHECK;
grail_status matrix_new_zero(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                             matrix *out) GRAIL_MUST_CHECK;
void matrix_free(matrix *m); /* works on a zeroed one and leaves one */

/** A matrix that holds host values[rows, columns], whose rows lie `stride` apart: their own memory,
 * borrowed, where the instance computes on it, else a copy. It must not be written. matrix_free. */
grail_status matrix_import(backend *b, grail_dtype type, int64_t rows, int64_t columns,
                           int64_t stride, const void *values, matrix *out) GRAIL_MUST_CHECK;

/** Makes an owned, packed matrix [rows, columns], which may not be larger than before, of the first
 * elements of its memory, and gives back the rest where the instance can. */
grail_status matrix_shrink(matrix *m, int64_t rows, int64_t columns) GRAIL_MUST_CHECK;

/* Views. They borrow: the matrix must outlive them. */
matrix matrix_rows(matrix m, int64_t begin, int64_t count);
matrix matrix_columns(matrix m, int64_t begin, int64_t count);
/** Rows 0, step, 2 step, ... */
matrix matrix_every_row(matrix m, int64_t step);
/** The first row, `rows` times. */
matrix matrix_repeat_row(matrix m, int64_t rows);
/** A packed matrix of the first rows * columns elements of a packed one. */
matrix matrix_reshape(matrix m, int64_t rows, int64_t columns);

bool matrix_exists(matrix m);
bool matrix_is_packed(matrix m);
bool matrix_is_ordered(matrix m); /* a weight in the order of its instance */
int64_t matrix_count(matrix m);   /* elements */
/** Bytes of one element of a matrix's type; asked for each row of many. */
static inline size_t element_size(grail_dtype type)
{
    return type == GRAIL_DTYPE_F32 ? 4 : type == GRAIL_DTYPE_F64 ? 8 : dtype_bits(type) / 8;
}

/** Copies packed host values of the matrix's own type. */
grail_status matrix_upload(matrix m, const void *values) GRAIL_MUST_CHECK;
grail_status matrix_download(matrix m, void *values) GRAIL_MUST_CHECK;

/** Uploads and downloads as f32: exact, or rounded to nearest. */
grail_status matrix_upload_f32(matrix m, const float *values) GRAIL_MUST_CHECK;
grail_status matrix_download_f32(matrix m, float *values) GRAIL_MUST_CHECK;

typedef enum host_access { HOST_READS, HOST_WRITES, HOST_UPDATES } host_access;

/** A matrix's values in host memory, packed: the matrix's own memory where its instance maps it,
 * else a copy. */
typedef struct host_view {
    matrix of;
    grail_dtype type;
    host_access access;
    void *values; /* [rows, columns] of `type` */
    void *copy;   /* owned, NULL where `values` is the matrix's memory */
} host_view;

/** Opens a view as f32 or f64 (as f32 alone of an ordered weight). Under HOST_WRITES the values
 * begin unset. */
grail_status host_view_open(matrix m, grail_dtype type, host_access access,
                            host_view *out) GRAIL_MUST_CHECK;
/** Ends the view; the matrix has the written values then. Afterwards `v` is zeroed. */
grail_status host_view_close(host_view *v) GRAIL_MUST_CHECK;
/** Ends it after a failure: nothing need be written. Works on a zeroed one. */
void host_view_drop(host_view *v);

#endif
