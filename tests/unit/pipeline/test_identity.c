/* What a run must not change, and what pruning without repair must equal. */
#include "lab.h"

#include "pipeline/compression.h"

#include <string.h>
#include <sys/stat.h>

static const char *const families[] = {
    "llama3-bf16", "llama-mha", "llama-mqa", "mistral",   "qwen2",      "qwen3",   "llama3",
    "gemma",       "phi3",      "gpt2",      "qwen2-moe", "granitemoe", "gpt-oss", "deepseek-v3"};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

static const char *const modes[] = {"none", "grail", "full"};
enum { MODE_COUNT = sizeof modes / sizeof modes[0] };

/* The selector's turn `i` takes another family and stored dtype each time. */
LAB_TEST(a_sparsity_of_zero_changes_no_byte)
{
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        for (int i = 0; grail_selector_at(i) != NULL; i++) {
            const char *model = lab_golden(families[(mode + 3 * i) % FAMILY_COUNT]);
            const char *output = lab_path_of(l, "same-%d-%d", mode, i);
            grail_compress_options options = lab_options(l, model, output);
            options.amount.sparsity_ffn = 0.0;
            options.amount.sparsity_heads = 0.0;
            options.cut.selector = grail_selector_at(i);
            options.fit.compensate = modes[mode];
            assert_ok(lab_compress(&options));
            assert_same_checkpoint(model, output);
        }
    }
}

LAB_TEST(nothing_cut_needs_no_data_and_keeps_the_configuration)
{
    const char *model = lab_golden("llama3-sharded");
    grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
    options.amount.sparsity_ffn = 0.0;
    options.amount.sparsity_heads = 0.0;
    options.read.text.path = NULL;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(model, options.output.path);
    OWNED(json_t) *before = read_json(model, "config.json");
    OWNED(json_t) *after = read_json(options.output.path, "config.json");
    assert_true(json_equal(before, after));
}

LAB_TEST(a_site_that_is_not_cut_keeps_its_bytes)
{
    const char *model = lab_golden("qwen2");
    grail_compress_options options = lab_options(l, model, lab_path(l, "out"));
    options.amount.sparsity_heads = 0.0;
    assert_ok(lab_compress(&options));
    for (int layer = 0; layer < 2; layer++) {
        static const char *const kept[] = {
            "self_attn.q_proj.weight", "self_attn.q_proj.bias",   "self_attn.k_proj.weight",
            "self_attn.k_proj.bias",   "self_attn.v_proj.weight", "self_attn.v_proj.bias",
            "self_attn.o_proj.weight", "input_layernorm.weight",  "post_attention_layernorm.weight",
        };
        char name[96];
        for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
            snprintf(name, sizeof name, "model.layers.%d.%s", layer, kept[i]);
            assert_true(same_tensor(model, options.output.path, name));
        }
        snprintf(name, sizeof name, "model.layers.%d.mlp.down_proj.weight", layer);
        assert_false(same_tensor(model, options.output.path, name));
    }
    assert_true(same_tensor(model, options.output.path, "model.embed_tokens.weight"));
    assert_true(same_tensor(model, options.output.path, "model.norm.weight"));
}

static grail_comparison prune_plainly(const lab *l, const char *golden, const char *output,
                                      grail_gqa_mode gqa)
{
    const char *model = lab_path(l, golden);
    const char *path = lab_path(l, output);
    grail_compress_options options = lab_options(l, model, path);
    options.fit.compensate = "none";
    options.cut.gqa = gqa;
    assert_ok(lab_compress(&options));
    return compare_models(model, path, "cpu");
}

LAB_TEST(pruning_without_repair_equals_zeroing_the_consumers_columns)
{
    static const char *const models[] = {
        "llama3",    "llama-mha",  "mistral",  "qwen2",       "qwen3",      "gemma",
        "phi3",      "gpt2",       "gemma2",   "granite",     "glm",        "gpt-neox",
        "falcon",    "exaone4",    "nemotron", "cohere2",     "mixtral",    "qwen2-moe",
        "qwen3-moe", "granitemoe", "gpt-oss",  "deepseek-v2", "deepseek-v3"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char output[64];
        lab_f32(l, models[i], models[i]);
        snprintf(output, sizeof output, "%s-out", models[i]);
        const grail_comparison c = prune_plainly(l, models[i], output, GRAIL_GQA_KV_GROUPS);
        assert_int_equal(c.identity_checked, 1);
        assert_near(c.identity_max_abs, 0.0, 1e-5);
        assert_true(c.max_abs > 0.01); /* the cut changes the outputs */
    }
}

/* One family for each selector that keeps units. */
LAB_TEST(every_selection_equals_zeroing_the_consumers_columns)
{
    static const char *const models[] = {"llama3", "llama-mha", "mistral", "qwen2", "qwen3"};
    for (int i = 0; grail_selector_at(i) != NULL; i++) {
        char dense[32];
        char output[32];
        grail_selector_facts facts = {0};
        if (lab_is_for_experts(grail_selector_at(i))) {
            continue;
        }
        assert_ok(grail_selector_describe(grail_selector_at(i), &facts));
        snprintf(dense, sizeof dense, "dense-%d", i);
        snprintf(output, sizeof output, "out-%d", i);
        grail_compress_options options =
            lab_options(l, lab_f32(l, models[i % 5], dense), lab_path(l, output));
        options.fit.compensate = "none";
        options.cut.selector = grail_selector_at(i);
        assert_ok(lab_compress(&options));
        const grail_comparison c = compare_models(options.read.model, options.output.path, "cpu");
        assert_int_equal(c.identity_checked, facts.folds == 0);
        assert_true(facts.folds != 0 || c.identity_max_abs <= 1e-5);
        assert_true(c.max_abs > 0.01);
    }
}

