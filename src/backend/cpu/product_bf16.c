/* The products of gradients in bf16: C = A B and C += A^T B, of operands that are rounded, with f32
 * sums. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/rounding.h"
#include "base/clones.h"

#include "base/memory.h"
#include "base/parallel.h"

/* Rows of A that are rounded at once, and the side of the squares that a transposition takes. */
enum { PANEL = 2048, SQUARE = 64 };

typedef struct rounding_job {
    int64_t rows, columns;
    const float *values; /* [rows, columns] */
    uint16_t *rounded;   /* [rows, columns], or transposed */
} rounding_job;

CPU_CLONES static void round_part(int64_t begin, int64_t end, void *context)
{
    const rounding_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        job->rounded[i] = bf16_rounded(job->values[i]);
    }
}

static void round_values(const float *values, int64_t count, uint16_t *rounded)
{
    enum { GRAIN = 1 << 16 };
    rounding_job job = {.values = values, .rounded = rounded};
    parallel_for(count, GRAIN, round_part, &job);
}

/* Rows `first` and on of columns `begin` and on, through a square that stays in cache: each line of
 * the values is read once, whatever the distance of rows. */
CPU_CLONES static void transpose_square(const rounding_job *job, int64_t first, int64_t rows,
                                        int64_t begin, int64_t columns)
{
    uint16_t square[SQUARE][SQUARE];
    for (int64_t r = 0; r < rows; r++) {
        const float *row = job->values + (first + r) * job->columns + begin;
        for (int64_t c = 0; c < columns; c++) {
            square[c][r] = bf16_rounded(row[c]);
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        memcpy(job->rounded + (begin + c) * job->rows + first, square[c],
               (size_t)rows * sizeof square[0][0]);
    }
}

static void transpose_columns(int64_t begin, int64_t end, void *context)
{
    const rounding_job *job = context;
    for (int64_t first = 0; first < job->rows; first += SQUARE) {
        const int64_t left = job->rows - first;
        transpose_square(job, first, left < SQUARE ? left : SQUARE, begin, end - begin);
    }
}

/* C = A B; `right` holds B. */
static grail_status multiply(const operation *o, int64_t panel, uint16_t *left, uint16_t *right)
{
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    round_values(b.memory, matrix_count(b), right);
    for (int64_t first = 0; first < a.rows; first += panel) {
        const int64_t count = a.rows - first < panel ? a.rows - first : panel;
        round_values(host_row(a, first), count * a.columns, left);
        CHECK(onednn_multiply(count, b.columns, a.columns, left, right, false,
                              host_row(o->m[2], first)));
    }
    return GRAIL_OK;
}

/* C += A^T B, by rows of both; `right` holds those of B. */
static grail_status add_transposed(const operation *o, int64_t panel, uint16_t *left,
                                   uint16_t *right)
{
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    for (int64_t first = 0; first < a.rows; first += panel) {
        const int64_t count = a.rows - first < panel ? a.rows - first : panel;
        rounding_job job = {count, a.columns, host_row(a, first), left};
        parallel_for(a.columns, SQUARE, transpose_columns, &job);
        round_values(host_row(b, first), count * b.columns, right);
        CHECK(onednn_multiply(a.columns, b.columns, count, left, right, true, o->m[2].memory));
    }
    return GRAIL_OK;
}

static grail_status multiply_rounded(const operation *o)
{
    grail_status status = GRAIL_OK;
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    const bool adds = o->with.transpose_a;
    const int64_t panel = a.rows < PANEL ? a.rows : PANEL;
    uint16_t *left = NULL;
    uint16_t *right = NULL;
    TRY(memory_new_unset(&left, (size_t)(panel * a.columns), sizeof left[0]));
    TRY(memory_new_unset(&right, (size_t)((adds ? panel : b.rows) * b.columns), sizeof right[0]));
    status = adds ? add_transposed(o, panel, left, right) : multiply(o, panel, left, right);
out:
    memory_free(left);
    memory_free(right);
    return status;
}

/* The library knows no empty products, and gradients have no others than these two. */
grail_status cpu_bf16_product(const operation *o)
{
    const bool is_empty =
        matrix_count(o->m[0]) == 0 || matrix_count(o->m[1]) == 0 || matrix_count(o->m[2]) == 0;
    const bool is_of_gradients =
        !o->with.transpose_b && o->with.beta == (o->with.transpose_a ? 1.0 : 0.0);
    return is_empty || !is_of_gradients ? cpu_product(o) : multiply_rounded(o);
}
