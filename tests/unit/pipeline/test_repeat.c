/* The same run again: other threads, another backend, another spelling of the options. And what the
 * result looks like: dtypes, shards, configuration, plan and report. */
#include "lab.h"

#include "format/weights/checkpoint.h"

#include <grail/machine.h>

#include <math.h>

static const char *const families[] = {"llama3", "llama-mha", "mistral", "qwen2", "qwen3"};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

static void run_with_threads(const lab *l, int threads, const char *output)
{
    const int before = grail_threads();
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, output));
    grail_set_threads(threads);
    assert_ok(lab_compress(&options));
    grail_set_threads(before);
}

LAB_TEST(equal_threads_give_equal_bytes_and_others_nearly)
{
    run_with_threads(l, 1, "one");
    run_with_threads(l, 1, "one-again");
    run_with_threads(l, 2, "two");
    run_with_threads(l, 2, "two-again");
    assert_same_checkpoint(lab_path(l, "one"), lab_path(l, "one-again"));
    assert_same_checkpoint(lab_path(l, "two"), lab_path(l, "two-again"));
    assert_near(largest_weight_difference(lab_path(l, "one"), lab_path(l, "two")), 0.0, 1e-5);
}

/* Whether one tensor is the same after two runs that differ in their seed. */
static bool seeds_agree(const char *selector, const char *name)
{
    OWNED(lab) l;
    lab_open(&l);
    grail_compress_options first = lab_options(&l, lab_golden("llama3"), lab_path(&l, "first"));
    first.cut.selector = selector;
    first.read.samples = 12;
    first.read.seed = 1;
    grail_compress_options second = first;
    second.output.path = lab_path(&l, "second");
    second.read.seed = 2;
    assert_ok(lab_compress(&first));
    assert_ok(lab_compress(&second));
    return same_tensor(first.output.path, second.output.path, name);
}

TEST(another_seed_takes_other_samples_and_random_units)
{
    assert_false(seeds_agree("random", "model.layers.0.mlp.up_proj.weight"));
    assert_true(seeds_agree("magnitude-l2", "model.layers.0.mlp.up_proj.weight"));
    assert_false(seeds_agree("magnitude-l2", "model.layers.0.mlp.down_proj.weight"));
}

LAB_TEST(both_backends_agree_in_every_family)
{
    static const char *const selectors[] = {"wanda", "magnitude-l2", "fold", "random-fold"};
    char outputs[2][LAB_PATH];
    for (int f = 0; f < FAMILY_COUNT; f++) {
        lab_f32(l, families[f], families[f]);
        for (int b = 0; b < 2; b++) {
            snprintf(outputs[b], LAB_PATH, "%s/%s-%d", l->directory, families[f], b);
            grail_compress_options options = lab_options(l, lab_path(l, families[f]), outputs[b]);
            options.cut.selector = selectors[f % 4];
            options.run.backend = b == 0 ? "cpu" : "ref";
            assert_ok(lab_compress(&options));
        }
        assert_near(largest_weight_difference(outputs[0], outputs[1]), 0.0, 1e-3);
        assert_near(compare_models(outputs[0], outputs[1], "cpu").max_abs, 0.0, 1e-3);
    }
}

LAB_TEST(every_selector_and_family_gives_a_model_that_opens)
{
    for (int f = 0; f < FAMILY_COUNT; f++) {
        for (int i = 0; grail_selector_at(i) != NULL; i++) {
            if (lab_is_for_experts(grail_selector_at(i)) || !support_takes(i + f, 3)) {
                continue;
            }
            const char *output = lab_path_of(l, "%s-%d", families[f], i);
            grail_compress_options options = lab_options(l, lab_golden(families[f]), output);
            options.cut.selector = grail_selector_at(i);
            assert_ok(lab_compress(&options));
            const grail_comparison c = compare_models(lab_golden(families[f]), output, "cpu");
            assert_true(isfinite(c.mean_kl) && c.mean_kl > 0.0);
        }
    }
}

LAB_TEST(the_result_keeps_dtypes_and_says_its_widths)
{
    static const char *const models[] = {"llama3", "llama-mha", "llama3-bf16"};
    static const grail_dtype dtypes[] = {GRAIL_DTYPE_F32, GRAIL_DTYPE_F16, GRAIL_DTYPE_BF16};
    for (int i = 0; i < 3; i++) {
        checkpoint *c = NULL;
        const char *output = lab_path(l, models[i]);
        grail_compress_options options = lab_options(l, lab_golden(models[i]), output);
        assert_ok(lab_compress(&options));
        assert_ok(checkpoint_open(output, &c));
        for (int64_t t = 0; t < checkpoint_count(c); t++) {
            assert_int_equal(checkpoint_at(c, t)->dtype, dtypes[i]);
        }
        checkpoint_close(c);
        OWNED(json_t) *config = read_json(output, "config.json");
        assert_int_equal(json_integer_value(json_object_get(config, "intermediate_size")), 60);
        assert_int_equal(json_integer_value(json_object_get(config, "num_attention_heads")), 4);
        assert_int_equal(json_integer_value(json_object_get(config, "head_dim")), 8);
    }
}

