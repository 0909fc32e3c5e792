/* Fused networks: the same outputs from fewer nodes, and nothing fused that others look at. */
#include "hand_network.h"

#include "exec/fuse.h"

#include <math.h>
#include <string.h>

static const window2d three = WINDOW2D(3, 3, 1, 1, 1);
static const window2d stride2 = WINDOW2D(3, 3, 2, 1, 1);
static const window2d project2 = WINDOW2D(1, 1, 2, 0, 1);
static const extent image = {9, 10};

enum { SAMPLES = 3 };

static int conv_norm(hand_network *n, const char *conv, const char *norm, int64_t in, int64_t out,
                     window2d w, int x)
{
    return hand_norm(n, NODE_BATCH_NORM, norm, out, hand_conv(n, conv, in, out, w, false, x));
}

static int relu(hand_network *n, int x)
{
    return hand_activation(n, ACTIVATION_RELU, x);
}

/* A block whose shortcut is the residual stream, one whose shortcut is a projection that is made
 * after the branch; 17 nodes of which 6 convolutions and the head remain. */
static int residual(hand_network *n)
{
    int h = relu(n, conv_norm(n, "stem", "stem_n", 3, 8, three, n->g->input));
    int x = relu(n, conv_norm(n, "a1", "a1_n", 8, 5, three, h));
    h = relu(n, hand_plain(n, NODE_ADD, conv_norm(n, "a2", "a2_n", 5, 8, three, x), h));
    x = relu(n, conv_norm(n, "b1", "b1_n", 8, 6, stride2, h));
    x = conv_norm(n, "b2", "b2_n", 6, 12, three, x);
    h = conv_norm(n, "bs", "bs_n", 8, 12, project2, h);
    h = relu(n, hand_plain(n, NODE_ADD, h, x));
    return hand_linear(n, "head", 12, 7, hand_plain(n, NODE_MEAN, h, GRAPH_NONE));
}

/* Pre-activation: batch norm stands before the convolution, and what it reads is read twice. */
static int preactivation(hand_network *n)
{
    int h = hand_conv(n, "stem", 3, 8, three, true, n->g->input);
    int x = relu(n, hand_norm(n, NODE_BATCH_NORM, "a1_n", 8, h));
    x = hand_conv(n, "a1", 8, 5, three, false, x);
    x = relu(n, hand_norm(n, NODE_BATCH_NORM, "a2_n", 5, x));
    h = hand_plain(n, NODE_ADD, h, hand_conv(n, "a2", 5, 8, three, true, x));
    x = relu(n, hand_norm(n, NODE_BATCH_NORM, "b_n", 8, h));
    x = hand_conv(n, "b", 8, 6, stride2, false, x);
    return hand_linear(n, "head", 6, 7, hand_plain(n, NODE_MEAN, x, GRAPH_NONE));
}

/* Kernels per channel take the norm behind them in, and its limits: 8 nodes become 4. */
static int separable(hand_network *n)
{
    const int64_t shape[] = {5, 1, 3, 3};
    const int x = relu(n, conv_norm(n, "stem", "stem_n", 3, 5, three, n->g->input));
    node d = node_of(NODE_DEPTHWISE, 0, x, GRAPH_NONE);
    int made = 0;
    d.window = stride2;
    assert_ok(graph_add_parameter(n->g, "d", 4, shape, &d.weight));
    assert_ok(graph_add_node(n->g, &d, &made));
    made = hand_norm(n, NODE_BATCH_NORM, "d_n", 5, made);
    made = hand_activation(n, ACTIVATION_RELU6, made);
    return hand_linear(n, "head", 5, 7, hand_plain(n, NODE_MEAN, made, GRAPH_NONE));
}

static float *run_fused(hand_network *n, parameter_store *store, const float *pixels,
                        int64_t *count)
{
    fused_network *f = NULL;
    execution *e = NULL;
    float *out = NULL;
    assert_ok(fused_network_create(store, &f));
    const graph *g = fused_network_graph(f);
    assert_ok(execution_create(g, store->backend, n->pool, &e));
    assert_ok(execution_begin(e, (batch_shape){SAMPLES, image}, (batch_input){.pixels = pixels}));
    assert_ok(execution_run(e, fused_network_store(f), 0, g->node_count));
    const matrix y = execution_value(e, g->output);
    *count = matrix_count(y);
    assert_ok(memory_new_unset(&out, (size_t)*count, sizeof out[0]));
    assert_ok(matrix_download_f32(y, out));
    execution_free(e);
    fused_network_free(f);
    return out;
}

