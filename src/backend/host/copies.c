/* Copies, gathers and folds of f32 and f64, converted to the output's type. */
#include "backend/host/host.h"

#include "base/memory.h"
#include "base/parallel.h"

#include <string.h>

/* Defines NAME: to[j] = from[columns[j]]; NULL stands for 0, 1, 2, ... */
#define GATHER(name, type_from, type_to)                                                           \
    static void name(int64_t count, const int64_t *columns, const type_from *from, type_to *to)    \
    {                                                                                              \
        for (int64_t j = 0; columns == NULL && j < count; j++) {                                   \
            to[j] = (type_to)from[j];                                                              \
        }                                                                                          \
        for (int64_t j = 0; columns != NULL && j < count; j++) {                                   \
            to[j] = (type_to)from[columns[j]];                                                     \
        }                                                                                          \
    }
GATHER(gather_floats, float, float)
GATHER(gather_doubles, double, double)
GATHER(gather_widened, float, double)
GATHER(gather_rounded, double, float)

/* May run in place where columns ascend. */
static void gather_row(matrix in, const void *from, const int64_t *columns, matrix out, void *to)
{
    const bool reads_f32 = in.type == GRAIL_DTYPE_F32;
    const bool makes_f32 = out.type == GRAIL_DTYPE_F32;
    if (columns == NULL && in.type == out.type) {
        memmove(to, from, (size_t)out.columns * element_size(out.type));
    } else if (reads_f32 && makes_f32) {
        gather_floats(out.columns, columns, from, to);
    } else if (reads_f32) {
        gather_widened(out.columns, columns, from, to);
    } else if (makes_f32) {
        gather_rounded(out.columns, columns, from, to);
    } else {
        gather_doubles(out.columns, columns, from, to);
    }
}

static void gather_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix in = o->m[0];
    const matrix out = o->m[1];
    for (int64_t r = begin; r < end; r++) {
        const int64_t source = o->with.rows == NULL ? r : o->with.rows[r];
        gather_row(in, host_row(in, source), o->with.columns, out, host_row(out, r));
    }
}

grail_status host_gather(const operation *o)
{
    if (o->m[0].memory != o->m[1].memory) {
        return host_over_rows(o, o->m[1], gather_rows);
    }
    gather_rows(0, o->m[1].rows, (void *)(uintptr_t)o); /* a thread would overtake another */
    return GRAIL_OK;
}

grail_status host_take_columns(const operation *o)
{
    const double *index = o->m[0].memory;
    int64_t *columns = NULL;
    operation gather = {.m = {o->m[1], o->m[2]}};
    CHECK(memory_new_unset(&columns, (size_t)o->m[2].columns, sizeof columns[0]));
    for (int64_t j = 0; j < o->m[2].columns; j++) {
        columns[j] = (int64_t)index[j];
    }
    gather.with.columns = columns;
    const grail_status status = host_gather(&gather);
    memory_free(columns);
    return status;
}

/* From or to a weight that lies in an order of the backend's own. */
static grail_status copy_ordered(matrix in, matrix out)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    TRY(host_view_open(in, GRAIL_DTYPE_F32, HOST_READS, &v));
    TRY(matrix_upload_f32(out, v.values));
out:
    host_view_drop(&v);
    return status;
}

grail_status host_copy(const operation *o)
{
    const matrix in = o->m[0];
    const matrix out = o->m[1];
    if (matrix_is_ordered(in) || matrix_is_ordered(out)) {
        return copy_ordered(in, out);
    }
    if (in.type == out.type && matrix_is_packed(in) && matrix_is_packed(out)) {
        memmove(out.memory, in.memory, (size_t)matrix_count(in) * element_size(in.type));
        return GRAIL_OK;
    }
    return host_gather(o);
}

grail_status host_round_to(const operation *o)
{
    grail_status status = GRAIL_OK;
    const matrix x = o->m[0];
    const int64_t count = x.columns;
    const matrix row = {.type = GRAIL_DTYPE_F32, .columns = count};
    float *values = NULL;
    void *rounded = NULL;
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(memory_new_unset(&rounded, (size_t)count, element_size(o->with.type)));
    for (int64_t r = 0; r < x.rows; r++) {
        gather_row(x, host_row(x, r), NULL, row, values);
        TRY(convert_from_f32(o->with.type, values, count, rounded));
        TRY(convert_to_f32(o->with.type, rounded, count, values));
        gather_row(row, values, NULL, x, host_row(x, r));
    }
out:
    memory_free(rounded);
    memory_free(values);
    return status;
}

