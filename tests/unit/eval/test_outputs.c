/* Networks of several outputs that are compared: each by itself, and the worst stands for all. */
#include "arch/model.h"
#include "eval/comparison.h"
#include "support/json_memory.h"
#include "support/support.h"

#include <grail/runner.h>

#include <math.h>

#define ONNX GRAIL_SOURCE_DIR "/tests/golden/vision/onnx/"

enum { OUTPUTS = 5, MIDDLE = 1, SCORES = 2 };

static grail_model *open_model(const char *path)
{
    grail_model *m = NULL;
    assert_ok(grail_model_open(path, &m));
    return m;
}

static void assert_compared(const grail_model *dense, const grail_model *narrow,
                            grail_output_comparison outputs[OUTPUTS], grail_comparison *all)
{
    const grail_image_source random = {0};
    assert_ok(grail_verify_outputs(dense, narrow, 0, &random, 0, NULL, NULL, NULL, outputs, all));
    assert_int_equal(all->compared, 8);
}

TEST(a_network_is_what_it_is)
{
    grail_output_comparison outputs[OUTPUTS];
    grail_comparison all;
    OWNED(grail_model) *m = open_model(ONNX "outputs.onnx");
    assert_compared(m, m, outputs, &all);
    for (int i = 0; i < OUTPUTS; i++) {
        assert_string_equal(outputs[i].name, m->graph->outputs[i].name);
        assert_true(outputs[i].relative_error == 0.0);
        assert_int_equal(outputs[i].is_zero, 0);
        assert_int_equal(isnan(outputs[i].mean_kl) == 0, i == SCORES);
    }
    assert_string_equal(all.worst, "far");
    assert_true(isnan(all.mean_kl));
}

/* Another one lacks the bias of the matrix behind the embedding: no other output differs. */
TEST(the_worst_output_stands_for_all)
{
    grail_output_comparison outputs[OUTPUTS];
    grail_comparison all;
    OWNED(grail_model) *dense = open_model(ONNX "outputs.onnx");
    OWNED(grail_model) *other = open_model(ONNX "outputs.onnx");
    graph *g = other->graph;
    int last = GRAPH_NONE; /* the matrix behind the embedding */
    for (int i = 0; i < g->node_count; i++) {
        last = g->nodes[i].kind == NODE_LINEAR ? i : last;
    }
    g->nodes[last].bias = GRAPH_NONE;
    assert_ok(graph_index(g));
    assert_compared(dense, other, outputs, &all);
    for (int i = 0; i < OUTPUTS; i++) {
        assert_int_equal(outputs[i].relative_error > 0.0, i == SCORES);
    }
    assert_string_equal(all.worst, "scores");
    assert_true(outputs[SCORES].mean_kl > 0.0);
    assert_true(all.relative_error == outputs[SCORES].relative_error);
    assert_true(all.max_abs == outputs[SCORES].max_abs);
}

/* Zeros have no relative error, which is no reason for NaN. */
TEST(an_output_of_zeros_is_told)
{
    OWNED(grail_model) *m = open_model(ONNX "outputs.onnx");
    const comparison_sums same = {.rows = 1};
    const comparison_sums other = {.rows = 1, .distance = 4.0, .max_abs = 2.0};
    grail_output_comparison c = comparison_of_output(m->graph, MIDDLE, &same);
    assert_true(c.relative_error == 0.0 && c.is_zero == 1);
    c = comparison_of_output(m->graph, MIDDLE, &other);
    assert_true(isinf(c.relative_error) && c.is_zero == 1 && c.max_abs == 2.0);
}

TEST(other_numbers_of_outputs_and_runners_are_refused)
{
    const grail_image_source random = {0};
    grail_output_facts facts = {0};
    grail_comparison all;
    float pixels[32 * 32 * 3] = {0};
    float out[10];
    const grail_pixels one = {.values = pixels, .count = 1, .side = 32};
    OWNED(grail_model) *several = open_model(ONNX "outputs.onnx");
    OWNED(grail_model) *single = open_model(ONNX "net.onnx");
    assert_fails(grail_verify_images(several, single, &random, 0, NULL, NULL, NULL, &all),
                 GRAIL_ERROR_SHAPE, "outputs.onnx' has 5 outputs");
    assert_fails(grail_model_output(single, 1, &facts), GRAIL_ERROR_ARGUMENT, "has 1 outputs");
    OPENED(grail_runner, r, grail_runner_open(several, NULL, &r));
    assert_fails(grail_runner_pixels(r, &one, out), GRAIL_ERROR_UNSUPPORTED, "several outputs");
}

CMFixtureFunction support_setup = json_memory_use;