LAB_TEST(shards_stay_shards)
{
    checkpoint *dense = NULL;
    checkpoint *narrow = NULL;
    grail_compress_options options =
        lab_options(l, lab_golden("llama3-sharded"), lab_path(l, "out"));
    assert_ok(lab_compress(&options));
    assert_ok(checkpoint_open(lab_golden("llama3-sharded"), &dense));
    assert_ok(checkpoint_open(options.output.path, &narrow));
    assert_true(checkpoint_is_sharded(narrow));
    assert_int_equal(checkpoint_file_count(narrow), checkpoint_file_count(dense));
    for (int f = 0; f < checkpoint_file_count(dense); f++) {
        assert_string_equal(checkpoint_file_name(narrow, f), checkpoint_file_name(dense, f));
    }
    checkpoint_close(dense);
    checkpoint_close(narrow);
    /* the same weights in one file give the same narrow weights */
    options.read.model = lab_golden("llama3-bf16");
    options.output.path = lab_path(l, "single");
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "out"), options.output.path);
}

LAB_TEST(a_plan_that_was_written_can_be_read_and_gives_the_same_bytes)
{
    char plan[LAB_PATH];
    const grail_site_sparsity own = {.site = "model.layers.1.mlp.down_proj", .sparsity = 0.55};
    grail_compress_options options = lab_options(l, lab_golden("qwen2"), lab_path(l, "first"));
    options.amount.site_sparsities = &own;
    options.amount.site_sparsity_count = 1;
    options.cut.selector = "magnitude-l1";
    options.cut.gqa = GRAIL_GQA_QUERY_PER_GROUP;
    options.read.seed = 3;
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 0.0123};
    options.fit.ridge = "zero";
    options.fit.ridge_scale = "diagonal";
    options.fit.token_weights = "stream";
    assert_ok(lab_compress(&options));
    snprintf(plan, sizeof plan, "%s/plan.json", options.output.path);
    grail_compress_options other = lab_options(l, options.read.model, lab_path(l, "second"));
    other.amount.sparsity_ffn = 0.0;
    other.amount.sparsity_heads = 0.0;
    other.read.seed = 3; /* the seed of the samples; the plan has that of the selector */
    other.amount.plan = plan;
    assert_ok(lab_compress(&other));
    assert_same_checkpoint(options.output.path, other.output.path);
    OWNED(json_t) *first = read_json(options.output.path, "plan.json");
    OWNED(json_t) *second = read_json(other.output.path, "plan.json");
    assert_true(json_equal(first, second));
}

LAB_TEST(a_plan_may_mix_selectors)
{
    static const char text[] =
        "{\"grail_plan\": 1, \"compensation\": {\"target\": \"local\"}, \"sites\": ["
        "{\"site\": \"model.layers.0.self_attn.o_proj\", \"selector\": \"wanda\", \"kept\": 3},"
        "{\"site\": \"model.layers.0.mlp.down_proj\", \"selector\": \"fold\", \"kept\": 50},"
        "{\"site\": \"model.layers.1.self_attn.o_proj\", \"selector\": \"fold\", \"kept\": 2},"
        "{\"site\": \"model.layers.1.mlp.down_proj\", \"selector\": \"random\", \"kept\": 61}]}";
    grail_site_report sites[4];
    support_write_file(l->directory, "plan.json", text, sizeof text - 1);
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    options.amount.plan = lab_path(l, "plan.json");
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    assert_int_equal(lab_compress_reports(&options, sites, 4), 4);
    for (int i = 0; i < 4; i++) {
        assert_true(lab_is_repaired(&sites[i]));
    }
    assert_int_equal(sites[1].kept, 50);
    assert_string_equal(sites[1].selector, "fold");
}

LAB_TEST(totals_count_what_is_left)
{
    grail_compression *c = NULL;
    grail_model_facts facts;
    grail_compress_options options = lab_options(l, lab_golden("qwen3"), lab_path(l, "out"));
    assert_ok(grail_compression_open(&options, &c));
    const grail_compression_totals totals = grail_compression_totals_get(c);
    assert_ok(grail_compression_run(c));
    assert_ok(grail_compression_finish(c));
    grail_compression_close(c);
    OPENED(grail_model, narrow, grail_model_open(options.output.path, &narrow));
    assert_ok(grail_model_describe(narrow, &facts));
    assert_int_equal(totals.parameters, facts.parameters);
    assert_int_equal(totals.bytes, facts.bytes);
    assert_int_equal(totals.macs_per_token, facts.macs_per_token);
    assert_int_equal(totals.kv_bytes_per_token, facts.kv_bytes_per_token);
    assert_true(totals.dense.parameters > totals.parameters);
    assert_int_equal(totals.calibration_tokens, LAB_SAMPLES * LAB_LENGTH);
}
