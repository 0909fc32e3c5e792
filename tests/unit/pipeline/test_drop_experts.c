/* Whole experts that are dropped: the result is the network without them and their scores, those
 * that stay make up for them, and a run that is stopped goes on to the same bytes. */
#include "lab.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAST = 3 }; /* of the 4 experts of the golden mixtral and granitemoe */

static const char *const compensations[] = {"none", "grail", "full"};

/* One of four experts goes, nothing else is cut. */
static grail_compress_options dropping(const lab *l, const char *model, const char *output,
                                       const char *compensate)
{
    grail_compress_options options = lab_options(l, model, output);
    options.amount.sparsity_ffn = options.amount.sparsity_heads = 0.0;
    options.amount.sparsity_experts = 0.25;
    options.fit.compensate = compensate;
    options.fit.refit = strcmp(compensate, "full") == 0 ? "all" : NULL;
    return options;
}

static grail_compress_options keeping(const lab *l, const char *model, const char *output,
                                      const char *plan)
{
    grail_compress_options options = lab_options(l, model, output);
    options.amount.plan_text = plan;
    options.fit.compensate = "none";
    return options;
}

/* -- what is written --------------------------------------------------------------------------- */

static const char second_and_last_stay[] = "{\"grail_plan\": 1, \"sites\": [{\"site\": "
                                           "\"model.layers.1.mlp.gate\", \"kept_units\": [1, 3]}]}";

static void assert_same_rows(const lab_tensor *dense, int64_t row, const lab_tensor *narrow,
                             int64_t at, int64_t count)
{
    const int64_t width = dense->shape[dense->rank - 1];
    assert_memory_equal(dense->values + row * width, narrow->values + at * width,
                        (size_t)(count * width) * sizeof narrow->values[0]);
}

/* Tensors of experts, rows of routers. */
LAB_TEST(those_that_stay_move_up_as_they_are)
{
    OWNED(lab_model) dense;
    OWNED(lab_model) narrow;
    const grail_compress_options options =
        keeping(l, lab_golden("mixtral"), lab_path(l, "out"), second_and_last_stay);
    assert_ok(lab_compress(&options));
    lab_read(&dense, lab_golden("mixtral"));
    lab_read(&narrow, options.output.path);
    const char *const parts[] = {"w1", "w2", "w3"};
    for (int i = 0; i < 3; i++) {
        for (int e = 0; e < 2; e++) {
            char before[64];
            char after[64];
            snprintf(before, sizeof before, "block_sparse_moe.experts.%d.%s.weight",
                     e == 0 ? 1 : LAST, parts[i]);
            snprintf(after, sizeof after, "block_sparse_moe.experts.%d.%s.weight", e, parts[i]);
            const lab_tensor *from = lab_find(&dense, 1, before);
            assert_same_rows(from, 0, lab_find(&narrow, 1, after), 0, from->shape[0]);
        }
    }
    assert_null(lab_look(&narrow, 1, "block_sparse_moe.experts.2.w1.weight"));
    const lab_tensor *router = lab_find(&narrow, 1, "block_sparse_moe.gate.weight");
    assert_int_equal(router->shape[0], 2);
    assert_same_rows(lab_find(&dense, 1, "block_sparse_moe.gate.weight"), 1, router, 0, 1);
    assert_same_rows(lab_find(&dense, 1, "block_sparse_moe.gate.weight"), LAST, router, 1, 1);
    assert_int_equal(lab_find(&narrow, 0, "block_sparse_moe.gate.weight")->shape[0], 4);
}

