/* Widths that a norm runs over: latents of DeepSeek's attention, heads of OLMo 2 behind norms of
 * all queries and keys. What is left of them gets other values, so weights of norms are rescaled;
 * and the channels of values, beside them. */
#include "lab.h"

#include <math.h>
#include <string.h>

/* -- what stays exactly ------------------------------------------------------------------------ */

static void zero_rows(lab_tensor *t, int64_t first, int64_t count)
{
    const int64_t width = lab_elements(t) / t->shape[0];
    memset(t->values + first * width, 0, (size_t)(count * width) * sizeof t->values[0]);
}

static void zero_columns(lab_tensor *t, int64_t first, int64_t count)
{
    for (int64_t r = 0; r < t->shape[0]; r++) {
        memset(t->values + r * t->shape[1] + first, 0, (size_t)count * sizeof t->values[0]);
    }
}

/* narrow[j] = factor * dense[kept(j)] for all j; the factor. */
static double factor_of(const lab_tensor *dense, const lab_tensor *narrow, int64_t gone,
                        int64_t gone_count)
{
    const int64_t count = narrow->shape[0];
    double factor = 0.0;
    assert_int_equal(count, dense->shape[0] - gone_count);
    for (int64_t j = 0; j < count; j++) {
        const int64_t from = j < gone ? j : j + gone_count;
        const double own = (double)narrow->values[j] / (double)dense->values[from];
        factor = j == 0 ? own : factor;
        assert_near(own, factor, 1e-5);
    }
    return factor;
}

static void remove_latents(lab_model *m, int layer)
{
    zero_rows(lab_find(m, layer, "self_attn.kv_a_proj_with_mqa.weight"), 5, 10);
}

static void remove_heads(lab_model *m, int layer)
{
    zero_rows(lab_find(m, layer, "self_attn.q_proj.weight"), 16, 16);
    zero_rows(lab_find(m, layer, "self_attn.k_proj.weight"), 8, 8);
    zero_rows(lab_find(m, layer, "self_attn.v_proj.weight"), 8, 8);
    zero_columns(lab_find(m, layer, "self_attn.o_proj.weight"), 16, 16);
}

/* Without channels that are always 0 the mean square of the others is n / K of what it was, in
 * every row: with the norm's weight times sqrt(n / K) nothing is lost. */
LAB_TEST(units_that_are_always_zero_go_without_loss)
{
    static const struct {
        const char *model, *norm;
        void (*remove)(lab_model *m, int layer);
        int64_t first, count;
        double latent, heads, factor;
    } runs[] = {
        {"deepseek-v2", "self_attn.kv_a_layernorm.weight", remove_latents, 5, 10, 0.5, 0.0,
         1.4142135623730951},
        {"olmo2", "self_attn.q_norm.weight", remove_heads, 16, 16, 0.0, 0.34, 1.2247448713915890},
        {"olmo2", "self_attn.k_norm.weight", remove_heads, 8, 8, 0.0, 0.34, 1.2247448713915890}};
    static const char *const modes[] = {"none", "grail", "full"};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        OWNED(lab_model) m;
        OWNED(lab_model) narrow;
        char name[32];
        char output[64];
        snprintf(name, sizeof name, "model-%zu", i);
        snprintf(output, sizeof output, "out-%zu", i);
        lab_read(&m, lab_golden(runs[i].model));
        for (int layer = 0; layer < 2; layer++) {
            runs[i].remove(&m, layer);
        }
        assert_int_equal(json_object_set_new(m.config, "rms_norm_eps", json_real(1e-9)), 0);
        lab_write(&m, lab_path(l, name), GRAIL_DTYPE_F32);
        grail_compress_options options = lab_options(l, lab_path(l, name), lab_path(l, output));
        options.cut.selector = "magnitude-l2";
        options.amount.sparsity_ffn = 0.0;
        options.amount.sparsity_heads = runs[i].heads;
        options.amount.sparsity_latent = runs[i].latent;
        options.fit.compensate = modes[i];
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
        assert_ok(lab_compress(&options));
        const grail_comparison c = compare_models(options.read.model, options.output.path, "cpu");
        assert_near(c.max_abs, 0.0, 1e-4);
        lab_read(&narrow, options.output.path);
        for (int layer = 0; layer < 2; layer++) {
            const double factor =
                factor_of(lab_find(&m, layer, runs[i].norm), lab_find(&narrow, layer, runs[i].norm),
                          runs[i].first, runs[i].count);
            assert_near(factor, runs[i].factor, 1e-5);
        }
    }
}

