/* The way back through whole networks: gradients against finite differences in f64, and a network
 * in pieces against the network at once. */
#include "hand_network.h"

#include "backend/operations.h"
#include "exec/tape.h"
#include "graph/operators.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A network on `ref` and one batch of its input. */
typedef struct probe {
    const graph *g;
    parameter_store *store;
    matrix_pool *pool;
    batch_shape shape;
    batch_input input;
} probe;

/* The gradient of sum_i cos(0.9 i + 0.1) y_i with respect to y. *out is [rows, columns], owned. */
static matrix seed_like(matrix y)
{
    matrix seed = {0};
    host_view v = {0};
    assert_ok(matrix_new(y.owner, y.type, y.rows, y.columns, &seed));
    assert_ok(host_view_open(seed, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    for (int64_t i = 0; i < matrix_count(y); i++) {
        ((double *)v.values)[i] = cos(0.9 * (double)i + 0.1);
    }
    assert_ok(host_view_close(&v));
    return seed;
}

static double sum_of_products(matrix a, matrix b)
{
    OWNED(double) *left = NULL;
    OWNED(double) *right = NULL;
    double sum = 0.0;
    const size_t count = (size_t)matrix_count(a);
    assert_ok(memory_new(&left, count, sizeof left[0]));
    assert_ok(memory_new(&right, count, sizeof right[0]));
    assert_ok(matrix_download(a, left));
    assert_ok(matrix_download(b, right));
    for (size_t i = 0; i < count; i++) {
        sum += left[i] * right[i];
    }
    return sum;
}

static double loss_of(const probe *p)
{
    OPENED(execution, e, execution_create(p->g, backend_reference(), p->pool, &e));
    assert_ok(execution_begin(e, p->shape, p->input));
    assert_ok(execution_run(e, p->store, 0, p->g->node_count));
    const matrix y = execution_value(e, p->g->output);
    OWNED(matrix) seed = seed_like(y);
    return sum_of_products(y, seed);
}

/* A direction in the space of one parameter, of the length of a step. *out is owned. */
static matrix direction_for(matrix values, uint64_t seed, double length)
{
    matrix out = {0};
    OWNED(float) *drawn = NULL;
    const int64_t count = matrix_count(values);
    assert_ok(memory_new(&drawn, (size_t)count, sizeof drawn[0]));
    support_fill_normal(drawn, count, seed);
    for (int64_t i = 0; i < count; i++) {
        drawn[i] = (float)(length * (double)drawn[i]);
    }
    assert_ok(matrix_new(values.owner, values.type, values.rows, values.columns, &out));
    assert_ok(matrix_upload_f32(out, drawn));
    return out;
}

/* Whether a parameter can be trained: not a table of embeddings alone, not a moment of a BatchNorm.
 */
static bool is_trained(const graph *g, int parameter)
{
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (n->mean == parameter || n->variance == parameter) {
            return false;
        }
    }
    return !graph_is_table(g, parameter);
}

static gradient_store *wanted_gradients(const probe *p)
{
    gradient_store *wanted = NULL;
    assert_ok(gradient_store_create(p->g, backend_reference(), &wanted));
    for (int k = 0; k < p->g->parameter_count; k++) {
        if (is_trained(p->g, k)) {
            assert_ok(gradient_store_want(wanted, p->store, k));
        }
    }
    return wanted;
}

static void add_gradients(const probe *p, gradient_store *made)
{
    tape *t = NULL;
    assert_ok(tape_create(p->g, backend_reference(), p->pool, &t));
    assert_ok(execution_begin(tape_execution(t), p->shape, p->input));
    assert_ok(tape_forward(t, p->store, made, false, 0, p->g->node_count));
    matrix seed = seed_like(execution_value(tape_execution(t), p->g->output));
    assert_ok(tape_seed(t, p->g->output, seed));
    assert_ok(tape_backward(t, p->store, made));
    matrix_free(&seed);
    tape_free(t);
}

static gradient_store *gradients_at_once(const probe *p)
{
    gradient_store *made = wanted_gradients(p);
    add_gradients(p, made);
    return made;
}

/* Moves a parameter by a direction, and back with a negative sign. */
static void move(const probe *p, int parameter, double sign, matrix direction)
{
    const parameter_entry *entry = NULL;
    assert_ok(parameter_store_get(p->store, parameter, &entry));
    assert_ok(matrix_add_scaled(sign, direction, entry->values));
}

/* (loss(w + d) - loss(w - d)) / 2 */
static double difference(const probe *p, int parameter, matrix direction)
{
    move(p, parameter, 1.0, direction);
    const double above = loss_of(p);
    move(p, parameter, -2.0, direction);
    const double below = loss_of(p);
    move(p, parameter, 1.0, direction);
    return 0.5 * (above - below);
}

/* A relative error of 1e-5 at steps of 1e-5 of a parameter's size. */
static void assert_gradients(const probe *p, const char *what)
{
    gradient_store *made = gradients_at_once(p);
    for (int k = 0; k < p->g->parameter_count; k++) {
        const matrix gradient = gradient_of(made, k);
        if (!matrix_exists(gradient)) {
            continue;
        }
        OWNED(matrix) direction = direction_for(gradient, (uint64_t)k + 1, 1e-6);
        const double expected = difference(p, k, direction);
        const double found = sum_of_products(gradient, direction);
        const double size =
            sqrt(sum_of_products(gradient, gradient) * sum_of_products(direction, direction));
        if (!(fabs(found - expected) <= 1e-5 * fmax(size, 1e-9))) {
            print_message("%s: '%s': gradient %g, difference %g of %g\n", what,
                          p->g->parameters[k].name, found, expected, size);
            fail();
        }
    }
    gradient_store_free(made);
}

/* -- hand-made networks ------------------------------------------------------------------------ */

static probe probe_of(const hand_network *n, int64_t samples, extent image, const float *pixels)
{
    return (probe){.g = n->g,
                   .store = n->store,
                   .pool = n->pool,
                   .shape = {.samples = samples, .positions = image},
                   .input = {.pixels = pixels}};
}

static int shortcut(hand_network *n, int64_t stride, int64_t pad, int x)
{
    node s = node_of(NODE_SHORTCUT, 0, x, GRAPH_NONE);
    int made = 0;
    s.window = (window2d)WINDOW2D(1, 1, stride, 0, 1);
    s.pad = pad;
    assert_ok(graph_add_node(n->g, &s, &made));
    return made;
}

static int pool_of(hand_network *n, node_kind kind, window2d window, int x)
{
    node pool = node_of(kind, 0, x, GRAPH_NONE);
    int made = 0;
    pool.window = window;
    assert_ok(graph_add_node(n->g, &pool, &made));
    return made;
}

HAND_TEST(residual_networks_have_the_gradients_of_finite_differences)
{
    const extent image = {9, 8};
    const window2d same = WINDOW2D(3, 3, 1, 1, 1);
    const window2d half = WINDOW2D(3, 3, 2, 1, 1);
    OWNED(float) *pixels = hand_pixels(2, image, 1);
    const int stem =
        hand_norm(n, NODE_BATCH_NORM, "n0", 6, hand_conv(n, "c0", 3, 6, same, true, n->g->input));
    const int pooled = pool_of(n, NODE_MAX_POOL, half, hand_activation(n, ACTIVATION_GELU, stem));
    const int inner = hand_activation(
        n, ACTIVATION_SILU,
        hand_norm(n, NODE_BATCH_NORM, "n1", 5, hand_conv(n, "c1", 6, 5, half, false, pooled)));
    const int left = hand_conv(n, "c2", 5, 10, same, false, inner);
    const int sum = hand_plain(n, NODE_ADD, left, shortcut(n, 2, 2, pooled));
    const int mean =
        hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_GELU_TANH, sum), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 10, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "residual network");
}

