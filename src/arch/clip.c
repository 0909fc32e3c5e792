/* Visual towers of CLIP: OpenAI and open_clip (with the head of model soups), Hugging Face
 * CLIPModel, CLIPVisionModelWithProjection and CLIPVisionModel, which transformers 5 saves without
 * "vision_model.". The output is the image feature, or the logits if
 * there is a classification head. The text tower is copied, not read. Sources: model.py of OpenAI's
 * CLIP, open_clip, Hugging Face modeling_clip.py, utils.py of model soups. */
#include "arch/tower_complete.h"
#include "arch/transformer_tower.h"

#include <string.h>

/* The names of Hugging Face's visual tower below `prefix`. */
#define HUGGINGFACE_TOWER(prefix)                                                                  \
    .patch = prefix "embeddings.patch_embedding",                                                  \
    .class_token = prefix "embeddings.class_embedding",                                            \
    .positions = prefix "embeddings.position_embedding.weight",                                    \
    .first_norm = prefix "pre_layrnorm", .layer = prefix "encoder.layers.",                        \
    .attention_norm = "layer_norm1", .queries = "self_attn.q_proj", .keys = "self_attn.k_proj",    \
    .values = "self_attn.v_proj", .output = "self_attn.out_proj", .ffn_norm = "layer_norm2",       \
    .up = "mlp.fc1", .down = "mlp.fc2", .last_norm = prefix "post_layernorm",                      \
    .head = "classification_head", .configured = true, .activation = ACTIVATION_QUICK_GELU,        \
    .epsilon = 1e-5, .loader = "transformers"

static const tower_names conventions[] = {
    {.key = "open_clip",
     .patch = "visual.conv1",
     .class_token = "visual.class_embedding",
     .positions = "visual.positional_embedding",
     .first_norm = "visual.ln_pre",
     .layer = "visual.transformer.resblocks.",
     .attention_norm = "ln_1",
     .fused_weight = "attn.in_proj_weight",
     .fused_bias = "attn.in_proj_bias",
     .output = "attn.out_proj",
     .ffn_norm = "ln_2",
     .up = "mlp.c_fc",
     .down = "mlp.c_proj",
     .last_norm = "visual.ln_post",
     .projection = "visual.proj",
     .head = "classification_head",
     .bare_projection = true,
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-5,
     .loader = "open_clip"},
    {.key = "huggingface", .projection = "visual_projection", HUGGINGFACE_TOWER("vision_model.")},
    {.key = "huggingface-vision", HUGGINGFACE_TOWER("")},
};

static const tower_family family = {
    .name = "clip",
    .conventions = conventions,
    .count = sizeof conventions / sizeof conventions[0],
};

/* Finds a tensor outside the tower, under the same prefix. */
static grail_status find_beside(const checkpoint *weights, const char *prefix, const char *name,
                                const tensor_view **out)
{
    char *whole = NULL;
    const grail_status status = tower_name(&whole, prefix, "%s", name);
    if (status == GRAIL_OK) {
        *out = checkpoint_find(weights, whole);
    }
    memory_free(whole);
    return status;
}

/* Whether this is one of OpenAI's own files, whose networks were trained with QuickGELU. They state
 * the input size, or have convolutions in F16 and norms in F32 (convert_weights of model.py). */
static grail_status is_openai(const checkpoint *weights, const char *prefix, bool *out)
{
    const tensor_view *patch = NULL;
    const tensor_view *norm = NULL;
    const tensor_view *resolution = NULL;
    CHECK(find_beside(weights, prefix, "visual.conv1.weight", &patch));
    CHECK(find_beside(weights, prefix, "visual.ln_post.weight", &norm));
    CHECK(find_beside(weights, prefix, "input_resolution", &resolution));
    *out =
        resolution != NULL || (patch != NULL && norm != NULL && patch->dtype == GRAIL_DTYPE_F16 &&
                               norm->dtype == GRAIL_DTYPE_F32);
    return GRAIL_OK;
}

