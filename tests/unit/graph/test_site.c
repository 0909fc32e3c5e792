/* Sites derived from small graphs: which axes can be cut, in which units, and what pins them. */
#include "build.h"

#include "graph/operators.h"
#include "graph/sublayer.h"

#include <stdio.h>

enum { WIDTH = 8, INNER = 12, VOCABULARY = 20 };

/* Begins with an embedding and a norm, whose value is returned; *h is the residual stream. */
static graph *begin_graph(int *h, int *normed)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    *h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    *normed = add_norm(g, 0, "norm", WIDTH, 0, *h);
    return g;
}

/* Adds y to the residual stream, and the final norm and head. */
static void end_graph(graph *g, int h, int y)
{
    const int s = add_plain(g, 0, NODE_ADD, h, y);
    const int n = add_norm(g, 1, "final", WIDTH, 0, s);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", WIDTH, VOCABULARY, false, n)));
}

static site_list derive(const graph *g, gqa_mode mode)
{
    site_list sites = {0};
    assert_ok(sites_derive(g, mode, &sites));
    return sites;
}

TEST(a_plain_mlp_is_a_site_of_its_neurons)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int a = add_linear(g, 0, "fc1", WIDTH, INNER, true, n);
    const int r = add_plain(g, 0, NODE_ACTIVATION, a, GRAPH_NONE);
    end_graph(g, h, add_linear(g, 0, "fc2", INNER, WIDTH, true, r));
    assert_sites(g, GQA_KV_GROUPS, "fc2 ffn 0, 12 units, 17 each: fc1 > fc2\n");
    graph_free(g);
}

TEST(a_gated_ffn_has_two_producers)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int gate = add_linear(g, 0, "gate", WIDTH, INNER, false, n);
    const int up = add_linear(g, 0, "up", WIDTH, INNER, false, n);
    const int a = add_plain(g, 0, NODE_ACTIVATION, gate, GRAPH_NONE);
    const int x = add_plain(g, 0, NODE_MULTIPLY, a, up);
    end_graph(g, h, add_linear(g, 0, "down", INNER, WIDTH, false, x));
    assert_sites(g, GQA_KV_GROUPS, "down ffn 0, 12 units, 24 each: gate up > down\n");
    graph_free(g);
}

/* Each expert is a site of its own; the scores are cut nowhere. */
TEST(the_width_of_an_expert_is_a_site)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int scores = add_linear(g, 0, "router", WIDTH, 3, false, n);
    const int shares = add_route(g, 0, 2, scores);
    const int rows = add_take_rows(g, 0, 1, shares, n);
    const int up = add_linear(g, 0, "up", WIDTH, INNER, false, rows);
    const int a = add_plain(g, 0, NODE_ACTIVATION, up, GRAPH_NONE);
    const int down = add_linear(g, 0, "down", INNER, WIDTH, false, a);
    end_graph(g, h, add_put_rows(g, 0, 1, shares, down, h));
    assert_sites(g, GQA_KV_GROUPS, "down ffn 0, 12 units, 16 each: up > down\n");
    graph_free(g);
}

/* A router of `count` experts, of which each row takes `chosen`; the last one is `odd` wide. */
static graph *experts_graph(int count, int chosen, int64_t odd)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int scores = add_linear(g, 0, "router", WIDTH, count, true, n);
    const int shares = add_route(g, 0, chosen, scores);
    for (int e = 0; e < count; e++) {
        char name[2][16];
        snprintf(name[0], sizeof name[0], "up%d", e);
        snprintf(name[1], sizeof name[1], "down%d", e);
        const int64_t inner = e == count - 1 ? odd : INNER;
        const int rows = add_take_rows(g, 0, e, shares, n);
        const int up = add_linear(g, 0, name[0], WIDTH, inner, false, rows);
        const int a = add_plain(g, 0, NODE_ACTIVATION, up, GRAPH_NONE);
        const int down = add_linear(g, 0, name[1], inner, WIDTH, false, a);
        h = add_put_rows(g, 0, e, shares, down, h);
    }
    end_graph(g, h, h);
    return g;
}

