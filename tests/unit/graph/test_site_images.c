/* Sites of networks that read images: channels between convolutions, residual streams with several
 * ends, and what pins them. */
#include "build.h"

#include "graph/operators.h"

#include <stdio.h>
#include <string.h>

enum { COLOURS = IMAGE_CHANNELS, WIDTH = 8, INNER = 6, NEXT = 12, CLASSES = 5 };

static graph *begin_images(void)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    g->input_kind = INPUT_IMAGES;
    return g;
}

static int relu(graph *g, int block, int x)
{
    return add_plain(g, block, NODE_ACTIVATION, x, GRAPH_NONE);
}

/* conv1, norm, relu, conv2 and norm on x; ".conv1" and so on behind the name. */
static int branch(graph *g, int block, const char *name, int64_t in, int64_t out, int64_t stride,
                  int x)
{
    char part[32];
    snprintf(part, sizeof part, "%s.conv1", name);
    int y = add_conv(g, block, part, in, INNER, 3, stride, x);
    snprintf(part, sizeof part, "%s.bn1", name);
    y = relu(g, block, add_batch_norm(g, block, part, INNER, y));
    snprintf(part, sizeof part, "%s.conv2", name);
    y = add_conv(g, block, part, INNER, out, 3, 1, y);
    snprintf(part, sizeof part, "%s.bn2", name);
    return add_batch_norm(g, block, part, out, y);
}

/* A stem, a block with an identity, one with a projection, and a head. */
static graph *residual_graph(void)
{
    graph *g = begin_images();
    int h = add_conv(g, GRAPH_NONE, "stem", COLOURS, WIDTH, 3, 1, g->input);
    h = relu(g, GRAPH_NONE, add_batch_norm(g, GRAPH_NONE, "stem.bn", WIDTH, h));
    int y = branch(g, 0, "a", WIDTH, WIDTH, 1, h);
    h = relu(g, 0, add_plain(g, 0, NODE_ADD, h, y));
    int skip = add_conv(g, 1, "project", WIDTH, NEXT, 1, 2, h);
    skip = add_batch_norm(g, 1, "project.bn", NEXT, skip);
    y = branch(g, 1, "b", WIDTH, NEXT, 2, h);
    h = relu(g, 1, add_plain(g, 1, NODE_ADD, skip, y));
    h = add_plain(g, 2, NODE_MEAN, h, GRAPH_NONE);
    assert_ok(graph_finish(g, add_linear(g, 2, "head", NEXT, CLASSES, true, h)));
    return g;
}

static site_list derive(const graph *g)
{
    site_list sites = {0};
    assert_ok(sites_derive(g, GQA_KV_GROUPS, &sites));
    return sites;
}

/* A kernel for each channel, as a depthwise convolution has: [channels, 1, 3, 3]. */
TEST(kernels_per_channel_count_with_all_their_elements)
{
    const extent positions = {.height = 5, .width = 4};
    graph *g = residual_graph();
    site_list sites = derive(g);
    const site *s = find_site(&sites, "a.conv2");
    const node *norm = &g->nodes[s->channels[0].node];
    const node *map = &g->nodes[s->producers[0].node];
    graph_parameter *kernel = &g->parameters[norm->weight];
    assert_int_equal(node_products(g, norm, positions), 0); /* a factor is no kernel */
    assert_int_equal(node_products(g, map, positions), 20 * INNER * WIDTH * 9);
    *kernel = (graph_parameter){
        .name = kernel->name, .tensor = kernel->tensor, .rank = 4, .shape = {INNER, 1, 3, 3}};
    assert_int_equal(node_products(g, norm, positions), 20 * INNER * 9);
    assert_int_equal(site_parameters_per_unit(g, s), 9 * WIDTH + 9 * WIDTH + 9 + 3);
    assert_ok(graph_finish(g, g->output)); /* its first axis is that of the channels */
    kernel->shape[0] = INNER - 1;
    assert_fails(graph_finish(g, g->output), GRAIL_ERROR_SHAPE, "a.bn1.weight expects");
    site_list_fini(&sites);
    graph_free(g);
}

TEST(a_residual_stream_is_one_site_of_all_that_add_to_it_and_read_it)
{
    graph *g = residual_graph();
    assert_sites(g, GQA_KV_GROUPS,
                 "a.conv1 stream 0, 8 units across blocks, 209 each: stem! a.conv2 > a.conv1 "
                 "project b.conv1 with stem.bn a.bn2\n"
                 "a.conv2 conv 0, 6 units, 148 each: a.conv1 > a.conv2 with a.bn1\n"
                 "b.conv2 conv 1, 6 units, 184 each: b.conv1 > b.conv2 with b.bn1\n"
                 "head stream 2, 12 units across blocks, 75 each: project b.conv2! > head with "
                 "project.bn b.bn2\n");
    graph_free(g);
}

/* A shortcut without parameters; its padded channels belong to nobody. */
static graph *shortcut_graph(int64_t pad)
{
    graph *g = begin_images();
    const int64_t out = WIDTH + 2 * pad;
    int h = add_conv(g, GRAPH_NONE, "stem", COLOURS, WIDTH, 3, 1, g->input);
    const int skip = add_shortcut(g, 0, pad, h);
    const int y = branch(g, 0, "a", WIDTH, out, 2, h);
    h = add_plain(g, 0, NODE_ADD, skip, y);
    h = add_plain(g, 1, NODE_MEAN, h, GRAPH_NONE);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", out, CLASSES, true, h)));
    return g;
}

