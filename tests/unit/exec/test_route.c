/* Rows that a router chooses: a layer of experts against a loop over its rows, also where an expert
 * has none, or all. */
#include "hand_network.h"

#include "support/matrices.h"

#include "exec/sample_stream.h"
#include "stats/statistics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 6, INNER = 5, EXPERTS = 4, CHOSEN = 2, SAMPLES = 2, POSITIONS = 12 };
enum { ROWS = SAMPLES * POSITIONS };

static const extent image = {4, 3};

/* A residual stream with a layer of experts, of which the last one is never chosen. */
typedef struct layer {
    hand_network n;
    bool pinned[64];
    int x, scores, shares;          /* values */
    int taken[EXPERTS], h[EXPERTS]; /* rows of an expert, and its hidden rows */
    float *pixels;
} layer;

/* The residual stream with an expert's part. */
static int expert_nodes(layer *l, int e, int sum)
{
    char up[16];
    char down[16];
    snprintf(up, sizeof up, "up%d", e);
    snprintf(down, sizeof down, "down%d", e);
    l->taken[e] = hand_take_rows(&l->n, e, l->shares, l->x);
    l->h[e] =
        hand_activation(&l->n, ACTIVATION_RELU, hand_linear(&l->n, up, WIDTH, INNER, l->taken[e]));
    const int rows = hand_linear(&l->n, down, INNER, WIDTH, l->h[e]);
    return hand_put_rows(&l->n, e, l->shares, rows, sum);
}

/* The router's biases; the last expert's is below what the others' scores can be. */
static void set_biases(layer *l, float first)
{
    const float biases[EXPERTS] = {first, 0.25F, 0.0F, -60.0F};
    hand_set(&l->n, "router.bias", biases);
}

static void open_layer(layer *l, backend *b, bool over_all)
{
    const window2d point = WINDOW2D(1, 1, 1, 0, 1);
    *l = (layer){.pixels = hand_pixels(SAMPLES, image, 5)};
    hand_begin(&l->n);
    l->x = hand_conv(&l->n, "in", 3, WIDTH, point, true, l->n.g->input);
    l->scores = hand_linear(&l->n, "router", WIDTH, EXPERTS, l->x);
    l->shares = hand_route(&l->n, CHOSEN, over_all, l->scores);
    int sum = l->x;
    for (int e = 0; e < EXPERTS; e++) {
        sum = expert_nodes(l, e, sum);
    }
    hand_end(&l->n, b, sum);
    set_biases(l, 0.5F);
    memset(l->pinned, 1, sizeof l->pinned);
    l->n.e->pinned = l->pinned;
}

static void close_layer(layer *l)
{
    memory_free(l->pixels);
    hand_fini(&l->n);
}

static float *values_of(const layer *l, int value)
{
    const matrix m = execution_value(l->n.e, value);
    float *values = NULL;
    assert_true(matrix_exists(m));
    assert_ok(memory_new(&values, (size_t)matrix_count(m) + 1, sizeof values[0]));
    assert_ok(matrix_download_f32(m, values));
    return values;
}

static float *parameter_of(const layer *l, const char *part, int expert, const char *kind)
{
    char name[32];
    float *values = NULL;
    int64_t count = 0;
    snprintf(name, sizeof name, "%s%d.%s", part, expert, kind);
    assert_ok(
        parameter_store_read_f32(l->n.store, graph_find_parameter(l->n.g, name), &values, &count));
    return values;
}

/* -- the same by a loop ------------------------------------------------------------------------ */

/* The weight of an expert in a row, 0 where it is not chosen: it is when fewer than CHOSEN experts
 * come before it. */
static double weight_of(const float *scores, int expert, bool over_all)
{
    double sum = 0.0;
    int before = 0;
    for (int o = 0; o < EXPERTS; o++) {
        int rank = 0;
        for (int k = 0; k < EXPERTS; k++) {
            rank += scores[k] > scores[o] || (scores[k] == scores[o] && k < o);
        }
        sum += over_all || rank < CHOSEN ? exp((double)scores[o] - (double)scores[expert]) : 0.0;
        before = o == expert ? rank : before;
    }
    return before < CHOSEN ? 1.0 / sum : 0.0;
}

