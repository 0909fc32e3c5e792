#include "pipeline/network/row_factors.h"

#include "backend/operations.h"
#include "base/memory.h"
#include "exec/routed_rows.h"

#include <string.h>

void row_factors_fini(row_factors *f)
{
    memory_free(f->places);
    memory_free(f->of);
    *f = (row_factors){0};
}

static grail_status find_shares(const execution *e, int put, row_factors *out)
{
    routed_rows found = {0};
    const node *n = &e->graph->nodes[put];
    const grail_status status =
        routed_rows_find(execution_value(e, n->inputs[1]), n->share, &found);
    out->places = found.rows;
    out->of = found.shares;
    out->count = found.count;
    return status;
}

static grail_status read_factors(matrix factor, row_factors *out)
{
    grail_status status = GRAIL_OK;
    host_view view = {0};
    out->count = factor.rows;
    TRY(memory_new_unset(&out->of, (size_t)factor.rows, sizeof out->of[0]));
    TRY(host_view_open(factor, GRAIL_DTYPE_F64, HOST_READS, &view));
    memcpy(out->of, view.values, (size_t)factor.rows * sizeof out->of[0]);
    TRY(host_view_close(&view));
out:
    host_view_drop(&view);
    return status;
}

grail_status row_factors_find(const execution *e, const consumer_tail *tail, row_factors *out)
{
    *out = (row_factors){.exist = tail->put != GRAPH_NONE || tail->factor != GRAPH_NONE};
    if (tail->put != GRAPH_NONE) {
        return find_shares(e, tail->put, out);
    }
    return tail->factor == GRAPH_NONE ? GRAIL_OK
                                      : read_factors(execution_value(e, tail->factor), out);
}

static grail_status scale(const row_factors *f, bool divides, matrix x)
{
    grail_status status = GRAIL_OK;
    double *by = NULL;
    matrix factors = {0};
    if (!f->exist || f->count == 0) {
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&by, (size_t)f->count, sizeof by[0]));
    for (int64_t t = 0; t < f->count; t++) {
        by[t] = !divides ? f->of[t] : f->of[t] != 0.0 ? 1.0 / f->of[t] : 0.0;
    }
    TRY(matrix_import(x.owner, GRAIL_DTYPE_F64, 1, x.rows, f->count, by, &factors));
    TRY(matrix_scale_rows(factors, x, x));
out:
    matrix_free(&factors);
    memory_free(by);
    return status;
}

grail_status row_factors_multiply(const row_factors *f, matrix x)
{
    return scale(f, false, x);
}

grail_status row_factors_divide(const row_factors *f, matrix x)
{
    return scale(f, true, x);
}

grail_status row_factors_gather(const row_factors *f, matrix_pool *pool, matrix *x)
{
    matrix rows = {0};
    if (f->places == NULL) {
        return GRAIL_OK;
    }
    grail_status status = matrix_pool_take(pool, f->count, x->columns, &rows);
    if (status == GRAIL_OK) {
        status = matrix_gather(f->places, NULL, *x, rows);
    }
    matrix_pool_give(pool, x);
    *x = rows;
    return status;
}