LAB_TEST(query_heads_of_every_group_can_be_pruned_alone)
{
    static const char *const models[] = {"llama3", "llama-mqa", "qwen2", "qwen3"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char output[64];
        lab_f32(l, models[i], models[i]);
        snprintf(output, sizeof output, "%s-out", models[i]);
        const grail_comparison c = prune_plainly(l, models[i], output, GRAIL_GQA_QUERY_PER_GROUP);
        assert_int_equal(c.identity_checked, 1);
        assert_near(c.identity_max_abs, 0.0, 1e-5);
        OWNED(lab_model) dense;
        OWNED(lab_model) narrow;
        lab_read(&dense, lab_path(l, models[i]));
        lab_read(&narrow, lab_path(l, output));
        const int64_t kv = lab_integer(&dense, "num_key_value_heads");
        assert_int_equal(lab_integer(&narrow, "num_key_value_heads"), kv);
        assert_int_equal(lab_integer(&narrow, "num_attention_heads"), 4);
        assert_int_equal(lab_find(&narrow, 0, "self_attn.k_proj.weight")->shape[0],
                         lab_find(&dense, 0, "self_attn.k_proj.weight")->shape[0]);
    }
}

/* Copies a narrow model with one weight of one tensor changed, and its report. */
static void write_damaged(const lab *l, const char *from, const char *to, const char *part)
{
    lab_model m;
    OWNED(json_t) *report = read_json(from, "report.json");
    char path[LAB_PATH];
    lab_read(&m, from);
    lab_find(&m, 1, part)->values[5] += 0.5F;
    lab_write(&m, lab_path(l, to), GRAIL_DTYPE_F32);
    lab_fini(&m);
    snprintf(path, sizeof path, "%s/report.json", lab_path(l, to));
    assert_int_equal(json_dump_file(report, path, 0), 0);
}

LAB_TEST(the_identity_sees_a_damaged_tensor)
{
    static const char *const parts[] = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                        "self_attn.v_proj.weight", "self_attn.o_proj.weight",
                                        "mlp.gate_proj.weight",    "mlp.up_proj.weight",
                                        "mlp.down_proj.weight"};
    lab_f32(l, "llama3", "dense");
    prune_plainly(l, "dense", "narrow", GRAIL_GQA_KV_GROUPS);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        write_damaged(l, lab_path(l, "narrow"), parts[i], parts[i]);
        const grail_comparison c =
            compare_models(lab_path(l, "dense"), lab_path(l, parts[i]), "cpu");
        assert_int_equal(c.identity_checked, 1);
        assert_true(c.identity_max_abs > 1e-3);
    }
}

LAB_TEST(the_identity_is_not_claimed_for_repaired_or_folded_models)
{
    const char *model = lab_f32(l, "llama3", "dense");
    grail_compress_options options = lab_options(l, model, lab_path(l, "repaired"));
    assert_ok(lab_compress(&options));
    assert_int_equal(compare_models(model, options.output.path, "cpu").identity_checked, 0);
    options.output.path = lab_path(l, "folded");
    options.cut.selector = "fold";
    options.fit.compensate = "none";
    assert_ok(lab_compress(&options));
    assert_int_equal(compare_models(model, options.output.path, "cpu").identity_checked, 0);
}

/* As if the checkpoint kept each up_proj as 1 + w. */
static void read_with_offset(const grail_compression *c)
{
    graph *g = (graph *)(uintptr_t)c->request->graph;
    for (int p = 0; p < g->parameter_count; p++) {
        if (strstr(g->parameters[p].name, "up_proj") != NULL) {
            g->parameters[p].map.offset = 1.0;
        }
    }
}

/* Rows of 1 + w that stay are stored as they were, although 1 + w lacks some of their bits. */
LAB_TEST(rows_that_stay_keep_the_bits_behind_an_offset)
{
    OWNED(lab_model) dense;
    OWNED(lab_model) narrow;
    grail_compression *c = NULL;
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "offset"));
    assert_ok(grail_compression_open(&options, &c));
    read_with_offset(c);
    assert_ok(grail_compression_run(c));
    assert_ok(grail_compression_finish(c));
    grail_compression_close(c);
    lab_read(&dense, lab_golden("llama3"));
    lab_read(&narrow, options.output.path);
    const lab_tensor *before = lab_find(&dense, 0, "mlp.up_proj.weight");
    const lab_tensor *after = lab_find(&narrow, 0, "mlp.up_proj.weight");
    const int64_t width = before->shape[1];
    int64_t found = 0;
    assert_int_equal(after->shape[0], before->shape[0] * 3 / 4);
    for (int64_t r = 0; r < before->shape[0] && found < after->shape[0]; r++) {
        found += memcmp(before->values + r * width, after->values + found * width,
                        (size_t)width * sizeof(float)) == 0;
    }
    assert_int_equal(found, after->shape[0]);
}
