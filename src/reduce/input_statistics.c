#include "reduce/input_statistics.h"

#include "backend/operations.h"
#include "base/memory.h"
#include "stats/constant_features.h"

void input_statistics_free(int count, input_statistics *inputs)
{
    for (int i = 0; inputs != NULL && i < count; i++) {
        memory_free((double *)(uintptr_t)inputs[i].diagonal);
        memory_free((double *)(uintptr_t)inputs[i].means);
        matrix_free(&inputs[i].gram);
        matrix_free(&inputs[i].cross);
        memory_free((double *)(uintptr_t)inputs[i].target_means);
    }
    memory_free(inputs);
}

static grail_status download(matrix m, bool diagonal, double *out)
{
    return diagonal ? matrix_download_diagonal(m, out) : matrix_download(m, out);
}

/* *out[columns] = (fit + held) / divisor, of rows or of diagonals. */
static grail_status add_parts(matrix fit, matrix held, bool diagonals, double divisor,
                              const double **out)
{
    grail_status status = GRAIL_OK;
    double *sums = NULL;
    double *more = NULL;
    const int64_t count = fit.columns;
    TRY(memory_new(&sums, (size_t)count, sizeof sums[0]));
    *out = sums;
    TRY(memory_new(&more, (size_t)count, sizeof more[0]));
    TRY(download(fit, diagonals, sums));
    TRY(download(held, diagonals, more));
    for (int64_t i = 0; i < count; i++) {
        sums[i] = divisor > 0.0 ? (sums[i] + more[i]) / divisor : 0.0;
    }
out:
    memory_free(more);
    return status;
}

/* *out = fit + held */
static grail_status add_matrices(matrix fit, matrix held, matrix *out)
{
    CHECK(matrix_new(fit.owner, GRAIL_DTYPE_F64, fit.rows, fit.columns, out));
    CHECK(matrix_copy(fit, *out));
    return matrix_add_scaled(1.0, held, *out);
}

grail_status input_statistics_take(unsigned needs, const grail_statistics *fit,
                                   const grail_statistics *held, input_statistics *out)
{
    const double weight = fit->weight + held->weight;
    *out = (input_statistics){.width = fit->width,
                              .weight = weight,
                              .rows = (double)(fit->count + held->count),
                              .rounding = sums_rounding(fit->owner, fit->count + held->count)};
    if ((needs & NEEDS_DIAGONAL) != 0) {
        CHECK(add_parts(fit->gram, held->gram, true, 1.0, &out->diagonal));
    }
    if ((needs & NEEDS_MEANS) != 0) {
        CHECK(add_parts(fit->sum, held->sum, false, weight, &out->means));
    }
    if ((needs & NEEDS_GRAM) != 0) {
        CHECK(add_matrices(fit->gram, held->gram, &out->gram));
    }
    if ((needs & NEEDS_TARGET) != 0 && fit->outputs > 0) {
        CHECK(add_matrices(fit->cross, held->cross, &out->cross));
        CHECK(add_parts(fit->target_sum, held->target_sum, false, weight, &out->target_means));
    }
    return GRAIL_OK;
}
