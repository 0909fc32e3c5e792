/* ViT classifiers: timm, torchvision, Hugging Face ViTForImageClassification, vit-pytorch SimpleViT
 * 0.40. Sources of the names: the ViT classes of these libraries. */
#include "arch/activation_names.h"
#include "arch/transformer_tower.h"

#include <string.h>

#define HUGGINGFACE_NAMES                                                                          \
    {"model.patches", "embeddings.patch_embeddings.projection"},                                   \
        {"model.class_token", "embeddings.cls_token"},                                             \
        {"model.embed_positions", "embeddings.position_embeddings"},                               \
        {"input_layernorm", "layernorm_before"}, {"post_attention_layernorm", "layernorm_after"},  \
        {"model.norm", "layernorm"},                                                               \
    {                                                                                              \
        "lm_head", "classifier"                                                                    \
    }
#define HUGGINGFACE_TOWER                                                                          \
    .configured = true, .activation = ACTIVATION_GELU, .epsilon = 1e-12, .loader = "transformers"

static const tower_names conventions[] = {
    {.key = "timm",
     .names = {{"model.patches", "patch_embed.proj"},
               {"model.class_token", "cls_token"},
               {"model.embed_positions", "pos_embed"},
               {"model.embed_norm", "norm_pre"},
               {"input_layernorm", "norm1"},
               {"self_attn.o_proj", "attn.proj"},
               {"post_attention_layernorm", "norm2"},
               {"mlp.up_proj", "mlp.fc1"},
               {"mlp.down_proj", "mlp.fc2"},
               {"model.norm", "norm"},
               {"lm_head", "head"}},
     .layers = "blocks.",
     .qkv = "attn.qkv.",
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-6,
     .first_norm_epsilon = 1e-5, /* of its CLIP towers, which alone have norm_pre */
     .loader = "timm"},
    {.key = "huggingface",
     .names = {HUGGINGFACE_NAMES,
               {"self_attn.q_proj", "attention.attention.query"},
               {"self_attn.k_proj", "attention.attention.key"},
               {"self_attn.v_proj", "attention.attention.value"},
               {"self_attn.o_proj", "attention.output.dense"},
               {"mlp.up_proj", "intermediate.dense"},
               {"mlp.down_proj", "output.dense"}},
     .layers = "encoder.layer.",
     HUGGINGFACE_TOWER},
    {.key = "huggingface", /* the same class in memory, from transformers 5 on */
     .names = {HUGGINGFACE_NAMES,
               {"self_attn.q_proj", "attention.q_proj"},
               {"self_attn.k_proj", "attention.k_proj"},
               {"self_attn.v_proj", "attention.v_proj"},
               {"self_attn.o_proj", "attention.o_proj"},
               {"mlp.up_proj", "mlp.fc1"},
               {"mlp.down_proj", "mlp.fc2"}},
     .layers = "layers.",
     HUGGINGFACE_TOWER},
    {.key = "torchvision",
     .names = {{"model.patches", "conv_proj"},
               {"model.class_token", "class_token"},
               {"model.embed_positions", "encoder.pos_embedding"},
               {"input_layernorm", "ln_1"},
               {"self_attn.o_proj", "self_attention.out_proj"},
               {"post_attention_layernorm", "ln_2"},
               {"mlp.up_proj", "mlp.0"},
               {"mlp.down_proj", "mlp.3"},
               {"model.norm", "encoder.ln"},
               {"lm_head", "heads.head"}},
     .layers = "encoder.layers.encoder_layer_",
     .qkv = "self_attention.in_proj_",
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-6,
     .loader = "torchvision"},
    {.key = "vit-pytorch",
     .names = {{"model.patches", "to_patch_embedding.1"},
               {"input_layernorm", "0.norm"},
               {"self_attn.o_proj", "0.to_out"},
               {"post_attention_layernorm", "1.net.0"},
               {"mlp.up_proj", "1.net.1"},
               {"mlp.down_proj", "1.net.3"},
               {"model.norm", "linear_head.0"},
               {"lm_head", "linear_head.1"}},
     .layers = "transformer.layers.",
     .qkv = "0.to_qkv.",
     .bare_attention = true,
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-5,
     .loader = "vit-pytorch"},
    {0}};

