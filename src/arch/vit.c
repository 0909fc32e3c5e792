/* ViT classifiers: timm, torchvision, Hugging Face ViTForImageClassification, vit-pytorch SimpleViT
 * 0.40. Sources of the names: the ViT classes of these libraries. */
#include "arch/tower_complete.h"
#include "arch/transformer_tower.h"

#include <string.h>

static const tower_names conventions[] = {
    {.key = "timm",
     .patch = "patch_embed.proj",
     .class_token = "cls_token",
     .positions = "pos_embed",
     .first_norm = "norm_pre",
     .layer = "blocks.",
     .attention_norm = "norm1",
     .fused_weight = "attn.qkv.weight",
     .fused_bias = "attn.qkv.bias",
     .output = "attn.proj",
     .ffn_norm = "norm2",
     .up = "mlp.fc1",
     .down = "mlp.fc2",
     .last_norm = "norm",
     .head = "head",
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-6,
     .first_norm_epsilon = 1e-5, /* of its CLIP towers, which alone have norm_pre */
     .loader = "timm"},
    {.key = "huggingface",
     .patch = "embeddings.patch_embeddings.projection",
     .class_token = "embeddings.cls_token",
     .positions = "embeddings.position_embeddings",
     .layer = "encoder.layer.",
     .attention_norm = "layernorm_before",
     .queries = "attention.attention.query",
     .keys = "attention.attention.key",
     .values = "attention.attention.value",
     .output = "attention.output.dense",
     .ffn_norm = "layernorm_after",
     .up = "intermediate.dense",
     .down = "output.dense",
     .last_norm = "layernorm",
     .head = "classifier",
     .configured = true,
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-12,
     .loader = "transformers"},
    {.key = "huggingface", /* the same class in memory, from transformers 5 on */
     .patch = "embeddings.patch_embeddings.projection",
     .class_token = "embeddings.cls_token",
     .positions = "embeddings.position_embeddings",
     .layer = "layers.",
     .attention_norm = "layernorm_before",
     .queries = "attention.q_proj",
     .keys = "attention.k_proj",
     .values = "attention.v_proj",
     .output = "attention.o_proj",
     .ffn_norm = "layernorm_after",
     .up = "mlp.fc1",
     .down = "mlp.fc2",
     .last_norm = "layernorm",
     .head = "classifier",
     .configured = true,
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-12,
     .loader = "transformers"},
    {.key = "torchvision",
     .patch = "conv_proj",
     .class_token = "class_token",
     .positions = "encoder.pos_embedding",
     .layer = "encoder.layers.encoder_layer_",
     .attention_norm = "ln_1",
     .fused_weight = "self_attention.in_proj_weight",
     .fused_bias = "self_attention.in_proj_bias",
     .output = "self_attention.out_proj",
     .ffn_norm = "ln_2",
     .up = "mlp.0",
     .down = "mlp.3",
     .last_norm = "encoder.ln",
     .head = "heads.head",
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-6,
     .loader = "torchvision"},
    {.key = "vit-pytorch",
     .patch = "to_patch_embedding.1",
     .layer = "transformer.layers.",
     .attention_norm = "0.norm",
     .fused_weight = "0.to_qkv.weight",
     .output = "0.to_out",
     .ffn_norm = "1.net.0",
     .up = "1.net.1",
     .down = "1.net.3",
     .last_norm = "linear_head.0",
     .head = "linear_head.1",
     .bare_output = true,
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-5,
     .loader = "vit-pytorch"},
};

static const tower_family family = {
    .name = "vit",
    .conventions = conventions,
    .count = sizeof conventions / sizeof conventions[0],
};

/* The first norm of the first layer, under each convention. */
static const char *const anchors[] = {"blocks.0.norm1.weight",
                                      "encoder.layer.0.layernorm_before.weight",
                                      "layers.0.layernorm_before.weight",
                                      "encoder.layers.encoder_layer_0.ln_1.weight",
                                      "transformer.layers.0.0.norm.weight",
                                      NULL};

static grail_status match(const architecture *self, const checkpoint *weights, recognition *r)
{
    (void)self;
    return tower_measure(&family, weights, r);
}

static grail_status recognise(const architecture *self, const checkpoint *weights, recognition *r,
                              json_t **config)
{
    (void)self;
    tower_match match = {0};
    const grail_status status = tower_recognise(&family, weights, r, &match, config);
    tower_match_fini(&match);
    return status;
}

static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    (void)self;
    return tower_build_from(&family, source, config, weights, out);
}

/* Networks for 32 pixels were trained on CIFAR; for the others each library has its usual one. */
static const char *preset(const json_t *config)
{
    const char *names = json_string_value(json_object_get(config, "names"));
    if (tower_image_side(config, 0) == TOWER_CIFAR_SIDE) {
        return "cifar";
    }
    if (names == NULL || strcmp(names, "huggingface") == 0) {
        return "vit-square";
    }
    return strcmp(names, "torchvision") == 0 ? "imagenet" : "vit";
}

static grail_status judge_loaders(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts)
{
    (void)dense;
    (void)self;
    return tower_judge_loaders(&family, config, narrowed, verdicts);
}

/* ViTModel has a pooler that classification does not read. */
static outside_part outside(const char *tensor)
{
    return strstr(tensor, "pooler.dense.") != NULL ? OUTSIDE_WEIGHTS : OUTSIDE_REFUSED;
}

const architecture architecture_vit = {.name = "vit",
                                       .settings = tower_settings,
                                       .recognise = recognise,
                                       .anchors = anchors,
                                       .match = match,
                                       .build = build,
                                       .complete = vit_complete,
                                       .image_processor = "ViT",
                                       .preset = preset,
                                       .describe_narrowed = tower_describe_narrowed,
                                       .judge_loaders = judge_loaders,
                                       .outside = outside};