/* The layers may differ in their number. grail opens that, and no stock class. */
LAB_TEST(stacked_ones_move_up_in_their_tensor)
{
    lab_model dense;
    lab_model narrow;
    const grail_compress_options options =
        keeping(l, lab_golden("granitemoe"), lab_path(l, "out"), second_and_last_stay);
    assert_ok(lab_compress(&options));
    lab_read(&dense, lab_golden("granitemoe"));
    lab_read(&narrow, options.output.path);
    const char *const parts[] = {"input_linear", "output_linear"};
    for (int i = 0; i < 2; i++) {
        char name[64];
        snprintf(name, sizeof name, "block_sparse_moe.%s.weight", parts[i]);
        const lab_tensor *before = lab_find(&dense, 1, name);
        const lab_tensor *after = lab_find(&narrow, 1, name);
        assert_int_equal(after->rank, 3);
        assert_int_equal(after->shape[0], 2);
        assert_int_equal(after->shape[1], before->shape[1]);
        assert_same_rows(before, before->shape[1], after, 0, before->shape[1]);
        assert_same_rows(before, LAST * before->shape[1], after, after->shape[1], after->shape[1]);
    }
    lab_fini(&dense);
    lab_fini(&narrow);
    OWNED(json_t) *config = read_json(options.output.path, "config.json");
    assert_non_null(json_object_get(config, "per_layer_config"));
}

/* -- which go ---------------------------------------------------------------------------------- */

/* A mixtral of one expert per token, whose third one's score is between two others'. */
static const char *write_unreached(const lab *l)
{
    OWNED(lab_model) m;
    lab_read(&m, lab_golden("mixtral"));
    lab_set_integer(&m, "num_experts_per_tok", 1);
    for (int layer = 0; layer < 2; layer++) {
        lab_tensor *router = lab_find(&m, layer, "block_sparse_moe.gate.weight");
        const int64_t width = router->shape[1];
        for (int64_t i = 0; i < width; i++) {
            router->values[2 * width + i] = (router->values[i] + router->values[width + i]) / 2.0F;
        }
    }
    lab_write(&m, lab_path(l, "dense"), GRAIL_DTYPE_F32);
    return lab_path(l, "dense");
}

static void assert_lists(const json_t *entry, const char *key, int64_t only)
{
    const json_t *list = json_object_get(entry, key);
    assert_int_equal(json_array_size(list), 1);
    assert_int_equal(json_integer_value(json_array_get(list, 0)), only);
}

/* And nothing changes by that. */
LAB_TEST(an_expert_that_no_token_reaches_goes_first_and_is_named)
{
    const char *model = write_unreached(l);
    for (int i = 0; i < 3; i++) {
        const grail_compress_options options =
            dropping(l, model, lab_path(l, compensations[i]), compensations[i]);
        assert_ok(lab_compress(&options));
        json_t *report = read_json(options.output.path, "report.json");
        const json_t *sites = json_object_get(report, "sites");
        int found = 0;
        for (size_t s = 0; s < json_array_size(sites); s++) {
            const json_t *entry = json_array_get(sites, s);
            if (strcmp(json_string_value(json_object_get(entry, "kind")), "experts") == 0) {
                assert_lists(entry, "removed", 2);
                assert_lists(entry, "unreached", 2);
                assert_string_equal(json_string_value(json_object_get(entry, "selector")), "reap");
                found++;
            }
        }
        assert_int_equal(found, 2);
        json_decref(report);
        const grail_comparison c = compare_models(model, options.output.path, "ref");
        assert_int_equal(c.identity_checked, 0);
        assert_true(i > 0 || c.max_abs < 1e-6);
    }
}

/* Scaling what an expert makes scales its score, and leaves the others theirs. */
LAB_TEST(the_one_that_adds_least_goes)
{
    for (int least = 0; least < 4; least++) {
        char part[64];
        lab_model m;
        grail_site_report sites[32];
        lab_read(&m, lab_golden("mixtral"));
        snprintf(part, sizeof part, "block_sparse_moe.experts.%d.w2.weight", least);
        lab_tensor *down = lab_find(&m, 1, part);
        for (int64_t i = 0; i < lab_elements(down); i++) {
            down->values[i] *= 0.01F;
        }
        lab_write(&m, lab_path(l, part), GRAIL_DTYPE_F32);
        lab_fini(&m);
        char output[16];
        snprintf(output, sizeof output, "out%d", least);
        const grail_compress_options options =
            dropping(l, lab_path(l, part), lab_path(l, output), "none");
        OPENED(grail_compression, c, grail_compression_open(&options, &c));
        assert_ok(grail_compression_run(c));
        const int count = grail_compression_site_count(c);
        for (int i = 0; i < count; i++) {
            sites[i] = grail_compression_site(c, i);
            if (sites[i].block == 1 && strcmp(sites[i].kind, "experts") == 0) {
                assert_int_equal(sites[i].removed_count, 1);
                assert_int_equal(sites[i].removed[0], least);
                assert_int_equal(sites[i].unreached_count, 0);
            }
        }
    }
}

