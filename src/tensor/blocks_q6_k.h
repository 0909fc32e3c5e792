/* Blocks of Q6_K: 256 elements d scale (q - 32), q from 0 to 63, a scale of 8 bits for each 16. */
#ifndef GRAIL_TENSOR_BLOCKS_Q6_K_H
#define GRAIL_TENSOR_BLOCKS_Q6_K_H

#include "tensor/quantize.h"

enum { Q6_K_BYTES = 210 };

/** Writes a block whose squared error with these weights is small; for NULL with the squares of the
 * values, as ggml's reference quantiser. */
void q6_k_write(const float *values, const float *weights, unsigned char *block);
void q6_k_read_grid(const unsigned char *block, block_grid *out);
void q6_k_put(unsigned char *block, int j, int q);

#endif
