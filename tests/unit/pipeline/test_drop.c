/* Whole sublayers that are dropped: the result equals the network whose consumers give zeros, is an
 * ordinary checkpoint again, and what cannot be dropped is refused. */
#include "vision_lab.h"

#include "base/file.h"
#include "format/weights/checkpoint.h"

#include <string.h>

/* Runs a plan that keeps 0 units of these sites and repairs nothing; NULL ends the list. */
static grail_compress_options dropping(const lab *l, const char *model, const char *output,
                                       const char *const sites[])
{
    char *text = lab_next_path();
    int used = snprintf(text, LAB_PATH, "{\"grail_plan\": 1, \"sites\": [");
    for (int i = 0; sites[i] != NULL; i++) {
        used += snprintf(text + used, (size_t)(LAB_PATH - used),
                         "%s{\"site\": \"model.layers.%s\", \"kept\": 0}", i == 0 ? "" : ", ",
                         sites[i]);
    }
    snprintf(text + used, (size_t)(LAB_PATH - used), "]}");
    grail_compress_options options = lab_options(l, model, output);
    options.amount.plan_text = text;
    options.fit.compensate = "none";
    return options;
}

static void assert_identity(const char *dense, const char *narrow)
{
    const grail_comparison c = compare_models(dense, narrow, "ref");
    assert_int_equal(c.identity_checked, 1);
    assert_true(c.identity_max_abs < 1e-9);
    assert_true(c.max_abs > 1e-3); /* something was lost */
}

LAB_TEST(the_result_is_the_network_whose_consumer_gives_zeros)
{
    static const char *const cases[][3] = {{"0.self_attn.o_proj"},
                                           {"1.mlp.down_proj"},
                                           {"1.self_attn.o_proj", "0.mlp.down_proj"},
                                           {"0.self_attn.o_proj", "1.self_attn.o_proj"}};
    static const char *const models[] = {"llama3",  "llama3-sharded", "qwen2", "qwen3",
                                         "mistral", "gemma2",         "glm4",  "gpt2"};
    for (int m = 0; m < 8; m++) {
        for (int i = 0; i < 4; i++) {
            if (!support_takes(m + i, 2)) {
                continue;
            }
            char name[32];
            snprintf(name, sizeof name, "%s-%d", models[m], i);
            const char *output = lab_path(l, name);
            const grail_compress_options options =
                dropping(l, lab_golden(models[m]), output, cases[i]);
            assert_ok(lab_compress(&options));
            assert_identity(lab_golden(models[m]), output);
        }
    }
}

LAB_TEST(biases_go_with_their_sublayer)
{
    const char *model = lab_with_biases(l, "llama3", "model");
    const char *output = lab_path(l, "out");
    const grail_compress_options options = dropping(
        l, model, output, (const char *const[]){"1.self_attn.o_proj", "0.mlp.down_proj", NULL});
    assert_ok(lab_compress(&options));
    assert_identity(model, output);
}

LAB_TEST(a_sublayer_that_gives_nothing_is_no_loss)
{
    lab_model m;
    lab_read(&m, lab_golden("llama3"));
    lab_tensor *down = lab_find(&m, 1, "mlp.down_proj.weight");
    memset(down->values, 0, (size_t)lab_elements(down) * sizeof down->values[0]);
    lab_write(&m, lab_path(l, "model"), GRAIL_DTYPE_F32);
    lab_fini(&m);
    const grail_compress_options options = dropping(l, lab_path(l, "model"), lab_path(l, "out"),
                                                    (const char *const[]){"1.mlp.down_proj", NULL});
    assert_ok(lab_compress(&options));
    const grail_comparison c = compare_models(lab_path(l, "model"), lab_path(l, "out"), "cpu");
    assert_true(c.max_abs == 0.0);
}

