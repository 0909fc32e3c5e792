#include "parts_networks.h"

#include "graph/operators.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const parts_networks[PARTS_NETWORKS] = {"beside",  "split",    "fused",  "uneven",
                                                    "grouped", "branched", "widened"};

/* -- the family -------------------------------------------------------------------------------- */

static const extent none; /* of a parameter that is no kernel */

typedef struct building {
    graph *g;
    const json_t *config;
    const checkpoint *weights; /* NULL: shapes are those that the caller gives, and are listed */
    vision_model *listed;
    int slices, zeros;
} building;

static int parameter(building *b, const char *name, const char *suffix, int rank, int64_t rows,
                     int64_t columns, extent kernel)
{
    char full[64];
    int index = 0;
    int64_t shape[4] = {rows, columns, kernel.height, kernel.width};
    snprintf(full, sizeof full, "%s.%s", name, suffix);
    if (b->weights != NULL) {
        memcpy(shape, checkpoint_find(b->weights, full)->shape, (size_t)rank * sizeof shape[0]);
    } else if (graph_find_parameter(b->g, full) == GRAPH_NONE) {
        vision_tensor *t = &b->listed->tensors[b->listed->count++];
        t->shape = (lab_shape){.dtype = GRAIL_DTYPE_F32, .rank = rank};
        snprintf(t->shape.name, sizeof t->shape.name, "%s", full);
        memcpy(t->shape.shape, shape, (size_t)rank * sizeof shape[0]);
    }
    assert_ok(graph_add_parameter(b->g, full, rank, shape, &index));
    return index;
}

static int add(building *b, const node *n)
{
    int value = 0;
    assert_ok(graph_add_node(b->g, n, &value));
    return value;
}

static int conv_by(building *b, const char *name, int64_t in, int64_t out, window2d window, int x)
{
    const extent kernel = {window.height.kernel, window.width.kernel};
    node n = node_of(NODE_CONV2D, 0, x, GRAPH_NONE);
    n.weight = parameter(b, name, "weight", 4, out, in, kernel);
    n.window = window;
    return add(b, &n);
}

static int conv(building *b, const char *name, int64_t in, int64_t out, int64_t kernel,
                int64_t stride, int x)
{
    const window2d window = WINDOW2D(kernel, kernel, stride, kernel / 2, 1);
    return conv_by(b, name, in, out, window, x);
}

static int norm(building *b, const char *name, int64_t width, int x)
{
    node n = node_of(NODE_BATCH_NORM, 0, x, GRAPH_NONE);
    n.weight = parameter(b, name, "weight", 1, width, 0, none);
    n.bias = parameter(b, name, "bias", 1, width, 0, none);
    n.mean = parameter(b, name, "mean", 1, width, 0, none);
    n.variance = parameter(b, name, "variance", 1, width, 0, none);
    n.norm.epsilon = 1e-5;
    return add(b, &n);
}

static int linear(building *b, const char *name, int64_t in, int64_t out, int x)
{
    node n = node_of(NODE_LINEAR, 0, x, GRAPH_NONE);
    n.weight = parameter(b, name, "weight", 2, out, in, none);
    n.bias = parameter(b, name, "bias", 1, out, 0, none);
    return add(b, &n);
}

static int plain(building *b, node_kind kind, int left, int right)
{
    const node n = node_of(kind, 0, left, right);
    return add(b, &n);
}

static int relu(building *b, int x)
{
    return plain(b, NODE_ACTIVATION, x, GRAPH_NONE);
}

static int concat(building *b, int x, int y, int z)
{
    node n = node_of(NODE_CONCAT, 0, x, y);
    if (z != GRAPH_NONE) {
        n.inputs[n.input_count++] = z;
    }
    return add(b, &n);
}

/* A narrowed network's run is the one that its configuration has. */
static int slice(building *b, int64_t first, int64_t length, int x)
{
    node n = node_of(NODE_SLICE, 0, x, GRAPH_NONE);
    const json_t *own = json_array_get(json_object_get(b->config, "slices"), (size_t)b->slices++);
    n.slice = (slice_attributes){.first = first, .length = length};
    if (own != NULL) {
        n.slice.first = json_integer_value(json_array_get(own, 0));
        n.slice.length = json_integer_value(json_array_get(own, 1));
    }
    return add(b, &n);
}

