#include "backend/cpu/product_pairs.h"

#include "backend/cpu/linear_pairs.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/tasks.h"
#include "backend/finite.h"

#include <string.h>

/* -- C = A B: a Linear with the weight B^T, in parts of its sum ----------------------------------
 */

static grail_status multiply(const operation *o, bool in_parts)
{
    enum { MOST = 1536 }; /* a panel of rows and the weight's squares stay in the second level */
    grail_status status = GRAIL_OK;
    const matrix a = o->m[0];
    const int64_t parts = (a.columns + MOST - 1) / MOST;
    const int64_t depth = pair_squares((a.columns + parts - 1) / parts) * PAIR_SIDE;
    unsigned char *weight = NULL;
    bool finite = false;
    size_t bytes = 0;
    TRY(pairs_weight_bytes(o->m[1].columns, depth, &bytes));
    TRY(memory_new_unset(&weight, in_parts ? 2 : 1, bytes));
    unsigned char *low = in_parts ? weight + bytes : NULL;
    for (int64_t k = 0; k < a.columns; k += depth) {
        const int64_t count = smaller(depth, a.columns - k);
        pairs_weight_transpose(o->m[1], k, count, weight, low);
        TRY(pairs_linear(matrix_columns(a, k, count), weight, low, NULL, k > 0, o->m[2], &finite));
    }
    if (finite) {
        finite_found(o->m[2]);
    }
out:
    memory_free(weight);
    return status;
}

/* -- C (+)= A^T B: panels of rows, of which B is ordered first -----------------------------------
 */

/* Rows of a panel, and strips of 32 columns of A that a task orders at once. */
enum { PANEL = 512, STRIPS = 16 };

typedef struct transposed_job {
    matrix a, c; /* rows of the panel, and C */
    bool adds;
    int64_t down;          /* squares of a column of the panel */
    uint32_t *right, *low; /* B in squares, and what is left of it, or NULL; one block, owned */
} transposed_job;

/* Some strips of A, whose squares follow each other by strip, and behind STRIPS of them what is
 * left of the rounded values. */
static void order_left(const transposed_job *job, matrix a, uint32_t *left)
{
    const int64_t step = job->down * PAIR_SQUARE;
    uint32_t *low = job->low == NULL ? NULL : left + STRIPS * step;
    for (int64_t r = 0; r < job->down; r++) {
        pairs_order_columns(host_row(a, r * PAIR_SIDE), a.stride,
                            smaller(PAIR_SIDE, a.rows - r * PAIR_SIDE), a.columns, step,
                            left + r * PAIR_SQUARE, low == NULL ? NULL : low + r * PAIR_SQUARE);
    }
    for (int64_t at = 0; at < pair_squares(a.columns) * step; at += PAIR_SQUARE) {
        pairs_turn(left + at, left + at);
        if (low != NULL) {
            pairs_turn(low + at, low + at);
        }
    }
}

static void copy_rows(int64_t rows, int64_t columns, const float *from, int64_t stride, float *to,
                      int64_t to_stride)
{
    for (int64_t r = 0; r < rows; r++) {
        memcpy(to + r * to_stride, from + r * stride, (size_t)columns * sizeof from[0]);
    }
}

/* 32 rows of C or fewer; those that are no whole squares by way of `room`. */
static void multiply_strip(const transposed_job *job, const uint32_t *left, matrix c, float *room)
{
    const int64_t across = pair_squares(c.columns);
    const bool is_whole = c.rows == PAIR_SIDE && c.columns % PAIR_SIDE == 0;
    if (!is_whole && job->adds) {
        copy_rows(c.rows, c.columns, c.memory, c.stride, room, across * PAIR_SIDE);
    }
    pairs_multiply(&(pair_product){.count = job->low == NULL ? 1 : 3,
                                   .left = {left, left, left + STRIPS * job->down * PAIR_SQUARE},
                                   .right = {job->right, job->low, job->right},
                                   .step = job->down * PAIR_SQUARE,
                                   .rows = job->down,
                                   .height = 1,
                                   .width = across,
                                   .sets = !job->adds},
                   is_whole ? c.memory : room, is_whole ? c.stride : across * PAIR_SIDE);
    if (!is_whole) {
        copy_rows(c.rows, c.columns, room, across * PAIR_SIDE, c.memory, c.stride);
    }
}

static void multiply_strips(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    const transposed_job *job = context;
    const int64_t first = task * STRIPS * PAIR_SIDE;
    const int64_t count = smaller(STRIPS * PAIR_SIDE, job->a.columns - first);
    const int64_t words = job->down * PAIR_SQUARE;
    uint32_t *left = (uint32_t *)scratch;
    order_left(job, matrix_columns(job->a, first, count), left);
    for (int64_t i = 0; i < count; i += PAIR_SIDE) {
        multiply_strip(job, left + i / PAIR_SIDE * words,
                       matrix_rows(job->c, first + i, smaller(PAIR_SIDE, count - i)),
                       scratch + (job->low == NULL ? 1 : 2) * STRIPS * words);
    }
}

static grail_status multiply_transposed(const operation *o, bool in_parts)
{
    grail_status status = GRAIL_OK;
    const int64_t across = pair_squares(o->m[1].columns);
    const int64_t rows = o->m[0].rows;
    const int64_t most = pair_squares(smaller(PANEL, rows));
    const int64_t parts = in_parts ? 2 : 1;
    const int64_t words = across * most * PAIR_SQUARE;
    const size_t room =
        (size_t)(parts * STRIPS * most * PAIR_SQUARE + across * PAIR_SIDE * PAIR_SIDE);
    transposed_job job = {.c = o->m[2]};
    TRY(memory_new_unset(&job.right, (size_t)(parts * words), sizeof job.right[0]));
    job.low = in_parts ? job.right + words : NULL;
    for (int64_t first = 0; first < rows; first += PANEL) {
        const int64_t count = smaller(PANEL, rows - first);
        job.a = matrix_rows(o->m[0], first, count);
        job.adds = first > 0 || o->with.beta != 0.0;
        job.down = pair_squares(count);
        pairs_weight_transpose(matrix_rows(o->m[1], first, count), 0, count, job.right, job.low);
        TRY(tasks_run((pair_squares(job.a.columns) + STRIPS - 1) / STRIPS, room, multiply_strips,
                      &job));
    }
out:
    memory_free(job.right);
    return status;
}

grail_status pairs_product(const operation *o, bool in_parts)
{
    return o->with.transpose_a ? multiply_transposed(o, in_parts) : multiply(o, in_parts);
}