HAND_TEST(means_over_windows_have_the_gradients_of_finite_differences)
{
    const extent image = {7, 8};
    const window2d first = {{3, 2, 1, 1, 0}, {2, 1, 1, 0, 1}, false};
    const window2d second = {{2, 2, 1, 0, 0}, {3, 2, 1, 1, 1}, true};
    OWNED(float) *pixels = hand_pixels(2, image, 4);
    int h = hand_conv(n, "c0", 3, 5, (window2d)WINDOW2D(3, 3, 1, 1, 1), true, n->g->input);
    h = hand_activation(n, ACTIVATION_GELU, pool_of(n, NODE_AVERAGE_POOL, first, h));
    h = pool_of(n, NODE_AVERAGE_POOL, second, h);
    n->g->nodes[n->g->node_count - 1].counts_padding = true;
    h = hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_SILU, h), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 5, 4, h));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "means over windows");
}

/* Sums of the gradients that a visitor is shown. */
typedef struct shown_gradients {
    double *sums; /* [values, most columns] */
    int count;
} shown_gradients;

enum { MOST_COLUMNS = 8 };

static grail_status add_shown(void *user, int value, matrix gradient)
{
    shown_gradients *s = user;
    double values[2048];
    assert_true(matrix_count(gradient) <= 2048 && gradient.columns <= MOST_COLUMNS);
    CHECK(matrix_download(gradient, values));
    for (int64_t i = 0; i < matrix_count(gradient); i++) {
        s->sums[value * MOST_COLUMNS + i % gradient.columns] += values[i];
    }
    s->count++;
    return GRAIL_OK;
}

/* The gradient of a bias is the sum over the rows of that of the output, with and without wanted
 * parameters. */
