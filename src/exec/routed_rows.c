#include "exec/routed_rows.h"

#include "backend/operations.h"
#include "base/memory.h"

void routed_lists_fini(routed_lists *l)
{
    matrix_free(&l->rows);
    matrix_free(&l->shares);
    memory_free(l->begin);
    *l = (routed_lists){0};
}

grail_status routed_lists_make(matrix shares, routed_lists *out)
{
    grail_status status = GRAIL_OK;
    matrix begin = {0};
    const int64_t count = matrix_count(shares);
    out->outputs = shares.columns;
    TRY(matrix_new(shares.owner, GRAIL_DTYPE_F64, 1, count, &out->rows));
    TRY(matrix_new(shares.owner, GRAIL_DTYPE_F64, 1, count, &out->shares));
    TRY(matrix_new(shares.owner, GRAIL_DTYPE_F64, 1, shares.columns + 1, &begin));
    TRY(matrix_list_rows(shares, out->rows, out->shares, begin));
    TRY(memory_new_unset(&out->begin, (size_t)begin.columns, sizeof out->begin[0]));
    TRY(matrix_download(begin, out->begin));
out:
    matrix_free(&begin);
    return status;
}

routed_rows routed_rows_of(const routed_lists *l, int64_t output)
{
    const bool has = output < l->outputs;
    const int64_t begin = has ? (int64_t)l->begin[output] : 0;
    const int64_t count = has ? (int64_t)l->begin[output + 1] - begin : 0;
    return (routed_rows){.count = count,
                         .rows = matrix_columns(l->rows, begin, count),
                         .shares = matrix_columns(l->shares, begin, count)};
}