static int zeros(building *b, int64_t channels, int x)
{
    node n = node_of(NODE_ZEROS, 0, x, GRAPH_NONE);
    const json_t *own = json_array_get(json_object_get(b->config, "zeros"), (size_t)b->zeros++);
    n.zeros = own == NULL ? channels : json_integer_value(own);
    return add(b, &n);
}

/* A residual stream that zeros make wider, before and behind; others stay zeros, which stay. */
static int widened(building *b)
{
    const int x = relu(b, norm(b, "in.bn", 8, conv(b, "in", 3, 8, 3, 2, b->g->input)));
    const int one = conv(b, "one.b", 6, 8, 3, 1, relu(b, conv(b, "one.a", 8, 6, 3, 1, x)));
    const int y = relu(b, plain(b, NODE_ADD, x, one));
    const int wide = concat(b, zeros(b, 4, y), y, zeros(b, 6, y));
    const int two = conv(b, "two.b", 6, 18, 3, 1, relu(b, conv(b, "two.a", 8, 6, 3, 1, y)));
    const int z = relu(b, plain(b, NODE_ADD, wide, two));
    const int all = concat(b, z, zeros(b, 2, z), GRAPH_NONE);
    const int out = relu(b, conv(b, "out", 20, 12, 3, 2, all));
    return linear(b, "head", 12, VISION_CLASSES, plain(b, NODE_MEAN, out, GRAPH_NONE));
}

/* Two branches and a pooled input side by side, a norm over them, and one that is read alone, too.
 */
static int beside(building *b)
{
    const int left = relu(b, norm(b, "left.bn", 8, conv(b, "left", 3, 8, 3, 2, b->g->input)));
    const int right = relu(b, norm(b, "right.bn", 6, conv(b, "right", 3, 6, 1, 2, b->g->input)));
    const int all = relu(b, norm(b, "all.bn", 14, concat(b, left, right, GRAPH_NONE)));
    const int next = relu(b, norm(b, "next.bn", 10, conv(b, "next", 14, 10, 3, 1, all)));
    const int more = conv(b, "more", 6, 10, 1, 1, right);
    const int last = concat(b, plain(b, NODE_ADD, next, more), left, GRAPH_NONE);
    return linear(b, "head", 18, VISION_CLASSES, plain(b, NODE_MEAN, last, GRAPH_NONE));
}

/* Half of the channels pass, half go through a branch, and all three come together; where they go
 * on, a convolution reads the one that reads them. */
static int split(building *b, bool go_on)
{
    const int x = relu(b, norm(b, "in.bn", 16, conv(b, "in", 3, 16, 3, 2, b->g->input)));
    const int passes = slice(b, 0, 8, x);
    const int goes = slice(b, 8, 8, x);
    const int made = relu(b, norm(b, "branch.bn", 6, conv(b, "branch", 8, 6, 3, 1, goes)));
    const int all = concat(b, passes, goes, made);
    int out = relu(b, conv(b, "out", 22, 12, 3, 2, all));
    out = go_on ? relu(b, conv(b, "last", 12, 12, 1, 1, out)) : out;
    return linear(b, "head", 12, VISION_CLASSES, plain(b, NODE_MEAN, out, GRAPH_NONE));
}

/* Strides, dilation and padding of one axis alone, more behind than before. */
static int uneven(building *b)
{
    const window2d down = {{3, 2, 1, 0, 1}, {3, 1, 1, 1, 1}, false};
    const window2d across = {{1, 1, 1, 0, 0}, {3, 2, 2, 2, 1}, false};
    const window2d point = {{1, 1, 1, 0, 0}, {1, 1, 1, 0, 1}, false};
    int x = relu(b, norm(b, "in.bn", 12, conv_by(b, "in", 3, 12, down, b->g->input)));
    x = relu(b, conv_by(b, "next", 12, 10, across, x));
    node pool = node_of(NODE_AVERAGE_POOL, 0, x, GRAPH_NONE);
    pool.window = (window2d){{2, 1, 1, 0, 0}, {3, 2, 1, 0, 1}, false};
    x = relu(b, conv_by(b, "point", 10, 14, point, add(b, &pool)));
    return linear(b, "head", 14, VISION_CLASSES, plain(b, NODE_MEAN, x, GRAPH_NONE));
}

