/* Triangles are copied tile by tile through a buffer, so that rows are read and written in runs of
 * a tile's width. Walking down a column would be slow where the row length is a power of two. */
#include "stats/sums.h"

#include "base/parallel.h"

#include <math.h>
#include <stdbool.h>

enum { TILE = 32 };

typedef struct triangle_copy {
    int64_t n;
    double *a;
    bool to_upper;
} triangle_copy;

int64_t sums_find_non_finite(int64_t count, const double *values)
{
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return i;
        }
    }
    return -1;
}

void sums_add(int64_t count, double *into, const double *values)
{
    for (int64_t i = 0; i < count; i++) {
        into[i] += values[i];
    }
}

int64_t symmetric_find_non_finite(int64_t n, const double *a)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t j = sums_find_non_finite(i + 1, a + i * n);
        if (j >= 0) {
            return i * n + j;
        }
    }
    return -1;
}

void symmetric_add_lower(int64_t n, double *into, const double *a)
{
    for (int64_t i = 0; i < n; i++) {
        sums_add(i + 1, into + i * n, a + i * n);
    }
}

static int64_t tile_end(int64_t begin, int64_t n)
{
    return begin + TILE < n ? begin + TILE : n;
}

/* A[column tile, row tile] = A[row tile, column tile]^T for two different tiles. */
static void transpose_tile(int64_t n, double *a, int64_t row, int64_t column)
{
    double tile[TILE][TILE];
    const int64_t row_end = tile_end(row, n);
    const int64_t column_end = tile_end(column, n);
    for (int64_t i = row; i < row_end; i++) {
        for (int64_t j = column; j < column_end; j++) {
            tile[j - column][i - row] = a[i * n + j];
        }
    }
    for (int64_t j = column; j < column_end; j++) {
        for (int64_t i = row; i < row_end; i++) {
            a[j * n + i] = tile[j - column][i - row];
        }
    }
}

static void copy_diagonal_tile(const triangle_copy *copy, int64_t begin)
{
    const int64_t n = copy->n;
    const int64_t end = tile_end(begin, n);
    for (int64_t i = begin; i < end; i++) {
        for (int64_t j = begin; j < i; j++) {
            double *lower = &copy->a[i * n + j];
            double *upper = &copy->a[j * n + i];
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
                transpose_tile(copy->n, copy->a, row, column);
            } else {
                transpose_tile(copy->n, copy->a, column, row);
            }
        }
        copy_diagonal_tile(copy, row);
    }
}

static void copy_triangle(triangle_copy copy)
{
    parallel_for((copy.n + TILE - 1) / TILE, 1, copy_tile_rows, &copy);
}

void symmetric_fill_upper(int64_t n, double *a)
{
    copy_triangle((triangle_copy){.n = n, .a = a, .to_upper = true});
}

void symmetric_fill_lower(int64_t n, double *a)
{
    copy_triangle((triangle_copy){.n = n, .a = a, .to_upper = false});
}
