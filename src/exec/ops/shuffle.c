#include "exec/ops/operator_code.h"

/* The first columns of the runs, then the second ones, ... */
static grail_status shuffle(int64_t runs, matrix from, matrix to)
{
    grail_status status = GRAIL_OK;
    const int64_t length = from.columns / runs;
    int64_t *columns = NULL;
    TRY(memory_new(&columns, (size_t)from.columns, sizeof columns[0]));
    for (int64_t i = 0; i < from.columns; i++) {
        columns[i] = i % runs * length + i / runs;
    }
    TRY(matrix_gather(NULL, columns, from, to));
out:
    memory_free(columns);
    return status;
}

static grail_status run_shuffle(const node_run *r)
{
    return shuffle(r->node->runs, r->x[0], r->y);
}

/* They go back as those of as many runs as a run is long. */
static grail_status back_shuffle(node_back *b)
{
    CHECK(back_new(b, 0));
    return shuffle(b->dy.columns / b->run.node->runs, b->dy, b->dx[0]);
}

const operator_code operator_shuffle = {run_shuffle, back_shuffle};
