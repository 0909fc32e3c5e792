/* Repair: what the fit may promise, in which order blocks are fitted, and what it depends on. */
#include "lab.h"

#include "exec/execution.h"
#include "format/text/windows.h"

#include <string.h>

enum { SITES = 4 }; /* of the golden models: o_proj and down_proj of two layers */

/* Fit error after compensation of every site. */
static void fit_errors(const lab *l, const char *compensate, const char *output, double *before,
                       double *after)
{
    grail_site_report sites[SITES];
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, output));
    options.fit.compensate = compensate;
    options.fit.target = "local";
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    assert_int_equal(lab_compress_reports(&options, sites, SITES), SITES);
    for (int i = 0; i < SITES; i++) {
        before[i] = sites[i].fit.fit_before;
        after[i] = sites[i].fit.fit_after;
    }
}

LAB_TEST(a_fit_towards_the_plain_consumer_is_at_least_as_close)
{
    double before[2][SITES];
    double after[2][SITES];
    fit_errors(l, "grail", "grail", before[0], after[0]);
    fit_errors(l, "full", "full", before[1], after[1]);
    /* the first site is the same problem in both; later ones see another sample stream */
    assert_near(before[0][0], before[1][0], 1e-12);
    assert_true(after[1][0] <= after[0][0]);
    for (int i = 0; i < SITES; i++) {
        assert_true(after[0][i] < before[0][i]);
        assert_true(after[1][i] < before[1][i]);
    }
}

LAB_TEST(repair_brings_the_logits_closer)
{
    static const char *const models[] = {"llama3",  "llama-mha", "llama-mqa",
                                         "mistral", "qwen2",     "qwen3"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        static const char *const modes[] = {"none", "grail", "full"};
        double kl[3];
        for (int mode = 0; mode < 3; mode++) {
            const char *output = lab_path_of(l, "%s-%d", models[i], mode);
            grail_compress_options options = lab_options(l, lab_golden(models[i]), output);
            options.fit.compensate = modes[mode];
            options.amount.sparsity_heads = strcmp(models[i], "llama-mqa") == 0 ? 0.0 : 0.5;
            assert_ok(lab_compress(&options));
            kl[mode] = compare_models(lab_golden(models[i]), output, "cpu").mean_kl;
        }
        assert_true(kl[1] < kl[0]);
        assert_true(kl[2] < kl[0]);
    }
}

/* -- order ----------------------------------------------------------------------------------- */

static const char *const order[SITES] = {
    "model.layers.0.self_attn.o_proj", "model.layers.0.mlp.down_proj",
    "model.layers.1.self_attn.o_proj", "model.layers.1.mlp.down_proj"};

static grail_compress_options cut_only(const lab *l, const char *model, const char *output,
                                       const grail_site_sparsity *sites, int count)
{
    grail_compress_options options = lab_options(l, model, output);
    options.amount.sparsity_ffn = 0.0;
    options.amount.sparsity_heads = 0.0;
    options.amount.site_sparsities = sites;
    options.amount.site_sparsity_count = count;
    options.fit.compensate = "grail";
    options.run.backend = "ref"; /* one product per output, so that nothing rounds differently */
    return options;
}

/* Cutting one site after the other, each in the checkpoint that the run before wrote, is what one
 * run must do by itself: a later site sees the sample stream through the compressed sites before
 * it. */
LAB_TEST(sites_are_fitted_in_order_on_the_compressed_stream)
{
    static const double sparsity[SITES] = {0.5, 0.3, 0.25, 0.6};
    grail_site_sparsity sites[SITES];
    const char *model = lab_golden("llama3-bf16");
    for (int i = 0; i < SITES; i++) {
        sites[i] = (grail_site_sparsity){.site = order[i], .sparsity = sparsity[i]};
    }
    const char *together = lab_path(l, "together");
    grail_compress_options options = cut_only(l, model, together, sites, SITES);
    assert_ok(lab_compress(&options));
    for (int i = 0; i < SITES; i++) {
        const char *output = lab_path_of(l, "after-%d", i);
        options = cut_only(l, model, output, &sites[i], 1);
        assert_ok(lab_compress(&options));
        model = output;
    }
    assert_same_checkpoint(together, model);
}

LAB_TEST(a_later_site_depends_on_an_earlier_one_and_not_the_reverse)
{
    const char *model = lab_golden("llama3");
    const grail_site_sparsity sites[2] = {{.site = order[1], .sparsity = 0.5},
                                          {.site = order[3], .sparsity = 0.5}};
    grail_compress_options both = cut_only(l, model, lab_path(l, "both"), sites, 2);
    grail_compress_options early = cut_only(l, model, lab_path(l, "early"), sites, 1);
    grail_compress_options late = cut_only(l, model, lab_path(l, "late"), sites + 1, 1);
    assert_ok(lab_compress(&both));
    assert_ok(lab_compress(&early));
    assert_ok(lab_compress(&late));
    assert_true(
        same_tensor(both.output.path, early.output.path, "model.layers.0.mlp.down_proj.weight"));
    assert_false(
        same_tensor(both.output.path, late.output.path, "model.layers.1.mlp.down_proj.weight"));
}

/* -- the memory option ------------------------------------------------------------------------ */

