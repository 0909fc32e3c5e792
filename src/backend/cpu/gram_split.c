/* Sums of products over rows, C[m, n] += Y^T X, on units that multiply bf16. Every value is the sum
 * of two of bf16, x = high + low with a rest of at most 2^-16 |x|, and of the four products of the
 * parts all but low low are formed; that one, too, in tiles on the diagonal of a Gram, where on the
 * diagonal it has a sign. Rounded sums have the high parts alone: they are those of rounded values.
 * A Gram is the case Y = X, of which only the lower tiles are formed. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/rounding.h"
#include "backend/cpu/tiles.h"
#include "base/clones.h"

#include "base/parallel.h"

/* A kernel adds up the rows of a chunk one after the other, which must not be many: sums of
 * positive terms lose bits that way. Chunks are added in f32 and panels in f64. */
enum { TILE = 1024, CHUNK = 256, PANEL = 2048 };

/* A panel of rows as parts, in chunks behind each other. In each, columns come in groups of TILE,
 * each stored on its own: as factors on the right, [rows, columns of the group], and on the left,
 * transposed. */
typedef struct parts {
    int count; /* 2, or 1 for rounded values */
    const float *values;
    int64_t stride, rows, width; /* of the panel */
    uint16_t *right[2];          /* high, low; owned */
    uint16_t *left[2];
} parts;

static void parts_fini(parts *p)
{
    for (int i = 0; i < 2; i++) {
        memory_free(p->right[i]);
        memory_free(p->left[i]);
    }
}

static grail_status parts_init(int count, int64_t rows, int64_t width, parts *p)
{
    const size_t values = (size_t)((rows < PANEL ? rows : PANEL) * width);
    *p = (parts){.count = count, .width = width};
    for (int i = 0; i < count; i++) {
        CHECK(memory_new_unset(&p->right[i], values, sizeof *p->right[i]));
        CHECK(memory_new_unset(&p->left[i], values, sizeof *p->left[i]));
    }
    return GRAIL_OK;
}

CPU_CLONES static void round_row(int64_t count, const float *x, uint16_t *high)
{
    for (int64_t i = 0; i < count; i++) {
        high[i] = bf16_rounded(x[i]);
    }
}

CPU_CLONES static void split_row(int64_t count, const float *x, uint16_t *high, uint16_t *low)
{
    for (int64_t i = 0; i < count; i++) {
        high[i] = bf16_rounded(x[i]);
        low[i] = bf16_rounded(x[i] - bf16_widened(high[i]));
    }
}

/* out[c, r] = in[r, c] for some rows. */
static void transpose(int64_t first, int64_t end, int64_t columns, int64_t rows, const uint16_t *in,
                      uint16_t *out)
{
    enum { BLOCK = 32 };
    for (int64_t c0 = 0; c0 < columns; c0 += BLOCK) {
        const int64_t c1 = smaller(c0 + BLOCK, columns);
        for (int64_t r = first; r < end; r++) {
            for (int64_t c = c0; c < c1; c++) {
                out[c * rows + r] = in[r * columns + c];
            }
        }
    }
}

static int64_t chunks_of(const parts *p)
{
    return (p->rows + CHUNK - 1) / CHUNK;
}

static int64_t chunk_rows(const parts *p, int64_t chunk)
{
    return smaller(CHUNK, p->rows - chunk * CHUNK);
}

/* The place of a group of columns of a chunk, in elements. */
static int64_t place_of(const parts *p, int64_t chunk, int64_t column)
{
    return chunk * CHUNK * p->width + chunk_rows(p, chunk) * column;
}

enum { STRIP = 32 }; /* rows that a thread splits at once */

static void split_strip(const parts *p, int64_t strip)
{
    const int64_t chunk = strip * STRIP / CHUNK;
    const int64_t rows = chunk_rows(p, chunk);
    const int64_t first = strip * STRIP - chunk * CHUNK;
    const int64_t end = smaller(first + STRIP, rows);
    const float *from = p->values + chunk * CHUNK * p->stride;
    for (int64_t j0 = 0; j0 < p->width; j0 += TILE) {
        const int64_t columns = smaller(TILE, p->width - j0);
        const int64_t group = place_of(p, chunk, j0);
        for (int64_t r = first; r < end; r++) {
            const float *row = from + r * p->stride + j0;
            uint16_t *high = p->right[0] + group + r * columns;
            if (p->count == 1) {
                round_row(columns, row, high);
            } else {
                split_row(columns, row, high, p->right[1] + group + r * columns);
            }
        }
        for (int i = 0; i < p->count; i++) {
            transpose(first, end, columns, rows, p->right[i] + group, p->left[i] + group);
        }
    }
}