TEST(experts_of_one_router_are_units)
{
    graph *g = experts_graph(4, 2, INNER);
    assert_sites(g, GQA_KV_GROUPS,
                 "router experts 0, 4 units, 201 each: router >\n"
                 "down0 ffn 0, 12 units, 16 each: up0 > down0\n"
                 "down1 ffn 0, 12 units, 16 each: up1 > down1\n"
                 "down2 ffn 0, 12 units, 16 each: up2 > down2\n"
                 "down3 ffn 0, 12 units, 16 each: up3 > down3\n");
    site_list sites = derive(g, GQA_KV_GROUPS);
    const branch_list b = site_branches(g, find_site(&sites, "router"));
    assert_int_equal(branch_at(&b, branch_put(&b, 2)), 2);
    assert_int_equal(branch_at(&b, b.router), GRAPH_NONE);
    assert_int_equal(branch_last(g, &b, 3), sites.sites[4].consumers[0].node);
    const int before = g->node_count;
    assert_ok(branches_drop(g, &b, 3));
    assert_int_equal(g->node_count, before - b.length);
    assert_true(graph_parameter_is_gone(&g->parameters[graph_find_parameter(g, "down3.weight")]));
    assert_false(graph_parameter_is_gone(&g->parameters[graph_find_parameter(g, "up2.weight")]));
    site_list_fini(&sites);
    graph_free(g);
}

/* Experts of different widths cannot take each other's places. */
TEST(experts_that_differ_are_no_units)
{
    graph *g = experts_graph(4, 2, INNER - 1);
    assert_sites(g, GQA_KV_GROUPS,
                 "down0 ffn 0, 12 units, 16 each: up0 > down0\n"
                 "down1 ffn 0, 12 units, 16 each: up1 > down1\n"
                 "down2 ffn 0, 12 units, 16 each: up2 > down2\n"
                 "down3 ffn 0, 11 units, 16 each: up3 > down3\n");
    graph_free(g);
}

enum { DIM = 4 };

/* Attention of `heads` and `kv` heads, with rotary positions and optional norms of q and k. */
static graph *attention_graph(int64_t heads, int64_t kv, int64_t norm_group, bool bias)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    int q = add_linear(g, 0, "q", WIDTH, heads * DIM, bias, n);
    int k = add_linear(g, 0, "k", WIDTH, kv * DIM, bias, n);
    const int v = add_linear(g, 0, "v", WIDTH, kv * DIM, bias, n);
    if (norm_group >= 0) {
        q = add_norm(g, 0, "q_norm", norm_group == 0 ? heads * DIM : norm_group, norm_group, q);
        k = add_norm(g, 0, "k_norm", norm_group == 0 ? kv * DIM : norm_group, norm_group, k);
    }
    q = add_plain(g, 0, NODE_ROPE, q, GRAPH_NONE);
    k = add_plain(g, 0, NODE_ROPE, k, GRAPH_NONE);
    const int x = add_attention(g, 0, DIM, q, k, v);
    end_graph(g, h, add_linear(g, 0, "o", heads * DIM, WIDTH, bias, x));
    return g;
}

TEST(heads_of_their_own_are_units_of_all_four_projections)
{
    graph *g = attention_graph(6, 6, -1, true);
    assert_sites(g, GQA_KV_GROUPS, "o heads 0, 6 units, 140 each: q*4 k*4 v*4 > o*4\n");
    graph_free(g);
}

TEST(grouped_heads_are_cut_with_their_query_heads)
{
    graph *g = attention_graph(6, 2, -1, false);
    assert_sites(g, GQA_KV_GROUPS, "o heads 0, 2 units of 3, 256 each: q*12~ k*4 v*4 > o*12~\n");
    graph_free(g);
}

TEST(or_query_heads_alone_equally_many_of_each_group)
{
    graph *g = attention_graph(6, 2, -1, false);
    assert_sites(g, GQA_QUERY_PER_GROUP, "o heads 0, 6 units in 2 groups, 64 each: q*4 > o*4\n");
    graph_free(g);
}