/* A convolution in groups, or one for each of them, whose outputs stand side by side. */
static int convolve_groups(building *b, bool apart, int x)
{
    static const char *const names[] = {"group0", "group1", "group2"};
    int made[GROUPS];
    node n = node_of(NODE_CONV2D, 0, x, GRAPH_NONE);
    n.window = (window2d)WINDOW2D(3, 3, 2, 1, 1);
    if (!apart) { /* as many groups as are left of what is made before the activation */
        const int before = b->g->nodes[b->g->node_count - 2].weight;
        n.weight =
            parameter(b, "groups", "weight", 4, GROUPS * GROUP_OUT, GROUP_IN, (extent){3, 3});
        n.groups = b->g->parameters[before].shape[0] / b->g->parameters[n.weight].shape[1];
        return add(b, &n);
    }
    for (int i = 0; i < GROUPS; i++) {
        n.inputs[0] = slice(b, i * GROUP_IN, GROUP_IN, x);
        n.weight = parameter(b, names[i], "weight", 4, GROUP_OUT, GROUP_IN, (extent){3, 3});
        made[i] = add(b, &n);
    }
    return concat(b, made[0], made[1], made[2]);
}

/* Convolutions around one of three groups; with a branch what it reads is read once more, later. */
static int grouped(building *b, bool apart, bool branches)
{
    int x = relu(b, norm(b, "in.bn", 8, conv(b, "in", 3, 8, 3, 2, b->g->input)));
    x = relu(b, conv(b, "first", 8, 12, 1, 1, x));
    const int read = x;
    x = relu(b, norm(b, "groups.bn", 18, convolve_groups(b, apart, x)));
    x = norm(b, "last.bn", 10, conv(b, "last", 18, 10, 1, 1, x));
    x = relu(b, branches ? plain(b, NODE_ADD, conv(b, "more", 12, 10, 1, 2, read), x) : x);
    return linear(b, "head", 10, VISION_CLASSES, plain(b, NODE_MEAN, x, GRAPH_NONE));
}

/* `fused` maps for queries, keys and values, with two query heads to a key head, and for gate and
 * up; or one map for each. */
static int tower(building *b, bool fused)
{
    const int64_t heads[3] = {4 * HEAD_DIM, 2 * HEAD_DIM, 2 * HEAD_DIM};
    int made[3];
    int x = conv(b, "in", 3, WIDTH, 8, 8, b->g->input);
    const int qkv = fused ? linear(b, "qkv", WIDTH, 8 * HEAD_DIM, x) : GRAPH_NONE;
    for (int i = 0, first = 0; i < 3; first += (int)heads[i++]) {
        static const char *const names[] = {"q", "k", "v"};
        made[i] = fused ? slice(b, first, heads[i], qkv) : linear(b, names[i], WIDTH, heads[i], x);
    }
    node attention = node_of(NODE_ATTENTION, 0, made[0], made[1]);
    attention.inputs[attention.input_count++] = made[2];
    attention.attention =
        (attention_attributes){.head_dim = HEAD_DIM, .bidirectional = true, .scale = 0.5};
    x = plain(b, NODE_ADD, x, linear(b, "o", 4 * HEAD_DIM, WIDTH, add(b, &attention)));
    const int both = fused ? linear(b, "gate_up", WIDTH, 2 * INNER, x) : GRAPH_NONE;
    const int gate = fused ? slice(b, 0, INNER, both) : linear(b, "gate", WIDTH, INNER, x);
    const int up = fused ? slice(b, INNER, INNER, both) : linear(b, "up", WIDTH, INNER, x);
    const int product = plain(b, NODE_MULTIPLY, relu(b, gate), up);
    x = plain(b, NODE_ADD, x, linear(b, "down", INNER, WIDTH, product));
    return linear(b, "head", WIDTH, VISION_CLASSES, plain(b, NODE_MEAN, x, GRAPH_NONE));
}