static void assert_visited(const probe *p, bool wants_parameters)
{
    tape *t = NULL;
    shown_gradients shown = {0};
    bool *wanted = NULL;
    gradient_store *all = gradients_at_once(p);
    gradient_store *made = wants_parameters ? wanted_gradients(p) : NULL;
    assert_ok(made != NULL ? GRAIL_OK : gradient_store_create(p->g, backend_reference(), &made));
    assert_ok(memory_new(&wanted, (size_t)p->g->value_count, sizeof wanted[0]));
    assert_ok(memory_new(&shown.sums, (size_t)p->g->value_count * MOST_COLUMNS, sizeof(double)));
    int expected = 0;
    for (int i = 0; i < p->g->node_count; i++) {
        const node *n = &p->g->nodes[i];
        wanted[n->output] = node_is_map(n) && n->bias != GRAPH_NONE;
        expected += wanted[n->output] ? 1 : 0;
    }
    assert_ok(tape_create(p->g, backend_reference(), p->pool, &t));
    t->visitor = (gradient_visitor){.wanted = wanted, .visit = add_shown, .user = &shown};
    assert_ok(execution_begin(tape_execution(t), p->shape, p->input));
    assert_ok(tape_forward(t, p->store, made, false, 0, p->g->node_count));
    matrix seed = seed_like(execution_value(tape_execution(t), p->g->output));
    assert_ok(tape_seed(t, p->g->output, seed));
    assert_ok(tape_backward(t, p->store, made));
    assert_int_equal(shown.count, expected);
    for (int i = 0; i < p->g->node_count; i++) {
        const node *n = &p->g->nodes[i];
        double bias[MOST_COLUMNS];
        if (wanted[n->output]) {
            const matrix gradient = gradient_of(all, n->bias);
            assert_ok(matrix_download(gradient, bias));
            for (int64_t k = 0; k < matrix_count(gradient); k++) {
                assert_near(shown.sums[n->output * MOST_COLUMNS + k], bias[k],
                            1e-9 * fmax(1.0, fabs(bias[k])));
            }
        }
    }
    matrix_free(&seed);
    tape_free(t);
    gradient_store_free(all);
    gradient_store_free(made);
    memory_free(wanted);
    memory_free(shown.sums);
}