/* A sink for each query head is cut with it, alone or with its group. */
TEST(sinks_belong_to_query_heads)
{
    graph *g = attention_graph(6, 2, -1, false);
    const int64_t heads = 6;
    int64_t widths[32];
    int n = 0;
    while (g->nodes[n].kind != NODE_ATTENTION) {
        n++;
    }
    assert_ok(graph_add_parameter(g, "sinks", 1, &heads, &g->nodes[n].weight));
    assert_sites(g, GQA_KV_GROUPS,
                 "o heads 0, 2 units of 3, 259 each: q*12~ k*4 v*4 > o*12~ with sinks*3~\n");
    assert_sites(g, GQA_QUERY_PER_GROUP,
                 "o heads 0, 6 units in 2 groups, 65 each: q*4 > o*4 with sinks\n");
    g->parameters[g->nodes[n].weight].shape[0] = 5;
    assert_fails(graph_widths(g, widths), GRAIL_ERROR_SHAPE,
                 "sinks expects 5 features, but its input has 6");
    graph_free(g);
}

TEST(a_norm_of_each_head_leaves_the_heads_free)
{
    graph *g = attention_graph(6, 2, DIM, false);
    assert_sites(g, GQA_KV_GROUPS, "o heads 0, 2 units of 3, 256 each: q*12~ k*4 v*4 > o*12~\n");
    graph_free(g);
}

/* Its weight is cut with them: of queries in groups, of keys one head at a time. */
TEST(a_norm_of_all_heads_is_cut_with_them)
{
    graph *g = attention_graph(6, 2, 0, false);
    assert_sites(g, GQA_KV_GROUPS,
                 "o heads 0, 2 units of 3 behind a norm, 272 each: q*12~ k*4 v*4 > o*12~ with "
                 "q_norm*12~ k_norm*4\n");
    assert_sites(
        g, GQA_QUERY_PER_GROUP,
        "o heads 0, 6 units in 2 groups behind a norm, 68 each: q*4 > o*4 with q_norm*4\n");
    graph_free(g);
}

TEST(a_norm_without_a_weight_pins_its_width)
{
    graph *g = attention_graph(6, 2, 0, false);
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_RMS_NORM && g->nodes[n].block == 0) {
            g->nodes[n].weight = GRAPH_NONE;
        }
    }
    assert_sites(g, GQA_KV_GROUPS, "");
    graph_free(g);
}

/* It norms channels of images, not a latent. */
TEST(the_lengths_of_channels_are_those_of_a_convolution)
{
    const int64_t width = 8;
    int h = 0;
    int shares = 0;
    graph *g = begin_graph(&h, &shares);
    const int x = add_linear(g, 0, "up", WIDTH, width, false, h);
    node n = node_of(NODE_RESPONSE_NORM, 0, x, GRAPH_NONE);
    assert_ok(graph_add_parameter(g, "gamma", 1, &width, &n.weight));
    assert_ok(graph_add_node(g, &n, &shares));
    n = node_of(NODE_MULTIPLY, 0, x, shares);
    n.repeats_second = true;
    assert_ok(graph_add_node(g, &n, &shares));
    end_graph(g, h, add_linear(g, 0, "down", width, WIDTH, false, shares));
    OWNED(site_list) list = {0};
    assert_ok(sites_derive(g, GQA_KV_GROUPS, &list));
    bool found = false;
    for (int i = 0; i < list.count; i++) {
        found = found || (list.sites[i].kind == SITE_FFN && list.sites[i].normed &&
                          list.sites[i].units == width);
    }
    assert_true(found);
    graph_free(g);
}

enum { RANK = 10, VALUE = 3 };