static void build_net(building *b, const char *net)
{
    assert_ok(graph_create(&b->g));
    b->g->input_kind = INPUT_IMAGES;
    b->g->image = (extent){VISION_SIDE, VISION_SIDE};
    b->g->classes = VISION_CLASSES;
    const int output = strcmp(net, "beside") == 0        ? beside(b)
                       : strncmp(net, "grouped", 7) == 0 ? grouped(b, net[7] != 0, false)
                       : strcmp(net, "branched") == 0    ? grouped(b, false, true)
                       : strcmp(net, "uneven") == 0      ? uneven(b)
                       : strcmp(net, "widened") == 0     ? widened(b)
                       : strncmp(net, "split", 5) == 0   ? split(b, strcmp(net, "split-on") == 0)
                                                         : tower(b, strcmp(net, "fused") == 0);
    b->g->nodes[b->g->node_count - 1].block = 1; /* the head stands behind the only block */
    assert_ok(graph_finish(b->g, output));
}

static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    building b = {.config = config, .weights = weights};
    build_net(&b, json_string_value(json_object_get(config, "net")));
    *out = b.g;
    return GRAIL_OK;
}

static grail_status describe_narrowed(const architecture *self, const graph *narrowed,
                                      json_t *config)
{
    json_t *slices = json_array();
    json_t *channels = json_array();
    for (int i = 0; i < narrowed->node_count; i++) {
        const node *n = &narrowed->nodes[i];
        if (n->kind == NODE_SLICE) {
            json_array_append_new(slices, json_pack("[I,I]", (json_int_t)n->slice.first,
                                                    (json_int_t)n->slice.length));
        } else if (n->kind == NODE_ZEROS) {
            json_array_append_new(channels, json_integer((json_int_t)n->zeros));
        }
    }
    const bool is_set = json_object_set_new(config, "slices", slices) == 0 &&
                        json_object_set_new(config, "zeros", channels) == 0;
    return is_set ? GRAIL_OK : GRAIL_ERROR_MEMORY;
}

static grail_status judge_loaders(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts)
{
    verdicts[0] = (loader_verdict){.loader = "the test", .loads = true};
    verdicts[1] = verdicts[0];
    return GRAIL_OK;
}

static const char *preset(const json_t *config)
{
    return "cifar";
}

static const architecture family = {.name = "parts",
                                    .build = build,
                                    .preset = preset,
                                    .describe_narrowed = describe_narrowed,
                                    .judge_loaders = judge_loaders};

grail_status __wrap_architecture_find(const char *source, const json_t *config,
                                      const architecture **out);

grail_status __wrap_architecture_find(const char *source, const json_t *config,
                                      const architecture **out)
{
    *out = &family;
    return GRAIL_OK;
}

/* -- networks ---------------------------------------------------------------------------------- */

static void fill(vision_tensor *t, uint64_t seed)
{
    const int64_t count = vision_elements(t);
    const char *end = strrchr(t->shape.name, '.');
    const double deviation =
        t->shape.rank > 1 ? sqrt((double)t->shape.shape[0] / (double)count) : 0.2;
    assert_ok(memory_new(&t->values, (size_t)count, sizeof t->values[0]));
    support_fill_normal(t->values, count, seed);
    for (int64_t i = 0; i < count; i++) {
        const double drawn = deviation * (double)t->values[i];
        const bool scale = t->shape.rank == 1 && strcmp(end, ".weight") == 0;
        t->values[i] = (float)(strcmp(end, ".variance") == 0 ? 0.5 + drawn * drawn
                               : scale                       ? 1.0 + drawn
                                                             : drawn);
    }
}

void parts_make(vision_model *m, const char *net)
{
    building b = {.listed = m};
    *m = (vision_model){.config = json_pack("{s:s, s:s}", "model_type", "parts", "net", net)};
    build_net(&b, net);
    graph_free(b.g);
    for (int i = 0; i < m->count; i++) {
        fill(&m->tensors[i], (uint64_t)i + 7);
    }
}

const char *parts_written(const vision_lab *v, const char *net)
{
    OWNED(vision_model) m;
    parts_make(&m, net);
    vision_write(&m, vision_path(v, "dense"));
    return vision_path(v, "dense");
}