typedef struct by_hand {
    double y[ROWS][WIDTH];
    double gram[EXPERTS][INNER][INNER];
    int64_t count[EXPERTS];
} by_hand;

static void add_expert_row(by_hand *o, int e, const float *up, const float *up_bias,
                           const float *down, const float *down_bias, int row, const float *x,
                           double weight)
{
    double h[INNER];
    for (int i = 0; i < INNER; i++) {
        h[i] = (double)up_bias[i];
        for (int j = 0; j < WIDTH; j++) {
            h[i] += (double)up[i * WIDTH + j] * (double)x[j];
        }
        h[i] = fmax(h[i], 0.0);
    }
    for (int i = 0; i < INNER; i++) {
        for (int j = 0; j < INNER; j++) {
            o->gram[e][i][j] += h[i] * h[j];
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        double sum = (double)down_bias[i];
        for (int j = 0; j < INNER; j++) {
            sum += (double)down[i * INNER + j] * h[j];
        }
        o->y[row][i] += weight * sum;
    }
    o->count[e]++;
}

static void add_expert(const layer *l, by_hand *o, int e, const float *x, const float *scores,
                       bool over_all)
{
    OWNED(float) *up = parameter_of(l, "up", e, "weight");
    OWNED(float) *up_bias = parameter_of(l, "up", e, "bias");
    OWNED(float) *down = parameter_of(l, "down", e, "weight");
    OWNED(float) *down_bias = parameter_of(l, "down", e, "bias");
    for (int r = 0; r < ROWS; r++) {
        const double weight = weight_of(scores + r * EXPERTS, e, over_all);
        if (weight > 0.0) {
            add_expert_row(o, e, up, up_bias, down, down_bias, r, x + r * WIDTH, weight);
        }
    }
}

static void run_by_hand(const layer *l, bool over_all, by_hand *o)
{
    OWNED(float) *x = values_of(l, l->x);
    OWNED(float) *scores = values_of(l, l->scores);
    memset(o, 0, sizeof *o);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < WIDTH; i++) {
            o->y[r][i] = (double)x[r * WIDTH + i];
        }
    }
    for (int e = 0; e < EXPERTS; e++) {
        add_expert(l, o, e, x, scores, over_all);
    }
}

/* Statistics of an expert's hidden rows are those of the rows routed to it. */
static void assert_statistics(const layer *l, const by_hand *o, int e)
{
    const matrix h = execution_value(l->n.e, l->h[e]);
    OPENED(grail_statistics, s, statistics_create(h.owner, INNER, 0, &s));
    assert_ok(statistics_accumulate(s, h, no_matrix));
    assert_int_equal(grail_statistics_count(s), o->count[e]);
    for (int i = 0; i < INNER; i++) {
        for (int j = 0; j <= i; j++) {
            assert_near(grail_statistics_gram(s, i, j), o->gram[e][i][j], 1e-4);
        }
    }
}

static void assert_as_by_hand(layer *l, bool over_all, by_hand *o)
{
    OWNED(float) *y = hand_run(&l->n, SAMPLES, image, l->pixels);
    run_by_hand(l, over_all, o);
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < WIDTH; i++) {
            assert_near(y[r * WIDTH + i], o->y[r][i], 1e-4);
        }
    }
    for (int e = 0; e < EXPERTS; e++) {
        assert_int_equal(execution_rows(l->n.e, l->h[e]), o->count[e]);
        assert_int_equal(execution_value(l->n.e, l->taken[e]).rows, o->count[e]);
        assert_statistics(l, o, e);
    }
}

TEST(experts_see_the_rows_that_are_routed_to_them)
{
    backend *const backends[] = {on_ref, on_cpu};
    for (int i = 0; i < 4; i++) {
        const bool over_all = i > 1;
        layer l;
        by_hand o;
        open_layer(&l, backends[i % 2], over_all);
        assert_as_by_hand(&l, over_all, &o);
        assert_int_equal(o.count[0] + o.count[1] + o.count[2], CHOSEN * ROWS);
        assert_true(o.count[0] > 0 && o.count[0] < ROWS);
        assert_int_equal(o.count[3], 0); /* nothing is an expert's share, too */
        set_biases(&l, 60.0F);
        assert_as_by_hand(&l, over_all, &o);
        assert_int_equal(o.count[0], ROWS);
        close_layer(&l);
    }
}

