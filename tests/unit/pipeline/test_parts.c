/* Runs on networks whose values have parts: branches side by side, slices that go their own ways,
 * and fused maps; and on ones whose windows move along each axis in a way of its own, or convolve
 * in groups. They are of a
 * family of the test alone, which reads shapes from the tensors and runs of channels from the
 * configuration. */
#include "vision_sites.h"

#include "base/random.h"
#include "graph/operators.h"
#include "pipeline/request/narrowed.h"
#include "planning/cost_table.h"

#include <grail/plan.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NETS = 6, HEAD_DIM = 4 };
static const char *const nets[NETS] = {"beside", "split", "fused", "uneven", "grouped", "branched"};

/* -- the family -------------------------------------------------------------------------------- */

static const extent none; /* of a parameter that is no kernel */

typedef struct building {
    graph *g;
    const json_t *config;
    const checkpoint *weights; /* NULL: shapes are those that the caller gives, and are listed */
    vision_model *listed;
    int slices;
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

enum { GROUPS = 3, GROUP_IN = 4, GROUP_OUT = 6 };

/* A convolution in groups, or one for each of them, whose outputs stand side by side. */
static int convolve_groups(building *b, bool apart, int x)
{
    static const char *const names[] = {"group0", "group1", "group2"};
    int made[GROUPS];
    node n = node_of(NODE_CONV2D, 0, x, GRAPH_NONE);
    n.window = (window2d)WINDOW2D(3, 3, 2, 1, 1);
    if (!apart) {
        n.weight =
            parameter(b, "groups", "weight", 4, GROUPS * GROUP_OUT, GROUP_IN, (extent){3, 3});
        n.groups = GROUPS;
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

enum { WIDTH = 12, INNER = 10 };

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
    for (int i = 0; i < narrowed->node_count; i++) {
        const node *n = &narrowed->nodes[i];
        if (n->kind == NODE_SLICE) {
            json_array_append_new(slices, json_pack("[I,I]", (json_int_t)n->slice.first,
                                                    (json_int_t)n->slice.length));
        }
    }
    return json_object_set_new(config, "slices", slices) == 0 ? GRAIL_OK : GRAIL_ERROR_MEMORY;
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

static void make(vision_model *m, const char *net)
{
    building b = {.listed = m};
    *m = (vision_model){.config = json_pack("{s:s, s:s}", "model_type", "parts", "net", net)};
    build_net(&b, net);
    graph_free(b.g);
    for (int i = 0; i < m->count; i++) {
        fill(&m->tensors[i], (uint64_t)i + 7);
    }
}

static const char *written(const vision_lab *v, const char *net)
{
    vision_model m;
    make(&m, net);
    vision_write(&m, vision_path(v, "dense"));
    vision_fini(&m);
    return vision_path(v, "dense");
}

/* Rows and channels of odd units of a network's sites become those of the unit before. */
static void copy_units(vision_model *m, const graph *g, const site *s, const site_end *end)
{
    int used[NODE_MAX_PARAMETERS];
    const int count = node_parameters(&g->nodes[end->node], used);
    for (int i = 0; i < count; i++) {
        vision_tensor *t = vision_find(m, g->parameters[used[i]].tensor);
        const int64_t row = vision_elements(t) / t->shape.shape[0];
        const int64_t unit = row * end->features_per_unit;
        for (int64_t j = 1; j < s->units; j += 2) {
            float *to = t->values + end->first * row + j * unit;
            memcpy(to, to - unit, (size_t)unit * sizeof *to);
        }
    }
}

/* The same of the columns of a consumer. */
static void copy_columns(vision_model *m, const graph *g, const site *s, const site_end *end)
{
    vision_tensor *t = vision_find(m, g->parameters[g->nodes[end->node].weight].tensor);
    const int64_t width = vision_elements(t) / t->shape.shape[0];
    const int64_t taps = width / t->shape.shape[1];
    const int64_t unit = end->features_per_unit * taps;
    const int64_t units = s->units / node_groups(&g->nodes[end->node]); /* that a row reads */
    for (int64_t r = 0; r < t->shape.shape[0]; r++) {
        for (int64_t j = 1; j < units; j += 2) {
            float *to = t->values + r * width + end->first * taps + j * unit;
            memcpy(to, to - unit, (size_t)unit * sizeof *to);
        }
    }
}

/* Every second unit of every site is the one before it. */
static const char *doubled(const vision_lab *v, const char *net)
{
    vision_model m;
    grail_model *model = vision_model_open(written(v, net));
    grail_site_list *sites = NULL;
    make(&m, net);
    assert_ok(grail_model_sites(model, GRAIL_GQA_KV_GROUPS, &sites));
    for (int i = 0; i < sites->list.count; i++) {
        const site *s = &sites->list.sites[i];
        for (int k = 0; k < s->producer_count; k++) {
            copy_units(&m, model->graph, s, &s->producers[k]);
        }
        for (int k = 0; k < s->channel_count; k++) {
            copy_units(&m, model->graph, s, &s->channels[k]);
        }
        for (int k = 0; k < s->consumer_count; k++) {
            copy_columns(&m, model->graph, s, &s->consumers[k]);
        }
    }
    vision_write(&m, vision_path(v, "doubled"));
    vision_fini(&m);
    grail_site_list_free(sites);
    grail_model_close(model);
    return vision_path(v, "doubled");
}

/* -- tests ------------------------------------------------------------------------------------- */

VISION_TEST(nothing_cut_changes_no_byte)
{
    for (int i = 0; i < NETS; i++) {
        vision_model m;
        const char *model = lab_path_of(&v->l, "dense-%d", i);
        const char *output = lab_path_of(&v->l, "same-%d", i);
        make(&m, nets[i]);
        vision_write(&m, model);
        vision_fini(&m);
        grail_compress_options options = vision_options(v, model, output);
        options.fit.compensate = "full";
        options.fit.refit = "all";
        assert_ok(lab_compress(&options));
        assert_same_checkpoint(model, output);
    }
}

/* Widths are the first site's and then one site's after the other. */
static void assert_costs(const grail_model *m, const site_list *sites)
{
    enum { MOST_SITES = 16 };
    plan_site planned[MOST_SITES] = {{0}};
    int64_t kept[MOST_SITES];
    const plan p = {.count = sites->count, .sites = planned};
    bool may_cut[SITE_KINDS];
    cost_table parameters = {0};
    cost_table macs = {0};
    memset(may_cut, true, sizeof may_cut);
    assert_true(sites->count <= MOST_SITES);
    assert_ok(cost_table_init(m, sites, may_cut, LIMIT_PARAMETERS, &parameters));
    assert_ok(cost_table_init(m, sites, may_cut, LIMIT_MACS, &macs));
    for (int i = 0; i < sites->count; i++) {
        kept[i] = sites->sites[i].units;
        planned[i] = (plan_site){.units = kept[i], .kept = kept[i]};
    }
    for (int i = 0; i < sites->count; i++) {
        grail_model_facts facts = {0};
        parameter_cut *cuts = NULL;
        narrowed_model narrowed = {0};
        planned[i].kept = kept[i] = kept[i] / 2;
        assert_ok(cuts_map(m->graph, sites, &p, &cuts));
        assert_ok(narrowed_describe(m, sites, &p, cuts, NULL, &narrowed));
        assert_ok(model_describe_graph(m, narrowed.graph, &facts));
        assert_true(cost_table_read(&parameters, kept) == (double)facts.parameters);
        assert_true(cost_table_read(&macs, kept) == (double)facts.macs_per_token);
        narrowed_fini(&narrowed);
        memory_free(cuts);
    }
    cost_table_fini(&parameters);
    cost_table_fini(&macs);
}

TEST(a_table_costs_what_narrowed_parts_cost)
{
    for (int i = 0; i < NETS; i++) {
        vision_lab v;
        site_list sites = {0};
        vision_open(&v);
        grail_model *m = vision_model_open(written(&v, nets[i]));
        assert_ok(sites_derive(m->graph, GQA_KV_GROUPS, &sites));
        assert_costs(m, &sites);
        site_list_fini(&sites);
        grail_model_close(m);
        vision_close(&v);
    }
}

static void assert_pruning_is_zeroing(const char *net, const char *by)
{
    vision_lab v;
    vision_model m;
    vision_open(&v);
    const char *model = written(&v, net);
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = by;
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    make(&m, net);
    assert_pruned_is_zeroed(&v, &m, model, options.output.path);
    vision_fini(&m);
    assert_true(vision_difference(&v, options.output.path, model) > 0.01); /* the cut shows */
    vision_close(&v);
}

TEST(pruning_without_repair_equals_zeroing_the_consumers_columns)
{
    static const char *const selectors[] = {"magnitude-l1", "wanda", "obs"};
    for (int i = 0; i < NETS; i++) {
        for (int s = 0; s < 3; s++) {
            assert_pruning_is_zeroing(nets[i], selectors[s]);
        }
    }
}

static const char *const modes[] = {"none", "grail", "full"};
static const char by_channel[] = "full, one map for all taps";

/* Half of everything; the ridge of the paper shrinks towards zero, by as much as alpha says. */
static void assert_lossless(const char *net, const char *by, const char *mode, bool open)
{
    vision_lab v;
    vision_open(&v);
    const char *model = doubled(&v, net);
    grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = by;
    options.fit.compensate = mode == by_channel ? "full" : mode;
    options.fit.conv_fit = mode == by_channel ? "channel" : NULL;
    options.fit.open_loop = open;
    options.amount.sparsity_heads = open ? 0.0 : 0.5; /* folded ones must be observed */
    if (strcmp(mode, "grail") == 0) {
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
    }
    assert_ok(lab_compress(&options));
    assert_near(vision_difference(&v, model, options.output.path), 0.0, 5e-4);
    vision_close(&v);
}

TEST(doubled_units_fold_without_loss)
{
    for (int i = 0; i < NETS; i++) {
        for (int m = 0; m < 3; m++) {
            assert_lossless(nets[i], "fold", modes[m], false);
        }
        assert_lossless(nets[i], "fold", "grail", true);
    }
}

/* What one of two equal units added, the fit gives the other one. */
TEST(doubled_units_are_pruned_without_loss_once_fitted)
{
    for (int i = 0; i < NETS; i++) {
        assert_lossless(nets[i], "obs", "grail", false);
        assert_lossless(nets[i], "obs", "full", false);
        assert_lossless(nets[i], "obs", by_channel, false);
        assert_lossless(nets[i], "obs", "grail", true);
    }
}

/* Both sites of a consumer are fitted, the second one to what the first has left of the dense
 * output. */
TEST(fits_of_parts_come_nearer_to_the_dense_network)
{
    static const char *const all[] = {"grail", "full"};
    for (int i = 0; i < 2; i++) {
        vision_lab v;
        vision_open(&v);
        const char *model = written(&v, nets[i]);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "none"));
        vision_cut(&options, 0.5);
        options.cut.selector = "magnitude-l1";
        options.fit.compensate = "none";
        assert_ok(lab_compress(&options));
        const double plain = vision_difference(&v, model, options.output.path);
        for (int m = 0; m < 2; m++) {
            options.output.path = vision_path(&v, all[m]);
            options.fit.compensate = all[m];
            assert_ok(lab_compress(&options));
            assert_true(vision_difference(&v, model, options.output.path) < 0.6 * plain);
        }
        vision_close(&v);
    }
}

/* The rows of the fused maps of one network, in the tensors of the other. */
static const char *written_apart(const vision_lab *v)
{
    static const struct {
        const char *name, *fused;
        int64_t first;
    } rows[] = {{"q", "qkv", 0},
                {"k", "qkv", 4 * HEAD_DIM},
                {"v", "qkv", 6 * HEAD_DIM},
                {"gate", "gate_up", 0},
                {"up", "gate_up", INNER}};
    vision_model fused;
    vision_model m;
    make(&fused, "fused");
    make(&m, "apart");
    for (int i = 0; i < m.count; i++) {
        vision_tensor *t = &m.tensors[i];
        const size_t length = strcspn(t->shape.name, ".");
        char from[64];
        int64_t first = 0;
        snprintf(from, sizeof from, "%s", t->shape.name);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            if (strlen(rows[r].name) == length && strncmp(rows[r].name, from, length) == 0) {
                snprintf(from, sizeof from, "%s%s", rows[r].fused, t->shape.name + length);
                first = rows[r].first;
                break;
            }
        }
        const int64_t row = vision_elements(t) / t->shape.shape[0];
        memcpy(t->values, vision_find(&fused, from)->values + first * row,
               (size_t)vision_elements(t) * sizeof t->values[0]);
    }
    vision_write(&m, vision_path(v, "apart"));
    vision_fini(&m);
    vision_fini(&fused);
    return vision_path(v, "apart");
}

