/* The mixed target in complete runs, and the mixing of rows for foldings. */
#include "vision_lab.h"

#include "arch/model.h"
#include "pipeline/network/observation.h"
#include "pipeline/request/consumer_tail.h"
#include "support/matrices.h"

enum { LAYERS = 2, SITES = 2 * LAYERS };

static const char *run(const lab *l, grail_compress_options options, const char *target)
{
    options.fit.target = target;
    options.output.path = lab_path(l, target);
    assert_ok(lab_compress(&options));
    return options.output.path;
}

/* The share that report.json gives for a site. */
static double share_of(const char *output, int place)
{
    OWNED(json_t) *report = read_json(output, "report.json");
    const json_t *one = json_array_get(json_object_get(report, "sites"), (size_t)place);
    return json_number_value(json_object_get(one, "dense_share"));
}

/* With a single cut the compressed network computes what the dense one does up to the cut. */
TEST(without_drift_all_targets_are_one)
{
    static const grail_site_sparsity cut = {.site = "model.layers.1.mlp.down_proj",
                                            .sparsity = 0.5};
    static const char *const selectors[] = {"wanda", "fold"};
    for (int i = 0; i < 2; i++) {
        OWNED(lab) l;
        lab_open(&l);
        grail_compress_options options = lab_options(&l, lab_f32(&l, "llama3", "dense-f32"), NULL);
        options.cut.selector = selectors[i];
        options.amount.sparsity_ffn = options.amount.sparsity_heads = 0.0;
        options.amount.site_sparsities = &cut;
        options.amount.site_sparsity_count = 1;
        const char *dense = run(&l, options, "dense");
        const char *mixed = run(&l, options, "mixed");
        assert_true(largest_weight_difference(dense, mixed) < 1e-5);
        assert_near(share_of(mixed, SITES - 1), 1.0, 1e-6);
    }
}

/* Consumers of the second layer, and where the sums behind them are found. */
TEST(a_norm_may_stand_between_a_consumer_and_its_sum)
{
    static const struct {
        const char *model;
        bool norms;
    } cases[] = {{"gemma2", true}, {"olmo2", true}, {"llama3", false}, {"cohere", false}};
    static const char *const consumers[] = {"model.layers.1.self_attn.o_proj.weight",
                                            "model.layers.1.mlp.down_proj.weight"};
    for (int i = 0; i < 8; i++) {
        OPENED(grail_model, m, grail_model_open(lab_golden(cases[i / 2].model), &m));
        const graph *g = m->graph;
        const int weight = graph_find_parameter(g, consumers[i % 2]);
        int consumer = 0;
        while (g->nodes[consumer].weight != weight) {
            consumer++;
        }
        const consumer_tail tail = consumer_tail_of(g, consumer);
        const int add = consumer + (cases[i / 2].norms ? 2 : 1);
        assert_int_equal(tail.row_norm, cases[i / 2].norms ? consumer + 1 : GRAPH_NONE);
        assert_int_equal(tail.batch_norm, GRAPH_NONE);
        assert_int_equal(g->nodes[add].kind, NODE_ADD);
        assert_int_equal(tail.skip, g->nodes[add].inputs[0]);
    }
}

/* Half of the heads and 0.4 of the neurons of a network whose branches are normed. The dense target
 * of a fit with drift and weights stays finite, also where the norm's weight is small. */
TEST(fits_through_a_norm_are_finite_and_no_worse_than_none)
{
    static const char *const models[] = {"gemma2", "gemma3", "glm4", "olmo2"};
    for (int i = 0; i < 4; i++) {
        OWNED(lab) l;
        double divergence[2];
        lab_open(&l);
        grail_compress_options options = lab_options(&l, lab_f32(&l, models[i], "dense-f32"), NULL);
        for (int k = 0; k < 2; k++) {
            options.fit.compensate = k == 0 ? "none" : "full";
            options.fit.token_weights = k == 0 ? NULL : "stream";
            options.fit.refit = NULL;
            options.output.path = lab_path(&l, options.fit.compensate);
            assert_ok(lab_compress(&options));
            divergence[k] = compare_models(options.read.model, options.output.path, "cpu").mean_kl;
        }
        assert_true(divergence[1] < divergence[0]);
    }
}

TEST(behind_cuts_the_target_lies_between_the_others)
{
    static const char *const selectors[] = {"wanda", "fold"};
    for (int i = 0; i < 2; i++) {
        OWNED(lab) l;
        lab_open(&l);
        grail_compress_options options = lab_options(&l, lab_f32(&l, "llama3", "dense-f32"), NULL);
        options.cut.selector = selectors[i];
        const char *dense = run(&l, options, "dense");
        const char *local = run(&l, options, "local");
        const char *mixed = run(&l, options, "mixed");
        assert_near(share_of(mixed, 0), 1.0, 1e-6);
        for (int place = 1; place < SITES; place++) {
            const double share = share_of(mixed, place);
            assert_true(share > 0.0 && share < 1.0);
            assert_true(share_of(dense, place) == 1.0);
            assert_true(share_of(local, place) == 0.0);
        }
        assert_true(largest_weight_difference(dense, mixed) > 1e-3);
        assert_true(largest_weight_difference(local, mixed) > 1e-3);
    }
}

