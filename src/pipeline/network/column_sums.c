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
    return matrix_column_sums(x, sums, matrix_columns(s->part_squares, 0, x.columns));
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

/* Adds the squares of a value's elements. */
static grail_status add_energy(matrix x, double *energy)
{
    grail_status status = GRAIL_OK;
    matrix squares = no_matrix;
    double *values = NULL;
    TRY(matrix_new_zero(x.owner, GRAIL_DTYPE_F64, 1, x.columns, &squares));
    TRY(matrix_column_sums(x, no_matrix, squares));
    TRY(memory_new_unset(&values, (size_t)x.columns, sizeof values[0]));
    TRY(matrix_download(squares, values));
    for (int64_t i = 0; i < x.columns; i++) {
        *energy += values[i];
    }
out:
    matrix_free(&squares);
    memory_free(values);
    return status;
}

static grail_status add_energies(const execution *run, void *user)
{
    block_energy *e = user;
    const graph *g = run->graph;
    e->part_batches++;
    for (int v = 0; v < g->value_count; v++) {
        const matrix x = execution_value(run, v);
        if (matrix_exists(x) && (g->last_use[v] >= e->end || e->end == g->node_count)) {
            CHECK(add_energy(x, &e->part));
        }
    }
    return GRAIL_OK;
}

static chunk_sums energy_sums(void *user, bool held_out)
{
    block_energy *e = user;
    chunk_sums sums = {.part_rows = &e->part_batches, .total_rows = &e->batches};
    (void)held_out;
    chunk_sums_append_number(&sums, &e->part, &e->energy);
    return sums;
}

visitor block_energy_visitor(block_energy *e)
{
    return (visitor){.node = e->end, .add = add_energies, .sums = energy_sums, .user = e};
}