/* Whether one tensor holds several maps changes nothing. */
TEST(fused_maps_are_narrowed_like_separate_ones)
{
    static const char *const selectors[] = {"magnitude-l2", "wanda", "obs", "fold"};
    for (int i = 0; i < 4 * 3; i++) {
        vision_lab v;
        vision_open(&v);
        const char *apart = written_apart(&v);
        const char *model = written(&v, "fused");
        assert_near(vision_difference(&v, apart, model), 0.0, 1e-5);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        vision_cut(&options, 0.5);
        options.cut.selector = selectors[i / 3];
        options.fit.compensate = modes[i % 3];
        if (i % 3 == 2) { /* what is chosen for each tensor */
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
            options.fit.target = "dense";
        }
        assert_ok(lab_compress(&options));
        options.read.model = apart;
        options.output.path = vision_path(&v, "narrow-apart");
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, vision_path(&v, "narrow"), options.output.path), 0.0,
                    1e-4);
        vision_close(&v);
    }
}

/* "grouped" with the rows of each group in a tensor of its own. */
static const char *written_in_groups(const vision_lab *v)
{
    vision_model together;
    vision_model m;
    make(&together, "grouped");
    make(&m, "grouped-apart");
    const float *rows = vision_find(&together, "groups.weight")->values;
    for (int i = 0; i < m.count; i++) {
        vision_tensor *t = &m.tensors[i];
        const bool is_group = strncmp(t->shape.name, "group", 5) == 0 && t->shape.name[5] != 's';
        const float *from = is_group ? rows + (t->shape.name[5] - '0') * vision_elements(t)
                                     : vision_find(&together, t->shape.name)->values;
        memcpy(t->values, from, (size_t)vision_elements(t) * sizeof t->values[0]);
    }
    vision_write(&m, vision_path(v, "apart"));
    vision_fini(&m);
    vision_fini(&together);
    return vision_path(v, "apart");
}

