#include "hand_network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void hand_begin(hand_network *n)
{
    *n = (hand_network){.view = {.name = "hand", .dtype = GRAIL_DTYPE_F32}};
    assert_ok(graph_create(&n->g));
    n->g->input_kind = INPUT_IMAGES;
}

static int64_t elements_of(const graph_parameter *p)
{
    int64_t count = 1;
    for (int i = 0; i < p->rank; i++) {
        count *= p->shape[i];
    }
    return count;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Matrices and kernels keep the size of what goes through them; scales lie around 1. */
static void draw(hand_network *n, int index)
{
    const graph_parameter *p = &n->g->parameters[index];
    const int64_t count = elements_of(p);
    const double deviation = p->rank > 1 ? sqrt((double)p->shape[0] / (double)count) : 0.3;
    const double centre = p->rank == 1 && ends_with(p->name, "weight") ? 1.0 : 0.0;
    OWNED(float) *values = NULL;
    assert_ok(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    support_fill_normal(values, count, (uint64_t)index + 1);
    for (int64_t i = 0; i < count; i++) {
        const double drawn = centre + deviation * (double)values[i];
        values[i] = (float)(ends_with(p->name, "variance") ? drawn * drawn + 0.5 : drawn);
    }
    assert_ok(parameter_store_set(n->store, index, p->shape, values));
}

void hand_end(hand_network *n, backend *b, int output)
{
    assert_ok(graph_finish(n->g, output));
    n->model.graph = n->g;
    assert_ok(
        memory_new(&n->model.tensors, (size_t)n->g->parameter_count, sizeof n->model.tensors[0]));
    for (int p = 0; p < n->g->parameter_count; p++) {
        n->model.tensors[p] = &n->view;
    }
    assert_ok(parameter_store_create(&n->model, b, NULL, &n->store));
    for (int p = 0; p < n->g->parameter_count; p++) {
        draw(n, p);
    }
    assert_ok(matrix_pool_create(b, &n->pool));
    assert_ok(execution_create(n->g, b, n->pool, &n->e));
}

void hand_fini(hand_network *n)
{
    execution_free(n->e);
    matrix_pool_free(n->pool);
    parameter_store_free(n->store);
    memory_free(n->model.tensors);
    graph_free(n->g);
    *n = (hand_network){0};
}

static int parameter(hand_network *n, const char *name, const char *suffix, int rank,
                     const int64_t shape[])
{
    char full[64];
    int index = 0;
    snprintf(full, sizeof full, "%s.%s", name, suffix);
    assert_ok(graph_add_parameter(n->g, full, rank, shape, &index));
    return index;
}

static int add(hand_network *n, const node *added)
{
    int value = 0;
    assert_ok(graph_add_node(n->g, added, &value));
    return value;
}

int hand_conv(hand_network *n, const char *name, int64_t in, int64_t out, window2d window,
              bool bias, int x)
{
    node c = node_of(NODE_CONV2D, 0, x, GRAPH_NONE);
    const int64_t shape[4] = {out, in, window.height.kernel, window.width.kernel};
    c.window = window;
    c.weight = parameter(n, name, "weight", 4, shape);
    c.bias = bias ? parameter(n, name, "bias", 1, shape) : GRAPH_NONE;
    return add(n, &c);
}

int hand_norm(hand_network *n, node_kind kind, const char *name, int64_t channels, int x)
{
    node m = node_of(kind, 0, x, GRAPH_NONE);
    m.norm.epsilon = 1e-5;
    m.weight = parameter(n, name, "weight", 1, &channels);
    m.bias = parameter(n, name, "bias", 1, &channels);
    if (kind == NODE_BATCH_NORM) {
        m.mean = parameter(n, name, "mean", 1, &channels);
        m.variance = parameter(n, name, "variance", 1, &channels);
    }
    return add(n, &m);
}

int hand_linear(hand_network *n, const char *name, int64_t in, int64_t out, int x)
{
    node l = node_of(NODE_LINEAR, 0, x, GRAPH_NONE);
    const int64_t shape[2] = {out, in};
    l.weight = parameter(n, name, "weight", 2, shape);
    l.bias = parameter(n, name, "bias", 1, shape);
    return add(n, &l);
}

int hand_plain(hand_network *n, node_kind kind, int left, int right)
{
    const node p = node_of(kind, 0, left, right);
    return add(n, &p);
}

int hand_route(hand_network *n, int64_t chosen, bool over_all, int scores)
{
    node r = node_of(NODE_ROUTE, 0, scores, GRAPH_NONE);
    r.route = (route_attributes){.chosen = chosen, .over_all = over_all};
    return add(n, &r);
}

int hand_take_rows(hand_network *n, int64_t output, int shares, int x)
{
    node t = node_of(NODE_TAKE_ROWS, 0, x, shares);
    t.share = output;
    return add(n, &t);
}

int hand_put_rows(hand_network *n, int64_t output, int shares, int rows, int sum)
{
    node p = node_of(NODE_PUT_ROWS, 0, rows, shares);
    p.inputs[p.input_count++] = sum;
    p.share = output;
    return add(n, &p);
}

int hand_activation(hand_network *n, activation_kind kind, int x)
{
    node a = node_of(NODE_ACTIVATION, 0, x, GRAPH_NONE);
    a.activation = kind;
    return add(n, &a);
}

int hand_concat(hand_network *n, int first, int second, int third)
{
    node c = node_of(NODE_CONCAT, 0, first, second);
    if (third != GRAPH_NONE) {
        c.inputs[c.input_count++] = third;
    }
    return add(n, &c);
}

int hand_slice(hand_network *n, int64_t first, int64_t length, int x)
{
    node s = node_of(NODE_SLICE, 0, x, GRAPH_NONE);
    s.slice = (slice_attributes){.first = first, .length = length};
    return add(n, &s);
}

int hand_zeros(hand_network *n, int64_t channels, int x)
{
    node z = node_of(NODE_ZEROS, 0, x, GRAPH_NONE);
    z.zeros = channels;
    return add(n, &z);
}

int hand_token(hand_network *n, node_kind kind, const char *name, int64_t positions, int64_t width,
               int x)
{
    node t = node_of(kind, 0, x, GRAPH_NONE);
    const int64_t shape[2] = {positions, width};
    t.weight = kind == NODE_CLASS_TOKEN ? parameter(n, name, "token", 1, &width)
                                        : parameter(n, name, "positions", 2, shape);
    return add(n, &t);
}

float *hand_run(hand_network *n, int64_t samples, extent image, const float *pixels)
{
    float *out = NULL;
    const batch_shape shape = {.samples = samples, .positions = image};
    assert_ok(execution_begin(n->e, shape, (batch_input){.pixels = pixels}));
    assert_ok(execution_run(n->e, n->store, 0, n->g->node_count));
    const matrix y = execution_value(n->e, n->g->output);
    assert_ok(memory_new_unset(&out, (size_t)matrix_count(y), sizeof out[0]));
    assert_ok(matrix_download_f32(y, out));
    return out;
}

float *hand_pixels(int64_t samples, extent image, uint64_t seed)
{
    const int64_t count = samples * image.height * image.width * IMAGE_CHANNELS;
    float *pixels = NULL;
    assert_ok(memory_new_unset(&pixels, (size_t)count, sizeof pixels[0]));
    support_fill_normal(pixels, count, seed);
    return pixels;
}

void hand_set(hand_network *n, const char *name, const float *values)
{
    const int index = graph_find_parameter(n->g, name);
    assert_true(index >= 0);
    assert_ok(parameter_store_set(n->store, index, n->g->parameters[index].shape, values));
}
