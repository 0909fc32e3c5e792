/* Nodes that look at positions: how many rows each value has, and what goes where. */
#include "hand_network.h"

#include "exec/sample_stream.h"

#include <math.h>
#include <string.h>

static const window2d window3 = WINDOW2D(3, 3, 1, 1, 1);
static const extent small = {4, 6};

/* The graph of one node behind the pixels; its output, owned. */
static float *run_one(hand_network *n, int output, int64_t samples, extent image,
                      const float *pixels)
{
    hand_end(n, backend_reference(), output);
    return hand_run(n, samples, image, pixels);
}

static void assert_rows(const hand_network *n, int64_t rows, int64_t width)
{
    const matrix y = execution_value(n->e, n->g->output);
    assert_int_equal(y.rows, rows);
    assert_int_equal(y.columns, width);
}

HAND_TEST(pixels_become_the_input_value)
{
    double values[2 * 4 * 6 * 3];
    OWNED(float) *pixels = hand_pixels(2, small, 1);
    hand_end(n, backend_reference(), hand_activation(n, ACTIVATION_RELU, n->g->input));
    assert_ok(execution_begin(n->e, (batch_shape){2, small}, (batch_input){.pixels = pixels}));
    const matrix x = execution_value(n->e, n->g->input);
    assert_int_equal(x.rows, 2 * 4 * 6);
    assert_int_equal(x.columns, 3);
    assert_ok(matrix_download(x, values));
    for (int i = 0; i < 2 * 4 * 6 * 3; i++) {
        assert_true(values[i] == (double)pixels[i]);
    }
}

HAND_TEST(a_shortcut_keeps_every_second_position_and_pads_channels)
{
    OWNED(float) *pixels = hand_pixels(2, (extent){5, 4}, 2);
    node s = node_of(NODE_SHORTCUT, 0, n->g->input, GRAPH_NONE);
    s.window = (window2d)WINDOW2D(1, 1, 2, 0, 1);
    s.pad = 2;
    int output = 0;
    assert_ok(graph_add_node(n->g, &s, &output));
    OWNED(float) *y = run_one(n, output, 2, (extent){5, 4}, pixels);
    assert_rows(n, 2 * 3 * 2, 7);
    for (int row = 0; row < 12; row++) {
        const int from = row / 6 * 20 + row % 6 / 2 * 2 * 4 + row % 2 * 2;
        for (int c = 0; c < 7; c++) {
            const bool inside = c >= 2 && c < 5;
            assert_true(y[row * 7 + c] == (inside ? pixels[from * 3 + c - 2] : 0.0F));
        }
    }
}

HAND_TEST(parts_are_runs_of_channels_and_lie_side_by_side)
{
    const extent image = {2, 3};
    OWNED(float) *pixels = hand_pixels(2, image, 1);
    const int behind = hand_slice(n, 1, 2, n->g->input);
    const int middle = hand_slice(n, 0, 1, behind);
    const int three = hand_concat(n, behind, n->g->input, middle);
    hand_end(n, backend_host(), hand_concat(n, three, middle, GRAPH_NONE));
    OWNED(float) *y = hand_run(n, 2, image, pixels);
    for (int i = 0; i < 2 * 6; i++) {
        const float *x = pixels + (ptrdiff_t)i * 3;
        const float expected[7] = {x[1], x[2], x[0], x[1], x[2], x[1], x[1]};
        assert_memory_equal(y + (ptrdiff_t)i * 7, expected, sizeof expected);
    }
}

/* A fused network may add an input, so rows say how many there can be. */
TEST(more_values_than_lie_side_by_side_are_refused)
{
    static const node_kind kinds[] = {NODE_CONCAT, NODE_ADD};
    for (int i = 0; i < 2; i++) {
        int value = 0;
        OPENED(graph, g, graph_create(&g));
        node n = node_of(kinds[i], 0, g->input, g->input);
        n.input_count = 1;
        assert_int_equal(graph_add_node(g, &n, &value), GRAIL_ERROR_INTERNAL);
        n.inputs[n.input_count++] = g->input;
        n.inputs[n.input_count++] = g->input;
        assert_int_equal(graph_add_node(g, &n, &value),
                         kinds[i] == NODE_ADD ? GRAIL_ERROR_INTERNAL : GRAIL_OK);
    }
}