/* -- what makes up for them -------------------------------------------------------------------- */

/* A mixtral whose last expert makes of its rows what the third one would, but for its scores. */
static const char *write_twins(const lab *l)
{
    static const char *const parts[] = {"w1", "w2", "w3"};
    OWNED(lab_model) m;
    lab_read(&m, lab_golden("mixtral"));
    for (int i = 0; i < 3; i++) {
        char from[64];
        char to[64];
        snprintf(from, sizeof from, "block_sparse_moe.experts.2.%s.weight", parts[i]);
        snprintf(to, sizeof to, "block_sparse_moe.experts.3.%s.weight", parts[i]);
        memcpy(lab_find(&m, 1, to)->values, lab_find(&m, 1, from)->values,
               (size_t)lab_elements(lab_find(&m, 1, to)) * sizeof(float));
    }
    lab_write(&m, lab_path(l, "twins"), GRAIL_DTYPE_F32);
    return lab_path(l, "twins");
}

LAB_TEST(fits_of_those_that_stay_take_the_loss_back)
{
    double loss[3];
    const char *model = write_twins(l);
    for (int i = 0; i < 3; i++) {
        grail_compress_options options =
            dropping(l, model, lab_path(l, compensations[i]), compensations[i]);
        assert_ok(lab_compress(&options));
        loss[i] = compare_models(model, options.output.path, "cpu").mean_kl;
        OWNED(json_t) *report = read_json(options.output.path, "report.json");
        const json_t *refits = json_object_get(report, "refits");
        int fits = 0;
        int lacking = 0; /* of the first layer, where no stream has drifted */
        for (size_t k = 0; k < json_array_size(refits); k++) {
            const json_t *fit = json_array_get(refits, k);
            const char *name = json_string_value(json_object_get(fit, "map"));
            const double before = json_real_value(json_object_get(fit, "fit_error_before"));
            const double after = json_real_value(json_object_get(fit, "fit_error_after"));
            assert_null(strstr(name, "experts.3")); /* its place is behind those that stay */
            if (strstr(name, "down_proj") != NULL) {
                fits++;
                lacking += strstr(name, "layers.0") != NULL && before > 1e-2 ? 1 : 0;
                assert_true(after <= before);
            }
        }
        assert_int_equal(fits, i == 0 ? 0 : 6); /* 3 in each layer, which nothing else cuts */
        assert_int_equal(lacking > 0, i > 0);
    }
    assert_true(loss[2] < loss[0]);
}

/* Width and number of experts in one run. */
LAB_TEST(those_that_stay_can_be_narrowed_too)
{
    static const char *const models[] = {"mixtral",    "qwen2-moe", "qwen3-moe",
                                         "granitemoe", "gpt-oss",   "deepseek-v3-free"};
    for (int m = 0; m < 6; m++) {
        grail_model *narrow = NULL;
        grail_compress_options options =
            dropping(l, lab_golden(models[m]), lab_path(l, models[m]), compensations[m % 3]);
        options.amount.sparsity_experts = 0.4;
        options.amount.sparsity_ffn = 0.5;
        assert_ok(lab_compress(&options));
        assert_ok(grail_model_open(options.output.path, &narrow));
        grail_model_close(narrow);
        assert_true(
            isfinite(compare_models(lab_golden(models[m]), options.output.path, "cpu").mean_kl));
    }
}