/* The wrapper of model soups has OpenAI's network in "model" and a head beside it, which was
 * trained on features of unit length. */
static bool is_model_soup(const checkpoint *weights, const char *prefix)
{
    static const char inner[] = "model.";
    const size_t all = strlen(prefix);
    const size_t own = sizeof inner - 1;
    if (all < own || strcmp(prefix + all - own, inner) != 0) {
        return false;
    }
    for (int64_t i = 0; i < checkpoint_count(weights); i++) {
        if (strstr(checkpoint_at(weights, i)->name, "classification_head.weight") != NULL) {
            return true;
        }
    }
    return false;
}

/* The first norm of the first layer, under each convention. */
static const char *const anchors[] = {"visual.transformer.resblocks.0.ln_1.weight",
                                      "vision_model.encoder.layers.0.layer_norm1.weight",
                                      "encoder.layers.0.layer_norm1.weight", NULL};

static grail_status match(const architecture *self, const checkpoint *weights, recognition *r)
{
    (void)self;
    return tower_measure(&family, weights, r);
}

static grail_status recognise(const architecture *self, const checkpoint *weights, recognition *r,
                              json_t **config)
{
    grail_status status = GRAIL_OK;
    tower_match match = {0};
    json_t *made = NULL;
    bool openai = false;
    (void)self;
    TRY(tower_recognise(&family, weights, r, &match, &made));
    if (match.names == &conventions[0]) {
        const bool soup = is_model_soup(weights, match.prefix);
        TRY(is_openai(weights, match.prefix, &openai));
        if (openai || soup) {
            TRY(json_put(made, "activation", json_text("quick_gelu")));
        }
        TRY(json_put(made, "normalize", json_boolean(soup)));
    }
    *config = made;
    made = NULL;
out:
    json_decref(made);
    tower_match_fini(&match);
    return status;
}

static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    (void)self;
    return tower_build_from(&family, source, config, weights, out);
}

static const char *preset(const json_t *config)
{
    (void)config;
    return "clip";
}

static grail_status judge_loaders(const architecture *self, const json_t *config,
                                  const graph *dense, const graph *narrowed,
                                  loader_verdict *verdicts)
{
    (void)dense;
    (void)self;
    return tower_judge_loaders(&family, config, narrowed, verdicts);
}

static bool begins_with_one(const char *tensor, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (strncmp(tensor, *names, strlen(*names)) == 0) {
            return true;
        }
    }
    return false;
}

/* The text tower and the temperature, and the numbers that OpenAI's archives store beside the
 * weights. */
static outside_part outside(const char *tensor)
{
    static const char *const buffers[] = {"input_resolution", "context_length", "vocab_size", NULL};
    static const char *const weights[] = {"token_embedding.", "positional_embedding",
                                          "transformer.",     "ln_final.",
                                          "text_projection",  "logit_scale",
                                          "logit_bias",       "text.",
                                          "text_model.",      NULL};
    return begins_with_one(tensor, buffers)   ? OUTSIDE_BUFFER
           : begins_with_one(tensor, weights) ? OUTSIDE_WEIGHTS
                                              : OUTSIDE_REFUSED;
}

#define CLIP(symbol, text, recognise_slot)                                                         \
    const architecture symbol = {.name = (text),                                                   \
                                 .settings = tower_settings,                                       \
                                 .recognise = (recognise_slot),                                    \
                                 .anchors = anchors,                                               \
                                 .match = match,                                                   \
                                 .build = build,                                                   \
                                 .complete = clip_complete,                                        \
                                 .image_processor = "CLIP",                                        \
                                 .preset = preset,                                                 \
                                 .describe_narrowed = tower_describe_narrowed,                     \
                                 .judge_loaders = judge_loaders,                                   \
                                 .outside = outside}

/* Both families use the same function `recognise`: they differ only in the tensors of the text
 * tower. */
CLIP(architecture_clip, "clip", recognise);
CLIP(architecture_clip_vision, "clip_vision_model", NULL);
