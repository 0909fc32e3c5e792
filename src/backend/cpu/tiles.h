/* Cuts a matrix into tiles that threads take one by one. */
#ifndef GRAIL_BACKEND_CPU_TILES_H
#define GRAIL_BACKEND_CPU_TILES_H

#include "backend/matrix.h"

/** A tiling of [m, n]. A `lower` one (m = n, square tiles) has only the tiles on and below the
 * diagonal. */
typedef struct tiling {
    bool lower;
    int64_t m;
    int64_t n;
    int64_t tile_m;
    int64_t tile_n;
} tiling;

/** Rows i0 .. i0 + height - 1, columns j0 .. j0 + width - 1. */
typedef struct tile {
    int64_t i0;
    int64_t height;
    int64_t j0;
    int64_t width;
} tile;

/** Tiles of at most `largest` x `largest`, halved while there are too few to keep all threads busy
 * to the end, but not below a quarter of it. */
tiling tiling_new(bool lower, int64_t m, int64_t n, int64_t largest);

/** Number of tiles; 0 when m or n is 0. */
int64_t tiling_count(const tiling *t);

/** Tiles count from 0, row by row. */
tile tiling_at(const tiling *t, int64_t index);

/** Whether the tile of a lower tiling lies on the diagonal, so that its upper triangle is left
 * out. */
bool tile_on_diagonal(const tiling *t, const tile *one);

/** Adds rows begin .. end-1 of the tile, sums[height, .] with `stride` elements from row to row, to
 * the f64 matrix C; of a tile on the diagonal the lower triangle. */
void tile_add(const tiling *t, const tile *one, int64_t begin, int64_t end, const float *sums,
              int64_t stride, double *c);

/** A symmetric matrix or a triangle by halves, of which the first is a multiple of `step`:
 * [head; below, corner]. */
typedef struct halves {
    matrix head, below, corner;
} halves;
halves halves_of(matrix m, int64_t step);

#endif
