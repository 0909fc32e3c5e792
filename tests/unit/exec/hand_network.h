/* Small vision networks by hand, with random parameters in a store and no checkpoint behind them.
 */
#ifndef GRAIL_TESTS_EXEC_HAND_NETWORK_H
#define GRAIL_TESTS_EXEC_HAND_NETWORK_H

#include "support/support.h"

#include "exec/execution.h"

typedef struct hand_network {
    graph *g;
    grail_model model; /* of the graph alone */
    tensor_view view;  /* what every parameter is said to be stored as: f32 */
    matrix_pool *pool;
    parameter_store *store;
    execution *e;
} hand_network;

/** An empty graph that reads images. */
void hand_begin(hand_network *n);
/** Ends the graph at `output`, draws the parameters and makes an execution. */
void hand_end(hand_network *n, backend *b, int output);
void hand_fini(hand_network *n);
#define HAND_TEST(name) TEST_OF(hand_network, n, hand_begin, hand_fini, name)

/* Nodes; each returns the value it makes. */
int hand_conv(hand_network *n, const char *name, int64_t in, int64_t out, window2d window,
              bool bias, int x);
/** Over `channels`, with weight and bias. */
int hand_norm(hand_network *n, node_kind kind, const char *name, int64_t channels, int x);
int hand_linear(hand_network *n, const char *name, int64_t in, int64_t out, int x);
int hand_plain(hand_network *n, node_kind kind, int left, int right);
int hand_activation(hand_network *n, activation_kind kind, int x);
/** The shares of a router that chooses so many outputs per row, rows that one output takes by them,
 * and `rows` added in their places to `sum`. */
int hand_route(hand_network *n, int64_t chosen, bool over_all, int scores);
int hand_take_rows(hand_network *n, int64_t output, int shares, int x);
int hand_put_rows(hand_network *n, int64_t output, int shares, int rows, int sum);
/** Two or three values side by side (GRAPH_NONE: two); `length` channels from `first` on. */
int hand_concat(hand_network *n, int first, int second, int third);
int hand_slice(hand_network *n, int64_t first, int64_t length, int x);
/** So many channels of zeros at the positions of x. */
int hand_zeros(hand_network *n, int64_t channels, int x);
/** A parameter of one row or more that is added to, or put before, the positions. */
int hand_token(hand_network *n, node_kind kind, const char *name, int64_t positions, int64_t width,
               int x);

/** Runs a batch from the pixels to the output; the outputs as f32, owned. */
float *hand_run(hand_network *n, int64_t samples, extent image, const float *pixels);

/** Random pixels of a batch, owned. */
float *hand_pixels(int64_t samples, extent image, uint64_t seed);

/** Replaces a parameter's values, in its own shape. */
void hand_set(hand_network *n, const char *parameter, const float *values);

OWNS(hand_network, hand_fini)

#endif
