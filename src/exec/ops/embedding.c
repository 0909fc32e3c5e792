#include "exec/ops/operator_code.h"

#include <math.h>

/* Row of the table for an id, which may be made of several numbers. */
static int64_t row_of(const node_run *r, int64_t id, int64_t rows)
{
    const int64_t divisor = r->node->embedding.divisor;
    return divisor == 0 || id < 0 ? id : id / divisor % rows;
}

/* Integers that samples hold as values: own[rows] <- those of the input. */
static grail_status rows_of_values(const node_run *r, int32_t *own)
{
    grail_status status = GRAIL_OK;
    const int64_t rows = r->weight_shape[0];
    host_view view = {.of = no_matrix};
    if (!matrix_exists(r->x[0])) {
        return error_set(GRAIL_ERROR_INTERNAL, "the embedding was run without token ids");
    }
    TRY(host_view_open(r->x[0], GRAIL_DTYPE_F32, HOST_READS, &view));
    const float *values = view.values;
    for (int64_t i = 0; i < r->x[0].rows; i++) {
        if (!(values[i] >= 0.0F && values[i] < (float)rows) || values[i] != floorf(values[i])) {
            FAIL(GRAIL_ERROR_ARGUMENT,
                 "a sample has %g at position %lld, which chooses a row of "
                 "'%s', expected 0 to %lld",
                 (double)values[i], (long long)(i % (r->x[0].rows / r->samples)),
                 r->store->model->graph->parameters[r->node->weight].name, (long long)rows - 1);
        }
        own[i] = (int32_t)values[i];
    }
out:
    host_view_drop(&view);
    return status;
}

/* Whether the ids of the batch are the rows. */
static bool are_rows(const node_run *r)
{
    return r->ids != NULL && r->node->embedding.divisor == 0;
}

/* *own <- rows of the table; owned. */
static grail_status make_rows(const node_run *r, int64_t count, int32_t **own)
{
    CHECK(memory_new_unset(own, (size_t)count, sizeof **own));
    if (r->ids == NULL) {
        return rows_of_values(r, *own);
    }
    for (int64_t i = 0; i < count; i++) {
        (*own)[i] = (int32_t)row_of(r, r->ids[i], r->weight_shape[0]);
    }
    return GRAIL_OK;
}

static grail_status run_embedding(const node_run *r)
{
    grail_status status = GRAIL_OK;
    int32_t *own = NULL;
    TRY(are_rows(r) ? GRAIL_OK : make_rows(r, r->y.rows, &own));
    TRY(parameter_store_gather_rows(r->store, r->node->weight, own == NULL ? r->ids : own, r->y));
out:
    memory_free(own);
    return status;
}

/* dtable[ids[r], :] += dy[r, :] */
static grail_status back_embedding(node_back *b)
{
    grail_status status = GRAIL_OK;
    const int64_t rows = b->dy.rows;
    const int64_t vocabulary = b->dweight.rows;
    if (!matrix_exists(b->dweight)) { /* and what chooses rows has no gradient */
        return GRAIL_OK;
    }
    int64_t *labels = NULL;
    int32_t *own = NULL;
    double *whole = NULL;
    matrix dy = {0}; /* values of 16 bits have gradients of parameters in f32 */
    TRY(make_rows(&b->run, rows, &own));
    TRY(matrix_new(b->dy.owner, b->dweight.type, rows, b->dy.columns, &dy));
    TRY(matrix_copy(b->dy, dy));
    TRY(memory_new_unset(&labels, (size_t)rows, sizeof labels[0]));
    TRY(memory_new_unset(&whole, (size_t)vocabulary, sizeof whole[0]));
    for (int64_t r = 0; r < rows; r++) {
        labels[r] = own[r];
    }
    for (int64_t v = 0; v < vocabulary; v++) {
        whole[v] = 1.0;
    }
    TRY(matrix_fold_rows(rows, labels, whole, dy, b->dweight));
out:
    matrix_free(&dy);
    memory_free(own);
    memory_free(labels);
    memory_free(whole);
    return status;
}

const operator_code operator_embedding = {run_embedding, back_embedding};
