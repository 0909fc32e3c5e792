#include "exec/ops/operator_code.h"

/* Row of the table for an id, which may be made of several numbers. */
static int64_t row_of(const node_run *r, int64_t id, int64_t rows)
{
    const int64_t divisor = r->node->embedding.divisor;
    return divisor == 0 || id < 0 ? id : id / divisor % rows;
}

static grail_status run_embedding(const node_run *r)
{
    grail_status status = GRAIL_OK;
    int32_t *own = NULL;
    if (r->ids == NULL) {
        return error_set(GRAIL_ERROR_INTERNAL, "the embedding was run without token ids");
    }
    if (r->node->embedding.divisor == 0) {
        return parameter_store_gather_rows(r->store, r->node->weight, r->ids, r->y);
    }
    const int64_t rows = r->weight_shape[0];
    TRY(memory_new_unset(&own, (size_t)r->y.rows, sizeof own[0]));
    for (int64_t i = 0; i < r->y.rows; i++) {
        own[i] = (int32_t)row_of(r, r->ids[i], rows);
    }
    TRY(parameter_store_gather_rows(r->store, r->node->weight, own, r->y));
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
    int64_t *labels = NULL;
    double *whole = NULL;
    TRY(memory_new_unset(&labels, (size_t)rows, sizeof labels[0]));
    TRY(memory_new_unset(&whole, (size_t)vocabulary, sizeof whole[0]));
    for (int64_t r = 0; r < rows; r++) {
        labels[r] = row_of(&b->run, b->run.ids[r], vocabulary);
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

const operator_code operator_embedding = {run_embedding, back_embedding};