LAB_TEST(healing_goes_on_from_them)
{
    grail_compress_options options =
        dropping(l, lab_golden("mixtral"), lab_path(l, "healed"), "full");
    options.heal.what = "block,model";
    options.heal.steps = 2;
    assert_ok(lab_compress(&options));
}

/* -- runs that are stopped --------------------------------------------------------------------- */

typedef struct interruption {
    int calls, cancel_at;
} interruption;

static int observe(void *user, const grail_site_report *report, int block, int blocks,
                   double seconds_left)
{
    interruption *i = user;
    return ++i->calls == i->cancel_at;
}

LAB_TEST(an_interrupted_run_goes_on_to_the_same_bytes)
{
    static const char *const models[] = {"mixtral", "granitemoe", "gpt-oss-mxfp4"};
    for (int m = 0; m < 3; m++) {
        interruption i = {0};
        char name[48];
        snprintf(name, sizeof name, "%s-whole", models[m]);
        const char *whole = lab_path(l, name);
        grail_compress_options options = dropping(l, lab_golden(models[m]), whole, "full");
        options.amount.sparsity_ffn = 0.25;
        options.run.observer = observe;
        options.run.observer_user = &i;
        assert_ok(lab_compress(&options));
        const int calls = i.calls;
        for (int at = calls / 2; at <= calls; at++) { /* the first block is finished */
            snprintf(name, sizeof name, "%s-%d", models[m], at);
            options.output.path = lab_path(l, name);
            options.output.resume = 0;
            i = (interruption){.cancel_at = at};
            assert_int_equal(lab_compress(&options), GRAIL_ERROR_CANCELLED);
            i = (interruption){0};
            options.output.resume = 1;
            assert_ok(lab_compress(&options));
            assert_true(i.calls < calls);
            assert_same_checkpoint(whole, options.output.path);
        }
    }
}

/* -- refusals ---------------------------------------------------------------------------------- */

LAB_TEST(what_cannot_be_dropped_is_refused)
{
    static const char two_widths[] =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.1.mlp.gate\", \"kept\": 3},"
        " {\"site\": \"model.layers.1.mlp.experts.1.down_proj\", \"kept\": 5}]}";
    static const char unknown_units[] =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.1.mlp.gate\", \"kept\": 3},"
        " {\"site\": \"model.layers.1.mlp.experts.1.down_proj\", \"kept_units\": [0, 1]}]}";
    static const char none[] =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.1.mlp.gate\", \"kept\": 0}]}";
    const char *output = lab_path(l, "refused");
    grail_compress_options options = keeping(l, lab_golden("mixtral"), output, two_widths);
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "experts of this layer are dropped, so those that stay must have one width");
    options.amount.plan_text = unknown_units;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "which experts stay is decided in the run");
    options.amount.plan_text = none;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "site 'model.layers.1.mlp.gate' keeps 0");
    options = dropping(l, lab_golden("mixtral"), output, "full");
    options.amount.sparsity_experts = 0.75;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "site 'model.layers.0.mlp.gate' keeps 1 experts, but its router chooses 2");
    options = dropping(l, lab_golden("mixtral"), output, "grail");
    options.fit.open_loop = 1;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "use a closed loop");
    options.fit.open_loop = 0;
    options.cut.select = "open";
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "a closed selection");
    assert_false(file_exists(output));
}

LAB_TEST(a_router_with_nan_is_named)
{
    lab_model m;
    lab_read(&m, lab_golden("mixtral"));
    lab_find(&m, 1, "block_sparse_moe.gate.weight")->values[5] = NAN;
    lab_write(&m, lab_path(l, "nan"), GRAIL_DTYPE_F32);
    lab_fini(&m);
    const grail_compress_options options =
        dropping(l, lab_path(l, "nan"), lab_path(l, "out"), "full");
    assert_fails(lab_compress(&options), GRAIL_ERROR_NUMERIC,
                 "model.layers.1.block_sparse_moe.gate.weight");
}