HAND_TEST(a_visitor_sees_the_gradients_of_outputs)
{
    const extent image = {6, 5};
    OWNED(float) *pixels = hand_pixels(2, image, 7);
    const window2d same = WINDOW2D(3, 3, 1, 1, 1);
    const int first =
        hand_activation(n, ACTIVATION_GELU, hand_conv(n, "c0", 3, 6, same, true, n->g->input));
    const int second =
        hand_activation(n, ACTIVATION_SILU, hand_conv(n, "c1", 6, 6, same, true, first));
    const int sum = hand_plain(n, NODE_ADD, first, second);
    const int mean = hand_plain(n, NODE_MEAN, sum, GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_visited(&p, true);
    assert_visited(&p, false);
}

/* What lies in gradients that are cleared does not count, whether the way back writes over it or
 * adds to it. */
HAND_TEST(gradients_that_the_tape_alone_writes_begin_at_zero)
{
    const extent image = {4, 3};
    OWNED(float) *pixels = hand_pixels(2, image, 3);
    const window2d same = WINDOW2D(3, 3, 1, 1, 1);
    const int mean =
        hand_plain(n, NODE_MEAN, hand_conv(n, "c0", 3, 6, same, true, n->g->input), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    gradient_store *expected = gradients_at_once(&p);
    gradient_store *made = gradients_at_once(&p);
    made->of_tape = true;
    assert_ok(gradient_store_clear(made));
    add_gradients(&p, made);
    assert_ok(gradient_store_settle(made));
    for (int k = 0; k < p.g->parameter_count; k++) {
        const matrix m = gradient_of(made, k);
        if (matrix_exists(m)) {
            assert_memory_equal(m.memory, gradient_of(expected, k).memory,
                                (size_t)matrix_count(m) * sizeof(double));
        }
    }
    gradient_store_free(expected);
    gradient_store_free(made);
}

/* Windows that move along each axis in a way of its own, one of them in groups. */
HAND_TEST(uneven_windows_have_the_gradients_of_finite_differences)
{
    const extent image = {8, 9};
    const window2d down = {{3, 2, 1, 0, 1}, {3, 1, 1, 1, 1}, false};
    const window2d across = {{1, 1, 1, 0, 0}, {3, 2, 2, 2, 1}, false};
    OWNED(float) *pixels = hand_pixels(2, image, 2);
    const int stem = hand_conv(n, "c0", 3, 6, down, true, n->g->input);
    const int pooled = pool_of(n, NODE_MAX_POOL, (window2d){{2, 1, 1, 0, 0}, {3, 2, 1, 0, 0}, true},
                               hand_activation(n, ACTIVATION_GELU, stem));
    const int left = hand_conv(n, "c1", 2, 6, across, true, pooled);
    n->g->nodes[n->g->node_count - 1].groups = 3;
    node s = node_of(NODE_SHORTCUT, 0, pooled, GRAPH_NONE);
    int made = 0;
    s.window.width.stride = 2;
    assert_ok(graph_add_node(n->g, &s, &made));
    const int mean = hand_plain(n, NODE_MEAN, hand_plain(n, NODE_ADD, left, made), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "uneven windows");
}

/* Kernels per channel on half of the positions, behind a map and before a norm. */
static int depthwise(hand_network *n, const char *name, int64_t channels, window2d window,
                     bool bias, int x)
{
    const int64_t shape[] = {channels, 1, window.height.kernel, window.width.kernel};
    node d = node_of(NODE_DEPTHWISE, 0, x, GRAPH_NONE);
    int made = 0;
    d.window = window;
    assert_ok(graph_add_parameter(n->g, name, 4, shape, &d.weight));
    if (bias) {
        assert_ok(graph_add_parameter(n->g, "depthwise.bias", 1, &channels, &d.bias));
    }
    assert_ok(graph_add_node(n->g, &d, &made));
    return made;
}

HAND_TEST(kernels_per_channel_have_the_gradients_of_finite_differences)
{
    const extent image = {9, 8};
    const window2d half = WINDOW2D(3, 3, 2, 1, 1);
    OWNED(float) *pixels = hand_pixels(2, image, 1);
    const int stem = hand_activation(
        n, ACTIVATION_SIGMOID,
        hand_conv(n, "c", 3, 5, (window2d)WINDOW2D(1, 1, 1, 0, 1), true, n->g->input));
    const int first = depthwise(n, "d0", 5, half, true, stem);
    const int second = depthwise(n, "d1", 5, (window2d)WINDOW2D(2, 3, 1, 1, 1), false,
                                 hand_norm(n, NODE_BATCH_NORM, "n", 5, first));
    const int mean = hand_plain(n, NODE_MEAN, second, GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 5, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "kernels per channel");
}

/* scale x * weight + offset + bias */
static int affine(hand_network *n, const char *weight, const char *bias, affine_attributes numbers,
                  int x)
{
    const int64_t channels = 5;
    node a = node_of(NODE_AFFINE, 0, x, GRAPH_NONE);
    int made = 0;
    a.affine = numbers;
    if (weight != NULL) {
        assert_ok(graph_add_parameter(n->g, weight, 1, &channels, &a.weight));
    }
    if (bias != NULL) {
        assert_ok(graph_add_parameter(n->g, bias, 1, &channels, &a.bias));
    }
    assert_ok(graph_add_node(n->g, &a, &made));
    return made;
}

/* x, slope x * weight below 0 */
static int slope_of(hand_network *n, const char *weight, double slope, int x)
{
    const int64_t channels = 5;
    node p = node_of(NODE_PRELU, 0, x, GRAPH_NONE);
    int made = 0;
    p.slope = slope;
    if (weight != NULL) {
        assert_ok(graph_add_parameter(n->g, weight, 1, &channels, &p.weight));
    }
    assert_ok(graph_add_node(n->g, &p, &made));
    return made;
}

HAND_TEST(constants_of_channels_have_the_gradients_of_finite_differences)
{
    const extent image = {5, 4};
    OWNED(float) *pixels = hand_pixels(2, image, 6);
    int h = hand_conv(n, "c", 3, 5, (window2d)WINDOW2D(3, 3, 1, 1, 1), true, n->g->input);
    h = affine(n, "w0", "b0", (affine_attributes){-0.7, 0.4}, h);
    h = affine(n, "w1", NULL, (affine_attributes){1.0, 0.0},
               hand_activation(n, ACTIVATION_SILU, h));
    h = affine(n, NULL, "b2", (affine_attributes){1.0, 0.0},
               hand_activation(n, ACTIVATION_SILU, h));
    h = affine(n, NULL, NULL, (affine_attributes){1.0, 3.0}, h);
    h = affine(n, NULL, NULL, (affine_attributes){0.5, 0.0},
               hand_activation(n, ACTIVATION_GELU, h));
    h = affine(n, NULL, NULL, (affine_attributes){1.0, 0.0}, h);
    h = slope_of(n, "slopes", -0.7, hand_norm(n, NODE_BATCH_NORM, "n", 5, h));
    h = slope_of(n, NULL, 0.2, h);
    h = hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_SILU, h), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 5, 4, h));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "constants of channels");
}

/* Patches that are put to overlap, and to leave gaps, around which padding is cut off. */
HAND_TEST(patches_that_are_put_have_the_gradients_of_finite_differences)
{
    const extent image = {5, 4};
    const window2d windows[] = {{{3, 2, 1, 1, 0}, {2, 1, 2, 0, 1}, false},
                                {{1, 2, 1, 0, 0}, {3, 1, 1, 1, 1}, false}};
    OWNED(float) *pixels = hand_pixels(2, image, 4);
    int x = n->g->input;
    for (int i = 0; i < 2; i++) {
        const int64_t taps = window_taps(&windows[i]);
        const char *name = i == 0 ? "up0" : "up1";
        const int map =
            hand_conv(n, name, i == 0 ? 3 : 4, 4 * taps, (window2d)WINDOW2D(1, 1, 1, 0, 1), false,
                      i == 0 ? x : hand_activation(n, ACTIVATION_SILU, x));
        node put = node_of(NODE_PUT_PATCHES, 0, map, GRAPH_NONE);
        const int64_t width = 4;
        put.window = windows[i];
        put.more.height = 1;
        assert_ok(
            graph_add_parameter(n->g, i == 0 ? "up0.bias" : "up1.bias", 1, &width, &put.bias));
        assert_ok(graph_add_node(n->g, &put, &x));
    }
    const int mean = hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_GELU, x), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 4, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "patches that are put");
}

