/* Graphs: parameters by name, values and their life, blocks, and shapes that do not fit. */
#include "build.h"

#include "graph/operators.h"

#include <stdio.h>

static graph *new_graph(void)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    return g;
}

TEST(a_parameter_used_twice_is_one)
{
    OWNED(graph) *g = new_graph();
    const int64_t shape[2] = {3, 4};
    const int64_t other[2] = {4, 3};
    int first = -1;
    int second = -1;
    assert_int_equal(graph_find_parameter(g, "tied"), GRAPH_NONE);
    assert_ok(graph_add_parameter(g, "tied", 2, shape, &first));
    assert_ok(graph_add_parameter(g, "tied", 2, shape, &second));
    assert_int_equal(first, second);
    assert_int_equal(g->parameter_count, 1);
    assert_int_equal(graph_find_parameter(g, "tied"), first);
    assert_fails(graph_add_parameter(g, "tied", 2, other, &second), GRAIL_ERROR_INTERNAL,
                 "parameter 'tied' is used with two shapes");
    assert_fails(graph_add_parameter(g, "tied", 1, shape, &second), GRAIL_ERROR_INTERNAL,
                 "two shapes");
}

TEST(many_parameters_are_found_by_name)
{
    enum { MANY = 1000 };
    OWNED(graph) *g = new_graph();
    char name[32];
    for (int i = 0; i < MANY; i++) {
        const int64_t shape[1] = {i + 1};
        int index = -1;
        snprintf(name, sizeof name, "p%d", i);
        assert_ok(graph_add_parameter(g, name, 1, shape, &index));
        assert_int_equal(index, i);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_int_equal(graph_find_parameter(g, name), i);
        assert_string_equal(g->parameters[i].name, name);
        assert_int_equal(g->parameters[i].shape[0], i + 1);
    }
    assert_int_equal(graph_find_parameter(g, "p1000"), GRAPH_NONE);
}

/* embedding | a, activation, b, Add | norm, head: three stretches, one block */
static graph *residual_graph(int64_t second_width)
{
    graph *g = new_graph();
    const int h = add_embedding(g, "e", 10, 4);
    const int a = add_linear(g, 0, "a", 4, 6, false, h);
    const int r = add_plain(g, 0, NODE_ACTIVATION, a, GRAPH_NONE);
    const int b = add_linear(g, 0, "b", second_width, 4, false, r);
    const int s = add_plain(g, 0, NODE_ADD, h, b);
    const int n = add_norm(g, 1, "n", 4, 0, s);
    add_linear(g, 1, "head", 4, 10, false, n);
    return g;
}

static int last_value(const graph *g)
{
    return g->nodes[g->node_count - 1].output;
}

TEST(widths_follow_from_the_shapes)
{
    OWNED(graph) *g = residual_graph(6);
    int64_t widths[16];
    const int64_t expected[] = {1, 4, 6, 6, 4, 4, 4, 10};
    assert_ok(graph_finish(g, last_value(g)));
    assert_ok(graph_widths(g, widths));
    for (int v = 0; v < g->value_count; v++) {
        assert_int_equal(widths[v], expected[v]);
    }
    g->parameters[graph_find_parameter(g, "a.weight")].shape[0] = 5;
    assert_fails(graph_widths(g, widths), GRAIL_ERROR_SHAPE, "b.weight expects 6 features");
    g->parameters[graph_find_parameter(g, "b.weight")].shape[1] = 5;
    assert_ok(graph_widths(g, widths));
    assert_int_equal(widths[3], 5);
}

TEST(blocks_are_stretches_of_nodes)
{
    OWNED(graph) *g = residual_graph(6);
    int begin = -1;
    int end = -1;
    assert_ok(graph_finish(g, last_value(g)));
    assert_int_equal(g->block_count, 1);
    graph_block_range(g, GRAPH_NONE, &begin, &end);
    assert_true(begin == 0 && end == 1);
    graph_block_range(g, 0, &begin, &end);
    assert_true(begin == 1 && end == 5);
    graph_block_range(g, 1, &begin, &end);
    assert_true(begin == 5 && end == 7);
}

static void assert_live(const graph *g, int position, int count, int first, int second)
{
    int live[16];
    assert_int_equal(graph_live_values(g, position, live), count);
    const int expected[2] = {first, second};
    for (int i = 0; i < count; i++) {
        assert_int_equal(live[i], expected[i]);
    }
}