static void assert_recomputing_changes_little(const lab *l, const char *selector, const char *mode)
{
    for (int exact = 0; exact < 2; exact++) {
        const char *kept = lab_path_of(l, "kept-%s-%s-%d", selector, mode, exact);
        const char *again = lab_path_of(l, "again-%s-%s-%d", selector, mode, exact);
        grail_compress_options options = lab_options(l, lab_path(l, "dense"), kept);
        options.cut.selector = selector;
        options.fit.compensate = mode;
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
        options.run.memory = (int64_t)1 << 30;
        options.run.backend = exact ? "ref" : "cpu";
        assert_ok(lab_compress(&options));
        options.output.path = again;
        options.run.memory = 1;
        assert_ok(lab_compress(&options));
        json_t *report = read_json(again, "report.json");
        assert_true(json_is_false(json_object_get(report, "kept_activations")));
        json_decref(report);
        if (exact) {
            assert_same_checkpoint(kept, again);
        } else {
            assert_near(largest_weight_difference(kept, again), 0.0, 1e-5);
        }
    }
}

LAB_TEST(recomputing_what_was_not_kept_gives_the_same_answer)
{
    static const char *const selectors[] = {"wanda", "fold"};
    static const char *const modes[] = {"grail", "full"};
    lab_f32(l, "llama3", "dense");
    for (int s = 0; s < 2; s++) {
        for (int m = 0; m < 2; m++) {
            assert_recomputing_changes_little(l, selectors[s], modes[m]);
        }
    }
}

/* -- biases ----------------------------------------------------------------------------------- */

static grail_compress_options attention_options(const lab *l, const char *model, const char *output,
                                                const char *bias)
{
    grail_compress_options options = lab_options(l, model, output);
    options.amount.sparsity_ffn = 0.0;
    options.fit.compensate = "grail";
    options.fit.bias = bias;
    return options;
}

LAB_TEST(a_bias_is_fitted_where_there_is_one_and_when_asked)
{
    static const char *const name = "model.layers.0.self_attn.o_proj.bias";
    grail_site_report sites[SITES];
    const char *model = lab_f32(l, "llama-mha", "dense");
    grail_compress_options options = attention_options(l, model, lab_path(l, "off"), "off");
    assert_int_equal(lab_compress_reports(&options, sites, SITES), SITES);
    assert_int_equal(sites[0].fit.bias, 0);
    assert_true(same_tensor(model, options.output.path, name));
    options = attention_options(l, model, lab_path(l, "auto"), "auto");
    assert_int_equal(lab_compress_reports(&options, sites, SITES), SITES);
    assert_int_equal(sites[0].fit.bias, 1);
    assert_false(same_tensor(model, options.output.path, name));
    const char *automatic = options.output.path;
    options = attention_options(l, model, lab_path(l, "on"), "on");
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(automatic, options.output.path);
}

LAB_TEST(a_bias_is_not_invented)
{
    grail_site_report sites[SITES];
    grail_compress_options options =
        attention_options(l, lab_golden("llama3"), lab_path(l, "out"), "on");
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "site 'model.layers.0.self_attn.o_proj': no parameter of the checkpoint can take "
                 "a fitted bias");
    options.fit.bias = "auto";
    assert_int_equal(lab_compress_reports(&options, sites, SITES), SITES);
    assert_int_equal(sites[0].fit.bias, 0);
}

/* Mean over the calibration rows of what node `part`'s Linear of layer 0 gives. */
static void mean_output(const lab *l, const char *directory, const char *part, double *mean)
{
    OWNED(token_windows) w = {0};
    const window_options how = {.path = l->calibration, .length = LAB_LENGTH};
    int last = 0;
    OPENED(grail_model, m, grail_model_open(directory, &m));
    assert_ok(windows_read(&how, NULL, m->graph->vocabulary, &w));
    OPENED(parameter_store, store, parameter_store_create(m, backend_reference(), NULL, &store));
    OPENED(matrix_pool, pool, matrix_pool_create(backend_reference(), &pool));
    OPENED(execution, e, execution_create(m->graph, backend_reference(), pool, &e));
    while (m->graph->nodes[last].weight == GRAPH_NONE ||
           strstr(m->graph->parameters[m->graph->nodes[last].weight].name, part) == NULL) {
        last++;
    }
    assert_ok(execution_begin(e, sequence_batch(w.count, w.length), (batch_input){.ids = w.ids}));
    assert_ok(execution_run(e, store, 0, last + 1));
    const matrix y = execution_value(e, m->graph->nodes[last].output);
    OWNED(host_view) values = {0};
    assert_ok(host_view_open(y, GRAIL_DTYPE_F64, HOST_READS, &values));
    memset(mean, 0, (size_t)y.columns * sizeof mean[0]);
    for (int64_t i = 0; i < matrix_count(y); i++) {
        mean[i % y.columns] += ((const double *)values.values)[i] / (double)y.rows;
    }
}

LAB_TEST(with_a_bias_the_mean_output_is_that_of_the_target)
{
    enum { OUTPUTS = 64 };
    static const char *const targets[] = {"local", "dense"};
    double dense[OUTPUTS];
    double narrow[OUTPUTS];
    const char *model = lab_f32(l, "llama-mha", "model");
    mean_output(l, model, "layers.0.self_attn.o_proj", dense);
    for (int t = 0; t < 2; t++) {
        grail_compress_options options = attention_options(l, model, lab_path(l, targets[t]), "on");
        options.fit.target = targets[t];
        assert_ok(lab_compress(&options));
        mean_output(l, options.output.path, "layers.0.self_attn.o_proj", narrow);
        for (int o = 0; o < OUTPUTS; o++) {
            assert_near(narrow[o], dense[o], 1e-5);
        }
    }
}