HAND_TEST(parts_of_images_of_two_sizes_are_refused)
{
    const extent image = {3, 3};
    extent extents[4];
    node pool = node_of(NODE_MAX_POOL, 0, n->g->input, GRAPH_NONE);
    int pooled = 0;
    pool.window.height.kernel = 2;
    pool.window.width.kernel = 2;
    assert_ok(graph_add_node(n->g, &pool, &pooled));
    const int all = hand_concat(n, n->g->input, n->g->input, pooled);
    hand_end(n, backend_host(), all);
    assert_int_equal(graph_extents(n->g, image, extents), GRAIL_ERROR_SHAPE);
    assert_non_null(
        strstr(grail_error_message(), "inputs of a concatenation have 3 x 3 and 2 x 2"));
}

HAND_TEST(patches_lie_side_by_side_row_column_channel)
{
    OWNED(float) *pixels = hand_pixels(2, small, 3);
    node p = node_of(NODE_PATCHES, 0, n->g->input, GRAPH_NONE);
    p.window = (window2d)WINDOW2D(2, 2, 2, 0, 1);
    int output = 0;
    assert_ok(graph_add_node(n->g, &p, &output));
    OWNED(float) *y = run_one(n, output, 2, small, pixels);
    assert_rows(n, 2 * 6, 12);
    for (int i = 0; i < 12 * 12; i++) {
        const int patch = i / 12 % 6;
        const int tap = i % 12 / 3;
        const int row = patch / 3 * 2 + tap / 2;
        const int column = patch % 3 * 2 + tap % 2;
        const int from = (i / 72 * 24 + row * 6 + column) * 3 + i % 3;
        assert_true(y[i] == pixels[from]);
    }
}

/* y = mean(x) per sample, and the first position of [token, x] + positions. */
HAND_TEST(tokens_are_put_first_and_positions_added_to_every_sample)
{
    const float token[3] = {1.0F, -2.0F, 0.5F};
    float positions[25 * 3];
    OWNED(float) *pixels = hand_pixels(2, small, 4);
    support_fill_normal(positions, 25 * 3, 5);
    const int with_token = hand_token(n, NODE_CLASS_TOKEN, "class", 1, 3, n->g->input);
    hand_end(n, backend_reference(), hand_token(n, NODE_POSITIONS, "learned", 25, 3, with_token));
    hand_set(n, "class.token", token);
    hand_set(n, "learned.positions", positions);
    OWNED(float) *y = hand_run(n, 2, small, pixels);
    assert_rows(n, 2 * 25, 3);
    for (int i = 0; i < 2 * 25 * 3; i++) {
        const int row = i / 3 % 25;
        const float before = row == 0 ? token[i % 3] : pixels[i / 75 * 72 + (row - 1) * 3 + i % 3];
        assert_near(y[i], (double)before + (double)positions[row * 3 + i % 3], 1e-6);
    }
}

/* 24 of 30 learned positions are there. */
HAND_TEST(inputs_may_have_the_first_positions_alone)
{
    float positions[30 * 3];
    OWNED(float) *pixels = hand_pixels(2, small, 4);
    support_fill_normal(positions, 30 * 3, 5);
    const int placed = hand_token(n, NODE_POSITIONS, "learned", 30, 3, n->g->input);
    n->g->nodes[n->g->node_count - 1].positions.may_be_fewer = true;
    hand_end(n, backend_reference(), placed);
    hand_set(n, "learned.positions", positions);
    OWNED(float) *y = hand_run(n, 2, small, pixels);
    assert_rows(n, 2 * 24, 3);
    for (int i = 0; i < 2 * 24 * 3; i++) {
        assert_near(y[i], (double)pixels[i] + (double)positions[i % 72], 1e-6);
    }
    assert_fails(execution_begin(n->e, (batch_shape){2, {4, 8}}, (batch_input){.pixels = pixels}),
                 GRAIL_ERROR_SHAPE,
                 "learned.positions has 30 positions, but the input makes 32; use shorter samples");
}

