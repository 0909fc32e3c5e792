#include "solve/feedback.h"

#include "base/clones.h"
#include "base/parallel.h"
#include "reduce/removal.h"

static const double damping = 0.01;

grail_status feedback_init(matrix *gram, feedback *out)
{
    grail_status status = GRAIL_OK;
    const int64_t n = gram->rows;
    double lambda = 0.0;
    double *host = NULL;
    matrix pivots = {0};
    *out = (feedback){.columns = n, .lower = *gram};
    *gram = (matrix){0};
    TRY(damped_cholesky(damping, out->lower, &lambda));
    TRY(matrix_new(out->lower.owner, GRAIL_DTYPE_F64, 1, n, &pivots));
    TRY(memory_new_unset(&host, (size_t)n, sizeof host[0]));
    TRY(memory_new_unset(&out->costs, (size_t)n, sizeof out->costs[0]));
    TRY(matrix_diagonal(out->lower, pivots));
    TRY(matrix_divide_columns(pivots, out->lower));
    TRY(matrix_download(pivots, host));
    double most = host[0];
    for (int64_t k = 1; k < n; k++) {
        most = host[k] > most ? host[k] : most;
    }
    for (int64_t k = 0; k < n; k++) {
        const double root = host[k] / most;
        out->costs[k] = (float)(root * root);
    }
out:
    matrix_free(&pivots);
    memory_free(host);
    return status;
}

void feedback_fini(feedback *f)
{
    matrix_free(&f->lower);
    memory_free(f->costs);
    *f = (feedback){0};
}

/* -- columns, in panels ------------------------------------------------------------------------ */

/* The columns that are rounded before what they lost is passed on, by one product of matrices, to
 * all columns left of them. A multiple of all blocks. */
enum { PANEL = 256 };

/* A panel of columns; the views are f32. */
typedef struct panel {
    int64_t first, columns;
    host_view factor; /* [columns, columns]: L[j, k] / L[k, k] of its columns */
    host_view moves;  /* M[rows, columns]: sum_j e_j L[j, k] / L[k, k] of the columns j behind it */
    host_view errors; /* E[rows, columns] */
} panel;

typedef struct rounding {
    const feedback *f;
    grail_dtype dtype;
    int64_t block; /* elements of one */
    size_t bytes;  /* of one */
    int64_t rows;
    float *weights;
    unsigned char *stored;
    bool *too_large; /* [rows] */
    panel at;
} rounding;

/* A row within a panel. */
typedef struct row_part {
    float values[PANEL]; /* moved by the errors so far */
    float *weights;      /* as they were, or rounded */
    float *errors;
    unsigned char *stored;
} row_part;

/* values[k] += error factor[k] */
CPU_CLONES static void add_scaled(int64_t count, float error, const float *factor, float *values)
{
    for (int64_t k = 0; k < count; k++) {
        values[k] += error * factor[k];
    }
}

/* What element `at` of the panel loses moves those from `first` on before it. */
static void move(const rounding *r, float error, int64_t first, int64_t at, float *values)
{
    const float *factor = (const float *)r->at.factor.values + at * r->at.columns;
    add_scaled(at - first, error, factor + first, values + first);
}

static bool round_row(const rounding *r, row_part *row)
{
    float best[PANEL];
    block_grid grid;
    for (int64_t first = r->at.columns - r->block; first >= 0; first -= r->block) {
        unsigned char *block = row->stored + (size_t)(first / r->block) * r->bytes;
        const float *costs = r->f->costs + r->at.first + first;
        /* Elements `first` to `end` of the panel as they would be best, if they were not rounded,
         * after all those behind them: each is off by what then makes up for those. */
        const int64_t end = first + r->block;
        for (int64_t k = first; k < end; k++) {
            best[k] = row->values[k];
        }
        for (int64_t k = end - 1; k > first; k--) {
            move(r, row->weights[k] - best[k], first, k, best);
        }
        if (block_fit_factors(r->dtype, best + first, costs, block) != GRAIL_OK) {
            return false;
        }
        block_read_grid(r->dtype, block, &grid);
        for (int j = (int)r->block - 1; j >= 0; j--) {
            const int64_t at = first + j;
            const int q = block_nearest(&grid, j, row->values[at]);
            const float error = row->weights[at] - (grid.step[j] * (float)q + grid.least[j]);
            block_put(r->dtype, block, j, q);
            row->errors[at] = error;
            move(r, error, 0, at, row->values);
        }
        blocks_to_f32(r->dtype, block, 1, row->weights + first);
    }
    return true;
}

