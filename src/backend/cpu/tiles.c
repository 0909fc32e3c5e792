#include "backend/cpu/tiles.h"

#include "backend/cpu/reductions.h"
#include "backend/host/host.h"

#include "base/parallel.h"

static int64_t pieces(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

int64_t tiling_count(const tiling *t)
{
    const int64_t down = pieces(t->m, t->tile_m);
    return t->lower ? down * (down + 1) / 2 : down * pieces(t->n, t->tile_n);
}

/* Tiles of one size instead of full ones and a remainder; a multiple of the width of vector
 * kernels. */
static int64_t even(int64_t count, int64_t size)
{
    enum { STEP = 48 };
    const int64_t fair = count > 0 ? pieces(pieces(count, pieces(count, size)), STEP) * STEP : size;
    return smaller(fair, size);
}

tiling tiling_new(bool lower, int64_t m, int64_t n, int64_t largest)
{
    enum { TILES_PER_THREAD = 2, SMALLEST_PART = 4 };
    tiling t = {lower, m, n, largest, largest};
    const int64_t threads = parallel_threads();
    const int64_t smallest = largest / SMALLEST_PART;
    while (threads > 1 && tiling_count(&t) < TILES_PER_THREAD * threads &&
           (smaller(m, t.tile_m) > smallest || smaller(n, t.tile_n) > smallest)) {
        /* Halves the side that is longer inside the matrix: a tile may be taller or wider than the
         * matrix. */
        if (t.lower) {
            t.tile_m /= 2;
            t.tile_n = t.tile_m;
        } else if (smaller(t.m, t.tile_m) >= smaller(t.n, t.tile_n)) {
            t.tile_m = smaller(t.m, t.tile_m) / 2;
        } else {
            t.tile_n = smaller(t.n, t.tile_n) / 2;
        }
    }
    t.tile_m = even(m, t.tile_m);
    t.tile_n = even(n, t.tile_n);
    return t;
}

tile tiling_at(const tiling *t, int64_t index)
{
    const int64_t across = pieces(t->n, t->tile_n);
    int64_t i = 0;
    int64_t j = index;
    while (j >= (t->lower ? i + 1 : across)) {
        j -= t->lower ? i + 1 : across;
        i++;
    }
    const int64_t i0 = i * t->tile_m;
    const int64_t j0 = j * t->tile_n;
    return (tile){i0, smaller(t->tile_m, t->m - i0), j0, smaller(t->tile_n, t->n - j0)};
}

void tile_add(const tiling *t, const tile *one, int64_t begin, int64_t end, const float *sums,
              int64_t stride, double *c)
{
    const bool diagonal = tile_on_diagonal(t, one);
    for (int64_t i = begin; i < end; i++) {
        accumulate_row(diagonal ? i + 1 : one->width, sums + i * stride,
                       c + (one->i0 + i) * t->n + one->j0);
    }
}

halves halves_of(matrix m, int64_t step)
{
    const int64_t half = pieces(m.rows / 2, step) * step;
    const matrix low = matrix_rows(m, half, m.rows - half);
    return (halves){.head = matrix_columns(matrix_rows(m, 0, half), 0, half),
                    .below = matrix_columns(low, 0, half),
                    .corner = matrix_columns(low, half, low.rows)};
}

bool tile_on_diagonal(const tiling *t, const tile *one)
{
    return t->lower && one->i0 == one->j0;
}
