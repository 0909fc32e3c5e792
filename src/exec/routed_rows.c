#include "exec/routed_rows.h"

#include "backend/operations.h"
#include "base/memory.h"

#include <string.h>

void routed_lists_fini(routed_lists *l)
{
    matrix_free(&l->rows);
    matrix_free(&l->shares);
    memory_free(l->begin);
    *l = (routed_lists){0};
}

static grail_status make_room(backend *b, int64_t count, int64_t outputs, routed_lists *out)
{
    out->outputs = outputs;
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 1, count, &out->rows));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 1, count, &out->shares));
    return memory_new_unset(&out->begin, (size_t)outputs + 1, sizeof out->begin[0]);
}

grail_status routed_lists_make(matrix shares, routed_lists *out)
{
    grail_status status = GRAIL_OK;
    matrix begin = {0};
    backend *b = shares.owner;
    TRY(make_room(b, matrix_count(shares), shares.columns, out));
    TRY(matrix_new(b, GRAIL_DTYPE_F64, 1, shares.columns + 1, &begin));
    TRY(matrix_list_rows(shares, out->rows, out->shares, begin));
    TRY(matrix_download(begin, out->begin));
out:
    matrix_free(&begin);
    return status;
}

grail_status routed_lists_copy(const routed_lists *l, routed_lists *out)
{
    CHECK(make_room(l->rows.owner, l->rows.columns, l->outputs, out));
    CHECK(matrix_copy(l->rows, out->rows));
    CHECK(matrix_copy(l->shares, out->shares));
    memcpy(out->begin, l->begin, ((size_t)l->outputs + 1) * sizeof l->begin[0]);
    return GRAIL_OK;
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