HAND_TEST(other_sizes_have_the_gradients_of_finite_differences)
{
    static const resize_attributes sizes[] = {
        {RESIZE_LINEAR, RESIZE_HALF_PIXEL, 2.0, 1.5, {0, 0}},
        {RESIZE_NEAREST_UPPER, RESIZE_HALF_PIXEL_OR_0, 0.0, 0.0, {13, 4}},
        {RESIZE_LINEAR, RESIZE_ALIGN_CORNERS, 0.0, 0.0, {5, 11}}};
    const extent image = {5, 4};
    float *pixels = hand_pixels(2, image, 4);
    int x = hand_conv(n, "c", 3, 5, (window2d)WINDOW2D(3, 3, 1, 1, 1), true, n->g->input);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        node r = node_of(NODE_RESIZE, 0, hand_activation(n, ACTIVATION_SILU, x), GRAPH_NONE);
        r.resize = sizes[i];
        assert_ok(graph_add_node(n->g, &r, &x));
    }
    const int mean = hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_GELU, x), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 5, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "other sizes");
    memory_free(pixels);
}

HAND_TEST(norms_of_groups_have_the_gradients_of_finite_differences)
{
    static const int64_t groups[] = {2, 1, 0};
    const extent image = {5, 4};
    OWNED(float) *pixels = hand_pixels(2, image, 4);
    int x = hand_conv(n, "c", 3, 6, (window2d)WINDOW2D(3, 3, 1, 1, 1), true, n->g->input);
    for (int i = 0; i < 3; i++) {
        const char *const names[] = {"g0", "g1", "g2"};
        x = hand_norm(n, NODE_GROUP_NORM, names[i], 6, hand_activation(n, ACTIVATION_SILU, x));
        n->g->nodes[n->g->node_count - 1].norm.group = groups[i];
    }
    const int mean = hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_GELU, x), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "norms of groups");
}

/* A product or sum whose second operand is repeated. */
static int repeated(hand_network *n, node_kind kind, int left, int right)
{
    node m = node_of(kind, 0, left, right);
    int made = 0;
    m.repeats_second = true;
    assert_ok(graph_add_node(n->g, &m, &made));
    return made;
}

HAND_TEST(sums_of_positions_have_the_gradients_of_finite_differences)
{
    static const char *const names[] = {"m0", "m0.bias", "m1", "m1.bias"};
    static const int64_t shapes[2][2] = {{7, 20}, {3, 7}};
    const extent image = {5, 4};
    OWNED(float) *pixels = hand_pixels(2, image, 6);
    int h = hand_conv(n, "c", 3, 6, (window2d)WINDOW2D(3, 3, 1, 1, 1), true, n->g->input);
    for (int i = 0; i < 2; i++) {
        node mix = node_of(NODE_MIX, 0, hand_activation(n, ACTIVATION_SILU, h), GRAPH_NONE);
        assert_ok(graph_add_parameter(n->g, names[2 * i], 2, shapes[i], &mix.weight));
        assert_ok(graph_add_parameter(n->g, names[2 * i + 1], 1, shapes[i], &mix.bias));
        assert_ok(graph_add_node(n->g, &mix, &h));
    }
    h = hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_GELU, h), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 4, h));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "sums of positions");
}

/* A channel of zeros has a length of 0. */
HAND_TEST(norms_of_responses_have_the_gradients_of_finite_differences)
{
    static const float bias[6] = {0.2F, -0.1F, 0.3F, -1e3F, 0.1F, -0.2F};
    const extent image = {5, 4};
    OWNED(float) *pixels = hand_pixels(2, image, 5);
    int64_t width = 6;
    int h = hand_conv(n, "c", 3, 6, (window2d)WINDOW2D(3, 3, 1, 1, 1), true, n->g->input);
    h = hand_activation(n, ACTIVATION_RELU, h);
    node response = node_of(NODE_RESPONSE_NORM, 0, h, GRAPH_NONE);
    int shares = 0;
    response.norm.epsilon = 0.1;
    assert_ok(graph_add_parameter(n->g, "gamma", 1, &width, &response.weight));
    assert_ok(graph_add_node(n->g, &response, &shares));
    h = hand_plain(n, NODE_MEAN, repeated(n, NODE_MULTIPLY, h, shares), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 4, h));
    hand_set(n, "c.bias", bias);
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "norms of responses");
}

