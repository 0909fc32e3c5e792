#include "stats/shared_rows.h"

#include "exec/matrix_passing.h"

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

int64_t shared_panel(const backend *b, int64_t rows)
{
    const int64_t most = backend_panel(b, SHARED_PANEL);
    return rows < most ? rows : most;
}

shared_rows shared_rows_of(const grail_comm *comm, const backend *b, int64_t rows)
{
    shared_rows own = rows_of_rank(comm, rows, comm_rank(comm));
    own.panel = backend_panel(b, WORKED_ROWS);
    own.panel = rows < own.panel ? rows : own.panel;
    return own;
}

grail_status shared_rows_each(const shared_rows *s, panel_work work, void *context)
{
    for (int64_t begin = s->begin, end = 0; begin < s->end; begin = end) {
        const int64_t border = (begin / s->panel + 1) * s->panel;
        end = border < s->end ? border : s->end;
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
        CHECK(comm_broadcast_next(s->comm, rank, (char *)rows + (size_t)of.begin * size,
                                  (size_t)(of.end - of.begin) * size));
    }
    return GRAIL_OK;
}

grail_status shared_rows_gather(const shared_rows *s, grail_status own, matrix m)
{
    CHECK(comm_settle(s->comm, own));
    for (int rank = 0; comm_is_shared(s->comm) && rank < s->comm->size; rank++) {
        const shared_rows of = rows_of_rank(s->comm, s->rows, rank);
        const matrix rows = matrix_rows(m, of.begin, of.end - of.begin);
        CHECK(matrices_share(s->comm, rank, &rows, 1));
    }
    return GRAIL_OK;
}
