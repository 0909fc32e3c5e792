/* How products in f32 order their operands: in panels of a few rows (or columns), element after
 * element, as the kernels read them. BLIS 0.9 has no code of its own for the panels of 32 of its
 * AVX-512 kernels, and moves their elements one by one. */
#ifndef GRAIL_BACKEND_CPU_PACKING_H
#define GRAIL_BACKEND_CPU_PACKING_H

#include <stdbool.h>
#include <stdint.h>

/* One panel. Element (i, k), i < rows, k < length, lies at from[i * row_step + k * step] and goes
 * to into[k * height + i]; the rest of into[full_length, height] becomes 0. */
typedef struct packing {
    int64_t rows, height;
    int64_t length, full_length;
    int64_t row_step, step;
} packing;

/** False, and nothing is done, where this processor or these steps have no fast way. */
bool pack_f32(const packing *p, const float *from, float *into);

#endif
