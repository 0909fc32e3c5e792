/* Large products of f32 by the library whose kernels are faster on this processor. */
#ifndef GRAIL_BACKEND_CPU_F32_PRODUCT_H
#define GRAIL_BACKEND_CPU_F32_PRODUCT_H

#include <stdbool.h>
#include <stdint.h>

/** Results of fewer rows or columns are BLIS's; so many have the same bits in oneDNN in whatever
 * tiles they are made. */
enum { F32_LEAST_ROWS = 16, F32_LEAST_COLUMNS = 128 };

/** Both sum in f32 in orders of their own, so all tiles of a result are left to one of them. */
typedef enum f32_library { F32_BLIS, F32_ONEDNN } f32_library;
f32_library f32_library_for(int64_t rows, int64_t columns);

/** C[m, n] = op(A) op(B) + beta C on the calling thread; beta is 0, when C is not read, or 1. */
void f32_multiply(f32_library library, bool transpose_a, bool transpose_b, int64_t m, int64_t n,
                  int64_t k, const float *a, int64_t a_stride, const float *b, int64_t b_stride,
                  float beta, float *c, int64_t c_stride);

#endif
