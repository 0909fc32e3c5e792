/* What the backends on the host have in common: memory, and the kernels of the rows HOST_OPERATION
 * of operation_list.h. A kernel works on the memory of its matrices, whose types and strides are
 * those that the row states: values are float for cpu and double for ref. */
#ifndef GRAIL_BACKEND_HOST_HOST_H
#define GRAIL_BACKEND_HOST_HOST_H

#include "backend/kind.h"
#include "base/parallel.h"

grail_status host_allocate(backend *b, size_t bytes, bool zeroed, void **out);
grail_status host_resize(backend *b, void **memory, size_t bytes);
void host_release(backend *b, void *memory, size_t bytes);
grail_status host_upload(matrix m, const void *values);
grail_status host_download(matrix m, void *values);

/** The fields of backend_kind that follow from these. */
#define HOST_MEMORY                                                                                \
    .devices = 1, .is_host = true, .allocate = host_allocate, .resize = host_resize,               \
    .release = host_release, .upload = host_upload, .download = host_download

/** Packed memory of the caller's as a matrix without an owner: for kernels that call each other. */
matrix host_matrix(grail_dtype type, const void *memory, int64_t rows, int64_t columns);
/** The address of a row or an element, which only a backend on the host may follow. */
static inline void *host_element(matrix m, int64_t row, int64_t column)
{
    return (unsigned char *)m.memory + (size_t)(row * m.stride + column) * element_size(m.type);
}
static inline void *host_row(matrix m, int64_t row)
{
    return host_element(m, row, 0);
}
/** An element of f32 or f64. */
double host_number(matrix m, int64_t row, int64_t column);
static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/** sum_{i < count} a[i] b[i], one after the other. */
double host_dot(int64_t count, const double *a, const double *b);

/** Rows that make some 32768 elements: the piece of work that is worth handing to a thread. */
int64_t host_rows_grain(int64_t columns);
/** parallel_for over the rows of one of an operation's matrices; the operation is the context. */
grail_status host_over_rows(const operation *o, matrix rows, parallel_body body);

#define OPERATION(...)
#define HOST_OPERATION(name, ...) grail_status host_##name(const operation *o) GRAIL_MUST_CHECK;
#include "backend/operation_list.h"

#endif
