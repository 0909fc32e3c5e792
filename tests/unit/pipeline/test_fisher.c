/* The Fisher information of outputs by which units are chosen: against divergences, on both
 * backends, and in runs that are continued, fail or have nothing to measure. */
#include "lab.h"

#include "pipeline/compression.h"

#include <math.h>
#include <string.h>

static grail_compress_options fisher_options(const lab *l, const char *model, const char *output)
{
    grail_compress_options options = lab_options(l, model, output);
    options.cut.selector = "obs";
    options.cut.metric = "fisher";
    return options;
}

/* The metric at the output of a weight, [width, width]; NULL without one. memory_free. */
static double *metric_of(const grail_compression *c, const char *weight, int64_t *width)
{
    const graph *g = c->request->graph;
    double *values = NULL;
    for (int i = 0; i < g->node_count; i++) {
        const matrix m = c->request->session->metrics[i];
        if (matrix_exists(m) && strcmp(g->parameters[g->nodes[i].weight].name, weight) == 0) {
            *width = m.rows;
            assert_ok(memory_new(&values, (size_t)(m.rows * m.rows), sizeof values[0]));
            assert_ok(matrix_download(m, values));
        }
    }
    return values;
}

static double *measured(grail_compress_options options, const char *weight, int64_t *width)
{
    grail_compression *c = lab_run_in_memory(options);
    double *values = metric_of(c, weight, width);
    grail_compression_close(c);
    assert_non_null(values);
    return values;
}

static const char last_weight[] = "model.layers.1.mlp.down_proj.weight";

/* Behind the last FFN each position is by itself, so a step d of its output diverges by d F d / 2.
 */
LAB_TEST(the_metric_is_the_curvature_of_the_divergence)
{
    const double step = 0.02;
    int64_t width = 0;
    const char *dense = lab_with_biases(l, "llama3", "biased");
    OWNED(double) *f = measured(fisher_options(l, dense, NULL), last_weight, &width);
    double sum = 0.0;
    double mean = 0.0;
    for (int64_t i = 0; i < width; i++) {
        mean += 0.5 * f[i * width + i] / (double)width; /* without the identity */
    }
    for (int trial = 0; trial < 4; trial++) {
        lab_model m;
        double form = 0.0;
        float direction[256];
        const char *moved = lab_path_of(l, "moved-%d", trial);
        assert_true(width <= 256);
        support_fill_normal(direction, width, (uint64_t)trial + 1);
        lab_read(&m, dense);
        for (int64_t i = 0; i < width; i++) {
            lab_find(&m, 1, "mlp.down_proj.bias")->values[i] += (float)step * direction[i];
            for (int64_t j = 0; j < width; j++) {
                const double own = f[i * width + j] - (i == j ? mean : 0.0);
                form += own * (double)direction[i] * (double)direction[j];
            }
        }
        lab_write(&m, moved, GRAIL_DTYPE_F32);
        lab_fini(&m);
        const double expected = 0.5 * step * step * form / ((LAB_SAMPLES + 3) / 4 * LAB_LENGTH);
        const double ratio = lab_divergence(dense, moved) / expected;
        print_message("divergence %g of what the metric says\n", ratio);
        assert_true(ratio > 0.7 && ratio < 1.4);
        sum += ratio / 4.0;
    }
    assert_near(sum, 1.0, 0.15);
}

LAB_TEST(backends_measure_alike_and_seeds_draw_others)
{
    int64_t width = 0;
    grail_compress_options options = fisher_options(l, lab_golden("llama3"), NULL);
    OWNED(double) *own = measured(options, last_weight, &width);
    OWNED(double) *again = measured(options, last_weight, &width);
    options.run.memory = 1; /* so that it goes in sections */
    OWNED(double) *parts = measured(options, last_weight, &width);
    options.run.memory = 0;
    options.run.backend = "ref";
    OWNED(double) *exact = measured(options, last_weight, &width);
    options.read.seed = 5;
    OWNED(double) *drawn = measured(options, last_weight, &width);
    assert_memory_equal(own, again, (size_t)(width * width) * sizeof own[0]);
    assert_memory_equal(own, parts, (size_t)(width * width) * sizeof own[0]);
    double difference = 0.0;
    for (int64_t i = 0; i < width * width; i++) {
        const double size = sqrt(exact[i / width * (width + 1)] * exact[i % width * (width + 1)]);
        assert_near(own[i], exact[i], 1e-4 * size);
        assert_near(exact[i], exact[i % width * width + i / width], 1e-12 * size);
        difference = fmax(difference, fabs(drawn[i] - exact[i]) / size);
    }
    assert_true(difference > 0.01);
}

