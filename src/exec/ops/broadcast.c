#include "exec/ops/broadcast.h"

/* Which row and column of the second operand an element of the first meets; NULL: its own. */
typedef struct repetition {
    int64_t *row, *column;
    double *whole; /* [the larger number of rows or columns] ones: shares of sums */
} repetition;

static void repetition_fini(repetition *p)
{
    memory_free(p->row);
    memory_free(p->column);
    memory_free(p->whole);
}

/* list[i] = i / run */
static grail_status make_list(int64_t count, int64_t run, int64_t **list)
{
    const grail_status status = memory_new_unset(list, (size_t)count, sizeof **list);
    for (int64_t i = 0; status == GRAIL_OK && i < count; i++) {
        (*list)[i] = i / run;
    }
    return status;
}

static grail_status repetition_init(repetition *p, const node_run *r)
{
    grail_status status = GRAIL_OK;
    const int64_t most = r->rows[0] > r->columns[0] ? r->rows[0] : r->columns[0];
    if (r->rows[1] != r->rows[0]) {
        TRY(make_list(r->rows[0], r->rows[0] / r->rows[1], &p->row));
    }
    if (r->columns[1] != r->columns[0]) {
        TRY(make_list(r->columns[0], r->columns[0], &p->column));
    }
    TRY(memory_new_unset(&p->whole, (size_t)most, sizeof p->whole[0]));
    for (int64_t i = 0; i < most; i++) {
        p->whole[i] = 1.0;
    }
out:
    return status;
}

static bool is_repeated(const node_run *r)
{
    return r->rows[1] != r->rows[0] || r->columns[1] != r->columns[0];
}

grail_status broadcast_second(const node_run *r, matrix *made, matrix *out)
{
    grail_status status = GRAIL_OK;
    repetition p = {0};
    *out = r->x[1];
    if (!is_repeated(r)) {
        return GRAIL_OK;
    }
    TRY(repetition_init(&p, r));
    TRY(matrix_pool_take(r->pool, r->rows[0], r->columns[0], made));
    TRY(matrix_gather(p.row, p.column, r->x[1], *made));
    *out = *made;
out:
    repetition_fini(&p);
    return status;
}

/* dx[1] <- sums of what one element was repeated for, first over columns, then over rows */
static grail_status add_up(node_back *b, const repetition *p, matrix gradient)
{
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    matrix narrow = {0};
    matrix summed = gradient;
    TRY(back_new(b, 1));
    if (p->column != NULL) {
        TRY(matrix_pool_take(r->pool, gradient.rows, 1, &narrow));
        TRY(matrix_zero(narrow));
        TRY(matrix_fold_columns(gradient.columns, p->column, p->whole, gradient, narrow));
        summed = narrow;
    }
    TRY(matrix_zero(b->dx[1]));
    if (p->row != NULL) {
        TRY(matrix_fold_rows(summed.rows, p->row, p->whole, summed, b->dx[1]));
    } else {
        TRY(matrix_copy(summed, b->dx[1]));
    }
out:
    matrix_pool_give(r->pool, &narrow);
    return status;
}

grail_status broadcast_back(node_back *b, matrix *gradient)
{
    grail_status status = GRAIL_OK;
    repetition p = {0};
    if (!is_repeated(&b->run)) {
        b->dx[1] = *gradient;
        *gradient = no_matrix;
        return GRAIL_OK;
    }
    TRY(repetition_init(&p, &b->run));
    TRY(add_up(b, &p, *gradient));
    matrix_pool_give(b->run.pool, gradient);
out:
    repetition_fini(&p);
    return status;
}