/* The first of three rows is added to all positions, of however many there are. */
HAND_TEST(one_row_may_be_added_to_all_positions)
{
    float rows[3 * 3];
    OWNED(float) *pixels = hand_pixels(2, small, 4);
    support_fill_normal(rows, 3 * 3, 6);
    const int placed = hand_token(n, NODE_POSITIONS, "types", 3, 3, n->g->input);
    n->g->nodes[n->g->node_count - 1].positions.one_for_all = true;
    hand_end(n, backend_reference(), placed);
    hand_set(n, "types.positions", rows);
    OWNED(float) *y = hand_run(n, 2, small, pixels);
    assert_rows(n, 2 * 24, 3);
    for (int i = 0; i < 2 * 24 * 3; i++) {
        assert_near(y[i], (double)pixels[i] + (double)rows[i % 3], 1e-6);
    }
}

/* Adds a table of step * i to the positions of x. */
static int add_table(hand_network *n, double step, int x)
{
    double *table = NULL;
    int made = 0;
    assert_ok(memory_new(&table, 24 * 3, sizeof table[0]));
    for (int i = 0; i < 24 * 3; i++) {
        table[i] = step * i;
    }
    node p = node_of(NODE_POSITIONS, 0, x, GRAPH_NONE);
    p.positions = (position_attributes){.count = 24, .table = table};
    assert_ok(graph_own_table(n->g, &table));
    assert_null(table);
    assert_ok(graph_add_node(n->g, &p, &made));
    return made;
}

HAND_TEST(every_node_may_have_a_table_of_positions_of_its_own)
{
    OWNED(float) *pixels = hand_pixels(2, small, 6);
    OWNED(float) *y =
        run_one(n, add_table(n, 0.5, add_table(n, -0.25, n->g->input)), 2, small, pixels);
    for (int i = 0; i < 2 * 24 * 3; i++) {
        assert_near(y[i], (double)pixels[i] + 0.25 * (i % 72), 1e-5);
    }
}

TEST(the_first_position_and_the_mean_leave_one_row_per_sample)
{
    static const node_kind kinds[] = {NODE_FIRST_TOKEN, NODE_MEAN};
    for (int k = 0; k < 2; k++) {
        OWNED(hand_network) n;
        OWNED(float) *pixels = hand_pixels(3, small, 7);
        hand_begin(&n);
        OWNED(float) *y =
            run_one(&n, hand_plain(&n, kinds[k], n.g->input, GRAPH_NONE), 3, small, pixels);
        assert_rows(&n, 3, 3);
        for (int i = 0; i < 9; i++) {
            const float *sample = pixels + i / 3 * 72;
            double expected = (double)sample[i % 3];
            for (int row = 1; k == 1 && row < 24; row++) {
                expected += (double)sample[row * 3 + i % 3];
            }
            assert_near(y[i], k == 1 ? expected / 24.0 : expected, 1e-6);
        }
    }
}

static int take_tokens(const hand_network *n, int64_t left_out, extent size)
{
    int value = 0;
    node taken = node_of(NODE_TAKE_TOKENS, 0, n->g->input, GRAPH_NONE);
    taken.tokens = (token_attributes){left_out, size};
    assert_ok(graph_add_node(n->g, &taken, &value));
    return value;
}

HAND_TEST(positions_behind_the_first_ones_are_an_image)
{
    const extent eleven = {11, 2};
    OWNED(float) *pixels = hand_pixels(3, small, 7);
    OWNED(float) *y = run_one(n, take_tokens(n, 2, eleven), 3, small, pixels);
    assert_rows(n, 3 * 22, 3);
    for (int i = 0; i < 3 * 22 * 3; i++) {
        assert_true(y[i] == pixels[i / 66 * 72 + 6 + i % 66]);
    }
}

HAND_TEST(positions_that_are_taken_are_all_that_are_left)
{
    extent extents[2];
    hand_end(n, backend_host(), take_tokens(n, 2, (extent){11, 2}));
    assert_ok(graph_extents(n->g, small, extents));
    assert_int_equal(graph_extents(n->g, (extent){3, 4}, extents), GRAIL_ERROR_SHAPE);
    assert_non_null(strstr(grail_error_message(),
                           "11 x 2 positions are taken behind the first 2 of 12, expected all"));
    n->g->nodes[0].tokens = (token_attributes){24, {0, 0}};
    assert_int_equal(graph_extents(n->g, small, extents), GRAIL_ERROR_SHAPE);
    n->g->nodes[0].tokens.left_out = 23;
    assert_ok(graph_extents(n->g, small, extents));
    assert_true(extents[1].height == 1 && extents[1].width == 1);
}

