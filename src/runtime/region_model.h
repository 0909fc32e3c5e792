/* Nodes of an ONNX model as a model of their own. */
#ifndef GRAIL_RUNTIME_REGION_MODEL_H
#define GRAIL_RUNTIME_REGION_MODEL_H

#include "format/onnx/onnx_file.h"

enum { REGION_MOST_NUMBERS = 8 };

/** A value that such a model reads. */
typedef struct region_value {
    int64_t value; /* of the file */
    int rank;      /* 2: [samples, channels]; 3 with one dimension of positions, 4 with two;
                      REGION_IDS: an input of the network, [samples, positions] or [samples] of
                      the type that the file declares */
    int64_t width; /* channels; of such an input values for each position */
    int channels;  /* which dimension they are: 1, or the last one, behind the positions */
    bool is_half;  /* it is of FLOAT16 */
} region_value;

/** Integers in place of what computes a value of the file. */
typedef struct region_numbers {
    int64_t value;
    int rank, count; /* rank 0 or 1 */
    int64_t items[REGION_MOST_NUMBERS];
} region_numbers;

enum { REGION_IDS = 1, REGION_FLAT, REGION_TOKENS, REGION_IMAGE };

/** Bytes of an element of a type that such integers, or a mask, may have. */
size_t region_element_bytes(int element);

/** Appends the model to *out: nodes of the file, in its order, and the constants that they read,
 * with those that `numbers` are.
 * Values that lie in another file, and operators that draw random numbers, are
 * GRAIL_ERROR_UNSUPPORTED. */
grail_status region_model_put(const onnx_file *file, int64_t node_count, const int64_t nodes[],
                              int64_t number_count, const region_numbers numbers[], int input_count,
                              const region_value inputs[], int64_t output_count,
                              const int64_t outputs[], buffer *out) GRAIL_MUST_CHECK;

#endif
