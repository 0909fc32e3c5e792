/* Copies, gathers and folds of both types, converted to the output's. */
#include "backend/torch/kernels.h"

#include "base/memory.h"

KERNEL(copy)
{
    torch_copy(f, torch_matrix(f, o->m[0]), torch_matrix(f, o->m[1]));
}

KERNEL(round_to)
{
    const torch_tensor x = torch_matrix(f, o->m[0]);
    torch_copy(f, torch_as(f, o->with.type, x), x);
}

KERNEL(zero)
{
    torch_zero(f, torch_matrix(f, o->m[0]));
}

/* -- gathers ----------------------------------------------------------------------------------- */

/* A list on the device; NULL for none. */
static torch_tensor listed(torch_frame *f, int64_t count, const int64_t *list)
{
    return list == NULL ? NULL : torch_list(f, GRAIL_DTYPE_I64, count, list);
}

/* What a gather takes is made aside where it would be written over itself or has another type. */
static void take(torch_frame *f, matrix in, torch_tensor rows, torch_tensor columns, matrix out)
{
    const torch_tensor from = torch_matrix(f, in);
    const torch_tensor to = torch_matrix(f, out);
    if (in.memory != out.memory && in.type == out.type) {
        (void)torch_call(f, "aten::index", "Tensor_out", A_TENSOR(from), TENSORS(rows, columns),
                         A_TENSOR(to));
    } else {
        const torch_tensor taken =
            torch_call(f, "aten::index", "Tensor", A_TENSOR(from), TENSORS(rows, columns));
        torch_copy(f, taken, to);
    }
}

KERNEL(gather)
{
    const matrix out = o->m[1];
    matrix in = o->m[0];
    torch_tensor rows = listed(f, out.rows, o->with.rows);
    const torch_tensor columns = listed(f, out.columns, o->with.columns);
    in = o->with.rows == NULL ? matrix_rows(in, 0, out.rows) : in;
    in = o->with.columns == NULL ? matrix_columns(in, 0, out.columns) : in;
    if (matrix_count(out) == 0) {
        return;
    }
    if (rows == NULL && columns == NULL) {
        torch_copy(f, torch_as(f, out.type, torch_matrix(f, in)), torch_matrix(f, out));
        return;
    }
    if (rows != NULL && columns != NULL) { /* every row with every column */
        rows = torch_reshaped(f, rows, 2, (int64_t[]){out.rows, 1}, (int64_t[]){1, 1}, 0);
    }
    take(f, in, rows, columns, out);
}

/* A row of numbers as places. */
static torch_tensor places(torch_frame *f, matrix index)
{
    return torch_as(f, GRAIL_DTYPE_I64, torch_view(f, index, 1, &index.columns, (int64_t[]){1}));
}

KERNEL(take_columns)
{
    if (matrix_count(o->m[2]) > 0) {
        take(f, o->m[1], NULL, places(f, o->m[0]), o->m[2]);
    }
}

KERNEL(take_rows)
{
    if (matrix_count(o->m[2]) > 0) {
        take(f, o->m[1], places(f, o->m[0]), NULL, o->m[2]);
    }
}

/* The type in which sums of values are made. */
static grail_dtype type_of_sums(matrix m)
{
    return torch_is_narrow(m) ? GRAIL_DTYPE_F32 : m.type;
}

/* Rows of `out` are made anew, not the entire matrix. */
KERNEL(add_rows)
{
    const matrix in = o->m[2];
    const matrix share = o->m[1];
    const matrix out = o->m[3];
    if (matrix_count(in) == 0) {
        return;
    }
    const torch_tensor index = places(f, o->m[0]);
    const torch_tensor to = torch_matrix(f, out);
    const torch_tensor own =
        torch_call(f, "aten::index_select", "", A_TENSOR(to), AN_INTEGER(0), A_TENSOR(index));
    torch_tensor added = torch_wide(f, in);
    if (matrix_exists(share)) {
        const torch_tensor column = torch_transposed(f, torch_matrix(f, share));
        added = torch_times(f, added, torch_as(f, type_of_sums(in), column));
    }
    const torch_tensor sum = torch_sum(f, torch_widened(f, out, own), added, 1.0);
    (void)torch_call(f, "aten::index_copy_", "", A_TENSOR(to), AN_INTEGER(0), A_TENSOR(index),
                     A_TENSOR(torch_as(f, out.type, sum)));
}

/* Places of t[outputs, rows], those with a share first and otherwise in order: without a search,
 * which would wait for its count. */
static torch_tensor sorted_places(torch_frame *f, torch_tensor has_share, int64_t count,
                                  torch_tensor *first)
{
    torch_tensor made[2]; /* keys, and places */
    const torch_tensor keys =
        torch_reshaped(f, torch_as(f, GRAIL_DTYPE_F32, has_share), 1, &count, (int64_t[]){1}, 0);
    (void)torch_call_many(f, "aten::sort", "stable", 2, made, A_TENSOR(keys), MAYBE_INTEGER(1),
                          AN_INTEGER(0), A_TRUTH(true));
    *first = made[0];
    return made[1];
}