HAND_TEST(repeated_operands_have_the_gradients_of_finite_differences)
{
    const extent image = {5, 4};
    const window2d same = WINDOW2D(3, 3, 1, 1, 1);
    OWNED(float) *pixels = hand_pixels(2, image, 3);
    int h = hand_conv(n, "c0", 3, 6, same, true, n->g->input);
    const int mean = hand_plain(n, NODE_MEAN, h, GRAPH_NONE);
    const int gate = hand_activation(n, ACTIVATION_GELU, hand_linear(n, "gate", 6, 6, mean));
    const int map = hand_conv(n, "map", 6, 1, same, true, h);
    h = repeated(n, NODE_MULTIPLY, h, gate);                           /* by sample */
    h = repeated(n, NODE_MULTIPLY, h, map);                            /* by position */
    h = repeated(n, NODE_ADD, h, hand_linear(n, "shift", 6, 6, mean)); /* by sample */
    h = repeated(n, NODE_ADD, h, hand_conv(n, "bump", 3, 1, same, true, n->g->input));
    h = repeated(n, NODE_MULTIPLY, h, hand_linear(n, "factor", 6, 1, mean)); /* by both */
    h = hand_plain(n, NODE_MEAN, hand_activation(n, ACTIVATION_SILU, h), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 4, h));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "repeated operands");
}

/* A layer of experts, of which the last one has no rows. */
static void assert_gradients_of_routes(bool over_all)
{
    enum { EXPERTS = 4 };
    static const float biases[EXPERTS] = {0.3F, 0.0F, 0.1F, -1e4F};
    const extent image = {4, 3};
    const window2d point = WINDOW2D(1, 1, 1, 0, 1);
    OWNED(hand_network) n;
    char name[16];
    OWNED(float) *pixels = hand_pixels(2, image, 5);
    hand_begin(&n);
    const int x = hand_conv(&n, "in", 3, 6, point, true, n.g->input);
    const int scores = hand_linear(&n, "router", 6, EXPERTS, x);
    const int shares = hand_route(&n, 2, over_all, scores);
    int sum = x;
    for (int e = 0; e < EXPERTS; e++) {
        int h = hand_take_rows(&n, e, shares, x);
        snprintf(name, sizeof name, "up%d", e);
        h = hand_activation(&n, ACTIVATION_SILU, hand_linear(&n, name, 6, 5, h));
        snprintf(name, sizeof name, "down%d", e);
        h = hand_linear(&n, name, 5, 6, h);
        sum = hand_put_rows(&n, e, shares, h, sum);
    }
    hand_end(&n, backend_reference(), sum);
    hand_set(&n, "router.bias", biases);
    const probe p = probe_of(&n, 2, image, pixels);
    assert_gradients(&p, "routed rows");
}

TEST(routed_rows_have_the_gradients_of_finite_differences)
{
    assert_gradients_of_routes(false);
    assert_gradients_of_routes(true);
}

HAND_TEST(parts_of_values_have_the_gradients_of_finite_differences)
{
    const extent image = {5, 4};
    const window2d same = WINDOW2D(3, 3, 1, 1, 1);
    OWNED(float) *pixels = hand_pixels(2, image, 4);
    const int x = hand_conv(n, "c0", 3, 7, same, true, n->g->input);
    const int left = hand_activation(n, ACTIVATION_SILU, hand_slice(n, 0, 4, x));
    const int right = hand_slice(n, 3, 4, x); /* overlaps the left one */
    const int two = hand_concat(n, left, hand_conv(n, "c1", 4, 3, same, true, right), GRAPH_NONE);
    node mixed = node_of(NODE_SHUFFLE, 0, hand_concat(n, two, x, GRAPH_NONE), GRAPH_NONE);
    int shuffled = 0;
    mixed.runs = 2;
    assert_ok(graph_add_node(n->g, &mixed, &shuffled));
    const int three = hand_concat(n, n->g->input, shuffled, hand_zeros(n, 2, shuffled));
    const int mean =
        hand_plain(n, NODE_MEAN, hand_conv(n, "c2", 19, 5, same, false, three), GRAPH_NONE);
    hand_end(n, backend_reference(), hand_linear(n, "head", 5, 4, mean));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "parts of values");
}