/* Keys and values of all heads, made of one vector behind a norm. */
static graph *latent_graph(int64_t heads, bool states_value_width)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int q = add_linear(g, 0, "q", WIDTH, heads * DIM, false, n);
    const int a = add_linear(g, 0, "a", WIDTH, RANK, true, n);
    const int c = add_norm(g, 0, "a_norm", RANK, 0, a);
    const int k = add_linear(g, 0, "k", RANK, heads * DIM, false, c);
    const int v = add_linear(g, 0, "v", RANK, heads * VALUE, false, c);
    const int x = add_attention(g, 0, DIM, q, k, v);
    end_graph(g, h, add_linear(g, 0, "o", heads * VALUE, WIDTH, false, x));
    g->nodes[g->value_source[x]].attention.narrows_values = states_value_width;
    return g;
}

TEST(a_vector_behind_a_norm_is_a_site)
{
    graph *g = latent_graph(4, false);
    assert_sites(g, GQA_KV_GROUPS,
                 "a latent 0, 10 units behind a norm, 38 each: a > k v with a_norm\n"
                 "o heads 0, 4 units, 126 each: q*4 k*4 v*3 > o*3\n");
    graph_free(g);
}

TEST(channels_of_values_are_a_site_where_their_width_is_stated)
{
    graph *g = latent_graph(4, true);
    assert_sites(g, GQA_KV_GROUPS,
                 "a latent 0, 10 units behind a norm, 38 each: a > k v with a_norm\n"
                 "o heads 0, 4 units, 126 each: q*4 k*4 v*3 > o*3\n"
                 "v values 0, 12 units in 4 groups, 18 each: v > o\n");
    site_list sites = derive(g, GQA_KV_GROUPS);
    sublayer found;
    assert_false(sublayer_of(g, &sites.sites[2], &found)); /* the heads stand for it */
    site_list_fini(&sites);
    graph_free(g);
}

TEST(producers_joined_by_an_add_are_cut_together)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int a = add_linear(g, 0, "a", WIDTH, INNER, false, n);
    const int b = add_linear(g, 0, "b", WIDTH, INNER, false, n);
    const int sum = add_plain(g, 0, NODE_ADD, a, b);
    const int one = add_linear(g, 0, "one", INNER, WIDTH, false, sum);
    const int two = add_linear(g, 0, "two", INNER, WIDTH, false, a);
    end_graph(g, h, add_plain(g, 0, NODE_ADD, one, two));
    assert_sites(g, GQA_KV_GROUPS, "one stream 0, 12 units, 32 each: a b! > one two\n");
    graph_free(g);
}

static int add_repeated(graph *g, int left, int right)
{
    node n = node_of(NODE_MULTIPLY, 0, left, right);
    int value = 0;
    n.repeats_second = true;
    assert_ok(graph_add_node(g, &n, &value));
    return value;
}

/* What is multiplied by a gate for each sample is cut with the gate, but not with a factor for each
 * position, which has one channel. */
TEST(a_repeated_factor_joins_by_channels)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int a = add_linear(g, 0, "a", WIDTH, 8, false, n);
    const int mean = add_plain(g, 0, NODE_MEAN, a, GRAPH_NONE);
    const int inner = add_linear(g, 0, "inner", 8, 2, false, mean);
    const int gate = add_linear(g, 0, "gate", 2, 8, false, inner);
    const int map = add_linear(g, 0, "map", WIDTH, 1, false, n);
    const int product = add_repeated(g, add_repeated(g, a, gate), map);
    end_graph(g, h, add_linear(g, 0, "o", 8, WIDTH, false, product));
    assert_sites(g, GQA_KV_GROUPS,
                 "inner ffn 0, 8 units, 20 each: a gate > inner o\n"
                 "gate ffn 0, 2 units, 16 each: inner > gate\n");
    graph_free(g);
}

/* Kernels per channel are cut with the site that they stand on, and neither end it nor begin one.
 */
