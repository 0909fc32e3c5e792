/* Sums of products over rows, C[m, n] += Y^T X, with f64 totals: f32 products of panels of rows,
 * one tile of C at a time, are added into f64. A Gram is the case Y = X of which only the lower
 * tiles are formed. Nothing of the size of C is allocated. */
#include "backend/cpu/blas.h"
#include "backend/cpu/clones.h"
#include "backend/cpu/cpu.h"
#include "backend/cpu/tasks.h"

#include "base/parallel.h"

/* PANEL rows are summed in f32. More rows would cost accuracy, fewer would spend a larger share
 * of the time on adding tiles into C. */
enum { TILE = 768, PANEL = 4096 };

typedef struct product {
    bool symmetric; /* y is x, and only C's lower triangle is wanted */
    int64_t rows;
    int64_t m;
    int64_t n;
    const float *y;
    int64_t y_stride;
    const float *x;
    int64_t x_stride;
    double *c;
} product;

/* Rows i0 .. i0 + height - 1 and columns j0 .. j0 + width - 1 of C. */
typedef struct tile {
    int64_t i0;
    int64_t height;
    int64_t j0;
    int64_t width;
} tile;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t pieces(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static int64_t tile_count(const product *p)
{
    const int64_t down = pieces(p->m, TILE);
    return p->symmetric ? down * (down + 1) / 2 : down * pieces(p->n, TILE);
}

/* Row by row; row i of a symmetric C has i + 1 tiles. */
static tile tile_at(const product *p, int64_t index)
{
    const int64_t across = pieces(p->n, TILE);
    int64_t i = 0;
    int64_t j = index;
    while (j >= (p->symmetric ? i + 1 : across)) {
        j -= p->symmetric ? i + 1 : across;
        i++;
    }
    return (tile){i * TILE, smaller(TILE, p->m - i * TILE), j * TILE,
                  smaller(TILE, p->n - j * TILE)};
}

static bool on_diagonal(const product *p, const tile *t)
{
    return p->symmetric && t->i0 == t->j0;
}

/* sums[height, TILE] = the tile of Y[first .. first + rows - 1]^T X[same], f32, one thread. */
static void multiply_tile(const product *p, const tile *t, int64_t first, int64_t rows, float *sums)
{
    const float *x = p->x + first * p->x_stride + t->j0;
    const float *y = p->y + first * p->y_stride + t->i0;
    if (on_diagonal(p, t)) {
        blas_ssyrk(1, t->width, rows, x, p->x_stride, sums, TILE);
    } else {
        blas_sgemm(1, true, false, t->height, t->width, rows, 1.0F, y, p->y_stride, x, p->x_stride,
                   0.0F, sums, TILE);
    }
}

/* Adds rows begin .. end-1 of the tile to C. */
CPU_CLONES static void add_tile(const product *p, const tile *t, int64_t begin, int64_t end,
                                const float *sums)
{
    for (int64_t i = begin; i < end; i++) {
        const int64_t width = on_diagonal(p, t) ? i + 1 : t->width;
        const float *from = sums + i * TILE;
        double *to = p->c + (t->i0 + i) * p->n + t->j0;
        for (int64_t j = 0; j < width; j++) {
            to[j] += (double)from[j];
        }
    }
}

static void sum_tile(int64_t task, float *scratch, void *context)
{
    const product *p = context;
    const tile t = tile_at(p, task);
    for (int64_t first = 0; first < p->rows; first += PANEL) {
        multiply_tile(p, &t, first, smaller(PANEL, p->rows - first), scratch);
        add_tile(p, &t, 0, t.height, scratch);
    }
}

/* A single tile leaves only the rows to share out: a batch of panels is multiplied at once, each
 * into its own buffer, then added in order, so the bits do not depend on the threads. */
typedef struct batch {
    const product *product;
    tile tile;
    int64_t panel_rows;
    int64_t first;  /* row */
    int64_t panels; /* in this batch */
    float *sums;    /* [panels, height, TILE] */
} batch;

static float *panel_sums(const batch *b, int64_t panel)
{
    return b->sums + panel * b->tile.height * TILE;
}

static void multiply_panels(int64_t begin, int64_t end, void *context)
{
    const batch *b = context;
    for (int64_t panel = begin; panel < end; panel++) {
        const int64_t first = b->first + panel * b->panel_rows;
        multiply_tile(b->product, &b->tile, first, smaller(b->panel_rows, b->product->rows - first),
                      panel_sums(b, panel));
    }
}

static void add_panels(int64_t begin, int64_t end, void *context)
{
    const batch *b = context;
    for (int64_t panel = 0; panel < b->panels; panel++) {
        add_tile(b->product, &b->tile, begin, end, panel_sums(b, panel));
    }
}

static grail_status sum_single_tile(const product *p)
{
    enum { PANELS = 2048, ADD_ROWS = 32 };
    grail_status status = GRAIL_OK;
    batch b = {.product = p, .tile = tile_at(p, 0), .panel_rows = PANELS};
    const int64_t at_once = smaller(parallel_threads(), pieces(p->rows, PANELS));
    TRY(memory_new_unset(&b.sums, (size_t)(at_once * b.tile.height * TILE), sizeof *b.sums));
    for (; b.first < p->rows; b.first += b.panels * PANELS) {
        b.panels = smaller(at_once, pieces(p->rows - b.first, PANELS));
        parallel_for(b.panels, 1, multiply_panels, &b);
        parallel_for(b.tile.height, ADD_ROWS, add_panels, &b);
    }

out:
    memory_free(b.sums);
    return status;
}

static grail_status sum_products(product *p)
{
    if (p->rows == 0 || p->m == 0 || p->n == 0) {
        return GRAIL_OK;
    }
    if (tile_count(p) == 1) {
        return sum_single_tile(p);
    }
    return tasks_run(tile_count(p), (size_t)TILE * TILE, sum_tile, p);
}

grail_status cpu_gram(int64_t rows, int64_t width, const void *x, int64_t stride, double *g)
{
    product p = {true, rows, width, width, x, stride, x, stride, g};
    return sum_products(&p);
}

grail_status cpu_cross(int64_t rows, int64_t m, const void *y, int64_t y_stride, int64_t n,
                       const void *x, int64_t x_stride, double *c)
{
    product p = {false, rows, m, n, y, y_stride, x, x_stride, c};
    return sum_products(&p);
}