/* The first norm of the first layer, under each convention. */
static const char *const anchors[] = {"blocks.0.norm1.weight",
                                      "encoder.layer.0.layernorm_before.weight",
                                      "layers.0.layernorm_before.weight",
                                      "encoder.layers.encoder_layer_0.ln_1.weight",
                                      "transformer.layers.0.0.norm.weight",
                                      NULL};

/* -- what timm's config.json says of its class VisionTransformer and the tensors do not
 * ------------- */

enum { MOST_HEADS = 1 << 16 };

/* Architectures whose heads are not 64 wide. */
static const struct {
    const char *begin;
    int heads;
} odd_heads[] = {{"vit_huge_", 16}, {"vit_giant_", 16}, {"vit_gigantic_", 16}, {"test_vit", 2}};

static grail_status complete(const surroundings *around, json_t *config, char *notice)
{
    const char *source = around->source;
    const char *names = json_string_value(json_object_get(config, "names"));
    const char *class = json_string_value(json_object_get(around->config, "architecture"));
    const json_t *arguments = json_object_get(around->config, "model_args");
    const char *pool = NULL;
    int64_t usual = 0;
    int64_t heads = 0;
    (void)notice;
    if (class == NULL || names == NULL || strcmp(names, "timm") != 0) {
        return GRAIL_OK;
    }
    if (arguments != NULL && !json_is_null(arguments) && !json_is_object(arguments)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"model_args\" is not an object", source);
    }
    /* grail classifies the class token, as timm does unless it is told otherwise. */
    CHECK(json_get_string(source, around->config, "global_pool", "token", &pool));
    CHECK(json_get_string(source, arguments, "global_pool", pool, &pool));
    if (pool[0] != 0 && strcmp(pool, "token") != 0) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "%s: \"global_pool\" is \"%s\"; grail has vision transformers that classify the class "
            "token (\"token\")",
            source, pool);
    }
    for (size_t i = 0; i < sizeof odd_heads / sizeof odd_heads[0]; i++) {
        const char *begin = odd_heads[i].begin;
        usual = strncmp(class, begin, strlen(begin)) == 0 ? odd_heads[i].heads : usual;
    }
    CHECK(json_get_integer(source, arguments, "num_heads", usual, &heads));
    if (heads < 0 || heads > MOST_HEADS) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"num_heads\" is %lld, expected 1 to %d", source,
                         (long long)heads, MOST_HEADS);
    }
    if (heads > 0) {
        CHECK(json_put(config, "num_attention_heads", json_integer(heads)));
    }
    const bool clip = strstr(class, "_clip_") != NULL; /* which has the norms of torch */
    CHECK(json_put(config, "layer_norm_eps", json_real(clip ? 1e-5 : 1e-6)));
    activation_kind kind =
        strstr(class, "quickgelu") == NULL ? ACTIVATION_GELU : ACTIVATION_QUICK_GELU;
    const char *name = json_string_value(json_object_get(arguments, "act_layer"));
    if (name != NULL && strcmp(name, "gelu_tanh") == 0) { /* timm's own name */
        kind = ACTIVATION_GELU_TANH;
    } else {
        CHECK(read_activation(source, arguments, "act_layer", kind, &kind));
    }
    return json_put(config, "activation", json_text(activation_name(kind)));
}

/* -- the family -------------------------------------------------------------------------------- */

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

/* ViTModel has a pooler that classification does not read. */
static outside_part outside(const char *tensor)
{
    return strstr(tensor, "pooler.dense.") != NULL ? OUTSIDE_WEIGHTS : OUTSIDE_REFUSED;
}

const architecture architecture_vit = {TOWER_SLOTS,
                                       .name = "vit",
                                       .conventions = conventions,
                                       .recognise = tower_recognise,
                                       .anchors = anchors,
                                       .complete = complete,
                                       .image_processor = "ViT",
                                       .preset = preset,
                                       .outside = outside};
