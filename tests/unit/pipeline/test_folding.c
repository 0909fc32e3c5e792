/* Folding: duplicated units fold without loss in every family, also when repaired. */
#include "lab.h"

#include <string.h>

enum { LAYERS = 2 };

/* copy[i] = which unit of the n original ones doubled unit i is: every one twice, in a mixed order.
 */
static void draw_copies(int64_t n, uint64_t seed, int64_t *copy)
{
    random_state random;
    random_seed(&random, seed, 0);
    random_permutation(&random, 2 * n, copy);
    for (int64_t i = 0; i < 2 * n; i++) {
        copy[i] %= n;
    }
}

/* Rows of a weight or bias in blocks of `block` rows: block i becomes block copy[i]. */
static void copy_rows(lab_tensor *t, int64_t block, int64_t blocks, const int64_t *copy)
{
    if (t == NULL) {
        return;
    }
    const int64_t columns = t->rank == 1 ? 1 : t->shape[1];
    const size_t size = (size_t)(block * columns);
    float *values = NULL;
    assert_ok(memory_new(&values, (size_t)blocks * size, sizeof values[0]));
    for (int64_t i = 0; i < blocks; i++) {
        memcpy(values + (size_t)i * size, t->values + (size_t)copy[i] * size,
               size * sizeof values[0]);
    }
    memory_free(t->values);
    t->values = values;
    t->shape[0] = block * blocks;
}

/* Likewise for columns; halved, so that the network stays of the same size. */
static void copy_columns(lab_tensor *t, int64_t block, int64_t blocks, const int64_t *copy)
{
    float *values = NULL;
    assert_ok(memory_new(&values, (size_t)(t->shape[0] * block * blocks), sizeof values[0]));
    for (int64_t row = 0; row < t->shape[0]; row++) {
        for (int64_t j = 0; j < block * blocks; j++) {
            const int64_t from = copy[j / block] * block + j % block;
            values[row * block * blocks + j] = 0.5F * t->values[row * t->shape[1] + from];
        }
    }
    memory_free(t->values);
    t->values = values;
    t->shape[1] = block * blocks;
}

static void double_ffn(lab_model *m)
{
    int64_t copy[512];
    const int64_t width = lab_integer(m, "intermediate_size");
    assert_true(2 * width <= 512);
    for (int layer = 0; layer < LAYERS; layer++) {
        draw_copies(width, 100 + (uint64_t)layer, copy);
        copy_rows(lab_find(m, layer, "mlp.gate_proj.weight"), 1, 2 * width, copy);
        copy_rows(lab_find(m, layer, "mlp.up_proj.weight"), 1, 2 * width, copy);
        copy_columns(lab_find(m, layer, "mlp.down_proj.weight"), 1, 2 * width, copy);
    }
    lab_set_integer(m, "intermediate_size", 2 * width);
}

/* Query heads of the doubled groups: those of the original group, in another order each. */
static void draw_heads(int64_t groups, int64_t per_group, const int64_t *group_copy, uint64_t seed,
                       int64_t *head_copy)
{
    random_state random;
    random_seed(&random, seed, 1);
    for (int64_t g = 0; g < 2 * groups; g++) {
        int64_t order[16];
        random_permutation(&random, per_group, order);
        for (int64_t s = 0; s < per_group; s++) {
            head_copy[g * per_group + s] = group_copy[g] * per_group + order[s];
        }
    }
}

static void double_groups(lab_model *m)
{
    int64_t groups_of[32];
    int64_t heads_of[32];
    const int64_t heads = lab_integer(m, "num_attention_heads");
    const int64_t groups = lab_integer(m, "num_key_value_heads");
    const int64_t dim = lab_integer(m, "head_dim");
    assert_true(2 * heads <= 32);
    for (int layer = 0; layer < LAYERS; layer++) {
        draw_copies(groups, 200 + (uint64_t)layer, groups_of);
        draw_heads(groups, heads / groups, groups_of, 300 + (uint64_t)layer, heads_of);
        copy_rows(lab_find(m, layer, "self_attn.q_proj.weight"), dim, 2 * heads, heads_of);
        copy_rows(lab_look(m, layer, "self_attn.q_proj.bias"), dim, 2 * heads, heads_of);
        copy_rows(lab_find(m, layer, "self_attn.k_proj.weight"), dim, 2 * groups, groups_of);
        copy_rows(lab_look(m, layer, "self_attn.k_proj.bias"), dim, 2 * groups, groups_of);
        copy_rows(lab_find(m, layer, "self_attn.v_proj.weight"), dim, 2 * groups, groups_of);
        copy_rows(lab_look(m, layer, "self_attn.v_proj.bias"), dim, 2 * groups, groups_of);
        copy_columns(lab_find(m, layer, "self_attn.o_proj.weight"), dim, 2 * heads, heads_of);
    }
    lab_set_integer(m, "num_attention_heads", 2 * heads);
    lab_set_integer(m, "num_key_value_heads", 2 * groups);
}

