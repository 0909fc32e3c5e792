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

static void assert_ends(const graph *g, const site_end *ends, int count, const char *names)
{
    char found[256] = "";
    for (int i = 0; i < count; i++) {
        strncat(found, i > 0 ? " " : "", sizeof found - strlen(found) - 1);
        strncat(found, end_name(g, &ends[i]), sizeof found - strlen(found) - 1);
        assert_int_equal(ends[i].features_per_unit, 1);
        assert_false(ends[i].exchangeable);
    }
    assert_string_equal(found, names);
}

static void assert_channels(const graph *g, const site *s, const char *names)
{
    char found[256] = "";
    for (int i = 0; i < s->channel_count; i++) {
        strncat(found, i > 0 ? " " : "", sizeof found - strlen(found) - 1);
        strncat(found, g->parameters[g->nodes[s->channels[i].node].weight].name,
                sizeof found - strlen(found) - 1);
    }
    assert_string_equal(found, names);
}

TEST(channels_between_convolutions_are_a_site)
{
    graph *g = residual_graph();
    site_list sites = derive(g);
    const site *s = find_site(&sites, "a.conv2");
    assert_int_equal(s->kind, SITE_CONV);
    assert_int_equal(s->units, INNER);
    assert_int_equal(s->block, 0);
    assert_ends(g, s->producers, s->producer_count, "a.conv1.weight");
    assert_ends(g, s->consumers, s->consumer_count, "a.conv2.weight");
    assert_channels(g, s, "a.bn1.weight");
    assert_false(site_spans_blocks(g, s));
    /* a row and a column of 3 x 3 kernels, four of the norm */
    assert_int_equal(site_parameters_per_unit(g, s), 9 * WIDTH + 9 * WIDTH + 4);
    assert_string_equal(site_kind_name(s->kind), "conv");
    site_list_fini(&sites);
    graph_free(g);
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
    site_list sites = derive(g);
    assert_int_equal(sites.count, 4);
    const site *first = find_site(&sites, "a.conv1");
    assert_int_equal(first->kind, SITE_STREAM);
    assert_int_equal(first->units, WIDTH);
    assert_ends(g, first->producers, first->producer_count, "stem.weight a.conv2.weight");
    assert_ends(g, first->consumers, first->consumer_count,
                "a.conv1.weight project.weight b.conv1.weight");
    assert_channels(g, first, "stem.bn.weight a.bn2.weight");
    assert_true(site_spans_blocks(g, first));
    assert_int_equal(site_branch_producer(g, first),
                     0); /* the stem, not the first block's branch */
    assert_int_equal(site_parameters_per_unit(g, first),
                     9 * COLOURS + 9 * INNER + 9 * INNER + NEXT + 9 * INNER + 8);
    const site *second = find_site(&sites, "head");
    assert_int_equal(second->kind, SITE_STREAM);
    assert_ends(g, second->producers, second->producer_count, "project.weight b.conv2.weight");
    assert_ends(g, second->consumers, second->consumer_count, "head.weight");
    assert_channels(g, second, "project.bn.weight b.bn2.weight");
    assert_true(site_spans_blocks(g, second));
    assert_int_equal(site_branch_producer(g, second), 1); /* b.conv2, not the projection */
    assert_string_equal(site_kind_name(second->kind), "stream");
    site_list_fini(&sites);
    graph_free(g);
}

TEST(streams_are_listed_before_the_channels_of_their_blocks)
{
    static const char *const names[] = {"a.conv1", "a.conv2", "b.conv2", "head"};
    graph *g = residual_graph();
    site_list sites = derive(g);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(sites.sites[i].name, names[i]);
    }
    site_list_fini(&sites);
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
    site_list sites = derive(g);
    assert_int_equal(sites.count, 1);
    assert_string_equal(sites.sites[0].name, "a.conv2");
    site_list_fini(&sites);
    graph_free(g);
}

TEST(a_shortcut_that_only_strides_joins_them)
{
    graph *g = shortcut_graph(0);
    site_list sites = derive(g);
    assert_int_equal(sites.count, 2);
    const site *s = find_site(&sites, "a.conv1");
    assert_int_equal(s->kind, SITE_STREAM);
    assert_ends(g, s->producers, s->producer_count, "stem.weight a.conv2.weight");
    assert_ends(g, s->consumers, s->consumer_count, "a.conv1.weight head.weight");
    site_list_fini(&sites);
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
    site_list sites = derive(g);
    assert_int_equal(sites.count, 2);
    const site *s = find_site(&sites, "conv1");
    assert_ends(g, s->producers, s->producer_count, "stem.weight conv2.weight");
    assert_ends(g, s->consumers, s->consumer_count, "conv1.weight head.weight");
    assert_channels(g, s, "bn1.weight last.weight");
    assert_channels(g, find_site(&sites, "conv2"), "bn2.weight");
    site_list_fini(&sites);
    graph_free(g);
}

TEST(pools_carry_channels_on)
{
    graph *g = begin_images();
    int h = add_conv(g, GRAPH_NONE, "stem", COLOURS, WIDTH, 3, 1, g->input);
    node pool = node_of(NODE_MAX_POOL, GRAPH_NONE, h, GRAPH_NONE);
    pool.window = (window2d){3, 3, 2, 1, 1};
    assert_ok(graph_add_node(g, &pool, &h));
    h = add_conv(g, 0, "conv", WIDTH, INNER, 1, 1, h);
    h = add_plain(g, 1, NODE_MEAN, h, GRAPH_NONE);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", INNER, CLASSES, false, h)));
    site_list sites = derive(g);
    assert_int_equal(sites.count, 2);
    const site *s = find_site(&sites, "conv");
    assert_int_equal(s->kind, SITE_CONV);
    assert_ends(g, s->producers, s->producer_count, "stem.weight");
    /* what a Linear reads behind the mean is no convolution's channel */
    assert_int_equal(find_site(&sites, "head")->kind, SITE_FFN);
    site_list_fini(&sites);
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
    patches.window = (window2d){2, 2, 2, 0, 1};
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
    site_list sites = derive(g);
    assert_int_equal(sites.count, 2);
    assert_int_equal(find_site(&sites, "o")->kind, SITE_HEADS);
    assert_int_equal(find_site(&sites, "o")->units, 2);
    assert_int_equal(find_site(&sites, "down")->kind, SITE_FFN);
    site_list_fini(&sites);
    graph_free(g);
}

static grail_status derive_once(void *context)
{
    site_list sites = {0};
    const grail_status status = sites_derive(context, GQA_KV_GROUPS, &sites);
    site_list_fini(&sites);
    return status;
}

TEST(every_failing_allocation_is_survived)
{
    graph *g = residual_graph();
    support_fail_each_allocation(derive_once, g);
    graph_free(g);
}