static const char first_half[] =
    "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.self_attn.kv_a_proj\","
    " \"kept_units\": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}]}";

/* Channels that are there twice have the mean square of one set, so the norm stays; the fit adds up
 * what read them. */
LAB_TEST(duplicates_go_without_loss_once_fitted)
{
    static const char *const modes[] = {"grail", "full"};
    OWNED(lab_model) m;
    lab_read(&m, lab_golden("deepseek-v2"));
    lab_tensor *a = lab_find(&m, 0, "self_attn.kv_a_proj_with_mqa.weight");
    lab_tensor *norm = lab_find(&m, 0, "self_attn.kv_a_layernorm.weight");
    for (int64_t j = 0; j < 10; j++) {
        memcpy(a->values + (10 + j) * a->shape[1], a->values + j * a->shape[1],
               (size_t)a->shape[1] * sizeof a->values[0]);
        norm->values[10 + j] = norm->values[j];
    }
    lab_write(&m, lab_path(l, "model"), GRAIL_DTYPE_F32);
    for (int i = 0; i < 2; i++) {
        grail_compress_options options =
            lab_options(l, lab_path(l, "model"), lab_path(l, modes[i]));
        options.amount.plan_text = first_half;
        options.fit.compensate = modes[i];
        options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-9};
        assert_ok(lab_compress(&options));
        lab_model narrow;
        lab_read(&narrow, options.output.path);
        assert_int_equal(lab_find(&narrow, 0, "self_attn.kv_b_proj.weight")->shape[1], 10);
        assert_int_equal(lab_find(&narrow, 1, "self_attn.kv_b_proj.weight")->shape[1], 20);
        assert_near(
            factor_of(norm, lab_find(&narrow, 0, "self_attn.kv_a_layernorm.weight"), 10, 10), 1.0,
            1e-5);
        lab_fini(&narrow);
        const grail_comparison c = compare_models(options.read.model, options.output.path, "cpu");
        assert_true(c.max_abs < 2e-3);
    }
}

/* -- what is written --------------------------------------------------------------------------- */

static grail_compress_options attention_options(const lab *l, const char *model, const char *output,
                                                double latent, double values)
{
    grail_compress_options options = lab_options(l, lab_golden(model), lab_path(l, output));
    options.amount.sparsity_ffn = 0.0;
    options.amount.sparsity_heads = 0.0;
    options.amount.sparsity_latent = latent;
    options.amount.sparsity_values = values;
    return options;
}

static void assert_shape(lab_model *m, const char *part, int64_t rows, int64_t columns)
{
    const lab_tensor *t = lab_find(m, 0, part);
    assert_int_equal(t->shape[0], rows);
    assert_int_equal(t->rank == 1 ? 1 : t->shape[1], columns);
}

