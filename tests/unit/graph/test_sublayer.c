/* Which runs of nodes are sublayers, and graphs without them. */
#include "build.h"

#include "graph/sublayer.h"

enum { WIDTH = 8, INNER = 12, VOCABULARY = 20, HEAD_DIM = 2 };

static int add_feed_forward(graph *g, int block, const char *down, const char *up, int h)
{
    const int n = add_norm(g, block, "norm", WIDTH, 0, h);
    const int a = add_linear(g, block, up, WIDTH, INNER, true, n);
    const int r = add_plain(g, block, NODE_ACTIVATION, a, GRAPH_NONE);
    return add_linear(g, block, down, INNER, WIDTH, true, r);
}

/* y = attention of one group, k and v with half of the query heads. */
static int add_attention_of(graph *g, int block, int h)
{
    const int n = add_norm(g, block, "attention.norm", WIDTH, 0, h);
    const int q = add_linear(g, block, "q", WIDTH, WIDTH, false, n);
    const int k = add_linear(g, block, "k", WIDTH, WIDTH / 2, false, n);
    const int v = add_linear(g, block, "v", WIDTH, WIDTH / 2, false, n);
    const int x = add_attention(g, block, HEAD_DIM, q, k, v);
    return add_linear(g, block, "o", WIDTH, WIDTH, false, x);
}

static void finish(graph *g, int h)
{
    const int n = add_norm(g, 1, "final", WIDTH, 0, h);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", WIDTH, VOCABULARY, false, n)));
}

/* An attention and an FFN, added to h one after the other. */
static graph *two_sublayers(void)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    int h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    h = add_plain(g, 0, NODE_ADD, h, add_attention_of(g, 0, h));
    h = add_plain(g, 0, NODE_ADD, add_feed_forward(g, 0, "down", "up", h), h);
    finish(g, h);
    return g;
}

static bool is_sublayer(const graph *g, gqa_mode mode, const char *name, sublayer *out)
{
    OWNED(site_list) sites = {0};
    assert_ok(sites_derive(g, mode, &sites));
    return sublayer_of(g, find_site(&sites, name), out);
}

TEST(a_sublayer_reaches_from_its_norm_to_its_add)
{
    OWNED(graph) *g = two_sublayers();
    sublayer s = {0};
    assert_true(is_sublayer(g, GQA_KV_GROUPS, "o", &s));
    assert_int_equal(s.begin, 1);
    assert_int_equal(s.add, 7);
    assert_int_equal(s.input, g->nodes[0].output);
    assert_int_equal(s.output, g->nodes[7].output);
    assert_true(is_sublayer(g, GQA_QUERY_PER_GROUP, "o", &s)); /* k and v belong to it, too */
    assert_int_equal(s.begin, 1);
    assert_true(is_sublayer(g, GQA_KV_GROUPS, "down", &s));
    assert_int_equal(s.begin, 8);
    assert_int_equal(s.input, g->nodes[7].output); /* the second operand of the Add */
}

TEST(a_graph_without_a_sublayer_passes_the_stream_by)
{
    graph *g = two_sublayers();
    sublayer first = {0};
    sublayer second = {0};
    int64_t widths[32];
    assert_true(is_sublayer(g, GQA_KV_GROUPS, "o", &first));
    assert_true(is_sublayer(g, GQA_KV_GROUPS, "down", &second));
    assert_ok(graph_drop_sublayer(g, &first));
    assert_int_equal(g->node_count, 8);
    assert_int_equal(g->nodes[1].inputs[0], g->nodes[0].output); /* the norm of the FFN */
    assert_ok(graph_widths(g, widths));
    assert_true(graph_parameter_is_gone(&g->parameters[graph_find_parameter(g, "k.weight")]));
    assert_true(
        graph_parameter_is_gone(&g->parameters[graph_find_parameter(g, "attention.norm.weight")]));
    assert_false(graph_parameter_is_gone(&g->parameters[graph_find_parameter(g, "up.bias")]));
    graph_free(g);
    g = two_sublayers(); /* both, the later one first: indices before it stay */
    assert_ok(graph_drop_sublayer(g, &second));
    assert_ok(graph_drop_sublayer(g, &first));
    assert_int_equal(g->node_count, 3);
    assert_int_equal(g->nodes[1].inputs[0], g->nodes[0].output);
    assert_int_equal(g->last_use[second.output], GRAPH_NONE);
    assert_int_equal(g->block_count, 1);
    assert_ok(graph_widths(g, widths));
    graph_free(g);
}

TEST(what_is_read_elsewhere_is_no_sublayer)
{
    sublayer s = {0};
    graph *g = NULL;
    assert_ok(graph_create(&g)); /* the consumer's output is read twice */
    int h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    int y = add_feed_forward(g, 0, "down", "up", h);
    h = add_plain(g, 0, NODE_ADD, h, y);
    finish(g, add_plain(g, 0, NODE_ADD, h, y));
    assert_false(is_sublayer(g, GQA_KV_GROUPS, "down", &s));
    graph_free(g);
    assert_ok(graph_create(&g)); /* added to another value than it reads */
    const int other = add_embedding(g, "other", VOCABULARY, WIDTH);
    h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    finish(g, add_plain(g, 0, NODE_ADD, other, add_feed_forward(g, 0, "down", "up", h)));
    assert_false(is_sublayer(g, GQA_KV_GROUPS, "down", &s));
    graph_free(g);
    assert_ok(graph_create(&g)); /* multiplied instead of added */
    h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    y = add_feed_forward(g, 0, "down", "up", h);
    finish(g, add_plain(g, 0, NODE_MULTIPLY, h, y));
    assert_false(is_sublayer(g, GQA_KV_GROUPS, "down", &s));
    graph_free(g);
    assert_ok(graph_create(&g)); /* another node reads its norm's weight */
    h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    h = add_plain(g, 0, NODE_ADD, h, add_feed_forward(g, 0, "down", "up", h));
    finish(g, add_norm(g, 0, "norm", WIDTH, 0, h));
    assert_false(is_sublayer(g, GQA_KV_GROUPS, "down", &s));
    graph_free(g);
}

TEST(a_batch_norm_before_the_add_makes_it_none)
{
    sublayer s = {0};
    OPENED(graph, g, graph_create(&g));
    const int h = add_embedding(g, "embed", VOCABULARY, WIDTH);
    const int y = add_feed_forward(g, 0, "down", "up", h);
    finish(g, add_plain(g, 0, NODE_ADD, h, add_batch_norm(g, 0, "bn", WIDTH, y)));
    assert_false(is_sublayer(g, GQA_KV_GROUPS, "down", &s));
}
