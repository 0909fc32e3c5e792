/* Sites of parts of values: concatenations, slices, fused maps, and what pins one part alone. */
#include "build.h"

#include <string.h>

enum { COLOURS = IMAGE_CHANNELS, LEFT = 8, RIGHT = 6, NEXT = 10, CLASSES = 5 };

static graph *begin_images(void)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    g->input_kind = INPUT_IMAGES;
    return g;
}

static int relu(graph *g, int x)
{
    return add_plain(g, 0, NODE_ACTIVATION, x, GRAPH_NONE);
}

static void finish(graph *g, int64_t width, int x)
{
    const int mean = add_plain(g, 1, NODE_MEAN, x, GRAPH_NONE);
    assert_ok(graph_finish(g, add_linear(g, 1, "head", width, CLASSES, true, mean)));
}

static int left_of(graph *g)
{
    return relu(g, add_conv(g, 0, "left", COLOURS, LEFT, 1, 1, g->input));
}

static int right_of(graph *g)
{
    return relu(g, add_conv(g, 0, "right", COLOURS, RIGHT, 3, 1, g->input));
}

TEST(what_lies_side_by_side_is_a_site_each)
{
    graph *g = begin_images();
    const int left = left_of(g);
    int h = add_concat(g, 0, left, right_of(g), GRAPH_NONE);
    h = add_batch_norm(g, 0, "norm", LEFT + RIGHT, h);
    h = add_conv(g, 0, "next", LEFT + RIGHT, NEXT, 3, 1, h);
    finish(g, NEXT, h);
    assert_sites(g, GQA_KV_GROUPS,
                 "next[0] conv 0, 8 units, 97 each: left > next with norm\n"
                 "next[8] conv 0, 6 units, 121 each: right > next@8 with norm@8\n"
                 "head ffn 1, 10 units across blocks, 131 each: next > head\n");
    graph_free(g);
}

/* As in a densely connected block: the first part is read alone, too. */
TEST(a_part_that_is_read_alone_has_all_its_consumers)
{
    graph *g = begin_images();
    const int left = left_of(g);
    const int right = add_conv(g, 0, "right", LEFT, RIGHT, 3, 1, left);
    const int both = add_concat(g, 0, left, right, GRAPH_NONE);
    const int third = add_conv(g, 0, "third", LEFT + RIGHT, 4, 1, 1, both);
    const int all = add_concat(g, 0, right, both, third);
    finish(g, RIGHT + LEFT + RIGHT + 4, all);
    assert_sites(g, GQA_KV_GROUPS,
                 "right conv 0, 8 units across blocks, 66 each: left > right third head@6\n"
                 "head[20] ffn 1, 4 units across blocks, 19 each: third > head@20\n");
    graph_free(g);
}

/* A stream that zeros make wider: what is added to them are channels of their own, before and
 * behind those that went on. Zeros that nothing is added to stay. */
TEST(zeros_that_something_is_added_to_are_sites)
{
    graph *g = begin_images();
    const int left = left_of(g);
    const int wide = add_concat(g, 0, add_zeros(g, 0, 2, left), left, add_zeros(g, 0, 4, left));
    const int made = add_conv(g, 0, "made", LEFT, LEFT + 6, 1, 1, left);
    const int sum = add_plain(g, 0, NODE_ADD, wide, made);
    const int all = add_concat(g, 0, sum, add_zeros(g, 0, 3, sum), GRAPH_NONE);
    finish(g, LEFT + 9, all);
    assert_sites(g, GQA_KV_GROUPS,
                 "made stream 0, 8 units across blocks, 30 each: left made@2! > made head@2\n"
                 "head[0] stream 1, 2 units across blocks, 13 each: made! > head\n"
                 "head[10] stream 1, 4 units across blocks, 13 each: made@10! > head@10\n");
    graph_free(g);
}

TEST(three_values_lie_one_after_the_other)
{
    graph *g = begin_images();
    const int left = left_of(g);
    const int right = right_of(g);
    const int third = add_conv(g, 0, "third", COLOURS, 4, 1, 1, g->input);
    finish(g, LEFT + RIGHT + 4, add_concat(g, 0, right, third, left));
    assert_sites(g, GQA_KV_GROUPS,
                 "head[0] ffn 1, 6 units across blocks, 32 each: right > head\n"
                 "head[6] ffn 1, 4 units across blocks, 8 each: third > head@6\n"
                 "head[10] ffn 1, 8 units across blocks, 8 each: left > head@10\n");
    graph_free(g);
}

