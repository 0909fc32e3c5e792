#include "backend/cpu/linear_pairs.h"

#include "backend/cpu/pairs.h"
#include "backend/cpu/tasks.h"
#include "base/clones.h"
#include "base/parallel.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_STREAMS 1
#include <immintrin.h>
#endif

/* -- weights: squares along the columns of 32 rows of W, on the right ---------------------------
 */

enum { ROW_WORDS = PAIR_SIDE / 2 };

grail_status pairs_weight_bytes(int64_t out, int64_t in, size_t *bytes)
{
    *bytes = (size_t)(pair_squares(out) * pair_squares(in)) * PAIR_SQUARE * sizeof(uint32_t);
    return GRAIL_OK;
}

typedef struct weight_job {
    int64_t out, in;
    uint16_t *values;
    uint32_t *squares;
    bool restores;
} weight_job;

/* 32 rows of W, or fewer, from or to their squares, through one on the left, whose rows are parts
 * of rows of W. */
static void move_strips(int64_t begin, int64_t end, void *context)
{
    const weight_job *w = context;
    const int64_t down = pair_squares(w->in);
    for (int64_t at = begin * down; at < end * down; at++) {
        const int64_t row = at / down * PAIR_SIDE;
        const int64_t column = at % down * PAIR_SIDE;
        const int64_t rows = smaller(PAIR_SIDE, w->out - row);
        const size_t bytes = (size_t)smaller(PAIR_SIDE, w->in - column) * sizeof w->values[0];
        uint32_t *square = w->squares + at * PAIR_SQUARE;
        uint32_t left[PAIR_SQUARE] = {0};
        if (w->restores) {
            pairs_turn(square, left);
        }
        for (int64_t r = 0; r < rows; r++) {
            uint16_t *values = w->values + (row + r) * w->in + column;
            if (w->restores) {
                memcpy(values, left + r * ROW_WORDS, bytes);
            } else {
                memcpy(left + r * ROW_WORDS, values, bytes);
            }
        }
        if (!w->restores) {
            pairs_turn(left, square);
        }
    }
}

static void move_weight(weight_job w)
{
    enum { GRAIN = 64 };
    parallel_for(pair_squares(w.out), GRAIN / pair_squares(w.in) + 1, move_strips, &w);
}

grail_status pairs_weight_order(int64_t out, int64_t in, const void *values, void *weight)
{
    if (out > 0 && in > 0) {
        move_weight((weight_job){out, in, (uint16_t *)(uintptr_t)values, weight, false});
    }
    return GRAIL_OK;
}

grail_status pairs_weight_restore(int64_t out, int64_t in, const void *weight, void *values)
{
    if (out > 0 && in > 0) {
        move_weight((weight_job){out, in, values, (uint32_t *)(uintptr_t)weight, true});
    }
    return GRAIL_OK;
}

typedef struct parts_job {
    matrix weight;
    uint32_t *high, *low;
} parts_job;

/* 32 rows of W, or fewer, as two parts, by way of some squares on the left. */
static void split_strips(int64_t begin, int64_t end, void *context)
{
    enum { AT_ONCE = 4 };
    const parts_job *job = context;
    const matrix w = job->weight;
    const int64_t down = pair_squares(w.columns);
    uint32_t left[2][AT_ONCE * PAIR_SQUARE];
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t rows = smaller(PAIR_SIDE, w.rows - strip * PAIR_SIDE);
        for (int64_t k = 0; k < down; k += AT_ONCE) {
            const int64_t column = k * PAIR_SIDE;
            const int64_t to = (strip * down + k) * PAIR_SQUARE;
            pairs_order_rows(host_element(w, strip * PAIR_SIDE, column), w.stride, rows,
                             smaller(AT_ONCE * PAIR_SIDE, w.columns - column), left[0], left[1]);
            for (int64_t i = 0; i < smaller(AT_ONCE, down - k) * PAIR_SQUARE; i += PAIR_SQUARE) {
                pairs_turn(left[0] + i, job->high + to + i);
                pairs_turn(left[1] + i, job->low + to + i);
            }
        }
    }
}

void pairs_weight_split(matrix weight, void *high, void *low)
{
    parts_job job = {weight, high, low};
    parallel_for(pair_squares(weight.rows), 1, split_strips, &job);
}

/* -- the weight of the gradient of X: W^T in the same order ------------------------------------ */

typedef struct transposition {
    matrix weight;
    int64_t first, down; /* of the rows of W that are taken, in squares; and how many */
    uint32_t *squares, *low;
} transposition;

