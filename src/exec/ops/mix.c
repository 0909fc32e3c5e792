#include "exec/ops/operator_code.h"

/* The weight as values, which products read on their left side. *copy is of the pool, or none. */
static grail_status values_of_weight(const node_run *r, matrix *copy, matrix *out)
{
    *copy = no_matrix;
    *out = r->weight;
    if (r->weight.type == r->x[0].type) {
        return GRAIL_OK;
    }
    CHECK(matrix_pool_take(r->pool, r->weight.rows, r->weight.columns, copy));
    *out = *copy;
    return matrix_copy(r->weight, *copy);
}

/* Positions of sample s. */
static matrix sample_of(matrix m, int64_t positions, int64_t s)
{
    return matrix_rows(m, s * positions, positions);
}

/* Y = W X + b 1 of each sample */
static grail_status run_mix(const node_run *r)
{
    grail_status status = GRAIL_OK;
    const int64_t out = r->weight.rows;
    const matrix bias = matrix_exists(r->bias) ? matrix_reshape(r->bias, out, 1) : no_matrix;
    matrix copy = {0};
    matrix weight = {0};
    TRY(values_of_weight(r, &copy, &weight));
    for (int64_t s = 0; s < r->samples; s++) {
        const matrix y = sample_of(r->y, out, s);
        const matrix x = sample_of(r->x[0], weight.columns, s);
        TRY(matrix_product(false, false, weight, x, 0.0, y));
        TRY(matrix_exists(bias) ? matrix_add(y, bias, y) : GRAIL_OK);
    }
out:
    matrix_pool_give(r->pool, &copy);
    return status;
}

/* dbias[1, positions] += row sums of dy of a sample. */
static grail_status add_row_sums(const node_back *b, matrix dy)
{
    grail_status status = GRAIL_OK;
    const matrix sums = matrix_reshape(b->dbias, dy.rows, 1);
    matrix part = {0};
    TRY(matrix_pool_take(b->run.pool, dy.rows, 1, &part));
    TRY(matrix_spread_gradient(no_matrix, dy, part));
    TRY(matrix_add(sums, part, sums));
out:
    matrix_pool_give(b->run.pool, &part);
    return status;
}

/* dX = W^T dY, dW += dY X^T */
static grail_status back_mix(node_back *b)
{
    grail_status status = GRAIL_OK;
    const node_run *r = &b->run;
    matrix copy = {0};
    matrix weight = {0};
    TRY(values_of_weight(r, &copy, &weight));
    TRY(back_new(b, 0));
    for (int64_t s = 0; s < r->samples; s++) {
        const matrix dy = sample_of(b->dy, weight.rows, s);
        const matrix x = sample_of(r->x[0], weight.columns, s);
        TRY(matrix_product(true, false, weight, dy, 0.0, sample_of(b->dx[0], weight.columns, s)));
        TRY(matrix_exists(b->dweight) ? matrix_product(false, true, dy, x, 1.0, b->dweight)
                                      : GRAIL_OK);
        TRY(matrix_exists(b->dbias) ? add_row_sums(b, dy) : GRAIL_OK);
    }
out:
    matrix_pool_give(r->pool, &copy);
    return status;
}

const operator_code operator_mix = {run_mix, back_mix};
