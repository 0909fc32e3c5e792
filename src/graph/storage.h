/* How parameters lie in the tensors of a checkpoint: one tensor may hold q, k and v one after
 * another or head by head, the matrices of several experts, or a matrix that is stored transposed.
 *
 * A parameter is seen as a matrix P[rows, columns] (dimensions after the first are columns), its
 * tensor as T[R, C]: the last dimension is C and those before it are R, but a vector has C = 1 and
 * a convolution keeps all dimensions after the first in C; its tensor may also be a matrix. A map
 * takes P[i, j] from T:
 *
 *   P[i, j] = scale * T[row(i), column(j)] + offset,   T[column(j), row(i)] when transposed
 *
 * so that norms which multiply by 1 + T have an offset of 1, or of scale / T where values are
 * divided by the tensor. Writing inverts it: of the numbers
 * that are read as a value, that of the dense tensor is written where it is one of them, so what
 * was not changed keeps its bits, although 1 + T may have lost some of T's.
 *
 * The parameters of a tensor must cover it like a grid: the sets of positions along each axis are
 * disjoint and complete, and each pair of a row set and a column set belongs to one parameter. */
#ifndef GRAIL_GRAPH_STORAGE_H
#define GRAIL_GRAPH_STORAGE_H

#include "tensor/tensor.h"

enum { PARAMETER_MAX_RANK = 4, STORAGE_LEVELS = 3 };

/** `count` places, `stride` apart in the tensor (0 counts as 1). Count 0: all that are left. */
typedef struct storage_level {
    int64_t count, stride;
} storage_level;

/** The elements of an axis of the parameter are numbered as those of an array of up to three
 * levels, such as features of heads of groups, with level[0] the innermost. Element i is at first +
 * the sum of its place on each level * the level's stride on an axis of the tensor. All levels
 * after one of count 0 count for nothing, so the elements of a zeroed axis are those of the
 * tensor's. */
typedef struct storage_axis {
    int64_t first;
    storage_level level[STORAGE_LEVELS];
} storage_axis;

/** A zeroed map is that of a parameter which is a tensor of its own. */
typedef struct storage_map {
    storage_axis rows, columns;
    bool transposed; /* rows of the parameter lie along the columns of the tensor */
    double scale;    /* 0 counts as 1 */
    double offset;
    bool inverts; /* the tensor divides */
} storage_map;

/** The map of a parameter that is `count` complete rows of its tensor, from row `first` on. */
storage_map storage_rows(int64_t first, int64_t count);

/** A parameter's shape and its place. */
typedef struct stored_matrix {
    storage_map map;
    int rank;
    int64_t shape[PARAMETER_MAX_RANK];
} stored_matrix;

/** Where element i of an axis lies. */
int64_t storage_position(const storage_axis *axis, int64_t i);

/** Whether the elements of an axis are all of the tensor's, in their order. */
bool storage_axis_is_whole(const storage_axis *axis);

/** Whether values differ from the numbers in the tensor: by a scale or an offset, or as inverses.
 */
bool storage_is_affine(const storage_map *map);

/** Whether the parameter is its tensor, as it is. */
bool storage_is_plain(const storage_map *map);

/** Whether the parameter, of so many rows, is a run of complete rows of its tensor, as they are; of
 * complete columns, when it is transposed. */
bool storage_is_run_of_rows(const storage_map *map, int64_t rows);

/** Whether the parameter can be taken from a tensor of this shape. Leading dimensions that the
 * parameter lacks must be 1, unless the map says which of the stacked matrices it is. */
bool storage_fits(const stored_matrix *p, const tensor_view *tensor);

/** out[elements of p] <- the parameter as f32, NaN and infinity included. */
grail_status storage_read(const stored_matrix *p, const tensor_view *tensor,
                          float *out) GRAIL_MUST_CHECK;

/** out[columns of p] <- row `row` of the parameter, likewise. */
grail_status storage_read_row(const stored_matrix *p, const tensor_view *tensor, int64_t row,
                              float *out) GRAIL_MUST_CHECK;

/** Rounds values of a parameter to the nearest that a tensor of this dtype can give. A value beyond
 * the dtype's range is GRAIL_ERROR_NUMERIC, and the message names its index. Values that a tensor
 * gave stay as they are. */
grail_status storage_round(const storage_map *map, grail_dtype dtype, int64_t count,
                           float *values) GRAIL_MUST_CHECK;

/** The index in the tensor of the parameter's element i. */
int64_t storage_element(const stored_matrix *p, const tensor_view *tensor, int64_t i);

/** GRAIL_ERROR_SHAPE unless the parameters, which all fit, cover the tensor like a grid. */
grail_status storage_check_cover(int count, const stored_matrix *const parameters[],
                                 const tensor_view *tensor) GRAIL_MUST_CHECK;

/** One parameter of a tensor and what is left of it. */
typedef struct storage_piece {
    stored_matrix dense;
    int64_t rows, columns; /* that are left; rows 0: the parameter is gone */
    const int64_t
        *row_origin; /* [rows]: the dense row that each stands for, ascending; NULL: all */
    const int64_t *column_origin; /* [columns], likewise */
} storage_piece;

/** Where the pieces lie in the narrowed tensor, a matrix of rows x columns. */
typedef struct storage_layout {
    int64_t rows, columns;
    int count;
    const storage_piece *pieces; /* borrowed */
    const int64_t **row_at; /* [count]: for each piece the tensor's row of each of its rows, or of
                               its columns when it is transposed; owned */
    const int64_t **column_at; /* [count], likewise */
    int64_t *places[2];        /* that they point to; owned */
} storage_layout;

/** Rows and columns that are left keep the order of the dense ones that they stand for. The pieces
 * cover the dense tensor. *out is released with storage_layout_fini. */
grail_status storage_lay_out(int count, const storage_piece pieces[],
                             storage_layout *out) GRAIL_MUST_CHECK;
void storage_layout_fini(storage_layout *layout); /* works on a zeroed one */

/** The narrowed tensor's shape: the dense rank and leading dimensions. */
grail_status storage_narrow_shape(const storage_layout *layout, const tensor_view *tensor,
                                  int64_t shape[]) GRAIL_MUST_CHECK;

/** Puts piece i, values[rows, columns], into the narrowed tensor's matrix out[R', C'] (f32).
 * `tensor` is the dense one. */
grail_status storage_put(const storage_layout *layout, int i, const tensor_view *tensor,
                         const float *values, float *out) GRAIL_MUST_CHECK;
/** The reverse. */
void storage_get(const storage_layout *layout, int i, const float *in, float *values);

#endif