TEST(a_value_lives_until_its_last_reader)
{
    OWNED(graph) *g = residual_graph(6);
    assert_ok(graph_finish(g, last_value(g)));
    assert_live(g, 0, 1, 0, 0); /* the ids */
    assert_live(g, 1, 1, 1, 0); /* h */
    assert_live(g, 2, 2, 1, 2); /* h for the Add, a's output */
    assert_live(g, 3, 2, 1, 3);
    assert_live(g, 4, 2, 1, 4);
    assert_live(g, 5, 1, 5, 0); /* the sum */
    assert_live(g, 7, 1, 7, 0); /* the output outlives every node */
    assert_int_equal(g->last_use[g->output], g->node_count);
    assert_int_equal(g->value_source[0], GRAPH_NONE);
    assert_int_equal(g->value_source[7], 6);
}

/* -- shapes that do not fit ------------------------------------------------------------------- */

static void assert_misfit(graph *g, const char *text)
{
    assert_fails(graph_finish(g, last_value(g)), GRAIL_ERROR_SHAPE, text);
    graph_free(g);
}

TEST(a_linear_of_another_width_is_named)
{
    assert_misfit(residual_graph(7), "block 0: b.weight expects 7 features, but its input has 6");
}

TEST(a_norm_of_another_width_is_named)
{
    graph *g = new_graph();
    add_norm(g, 0, "n", 5, 0, add_embedding(g, "e", 10, 4));
    assert_misfit(g, "n.weight expects 5 features, but its input has 4");
    g = new_graph();
    add_norm(g, 0, "n", 2, 4, add_embedding(g, "e", 10, 4));
    assert_misfit(g, "n.weight expects 2 features");
}

TEST(operands_of_different_widths_are_refused)
{
    static const node_kind kinds[] = {NODE_ADD, NODE_MULTIPLY};
    for (int i = 0; i < 2; i++) {
        graph *g = new_graph();
        const int h = add_embedding(g, "e", 10, 4);
        const int a = add_linear(g, 3, "a", 4, 6, false, h);
        add_plain(g, 3, kinds[i], h, a);
        assert_misfit(g, "block 3: an elementwise node expects 4 features, but its input has 6");
    }
}

static void assert_refused(const node *n, const char *text)
{
    OWNED(graph) *g = new_graph();
    int value = -1;
    assert_fails(graph_add_node(g, n, &value), GRAIL_ERROR_INTERNAL, text);
    assert_int_equal(value, -1);
    assert_int_equal(g->node_count, 0);
}

TEST(a_node_reads_as_many_values_as_its_kind)
{
    const node few = node_of(NODE_MULTIPLY, 0, 0, GRAPH_NONE);
    const node many = node_of(NODE_ACTIVATION, 0, 0, 0);
    const node none = node_of(NODE_MEAN, 0, GRAPH_NONE, GRAPH_NONE);
    const node early = node_of(NODE_ADD, 0, 0, 1);
    assert_refused(&few, "node 0 ('multiply', kind multiply) reads 1 values, expected 2");
    assert_refused(&many, "kind activation) reads 2 values, expected 1");
    assert_refused(&none, "kind mean) reads 0 values, expected 1");
    assert_refused(&early, "kind add) reads value 1, expected one of the 1");
    OWNED(graph) *g = new_graph();
    int weight = GRAPH_NONE;
    int value = -1;
    assert_ok(graph_add_parameter(g, "w", 2, (const int64_t[]){3, 4}, &weight));
    node named = node_of(NODE_LINEAR, 0, 0, 0);
    named.weight = weight;
    assert_fails(graph_add_node(g, &named, &value), GRAIL_ERROR_INTERNAL,
                 "node 0 ('w', kind linear) reads 2 values, expected 1");
}

/* A residual stream with one expert of four; what it puts back may be by other scores, another
 * expert, or not put back at all. */
static graph *routed_graph(int64_t output, bool own_shares, bool puts)
{
    graph *g = new_graph();
    const int h = add_embedding(g, "e", 10, 4);
    const int shares = add_route(g, 0, 2, add_linear(g, 0, "router", 4, 4, false, h));
    const int other = add_route(g, 0, 2, add_linear(g, 0, "other", 4, 4, false, h));
    const int rows = add_take_rows(g, 0, 1, shares, h);
    int x = add_linear(g, 0, "up", 4, 4, false, rows);
    if (puts) {
        x = add_put_rows(g, 0, output, own_shares ? shares : other, x, h);
    }
    add_plain(g, 0, NODE_ADD, h, x);
    return g;
}

