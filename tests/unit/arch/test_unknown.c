/* What is not known is called what it is: families of other model types, and checkpoints whose
 * weights are stored in a form that cannot be narrowed. */
#include "config.h"
#include "unit/pipeline/lab_model.h"

#include "arch/architecture.h"
#include "arch/model.h"
#include "arch/refusals.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

/* -- families --------------------------------------------------------------------------------- */

TEST(a_common_family_is_told_from_the_nearest_one)
{
    static const struct {
        const char *type, *text;
    } known[] = {
        {"gemma3n", "; the nearest is llama, but gemma3n has several residual streams and "
                    "embeddings for every layer"},
        {"codegen", "the nearest is llama, but codegen adds attention and FFN side by side"},
        {"bloom", "the nearest is llama, but bloom has LayerNorm, slopes added to the scores"},
        {"ministral", "some layers attend to all positions and others within a window"},
        {"seed_oss", "the nearest is qwen2, but seed_oss differs in the name"},
        {"hunyuan", "the nearest is qwen3, but hunyuan norms q and k behind the rotary"},
        {"hunyuan_v1_dense", "norms q and k behind the rotary positions, not before them"},
        {"hunyuan_v1_moe", "splits its FFN into experts"},
        {"glm4_moe", "the nearest is llama, but glm4_moe splits its FFN into experts"},
        {"mamba", "none is near: mamba has state-space layers"},
        {"electra", "the nearest is bert, but electra"},
        {"t5", "but t5 consists of an encoder and a decoder"},
        {"deit", "the nearest is vit, but deit has a distillation token"},
        {"dinov2", "the nearest is vit, but dinov2 multiplies what attention and FFN add by a "
                   "layer scale"},
        {"siglip", "the nearest is clip, but siglip has no class token"},
        {"convnext", "the nearest is resnet, but convnext has depthwise convolutions"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_fails(try_config(known[i].type, NULL), GRAIL_ERROR_UNSUPPORTED, known[i].text);
        assert_non_null(strstr(grail_error_message(), "expected one of llama, mistral"));
        assert_null(strstr(grail_error_message(), "did you mean"));
    }
}

/* Each row is quoted as it stands, so none may lack a part, or name a family that is not there. */
TEST(every_row_of_the_refusals_is_complete)
{
    const char *key = NULL;
    json_t *row = NULL;
    OWNED(json_t) *refusals = refusals_read();
    json_object_foreach (json_object_get(refusals, "families"), key, row) {
        const json_t *nearest = json_array_get(row, 0);
        json_t *config = json_pack("{s:O}", "model_type", nearest);
        const architecture *found = NULL;
        assert_true(json_array_size(row) == 2 && json_is_string(json_array_get(row, 1)));
        if (!json_is_null(nearest)) {
            assert_ok(architecture_find(key, config, &found));
        }
        json_decref(config);
        assert_fails(try_config(key, NULL), GRAIL_ERROR_UNSUPPORTED, key);
    }
    assert_true(json_object_size(json_object_get(refusals, "families")) > 0);
    for (int i = 0; i < 2; i++) {
        json_t *reasons = json_object_get(refusals, i == 0 ? "keys" : "parts");
        assert_true(json_object_size(reasons) > 0);
        json_object_foreach (reasons, key, row) {
            assert_true(json_is_string(row));
        }
    }
}

TEST(a_family_that_nobody_described_is_told_by_its_keys)
{
    assert_fails(try_config("newmoe", "\"num_experts\": 8"), GRAIL_ERROR_UNSUPPORTED,
                 "clip_vision_model, onnx; \"num_experts\" shows that its FFN has experts");
    assert_fails(try_config("newt5", "\"is_encoder_decoder\": true"), GRAIL_ERROR_UNSUPPORTED,
                 "\"is_encoder_decoder\" shows that it has an encoder and a decoder");
    assert_fails(try_config("newsoft", "\"final_logit_softcapping\": 30.0"),
                 GRAIL_ERROR_UNSUPPORTED, "\"final_logit_softcapping\" shows");
}

TEST(a_key_that_switches_nothing_on_says_nothing)
{
    static const char *const off[] = {"\"num_experts\": 1",
                                      "\"num_experts\": null",
                                      "\"alibi\": false",
                                      "\"partial_rotary_factor\": 1.0",
                                      "\"is_encoder_decoder\": false",
                                      "\"num_experts\": \"8\""};
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        assert_fails(try_config("new", off[i]), GRAIL_ERROR_UNSUPPORTED, "clip_vision_model");
        assert_null(strstr(grail_error_message(), "shows"));
    }
}

/* -- stored forms ----------------------------------------------------------------------------- */