/* A residual network with every kind of node that one has. */
static int residual_nodes(hand_network *n)
{
    int h = hand_conv(n, "stem", 3, 8, (window2d)WINDOW2D(3, 3, 1, 1, 1), false, n->g->input);
    h = hand_norm(n, NODE_BATCH_NORM, "stem_norm", 8, h);
    h = hand_activation(n, ACTIVATION_RELU, h);
    node pool = node_of(NODE_MAX_POOL, 0, h, GRAPH_NONE);
    pool.window = (window2d)WINDOW2D(3, 3, 2, 1, 1);
    assert_ok(graph_add_node(n->g, &pool, &h));
    int x = hand_conv(n, "one", 8, 5, window3, false, h);
    x = hand_norm(n, NODE_BATCH_NORM, "one_norm", 5, x);
    x = hand_activation(n, ACTIVATION_RELU, x);
    x = hand_conv(n, "two", 5, 12, (window2d)WINDOW2D(3, 3, 2, 1, 1), true, x);
    x = hand_norm(n, NODE_BATCH_NORM, "two_norm", 12, x);
    node shortcut = node_of(NODE_SHORTCUT, 0, h, GRAPH_NONE);
    shortcut.window = (window2d)WINDOW2D(1, 1, 2, 0, 1);
    shortcut.pad = 2;
    assert_ok(graph_add_node(n->g, &shortcut, &h));
    h = hand_activation(n, ACTIVATION_RELU, hand_plain(n, NODE_ADD, x, h));
    h = hand_plain(n, NODE_MEAN, h, GRAPH_NONE);
    return hand_linear(n, "head", 12, 7, h);
}

static int transformer_nodes(hand_network *n)
{
    int h = hand_conv(n, "patch", 3, 8, (window2d)WINDOW2D(2, 2, 2, 0, 1), true, n->g->input);
    h = hand_token(n, NODE_CLASS_TOKEN, "class", 1, 8, h);
    h = hand_token(n, NODE_POSITIONS, "learned", 13, 8, h);
    const int x = hand_norm(n, NODE_LAYER_NORM, "norm", 8, h);
    node attention =
        node_of(NODE_ATTENTION, 0, hand_linear(n, "q", 8, 8, x), hand_linear(n, "k", 8, 8, x));
    attention.inputs[attention.input_count++] = hand_linear(n, "v", 8, 8, x);
    attention.attention.head_dim = 4;
    attention.attention.scale = 0.5;
    attention.attention.bidirectional = true;
    int a = 0;
    assert_ok(graph_add_node(n->g, &attention, &a));
    h = hand_plain(n, NODE_ADD, h, hand_linear(n, "o", 8, 8, a));
    h = hand_activation(n, ACTIVATION_QUICK_GELU, h);
    h = hand_plain(n, NODE_FIRST_TOKEN, h, GRAPH_NONE);
    h = hand_plain(n, NODE_UNIT_LENGTH, h, GRAPH_NONE);
    return hand_linear(n, "head", 8, 5, h);
}

typedef struct network_case {
    int (*nodes)(hand_network *n);
    extent image;
    int64_t outputs;
} network_case;

static const network_case networks[] = {{residual_nodes, {9, 7}, 7},
                                        {transformer_nodes, {6, 8}, 5}};

enum { NETWORK_COUNT = sizeof networks / sizeof networks[0] };