/* deepseek-v3: 6 heads of 10 + 6 features and values of 8, ranks 24 and 20, hidden width 48. */
LAB_TEST(both_ranks_and_the_width_of_values_are_stated)
{
    OWNED(lab_model) m;
    grail_compress_options options = attention_options(l, "deepseek-v3", "out", 0.5, 0.25);
    assert_ok(lab_compress(&options));
    lab_read(&m, options.output.path);
    assert_int_equal(lab_integer(&m, "q_lora_rank"), 12);
    assert_int_equal(lab_integer(&m, "kv_lora_rank"), 10);
    assert_int_equal(lab_integer(&m, "v_head_dim"), 6);
    assert_int_equal(lab_integer(&m, "num_attention_heads"), 6);
    assert_shape(&m, "self_attn.q_a_proj.weight", 12, 48);
    assert_shape(&m, "self_attn.q_a_layernorm.weight", 12, 1);
    assert_shape(&m, "self_attn.q_b_proj.weight", 6 * 16, 12);
    assert_shape(&m, "self_attn.kv_a_proj_with_mqa.weight", 10 + 6, 48);
    assert_shape(&m, "self_attn.kv_a_layernorm.weight", 10, 1);
    assert_shape(&m, "self_attn.kv_b_proj.weight", 6 * (10 + 6), 10);
    assert_shape(&m, "self_attn.o_proj.weight", 48, 6 * 6);
}

/* Each head keeps its own channels, as many as the others. */
LAB_TEST(values_alone_keep_the_identity)
{
    static const char *const selectors[] = {"obs", "wanda", "magnitude-l1", "flap", "random"};
    lab_f32(l, "deepseek-v3-free", "model"); /* 6 heads of 12 */
    for (size_t i = 0; i < sizeof selectors / sizeof selectors[0]; i++) {
        grail_compress_options options =
            attention_options(l, "deepseek-v3-free", selectors[i], 0.0, 0.5);
        options.read.model = lab_path(l, "model");
        options.cut.selector = selectors[i];
        options.fit.compensate = "none";
        assert_ok(lab_compress(&options));
        const grail_comparison c = compare_models(options.read.model, options.output.path, "cpu");
        assert_true(c.identity_checked == 1 && c.norm_is_cut == 0);
        assert_near(c.identity_max_abs, 0.0, 1e-5);
        assert_true(c.max_abs > 0.01);
        OWNED(json_t) *report = read_json(options.output.path, "report.json");
        size_t found = 0;
        for (size_t s = 0; s < json_array_size(json_object_get(report, "sites")); s++) {
            const json_t *site = json_array_get(json_object_get(report, "sites"), s);
            const json_t *kept = json_object_get(site, "kept_units");
            int of_head[6] = {0};
            if (strcmp(json_string_value(json_object_get(site, "kind")), "values") != 0) {
                assert_null(kept);
                continue;
            }
            found++;
            for (size_t k = 0; k < json_array_size(kept); k++) {
                of_head[json_integer_value(json_array_get(kept, k)) / 12]++;
            }
            for (int h = 0; h < 6; h++) {
                assert_int_equal(of_head[h], 6);
            }
        }
        assert_int_equal(found, 2);
    }
}

/* Every selector that has a rule, with every repair. */
LAB_TEST(latents_and_heads_are_cut_by_all_selectors)
{
    static const char *const modes[] = {"none", "grail", "full"};
    static const char *const models[] = {"deepseek-v3", "olmo2", "olmo3", "olmoe"};
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        const char *selector = grail_selector_at(i);
        const char *model = models[i % 4];
        const bool latent = i % 4 == 0;
        char output[32];
        const bool has_no_rule =
            strncmp(selector, "wanda++", 7) == 0 || (latent && strncmp(selector, "flap", 4) == 0);
        if (lab_is_for_experts(selector)) {
            continue;
        }
        snprintf(output, sizeof output, "out-%d", i);
        grail_compress_options options = attention_options(l, model, output, 0.4, 0.0);
        options.amount.sparsity_latent = latent ? 0.4 : 0.0;
        options.amount.sparsity_heads = latent ? 0.0 : 0.34;
        options.cut.selector = selector;
        options.fit.compensate = modes[i % 3];
        options.fit.refit = i % 3 == 2 ? "all" : NULL;
        if (has_no_rule) {
            assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                         latent ? "has no rule for sites of kind latent"
                                : "a norm runs over this width, so its units are chosen before");
            continue;
        }
        assert_ok(lab_compress(&options));
        const grail_comparison c = compare_models(options.read.model, options.output.path, "cpu");
        assert_true(c.max_abs > 0.001 && isfinite(c.mean_kl));
        assert_true(c.identity_checked == 0 && c.norm_is_cut == 1);
    }
}

