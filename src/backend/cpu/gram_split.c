/* Sums of products over rows, C[m, n] += Y^T X, on units that multiply bf16. Every value is the sum
 * of two of bf16, x = high + low with a rest of at most 2^-16 |x|, and of the four products of the
 * parts all but low low are formed; that one, too, in tiles on the diagonal of a Gram, where on the
 * diagonal it has a sign. Rounded sums have the high parts alone: they are those of rounded values.
 * A Gram is the case Y = X, of which only the lower tiles are formed. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/pairs.h"
#include "backend/cpu/tasks.h"
#include "backend/cpu/tiles.h"

#include "base/parallel.h"

#include <string.h>

/* Sums over the rows of a panel are f32, those over panels f64. Tiles of sums, and what a chunk of
 * rows multiplies for them, stay in the second-level cache. */
enum { TILE = 384, CHUNK = 512, PANEL = 2048 };

/* A panel of rows as parts, in squares. */
typedef struct parts {
    int count; /* 2, or 1 for rounded values */
    const float *values;
    int64_t stride, rows, width;  /* of the panel */
    int64_t step;                 /* words of the squares of 32 columns */
    uint32_t *right[2], *left[2]; /* high, low; owned, NULL where not wanted */
} parts;

static void parts_fini(parts *p)
{
    for (int i = 0; i < 2; i++) {
        memory_free(p->right[i]);
        memory_free(p->left[i]);
    }
}

