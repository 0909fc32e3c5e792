/* Attributes of operators that both the graph and the backends use. */
#ifndef GRAIL_GRAPH_OPERATOR_H
#define GRAIL_GRAPH_OPERATOR_H

#include <stdint.h>

typedef enum activation_kind {
    ACTIVATION_SILU,      /* x * sigmoid(x) */
    ACTIVATION_GELU,      /* x * Phi(x), erf */
    ACTIVATION_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    ACTIVATION_RELU,
    ACTIVATION_QUICK_GELU /* x * sigmoid(1.702 x) */
} activation_kind;

/** Positions of one sample: an image's height and width, or a sequence's length and 1. */
typedef struct extent {
    int64_t height, width;
} extent;

/** A window that moves over positions. Kernel positions (taps) outside the input count as zero, or
 * as -infinity for a maximum. Output positions: (in + 2 padding - dilation (kernel - 1) - 1) /
 * stride + 1. */
typedef struct window2d {
    int64_t kernel_height, kernel_width;
    int64_t stride, padding, dilation;
} window2d;

#endif