/* Layer 1 becomes layer 0, bit by bit. */
LAB_TEST(a_block_without_sublayers_goes_and_later_ones_move_up)
{
    static const char *const models[] = {"llama3", "llama3-sharded", "qwen2"};
    for (int m = 0; m < 3; m++) {
        const char *output = lab_path(l, models[m]);
        const grail_compress_options options =
            dropping(l, lab_golden(models[m]), output,
                     (const char *const[]){"0.self_attn.o_proj", "0.mlp.down_proj", NULL});
        assert_ok(lab_compress(&options));
        assert_identity(lab_golden(models[m]), output);
        OPENED(checkpoint, dense, checkpoint_open(lab_golden(models[m]), &dense));
        OPENED(checkpoint, narrow, checkpoint_open(output, &narrow));
        const tensor_view *before = checkpoint_find(dense, "model.layers.1.mlp.up_proj.weight");
        const tensor_view *after = checkpoint_find(narrow, "model.layers.0.mlp.up_proj.weight");
        assert_int_equal(before->bytes, after->bytes);
        assert_memory_equal(before->data, after->data, before->bytes);
        assert_null(checkpoint_find(narrow, "model.layers.1.mlp.up_proj.weight"));
        assert_non_null(checkpoint_find(narrow, "model.norm.weight"));
        OWNED(json_t) *config = read_json(output, "config.json");
        assert_int_equal(json_integer_value(json_object_get(config, "num_hidden_layers")), 1);
    }
}

LAB_TEST(reports_and_totals_tell_of_it)
{
    grail_model_facts facts = {0};
    const char *output = lab_path(l, "out");
    const grail_compress_options options =
        dropping(l, lab_golden("llama3"), output,
                 (const char *const[]){"1.self_attn.o_proj", "0.mlp.down_proj", NULL});
    OPENED(grail_compression, c, grail_compression_open(&options, &c));
    assert_ok(grail_compression_run(c));
    assert_ok(grail_compression_finish(c));
    const grail_compression_totals t = grail_compression_totals_get(c);
    OPENED(grail_model, narrow, grail_model_open(output, &narrow));
    assert_ok(grail_model_describe(narrow, &facts));
    assert_true(facts.parameters < t.dense.parameters);
    assert_int_equal(t.parameters, facts.parameters);
    assert_int_equal(t.bytes, facts.bytes);
    assert_int_equal(t.macs_per_token, facts.macs_per_token);
    assert_int_equal(t.kv_bytes_per_token, facts.kv_bytes_per_token);
    assert_int_equal(2 * t.kv_bytes_per_token, t.dense.kv_bytes_per_token);
    assert_int_equal(grail_compression_site_count(c), 4);
    const grail_site_report s = grail_compression_site(c, 1);
    assert_string_equal(s.name, "model.layers.0.mlp.down_proj");
    assert_int_equal(s.kept, 0);
    assert_int_equal(s.narrow, 0);
    assert_int_equal(s.fit_count, 0);
}

LAB_TEST(the_result_can_be_narrowed_again)
{
    grail_compress_options options =
        dropping(l, lab_golden("llama3"), lab_path(l, "first"),
                 (const char *const[]){"1.self_attn.o_proj", "0.mlp.down_proj", NULL});
    options.fit.compensate = "full";
    assert_ok(lab_compress(&options));
    grail_compress_options again = lab_options(l, lab_path(l, "first"), lab_path(l, "second"));
    assert_ok(lab_compress(&again));
    json_t *config = read_json(again.output.path, "config.json");
    const json_t *layers = json_object_get(config, "per_layer_config");
    assert_int_equal(json_object_size(layers), 2);
    const json_t *lacks = json_object_get(json_object_get(layers, "0"), "skip");
    assert_string_equal(json_string_value(json_array_get(lacks, 0)), "mlp");
    json_decref(config);
    const grail_comparison c = compare_models(lab_path(l, "first"), again.output.path, "cpu");
    assert_true(c.mean_kl > 0.0 && c.mean_kl < 1.0);
    grail_compress_options rest =
        dropping(l, lab_path(l, "first"), lab_path(l, "third"),
                 (const char *const[]){"1.mlp.down_proj", NULL}); /* now layer 1 has nothing */
    assert_ok(lab_compress(&rest));
    assert_identity(lab_path(l, "first"), rest.output.path);
    config = read_json(rest.output.path, "config.json");
    assert_int_equal(json_integer_value(json_object_get(config, "num_hidden_layers")), 1);
    json_decref(config);
}