/* 32 rows of W. */
static void transpose_rows(int64_t begin, int64_t end, void *context)
{
    const transposition *t = context;
    const matrix w = t->weight;
    const int64_t across = pair_squares(w.columns);
    const int64_t step = t->down * PAIR_SQUARE;
    for (int64_t r = begin; r < end; r++) {
        const int64_t row = t->first + r;
        uint32_t *to = t->squares + r * PAIR_SQUARE;
        if (!matrix_is_ordered(w)) {
            pairs_order_columns(host_row(w, row * PAIR_SIDE), w.stride,
                                smaller(PAIR_SIDE, w.rows - row * PAIR_SIDE), w.columns, step, to,
                                t->low == NULL ? NULL : t->low + r * PAIR_SQUARE);
            continue;
        }
        for (int64_t j = 0; j < across; j++) {
            uint32_t rows[PAIR_SQUARE];
            pairs_turn((const uint32_t *)w.memory + (row * across + j) * PAIR_SQUARE, rows);
            pairs_join_rows(rows, to + j * step);
        }
    }
}

void pairs_weight_transpose(matrix weight, int64_t first, int64_t rows, void *transposed, void *low)
{
    transposition t = {weight, first / PAIR_SIDE, pair_squares(rows), transposed, low};
    parallel_for(t.down, 1, transpose_rows, &t);
}

/* -- products ---------------------------------------------------------------------------------- */

/* A task rounds a panel of rows of X and multiplies it by some strips of W, 32 columns of Y at a
 * time. */
typedef struct linear_job {
    matrix x, y;
    const uint32_t *weight[2]; /* its parts; the second is NULL where values are rounded */
    const float *bias;
    int64_t down;           /* squares along a row of X */
    int64_t panel;          /* rows, a multiple of 32 */
    int64_t panel_words;    /* of each part */
    int64_t parts, strips;  /* of a panel, and strips of each part */
    bool adds;              /* to Y */
    bool streams;           /* Y is not read back soon, and is written past the caches */
    _Atomic bool *infinite; /* set where Y is not finite */
} linear_job;

/* Whether so many rows of 32 columns are finite. One maximum for each column: a single one is found
 * across vectors for every row. */
CPU_CLONES static bool rows_are_finite(int64_t rows, const float *y, int64_t stride)
{
    uint32_t largest[PAIR_SIDE] = {0};
    bool finite = true;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < PAIR_SIDE; i++) {
            uint32_t bits = 0;
            memcpy(&bits, y + r * stride + i, sizeof bits);
            bits &= 0x7fffffffU;
            largest[i] = bits > largest[i] ? bits : largest[i];
        }
    }
    for (int64_t i = 0; i < PAIR_SIDE; i++) {
        finite &= largest[i] < 0x7f800000U;
    }
    return finite;
}

/* Y[rows, count] = C; whether that is finite. */
static bool store_rows(int64_t rows, int64_t count, const float *c, float *y, int64_t stride)
{
    for (int64_t r = 0; r < rows; r++) {
        memcpy(y + r * stride, c + r * PAIR_SIDE, (size_t)count * sizeof y[0]);
    }
    return rows_are_finite(rows, c, PAIR_SIDE);
}

#ifdef HAS_STREAMS
/* The same of 32 columns, past the caches. */
__attribute__((target("avx512f"))) static bool stream_rows(int64_t rows, const float *c, float *y,
                                                           int64_t stride)
{
    __m512 differences = _mm512_setzero_ps(); /* NaN of what is infinite */
    for (int64_t r = 0; r < rows; r++, c += PAIR_SIDE, y += stride) {
        const __m512 a = _mm512_loadu_ps(c);
        const __m512 b = _mm512_loadu_ps(c + ROW_WORDS);
        differences = _mm512_add_ps(differences, _mm512_sub_ps(a, a));
        differences = _mm512_add_ps(differences, _mm512_sub_ps(b, b));
        _mm512_stream_ps(y, a);
        _mm512_stream_ps(y + ROW_WORDS, b);
    }
    return _mm512_cmp_ps_mask(differences, _mm512_setzero_ps(), _CMP_EQ_OQ) == 0xffff;
}

static void end_streams(void)
{
    _mm_sfence();
}

/* Worth it where Y outgrows the caches of a core, and whole vectors are aligned. */
static bool may_stream(matrix y)
{
    enum { LEAST_BYTES = 16 << 20, VECTOR = 64 };
    return __builtin_cpu_supports("avx512f") && (uintptr_t)y.memory % VECTOR == 0 &&
           y.columns % ROW_WORDS == 0 && matrix_count(y) * (int64_t)sizeof(float) >= LEAST_BYTES;
}
#else
static bool stream_rows(int64_t rows, const float *c, float *y, int64_t stride)
{
    return store_rows(rows, PAIR_SIDE, c, y, stride);
}

static void end_streams(void)
{
}

static bool may_stream(matrix y)
{
    (void)y;
    return false;
}
#endif

/* Rows of Y that are summed before they are searched, while they are in the first-level cache. */
enum { PIECE = 128 };

/* Some rows of strip j, of 32 or fewer columns of Y; whether they are finite. Whole squares are
 * stored as they are summed, others by way of C[PIECE, 32]. */