/* One Linear makes gate and up. */
TEST(a_fused_gate_and_up_is_one_site_of_two_runs_of_rows)
{
    graph *g = begin_images();
    const int x = add_linear(g, 0, "in", COLOURS, NEXT, false, g->input);
    const int fused = add_linear(g, 0, "gate_up", NEXT, 2 * LEFT, true, x);
    const int gate = relu(g, add_slice(g, 0, 0, LEFT, fused));
    const int up = add_slice(g, 0, LEFT, LEFT, fused);
    const int h =
        add_linear(g, 0, "down", LEFT, NEXT, false, add_plain(g, 0, NODE_MULTIPLY, gate, up));
    finish(g, NEXT, h);
    assert_sites(g, GQA_KV_GROUPS,
                 "gate_up ffn 0, 10 units, 19 each: in > gate_up\n"
                 "down ffn 0, 8 units, 32 each: gate_up gate_up@8 > down\n"
                 "head ffn 1, 10 units across blocks, 13 each: down > head\n");
    graph_free(g);
}

TEST(slices_that_go_their_own_ways_are_sites_of_their_own)
{
    graph *g = begin_images();
    const int x = add_conv(g, 0, "in", COLOURS, LEFT + RIGHT, 1, 1, g->input);
    const int norm = relu(g, add_batch_norm(g, 0, "norm", LEFT + RIGHT, x));
    const int a = add_conv(g, 0, "a", LEFT, NEXT, 1, 1, add_slice(g, 0, 0, LEFT, norm));
    const int b = add_conv(g, 0, "b", RIGHT, NEXT, 1, 1, add_slice(g, 0, LEFT, RIGHT, norm));
    finish(g, NEXT, add_plain(g, 0, NODE_ADD, a, b));
    assert_sites(g, GQA_KV_GROUPS,
                 "a conv 0, 8 units, 17 each: in > a with norm\n"
                 "b conv 0, 6 units, 17 each: in@8 > b with norm@8\n"
                 "head stream 1, 10 units across blocks, 19 each: a b! > head\n");
    graph_free(g);
}

/* A channel that only a part of the readers see is a unit of another site than the others. */
TEST(overlapping_slices_split_their_input)
{
    graph *g = begin_images();
    const int x = add_conv(g, 0, "in", COLOURS, 12, 1, 1, g->input);
    const int a = add_conv(g, 0, "a", 8, NEXT, 1, 1, add_slice(g, 0, 0, 8, x));
    const int b = add_conv(g, 0, "b", 8, NEXT, 1, 1, add_slice(g, 0, 4, 8, x));
    finish(g, NEXT, add_plain(g, 0, NODE_ADD, a, b));
    assert_sites(g, GQA_KV_GROUPS,
                 "a[0] conv 0, 4 units, 13 each: in > a\n"
                 "a[4] conv 0, 4 units, 23 each: in@4 > a@4 b\n"
                 "b[4] conv 0, 4 units, 13 each: in@8 > b@4\n"
                 "head stream 1, 10 units across blocks, 21 each: a b! > head\n");
    graph_free(g);
}

/* One Linear makes queries, keys and values: two query heads to a key head. */
TEST(fused_queries_keys_and_values_are_one_site_of_heads)
{
    enum { DIM = 4 };
    graph *g = begin_images();
    const int x = add_linear(g, 0, "in", COLOURS, NEXT, false, g->input);
    const int fused = add_linear(g, 0, "qkv", NEXT, 8 * DIM, false, x);
    const int q = add_slice(g, 0, 0, 4 * DIM, fused);
    const int k = add_slice(g, 0, 4 * DIM, 2 * DIM, fused);
    const int v = add_slice(g, 0, 6 * DIM, 2 * DIM, fused);
    const int h = add_attention(g, 0, DIM, q, k, v);
    finish(g, NEXT, add_linear(g, 0, "o", 4 * DIM, NEXT, false, h));
    assert_sites(g, GQA_KV_GROUPS,
                 "qkv ffn 0, 10 units, 35 each: in > qkv\n"
                 "o heads 0, 2 units of 2, 240 each: qkv*8~ qkv*4@16 qkv*4@24 > o*8~\n"
                 "head ffn 1, 10 units across blocks, 21 each: o > head\n");
    assert_sites(g, GQA_QUERY_PER_GROUP,
                 "qkv ffn 0, 10 units, 35 each: in > qkv\n"
                 "o heads 0, 4 units in 2 groups, 80 each: qkv*4 > o*4\n"
                 "head ffn 1, 10 units across blocks, 21 each: o > head\n");
    graph_free(g);
}