typedef struct interruption {
    int calls, cancel_at;
} interruption;

static int observe(void *user, const grail_site_report *report, int block, int blocks,
                   double seconds_left)
{
    interruption *i = user;
    i->calls++;
    return i->calls == i->cancel_at;
}

/* A sublayer of each block is dropped and another is cut; the maps between are refitted. */
static grail_compress_options mixed_run(const lab *l, const char *model, const char *output)
{
    static const char plan[] =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.mlp.down_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.0.self_attn.o_proj\", \"kept\": 1},"
        " {\"site\": \"model.layers.1.self_attn.o_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.1.mlp.down_proj\", \"kept\": 20}]}";
    grail_compress_options options = lab_options(l, model, output);
    options.amount.plan_text = plan;
    options.fit.refit = "all";
    return options;
}

/* Stops where a run can be stopped with a block finished, and goes on. */
static void assert_resumes(const lab *l, grail_compress_options options)
{
    interruption i = {0};
    options.output.path = lab_path(l, "whole");
    options.run.observer = observe;
    options.run.observer_user = &i;
    assert_ok(lab_compress(&options));
    const int calls = i.calls;
    assert_int_equal(calls, 6);           /* each site and each block */
    for (int at = 3; at <= calls; at++) { /* the first block is finished with the third call */
        char name[16];
        snprintf(name, sizeof name, "out%d", at);
        options.output.path = lab_path(l, name);
        options.output.resume = 0;
        i = (interruption){.cancel_at = at};
        assert_int_equal(lab_compress(&options), GRAIL_ERROR_CANCELLED);
        i = (interruption){0};
        options.output.resume = 1;
        assert_ok(lab_compress(&options));
        assert_true(i.calls < calls);
        assert_same_checkpoint(lab_path(l, "whole"), options.output.path);
    }
}

LAB_TEST(an_interrupted_run_goes_on_to_the_same_bytes)
{
    assert_resumes(l, mixed_run(l, lab_f32(l, "qwen2", "model"), NULL));
}

/* Layer 0 goes, and layer 1 is cut. */
static grail_compress_options leaving_out(const lab *l, const char *output)
{
    grail_compress_options options = lab_options(l, lab_golden("llama3-sharded"), output);
    options.amount.plan_text =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.mlp.down_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.0.self_attn.o_proj\", \"kept\": 0},"
        " {\"site\": \"model.layers.1.self_attn.o_proj\", \"kept\": 2},"
        " {\"site\": \"model.layers.1.mlp.down_proj\", \"kept\": 20}]}";
    options.fit.refit = "all";
    return options;
}

/* Tensors under other names are found again. */
LAB_TEST(so_does_one_that_leaves_out_a_block)
{
    assert_resumes(l, leaving_out(l, NULL));
}

/* Changes a bit of a tensor that has another name in the model: it is the last but one of its
 * file, and model.norm.weight follows. */
static void damage(const char *path)
{
    enum { BEHIND = 300 };
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -BEHIND, SEEK_END), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -BEHIND, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

LAB_TEST(a_changed_bit_is_found_under_another_name)
{
    interruption i = {.cancel_at = 6}; /* all blocks are finished */
    grail_compress_options options = leaving_out(l, lab_path(l, "out"));
    options.run.observer = observe;
    options.run.observer_user = &i;
    assert_int_equal(lab_compress(&options), GRAIL_ERROR_CANCELLED);
    damage(lab_path(l, "out.partial/result/model-00002-of-00002.safetensors"));
    options.output.resume = 1;
    assert_fails(lab_compress(&options), GRAIL_ERROR_FORMAT,
                 "tensor 'model.layers.0.self_attn.v_proj.weight' in '");
}

