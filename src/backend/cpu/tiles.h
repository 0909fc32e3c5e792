/* Cuts a matrix into tiles that threads take one by one. */
#ifndef GRAIL_BACKEND_CPU_TILES_H
#define GRAIL_BACKEND_CPU_TILES_H

#include <stdbool.h>
#include <stdint.h>

/** A cut of [m, n]; of the tiles of a `lower` one (m = n, square tiles) only those on and below the
 * diagonal exist. */
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

/** Zero when m or n is. */
int64_t tiling_count(const tiling *t);

/** Tiles count from 0, row by row. */
tile tiling_at(const tiling *t, int64_t index);

/** Whether the tile of a lower tiling has a triangle to leave out. */
bool tile_on_diagonal(const tiling *t, const tile *one);

#endif
