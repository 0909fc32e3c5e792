#include "exec/ops/operator_code.h"

/* order[rows] <- the rows of a batch as squares have them, or where each of these comes from. */
static void find_order(const node_run *r, bool back, int64_t *order)
{
    const merge_attributes *m = &r->node->merge;
    const int64_t size = m->height * m->width;
    for (int64_t i = 0; i < r->samples * r->in.height * r->in.width; i++) {
        const int64_t place = i % size;
        const int64_t square = i / size;
        const int64_t row = m->columns_first ? place % m->height : place / m->width;
        const int64_t column = m->columns_first ? place / m->height : place % m->width;
        const int64_t line = square / r->out.width * m->height + row;
        const int64_t from = line * r->in.width + square % r->out.width * m->width + column;
        order[back ? from : i] = back ? i : from;
    }
}

/* From positions to those of squares one after the other, or back. */
static grail_status move(const node_run *r, bool back, matrix from, matrix to)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    TRY(memory_new(&order, (size_t)from.rows, sizeof order[0]));
    find_order(r, back, order);
    TRY(matrix_gather(order, NULL, from, to));
out:
    memory_free(order);
    return status;
}

static grail_status run_merge(const node_run *r)
{
    const matrix x = r->x[0];
    return move(r, false, x, matrix_reshape(r->y, x.rows, x.columns));
}

static grail_status back_merge(node_back *b)
{
    CHECK(back_new(b, 0));
    const matrix dx = b->dx[0];
    return move(&b->run, true, matrix_reshape(b->dy, dx.rows, dx.columns), dx);
}

const operator_code operator_merge = {run_merge, back_merge};
