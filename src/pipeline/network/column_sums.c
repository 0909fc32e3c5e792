#include "pipeline/network/column_sums.h"

#include "backend/operations.h"

/* -- columns ----------------------------------------------------------------------------------- */

grail_status column_sums_init(backend *b, int value, int64_t width, bool with_sums,
                              column_sums *out)
{
    matrix *const all[] = {&out->squares, &out->part_squares, &out->sums, &out->part_sums};
    *out = (column_sums){.value = value};
    for (int i = 0; i < (with_sums ? 4 : 2); i++) {
        CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, width, all[i]));
    }
    return GRAIL_OK;
}

void column_sums_fini(column_sums *s)
{
    matrix_free(&s->squares);
    matrix_free(&s->sums);
    matrix_free(&s->part_squares);
    matrix_free(&s->part_sums);
}

static grail_status add(const execution *e, void *user)
{
    column_sums *s = user;
    const matrix x = execution_value(e, s->value);
    const matrix sums =
        matrix_exists(s->part_sums) ? matrix_columns(s->part_sums, 0, x.columns) : no_matrix;
    s->part_rows += x.rows;
    return matrix_column_sums(x, no_matrix, sums, matrix_columns(s->part_squares, 0, x.columns));
}

/* Nothing is held out. */
static chunk_sums sums_of(void *user, bool held_out)
{
    column_sums *s = user;
    chunk_sums sums = {.part_rows = &s->part_rows, .total_rows = &s->rows};
    (void)held_out;
    chunk_sums_append_matrix(&sums, &s->part_squares, &s->squares);
    if (matrix_exists(s->sums)) {
        chunk_sums_append_matrix(&sums, &s->part_sums, &s->sums);
    }
    return sums;
}

visitor column_sums_visitor(column_sums *s, int before)
{
    return (visitor){.node = before, .add = add, .sums = sums_of, .user = s};
}

/* -- energy ------------------------------------------------------------------------------------ */

grail_status block_energy_init(backend *b, int end, block_energy *out)
{
    *out = (block_energy){.end = end};
    CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 1, &out->sum));
    return matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 1, &out->part);
}

void block_energy_fini(block_energy *e)
{
    matrix_free(&e->sum);
    matrix_free(&e->part);
}

static grail_status add_energies(const execution *run, void *user)
{
    block_energy *e = user;
    const graph *g = run->graph;
    e->part_batches++;
    for (int v = 0; v < g->value_count; v++) {
        const matrix x = execution_value(run, v);
        if (matrix_exists(x) && (g->last_use[v] >= e->end || e->end == g->node_count)) {
            CHECK(matrix_add_products(x, x, e->part));
        }
    }
    return GRAIL_OK;
}

static chunk_sums energy_sums(void *user, bool held_out)
{
    block_energy *e = user;
    chunk_sums sums = {.part_rows = &e->part_batches, .total_rows = &e->batches};
    (void)held_out;
    chunk_sums_append_matrix(&sums, &e->part, &e->sum);
    return sums;
}

visitor block_energy_visitor(block_energy *e)
{
    return (visitor){.node = e->end, .add = add_energies, .sums = energy_sums, .user = e};
}