static void round_rows(int64_t begin, int64_t end, void *context)
{
    const rounding *r = context;
    const panel *p = &r->at;
    const int64_t columns = r->f->columns;
    const size_t row_bytes = (size_t)(columns / r->block) * r->bytes;
    for (int64_t i = begin; i < end; i++) {
        const float *moves = (const float *)p->moves.values + i * p->columns;
        row_part row = {.weights = r->weights + i * columns + p->first,
                        .errors = (float *)p->errors.values + i * p->columns,
                        .stored = r->stored + (size_t)i * row_bytes +
                                  (size_t)(p->first / r->block) * r->bytes};
        for (int64_t k = 0; k < p->columns; k++) {
            row.values[k] = row.weights[k] + moves[k];
        }
        r->too_large[i] = !round_row(r, &row);
    }
}

/* errors[rows, columns] <- those of the panel, whose columns `moves` are read. */
static grail_status round_panel(rounding *r, matrix moves, matrix errors)
{
    grail_status status = GRAIL_OK;
    panel *p = &r->at;
    const matrix rows = matrix_rows(r->f->lower, p->first, p->columns);
    TRY(host_view_open(matrix_columns(rows, p->first, p->columns), GRAIL_DTYPE_F32, HOST_READS,
                       &p->factor));
    TRY(host_view_open(moves, GRAIL_DTYPE_F32, HOST_READS, &p->moves));
    TRY(host_view_open(errors, GRAIL_DTYPE_F32, HOST_WRITES, &p->errors));
    parallel_for(r->rows, 4, round_rows, r);
    for (int64_t i = 0; i < r->rows; i++) {
        if (r->too_large[i]) {
            FAIL(GRAIL_ERROR_NUMERIC, "row %lld has values that are too large for %s", (long long)i,
                 grail_dtype_name(r->dtype));
        }
    }
    TRY(host_view_close(&p->errors));
out:
    host_view_drop(&p->factor);
    host_view_drop(&p->moves);
    host_view_drop(&p->errors);
    return status;
}

static grail_status round_panels(rounding *r)
{
    grail_status status = GRAIL_OK;
    backend *b = r->f->lower.owner;
    matrix moves = {0};
    matrix errors = {0};
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, r->rows, r->f->columns, &moves));
    TRY(matrix_new(b, GRAIL_DTYPE_F64, r->rows, PANEL, &errors));
    for (int64_t end = r->f->columns; end > 0; end = r->at.first) {
        const int64_t columns = end < PANEL ? end : PANEL;
        const matrix part = matrix_columns(errors, 0, columns);
        r->at = (panel){.first = end - columns, .columns = columns};
        TRY(round_panel(r, matrix_columns(moves, r->at.first, columns), part));
        /* M[rows, 0 .. first] += E L[panel, 0 .. first], divided as `lower` is */
        const panel *p = &r->at;
        const matrix lower = matrix_rows(r->f->lower, p->first, p->columns);
        TRY(matrix_gemm(false, false, 1.0, part, matrix_columns(lower, 0, p->first), 1.0,
                        matrix_columns(moves, 0, p->first)));
    }
out:
    matrix_free(&moves);
    matrix_free(&errors);
    return status;
}

grail_status feedback_round(const feedback *f, grail_dtype dtype, int64_t rows, float *weights,
                            void *stored)
{
    grail_status status = GRAIL_OK;
    rounding r = {.f = f,
                  .dtype = dtype,
                  .block = dtype_block(dtype),
                  .rows = rows,
                  .weights = weights,
                  .stored = stored};
    if (!dtype_bytes(dtype, r.block, &r.bytes) || f->columns % r.block != 0) {
        return error_set(GRAIL_ERROR_SHAPE, "rows of %lld weights do not fill blocks of %s",
                         (long long)f->columns, grail_dtype_name(dtype));
    }
    TRY(memory_new(&r.too_large, (size_t)rows, sizeof r.too_large[0]));
    TRY(round_panels(&r));
out:
    memory_free(r.too_large);
    return status;
}