/* A sample stream that waits between an expert's ends holds the rows of that expert. */
TEST(a_sample_stream_holds_routed_rows)
{
    layer l;
    sample_stream s = {0};
    open_layer(&l, on_cpu, false);
    l.n.e->pinned = NULL;
    graph *g = l.n.g;
    float *at_once = hand_run(&l.n, SAMPLES, image, l.pixels);
    const int stop = g->value_source[l.h[1]] + 1;
    const batch_shape shape = {SAMPLES, image};
    assert_ok(sample_stream_init(&s, g, on_cpu, 1));
    assert_ok(sample_stream_move_begin(&s, stop));
    assert_ok(execution_begin(l.n.e, shape, (batch_input){.pixels = l.pixels}));
    assert_ok(execution_run(l.n.e, l.n.store, 0, stop));
    assert_ok(sample_stream_write(&s, 0, l.n.e));
    sample_stream_move_end(&s);
    assert_ok(execution_begin(l.n.e, shape, (batch_input){0}));
    const sample_pick both = {.samples = (const int64_t[]){0, 1},
                              .count = SAMPLES,
                              .firsts = (const int64_t[]){0, SAMPLES}};
    assert_fails(sample_stream_pick(&s, &both, l.n.e), GRAIL_ERROR_UNSUPPORTED,
                 "cannot be picked from rows that a router chose");
    assert_ok(execution_begin(l.n.e, shape, (batch_input){0}));
    assert_ok(sample_stream_peek(&s, 0, l.n.e));
    assert_ok(execution_run(l.n.e, l.n.store, stop, g->node_count));
    float *in_pieces = values_of(&l, g->output);
    assert_memory_equal(in_pieces, at_once, ROWS * WIDTH * sizeof in_pieces[0]);
    memory_free(in_pieces);
    memory_free(at_once);
    sample_stream_fini(&s);
    close_layer(&l);
}

/* The shares of a row of so many outputs, at most 24, whose scores are the router's biases. */
static void find_shares(const route_attributes *how, int64_t outputs, const float *scores,
                        const float *added, float *out)
{
    static const float zeros[3 * 24] = {0.0F};
    const extent one = {1, 1};
    OWNED(hand_network) n;
    int shares = 0;
    OWNED(float) *pixels = hand_pixels(1, one, 6);
    hand_begin(&n);
    node r = node_of(NODE_ROUTE, 0, hand_linear(&n, "router", 3, outputs, n.g->input), GRAPH_NONE);
    r.route = *how;
    if (added != NULL) {
        assert_ok(graph_add_parameter(n.g, "added", 1, &outputs, &r.weight));
    }
    assert_ok(graph_add_node(n.g, &r, &shares));
    hand_end(&n, backend_reference(), shares);
    hand_set(&n, "router.weight", zeros);
    hand_set(&n, "router.bias", scores);
    if (added != NULL) {
        hand_set(&n, "added", added);
    }
    OWNED(float) *found = hand_run(&n, 1, one, pixels);
    memcpy(out, found, (size_t)outputs * sizeof out[0]);
}

static void assert_shares(const float *found, const double expected[6])
{
    for (int o = 0; o < 6; o++) {
        assert_near(found[o], expected[o], 1e-6);
    }
}