TEST(a_shortcut_that_pads_pins_the_streams_it_joins)
{
    graph *g = shortcut_graph(2);
    assert_sites(g, GQA_KV_GROUPS,
                 "a.conv2 conv 0, 6 units, 184 each: a.conv1 > a.conv2 with a.bn1\n");
    graph_free(g);
}

TEST(a_shortcut_that_only_strides_joins_them)
{
    graph *g = shortcut_graph(0);
    assert_sites(g, GQA_KV_GROUPS,
                 "a.conv1 stream 0, 8 units across blocks, 144 each: stem! a.conv2 > a.conv1 head "
                 "with a.bn2\n"
                 "a.conv2 conv 0, 6 units, 148 each: a.conv1 > a.conv2 with a.bn1\n");
    graph_free(g);
}

/* norm and relu on the residual stream, then the convolution: the norms are cut with the stream. */
TEST(norms_on_a_stream_are_channels_of_it)
{
    graph *g = begin_images();
    int h = add_conv(g, GRAPH_NONE, "stem", COLOURS, WIDTH, 3, 1, g->input);
    int y = relu(g, 0, add_batch_norm(g, 0, "bn1", WIDTH, h));
    y = add_conv(g, 0, "conv1", WIDTH, INNER, 3, 1, y);
    y = relu(g, 0, add_batch_norm(g, 0, "bn2", INNER, y));
    y = add_conv(g, 0, "conv2", INNER, WIDTH, 3, 1, y);
    h = add_plain(g, 0, NODE_ADD, h, y);
    h = relu(g, 1, add_batch_norm(g, 1, "last", WIDTH, h));
    h = add_plain(g, 1, NODE_MEAN, h, GRAPH_NONE);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", WIDTH, CLASSES, false, h)));
    assert_sites(
        g, GQA_KV_GROUPS,
        "conv1 stream 0, 8 units across blocks, 148 each: stem! conv2 > conv1 head with bn1 last\n"
        "conv2 conv 0, 6 units, 148 each: conv1 > conv2 with bn2\n");
    graph_free(g);
}

TEST(pools_carry_channels_on)
{
    graph *g = begin_images();
    int h = add_conv(g, GRAPH_NONE, "stem", COLOURS, WIDTH, 3, 1, g->input);
    node pool = node_of(NODE_MAX_POOL, GRAPH_NONE, h, GRAPH_NONE);
    pool.window = (window2d)WINDOW2D(3, 3, 2, 1, 1);
    assert_ok(graph_add_node(g, &pool, &h));
    h = add_conv(g, 0, "conv", WIDTH, INNER, 1, 1, h);
    h = add_plain(g, 1, NODE_MEAN, h, GRAPH_NONE);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", INNER, CLASSES, false, h)));
    assert_sites(g, GQA_KV_GROUPS,
                 "conv conv 0, 8 units across blocks, 33 each: stem > conv\n"
                 "head ffn 1, 6 units across blocks, 13 each: conv > head\n");
    graph_free(g);
}

/* Patches mix channels with positions, a class token and positions are added to all channels, and
 * layer norms look at all of them: only neurons and heads are left. */
TEST(a_transformers_stream_is_pinned)
{
    enum { DIM = 4, PATCH = 2 * 2 * COLOURS };
    graph *g = begin_images();
    const int64_t one[1] = {WIDTH};
    int h = 0;
    node patches = node_of(NODE_PATCHES, GRAPH_NONE, g->input, GRAPH_NONE);
    patches.window = (window2d)WINDOW2D(2, 2, 2, 0, 1);
    assert_ok(graph_add_node(g, &patches, &h));
    h = add_linear(g, GRAPH_NONE, "embed", PATCH, WIDTH, true, h);
    node token = node_of(NODE_CLASS_TOKEN, GRAPH_NONE, h, GRAPH_NONE);
    assert_ok(graph_add_parameter(g, "token", 1, one, &token.weight));
    assert_ok(graph_add_node(g, &token, &h));
    node norm = node_of(NODE_LAYER_NORM, 0, h, GRAPH_NONE);
    assert_ok(graph_add_parameter(g, "norm", 1, one, &norm.weight));
    int n = 0;
    assert_ok(graph_add_node(g, &norm, &n));
    const int q = add_linear(g, 0, "q", WIDTH, 2 * DIM, true, n);
    const int k = add_linear(g, 0, "k", WIDTH, 2 * DIM, true, n);
    const int v = add_linear(g, 0, "v", WIDTH, 2 * DIM, true, n);
    const int x = add_attention(g, 0, DIM, q, k, v);
    h = add_plain(g, 0, NODE_ADD, h, add_linear(g, 0, "o", 2 * DIM, WIDTH, true, x));
    int y = relu(g, 0, add_linear(g, 0, "up", WIDTH, INNER, true, h));
    h = add_plain(g, 0, NODE_ADD, h, add_linear(g, 0, "down", INNER, WIDTH, true, y));
    h = add_plain(g, 1, NODE_FIRST_TOKEN, h, GRAPH_NONE);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", WIDTH, CLASSES, true, h)));
    assert_sites(g, GQA_KV_GROUPS,
                 "o heads 0, 2 units, 140 each: q*4 k*4 v*4 > o*4\n"
                 "down ffn 0, 6 units, 17 each: up > down\n");
    graph_free(g);
}

TEST(every_failing_allocation_is_survived)
{
    graph *g = residual_graph();
    assert_derivation_survives(g);
    graph_free(g);
}