LAB_TEST(what_cannot_be_dropped_is_refused)
{
    const grail_compress_options all =
        dropping(l, lab_golden("llama3"), lab_path(l, "out"),
                 (const char *const[]){"0.self_attn.o_proj", "0.mlp.down_proj",
                                       "1.self_attn.o_proj", "1.mlp.down_proj", NULL});
    assert_fails(lab_compress(&all), GRAIL_ERROR_ARGUMENT, "the plan drops all 4 sublayers");
    assert_false(file_exists(lab_path(l, "out")));
}

VISION_TEST(image_networks_are_refused)
{
    grail_compress_options options =
        vision_options(v, vision_network(v, VISION_HUGGING_FACE_VIT, "vit"), vision_path(v, "out"));
    options.amount.plan_text = "{\"grail_plan\": 1, \"sites\": [{\"site\": "
                               "\"vit.encoder.layer.0.output.dense\", \"kept\": 0}]}";
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "a checkpoint of a vit network cannot say that a block lacks a sublayer");
    options.read.model = vision_network(v, VISION_BASIC, "resnet");
    options.amount.plan_text =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"layer1.0.conv2\", \"kept\": 0}]}";
    assert_fails(lab_compress(&options), GRAIL_ERROR_UNSUPPORTED,
                 "site 'layer1.0.conv2' keeps 0 units, but it is not alone in a sublayer");
}

LAB_TEST(failing_allocations_are_survived)
{
    if (!support_walks_failures()) {
        skip();
    }
    lab_fail_allocations(leaving_out(l, lab_path(l, "out")));
}

/* A llama with biases in which these sublayers add their consumer's bias alone, the same to every
 * token. */
static const char *with_constant(const lab *l, const char *const consumers[])
{
    OWNED(lab_model) m;
    const char *path = lab_path(l, "constant");
    lab_read(&m, lab_golden("llama3"));
    lab_add_biases(&m);
    for (int i = 0; consumers[i] != NULL; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.weight", consumers[i] + 2);
        lab_tensor *t = lab_find(&m, consumers[i][0] - '0', name);
        memset(t->values, 0, (size_t)lab_elements(t) * sizeof t->values[0]);
    }
    lab_write(&m, path, GRAIL_DTYPE_F32);
    return path;
}

/* The plan's sublayers add a constant, which a bias of the consumer before them can add as well. */
static void assert_made_up(const char *const dropped[], const char *refitted, int64_t memory)
{
    OWNED(lab) l;
    lab_open(&l);
    const char *model = with_constant(&l, dropped);
    grail_compress_options options = dropping(&l, model, lab_path(&l, "out"), dropped);
    options.fit.compensate = "full";
    options.fit.target = "dense";
    options.fit.refit = "all";
    options.run.memory = memory;
    assert_ok(lab_compress(&options));
    json_t *report = read_json(options.output.path, "report.json");
    const json_t *refit = json_array_get(json_object_get(report, "refits"), 0);
    assert_string_equal(json_string_value(json_object_get(refit, "map")), refitted);
    json_decref(report);
    assert_true(compare_models(model, options.output.path, "cpu").max_abs < 1e-3);
    options.output.path = lab_path(&l, "local");
    options.fit.refit = "none";
    assert_ok(lab_compress(&options));
    assert_true(compare_models(model, options.output.path, "cpu").max_abs > 0.1);
}

