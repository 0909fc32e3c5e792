/* Products of a few rows and a panel of columns in f32, whose sums stay in the processor's
 * registers, on operands as they lie: for products so small that BLIS would spend its time on
 * ordering operands. */
#ifndef GRAIL_BACKEND_CPU_PANELS_H
#define GRAIL_BACKEND_CPU_PANELS_H

#include <stdint.h>

enum { PANEL_VECTOR = 16, PANEL_VECTORS = 4 };

/* C[rows, width] = A[rows, k] B[k, width], C's rows c_step apart. Element (i, p) of A lies at
 * a[i * a_row + p * a_step], row p of B at b + p * b_step. Every sum runs over p in order, with
 * fused operations, so that its bits depend on nothing else. */
typedef struct panel_operands {
    int64_t k;
    const float *a;
    int64_t a_row, a_step;
    const float *b;
    int64_t b_step;
    float *c;
    int64_t c_step;
} panel_operands;

typedef void (*panel_kernel)(const panel_operands *o);

/* The rows that a kernel multiplies; the widest panel; the features up to which Gram matrices, and
 * cross products, are formed faster than by BLIS (docs/results/speed.md); and the kernels of
 * PANEL_VECTOR columns, of twice as many, ... */
typedef struct panel_kernels {
    int64_t rows, width, gram, cross;
    panel_kernel of_vectors[PANEL_VECTORS];
} panel_kernels;

/** Those that suit the kernels of BLIS; NULL where there are none. */
const panel_kernels *panel_kernels_suitable(void);

#endif
