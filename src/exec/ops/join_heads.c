#include "exec/ops/operator_code.h"

/* All heads of all rows, one below the other, and the part of each that one input makes. */
static matrix part_of(const node_run *r, matrix y, int input)
{
    const join_attributes *j = &r->node->join;
    const int64_t width = j->first + j->second;
    const int64_t heads = y.columns / width;
    return matrix_columns(matrix_reshape(y, y.rows * heads, width), input == 0 ? 0 : j->first,
                          input == 0 ? j->first : j->second);
}

static matrix heads_of(const node_run *r, matrix x, int input)
{
    const int64_t width = input == 0 ? r->node->join.first : r->node->join.second;
    return matrix_reshape(x, x.rows * (x.columns / width), width);
}

/* row[i]: whose shared features head i gets. */
static grail_status find_rows(int64_t rows, int64_t heads, int64_t **row)
{
    CHECK(memory_new_unset(row, (size_t)(rows * heads), sizeof **row));
    for (int64_t i = 0; i < rows * heads; i++) {
        (*row)[i] = i / heads;
    }
    return GRAIL_OK;
}

static grail_status run_join_heads(const node_run *r)
{
    grail_status status = GRAIL_OK;
    int64_t *row = NULL;
    const matrix second = part_of(r, r->y, 1);
    TRY(matrix_copy(heads_of(r, r->x[0], 0), part_of(r, r->y, 0)));
    if (!r->node->join.shared) {
        TRY(matrix_copy(heads_of(r, r->x[1], 1), second));
    } else if (second.rows > 0) {
        TRY(find_rows(r->y.rows, second.rows / r->y.rows, &row));
        TRY(matrix_gather(row, NULL, r->x[1], second));
    }
out:
    memory_free(row);
    return status;
}

/* dx[1] of a shared second input: the sum over heads. */
static grail_status sum_heads(const node_back *b)
{
    grail_status status = GRAIL_OK;
    int64_t *row = NULL;
    double *ones = NULL;
    const matrix of_heads = part_of(&b->run, b->dy, 1);
    const int64_t rows = b->dy.rows;
    TRY(matrix_zero(b->dx[1]));
    if (of_heads.rows == 0) {
        return GRAIL_OK;
    }
    TRY(find_rows(rows, of_heads.rows / rows, &row));
    TRY(memory_new(&ones, (size_t)rows, sizeof ones[0]));
    for (int64_t i = 0; i < rows; i++) {
        ones[i] = 1.0;
    }
    TRY(matrix_fold_rows(of_heads.rows, row, ones, of_heads, b->dx[1]));
out:
    memory_free(ones);
    memory_free(row);
    return status;
}

static grail_status back_join_heads(node_back *b)
{
    for (int i = 0; i < 2; i++) {
        if (!b->reaches[i]) {
            continue;
        }
        CHECK(back_new(b, i));
        if (i == 1 && b->run.node->join.shared) {
            CHECK(sum_heads(b));
        } else {
            CHECK(matrix_copy(part_of(&b->run, b->dy, i), heads_of(&b->run, b->dx[i], i)));
        }
    }
    return GRAIL_OK;
}

const operator_code operator_join_heads = {run_join_heads, back_join_heads};
