#include "solve/feedback.h"

#include "base/parallel.h"
#include "reduce/damped_inverse.h"

static const double damping = 0.01;

/* costs[j] <- 1 / L[j, j]^2, divided by the largest of them. */
static void take_costs(const double *lower, int64_t n, float *costs)
{
    double least = lower[0];
    for (int64_t j = 1; j < n; j++) {
        least = lower[j * n + j] < least ? lower[j * n + j] : least;
    }
    for (int64_t j = 0; j < n; j++) {
        const double root = least / lower[j * n + j];
        costs[j] = (float)(root * root);
    }
}

/* factor[j, k] <- L[k, j] / L[j, j] for k > j, G^-1 = L L^T */
static void take_factor(const double *lower, int64_t n, float *factor)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = j + 1; k < n; k++) {
            factor[j * n + k] = (float)(lower[k * n + j] / lower[j * n + j]);
        }
    }
}

grail_status feedback_init(matrix gram, feedback *out)
{
    grail_status status = GRAIL_OK;
    const int64_t n = gram.rows;
    double *lower = NULL;
    double lambda = 0.0;
    int64_t pivot = -1;
    *out = (feedback){.columns = n};
    TRY(damped_inverse(damping, gram, &lambda));
    TRY(matrix_cholesky(gram, &pivot));
    if (pivot >= 0) {
        FAIL(GRAIL_ERROR_NUMERIC,
             "the inverse of the Gram matrix is indefinite at feature %lld; give more calibration "
             "samples",
             (long long)pivot);
    }
    TRY(memory_new_unset(&lower, (size_t)(n * n), sizeof lower[0]));
    TRY(memory_new(&out->factor, (size_t)(n * n), sizeof out->factor[0]));
    TRY(matrix_download(gram, lower));
    TRY(memory_new(&out->costs, (size_t)n, sizeof out->costs[0]));
    take_factor(lower, n, out->factor);
    take_costs(lower, n, out->costs);
out:
    memory_free(lower);
    return status;
}

void feedback_fini(feedback *f)
{
    memory_free(f->factor);
    memory_free(f->costs);
    *f = (feedback){0};
}

/* -- rows -------------------------------------------------------------------------------------- */

typedef struct rounding {
    const feedback *f;
    grail_dtype dtype;
    int64_t block; /* elements of one */
    size_t bytes;  /* of one */
    float *weights;
    unsigned char *stored;
    bool *too_large; /* [rows] */
} rounding;

/* Rounds element j of a block that begins at column `first` of a row. */
static void round_element(const rounding *r, const block_grid *grid, int64_t first, int j,
                          unsigned char *block, float *row)
{
    const int64_t columns = r->f->columns;
    const int64_t at = first + j;
    const float *factor = r->f->factor + at * columns;
    const int q = block_nearest(grid, j, row[at]);
    const float rounded = grid->step[j] * (float)q + grid->least[j];
    const float error = row[at] - rounded;
    block_put(r->dtype, block, j, q);
    for (int64_t k = at + 1; k < columns; k++) {
        row[k] -= error * factor[k];
    }
}

static bool round_row(const rounding *r, float *row, unsigned char *stored)
{
    block_grid grid;
    for (int64_t first = 0; first < r->f->columns; first += r->block, stored += r->bytes) {
        if (block_fit_factors(r->dtype, row + first, r->f->costs + first, stored) != GRAIL_OK) {
            return false;
        }
        block_read_grid(r->dtype, stored, &grid);
        for (int j = 0; j < (int)r->block; j++) {
            round_element(r, &grid, first, j, stored, row);
        }
        blocks_to_f32(r->dtype, stored, 1, row + first);
    }
    return true;
}

static void round_rows(int64_t begin, int64_t end, void *context)
{
    const rounding *r = context;
    const int64_t columns = r->f->columns;
    const size_t row_bytes = (size_t)(columns / r->block) * r->bytes;
    for (int64_t i = begin; i < end; i++) {
        r->too_large[i] =
            !round_row(r, r->weights + i * columns, r->stored + (size_t)i * row_bytes);
    }
}

grail_status feedback_round(const feedback *f, grail_dtype dtype, int64_t rows, float *weights,
                            void *stored)
{
    grail_status status = GRAIL_OK;
    rounding r = {
        .f = f, .dtype = dtype, .block = dtype_block(dtype), .weights = weights, .stored = stored};
    if (!dtype_bytes(dtype, r.block, &r.bytes) || f->columns % r.block != 0) {
        return error_set(GRAIL_ERROR_SHAPE, "rows of %lld weights do not fill blocks of %s",
                         (long long)f->columns, grail_dtype_name(dtype));
    }
    TRY(memory_new(&r.too_large, (size_t)rows, sizeof r.too_large[0]));
    parallel_for(rows, 4, round_rows, &r);
    for (int64_t i = 0; i < rows; i++) {
        if (r.too_large[i]) {
            FAIL(GRAIL_ERROR_NUMERIC, "row %lld has values that are too large for %s", (long long)i,
                 grail_dtype_name(dtype));
        }
    }
out:
    memory_free(r.too_large);
    return status;
}
