/* Attributes of operators that both the graph and the backends speak of. */
#ifndef GRAIL_GRAPH_OPERATOR_H
#define GRAIL_GRAPH_OPERATOR_H

typedef enum activation_kind {
    ACTIVATION_SILU,      /* x * sigmoid(x) */
    ACTIVATION_GELU,      /* x * Phi(x), erf */
    ACTIVATION_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    ACTIVATION_RELU
} activation_kind;

#endif