static bool multiply_piece(const linear_job *job, const uint32_t *left, int64_t j,
                           const float *start, matrix y, float *c)
{
    const int64_t step = job->down * PAIR_SQUARE;
    const bool is_whole = y.columns == PAIR_SIDE && y.rows % PAIR_SIDE == 0;
    const bool in_place = is_whole && !job->streams;
    for (int64_t r = 0; job->adds && !in_place && r < y.rows; r++) {
        memcpy(c + r * PAIR_SIDE, host_row(y, r), (size_t)y.columns * sizeof c[0]);
    }
    const uint32_t *high = job->weight[0] + j * step;
    const uint32_t *low = job->weight[1] == NULL ? NULL : job->weight[1] + j * step;
    pairs_multiply(&(pair_product){.count = low == NULL ? 1 : 3,
                                   .left = {left, left + job->panel_words, left},
                                   .right = {high, high, low},
                                   .step = step,
                                   .rows = job->down,
                                   .height = pair_squares(y.rows),
                                   .width = 1,
                                   .sets = !job->adds,
                                   .start = start},
                   in_place ? y.memory : c, in_place ? y.stride : PAIR_SIDE);
    return in_place   ? rows_are_finite(y.rows, y.memory, y.stride)
           : is_whole ? stream_rows(y.rows, c, y.memory, y.stride)
                      : store_rows(y.rows, y.columns, c, y.memory, y.stride);
}

static bool multiply_strip(const linear_job *job, const uint32_t *left, int64_t j, matrix y,
                           float *c)
{
    float start[PAIR_SIDE] = {0.0F};
    bool finite = true;
    if (job->bias != NULL) {
        memcpy(start, job->bias + j * PAIR_SIDE, (size_t)y.columns * sizeof start[0]);
    }
    for (int64_t r = 0; r < y.rows; r += PIECE) {
        finite &= multiply_piece(job, left + r / PAIR_SIDE * job->down * PAIR_SQUARE, j,
                                 job->bias == NULL ? NULL : start,
                                 matrix_rows(y, r, smaller(PIECE, y.rows - r)), c);
    }
    return finite;
}

static void multiply_panel(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    const linear_job *job = context;
    const int64_t first = task / job->parts * job->panel;
    const int64_t rows = smaller(job->panel, job->x.rows - first);
    const int64_t begin = task % job->parts * job->strips;
    const int64_t end = smaller(begin + job->strips, pair_squares(job->y.columns));
    uint32_t *left = (uint32_t *)(scratch + PIECE * PAIR_SIDE);
    bool finite = true;
    for (int64_t r = 0; r < rows; r += PAIR_SIDE) {
        uint32_t *to = left + r / PAIR_SIDE * job->down * PAIR_SQUARE;
        pairs_order_rows(host_row(job->x, first + r), job->x.stride, smaller(PAIR_SIDE, rows - r),
                         job->x.columns, to, job->weight[1] == NULL ? NULL : to + job->panel_words);
    }
    for (int64_t j = begin; j < end; j++) {
        const int64_t column = j * PAIR_SIDE;
        const int64_t count = smaller(PAIR_SIDE, job->y.columns - column);
        const matrix part = matrix_columns(matrix_rows(job->y, first, rows), column, count);
        finite &= multiply_strip(job, left, j, part, scratch);
    }
    if (job->streams) {
        end_streams();
    }
    if (!finite) {
        atomic_store(job->infinite, true);
    }
}

static int64_t whole_squares(int64_t rows)
{
    return pair_squares(rows) * PAIR_SIDE;
}

grail_status pairs_linear(matrix x, const void *weight, const void *low, const float *bias,
                          bool adds, matrix y, bool *finite)
{
    /* a rounded panel stays in the second-level cache beside strips of W */
    enum { PANEL_BYTES = 800 << 10, MOST_ROWS = 512, TASKS_PER_THREAD = 2 };
    _Atomic bool infinite = false;
    const int64_t threads = parallel_threads();
    const int64_t fair = threads == 1 ? x.rows : x.rows / (TASKS_PER_THREAD * threads);
    const int64_t parts = low == NULL ? 1 : 2;
    const int64_t fits =
        PANEL_BYTES / (2 * parts * whole_squares(x.columns)) / PAIR_SIDE * PAIR_SIDE;
    const int64_t most = smaller(whole_squares(fair), smaller(MOST_ROWS, fits));
    linear_job job = {.x = x,
                      .y = y,
                      .weight = {weight, low},
                      .bias = bias,
                      .down = pair_squares(x.columns),
                      .panel = most > PAIR_SIDE ? most : PAIR_SIDE,
                      .adds = adds,
                      .streams = !adds && may_stream(y),
                      .infinite = &infinite};
    job.panel_words = job.panel * job.down * ROW_WORDS;
    const int64_t panels = (x.rows + job.panel - 1) / job.panel;
    const int64_t strips = pair_squares(y.columns);
    const int64_t wanted = panels < threads ? threads / panels : 1;
    job.strips = (strips + wanted - 1) / wanted;
    job.parts = (strips + job.strips - 1) / job.strips;
    const size_t floats = (size_t)(PIECE * PAIR_SIDE + parts * job.panel_words);
    CHECK(tasks_run(panels * job.parts, floats, multiply_panel, &job));
    *finite = !infinite;
    return GRAIL_OK;
}