typedef struct fixture {
    lab_model m;
    char *directory;
    char path[LAB_PATH];
} fixture;

static void setup(fixture *f)
{
    lab_read(&f->m, lab_golden("llama3"));
    f->directory = support_temporary_directory();
    snprintf(f->path, sizeof f->path, "%s/model", f->directory);
}

static void teardown(fixture *f)
{
    lab_fini(&f->m);
    support_remove_tree(f->directory);
    memory_free(f->directory);
}

#define FIXTURE_TEST(name) TEST_OF(fixture, f, setup, teardown, name)

static grail_status try_open(const fixture *f)
{
    OWNED(grail_model) *m = NULL;
    lab_write(&f->m, f->path, GRAIL_DTYPE_F32);
    const grail_status status = grail_model_open(f->path, &m);
    assert_true((status == GRAIL_OK) == (m != NULL));
    return status;
}

static grail_status try_quantisation(const char *text)
{
    fixture f;
    json_t *stated = NULL;
    setup(&f);
    assert_ok(json_parse("stated", text, strlen(text), &stated));
    assert_ok(json_put(f.m.config, "quantization_config", json_object_get(stated, "q")));
    json_incref(json_object_get(stated, "q"));
    const grail_status status = try_open(&f);
    json_decref(stated);
    teardown(&f);
    return status;
}

TEST(a_quantised_configuration_is_refused)
{
    assert_fails(try_quantisation("{\"q\": {\"quant_method\": \"gptq\", \"bits\": 4}}"),
                 GRAIL_ERROR_UNSUPPORTED,
                 "config.json: \"quantization_config\" says that its weights are quantised (gptq, "
                 "4 bits), but only plain weights can be narrowed; give the checkpoint from before "
                 "quantisation");
    assert_fails(try_quantisation("{\"q\": {\"quant_method\": \"awq\"}}"), GRAIL_ERROR_UNSUPPORTED,
                 "quantised (awq), but");
    assert_fails(try_quantisation("{\"q\": {\"load_in_8bit\": true, \"load_in_4bit\": false}}"),
                 GRAIL_ERROR_UNSUPPORTED, "quantised, but");
    assert_fails(try_quantisation("{\"q\": [1]}"), GRAIL_ERROR_UNSUPPORTED, "quantised, but");
}

TEST(a_configuration_that_quantises_nothing_is_let_be)
{
    assert_ok(try_quantisation("{\"q\": null}"));
    assert_ok(try_quantisation("{\"q\": {}}"));
    assert_ok(try_quantisation("{\"q\": {\"quant_method\": \"bitsandbytes\", \"load_in_8bit\": "
                               "false, \"load_in_4bit\": false}}"));
    assert_ok(try_quantisation("{\"q\": {\"quant_method\": \"compressed-tensors\", "
                               "\"config_groups\": {}}}"));
    assert_ok(try_quantisation("{\"q\": {\"bits\": 16}}"));
    assert_ok(try_quantisation("{\"q\": {\"quant_method\": \"mxfp4\"}}"));
}

TEST(tensors_of_quantised_checkpoints_name_who_made_them)
{
    static const struct {
        const char *tensor, *text;
    } cases[] = {
        {"model.layers.0.mlp.up_proj.qweight",
         "tensor 'model.layers.0.mlp.up_proj.qweight' shows weights quantised by GPTQ or AWQ"},
        {"model.layers.0.mlp.up_proj.weight.absmax", "quantised by bitsandbytes"},
        {"model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4",
         "quantised by bitsandbytes"},
        {"model.layers.0.mlp.up_proj.SCB", "quantised by bitsandbytes"},
        {"model.layers.0.mlp.up_proj.weight_scale_inv", "quantised by FP8"},
        {"model.layers.0.mlp.up_proj.weight_zero_point", "quantised by compressed-tensors"},
        {"base_model.model.model.layers.0.mlp.up_proj.lora_A.weight",
         "belongs to a LoRA adapter, which is not a network; merge it into its base model"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture f;
        setup(&f);
        snprintf(lab_find(&f.m, 0, "mlp.up_proj.weight")->name, 96, "%s", cases[i].tensor);
        assert_fails(try_open(&f), GRAIL_ERROR_UNSUPPORTED, cases[i].text);
        teardown(&f);
    }
}

FIXTURE_TEST(names_that_only_resemble_those_are_let_be)
{
    snprintf(lab_find(&f->m, 0, "mlp.up_proj.weight")->name, 96, "%s",
             "model.layers.0.mlp.up_proj.qweights");
    assert_fails(try_open(f), GRAIL_ERROR_FORMAT, "mlp.up_proj.weight' is missing");
}

CMFixtureFunction support_setup = json_memory_use;