/* With a small memory every pass begins at the block, and computes the same. */
LAB_TEST(what_is_kept_in_memory_changes_no_byte)
{
    for (int i = 0; i < 2; i++) {
        const char *model = i == 0 ? "deepseek-v3" : "olmo2";
        char output[2][32];
        for (int memory = 0; memory < 2; memory++) {
            snprintf(output[memory], sizeof output[memory], "out-%d-%d", i, memory);
            grail_compress_options options =
                attention_options(l, model, output[memory], i == 0 ? 0.5 : 0.0, 0.0);
            options.amount.sparsity_heads = i == 0 ? 0.0 : 0.34;
            options.amount.sparsity_ffn = 0.25;
            options.fit.refit = "all";
            options.run.memory = memory;
            assert_ok(lab_compress(&options));
        }
        assert_same_checkpoint(lab_path(l, output[0]), lab_path(l, output[1]));
    }
}

/* All kinds that go together, and one after another. */
LAB_TEST(kinds_are_cut_together_and_one_after_another)
{
    grail_compress_options options = attention_options(l, "deepseek-v3", "first", 0.5, 0.0);
    options.amount.sparsity_heads = 0.5;
    options.amount.sparsity_ffn = 0.25;
    options.fit.refit = "all";
    assert_ok(lab_compress(&options));
    grail_compress_options next = attention_options(l, "deepseek-v3", "second", 0.0, 0.5);
    next.read.model = options.output.path;
    assert_ok(lab_compress(&next));
    OWNED(lab_model) m;
    lab_read(&m, next.output.path);
    assert_int_equal(lab_integer(&m, "num_attention_heads"), 3);
    assert_int_equal(lab_integer(&m, "kv_lora_rank"), 10);
    assert_int_equal(lab_integer(&m, "v_head_dim"), 4);
    assert_shape(&m, "self_attn.kv_b_proj.weight", 3 * (10 + 4), 10);
    assert_shape(&m, "self_attn.o_proj.weight", 48, 3 * 4);
}

/* Layers of their own widths, which per_layer_config states and grail reads again. */
LAB_TEST(layers_may_differ)
{
    static const char plan[] =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.self_attn.kv_a_proj\","
        " \"kept\": 7}, {\"site\": \"model.layers.1.self_attn.v_proj\", \"kept\": 30}]}";
    grail_compress_options options = attention_options(l, "deepseek-v2", "out", 0.0, 0.0);
    options.amount.plan_text = plan;
    assert_ok(lab_compress(&options));
    json_t *config = read_json(options.output.path, "config.json");
    const json_t *layers = json_object_get(config, "per_layer_config");
    const json_t *second = json_object_get(layers, "1");
    assert_int_equal(json_integer_value(json_object_get(config, "kv_lora_rank")), 7);
    assert_int_equal(json_integer_value(json_object_get(config, "v_head_dim")), 8);
    assert_int_equal(json_integer_value(json_object_get(second, "kv_lora_rank")), 20);
    assert_int_equal(json_integer_value(json_object_get(second, "v_head_dim")), 5);
    json_decref(config);
    (void)compare_models(options.read.model, options.output.path, "ref");
}

/* -- what is refused --------------------------------------------------------------------------- */

static grail_status with_plan(const lab *l, const char *model, const char *plan)
{
    grail_compress_options options = attention_options(l, model, "refused", 0.0, 0.0);
    options.amount.plan_text = plan;
    return lab_compress(&options);
}