/* Every sample alone gives what it gives among others: no row of one reaches another. */
TEST(samples_do_not_touch_each_other)
{
    enum { SAMPLES = 5 };
    for (size_t k = 0; k < NETWORK_COUNT; k++) {
        const network_case *c = &networks[k];
        OWNED(hand_network) n;
        hand_begin(&n);
        hand_end(&n, backend_reference(), c->nodes(&n));
        OWNED(float) *pixels = hand_pixels(SAMPLES, c->image, 8);
        OWNED(float) *all = hand_run(&n, SAMPLES, c->image, pixels);
        assert_rows(&n, SAMPLES, c->outputs);
        for (int64_t sample = 0; sample < SAMPLES; sample++) {
            const float *alone = pixels + sample * c->image.height * c->image.width * 3;
            OWNED(float) *y = hand_run(&n, 1, c->image, alone);
            for (int64_t i = 0; i < c->outputs; i++) {
                assert_near(all[sample * c->outputs + i], y[i], 1e-6);
            }
        }
        assert_true(fabsf(all[0] - all[c->outputs]) > 1e-4F); /* and samples differ */
    }
}

TEST(both_backends_agree_on_whole_networks)
{
    enum { SAMPLES = 6 };
    for (size_t k = 0; k < NETWORK_COUNT; k++) {
        const network_case *c = &networks[k];
        OWNED(hand_network) n;
        OWNED(hand_network) m;
        hand_begin(&n);
        hand_begin(&m);
        hand_end(&n, backend_reference(), c->nodes(&n));
        hand_end(&m, backend_host(), c->nodes(&m));
        OWNED(float) *pixels = hand_pixels(SAMPLES, c->image, 9);
        OWNED(float) *y = hand_run(&n, SAMPLES, c->image, pixels);
        OWNED(float) *z = hand_run(&m, SAMPLES, c->image, pixels);
        for (int64_t i = 0; i < SAMPLES * c->outputs; i++) {
            assert_near(y[i], z[i], 2e-5);
        }
    }
}

HAND_TEST(nodes_one_by_one_give_the_same_as_a_range)
{
    const network_case *c = &networks[0];
    hand_end(n, backend_host(), c->nodes(n));
    OWNED(float) *pixels = hand_pixels(2, c->image, 10);
    OWNED(float) *y = hand_run(n, 2, c->image, pixels);
    assert_ok(execution_begin(n->e, (batch_shape){2, c->image}, (batch_input){.pixels = pixels}));
    for (int i = 0; i < n->g->node_count; i++) {
        assert_ok(execution_run(n->e, n->store, i, i + 1));
    }
    float singly[2 * 7];
    assert_ok(matrix_download(execution_value(n->e, n->g->output), singly));
    assert_memory_equal(y, singly, sizeof singly);
    for (int v = 0; v < n->g->output; v++) {
        assert_false(matrix_exists(execution_value(n->e, v))); /* read for the last time, dropped */
    }
}

/* Values that live at one place have different rows; a sample stream keeps them all, batch by
 * batch. The input is given again where it is still read. */
HAND_TEST(a_stream_may_stop_before_every_node)
{
    enum { BATCHES = 2, SAMPLES = 2 };
    const network_case *c = &networks[0];
    const int64_t pixels_in_batch = SAMPLES * c->image.height * c->image.width * 3;
    OWNED(sample_stream) s;
    hand_end(n, backend_host(), c->nodes(n));
    OWNED(float) *pixels = hand_pixels(BATCHES * SAMPLES, c->image, 14);
    assert_ok(sample_stream_init(&s, n->g, backend_host(), BATCHES));
    for (int position = 0; position < n->g->node_count; position++) {
        assert_ok(sample_stream_move_begin(&s, position + 1));
        for (int64_t batch = 0; batch < BATCHES; batch++) {
            const bool reads_input = n->g->last_use[n->g->input] >= position;
            const batch_input input = {.pixels =
                                           reads_input ? pixels + batch * pixels_in_batch : NULL};
            assert_ok(execution_begin(n->e, (batch_shape){SAMPLES, c->image}, input));
            assert_ok(sample_stream_read(&s, batch, n->e));
            assert_ok(execution_run(n->e, n->store, position, position + 1));
            assert_ok(sample_stream_write(&s, batch, n->e));
        }
        sample_stream_move_end(&s);
    }
    for (int64_t batch = 0; batch < BATCHES; batch++) {
        OWNED(float) *y = hand_run(n, SAMPLES, c->image, pixels + batch * pixels_in_batch);
        assert_int_equal(s.held[batch].rows, SAMPLES);
        float held[SAMPLES * 7];
        assert_ok(matrix_download(s.held[batch], held));
        assert_memory_equal(held, y, sizeof held);
    }
}