/* Convolutions of both fits, strided ones too: a network that is not cut before has no drift. */
TEST(convolutions_without_drift_have_one_target)
{
    static const char *const fits[] = {"channel", "kernel"};
    for (int i = 0; i < 4; i++) {
        OWNED(vision_lab) v;
        vision_open(&v);
        grail_compress_options options =
            vision_options(&v, vision_network(&v, VISION_BASIC, "model"), NULL);
        const grail_site_sparsity cut = {.site = "layer1.0.conv2", .sparsity = 0.5};
        options.fit.conv_fit = fits[i % 2];
        options.cut.selector = i < 2 ? "magnitude-l1" : "fold";
        options.amount.site_sparsities = &cut;
        options.amount.site_sparsity_count = 1;
        const char *dense = run(&v.l, options, "dense");
        const char *mixed = run(&v.l, options, "mixed");
        assert_true(vision_difference(&v, dense, mixed) < 1e-4);
    }
}

/* -- rows -------------------------------------------------------------------------------------- */

enum { ROWS = 6, WIDE = 5, REDUCED = 2, OUTPUTS = 3 };

/* l = X W^T + 1 b^T */
static void write_local(const float *in, const float *weight, const float *bias, double *local)
{
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        local[i] = (double)bias[i % OUTPUTS];
        for (int h = 0; h < WIDE; h++) {
            local[i] += (double)in[i / OUTPUTS * (WIDE + REDUCED) + h] *
                        (double)weight[i % OUTPUTS * (WIDE + REDUCED) + h];
        }
    }
}

/* The gap of the batch, and then its rows. */
static void write_mixed(const double *local, const double *root, const float *y, target_gap *gap,
                        double *mixed)
{
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        const double w = root == NULL ? 1.0 : root[i / OUTPUTS] * root[i / OUTPUTS];
        const double difference = (double)y[i] - local[i];
        gap->gap += w * difference * difference;
        gap->target += w * (double)y[i] * (double)y[i];
    }
    for (int i = 0; i < ROWS * OUTPUTS; i++) {
        mixed[i] = local[i] + target_gap_share(gap) * ((double)y[i] - local[i]);
    }
}

TEST(rows_are_mixed_by_the_share_of_their_batch)
{
    static const double root[ROWS] = {0.1, 1.0, 2.0, 0.0, 0.5, 3.0};
    float in[ROWS * (WIDE + REDUCED)];
    float weight[OUTPUTS * (WIDE + REDUCED)];
    float bias[OUTPUTS];
    float y[ROWS * OUTPUTS];
    float out[ROWS * OUTPUTS];
    double local[ROWS * OUTPUTS];
    support_fill_normal(in, ROWS * (WIDE + REDUCED), 1);
    support_fill_normal(weight, OUTPUTS * (WIDE + REDUCED), 2);
    support_fill_normal(bias, OUTPUTS, 3);
    for (int i = 0; i < OUTPUTS * (WIDE + REDUCED); i++) {
        weight[i] = i % (WIDE + REDUCED) < WIDE ? weight[i] : 0.0F;
    }
    write_local(in, weight, bias, local);
    for (int weighted = 0; weighted < 2; weighted++) {
        double expected[ROWS * OUTPUTS];
        target_gap gap = {0};
        observation o = {.local_weight =
                             support_rows(on_cpu, OUTPUTS, WIDE + REDUCED, WIDE + REDUCED, weight),
                         .local_bias = support_rows(on_cpu, 1, OUTPUTS, OUTPUTS, bias)};
        target_gap added = {0};
        o.part_gaps = support_matrix(on_cpu, 1, 2, (const double[2]){0});
        support_fill_normal(y, ROWS * OUTPUTS, 4);
        for (int i = 0; i < ROWS * OUTPUTS; i++) {
            y[i] = 0.4F * y[i] + (float)local[i];
        }
        matrix x = support_rows(on_cpu, ROWS, WIDE + REDUCED, WIDE + REDUCED, in);
        matrix rows = support_rows(on_cpu, ROWS, OUTPUTS, OUTPUTS, y);
        OPENED(matrix_pool, pool, matrix_pool_create(on_cpu, &pool));
        const double *roots = weighted != 0 ? root : NULL;
        write_mixed(local, roots, y, &gap, expected);
        assert_true(target_gap_share(&gap) > 0.1 && target_gap_share(&gap) < 0.99);
        matrix of = weighted != 0 ? support_matrix(on_cpu, 1, ROWS, root) : no_matrix;
        assert_ok(mix_target_rows(&o, pool, of, x, rows));
        matrix_free(&of);
        assert_ok(matrix_download_f32(rows, out));
        for (int i = 0; i < ROWS * OUTPUTS; i++) {
            assert_near((double)out[i], expected[i], 1e-5);
        }
        assert_ok(target_gap_read(o.part_gaps, &added));
        assert_near(added.gap, gap.gap, 1e-4);
        assert_near(added.target, gap.target, 1e-4);
        matrix_free(&x);
        matrix_free(&rows);
        observation_fini(&o);
    }
}

CMFixtureFunction support_setup = open_backends, support_teardown = close_backends;