TEST(the_consumer_before_makes_up_for_what_a_sublayer_added)
{
    for (int64_t memory = 0; memory < 2; memory++) { /* 1: activations do not fit */
        assert_made_up((const char *const[]){"1.self_attn.o_proj", NULL},
                       "model.layers.0.mlp.down_proj.weight", memory);
        assert_made_up((const char *const[]){"0.mlp.down_proj", NULL},
                       "model.layers.0.self_attn.o_proj.weight", memory);
        assert_made_up((const char *const[]){"1.self_attn.o_proj", "1.mlp.down_proj", NULL},
                       "model.layers.0.mlp.down_proj.weight", memory);
        assert_made_up((const char *const[]){"0.mlp.down_proj", "1.self_attn.o_proj", NULL},
                       "model.layers.0.self_attn.o_proj.weight", memory);
    }
}

/* Half of the neurons that are left are dead, so cutting them loses nothing either. */
LAB_TEST(so_does_a_consumer_that_is_cut)
{
    lab_model m;
    const char *model = with_constant(l, (const char *const[]){"1.self_attn.o_proj", NULL});
    lab_read(&m, model);
    lab_tensor *up = lab_find(&m, 0, "mlp.up_proj.weight");
    lab_tensor *bias = lab_find(&m, 0, "mlp.up_proj.bias");
    const int64_t half = up->shape[0] / 2;
    memset(up->values, 0, (size_t)(half * up->shape[1]) * sizeof up->values[0]);
    memset(bias->values, 0, (size_t)half * sizeof bias->values[0]);
    const char *dead = lab_path(l, "dead");
    lab_write(&m, dead, GRAIL_DTYPE_F32);
    lab_fini(&m);
    char plan[256];
    snprintf(
        plan, sizeof plan,
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.0.mlp.down_proj\", \"kept\": "
        "%d}, {\"site\": \"model.layers.1.self_attn.o_proj\", \"kept\": 0}]}",
        (int)half);
    static const char *const weights[] = {"none", "stream"};
    for (int i = 0; i < 2; i++) {
        grail_compress_options options = lab_options(l, dead, lab_path(l, weights[i]));
        options.amount.plan_text = plan;
        options.fit.target = "dense";
        options.fit.token_weights = weights[i];
        assert_ok(lab_compress(&options));
        assert_true(compare_models(dead, options.output.path, "cpu").max_abs < 1e-3);
    }
}

static double divergence(const lab *l, const char *model, const char *target, const char *refit)
{
    char name[32];
    snprintf(name, sizeof name, "%s-%s", target, refit);
    grail_compress_options options =
        dropping(l, model, lab_path(l, name), (const char *const[]){"1.self_attn.o_proj", NULL});
    options.fit.compensate = "full";
    options.fit.target = target;
    options.fit.refit = refit;
    assert_ok(lab_compress(&options));
    return compare_models(model, options.output.path, "cpu").mean_kl;
}

TEST(refits_bring_a_network_without_a_sublayer_nearer_to_the_dense_one)
{
    static const char *const models[] = {"llama3", "qwen2", "llama-mha", "qwen3"};
    for (int i = 0; i < 4; i++) {
        OWNED(lab) l;
        lab_open(&l);
        const char *model = lab_f32(&l, models[i], "model");
        const double plain = divergence(&l, model, "mixed", "none");
        assert_true(divergence(&l, model, "mixed", "all") < plain);
        assert_true(divergence(&l, model, "dense", "auto") < plain);
    }
}

/* With a local target nothing is refitted, and no samples are needed. */
LAB_TEST(a_local_target_leaves_the_rest_alone)
{
    const char *model = lab_f32(l, "llama3", "model");
    grail_compress_options options =
        dropping(l, model, lab_path(l, "out"), (const char *const[]){"1.self_attn.o_proj", NULL});
    options.fit.compensate = "grail";
    options.read.text.path = NULL;
    assert_ok(lab_compress(&options));
    assert_true(same_tensor(model, options.output.path, "model.layers.0.mlp.down_proj.weight"));
    assert_true(same_tensor(model, options.output.path, "model.layers.1.mlp.up_proj.weight"));
}
