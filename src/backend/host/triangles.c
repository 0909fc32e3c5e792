/* Triangles are copied tile by tile through a buffer, so that rows are read and written in runs of
 * a tile's width. Walking down a column would be slow where the row length is a power of two. */
#include "backend/host/host.h"

#include "base/parallel.h"

enum { TILE = 32 };

typedef struct triangle_copy {
    int64_t n, stride;
    double *a;
    bool to_upper;
} triangle_copy;

static int64_t tile_end(int64_t begin, int64_t n)
{
    return begin + TILE < n ? begin + TILE : n;
}

/* A[column tile, row tile] = A[row tile, column tile]^T for two different tiles. */
static void transpose_tile(const triangle_copy *copy, int64_t row, int64_t column)
{
    double tile[TILE][TILE];
    double *a = copy->a;
    const int64_t row_end = tile_end(row, copy->n);
    const int64_t column_end = tile_end(column, copy->n);
    for (int64_t i = row; i < row_end; i++) {
        for (int64_t j = column; j < column_end; j++) {
            tile[j - column][i - row] = a[i * copy->stride + j];
        }
    }
    for (int64_t j = column; j < column_end; j++) {
        for (int64_t i = row; i < row_end; i++) {
            a[j * copy->stride + i] = tile[j - column][i - row];
        }
    }
}

static void copy_diagonal_tile(const triangle_copy *copy, int64_t begin)
{
    const int64_t end = tile_end(begin, copy->n);
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = begin; j < i; j++) {
            double *lower = &copy->a[i * copy->stride + j];
            double *upper = &copy->a[j * copy->stride + i];
            if (copy->to_upper) {
                *upper = *lower;
            } else {
                *lower = *upper;
            }
        }
    }
}

static void copy_tile_rows(int64_t first, int64_t last, void *context)
{
    const triangle_copy *copy = context;
    for (int64_t t = first; t < last; t++) {
        const int64_t row = t * TILE;
        for (int64_t column = 0; column < row; column += TILE) {
            if (copy->to_upper) {
                transpose_tile(copy, row, column);
            } else {
                transpose_tile(copy, column, row);
            }
        }
        copy_diagonal_tile(copy, row);
    }
}

static grail_status fill_triangle(matrix a, bool upper)
{
    triangle_copy copy = {.n = a.rows, .stride = a.stride, .a = a.memory, .to_upper = upper};
    parallel_for((copy.n + TILE - 1) / TILE, 1, copy_tile_rows, &copy);
    return GRAIL_OK;
}

grail_status host_fill_upper(const operation *o)
{
    return fill_triangle(o->m[0], true);
}

grail_status host_fill_lower(const operation *o)
{
    return fill_triangle(o->m[0], false);
}