static int64_t rows_of_tensor(const char *output, const char *name, int64_t *columns)
{
    vision_model m;
    vision_read(&m, output);
    const vision_tensor *t = vision_find(&m, name);
    const int64_t rows = t->shape.shape[0];
    *columns = t->shape.shape[1];
    vision_fini(&m);
    return rows;
}

/* A convolution in groups keeps of each group what a convolution of that group alone keeps, and its
 * weights are those of a fit for each. */
TEST(groups_are_narrowed_like_separate_convolutions)
{
    static const char *const selectors[] = {"magnitude-l2", "wanda", "obs"};
    static const grail_site_sparsity cuts[] = {{.site = "groups", .sparsity = 0.5},
                                               {.site = "group0", .sparsity = 0.5},
                                               {.site = "group1", .sparsity = 0.5},
                                               {.site = "group2", .sparsity = 0.5}};
    for (int i = 0; i < 3 * 4; i++) {
        vision_lab v;
        int64_t columns = 0;
        vision_open(&v);
        const char *apart = written_in_groups(&v);
        const char *model = written(&v, "grouped");
        assert_near(vision_difference(&v, apart, model), 0.0, 1e-5);
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        options.amount.site_sparsities = cuts;
        options.amount.site_sparsity_count = 1;
        options.cut.selector = selectors[i / 4];
        options.fit.compensate = i % 4 == 3 ? "full" : modes[i % 4];
        options.fit.conv_fit = i % 4 == 3 ? "channel" : NULL;
        if (i % 4 >= 2) { /* what is chosen for each tensor */
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
            options.fit.target = "dense";
            options.fit.bias =
                "off"; /* in a norm behind the groups, but not behind a concatenation */
        }
        assert_ok(lab_compress(&options));
        assert_int_equal(rows_of_tensor(options.output.path, "groups.weight", &columns), 18);
        assert_int_equal(columns, 2);
        options.read.model = apart;
        options.amount.site_sparsities = cuts + 1;
        options.amount.site_sparsity_count = GROUPS;
        options.output.path = vision_path(&v, "narrow-apart");
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, vision_path(&v, "narrow"), options.output.path), 0.0,
                    1e-4);
        vision_close(&v);
    }
}

