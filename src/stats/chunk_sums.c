#include "stats/chunk_sums.h"

void chunk_sums_append_matrix(chunk_sums *s, matrix *part, matrix *total)
{
    s->part[s->matrices] = part;
    s->total[s->matrices++] = total;
}

void chunk_sums_append_triangle(chunk_sums *s, matrix *part, matrix *total)
{
    s->lower[s->matrices] = true;
    chunk_sums_append_matrix(s, part, total);
}

void chunk_sums_append_number(chunk_sums *s, double *part, double *total)
{
    s->part_number[s->numbers] = part;
    s->total_number[s->numbers++] = total;
}

chunk_sums chunk_sums_of_statistics(grail_statistics *part, grail_statistics *total)
{
    chunk_sums s = {.part_rows = &part->count, .total_rows = &total->count};
    chunk_sums_append_triangle(&s, &part->gram, &total->gram);
    chunk_sums_append_matrix(&s, &part->sum, &total->sum);
    if (total->outputs > 0) {
        chunk_sums_append_matrix(&s, &part->cross, &total->cross);
        chunk_sums_append_matrix(&s, &part->target_sum, &total->target_sum);
        chunk_sums_append_matrix(&s, &part->target_square, &total->target_square);
    }
    chunk_sums_append_number(&s, &part->weight, &total->weight);
    return s;
}

/* The first chunk becomes the total, whose zeros the next one is added to. */
static void exchange(matrix *a, matrix *b)
{
    const matrix held = *a;
    *a = *b;
    *b = held;
}

enum { PANEL = 256 };

/* Rows begin .. begin + PANEL - 1 of a matrix; of a lower triangle as wide as the last of them. */
static matrix panel_of(matrix m, int64_t begin, bool lower)
{
    const int64_t end = begin + PANEL < m.rows ? begin + PANEL : m.rows;
    return matrix_columns(matrix_rows(m, begin, end - begin), 0, lower ? end : m.columns);
}

static grail_status add_and_clear(matrix part, matrix total, bool lower)
{
    for (int64_t begin = 0; begin < part.rows; begin += PANEL) {
        const matrix rows = panel_of(part, begin, lower);
        CHECK(matrix_add_scaled(1.0, rows, panel_of(total, begin, lower)));
        CHECK(matrix_zero(rows));
    }
    return GRAIL_OK;
}

static grail_status fold_matrices(const chunk_sums *s)
{
    for (int i = 0; i < s->matrices; i++) {
        if (*s->total_rows == 0) {
            exchange(s->part[i], s->total[i]);
        } else {
            CHECK(add_and_clear(*s->part[i], *s->total[i], s->lower[i]));
        }
    }
    return GRAIL_OK;
}

grail_status chunk_sums_fold(const chunk_sums *s)
{
    if (*s->part_rows == 0) {
        return GRAIL_OK;
    }
    CHECK(fold_matrices(s));
    for (int i = 0; i < s->numbers; i++) {
        *s->total_number[i] += *s->part_number[i];
        *s->part_number[i] = 0.0;
    }
    *s->total_rows += *s->part_rows;
    *s->part_rows = 0;
    return GRAIL_OK;
}

/* -- ranks ------------------------------------------------------------------------------------- */

typedef enum passage { SENDS, RECEIVES, SHARES } passage;

/* Where sums go to, or come from. */
typedef struct route {
    const grail_comm *comm;
    passage how;
    int other; /* rank; of SHARES the root */
} route;

static grail_status pass(const route *r, void *bytes, size_t size)
{
    switch (r->how) {
    case SENDS:
        return comm_send(r->comm, r->other, bytes, size);
    case RECEIVES:
        return comm_receive(r->comm, r->other, bytes, size);
    case SHARES:
        break;
    }
    return comm_broadcast(r->comm, r->other, bytes, size);
}

static bool is_read(const route *r)
{
    return r->how == SENDS || (r->how == SHARES && r->comm->rank == r->other);
}

/* What a rank sent away begins anew. */
static grail_status pass_panel(const route *r, matrix panel, double *values)
{
    const size_t size = (size_t)matrix_count(panel) * sizeof values[0];
    if (is_read(r)) {
        CHECK(matrix_download(panel, values));
    }
    CHECK(pass(r, values, size));
    if (r->how == SENDS) {
        return matrix_zero(panel);
    }
    return is_read(r) ? GRAIL_OK : matrix_upload(panel, values);
}

static grail_status pass_matrix(const route *r, matrix m, bool lower)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    const int64_t most = m.rows < PANEL ? m.rows : PANEL;
    TRY(memory_new_unset(&values, (size_t)(most * m.columns), sizeof values[0]));
    for (int64_t begin = 0; begin < m.rows; begin += PANEL) {
        TRY(pass_panel(r, panel_of(m, begin, lower), values));
    }
out:
    memory_free(values);
    return status;
}

/* The number of rows goes first; without rows nothing follows. */
static grail_status pass_sums(const route *r, int64_t *rows, int count, matrix *const *matrices,
                              const bool *lower, int numbers, double *const *number)
{
    CHECK(pass(r, rows, sizeof *rows));
    if (*rows == 0) {
        return GRAIL_OK;
    }
    for (int i = 0; i < numbers; i++) {
        CHECK(pass(r, number[i], sizeof *number[i]));
    }
    for (int i = 0; i < count; i++) {
        CHECK(pass_matrix(r, *matrices[i], lower[i]));
    }
    return GRAIL_OK;
}

static grail_status pass_part(const route *r, const chunk_sums *s)
{
    return pass_sums(r, s->part_rows, s->matrices, s->part, s->lower, s->numbers, s->part_number);
}

static grail_status send_part(const grail_comm *c, const chunk_sums *s)
{
    const route to_first = {.comm = c, .how = SENDS, .other = 0};
    CHECK(pass_part(&to_first, s));
    *s->part_rows = 0;
    for (int i = 0; i < s->numbers; i++) {
        *s->part_number[i] = 0.0;
    }
    return GRAIL_OK;
}

grail_status chunk_sums_fold_ranks(const grail_comm *c, int ranks, const chunk_sums *s)
{
    if (comm_rank(c) != 0) {
        return comm_rank(c) < ranks ? send_part(c, s) : GRAIL_OK;
    }
    CHECK(chunk_sums_fold(s));
    for (int rank = 1; rank < ranks; rank++) {
        const route from = {.comm = c, .how = RECEIVES, .other = rank};
        CHECK(pass_part(&from, s));
        CHECK(chunk_sums_fold(s));
    }
    return GRAIL_OK;
}

grail_status chunk_sums_share(const grail_comm *c, const chunk_sums *s)
{
    const route from_first = {.comm = c, .how = SHARES, .other = 0};
    return comm_is_shared(c) ? pass_sums(&from_first, s->total_rows, s->matrices, s->total,
                                         s->lower, s->numbers, s->total_number)
                             : GRAIL_OK;
}