static void clear_rows(int64_t begin, int64_t end, void *context)
{
    const matrix m = ((const operation *)context)->m[0];
    for (int64_t r = begin; r < end; r++) {
        memset(host_row(m, r), 0, (size_t)m.columns * element_size(m.type));
    }
}

grail_status host_zero(const operation *o)
{
    return host_over_rows(o, o->m[0], clear_rows);
}

/* out[j] += share in[j] */
static void add_share(grail_dtype type, int64_t count, double share, const void *in, void *out)
{
    const float rounded = (float)share;
    for (int64_t i = 0; i < count; i++) {
        if (type == GRAIL_DTYPE_F64) {
            ((double *)out)[i] += share * ((const double *)in)[i];
        } else {
            ((float *)out)[i] += rounded * ((const float *)in)[i];
        }
    }
}

/* -- by lists of numbers ------------------------------------------------------------------------
 */

static int64_t place_in(matrix index, int64_t i)
{
    return (int64_t)((const double *)index.memory)[i];
}

static void take_some_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix out = o->m[2];
    for (int64_t r = begin; r < end; r++) {
        memcpy(host_row(out, r), host_row(o->m[1], place_in(o->m[0], r)),
               (size_t)out.columns * element_size(out.type));
    }
}

grail_status host_take_rows(const operation *o)
{
    return host_over_rows(o, o->m[2], take_some_rows);
}

static void add_some_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const double *share = o->m[1].memory;
    const matrix in = o->m[2];
    for (int64_t r = begin; r < end; r++) {
        add_share(in.type, in.columns, share == NULL ? 1.0 : share[r], host_row(in, r),
                  host_row(o->m[3], place_in(o->m[0], r)));
    }
}

grail_status host_add_rows(const operation *o)
{
    return host_over_rows(o, o->m[2], add_some_rows);
}

grail_status host_list_rows(const operation *o)
{
    const matrix shares = o->m[0];
    double *index = o->m[1].memory;
    double *share = o->m[2].memory;
    double *begin = o->m[3].memory;
    int64_t count = 0;
    for (int64_t c = 0; c < shares.columns; c++) {
        begin[c] = (double)count;
        for (int64_t r = 0; r < shares.rows; r++) {
            const double found = host_number(shares, r, c);
            if (found > 0.0) {
                index[count] = (double)r;
                share[count++] = found;
            }
        }
    }
    begin[shares.columns] = (double)count;
    for (int64_t i = count; i < o->m[1].columns; i++) {
        index[i] = share[i] = 0.0;
    }
    return GRAIL_OK;
}

/* -- folds --------------------------------------------------------------------------------------
 */

static void fold_column_rows(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix in = o->m[0];
    const matrix out = o->m[1];
    const int64_t features = in.columns / o->with.units;
    const size_t unit = (size_t)features * element_size(in.type);
    for (int64_t r = begin; r < end; r++) {
        const unsigned char *from = host_row(in, r);
        unsigned char *to = host_row(out, r);
        for (int64_t j = 0; j < o->with.units; j++) {
            const int64_t label = o->with.labels[j];
            add_share(in.type, features, o->with.share[label], from + (size_t)j * unit,
                      to + (size_t)label * unit);
        }
    }
}

grail_status host_fold_columns(const operation *o)
{
    return host_over_rows(o, o->m[0], fold_column_rows);
}

/* Columns [begin, end) of all rows. */
static void fold_row_columns(int64_t begin, int64_t end, void *context)
{
    const operation *o = context;
    const matrix in = matrix_columns(o->m[0], begin, end - begin);
    const matrix out = matrix_columns(o->m[1], begin, end - begin);
    const int64_t features = in.rows / o->with.units;
    for (int64_t r = 0; r < in.rows; r++) {
        const int64_t label = o->with.labels[r / features];
        add_share(in.type, in.columns, o->with.share[label], host_row(in, r),
                  host_row(out, label * features + r % features));
    }
}

grail_status host_fold_rows(const operation *o)
{
    enum { COLUMNS = 256 };
    parallel_for(o->m[0].columns, COLUMNS, fold_row_columns, (void *)(uintptr_t)o);
    return GRAIL_OK;
}
