#include "exec/ops/operator_code.h"

#include "graph/operators.h"

const operator_code *operator_code_of(const node *n)
{
    static const operator_code *const codes[] = {
#define OPERATOR(kind, name, ...) [NODE_##kind] = &operator_##name,
#include "graph/operator_list.h"
#undef OPERATOR
    };
    return codes[n->kind];
}

profile_kind node_profile(const node *n)
{
    return node_is_map(n)              ? PROFILE_PRODUCTS
           : n->kind == NODE_ATTENTION ? PROFILE_ATTENTION
                                       : PROFILE_ELEMENTWISE;
}

grail_status keep_table(const node_run *r, int64_t rows, int64_t columns, int64_t count,
                        const double *values)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    if (matrix_exists(*r->kept) && r->kept->rows == rows) {
        return GRAIL_OK;
    }
    matrix_free(r->kept);
    TRY(matrix_new(r->x[0].owner, r->x[0].type, rows, columns, r->kept));
    TRY(host_view_open(*r->kept, GRAIL_DTYPE_F32, HOST_WRITES, &v));
    for (int64_t i = 0; i < rows * columns; i++) {
        ((float *)v.values)[i] = (float)values[i % count];
    }
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    if (status != GRAIL_OK) {
        matrix_free(r->kept);
    }
    return status;
}

/* Weights that lack whole groups, or have merged ones beside them, have as many as read the input.
 */
static int64_t groups_of(const node_run *r)
{
    return node_groups(r->node) > 1 ? r->columns[0] / r->weight_shape[1] : 1;
}

conv_shape window_of(const node_run *r, int64_t channels_out)
{
    return (conv_shape){
        .samples = r->samples,
        .in = r->in,
        .out = r->out,
        .channels_in = r->columns[0],
        .channels_out = channels_out,
        .groups = groups_of(r),
        .window = r->node->window,
    };
}

position_shape positions_of(const node_run *r)
{
    return (position_shape){
        .samples = r->samples,
        .in = r->in,
        .out = r->out,
        .window = r->node->window,
        .pad = r->node->pad,
    };
}

int64_t earlier_positions(const node_run *r)
{
    return r->past == NULL ? 0 : r->past->earlier;
}

matrix by_sample(const node_run *r, matrix m)
{
    return matrix_reshape(m, r->samples, m.rows / r->samples * m.columns);
}

grail_status back_new(node_back *b, int input)
{
    const node_run *r = &b->run;
    return matrix_pool_take(r->pool, r->rows[input], r->columns[input], &b->dx[input]);
}

void back_pass(node_back *b, int input)
{
    b->dx[input] = b->dy;
    b->dy = no_matrix;
}

grail_status back_add_column_sums(const node_back *b, matrix x, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix exact = {0};
    matrix rounded = {0};
    if (!matrix_exists(sum)) {
        return GRAIL_OK;
    }
    TRY(matrix_new_zero(x.owner, GRAIL_DTYPE_F64, 1, x.columns, &exact));
    TRY(matrix_column_sums(x, no_matrix, exact, no_matrix));
    TRY(matrix_pool_take(b->run.pool, 1, x.columns, &rounded));
    TRY(matrix_copy(exact, rounded));
    TRY(matrix_add(sum, rounded, sum));
out:
    matrix_free(&exact);
    matrix_pool_give(b->run.pool, &rounded);
    return status;
}
