/* Products of bf16 with f32 sums, C += Y^T X, whose operands lie in squares of SIDE x SIDE values
 * in the order that matrix units read.
 *
 * A word holds two values of one column, those of rows 2q and 2q + 1. A square has two halves of 16
 * columns, each 16 x 16 words: on the right [q, column], on the left [column, q]. What lies outside
 * of a matrix is 0 there. Squares follow each other down the rows, and then by columns. */
#ifndef GRAIL_BACKEND_CPU_PAIRS_H
#define GRAIL_BACKEND_CPU_PAIRS_H

#include "backend/matrix.h"

enum { PAIR_SIDE = 32, PAIR_SQUARE = PAIR_SIDE * PAIR_SIDE / 2 }; /* words of a square */

/** Squares along so many rows or columns. */
int64_t pair_squares(int64_t count);

/** A square of values of two parts: high[.] those that are rounded to bf16, low[.] what is left of
 * them, rounded; without low[.] (NULL) the first alone. x has rows, columns <= SIDE. Each is there
 * for the right and for the left. */
typedef struct pair_places {
    uint32_t *right[2], *left[2]; /* high, low */
} pair_places;
void pairs_order(const float *x, int64_t stride, int64_t rows, int64_t columns,
                 const pair_places *to);

/** Squares on the right of x[rows, columns], rows <= SIDE, whose sums run down its rows, `step`
 * words apart along its columns; rows are read by twos, one after the other. `low`, which may be
 * NULL, gets what is left of the rounded values, rounded. */
void pairs_order_columns(const float *x, int64_t stride, int64_t rows, int64_t columns,
                         int64_t step, uint32_t *right, uint32_t *low);

/** Squares on the left whose sums run along the rows of x[rows, columns], rows <= SIDE, one after
 * the other along its columns: then a word holds two neighbours of a row. `low`, which may be NULL,
 * gets what is left of the rounded values, rounded. */
void pairs_order_rows(const float *x, int64_t stride, int64_t rows, int64_t columns, uint32_t *left,
                      uint32_t *low);

/** A square of the left as one of the right, and back. */
void pairs_turn(const uint32_t *from, uint32_t *to);

/** The rows of a square of the left, by pairs of rows in one of the right: sums run down them. */
void pairs_join_rows(const uint32_t *left, uint32_t *right);

/** A product of parts: squares of the left and of the right. */
enum { PAIR_PRODUCTS = 4 };
typedef struct pair_product {
    int count; /* parts that are multiplied, whose products are added */
    const uint32_t *left[PAIR_PRODUCTS], *right[PAIR_PRODUCTS];
    int64_t step;          /* words from a column of squares to the next, on both sides */
    int64_t rows;          /* squares that are summed over */
    int64_t height, width; /* squares of C */
    bool lower;            /* those above the diagonal are left out */
    bool sets;             /* C is not read */
    const float *start;    /* what every row of C then begins with, [width SIDE]; NULL: zeros */
} pair_product;

/** C[height SIDE, width SIDE] += (or =) the product, on the calling thread. Every element is a sum
 * in one order, whatever is beside it. */
void pairs_multiply(const pair_product *p, float *c, int64_t stride);

/** The same on a unit that is named, for tests: whether the processor has it. */
typedef enum pair_unit { PAIR_PLAIN, PAIR_VECTORS, PAIR_TILES, PAIR_UNITS } pair_unit;
bool pairs_has(pair_unit unit);
bool pairs_multiply_on(pair_unit unit, const pair_product *p, float *c, int64_t stride);

#endif