TEST(kernels_per_channel_are_cut_with_the_channels)
{
    const int64_t shape[] = {8, 1, 3, 3};
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    node d = node_of(NODE_DEPTHWISE, 0, add_linear(g, 0, "a", WIDTH, 8, false, n), GRAPH_NONE);
    int made = 0;
    d.window = (window2d)WINDOW2D(3, 3, 1, 1, 1);
    assert_ok(graph_add_parameter(g, "kernels", 4, shape, &d.weight));
    assert_ok(graph_add_node(g, &d, &made));
    const int kernels = g->node_count - 1;
    end_graph(g, h, add_linear(g, 0, "o", 8, WIDTH, false, made));
    assert_sites(g, GQA_KV_GROUPS, "o ffn 0, 8 units, 25 each: a > o with kernels\n");
    assert_int_equal(node_products(g, &g->nodes[kernels], (extent){5, 2}), 8 * 9 * 10);
    graph_free(g);
}

/* Each of the four groups keeps as many channels, of what it reads and of what it makes. */
TEST(groups_of_a_convolution_keep_as_many_channels_each)
{
    const int64_t shape[] = {8, 3, 3, 3};
    site_list sites = {0};
    int64_t widths[16];
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int a = add_linear(g, 0, "a", WIDTH, 6, false, n);
    node c = node_of(NODE_CONV2D, 0, add_linear(g, 0, "b", 6, 12, false, a), GRAPH_NONE);
    int made = 0;
    c.window = (window2d)WINDOW2D(3, 3, 1, 1, 1);
    c.groups = 4;
    assert_ok(graph_add_parameter(g, "grouped", 4, shape, &c.weight));
    assert_ok(graph_add_node(g, &c, &made));
    const int d = add_linear(g, 0, "d", 8, 10, false, made);
    end_graph(g, h, add_linear(g, 0, "o", 10, WIDTH, false, d));
    node *grouped = &g->nodes[g->value_source[made]];
    assert_int_equal(node_products(g, grouped, (extent){5, 2}), 8 * 3 * 9 * 10);
    assert_sites(g, GQA_KV_GROUPS,
                 "b ffn 0, 6 units, 20 each: a > b\n"
                 "grouped conv 0, 12 units in 4 groups, 24 each: b > grouped\n"
                 "d conv 0, 8 units in 4 groups, 37 each: grouped > d\n"
                 "grouped[groups] groups 0, 4 units, 92 each: b*3 > d*2 with grouped*2\n"
                 "o ffn 0, 10 units, 16 each: d > o\n");
    assert_ok(sites_derive(g, GQA_KV_GROUPS, &sites));
    assert_int_equal(sites.sites[0].groups, 1);
    assert_int_equal(sites.sites[1].groups, 4);
    assert_int_equal(sites.sites[2].groups, 4);
    assert_null(sites.sites[0].whole);
    assert_ptr_equal(sites.sites[1].whole, &sites.sites[3]);
    assert_ptr_equal(sites.sites[2].whole, &sites.sites[3]);
    assert_null(sites.sites[4].whole);
    assert_int_equal(sites.sites[3].groups, 1);
    site_list_fini(&sites);
    grouped->groups = 3;
    assert_fails(graph_widths(g, widths), GRAIL_ERROR_SHAPE,
                 "8 outputs of grouped are no 3 groups");
    grouped->groups = 2;
    assert_fails(graph_widths(g, widths), GRAIL_ERROR_SHAPE, "grouped expects 6 features");
    graph_free(g);
}

TEST(what_is_added_to_the_residual_stream_is_pinned)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int a = add_linear(g, 0, "a", WIDTH, WIDTH, false, n);
    const int sum = add_plain(g, 0, NODE_ADD, h, a);
    end_graph(g, h, add_linear(g, 0, "b", WIDTH, WIDTH, false, sum));
    assert_sites(g, GQA_KV_GROUPS, "");
    graph_free(g);
}

TEST(embeddings_and_the_output_are_pinned)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    const int h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    const int a = add_linear(g, 0, "a", WIDTH, INNER, false, h);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", INNER, VOCABULARY, false, a)));
    assert_sites(g, GQA_KV_GROUPS, "head ffn 1, 12 units across blocks, 28 each: a > head\n");
    graph_free(g);
}