static void split_strips(int64_t begin, int64_t end, void *context)
{
    for (int64_t strip = begin; strip < end; strip++) {
        split_strip(context, strip);
    }
}

static void split(const float *values, int64_t stride, int64_t rows, parts *p)
{
    p->values = values;
    p->stride = stride;
    p->rows = rows;
    parallel_for((rows + STRIP - 1) / STRIP, 1, split_strips, p);
}

/* sums[height, width] = the tile of Y^T X over the panel. */
static grail_status multiply_parts(const parts *y, const parts *x, const tile *t, bool with_lows,
                                   float *sums)
{
    static const int pairs[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}}; /* left, right */
    const int products = x->count == 1 ? 1 : with_lows ? 4 : 3;
    for (int64_t chunk = 0; chunk < chunks_of(x); chunk++) {
        for (int i = 0; i < products; i++) {
            CHECK(onednn_multiply(t->height, t->width, chunk_rows(x, chunk),
                                  y->left[pairs[i][0]] + place_of(y, chunk, t->i0),
                                  x->right[pairs[i][1]] + place_of(x, chunk, t->j0),
                                  chunk > 0 || i > 0, sums));
        }
    }
    return GRAIL_OK;
}

typedef struct addition {
    const tiling *tiles;
    const tile *tile;
    const float *sums;
    double *c;
} addition;

static void add_rows(int64_t begin, int64_t end, void *context)
{
    const addition *a = context;
    tile_add(a->tiles, a->tile, begin, end, a->sums, a->tile->width, a->c);
}

static grail_status add_panel(const tiling *tiles, const parts *y, const parts *x, float *sums,
                              double *c)
{
    enum { ROWS = 32 };
    for (int64_t i = 0; i < tiling_count(tiles); i++) {
        const tile t = tiling_at(tiles, i);
        CHECK(multiply_parts(y, x, &t, tile_on_diagonal(tiles, &t), sums));
        addition a = {tiles, &t, sums, c};
        parallel_for(t.height, ROWS, add_rows, &a);
    }
    return GRAIL_OK;
}

static grail_status sum_gram(const operation *o, int count)
{
    grail_status status = GRAIL_OK;
    const matrix x = o->m[0];
    const tiling tiles = {true, x.columns, x.columns, TILE, TILE};
    parts p = {0};
    float *sums = NULL;
    TRY(parts_init(count, x.rows, x.columns, &p));
    TRY(memory_new_unset(&sums, (size_t)TILE * TILE, sizeof sums[0]));
    for (int64_t first = 0; first < x.rows; first += PANEL) {
        split(host_row(x, first), x.stride, smaller(PANEL, x.rows - first), &p);
        TRY(add_panel(&tiles, &p, &p, sums, o->m[1].memory));
    }
out:
    parts_fini(&p);
    memory_free(sums);
    return status;
}

static grail_status sum_cross(const operation *o, int count)
{
    grail_status status = GRAIL_OK;
    const matrix y = o->m[0];
    const matrix x = o->m[1];
    const tiling tiles = {false, y.columns, x.columns, TILE, TILE};
    parts left = {0};
    parts right = {0};
    float *sums = NULL;
    TRY(parts_init(count, x.rows, y.columns, &left));
    TRY(parts_init(count, x.rows, x.columns, &right));
    TRY(memory_new_unset(&sums, (size_t)TILE * TILE, sizeof sums[0]));
    for (int64_t first = 0; first < x.rows; first += PANEL) {
        const int64_t panel = smaller(PANEL, x.rows - first);
        split(host_row(y, first), y.stride, panel, &left);
        split(host_row(x, first), x.stride, panel, &right);
        TRY(add_panel(&tiles, &left, &right, sums, o->m[2].memory));
    }
out:
    parts_fini(&left);
    parts_fini(&right);
    memory_free(sums);
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