/* Makes rows of every second unit from `first` on zero, in weight and bias of a norm as well. */
static void clear_units(vision_model *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        vision_tensor *t = &m->tensors[i];
        const char *end = strrchr(t->shape.name, '.');
        if ((size_t)(end - t->shape.name) != strlen(name) ||
            strncmp(t->shape.name, name, strlen(name)) != 0 || strcmp(end, ".variance") == 0) {
            continue;
        }
        const int64_t row = vision_elements(t) / t->shape.shape[0];
        for (int64_t j = 1; j < t->shape.shape[0]; j += 2) {
            memset(t->values + j * row, 0, (size_t)row * sizeof t->values[0]);
        }
    }
}

/* Channels that are always zero go, and nothing changes. */
TEST(zero_channels_of_groups_go_without_a_change)
{
    static const char *const selectors[] = {"magnitude-l1", "wanda", "obs"};
    for (int i = 0; i < 3 * 3; i++) {
        vision_lab v;
        vision_model m;
        vision_open(&v);
        make(&m, "grouped");
        clear_units(&m, "first");
        clear_units(&m, "groups");
        clear_units(&m, "groups.bn");
        vision_write(&m, vision_path(&v, "dense"));
        vision_fini(&m);
        const char *model = vision_path(&v, "dense");
        grail_compress_options options = vision_options(&v, model, vision_path(&v, "narrow"));
        static const grail_site_sparsity halves[] = {{.site = "groups", .sparsity = 0.5},
                                                     {.site = "last", .sparsity = 0.5}};
        options.amount.site_sparsities = halves;
        options.amount.site_sparsity_count = 2;
        options.cut.selector = selectors[i / 3];
        options.fit.compensate = modes[i % 3];
        if (i % 3 == 1) {
            options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
        }
        assert_ok(lab_compress(&options));
        assert_near(vision_difference(&v, model, options.output.path), 0.0, 1e-5);
        vision_close(&v);
    }
}

