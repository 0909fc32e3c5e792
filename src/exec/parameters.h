/* Parameter stores: the parameters that a run computes with. A store answers with its own entry
 * when it has one, and else asks its parent; the root reads the model's checkpoint on demand. So a
 * narrowed network is a thin layer over the dense one. */
#ifndef GRAIL_EXEC_PARAMETERS_H
#define GRAIL_EXEC_PARAMETERS_H

#include "arch/model.h"
#include "backend/backend.h"

/** A parameter's values: [shape[0], product of the others], a vector as one row. Owned by the
 * store; without a matrix there is no entry. A weight of Linears may be ordered (matrix.h). */
typedef struct parameter_entry {
    matrix values;
    matrix ordered; /* the same for products, once asked for; goes with the values */
    bool changes;   /* operations may change the values where they are */
    int64_t shape[PARAMETER_MAX_RANK];
    bool is_stored; /* the values are those of the checkpoint, without rounding */
} parameter_entry;

typedef struct parameter_store {
    const grail_model *model;
    backend *backend;
    struct parameter_store *parent; /* NULL: the checkpoint */
    parameter_entry *entries;       /* [parameter_count] */
    const grail_dtype *written; /* [parameter_count] in which the result holds them, borrowed; NULL,
                                   or GRAIL_DTYPE_COUNT: as the model's result does. Numbers for
                                   blocks are kept as they are, since rounding them is not left to
                                   the store */
    int *sources; /* [parameter_count] in a root: whose values each takes from the checkpoint; NULL:
                     its own; owned */
    struct parameter_store *home; /* of a device: own entries that lie in host memory, with all
                                     their digits; NULL: none; owned */
} parameter_store;

/** *out is owned, even after a failure: parameter_store_free; the parent must outlive it. */
grail_status parameter_store_create(const grail_model *model, backend *b, parameter_store *parent,
                                    parameter_store **out) GRAIL_MUST_CHECK;
void parameter_store_free(parameter_store *store); /* NULL is allowed */

/** The entry of a parameter, loaded at first use (and kept until released). Borrowed. */
grail_status parameter_store_get(parameter_store *store, int index,
                                 const parameter_entry **out) GRAIL_MUST_CHECK;

/** The entry's values as a weight of Linears: where the backend multiplies in an order of its own,
 * values that stay as they are are ordered once, at first use. Borrowed as an entry is. */
grail_status parameter_store_get_weight(parameter_store *store, int index,
                                        matrix *out) GRAIL_MUST_CHECK;
/** Orders an own entry whose values change, as they are now. Whoever changes them orders them
 * again, or forgets the order. */
grail_status parameter_store_order(parameter_store *store, int index) GRAIL_MUST_CHECK;
void parameter_store_forget_order(parameter_store *store, int index);

/** Sets an own entry from f32 values, rounded to the dtype that it will be stored in. */
grail_status parameter_store_set(parameter_store *store, int index, const int64_t shape[],
                                 const float *values) GRAIL_MUST_CHECK;

/** The same from a packed matrix of F32 of the store's backend. A device converts where it lies. */
grail_status parameter_store_set_matrix(parameter_store *store, int index, const int64_t shape[],
                                        matrix values) GRAIL_MUST_CHECK;

/** From now on the root `store` takes the values of `source`, which has the same shape, from the
 * checkpoint for `index`. */
grail_status parameter_store_stand_in(parameter_store *store, int index,
                                      int source) GRAIL_MUST_CHECK;
/** Whether it does so for another one. */
bool parameter_store_is_moved(const parameter_store *store, int index);

/** Sets an own entry of zeros in the shape of the model; nothing for GRAPH_NONE. */
grail_status parameter_store_set_zero(parameter_store *store, int index) GRAIL_MUST_CHECK;

/** Makes an own entry of the values that are seen through the store, as values of the backend,
 * which operations may change, and not rounded to the stored dtype. An own entry that is ordered is
 * replaced. */
grail_status parameter_store_own(parameter_store *store, int index) GRAIL_MUST_CHECK;

/** Rounds values of a parameter, in any shape, to the dtype that it will be stored in. */
grail_status parameter_store_round(const parameter_store *store, int index,
                                   matrix values) GRAIL_MUST_CHECK;

/** Its shape as seen through `store`, without loading it. Borrowed until it is set or released. */
const int64_t *parameter_store_shape(parameter_store *store, int index);

/** Values of a parameter as seen through `store`, as f32: *out is owned, with its elements. Without
 * an entry they are read from the checkpoint, and none is made; so they are where a device holds
 * them as stored: what is only read passes no device. */
grail_status parameter_store_read_f32(parameter_store *store, int index, float **out,
                                      int64_t *elements) GRAIL_MUST_CHECK;

/** Copies the values to a packed matrix of F32 of the store's backend. */
grail_status parameter_store_copy(parameter_store *store, int index, matrix out) GRAIL_MUST_CHECK;

/** Whether it sees a parameter as `dense`, its parent. */
bool parameter_store_inherits(const parameter_store *store, const parameter_store *dense,
                              int index);

/** As parameter_store_read_f32, without a copy where the values lie in host memory as f32: *out is
 * borrowed, or lies in *owned, which the caller frees (NULL otherwise). */
grail_status parameter_store_borrow_f32(parameter_store *store, int index, const float **out,
                                        float **owned) GRAIL_MUST_CHECK;

/**
 * Rows ids[0 .. out.rows - 1] of the two-dimensional parameter `index` as out[rows, columns].
 * Without an entry they are read from the checkpoint row by row: the complete table is never held
 * in memory for this. An id outside the table is GRAIL_ERROR_ARGUMENT.
 */
grail_status parameter_store_gather_rows(parameter_store *store, int index, const int32_t *ids,
                                         matrix out) GRAIL_MUST_CHECK;

/** Moves the own entries of a device to host memory, and gives those of wanted[parameter_count] one
 * there. What is asked for comes up from there, and is dropped on the device by the next function.
 * Entries in `home` may be changed while the device has none of them. */
grail_status parameter_store_move_home(parameter_store *store, const bool *wanted) GRAIL_MUST_CHECK;

/** Whether it has an own entry, on the device or in host memory. */
bool parameter_store_owns(const parameter_store *store, int index);

/** Drops own entries of the parameters that nodes [begin, end) use; those in host memory stay. */
void parameter_store_release_range(parameter_store *store, int begin, int end);

#endif