static int fused_nodes(const hand_network *n)
{
    fused_network *f = NULL;
    assert_ok(fused_network_create(n->store, &f));
    const int count = fused_network_graph(f)->node_count;
    fused_network_free(f);
    return count;
}

static void assert_fused_agrees(hand_network *n)
{
    int64_t count = 0;
    OWNED(float) *pixels = hand_pixels(SAMPLES, image, 1);
    OWNED(float) *plain = hand_run(n, SAMPLES, image, pixels);
    OWNED(float) *fused = run_fused(n, n->store, pixels, &count);
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)plain[i]));
    }
    assert_true(largest > 0.0);
    for (int64_t i = 0; i < count; i++) {
        assert_near(fused[i], plain[i], 1e-5 * largest);
    }
}

TEST(a_fused_network_gives_the_same)
{
    static const struct {
        int (*nodes)(hand_network *n);
        int left;
    } cases[] = {{residual, 8}, {preactivation, 10}, {separable, 4}};
    backend *const backends[] = {backend_reference(), backend_host()};
    for (int k = 0; k < 6; k++) {
        OWNED(hand_network) n;
        hand_begin(&n);
        hand_end(&n, backends[k % 2], cases[k / 2].nodes(&n));
        assert_int_equal(fused_nodes(&n), cases[k / 2].left);
        assert_fused_agrees(&n);
    }
}

/* Folded weights are kept in f32 though the checkpoint stores less. */
HAND_TEST(folded_weights_are_not_rounded_as_stored)
{
    n->view.dtype = GRAIL_DTYPE_BF16;
    hand_end(n, backend_host(), residual(n));
    assert_fused_agrees(n);
}

HAND_TEST(what_others_read_is_not_fused_away)
{
    const int x = hand_conv(n, "conv", 3, 4, three, false, n->g->input);
    const int y = hand_norm(n, NODE_BATCH_NORM, "norm", 4, x);
    const int z = relu(n, y);
    const int sum = hand_plain(n, NODE_ADD, hand_plain(n, NODE_ADD, x, y), z);
    hand_end(n, backend_host(), sum);
    assert_int_equal(fused_nodes(n), n->g->node_count);
    assert_fused_agrees(n);
}

/* What is added to a convolution and read again later keeps its own buffer. */
HAND_TEST(a_residual_that_is_read_again_is_left_alone)
{
    const int h = relu(n, conv_norm(n, "stem", "stem_n", 3, 4, three, n->g->input));
    const int x = hand_plain(n, NODE_ADD, h, conv_norm(n, "a", "a_n", 4, 4, three, h));
    hand_end(n, backend_host(), hand_plain(n, NODE_MULTIPLY, x, h));
    assert_int_equal(fused_nodes(n), 3);
    assert_fused_agrees(n);
}

/* x + conv(x): the sum cannot be made in the buffer that the convolution reads. */
HAND_TEST(a_convolution_may_add_what_it_reads)
{
    const int h = hand_activation(n, ACTIVATION_SILU,
                                  conv_norm(n, "stem", "stem_n", 3, 4, three, n->g->input));
    const int x = hand_plain(n, NODE_ADD, h, hand_conv(n, "a", 4, 4, three, false, h));
    hand_end(n, backend_host(), x);
    assert_int_equal(fused_nodes(n), 3);
    assert_fused_agrees(n);
}

/* A convolution that adds in place overflows: its buffer has one owner all the same. */
TEST(a_residual_that_fails_is_given_back_once)
{
    enum { VALUES = 8 * 5 * 9 };
    float huge[VALUES];
    hand_network n;
    fused_network *f = NULL;
    execution *e = NULL;
    hand_begin(&n);
    hand_end(&n, backend_host(), residual(&n));
    for (int i = 0; i < VALUES; i++) {
        huge[i] = 1e38F;
    }
    hand_set(&n, "a2.weight", huge);
    float *pixels = hand_pixels(SAMPLES, image, 1);
    assert_ok(fused_network_create(n.store, &f));
    const graph *g = fused_network_graph(f);
    assert_ok(execution_create(g, backend_host(), n.pool, &e));
    assert_ok(execution_begin(e, (batch_shape){SAMPLES, image}, (batch_input){.pixels = pixels}));
    assert_fails(execution_run(e, fused_network_store(f), 0, g->node_count), GRAIL_ERROR_NUMERIC,
                 "the output of 'a2.weight' is NaN or infinite");
    execution_free(e);
    fused_network_free(f);
    memory_free(pixels);
    hand_fini(&n); /* frees the buffers of the pool, each of which must be there once */
}

