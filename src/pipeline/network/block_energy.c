#include "pipeline/network/block_energy.h"

#include "backend/operations.h"

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

static grail_status add_batch(calibration_network *network, const execution *run, void *user)
{
    block_energy *e = user;
    const graph *g = run->graph;
    (void)network;
    e->part_batches++;
    for (int v = 0; v < g->value_count; v++) {
        const matrix x = execution_value(run, v);
        if (matrix_exists(x) && (g->last_use[v] >= e->end || e->end == g->node_count)) {
            CHECK(add_energy(x, &e->part));
        }
    }
    return GRAIL_OK;
}

static chunk_sums sums_of(void *user, bool held_out)
{
    block_energy *e = user;
    chunk_sums sums = {.part_rows = &e->part_batches, .total_rows = &e->batches};
    (void)held_out;
    chunk_sums_append_number(&sums, &e->part, &e->energy);
    return sums;
}

visitor block_energy_visitor(block_energy *e)
{
    return (visitor){.node = e->end, .add = add_batch, .sums = sums_of, .user = e};
}
