/* Sums of products over rows, C[m, n] += Y^T X, with f64 totals: f32 products of panels of rows,
 * one tile of C at a time, are added into f64. A Gram is the case Y = X, where only the lower tiles
 * are formed. Nothing of the size of C is allocated. */
#include "backend/cpu/blas.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/panels.h"
#include "backend/cpu/tasks.h"
#include "backend/cpu/tiles.h"

#include "base/parallel.h"

#include <string.h>

/* PANEL rows are summed in f32. More rows would cost accuracy, fewer would spend a larger share
 * of the time on adding tiles into C. */
enum { TILE = 768, PANEL = 4096 };

enum { MOST_HEIGHT = 8, MOST_WIDTH = PANEL_VECTORS * PANEL_VECTOR }; /* of kernels */

typedef struct product {
    tiling tiles; /* of C; lower when y is x */
    matrix y, x, c;
} product;

/* sums[rows, columns] += part; both are of sides of at most a panel. */
static void add_panel(int64_t rows, int64_t columns, const float *part, float *sums)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            sums[i * TILE + j] += part[i * MOST_WIDTH + j];
        }
    }
}

/* As multiply_tile, some rows at a time that stay in the caches. The last rows and columns are
 * multiplied with some before them, since kernels have whole vectors; of a Gram matrix nothing far
 * above the diagonal is. */
static void multiply_panels(const panel_kernels *k, const product *p, const tile *t, int64_t first,
                            int64_t rows, float *sums)
{
    enum { ROWS = 256 };
    float part[MOST_HEIGHT * MOST_WIDTH];
    const bool lower = tile_on_diagonal(&p->tiles, t);
    memset(sums, 0, (size_t)(t->height * TILE) * sizeof *sums);
    for (int64_t row = first; row < first + rows; row += ROWS) {
        for (int64_t j = 0, panel = 0; j < t->width; j += panel) {
            const int64_t left = t->width - j;
            panel = left < PANEL_VECTOR ? left : smaller(k->width, left - left % PANEL_VECTOR);
            for (int64_t i = lower ? j : 0; i < t->height; i += k->rows) {
                const int64_t height = smaller(k->rows, t->height - i);
                const int64_t width = lower ? smaller(panel, i + height - j) : panel;
                const int64_t vectors = (width + PANEL_VECTOR - 1) / PANEL_VECTOR;
                const int64_t i0 = smaller(i, t->height - k->rows);
                const int64_t j0 = smaller(j, t->width - vectors * PANEL_VECTOR);
                const panel_operands o = {.k = smaller(ROWS, first + rows - row),
                                          .a = host_element(p->y, row, t->i0 + i0),
                                          .a_row = 1,
                                          .a_step = p->y.stride,
                                          .b = host_element(p->x, row, t->j0 + j0),
                                          .b_step = p->x.stride,
                                          .c = part,
                                          .c_step = MOST_WIDTH};
                k->of_vectors[vectors - 1](&o);
                add_panel(height, width, part + (i - i0) * MOST_WIDTH + j - j0,
                          sums + i * TILE + j);
            }
        }
    }
}

/* sums[height, TILE] = the tile of Y[first .. first + rows - 1]^T X[same] in f32. */
static void multiply_tile(const product *p, const tile *t, int64_t first, int64_t rows, float *sums)
{
    const panel_kernels *k = panel_kernels_suitable();
    const bool diagonal = tile_on_diagonal(&p->tiles, t);
    const int64_t side = t->height > t->width ? t->height : t->width;
    const float *x = host_element(p->x, first, t->j0);
    if (k != NULL && t->height >= k->rows && t->width >= PANEL_VECTOR &&
        side <= (diagonal ? k->gram : k->cross)) {
        multiply_panels(k, p, t, first, rows, sums);
    } else if (diagonal) {
        blas_ssyrk(t->width, rows, x, p->x.stride, sums, TILE);
    } else {
        blas_sgemm(true, false, t->height, t->width, rows, 1.0F, host_element(p->y, first, t->i0),
                   p->y.stride, x, p->x.stride, 0.0F, sums, TILE);
    }
}

static void sum_tile(int64_t task, int64_t worker, float *scratch, void *context)
{
    (void)worker;
    const product *p = context;
    const tile t = tiling_at(&p->tiles, task);
    for (int64_t first = 0; first < p->x.rows; first += PANEL) {
        multiply_tile(p, &t, first, smaller(PANEL, p->x.rows - first), scratch);
        tile_add(&p->tiles, &t, 0, t.height, scratch, TILE, p->c.memory);
    }
}

/* Where C is a single tile, threads share its rows: the parts of a batch are multiplied at once,
 * each into its own buffer, and then added in order, so the bits do not depend on the threads. */
enum { PART = 2048 };

typedef struct batch {
    const product *product;
    tile tile;
    int64_t first; /* row */
    int64_t parts; /* of PART rows, in this batch */
    float *sums;   /* [parts, height, TILE] */
} batch;

static float *part_sums(const batch *b, int64_t part)
{
    return b->sums + part * b->tile.height * TILE;
}

static void multiply_parts(int64_t begin, int64_t end, void *context)
{
    const batch *b = context;
    for (int64_t part = begin; part < end; part++) {
        const int64_t first = b->first + part * PART;
        multiply_tile(b->product, &b->tile, first, smaller(PART, b->product->x.rows - first),
                      part_sums(b, part));
    }
}

static void add_parts(int64_t begin, int64_t end, void *context)
{
    const batch *b = context;
    for (int64_t part = 0; part < b->parts; part++) {
        tile_add(&b->product->tiles, &b->tile, begin, end, part_sums(b, part), TILE,
                 b->product->c.memory);
    }
}

static grail_status sum_single_tile(const product *p)
{
    enum { ADD_ROWS = 32 };
    grail_status status = GRAIL_OK;
    batch b = {.product = p, .tile = tiling_at(&p->tiles, 0)};
    const int64_t at_once = smaller(parallel_threads(), (p->x.rows + PART - 1) / PART);
    TRY(memory_new_unset(&b.sums, (size_t)(at_once * b.tile.height * TILE), sizeof *b.sums));
    for (; b.first < p->x.rows; b.first += b.parts * PART) {
        b.parts = smaller(at_once, (p->x.rows - b.first + PART - 1) / PART);
        parallel_for(b.parts, 1, multiply_parts, &b);
        parallel_for(b.tile.height, ADD_ROWS, add_parts, &b);
    }

out:
    memory_free(b.sums);
    return status;
}

/* C += Y^T X */
static grail_status sum_products(matrix y, matrix x, bool lower, matrix c)
{
    product p = {.y = y, .x = x, .c = c};
    if (x.rows == 0 || matrix_count(c) == 0) {
        return GRAIL_OK;
    }
    if (c.rows <= TILE && c.columns <= TILE) {
        p.tiles = (tiling){lower, c.rows, c.columns, TILE, TILE};
        return sum_single_tile(&p);
    }
    p.tiles = tiling_new(lower, c.rows, c.columns, TILE);
    return tasks_run(tiling_count(&p.tiles), (size_t)TILE * TILE, sum_tile, &p);
}

grail_status cpu_gram(const operation *o)
{
    return sum_products(o->m[0], o->m[0], true, o->m[1]);
}

grail_status cpu_cross(const operation *o)
{
    return sum_products(o->m[0], o->m[1], false, o->m[2]);
}
