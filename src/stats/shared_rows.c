#include "stats/shared_rows.h"

#include "base/memory.h"

static shared_rows rows_of_rank(const grail_comm *comm, int64_t rows, int rank)
{
    const int64_t panels = (rows + SHARED_PANEL - 1) / SHARED_PANEL;
    const int64_t size = comm_size(comm);
    const int64_t end = panels * (rank + 1) / size * SHARED_PANEL;
    return (shared_rows){.comm = comm,
                         .rows = rows,
                         .begin = panels * rank / size * SHARED_PANEL,
                         .end = end < rows ? end : rows};
}

shared_rows shared_rows_of(const grail_comm *comm, int64_t rows)
{
    return rows_of_rank(comm, rows, comm_rank(comm));
}

grail_status shared_rows_each(const shared_rows *s, panel_work work, void *context)
{
    for (int64_t begin = s->begin; begin < s->end; begin += SHARED_PANEL) {
        const int64_t end = begin + SHARED_PANEL < s->end ? begin + SHARED_PANEL : s->end;
        CHECK(work(begin, end, context));
    }
    return GRAIL_OK;
}

grail_status shared_rows_gather_bytes(const shared_rows *s, grail_status own, void *rows,
                                      size_t size)
{
    CHECK(comm_settle(s->comm, own));
    for (int rank = 0; comm_is_shared(s->comm) && rank < s->comm->size; rank++) {
        const shared_rows of = rows_of_rank(s->comm, s->rows, rank);
        CHECK(comm_broadcast(s->comm, rank, (char *)rows + (size_t)of.begin * size,
                             (size_t)(of.end - of.begin) * size));
    }
    return GRAIL_OK;
}

grail_status matrix_share(const grail_comm *comm, int root, matrix m, void *values)
{
    if (root == comm_rank(comm)) {
        CHECK(matrix_download(m, values));
    }
    CHECK(comm_broadcast(comm, root, values, (size_t)matrix_count(m) * element_size(m.type)));
    return root == comm_rank(comm) ? GRAIL_OK : matrix_upload(m, values);
}

/* A panel after the other, so that little memory is needed beside the matrix. */
static grail_status gather_panels(const shared_rows *s, int rank, matrix m, void *values)
{
    const shared_rows of = rows_of_rank(s->comm, s->rows, rank);
    for (int64_t begin = of.begin; begin < of.end; begin += SHARED_PANEL) {
        const int64_t left = of.end - begin;
        CHECK(matrix_share(s->comm, rank,
                           matrix_rows(m, begin, left < SHARED_PANEL ? left : SHARED_PANEL),
                           values));
    }
    return GRAIL_OK;
}

grail_status shared_rows_gather(const shared_rows *s, grail_status own, matrix m)
{
    grail_status status = own;
    char *values = NULL;
    if (status == GRAIL_OK && comm_is_shared(s->comm)) {
        status =
            memory_new_unset(&values, (size_t)(SHARED_PANEL * m.columns), element_size(m.type));
    }
    TRY(comm_settle(s->comm, status));
    for (int rank = 0; comm_is_shared(s->comm) && rank < s->comm->size; rank++) {
        TRY(gather_panels(s, rank, m, values));
    }
out:
    memory_free(values);
    return status;
}
