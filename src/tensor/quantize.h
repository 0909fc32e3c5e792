/* Rounding to types that store elements in blocks. Without calibration the bits are those of ggml's
 * reference quantisers (quantize_row_*_ref of src/ggml-quants.c), which llama.cpp uses where it has
 * no importance matrix. */
#ifndef GRAIL_TENSOR_QUANTIZE_H
#define GRAIL_TENSOR_QUANTIZE_H

#include "tensor/blocks.h"

/** Whether values can be rounded to it: Q4_0, Q5_0, Q8_0, Q4_K, Q6_K, and groups of integers. */
bool dtype_is_quantiser(grail_dtype dtype);

/** out <- so many blocks of finite values. Values so large that a factor of a block would be
 * infinite are GRAIL_ERROR_NUMERIC, and the message names the index of the block's first value. */
grail_status blocks_from_f32(grail_dtype dtype, const float *values, int64_t blocks,
                             void *out) GRAIL_MUST_CHECK;

/** Writes one block of finite values, whose codes are chosen later: its factors are such that sum_j
 * weights[j] (values[j] - r_j)^2 is small, r_j the nearest number to values[j]; never larger than
 * with the factors of blocks_from_f32. Weights are positive. GRAIL_ERROR_NUMERIC likewise. */
grail_status block_fit_factors(grail_dtype dtype, const float *values, const float *weights,
                               void *block) GRAIL_MUST_CHECK;

/** The numbers that the elements of one block can be once its factors are chosen: element j is
 * step[j] * q + least[j], q from 0 to `most`. */
typedef struct block_grid {
    float step[LARGEST_BLOCK], least[LARGEST_BLOCK];
    int most;
} block_grid;

void block_read_grid(grail_dtype dtype, const void *block, block_grid *out);
/** The q whose number is nearest; 0 where all are the same. */
int block_nearest(const block_grid *g, int j, float value);
/** Makes q the code of element j. */
void block_put(grail_dtype dtype, void *block, int j, int q);

#endif
