/* What the conformance tests of the backends share: an instance of every backend, inputs that are
 * exact in every type of values, outputs that start as NaN and are followed by a guard, and the
 * tolerance of a backend. */
#ifndef GRAIL_TESTS_CONFORMANCE_H
#define GRAIL_TESTS_CONFORMANCE_H

#include "backend/operations.h"
#include "support/support.h"

#include <math.h>

/** Runs the body for an instance `b` of every backend, the guarded one included. A matrix that
 * still exists at the end of the body fails the test. */
#define FOR_EACH_BACKEND(b) for (backend *b = backend_first(); b != NULL; b = backend_after(b))
/** A test of each backend `b`. */
#define BACKEND_TEST(name)                                                                         \
    static void name##_on(backend *b);                                                             \
    TEST(name)                                                                                     \
    {                                                                                              \
        FOR_EACH_BACKEND(b)                                                                        \
        {                                                                                          \
            name##_on(b);                                                                          \
        }                                                                                          \
    }                                                                                              \
    static void name##_on(backend *b)

/** A new instance of the first backend, with the caller's threads. */
backend *backend_first(void);
/** Closes `b` and gives a new instance of the next backend, or NULL. */
backend *backend_after(backend *b);

/** Whether a library of its own gives it memory, in which no failing allocation can be asked for.
 */
bool has_foreign_memory(const backend *b);

/** Relative rounding of one element: 2^-24 or 2^-53. */
double rounding_of(grail_dtype type);
/** That of a backend's values. */
double rounding(const backend *b);

/** The unit roundoff of the operands of products: 2^-8 in bf16, 0 where they are taken as they are.
 */
double unit_of_operands(const backend *b);
/** The relative error that a sum of `terms` products may have, against the sum of their sizes:
 * those of bf16 operands have 2 u + u^2, u = 2^-8, and terms 2^-24 of the sums. */
double rounding_of_products(const backend *b, int64_t terms);

/** A value as the products of a backend take it: rounded to bf16 where they do that. */
double as_operand(const backend *b, float value);
/** A value as the statistics of a backend take it: rounded to bf16 where they do that, too. */
float as_summed(const backend *b, float value);

/** A finite value near the largest that matrices of a backend's values hold. */
float largest_value(const backend *b);
/** A value as matrices of a backend's values hold it, which may have 16 bits. */
float held(const backend *b, float value);

/** `count` normals in f32, with the given standard deviation, and exact in the type of values of
 * the backend that was opened last where that has 16 bits; freed by memory_free, as all below. */
float *normals(int64_t count, uint64_t seed, double deviation);
/** The same normals of deviation 1 as f64. */
double *normal_doubles(int64_t count, uint64_t seed);
/** `count` doubles of the same value. */
double *doubles(int64_t count, double value);
double *copy_of_doubles(int64_t count, const double *values);

/* Matrices with a guard behind their last element. matrix_free. */

/** The values, rounded to the type. */
matrix matrix_of(backend *b, grail_dtype type, int64_t rows, int64_t columns, const double *values);
/** The f32 values in the backend's precision. */
matrix values_of(backend *b, int64_t rows, int64_t columns, const float *values);
/** The f32 values as a row of parameters that are trained, or of their gradients. */
matrix parameters_of(backend *b, int64_t columns, const float *values);
/** NaN everywhere. */
matrix blank_of(backend *b, grail_dtype type, int64_t rows, int64_t columns);
matrix blank_values(backend *b, int64_t rows, int64_t columns);

/** The elements as f64, row after row. Fails the test when the guard behind a matrix from above was
 * written; views of it have none. */
double *results_of(matrix m);

/** Frees a list of blocks, or of addresses of matrices. */
#define free_blocks(...)                                                                           \
    free_block_list((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
#define free_matrices(...)                                                                         \
    free_matrix_list((matrix *[]){__VA_ARGS__},                                                    \
                     sizeof((matrix *[]){__VA_ARGS__}) / sizeof(matrix *))
void free_block_list(void *const blocks[], size_t count);
void free_matrix_list(matrix *const matrices[], size_t count);

/** |actual[i] - expected[i]| <= tolerance * scale[i] for all i, and the last place of numbers that
 * vanish in f16; scale may be NULL for 1. NaN fails unless expected. Names the backend, `what` and
 * the index. */
void assert_all_near(const backend *b, const char *what, int64_t count, const double *actual,
                     const double *expected, const double *scale, double tolerance);

/** The elements of `m` are near those expected, with a scale of 1; the guard is untouched. */
void assert_matrix_near(const char *what, matrix m, const double *expected, double tolerance);

/** Root of the sum of the squares of a[0 .. count-1]. */
double norm_of(int64_t count, const double *a);

#endif