/* Sigmoids 0.9, 0.1 | 0.5, 0.5 | 0.6, 0.4; of groups with equal sums the first is chosen from. */
TEST(choices_may_be_by_groups_and_by_more_than_scores)
{
    static const double sigmoids[] = {0.9, 0.1, 0.5, 0.5, 0.6, 0.4};
    static const float added[] = {0.0F, 0.0F, 0.0F, 0.3F, 0.0F, 0.0F};
    float scores[6];
    float found[6];
    double sum = 0.0;
    for (int o = 0; o < 6; o++) {
        scores[o] = (float)log(sigmoids[o] / (1.0 - sigmoids[o]));
        sum += exp((double)scores[o]);
    }
    route_attributes how = {
        .chosen = 2, .sigmoid = true, .groups = 3, .chosen_groups = 2, .best = 2, .scale = 2.0};
    find_shares(&how, 6, scores, added, found);
    assert_shares(found, (const double[]){2 * 0.9 / 1.4, 0, 0, 2 * 0.5 / 1.4, 0, 0});
    how.over_all = true;
    find_shares(&how, 6, scores, added, found);
    assert_shares(found, (const double[]){1.8, 0, 0, 1.0, 0, 0});
    how = (route_attributes){
        .chosen = 2, .over_all = true, .groups = 3, .chosen_groups = 2, .best = 1};
    find_shares(&how, 6, scores, NULL, found);
    assert_shares(found, (const double[]){9.0 / sum, 0, 0, 0, 1.5 / sum, 0});
    how.groups = 0;
    how.over_all = false;
    find_shares(&how, 6, scores, NULL, found);
    assert_shares(found, (const double[]){9.0 / 10.5, 0, 0, 0, 1.5 / 10.5, 0});
}

enum { MANY = 24, OF_GROUP = 6 };

/* By definition: whether one of n values is among the `most` largest, of equal ones the first. */
static bool is_among(int n, const double *values, int most, int i)
{
    int before = 0;
    for (int k = 0; k < n; k++) {
        before += values[k] > values[i] || (values[k] == values[i] && k < i);
    }
    return before < most;
}

static void choose_by_hand(const route_attributes *how, const float *scores, bool *chosen)
{
    double rank[MANY];
    double sum[MANY / OF_GROUP] = {0};
    for (int o = 0; o < MANY; o++) {
        rank[o] = (double)scores[o];
    }
    for (int o = 0; o < MANY; o++) {
        const double *own = rank + o / OF_GROUP * OF_GROUP;
        sum[o / OF_GROUP] += is_among(OF_GROUP, own, (int)how->best, o % OF_GROUP) ? rank[o] : 0.0;
    }
    for (int o = 0; o < MANY && how->groups > 0; o++) {
        const bool stays = is_among(MANY / OF_GROUP, sum, (int)how->chosen_groups, o / OF_GROUP);
        rank[o] = stays ? rank[o] : -HUGE_VAL;
    }
    for (int o = 0; o < MANY; o++) {
        chosen[o] = is_among(MANY, rank, (int)how->chosen, o);
    }
}

/* Scores of five values, so that many are equal. */
TEST(the_largest_are_chosen_and_of_equal_ones_the_first)
{
    for (uint32_t trial = 0; trial < 60; trial++) {
        const route_attributes how = {.chosen = 1 + trial % OF_GROUP,
                                      .over_all = true,
                                      .groups = trial % 2 == 0 ? 0 : MANY / OF_GROUP,
                                      .chosen_groups = 1 + trial / 2 % 4,
                                      .best = 1 + trial / 8 % OF_GROUP};
        float scores[MANY];
        float found[MANY];
        bool chosen[MANY];
        for (uint32_t o = 0; o < MANY; o++) {
            scores[o] = (float)((o * 7919U + trial * 104729U) / 13U % 5U);
        }
        find_shares(&how, MANY, scores, NULL, found);
        choose_by_hand(&how, scores, chosen);
        for (int o = 0; o < MANY; o++) {
            assert_int_equal(found[o] > 0.0F, chosen[o]);
        }
    }
}

HAND_TEST(scores_that_are_no_numbers_are_refused)
{
    OWNED(float) *pixels = hand_pixels(1, image, 6);
    const int shares = hand_route(n, 1, false, n->g->input);
    const int taken = hand_take_rows(n, 0, shares, n->g->input);
    hand_end(n, on_cpu, hand_put_rows(n, 0, shares, taken, n->g->input));
    memory_free(hand_run(n, 1, image, pixels));
    pixels[7 * 3 + 2] = NAN;
    assert_ok(execution_begin(n->e, (batch_shape){1, image}, (batch_input){.pixels = pixels}));
    assert_fails(execution_run(n->e, n->store, 0, n->g->node_count), GRAIL_ERROR_NUMERIC,
                 "the score of a router is NaN or infinite at row 7, feature 2");
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
