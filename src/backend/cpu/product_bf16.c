/* The products of gradients in bf16: C = A B and C (+)= A^T B, of operands that are rounded, with
 * f32 sums. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/product_pairs.h"
#include "backend/cpu/rounding.h"
#include "base/clones.h"

#include "base/memory.h"
#include "base/parallel.h"

/* Rows of A and elements of a row that are rounded at once, so that what is rounded takes as little
 * memory as can be used again, and the side of the squares that a transposition takes. */
enum { PANEL = 2048, DEPTH = 4096, SQUARE = 64 };

/* A part of some values, whose rows are `stride` apart. */
typedef struct rounding_job {
    int64_t rows, columns, stride;
    const float *values; /* [rows, columns] */
    uint16_t *rounded;   /* [rows, columns], or transposed */
} rounding_job;

CPU_CLONES static void round_row(int64_t count, const float *values, uint16_t *rounded)
{
    for (int64_t i = 0; i < count; i++) {
        rounded[i] = bf16_rounded(values[i]);
    }
}

static void round_rows(int64_t begin, int64_t end, void *context)
{
    const rounding_job *job = context;
    if (job->stride == job->columns) {
        round_row((end - begin) * job->columns, job->values + begin * job->columns,
                  job->rounded + begin * job->columns);
        return;
    }
    for (int64_t r = begin; r < end; r++) {
        round_row(job->columns, job->values + r * job->stride, job->rounded + r * job->columns);
    }
}

static void round_values(rounding_job job)
{
    enum { GRAIN = 1 << 16 };
    parallel_for(job.rows, GRAIN / job.columns + 1, round_rows, &job);
}

/* Rows `first` and on of columns `begin` and on, through a square that stays in cache: each line of
 * the values is read once, whatever the distance of rows. */
CPU_CLONES static void transpose_square(const rounding_job *job, int64_t first, int64_t rows,
                                        int64_t begin, int64_t columns)
{
    uint16_t square[SQUARE][SQUARE];
    for (int64_t r = 0; r < rows; r++) {
        const float *row = job->values + (first + r) * job->stride + begin;
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

/* C = A B, by parts of the sum and then by rows of A; `right` holds a part of B, or all of a weight
 * that was in order. */
static grail_status multiply(const operation *o, int64_t panel, int64_t depth, uint16_t *left,
                             uint16_t *right)
{
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    for (int64_t k = 0; k < a.columns; k += depth) {
        const int64_t part = smaller(depth, a.columns - k);
        const uint16_t *rows = matrix_is_ordered(b) ? right + k * b.columns : right;
        if (!matrix_is_ordered(b)) {
            round_values((rounding_job){part, b.columns, b.columns, host_row(b, k), right});
        }
        for (int64_t first = 0; first < a.rows; first += panel) {
            const int64_t count = smaller(panel, a.rows - first);
            round_values((rounding_job){count, part, a.columns, host_element(a, first, k), left});
            CHECK(onednn_multiply(count, b.columns, part, left, rows, k > 0,
                                  host_row(o->m[2], first)));
        }
    }
    return GRAIL_OK;
}

/* C (+)= A^T B, by rows of both and then by rows of C; `right` holds rows of B. */
static grail_status add_transposed(const operation *o, int64_t panel, int64_t depth, uint16_t *left,
                                   uint16_t *right)
{
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    for (int64_t first = 0; first < a.rows; first += panel) {
        const int64_t count = smaller(panel, a.rows - first);
        round_values((rounding_job){count, b.columns, b.columns, host_row(b, first), right});
        for (int64_t i = 0; i < a.columns; i += depth) {
            rounding_job job = {count, smaller(depth, a.columns - i), a.columns,
                                host_element(a, first, i), left};
            parallel_for(job.columns, SQUARE, transpose_columns, &job);
            CHECK(onednn_multiply(job.columns, b.columns, count, left, right,
                                  first > 0 || o->with.beta != 0.0, host_row(o->m[2], i)));
        }
    }
    return GRAIL_OK;
}

static grail_status multiply_rounded(const operation *o)
{
    grail_status status = GRAIL_OK;
    const matrix a = o->m[0];
    const matrix b = o->m[1];
    const bool adds = o->with.transpose_a;
    const int64_t panel = smaller(PANEL, a.rows);
    const int64_t depth = smaller(DEPTH, a.columns);
    const int64_t at_once = matrix_is_ordered(b) ? b.rows : adds ? panel : depth;
    uint16_t *left = NULL;
    uint16_t *right = NULL;
    TRY(memory_new_unset(&left, (size_t)(panel * depth), sizeof left[0]));
    TRY(memory_new_unset(&right, (size_t)(at_once * b.columns), sizeof right[0]));
    TRY(matrix_is_ordered(b) ? matrix_download(b, right) : GRAIL_OK);
    status = adds ? add_transposed(o, panel, depth, left, right)
                  : multiply(o, panel, depth, left, right);
out:
    memory_free(left);
    memory_free(right);
    return status;
}

/* The library knows no empty products, and gradients have no others than these two. */
static bool is_of_gradients(const operation *o)
{
    const bool is_empty =
        matrix_count(o->m[0]) == 0 || matrix_count(o->m[1]) == 0 || matrix_count(o->m[2]) == 0;
    return !is_empty && !o->with.transpose_b &&
           (o->with.beta == 0.0 || (o->with.transpose_a && o->with.beta == 1.0));
}

grail_status cpu_bf16_product(const operation *o)
{
    return !is_of_gradients(o)     ? cpu_product(o)
           : pairs_has(PAIR_TILES) ? pairs_product(o, false)
                                   : multiply_rounded(o);
}

grail_status cpu_parts_product(const operation *o)
{
    enum { LEAST = 64 }; /* of each side: narrower products take longer to order than to multiply */
    const int64_t sums = o->with.transpose_a ? o->m[0].rows : o->m[0].columns;
    const bool is_wide = o->m[2].rows >= LEAST && o->m[2].columns >= LEAST && sums >= LEAST;
    return is_wide && is_of_gradients(o) ? pairs_product(o, true) : cpu_product(o);
}