HAND_TEST(towers_have_the_gradients_of_finite_differences)
{
    const extent image = {6, 6};
    const window2d patch = WINDOW2D(3, 3, 3, 0, 1);
    OWNED(float) *pixels = hand_pixels(2, image, 2);
    const int tokens = hand_conv(n, "patch", 3, 8, patch, true, n->g->input);
    const int with_class = hand_token(n, NODE_CLASS_TOKEN, "class", 1, 8, tokens);
    const int placed = hand_token(n, NODE_POSITIONS, "position", 7, 8, with_class);
    n->g->nodes[n->g->node_count - 1].positions.may_be_fewer = true; /* 5 of 7 */
    const int typed = hand_token(n, NODE_POSITIONS, "type", 2, 8, placed);
    n->g->nodes[n->g->node_count - 1].positions.one_for_all = true;
    const int normal = hand_norm(n, NODE_LAYER_NORM, "n0", 8, typed);
    const int wide = hand_activation(n, ACTIVATION_QUICK_GELU, hand_linear(n, "up", 8, 11, normal));
    const int gate = hand_linear(n, "gate", 8, 11, normal);
    const int product = hand_plain(n, NODE_MULTIPLY, wide, gate);
    const int sum = hand_plain(n, NODE_ADD, placed, hand_linear(n, "down", 11, 8, product));
    const int first = hand_plain(n, NODE_FIRST_TOKEN, sum, GRAPH_NONE);
    hand_end(n, backend_reference(),
             hand_plain(n, NODE_UNIT_LENGTH, hand_linear(n, "head", 8, 5, first), GRAPH_NONE));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "tower");
}

/* Heads of an image in rolled windows, and of the rows at one place of all windows, with a bias for
 * each window. */
HAND_TEST(windows_have_the_gradients_of_finite_differences)
{
    enum { WIDTH = 6, WINDOWS = 4, SEEN = 6, BIASES = WINDOWS * SEEN * SEEN };
    const extent image = {4, 6};
    const window2d point = WINDOW2D(1, 1, 1, 0, 1);
    double biases[BIASES];
    OWNED(float) *pixels = hand_pixels(2, image, 6);
    for (int i = 0; i < BIASES; i++) {
        biases[i] = i % 7 == 3 ? -3e4 : 0.1 * (i % 11);
    }
    int x = hand_conv(n, "in", 3, WIDTH, point, true, n->g->input);
    for (int layer = 0; layer < 2; layer++) {
        char names[3][8];
        node attend = node_of(NODE_ATTENTION, 0, GRAPH_NONE, GRAPH_NONE);
        for (int i = 0; i < 3; i++) {
            snprintf(names[i], sizeof names[i], "%c%d", "qkv"[i], layer);
            attend.inputs[attend.input_count++] = hand_linear(n, names[i], WIDTH, WIDTH, x);
        }
        attend.attention = (attention_attributes){.head_dim = 3,
                                                  .bidirectional = true,
                                                  .scale = 0.7,
                                                  .windows = {2, 2},
                                                  .spans_windows = layer > 0,
                                                  .roll = {1 - layer, 2}};
        if (layer == 0) {
            attend.attention.biases = biases;
            attend.attention.bias_heads = 1;
            attend.attention.bias_windows = WINDOWS;
            attend.attention.positions = SEEN;
        }
        assert_ok(graph_add_node(n->g, &attend, &x));
    }
    for (int columns = 0; columns < 2; columns++) {
        node merge = node_of(NODE_MERGE, 0, x, GRAPH_NONE);
        merge.merge = (merge_attributes){2 - columns, 1 + columns, columns > 0};
        assert_ok(graph_add_node(n->g, &merge, &x));
    }
    hand_end(n, backend_reference(), hand_linear(n, "head", 4 * WIDTH, 5, x));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "windows");
}

HAND_TEST(decoders_of_tokens_have_the_gradients_of_finite_differences)
{
    const extent image = {6, 6};
    int taken = 0;
    OWNED(float) *pixels = hand_pixels(2, image, 2);
    const int patches =
        hand_conv(n, "patch", 3, 8, (window2d)WINDOW2D(3, 3, 3, 0, 1), true, n->g->input);
    node take = node_of(NODE_TAKE_TOKENS, 0, GRAPH_NONE, GRAPH_NONE);
    take.inputs[take.input_count++] = hand_token(n, NODE_CLASS_TOKEN, "class", 1, 8, patches);
    take.tokens = (token_attributes){1, {2, 2}};
    assert_ok(graph_add_node(n->g, &take, &taken));
    const int mixed = hand_conv(n, "mix", 8, 6, (window2d)WINDOW2D(2, 2, 1, 0, 1), true, taken);
    hand_end(n, backend_reference(), hand_linear(n, "head", 6, 5, mixed));
    const probe p = probe_of(n, 2, image, pixels);
    assert_gradients(&p, "decoder of tokens");
}

/* -- families ---------------------------------------------------------------------------------- */

static void assert_decoder(const char *name)
{
    enum { SEQUENCES = 2, LENGTH = 9 };
    char path[512];
    int32_t ids[SEQUENCES * LENGTH];
    probe p = {.shape = sequence_batch(SEQUENCES, LENGTH), .input = {.ids = ids}};
    snprintf(path, sizeof path, "%s/tests/golden/models/%s", GRAIL_SOURCE_DIR, name);
    OPENED(grail_model, model, grail_model_open(path, &model));
    for (int i = 0; i < SEQUENCES * LENGTH; i++) {
        ids[i] = (int32_t)((i * 7 + 3) % model->graph->vocabulary);
    }
    p.g = model->graph;
    assert_ok(parameter_store_create(model, backend_reference(), NULL, &p.store));
    assert_ok(matrix_pool_create(backend_reference(), &p.pool));
    assert_gradients(&p, name);
    matrix_pool_free(p.pool);
    parameter_store_free(p.store);
}

