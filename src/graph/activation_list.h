/* Functions of single elements, a row each: ACTIVATION(KIND, name). A backend has the value and the
 * slope of each in one file, activations.c. Whoever includes this list defines ACTIVATION. */

ACTIVATION(SILU, silu)                 /* x sigmoid(x) */
ACTIVATION(GELU, gelu)                 /* x Phi(x), erf */
ACTIVATION(GELU_TANH, gelu_tanh)       /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
ACTIVATION(RELU, relu)                 /* max(x, 0) */
ACTIVATION(QUICK_GELU, quick_gelu)     /* x sigmoid(1.702 x) */
ACTIVATION(RELU6, relu6)               /* min(max(x, 0), 6) */
ACTIVATION(SIGMOID, sigmoid)           /* 1 / (1 + exp(-x)) */
ACTIVATION(HARD_SIGMOID, hard_sigmoid) /* min(max(x + 3, 0), 6) / 6 */
ACTIVATION(TANH, tanh)
ACTIVATION(ERF, erf)
ACTIVATION(ELU, elu)           /* x, exp(x) - 1 below 0 */
ACTIVATION(SOFTPLUS, softplus) /* log(1 + exp(x)) */
