/* Copies, gathers and folds of both types, converted to the output's. */
#include "backend/torch/kernels.h"

#include "base/memory.h"

grail_status torch_run_copy(const operation *o)
{
    torch_frame f = torch_begin(o->m[0].owner);
    torch_copy(&f, torch_matrix(&f, o->m[0]), torch_matrix(&f, o->m[1]));
    return torch_end(&f);
}

grail_status torch_run_zero(const operation *o)
{
    torch_frame f = torch_begin(o->m[0].owner);
    torch_zero(&f, torch_matrix(&f, o->m[0]));
    return torch_end(&f);
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

grail_status torch_run_gather(const operation *o)
{
    const matrix out = o->m[1];
    matrix in = o->m[0];
    torch_frame f = torch_begin(in.owner);
    torch_tensor rows = listed(&f, out.rows, o->with.rows);
    const torch_tensor columns = listed(&f, out.columns, o->with.columns);
    in = o->with.rows == NULL ? matrix_rows(in, 0, out.rows) : in;
    in = o->with.columns == NULL ? matrix_columns(in, 0, out.columns) : in;
    if (matrix_count(out) == 0) {
        return torch_end(&f);
    }
    if (rows == NULL && columns == NULL) {
        torch_copy(&f, torch_as(&f, out.type, torch_matrix(&f, in)), torch_matrix(&f, out));
        return torch_end(&f);
    }
    if (rows != NULL && columns != NULL) { /* every row with every column */
        rows = torch_reshaped(&f, rows, 2, (int64_t[]){out.rows, 1}, (int64_t[]){1, 1}, 0);
    }
    take(&f, in, rows, columns, out);
    return torch_end(&f);
}

grail_status torch_run_take_columns(const operation *o)
{
    torch_frame f = torch_begin(o->m[0].owner);
    if (matrix_count(o->m[2]) > 0) {
        const torch_tensor index = torch_as(
            &f, GRAIL_DTYPE_I64, torch_view(&f, o->m[0], 1, &o->m[0].columns, (int64_t[]){1}));
        take(&f, o->m[1], NULL, index, o->m[2]);
    }
    return torch_end(&f);
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
    const grail_dtype type = torch_is_narrow(o->m[0]) ? GRAIL_DTYPE_F32 : o->m[0].type;
    return torch_reshaped(f, torch_as(f, type, all), of_columns ? 2 : 3, (int64_t[]){units, 1, 1},
                          (int64_t[]){1, 1, 1}, 0);
}

static grail_status fold(const operation *o, bool of_columns)
{
    const matrix in = o->m[0];
    const matrix out = o->m[1];
    const int64_t units = o->with.units;
    const int64_t features = (of_columns ? in.columns : in.rows) / units;
    const int64_t folded = (of_columns ? out.columns : out.rows) / features;
    torch_frame f = torch_begin(in.owner);
    if (matrix_count(in) > 0) {
        const torch_tensor factors = shares(&f, o, of_columns);
        const torch_tensor parts =
            torch_times(&f, in_units(&f, in, of_columns, units, features), factors);
        const torch_tensor own = in_units(&f, out, of_columns, folded, features);
        const torch_tensor to = torch_widened(&f, out, own);
        const torch_tensor labels = torch_list(&f, GRAIL_DTYPE_I64, units, o->with.labels);
        /* on a GPU the one addition by index whose order is always the same */
        (void)torch_call(&f, "aten::index_put_", "", A_TENSOR(to),
                         TENSORS(of_columns ? NULL : labels, of_columns ? labels : NULL),
                         A_TENSOR(parts), A_TRUTH(true));
        if (torch_is_narrow(out)) {
            torch_copy(&f, to, own);
        }
    }
    return torch_end(&f);
}

grail_status torch_run_fold_columns(const operation *o)
{
    return fold(o, true);
}

grail_status torch_run_fold_rows(const operation *o)
{
    return fold(o, false);
}