TEST(decoders_have_the_gradients_of_finite_differences)
{
    assert_decoder("llama3");
    assert_decoder("llama-mqa");
    assert_decoder("mistral");
    assert_decoder("qwen2");
    assert_decoder("qwen3");
    assert_decoder("gemma2");
}

static void assert_tower(const char *name)
{
    char path[512];
    probe p = {.shape = {.samples = 2}};
    snprintf(path, sizeof path, "%s/tests/golden/vision/%s", GRAIL_SOURCE_DIR, name);
    OPENED(grail_model, model, grail_model_open(path, &model));
    p.g = model->graph;
    p.shape.positions = p.g->image;
    float *pixels = hand_pixels(2, p.g->image, 3);
    p.input.pixels = pixels;
    assert_ok(parameter_store_create(model, backend_reference(), NULL, &p.store));
    assert_ok(matrix_pool_create(backend_reference(), &p.pool));
    assert_gradients(&p, name);
    memory_free(pixels);
    matrix_pool_free(p.pool);
    parameter_store_free(p.store);
}

TEST(families_of_towers_have_the_gradients_of_finite_differences)
{
    assert_tower("hf-vit");
    assert_tower("hf-clip-vision");
    assert_tower("simple-vit");
}

/* -- pieces ------------------------------------------------------------------------------------ */

/* Forward over all blocks, keeping what lies between them; then back, block after block, each run
 * again. */
static gradient_store *gradients_by_pieces(const probe *p, int middle)
{
    tape *t = NULL;
    gradient_store *made = wanted_gradients(p);
    matrix between[4] = {{0}};
    int live[64];
    matrix none = {0};
    const int count = graph_live_values(p->g, middle, live);
    assert_in_range(count, 1, 4);
    assert_ok(tape_create(p->g, backend_reference(), p->pool, &t));
    execution *e = tape_execution(t);
    assert_ok(execution_begin(e, p->shape, p->input));
    assert_ok(execution_run(e, p->store, 0, middle));
    for (int i = 0; i < count; i++) {
        const matrix v = execution_value(e, live[i]);
        assert_ok(matrix_new(v.owner, v.type, v.rows, v.columns, &between[i]));
        assert_ok(matrix_copy(v, between[i]));
    }
    assert_ok(tape_forward(t, p->store, made, true, middle, p->g->node_count));
    matrix seed = seed_like(execution_value(e, p->g->output));
    assert_ok(tape_seed(t, p->g->output, seed));
    assert_ok(tape_backward(t, p->store, made));
    for (int i = 0; i < count; i++) {
        assert_ok(matrix_copy(tape_gradient(t, live[i]), between[i]));
    }
    assert_ok(execution_begin(e, p->shape, p->input));
    assert_ok(tape_forward(t, p->store, made, false, 0, middle));
    for (int i = 0; i < count; i++) {
        assert_ok(tape_seed(t, live[i], between[i]));
        matrix_free(&between[i]);
    }
    assert_ok(tape_backward(t, p->store, made));
    assert_false(matrix_exists(tape_gradient(t, p->g->input)));
    matrix_free(&seed);
    matrix_free(&none);
    tape_free(t);
    return made;
}

/* The first and the last piece of this network both read the table of its tokens. */
TEST(pieces_give_the_gradients_of_the_network_at_once)
{
    enum { SEQUENCES = 2, LENGTH = 7 };
    int32_t ids[SEQUENCES * LENGTH];
    OWNED(grail_model) *model = NULL;
    int begin = 0;
    int end = 0;
    probe p = {.shape = sequence_batch(SEQUENCES, LENGTH), .input = {.ids = ids}};
    assert_ok(grail_model_open(GRAIL_SOURCE_DIR "/tests/golden/models/qwen2", &model));
    for (int i = 0; i < SEQUENCES * LENGTH; i++) {
        ids[i] = (int32_t)(i * 5 % model->graph->vocabulary);
    }
    p.g = model->graph;
    assert_ok(parameter_store_create(model, backend_reference(), NULL, &p.store));
    assert_ok(matrix_pool_create(backend_reference(), &p.pool));
    graph_block_range(p.g, 1, &begin, &end);
    gradient_store *whole = gradients_at_once(&p);
    gradient_store *pieces = gradients_by_pieces(&p, begin);
    for (int k = 0; k < p.g->parameter_count; k++) {
        const matrix a = gradient_of(whole, k);
        if (matrix_exists(a)) {
            const matrix b = gradient_of(pieces, k);
            const double size = sum_of_products(a, a);
            assert_near(sum_of_products(a, b), size, 1e-12 * size);
            assert_near(sum_of_products(b, b), size, 1e-12 * size);
        }
    }
    gradient_store_free(whole);
    gradient_store_free(pieces);
    matrix_pool_free(p.pool);
    parameter_store_free(p.store);
}