static void write_doubled(const char *golden, const char *path)
{
    OWNED(lab_model) m;
    lab_read(&m, lab_golden(golden));
    double_ffn(&m);
    double_groups(&m);
    lab_write(&m, path, GRAIL_DTYPE_F32);
}

/* The doubled model computes what the original does: the test's own construction. */
static void assert_doubling_is_exact(const lab *l, const char *golden, const char *doubled)
{
    char path[LAB_PATH + 16];
    snprintf(path, sizeof path, "%s-original", doubled);
    lab_f32(l, golden, strrchr(path, '/') + 1);
    assert_near(compare_models(path, doubled, "cpu").max_abs, 0.0, 1e-4);
}

static grail_compress_options fold_options(const lab *l, const char *model, const char *output)
{
    grail_compress_options options = lab_options(l, model, output);
    options.cut.selector = "fold";
    options.amount.sparsity_ffn = 0.5;
    options.amount.sparsity_heads = 0.5;
    return options;
}

static const char *const models[] = {"llama3", "llama-mha", "mistral", "qwen2", "qwen3"};
enum { MODEL_COUNT = sizeof models / sizeof models[0] };

LAB_TEST(doubled_units_fold_without_loss)
{
    for (int i = 0; i < MODEL_COUNT; i++) {
        const char *model = lab_path(l, models[i]);
        const char *output = lab_path_of(l, "%s-out", models[i]);
        write_doubled(models[i], model);
        assert_doubling_is_exact(l, models[i], model);
        grail_compress_options options = fold_options(l, model, output);
        options.fit.compensate = "none";
        options.read.text.path = NULL; /* folding needs no data */
        assert_ok(lab_compress(&options));
        assert_near(compare_models(model, output, "cpu").max_abs, 0.0, 1e-4);
    }
}

LAB_TEST(repair_leaves_a_lossless_folding_lossless)
{
    const char *model = lab_path(l, "doubled");
    write_doubled("llama3", model);
    grail_compress_options options = fold_options(l, model, lab_path(l, "full"));
    assert_ok(lab_compress(&options));
    assert_near(compare_models(model, options.output.path, "cpu").max_abs, 0.0, 1e-4);
    options.output.path = lab_path(l, "grail");
    options.fit.compensate = "grail";
    options.fit.alpha =
        (grail_number){GRAIL_NUMBER_GIVEN,
                       1e-9}; /* the paper's ridge shrinks towards zero, by as much as alpha says */
    assert_ok(lab_compress(&options));
    assert_near(compare_models(model, options.output.path, "cpu").max_abs, 0.0, 1e-4);
}

LAB_TEST(folding_lowers_the_error_that_repair_is_measured_by)
{
    static const char *const modes[] = {"grail", "full"};
    for (int i = 0; i < MODEL_COUNT; i++) {
        for (int mode = 0; mode < 2; mode++) {
            grail_site_report sites[8];
            const char *output = lab_path_of(l, "%s-%d", models[i], mode);
            grail_compress_options options = lab_options(l, lab_golden(models[i]), output);
            options.cut.selector = "fold";
            options.fit.compensate = modes[mode];
            options.fit.alpha = (grail_number){
                GRAIL_NUMBER_GIVEN, 1e-3}; /* cross-validation may leave a consumer as it is */
            const int count = lab_compress_reports(&options, sites, 8);
            assert_int_equal(count, 4);
            for (int s = 0; s < count; s++) {
                assert_true(lab_is_repaired(&sites[s]));
                assert_true(sites[s].fit.fit_before > 0.0);
            }
        }
    }
}

LAB_TEST(units_fold_at_random_too)
{
    grail_site_report sites[8];
    grail_compress_options options = lab_options(l, lab_golden("qwen3"), lab_path(l, "out"));
    options.cut.selector = "random-fold";
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 1e-3};
    const int count = lab_compress_reports(&options, sites, 8);
    for (int s = 0; s < count; s++) {
        assert_true(lab_is_repaired(&sites[s]));
    }
    OWNED(json_t) *report = read_json(options.output.path, "report.json");
    const json_t *labels =
        json_object_get(json_array_get(json_object_get(report, "sites"), 1), "labels");
    assert_int_equal(json_array_size(labels), 80);
}

LAB_TEST(query_heads_of_a_group_cannot_be_folded_alone)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "out"));
    options.cut.selector = "fold";
    options.cut.gqa = GRAIL_GQA_QUERY_PER_GROUP;
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED, "complete KV groups");
}