/* Those that measure by one choose other units by it; for the others it is refused. */
LAB_TEST(a_metric_changes_what_goes)
{
    static const char *const selectors[] = {"obs", "ziplm", "slimgpt"};
    for (int i = 0; i < 3; i++) {
        const char *by_metric = lab_path_of(l, "fisher-%d", i);
        const char *plain = lab_path_of(l, "plain-%d", i);
        grail_compress_options options = fisher_options(l, lab_golden("llama3"), by_metric);
        options.cut.selector = selectors[i];
        assert_ok(lab_compress(&options));
        options.output.path = plain;
        options.cut.metric = "plain";
        assert_ok(lab_compress(&options));
        assert_false(same_tensor(by_metric, plain, last_weight));
    }
    grail_compress_options options = fisher_options(l, lab_golden("llama3"), NULL);
    options.cut.selector = "wanda";
    assert_fails(lab_opens(&options), GRAIL_ERROR_ARGUMENT, "metric");
    options.cut.selector = "obs";
    options.cut.metric = "euclid";
    assert_fails(lab_opens(&options), GRAIL_ERROR_ARGUMENT, "fisher");
}

static int cancel_third(void *user, const grail_site_report *told, int block, int blocks,
                        double seconds_left)
{
    return ++*(int *)user == 3;
}

LAB_TEST(a_run_continues_to_the_same_bytes)
{
    int calls = 0;
    grail_compress_options options = fisher_options(l, lab_golden("llama3"), lab_path(l, "whole"));
    assert_ok(lab_compress(&options));
    options.output.path = lab_path(l, "parts");
    options.run.observer = cancel_third;
    options.run.observer_user = &calls;
    assert_fails(lab_compress(&options), GRAIL_ERROR_CANCELLED, "cancelled");
    options.output.resume = 1;
    options.cut.metric = "plain";
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "metric");
    options.cut.metric = "fisher";
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "whole"), lab_path(l, "parts"));
}

static lab_tensor *tensor_named(lab_model *m, const char *name)
{
    int i = 0;
    while (i < m->count && strcmp(m->tensors[i].name, name) != 0) {
        i++;
    }
    assert_true(i < m->count);
    return &m->tensors[i];
}

/* A channel that the last norm makes 0 adds nothing to the logits, and too much on the way back. */
LAB_TEST(gradients_that_are_not_finite_name_the_consumer)
{
    lab_model m;
    const char *broken = lab_path(l, "broken");
    lab_read(&m, lab_golden("llama3"));
    const lab_tensor *head = tensor_named(&m, "lm_head.weight");
    for (int64_t row = 0; row < head->shape[0]; row++) {
        head->values[row * head->shape[1]] = row % 2 == 0 ? 3e38F : -3e38F;
    }
    tensor_named(&m, "model.norm.weight")->values[0] = 0.0F;
    lab_write(&m, broken, GRAIL_DTYPE_F32);
    lab_fini(&m);
    grail_compress_options options = fisher_options(l, broken, NULL);
    OPENED(grail_compression, c, grail_compression_open(&options, &c));
    assert_fails(grail_compression_run(c), GRAIL_ERROR_NUMERIC,
                 "output of 'model.layers.0.self_attn.o_proj.weight' are not finite");
}

LAB_TEST(every_failing_allocation_is_survived)
{
    if (!support_walks_failures()) {
        skip();
    }
    lab_fail_allocations(fisher_options(l, lab_golden("llama3"), lab_path(l, "failing")));
}