static grail_status parts_init(int count, int64_t rows, int64_t width, bool has_left, parts *p)
{
    const int64_t down = pair_squares(smaller(rows, PANEL));
    *p = (parts){.count = count, .width = width, .step = down * PAIR_SQUARE};
    const size_t words = (size_t)(p->step * pair_squares(width));
    for (int i = 0; i < count; i++) {
        CHECK(memory_new_unset(&p->right[i], words, sizeof p->right[0][0]));
        CHECK(has_left ? memory_new_unset(&p->left[i], words, sizeof p->left[0][0]) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* Rows of squares. */
static void order_rows(int64_t begin, int64_t end, void *context)
{
    const parts *p = context;
    for (int64_t r = begin; r < end; r++) {
        const int64_t rows = smaller(PAIR_SIDE, p->rows - r * PAIR_SIDE);
        const int64_t at = r * PAIR_SQUARE;
        pairs_order_columns(p->values + r * PAIR_SIDE * p->stride, p->stride, rows, p->width,
                            p->step, p->right[0] + at, p->count == 1 ? NULL : p->right[1] + at);
        for (int i = 0; i < p->count && p->left[i] != NULL; i++) {
            for (int64_t j = 0; j < pair_squares(p->width); j++) {
                pairs_turn(p->right[i] + j * p->step + at, p->left[i] + j * p->step + at);
            }
        }
    }
}

static void order(const float *values, int64_t stride, int64_t rows, parts *p)
{
    p->values = values;
    p->stride = stride;
    p->rows = rows;
    parallel_for(pair_squares(rows), 1, order_rows, p);
}

/* C += Y^T X of a panel. */
typedef struct panel_product {
    tiling tiles;
    const parts *y, *x;
    double *c;
} panel_product;

/* The parts of a tile: all four products on the diagonal of a Gram, else all but low low. */
static pair_product product_of(const panel_product *p, const tile *t)
{
    static const int pairs[PAIR_PRODUCTS][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}; /* left, right */
    pair_product out = {.count = p->x->count == 1                 ? 1
                                 : tile_on_diagonal(&p->tiles, t) ? 4
                                                                  : 3,
                        .step = p->x->step,
                        .height = pair_squares(t->height),
                        .width = pair_squares(t->width),
                        .lower = tile_on_diagonal(&p->tiles, t)};
    for (int i = 0; i < out.count; i++) {
        out.left[i] = p->y->left[pairs[i][0]] + t->i0 / PAIR_SIDE * out.step;
        out.right[i] = p->x->right[pairs[i][1]] + t->j0 / PAIR_SIDE * out.step;
    }
    return out;
}

static void sum_tile(int64_t task, int64_t worker, float *sums, void *context)
{
    enum { CHUNK_SQUARES = CHUNK / PAIR_SIDE };
    (void)worker;
    const panel_product *p = context;
    const tile t = tiling_at(&p->tiles, task);
    const int64_t all = pair_squares(p->x->rows);
    pair_product part = product_of(p, &t);
    memset(sums, 0, (size_t)(part.height * PAIR_SIDE * TILE) * sizeof sums[0]);
    for (int64_t r = 0; r < all; r += CHUNK_SQUARES) {
        part.rows = smaller(CHUNK_SQUARES, all - r);
        pairs_multiply(&part, sums, TILE);
        for (int i = 0; i < part.count; i++) {
            part.left[i] += CHUNK_SQUARES * PAIR_SQUARE;
            part.right[i] += CHUNK_SQUARES * PAIR_SQUARE;
        }
    }
    tile_add(&p->tiles, &t, 0, t.height, sums, TILE, p->c);
}

static grail_status add_panel(bool lower, const parts *y, const parts *x, double *c)
{
    panel_product p = {.y = y, .x = x, .c = c};
    p.tiles = (tiling){lower, y->width, x->width, TILE, TILE};
    return tasks_run(tiling_count(&p.tiles), (size_t)TILE * TILE, sum_tile, &p);
}

static grail_status sum_gram(const operation *o, int count)
{
    grail_status status = GRAIL_OK;
    const matrix x = o->m[0];
    parts p = {0};
    TRY(parts_init(count, x.rows, x.columns, true, &p));
    for (int64_t first = 0; first < x.rows; first += PANEL) {
        order(host_row(x, first), x.stride, smaller(PANEL, x.rows - first), &p);
        TRY(add_panel(true, &p, &p, o->m[1].memory));
    }
out:
    parts_fini(&p);
    return status;
}

static grail_status sum_cross(const operation *o, int count)
{
    grail_status status = GRAIL_OK;
    const matrix y = o->m[0];
    const matrix x = o->m[1];
    parts left = {0};
    parts right = {0};
    TRY(parts_init(count, x.rows, y.columns, true, &left));
    TRY(parts_init(count, x.rows, x.columns, false, &right));
    for (int64_t first = 0; first < x.rows; first += PANEL) {
        const int64_t panel = smaller(PANEL, x.rows - first);
        order(host_row(y, first), y.stride, panel, &left);
        order(host_row(x, first), x.stride, panel, &right);
        TRY(add_panel(false, &left, &right, o->m[2].memory));
    }
out:
    parts_fini(&left);
    parts_fini(&right);
    return status;
}

grail_status cpu_split_gram(const operation *o)
{
    return sum_gram(o, 2);
}

grail_status cpu_split_cross(const operation *o)
{
    return sum_cross(o, 2);
}

grail_status cpu_rounded_gram(const operation *o)
{
    return sum_gram(o, 1);
}

grail_status cpu_rounded_cross(const operation *o)
{
    return sum_cross(o, 1);
}

/* Three products of bf16 pay where one of f32 takes longer, which it does beside tiles of AMX
 * alone. */
static bool split_pays(int64_t rows, matrix sums)
{
    enum { LEAST = 1 << 27 };
    return onednn_bf16_support() == BF16_TILES &&
           (double)rows * (double)sums.rows * (double)sums.columns > LEAST;
}

grail_status cpu_bf16_gram(const operation *o)
{
    return split_pays(o->m[0].rows, o->m[1]) ? cpu_split_gram(o) : cpu_gram(o);
}

grail_status cpu_bf16_cross(const operation *o)
{
    return split_pays(o->m[0].rows, o->m[2]) ? cpu_split_cross(o) : cpu_cross(o);
}
