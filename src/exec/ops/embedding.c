#include "exec/ops/operator_code.h"

static grail_status run_embedding(const node_run *r)
{
    if (r->ids == NULL) {
        return error_set(GRAIL_ERROR_INTERNAL, "the embedding was run without token ids");
    }
    return parameter_store_gather_rows(r->store, r->node->weight, r->ids, r->y);
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
        labels[r] = b->run.ids[r];
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