TEST(what_the_network_gives_out_is_pinned)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int a = add_linear(g, 0, "a", WIDTH, INNER, false, n);
    add_linear(g, 0, "b", INNER, WIDTH, false, a);
    assert_ok(graph_finish(g, a));
    assert_sites(g, GQA_KV_GROUPS, "");
    graph_free(g);
}

TEST(keys_and_values_stay_where_query_heads_are_cut_alone)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int q = add_linear(g, 0, "q", WIDTH, 6 * DIM, false, n);
    const int k = add_linear(g, 0, "k", WIDTH, 2 * DIM, false, n);
    const int v = add_linear(g, 0, "v", WIDTH, 2 * DIM, false, n);
    const int x = add_attention(g, 0, DIM, q, k, v);
    const int o = add_linear(g, 0, "o", 6 * DIM, WIDTH, false, x);
    const int reads_k = add_linear(g, 0, "reads_k", 2 * DIM, WIDTH, false, k);
    const int reads_v = add_linear(g, 0, "reads_v", 2 * DIM, WIDTH, false, v);
    const int sum = add_plain(g, 0, NODE_ADD, reads_k, reads_v);
    end_graph(g, h, add_plain(g, 0, NODE_ADD, o, sum));
    assert_sites(g, GQA_QUERY_PER_GROUP, "o heads 0, 6 units in 2 groups, 64 each: q*4 > o*4\n");
    graph_free(g);
}

TEST(attentions_that_cut_one_axis_differently_pin_it)
{
    int h = 0;
    int n = 0;
    graph *g = begin_graph(&h, &n);
    const int q = add_linear(g, 0, "q", WIDTH, 16, false, n);
    const int k = add_linear(g, 0, "k", WIDTH, 16, false, n);
    const int v = add_linear(g, 0, "v", WIDTH, 16, false, n);
    const int x = add_attention(g, 0, 4, q, k, v);
    const int y = add_attention(g, 0, 8, q, k, v);
    const int o = add_linear(g, 0, "o", 16, WIDTH, false, x);
    const int p = add_linear(g, 0, "p", 16, WIDTH, false, y);
    end_graph(g, h, add_plain(g, 0, NODE_ADD, o, p));
    assert_sites(g, GQA_KV_GROUPS, "");
    graph_free(g);
}

TEST(sites_are_listed_in_the_order_of_their_consumers)
{
    static const char *const names[] = {"0.fc2", "1.fc2", "2.fc2"};
    static const char *const inner[] = {"0.fc1", "1.fc1", "2.fc1"};
    static const char *const norms[] = {"0.norm", "1.norm", "2.norm"};
    graph *g = NULL;
    assert_ok(graph_create(&g));
    int h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    for (int block = 0; block < 3; block++) {
        const int n = add_norm(g, block, norms[block], WIDTH, 0, h);
        const int a = add_linear(g, block, inner[block], WIDTH, INNER + block, false, n);
        const int y = add_linear(g, block, names[block], INNER + block, WIDTH, false, a);
        h = add_plain(g, block, NODE_ADD, h, y);
    }
    const int n = add_norm(g, 3, "final", WIDTH, 0, h);
    assert_ok(graph_finish(g, add_linear(g, 3, "head", WIDTH, VOCABULARY, false, n)));
    assert_sites(g, GQA_KV_GROUPS,
                 "0.fc2 ffn 0, 12 units, 16 each: 0.fc1 > 0.fc2\n"
                 "1.fc2 ffn 1, 13 units, 16 each: 1.fc1 > 1.fc2\n"
                 "2.fc2 ffn 2, 14 units, 16 each: 2.fc1 > 2.fc2\n");
    site_list sites = derive(g, GQA_KV_GROUPS);
    assert_int_equal(site_list_find(&sites, "2.fc2"), 2);
    assert_int_equal(site_list_find(&sites, "fc2"), -1);
    site_list_fini(&sites);
    graph_free(g);
}

TEST(every_failing_allocation_is_survived)
{
    graph *g = attention_graph(6, 2, DIM, true);
    assert_derivation_survives(g);
    graph_free(g);
}