/* Folding has no place for merged channels among those of a group. */
VISION_TEST(channels_of_groups_are_not_folded)
{
    int64_t columns = 0;
    grail_compress_options options =
        vision_options(v, written(v, "grouped"), vision_path(v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = "fold";
    assert_ok(lab_compress(&options));
    assert_int_equal(rows_of_tensor(options.output.path, "groups.weight", &columns), 18);
    assert_int_equal(columns, 4);
    static const grail_site_sparsity half = {.site = "groups", .sparsity = 0.5};
    options.amount.site_sparsities = &half;
    options.amount.site_sparsity_count = 1;
    options.output.path = vision_path(v, "other");
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "site 'groups': channels of a convolution in groups cannot be folded, since each "
                 "group keeps its own; choose a selector that keeps units");
}

/* Curves of the dense network's sites, parts and groups among them, and of those that stay whole.
 */
TEST(widths_of_parts_follow_from_their_curves)
{
    for (int i = 0; i < NETS; i++) {
        vision_lab v;
        grail_plan *made = NULL;
        grail_plan_options options;
        vision_open(&v);
        grail_plan_options_init(&options);
        options.compress = vision_options(&v, written(&v, nets[i]), NULL);
        options.limit = "params";
        options.ratio = 0.95;
        options.budget = "error";
        assert_ok(grail_plan_make(&options, &made));
        grail_plan_free(made);
        vision_close(&v);
    }
}

/* Sets row `unit` of a tensor. */
static void set_unit(vision_model *m, const char *name, int64_t unit, float value)
{
    vision_tensor *t = vision_find(m, name);
    const int64_t row = vision_elements(t) / t->shape.shape[0];
    for (int64_t i = 0; i < row; i++) {
        t->values[unit * row + i] = value;
    }
}

/* The last unit of the branch, which stands last in what "out" reads, is large and constant, and
 * first to go; with it, the first half of "out" would score highest, without it lowest. */
static void make_misleading(vision_model *m)
{
    make(m, "split-on");
    set_unit(m, "branch.weight", 5, 1e-4F);
    set_unit(m, "branch.bn.bias", 5, 1000.0F);
    vision_tensor *out = vision_find(m, "out.weight"); /* [12, 22, 3, 3] */
    for (int64_t i = 0; i < vision_elements(out); i++) {
        const int64_t row = i / (22 * 9);
        const bool of_last = i / 9 % 22 == 21;
        out->values[i] = of_last == (row < 6) ? 1.0F : 0.01F;
    }
}

/* Decisions in an open loop leave out the removed units of every part of what a producer reads. */
VISION_TEST(removed_units_of_later_parts_count_nothing)
{
    vision_model dense;
    vision_model narrow;
    make_misleading(&dense);
    vision_write(&dense, vision_path(v, "dense"));
    grail_compress_options options =
        vision_options(v, vision_path(v, "dense"), vision_path(v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = "wanda";
    options.fit.compensate = "none";
    options.fit.open_loop = 1;
    assert_ok(lab_compress(&options));
    vision_read(&narrow, options.output.path);
    const vision_tensor *out = vision_find(&narrow, "out.weight");
    assert_int_equal(out->shape.shape[0], 6);
    for (int64_t i = 0; i < 6; i++) {
        assert_true(fabsf(out->values[i * (vision_elements(out) / 6)]) > 0.5F);
    }
    vision_fini(&dense);
    vision_fini(&narrow);
}

VISION_TEST(blocks_are_not_healed_where_a_part_leaves_them)
{
    grail_compress_options options =
        vision_options(v, written(v, "beside"), vision_path(v, "narrow"));
    vision_cut(&options, 0.5);
    options.cut.selector = "magnitude-l1";
    options.heal.what = "block";
    options.heal.steps = 2;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "cuts a part of a value that leaves it; heal the network instead");
}

TEST(gradients_of_parts_are_refused)
{
    vision_lab v;
    vision_open(&v);
    grail_compress_options options =
        vision_options(&v, written(&v, "fused"), vision_path(&v, "narrow"));
    options.amount.sparsity_ffn = 0.5;
    options.cut.selector = "wanda++";
    assert_int_equal(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED);
    assert_non_null(strstr(grail_error_message(), "'down'"));
    assert_non_null(strstr(grail_error_message(), "is a part of what some read or make"));
    vision_close(&v);
}
