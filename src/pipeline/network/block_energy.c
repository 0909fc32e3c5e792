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

grail_status add_energy_behind(const execution *e, int end, double *energy)
{
    for (int v = 0; v < e->graph->value_count; v++) {
        const matrix x = execution_value(e, v);
        if (matrix_exists(x) && (e->graph->last_use[v] >= end || end == e->graph->node_count)) {
            CHECK(add_energy(x, energy));
        }
    }
    return GRAIL_OK;
}