TEST(a_shape_that_does_not_fit_is_refused_before_anything_runs)
{
    const float pixel[3] = {0.0F};
    hand_network n;
    hand_begin(&n);
    hand_end(&n, backend_reference(), transformer_nodes(&n));
    assert_fails(execution_begin(n.e, (batch_shape){1, {8, 8}}, (batch_input){.pixels = pixel}),
                 GRAIL_ERROR_SHAPE,
                 "learned.positions has 13 positions, but the input makes 17; use images of the "
                 "size that the network was trained on");
    assert_fails(execution_begin(n.e, (batch_shape){1, {1, 8}}, (batch_input){.pixels = pixel}),
                 GRAIL_ERROR_SHAPE,
                 "the window of patch.weight does not fit into an input of 1 x 8");
    hand_fini(&n);
    hand_begin(&n);
    hand_end(&n, backend_reference(), residual_nodes(&n));
    assert_fails(execution_begin(n.e, (batch_shape){1, {(int64_t)1 << 40, (int64_t)1 << 40}},
                                 (batch_input){.pixels = pixel}),
                 GRAIL_ERROR_MEMORY, "is too large to address");
    hand_fini(&n);
}

HAND_TEST(pixels_must_be_there)
{
    hand_end(n, backend_reference(), residual_nodes(n));
    assert_ok(execution_begin(n->e, (batch_shape){1, {8, 8}}, (batch_input){0}));
    assert_fails(execution_run(n->e, n->store, 0, n->g->node_count), GRAIL_ERROR_INTERNAL,
                 "node 0 was run without its input 0");
}

HAND_TEST(no_samples_forget_the_batch)
{
    OWNED(float) *pixels = hand_pixels(1, (extent){6, 8}, 11);
    hand_end(n, backend_reference(), transformer_nodes(n));
    memory_free(hand_run(n, 1, (extent){6, 8}, pixels));
    assert_ok(execution_begin(n->e, (batch_shape){0}, (batch_input){0}));
    assert_false(matrix_exists(execution_value(n->e, n->g->output)));
    assert_int_equal(execution_rows(n->e, n->g->output), 0);
}

HAND_TEST(an_overflowing_convolution_is_named)
{
    float weight[8 * 3 * 9];
    OWNED(float) *pixels = hand_pixels(1, (extent){8, 8}, 12);
    hand_end(n, backend_host(), residual_nodes(n));
    for (size_t i = 0; i < sizeof weight / sizeof weight[0]; i++) {
        weight[i] = 3e38F;
    }
    hand_set(n, "stem.weight", weight);
    assert_ok(execution_begin(n->e, (batch_shape){1, {8, 8}}, (batch_input){.pixels = pixels}));
    assert_fails(execution_run(n->e, n->store, 0, n->g->node_count), GRAIL_ERROR_NUMERIC,
                 "the output of 'stem.weight' is NaN or infinite at row 0, feature 0");
}

typedef struct run_case {
    hand_network *n;
    const float *pixels;
    extent image;
} run_case;

static grail_status run_afresh(void *context)
{
    const run_case *c = context;
    OWNED(matrix_pool) *pool = NULL;
    OWNED(execution) *e = NULL;
    CHECK(matrix_pool_create(c->n->e->backend, &pool));
    CHECK(execution_create(c->n->g, c->n->e->backend, pool, &e));
    CHECK(execution_begin(e, (batch_shape){2, c->image}, (batch_input){.pixels = c->pixels}));
    return execution_run(e, c->n->store, 0, c->n->g->node_count);
}

TEST(every_failing_allocation_is_survived)
{
    for (size_t k = 0; k < NETWORK_COUNT; k++) {
        OWNED(hand_network) n;
        hand_begin(&n);
        hand_end(&n, backend_host(), networks[k].nodes(&n));
        OWNED(float) *pixels = hand_pixels(2, networks[k].image, 13);
        run_case c = {&n, pixels, networks[k].image};
        support_fail_each_allocation(run_afresh, &c);
    }
}