TEST(what_a_part_is_pinned_by_leaves_the_others_free)
{
    graph *g = begin_images();
    const int h = add_concat(g, 0, g->input, left_of(g), GRAPH_NONE);
    finish(g, COLOURS + LEFT, h);
    assert_sites(g, GQA_KV_GROUPS, "head[3] ffn 1, 8 units across blocks, 8 each: left > head@3\n");
    graph_free(g);
}

TEST(a_value_beside_itself_is_pinned)
{
    graph *g = begin_images();
    const int left = left_of(g);
    const int h = add_concat(g, 0, left, relu(g, left), right_of(g));
    finish(g, 2 * LEFT + RIGHT, h);
    assert_sites(g, GQA_KV_GROUPS,
                 "head[16] ffn 1, 6 units across blocks, 32 each: right > head@16\n");
    graph_free(g);
}

/* The mean square of what is left would be another one for each of the sites. */
TEST(a_norm_over_several_parts_pins_them)
{
    graph *g = begin_images();
    const int left = left_of(g);
    const int h = add_concat(g, 0, left, right_of(g), GRAPH_NONE);
    finish(g, LEFT + RIGHT, add_norm(g, 0, "norm", LEFT + RIGHT, 0, h));
    assert_sites(g, GQA_KV_GROUPS, "");
    graph_free(g);
}

TEST(heads_that_are_cut_elsewhere_are_pinned)
{
    enum { DIM = 4 };
    graph *g = begin_images();
    const int q = add_linear(g, 0, "q", COLOURS, 2 * DIM, false, g->input);
    const int k = add_linear(g, 0, "k", COLOURS, 2 * DIM, false, g->input);
    const int v = add_linear(g, 0, "v", COLOURS, 2 * DIM, false, g->input);
    const int part = add_linear(g, 0, "part", 3, NEXT, false, add_slice(g, 0, 1, 3, k));
    const int h = add_linear(g, 0, "o", 2 * DIM, NEXT, false, add_attention(g, 0, DIM, q, k, v));
    finish(g, NEXT, add_plain(g, 0, NODE_ADD, h, part));
    assert_sites(g, GQA_KV_GROUPS,
                 "head stream 1, 10 units across blocks, 16 each: part o! > head\n");
    graph_free(g);
}

TEST(segments_tell_where_the_units_of_a_site_lie)
{
    graph *g = begin_images();
    site_list sites = {0};
    const int left = left_of(g);
    const int right = right_of(g);
    const int both = add_concat(g, 0, left, right, GRAPH_NONE);
    finish(g, LEFT + RIGHT, both);
    assert_ok(sites_derive(g, GQA_KV_GROUPS, &sites));
    const site *s = find_site(&sites, "head[8]");
    assert_true(s->is_part);
    for (int i = 0; i < s->segment_count; i++) {
        const bool joined = s->segments[i].value >= both;
        assert_true(joined || s->segments[i].value == right || s->segments[i].value == right - 1);
        assert_int_equal(s->segments[i].first, joined ? LEFT : 0);
        assert_int_equal(s->segments[i].features_per_unit, 1);
    }
    assert_int_equal(s->segment_count, 4); /* before and behind relu, side by side, mean */
    site_list_fini(&sites);
    graph_free(g);
}

TEST(a_run_outside_its_input_is_refused)
{
    static const int64_t runs[][2] = {{0, 0}, {-1, 2}, {LEFT, 1}, {1, LEFT}, {2, INT64_MAX}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        graph *g = begin_images();
        const int x = add_slice(g, 0, runs[i][0], runs[i][1], left_of(g));
        assert_int_equal(graph_finish(g, x), GRAIL_ERROR_SHAPE);
        assert_non_null(strstr(grail_error_message(), "are taken from an input of 8"));
        graph_free(g);
    }
}

TEST(every_failing_allocation_is_survived)
{
    graph *g = begin_images();
    const int left = left_of(g);
    const int both = add_concat(g, 0, left, right_of(g), GRAPH_NONE);
    finish(g, LEFT, add_slice(g, 0, 2, LEFT, both));
    assert_derivation_survives(g);
    graph_free(g);
}
