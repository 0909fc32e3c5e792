#include "exec/ops/operator_code.h"

/* Those of the table, or of its gradient, that are added, as one row. */
static matrix first_rows(const node_run *r, matrix table)
{
    const int64_t positions = r->in.height * r->in.width;
    const int64_t first = r->node->positions.first + earlier_positions(r);
    return matrix_reshape(matrix_rows(table, first, positions), 1, positions * table.columns);
}

static grail_status run_positions(const node_run *r)
{
    if (r->node->positions.one_for_all) {
        const matrix row = matrix_rows(r->weight, 0, 1);
        return matrix_add(r->x[0], matrix_repeat_row(row, r->x[0].rows), r->y);
    }
    const matrix x = by_sample(r, r->x[0]);
    const position_attributes *of = &r->node->positions;
    CHECK(matrix_exists(r->weight)
              ? GRAIL_OK
              : keep_table(r, of->count, r->x[0].columns, of->count * r->x[0].columns, of->table));
    const matrix added = first_rows(r, matrix_exists(r->weight) ? r->weight : *r->kept);
    return matrix_add(x, matrix_repeat_row(added, x.rows), by_sample(r, r->y));
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