/* begin[1, outputs + 1] <- 0 and the running sums of how many rows have a share. */
static void put_begins(torch_frame *f, torch_tensor has_share, matrix begin)
{
    const int64_t outputs = begin.columns - 1;
    const torch_tensor ends = torch_view(f, matrix_columns(begin, 1, outputs), 2,
                                         (int64_t[]){outputs, 1}, (int64_t[]){1, 1});
    const torch_tensor counts = torch_sums(f, has_share, MAYBE_INTEGERS(1));
    torch_zero(f, torch_matrix(f, matrix_columns(begin, 0, 1)));
    torch_copy(f, torch_call(f, "aten::cumsum", "", A_TENSOR(counts), AN_INTEGER(0), NOTHING),
               ends);
}

KERNEL(list_rows)
{
    const matrix shares = o->m[0];
    const int64_t count = matrix_count(shares);
    if (count == 0) {
        torch_zero(f, torch_matrix(f, o->m[3]));
        return;
    }
    torch_tensor first = NULL; /* 1 where there is a share, then 0 */
    const torch_tensor t = torch_empty(f, GRAIL_DTYPE_F64, shares.columns, shares.rows);
    torch_copy(f, torch_transposed(f, torch_matrix(f, shares)), t);
    const torch_tensor has_share = torch_compared(f, "aten::gt", t, 0.0);
    put_begins(f, has_share, o->m[3]);
    const torch_tensor at = sorted_places(f, has_share, count, &first);
    const torch_tensor none = torch_unary(f, "aten::logical_not", first);
    const torch_tensor place = torch_as(f, GRAIL_DTYPE_F64, at);
    const torch_tensor output = torch_unary(
        f, "aten::floor", torch_divided(f, place, torch_number(f, (double)shares.rows)));
    const torch_tensor index = torch_sum(f, place, output, -(double)shares.rows);
    const torch_tensor all = torch_reshaped(f, t, 1, &count, (int64_t[]){1}, 0);
    const torch_tensor found =
        torch_call(f, "aten::index_select", "", A_TENSOR(all), AN_INTEGER(0), A_TENSOR(at));
    torch_put(f, none, 0.0, index);
    torch_put(f, none, 0.0, found);
    torch_copy(f, index, torch_matrix(f, o->m[1]));
    torch_copy(f, found, torch_matrix(f, o->m[2]));
}

/* -- folds ------------------------------------------------------------------------------------- */

/* A matrix whose columns, or rows, are `units` of so many features. */
static torch_tensor in_units(torch_frame *f, matrix m, bool of_columns, int64_t units,
                             int64_t features)
{
    return of_columns ? torch_view(f, m, 3, (int64_t[]){m.rows, units, features},
                                   (int64_t[]){m.stride, features, 1})
                      : torch_view(f, m, 3, (int64_t[]){units, features, m.columns},
                                   (int64_t[]){features * m.stride, m.stride, 1});
}

/* The share of each unit, along the dimension that in_units has for units. */
static torch_tensor shares(torch_frame *f, const operation *o, bool of_columns)
{
    const int64_t units = o->with.units;
    double *own = NULL;
    f->status = memory_new_unset(&own, (size_t)units, sizeof own[0]);
    for (int64_t j = 0; f->status == GRAIL_OK && j < units; j++) {
        own[j] = o->with.share[o->with.labels[j]];
    }
    const torch_tensor all = torch_list(f, GRAIL_DTYPE_F64, units, own);
    memory_free(own);
    return torch_reshaped(f, torch_as(f, type_of_sums(o->m[0]), all), of_columns ? 2 : 3,
                          (int64_t[]){units, 1, 1}, (int64_t[]){1, 1, 1}, 0);
}

static void fold(torch_frame *f, const operation *o, bool of_columns)
{
    const matrix in = o->m[0];
    const matrix out = o->m[1];
    const int64_t units = o->with.units;
    const int64_t features = (of_columns ? in.columns : in.rows) / units;
    const int64_t folded = (of_columns ? out.columns : out.rows) / features;
    if (matrix_count(in) > 0) {
        const torch_tensor factors = shares(f, o, of_columns);
        const torch_tensor parts =
            torch_times(f, in_units(f, in, of_columns, units, features), factors);
        const torch_tensor own = in_units(f, out, of_columns, folded, features);
        const torch_tensor to = torch_widened(f, out, own);
        const torch_tensor labels = torch_list(f, GRAIL_DTYPE_I64, units, o->with.labels);
        /* on a GPU the one addition by index whose order is always the same */
        (void)torch_call(f, "aten::index_put_", "", A_TENSOR(to),
                         TENSORS(of_columns ? NULL : labels, of_columns ? labels : NULL),
                         A_TENSOR(parts), A_TRUTH(true));
        if (torch_is_narrow(out)) {
            torch_copy(f, to, own);
        }
    }
}

KERNEL(fold_columns)
{
    fold(f, o, true);
}

KERNEL(fold_rows)
{
    fold(f, o, false);
}
