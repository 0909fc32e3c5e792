#include "exec/ops/operator_code.h"

/* The table as values, read as f32, in which trained networks keep it. *out is taken from the
 * pool. */
static grail_status table_values(const node_run *r, int64_t count, matrix *out)
{
    host_view v = {0};
    CHECK(matrix_pool_take(r->pool, 1, count, out));
    CHECK(host_view_open(*out, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    for (int64_t i = 0; i < count; i++) {
        ((float *)v.values)[i] = (float)r->node->positions.table[i];
    }
    return host_view_close(&v);
}

/* Those of the weight, or its gradient, that are added, as one row. */
static matrix first_rows(const node_run *r, matrix weight)
{
    const int64_t positions = r->in.height * r->in.width;
    return matrix_reshape(matrix_rows(weight, r->node->positions.first, positions), 1,
                          positions * weight.columns);
}

static grail_status run_positions(const node_run *r)
{
    grail_status status = GRAIL_OK;
    if (r->node->positions.one_for_all) {
        const matrix row = matrix_rows(r->weight, 0, 1);
        return matrix_add(r->x[0], matrix_repeat_row(row, r->x[0].rows), r->y);
    }
    const matrix x = by_sample(r, r->x[0]);
    matrix table = {0};
    if (!matrix_exists(r->weight)) {
        TRY(table_values(r, x.columns, &table));
    }
    const matrix added = matrix_exists(table) ? table : first_rows(r, r->weight);
    TRY(matrix_add(x, matrix_repeat_row(added, x.rows), by_sample(r, r->y)));
out:
    matrix_pool_give(r->pool, &table);
    return status;
}

static grail_status back_positions(node_back *b)
{
    const matrix dy = by_sample(&b->run, b->dy);
    if (matrix_exists(b->dweight) && b->run.node->positions.one_for_all) {
        CHECK(back_add_column_sums(b, b->dy, matrix_rows(b->dweight, 0, 1)));
    } else if (matrix_exists(b->dweight)) {
        CHECK(back_add_column_sums(b, dy, first_rows(&b->run, b->dweight)));
    }
    back_pass(b, 0);
    return GRAIL_OK;
}

const operator_code operator_positions = {run_positions, back_positions};