HAND_TEST(the_output_itself_stays)
{
    const int x = hand_conv(n, "conv", 3, 4, three, false, n->g->input);
    relu(n, hand_norm(n, NODE_BATCH_NORM, "norm", 4, x)); /* nothing reads the result */
    hand_end(n, backend_host(), x);
    assert_int_equal(fused_nodes(n), n->g->node_count);
}

HAND_TEST(parameters_with_two_users_are_not_folded)
{
    int x = hand_conv(n, "conv", 3, 3, three, false, n->g->input);
    x = hand_norm(n, NODE_BATCH_NORM, "norm_a", 3, x);
    x = hand_conv(n, "conv", 3, 3, three, false, x);
    x = relu(n, hand_norm(n, NODE_BATCH_NORM, "norm_b", 3, x));
    hand_end(n, backend_host(), x);
    assert_int_equal(fused_nodes(n), n->g->node_count);
    assert_fused_agrees(n);
}

HAND_TEST(other_activations_stay_nodes)
{
    const int x = conv_norm(n, "conv", "norm", 3, 4, three, n->g->input);
    hand_end(n, backend_host(), hand_activation(n, ACTIVATION_SILU, x));
    assert_int_equal(fused_nodes(n), 2);
    assert_fused_agrees(n);
}

/* Sets parameter `name` in the store to its first values in a narrower shape. */
static void narrow(hand_network *n, parameter_store *store, const char *name, const int64_t *shape)
{
    const int index = graph_find_parameter(n->g, name);
    int64_t count = 0;
    assert_true(index >= 0);
    OPENED(float, values, parameter_store_read_f32(n->store, index, &values, &count));
    assert_ok(parameter_store_set(store, index, shape, values));
}

HAND_TEST(a_narrowed_network_is_fused_as_it_is)
{
    const int64_t producer[4] = {2, 8, 3, 3};
    const int64_t consumer[4] = {8, 2, 3, 3};
    const int64_t channels[1] = {2};
    int64_t count = 0;
    OWNED(parameter_store) *thin = NULL;
    hand_end(n, backend_host(), residual(n));
    assert_ok(parameter_store_create(&n->model, backend_host(), n->store, &thin));
    narrow(n, thin, "a1.weight", producer);
    narrow(n, thin, "a1_n.weight", channels);
    narrow(n, thin, "a1_n.bias", channels);
    narrow(n, thin, "a1_n.mean", channels);
    narrow(n, thin, "a1_n.variance", channels);
    narrow(n, thin, "a2.weight", consumer);
    OWNED(float) *pixels = hand_pixels(SAMPLES, image, 2);
    OWNED(float) *dense = run_fused(n, n->store, pixels, &count);
    OWNED(float) *fused = run_fused(n, thin, pixels, &count);
    parameter_store *whole = n->store;
    n->store = thin;
    OWNED(float) *plain = hand_run(n, SAMPLES, image, pixels);
    n->store = whole;
    for (int64_t i = 0; i < count; i++) {
        assert_near(fused[i], plain[i], 1e-5);
    }
    assert_true(fabsf(dense[0] - plain[0]) > 1e-3F);
}

static grail_status fuse_once(void *context)
{
    const hand_network *n = context;
    fused_network *f = NULL;
    const grail_status status = fused_network_create(n->store, &f);
    fused_network_free(f);
    return status;
}

HAND_TEST(a_variance_below_zero_is_named)
{
    const float variance[8] = {1.0F, 1.0F, -0.5F, 1.0F, 1.0F, 1.0F, 1.0F, 1.0F};
    hand_end(n, backend_host(), residual(n));
    hand_set(n, "a1_n.variance", variance);
    assert_fails(fuse_once(n), GRAIL_ERROR_NUMERIC,
                 "tensor 'a1_n.variance' holds the variance -0.5 for channel 2");
}

HAND_TEST(every_failing_allocation_is_survived)
{
    hand_end(n, backend_host(), residual(n));
    support_fail_each_allocation(fuse_once, n);
    fused_network_free(NULL);
}
