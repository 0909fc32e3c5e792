/* The way back through nodes that treat every row on its own, and attention. */
#include "exec/node_back.h"

/* dtable[ids[r], :] += dy[r, :] */
grail_status back_embedding(node_back *b)
{
    grail_status status = GRAIL_OK;
    const int32_t *ids = b->tape->execution->input.ids;
    const int64_t rows = b->dy.rows;
    const int64_t vocabulary = b->dweight.rows;
    int64_t *labels = NULL;
    double *whole = NULL;
    TRY(memory_new_unset(&labels, (size_t)rows, sizeof labels[0]));
    TRY(memory_new_unset(&whole, (size_t)vocabulary, sizeof whole[0]));
    for (int64_t r = 0; r < rows; r++) {
        labels[r] = ids[r];
    }
    for (int64_t v = 0; v < vocabulary; v++) {
        whole[v] = 1.0;
    }
    TRY(matrix_fold_rows(rows, labels, whole, b->dy, b->dweight));
out:
    memory_free(labels);
    memory_free(whole);
    return status;
}

/* The weight as values: borrowed, or in *owned, which the pool takes back. */
static grail_status weight_values(const node_back *b, matrix *owned, matrix *out)
{
    grail_status status = GRAIL_OK;
    const matrix weight = b->entries.weight->values;
    *out = weight;
    if (matrix_is_ordered(weight)) {
        TRY(matrix_pool_take(b->tape->execution->pool, weight.rows, weight.columns, owned));
        TRY(matrix_copy(weight, *owned));
        *out = *owned;
    }
out:
    return status;
}

grail_status back_linear(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix owned = {0};
    matrix weight = {0};
    matrix dx = {0};
    if (matrix_exists(b->dweight)) {
        TRY(matrix_product(true, false, b->dy, back_value(b, 0), 1.0, b->dweight));
    }
    TRY(back_add_column_sums(b, b->dy, b->dbias));
    if (back_reaches(b, 0)) {
        TRY(weight_values(b, &owned, &weight));
        TRY(matrix_pool_take(b->tape->execution->pool, b->dy.rows, weight.columns, &dx));
        TRY(matrix_product(false, false, b->dy, weight, 0.0, dx));
        TRY(back_give(b, 0, &dx));
    }
out:
    matrix_pool_give(b->tape->execution->pool, &owned);
    matrix_pool_give(b->tape->execution->pool, &dx);
    return status;
}

grail_status back_attention(node_back *b)
{
    grail_status status = GRAIL_OK;
    execution *e = b->tape->execution;
    const attention_shape shape = attention_of(e, b->node);
    matrix made[NODE_MAX_INPUTS] = {{0}};
    for (int i = 0; i < b->node->input_count; i++) {
        TRY(back_new(b, i, &made[i]));
    }
    TRY(matrix_attention_gradient(&shape, back_value(b, 0), back_value(b, 1), back_value(b, 2),
                                  execution_value(e, b->node->output), b->dy, made[0], made[1],
                                  made[2]));
    for (int i = 0; i < b->node->input_count; i++) {
        if (back_reaches(b, i)) {
            TRY(back_give(b, i, &made[i]));
        }
    }
out:
    for (int i = 0; i < NODE_MAX_INPUTS; i++) {
        matrix_pool_give(e->pool, &made[i]);
    }
    return status;
}

grail_status back_rope(node_back *b)
{
    grail_status status = GRAIL_OK;
    rope_shape shape = rotation_of(b->tape->execution, b->node);
    shape.backward = true;
    TRY(matrix_rope(&shape, b->dy));
    TRY(back_give(b, 0, &b->dy));
out:
    return status;
}

grail_status back_activation(node_back *b)
{
    grail_status status = GRAIL_OK;
    TRY(matrix_activate_gradient(b->node->activation, back_value(b, 0), b->dy, b->dy));
    TRY(back_give(b, 0, &b->dy));
out:
    return status;
}

/* A copy of dY for one of two inputs; the other one takes dY itself. */
static grail_status copy_gradient(const node_back *b, matrix *out)
{
    grail_status status = GRAIL_OK;
    TRY(matrix_pool_take(b->tape->execution->pool, b->dy.rows, b->dy.columns, out));
    TRY(matrix_copy(b->dy, *out));
out:
    return status;
}

grail_status back_multiply(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix other = {0};
    if (back_reaches(b, 1)) {
        TRY(matrix_pool_take(b->tape->execution->pool, b->dy.rows, b->dy.columns, &other));
        TRY(matrix_multiply(b->dy, back_value(b, 0), other));
        TRY(back_give(b, 1, &other));
    }
    if (back_reaches(b, 0)) {
        TRY(matrix_multiply(b->dy, back_value(b, 1), b->dy));
        TRY(back_give(b, 0, &b->dy));
    }
out:
    matrix_pool_give(b->tape->execution->pool, &other);
    return status;
}

grail_status back_add(node_back *b)
{
    grail_status status = GRAIL_OK;
    matrix other = {0};
    if (back_reaches(b, 0) && back_reaches(b, 1)) {
        TRY(copy_gradient(b, &other));
        TRY(back_give(b, 1, &other));
        TRY(back_give(b, 0, &b->dy));
    } else {
        TRY(back_give(b, back_reaches(b, 0) ? 0 : 1, &b->dy));
    }
out:
    matrix_pool_give(b->tape->execution->pool, &other);
    return status;
}

static grail_status norm_gradient(const node_back *b, matrix x, matrix dx)
{
    const node *n = b->node;
    const matrix weight = entry_values(b->entries.weight);
    switch (n->kind) {
    case NODE_RMS_NORM:
        return matrix_rms_norm_gradient(n->epsilon, x, weight, b->dy, dx, b->dweight);
    case NODE_LAYER_NORM:
        return matrix_layer_norm_gradient(n->epsilon, x, weight, b->dy, dx, b->dweight, b->dbias);
    case NODE_BATCH_NORM:
        return matrix_batch_norm_gradient(n->epsilon, x, entry_values(b->entries.mean),
                                          entry_values(b->entries.variance), weight, b->dy, dx,
                                          b->dweight, b->dbias);
    default:
        return matrix_unit_length_gradient(x, b->dy, dx);
    }
}

grail_status back_norm(node_back *b)
{
    grail_status status = GRAIL_OK;
    TRY(norm_gradient(b, back_value(b, 0), b->dy));
    if (back_reaches(b, 0)) {
        TRY(back_give(b, 0, &b->dy));
    }
out:
    return status;
}