LAB_TEST(what_cannot_be_is_refused)
{
    grail_compress_options options = attention_options(l, "deepseek-v2", "refused", 0.5, 0.0);
    options.fit.open_loop = 1;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "a norm runs over this width");
    options = attention_options(l, "deepseek-v2", "refused", 0.0, 0.5);
    options.amount.sparsity_heads = 0.5;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "cut the heads, and then the values of the result");
    options = attention_options(l, "deepseek-v2", "refused", 0.0, 0.5);
    options.cut.selector = "fold";
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "cannot be folded");
    options = attention_options(l, "llama3", "refused", 0.5, 0.5);
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "no site of the requested kinds");
    options = attention_options(l, "deepseek-v2", "refused", 0.5, 0.0);
    options.cut.selector = "magnitude-l1";
    options.fit.compensate = "none";
    options.read.text.path = NULL; /* the norm is rescaled by calibration, whoever chooses */
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT, "calibration");
    options = attention_options(l, "olmo2", "refused", 0.0, 0.0);
    options.amount.sparsity_heads = 0.34;
    options.output.quantize = "w8a16";
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "a norm runs over a width that is cut; cut other sites, such as ffn");
}

LAB_TEST(plans_that_do_not_fit_are_refused)
{
    static const struct {
        const char *site, *message;
    } wrong[] = {
        {"\"model.layers.0.self_attn.kv_a_proj\", \"kept\": 21", "kv_a_proj"},
        {"\"model.layers.0.self_attn.kv_a_proj\", \"kept\": 0", "keeps 0 units"},
        {"\"model.layers.0.self_attn.kv_a_proj\", \"kept_units\": [3, 20]", "kv_a_proj"},
        {"\"model.layers.0.self_attn.v_proj\", \"kept\": 0", "keeps 0 units"},
        {"\"model.layers.0.self_attn.v_proj\", \"kept\": 7", "v_proj"},
        {"\"model.layers.0.self_attn.v_proj\", \"kept\": 54", "v_proj"},
        {"\"model.layers.0.self_attn.v_proj\", \"kept_units\": [0, 1, 2, 3, 4, 5]", "v_proj"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char plan[256];
        snprintf(plan, sizeof plan, "{\"grail_plan\": 1, \"sites\": [{\"site\": %s}]}",
                 wrong[i].site);
        const grail_status status = with_plan(l, "deepseek-v2", plan);
        assert_true(status == GRAIL_ERROR_FORMAT || status == GRAIL_ERROR_ARGUMENT ||
                    status == GRAIL_ERROR_UNSUPPORTED);
        assert_non_null(strstr(grail_error_message(), wrong[i].message));
    }
}

LAB_TEST(configurations_that_do_not_fit_are_refused)
{
    static const struct {
        const char *key;
        int64_t value;
    } wrong[] = {{"v_head_dim", 9},      {"v_head_dim", 7},    {"v_head_dim", 0},
                 {"v_head_dim", -1},     {"kv_lora_rank", 19}, {"kv_lora_rank", 21},
                 {"kv_lora_rank", 0},    {"q_lora_rank", 12},  {"q_lora_rank", 0},
                 {"v_head_dim", 1 << 25}};
    lab_model m;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char name[16];
        grail_model *model = NULL;
        snprintf(name, sizeof name, "wrong-%zu", i);
        lab_read(&m, lab_golden("deepseek-v3"));
        lab_set_integer(&m, wrong[i].key, wrong[i].value);
        lab_write(&m, lab_path(l, name), GRAIL_DTYPE_F32);
        lab_fini(&m);
        const grail_status status = grail_model_open(lab_path(l, name), &model);
        assert_true(status == GRAIL_ERROR_SHAPE || status == GRAIL_ERROR_FORMAT);
        assert_null(model);
    }
}

LAB_TEST(a_norm_that_is_not_finite_is_refused)
{
    lab_model m;
    lab_read(&m, lab_golden("deepseek-v2"));
    lab_find(&m, 1, "self_attn.kv_a_layernorm.weight")->values[3] = NAN;
    lab_write(&m, lab_path(l, "model"), GRAIL_DTYPE_F32);
    lab_fini(&m);
    grail_compress_options options = attention_options(l, "deepseek-v2", "out", 0.5, 0.0);
    options.read.model = lab_path(l, "model");
    assert_fails(lab_compress(&options), GRAIL_ERROR_NUMERIC, "kv_a_layernorm");
}