TEST(routed_rows_go_alone_until_they_are_put_back)
{
    graph *g = routed_graph(1, true, true);
    assert_ok(graph_finish(g, last_value(g)));
    assert_int_equal(g->routes[6], 6); /* what is taken, and what is made of it */
    assert_int_equal(g->routes[7], 6);
    assert_int_equal(g->routes[8], GRAPH_NONE);
    const node *up = &g->nodes[g->value_source[7]];
    const extent four = {4, 1};
    assert_int_equal(node_products(g, up, four), 2 * 4 * 4); /* the half of the rows, on average */
    assert_int_equal(g->routes[1], GRAPH_NONE);
    graph_free(g);
    graph *const wrong[] = {routed_graph(2, true, true), routed_graph(1, false, true),
                            routed_graph(1, true, false)};
    for (int i = 0; i < 3; i++) {
        assert_fails(graph_finish(wrong[i], last_value(wrong[i])), GRAIL_ERROR_INTERNAL,
                     i < 2 ? "(kind put_rows) cannot read the rows that it is given"
                           : "(kind add) cannot read the rows that it is given");
        graph_free(wrong[i]);
    }
    g = routed_graph(1, true, true);
    add_plain(g, 0, NODE_MEAN, 7, GRAPH_NONE);
    assert_fails(graph_finish(g, last_value(g)), GRAIL_ERROR_INTERNAL,
                 "(kind mean) cannot read the rows that it is given");
    graph_free(g);
    g = new_graph();
    const int h = add_embedding(g, "e", 10, 4);
    add_take_rows(g, 2, 4, add_route(g, 2, 4, h), h);
    assert_misfit(g, "block 2: rows of output 4 do not fit a router of 4 outputs");
    g = new_graph();
    add_route(g, 2, 5, add_embedding(g, "e", 10, 4));
    assert_misfit(g, "block 2: a choice of 5 in each row does not fit a router of 4 outputs");
    g = new_graph();
    const int x = add_embedding(g, "e", 10, 4);
    const int shares = add_route(g, 0, 2, x);
    const int wide = add_linear(g, 0, "up", 4, 6, false, add_take_rows(g, 0, 1, shares, x));
    add_put_rows(g, 0, 1, shares, wide, x);
    assert_misfit(g, "block 0: an elementwise node expects 4 features, but its input has 6");
}

static graph *attention_graph(int64_t head_dim, int64_t q_width, int64_t k_width, int64_t v_width)
{
    graph *g = new_graph();
    const int h = add_embedding(g, "e", 10, 4);
    const int q = add_linear(g, 0, "q", 4, q_width, false, h);
    const int k = add_linear(g, 0, "k", 4, k_width, false, h);
    const int v = add_linear(g, 0, "v", 4, v_width, false, h);
    add_attention(g, 0, head_dim, q, k, v);
    return g;
}

TEST(heads_that_do_not_fit_are_refused)
{
    assert_misfit(attention_graph(4, 10, 8, 8),
                  "attention expects 12 features, but its input has 10");
    assert_misfit(attention_graph(4, 8, 6, 6), "attention expects 8 features, but its input has 6");
    assert_misfit(attention_graph(4, 8, 8, 5), "attention expects 6 features, but its input has 5");
    assert_misfit(attention_graph(4, 12, 8, 8),
                  "3 query heads are not a multiple of 2 key/value heads");
    assert_misfit(attention_graph(4, 4, 8, 8),
                  "1 query heads are not a multiple of 2 key/value heads");
}

/* -- memory ----------------------------------------------------------------------------------- */

static grail_status build(void *context)
{
    OWNED(graph) *g = NULL;
    const int64_t shape[2] = {10, 4};
    node n = {.kind = NODE_EMBEDDING, .block = GRAPH_NONE, .input_count = 1, .bias = GRAPH_NONE};
    int value = 0;
    CHECK(graph_create(&g));
    for (int i = 0; i < 40; i++) { /* past the first size of the arrays and of the table */
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        CHECK(graph_add_parameter(g, name, 2, shape, &n.weight));
        CHECK(graph_add_node(g, &n, &value));
    }
    return graph_finish(g, value);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(build, NULL);
}
