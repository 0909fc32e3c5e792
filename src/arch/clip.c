/* Visual towers of CLIP: OpenAI and open_clip (with the head of model soups), Hugging Face
 * CLIPModel, CLIPVisionModelWithProjection and CLIPVisionModel, which transformers 5 saves without
 * "vision_model.". The output is the image feature, or the logits if
 * there is a classification head. The text tower is copied, not read. Sources: model.py of OpenAI's
 * CLIP, open_clip, Hugging Face modeling_clip.py, utils.py of model soups. */
#include "arch/activation_names.h"
#include "arch/model_config.h"
#include "arch/transformer_tower.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The names of Hugging Face's visual tower below `prefix`. */
#define HUGGINGFACE_NAMES(prefix)                                                                  \
    {"model.patches", prefix "embeddings.patch_embedding"},                                        \
        {"model.class_token", prefix "embeddings.class_embedding"},                                \
        {"model.embed_positions", prefix "embeddings.position_embedding.weight"},                  \
        {"model.embed_norm", prefix "pre_layrnorm"}, {"input_layernorm", "layer_norm1"},           \
        {"self_attn.q_proj", "self_attn.q_proj"}, {"self_attn.k_proj", "self_attn.k_proj"},        \
        {"self_attn.v_proj", "self_attn.v_proj"}, {"self_attn.o_proj", "self_attn.out_proj"},      \
        {"post_attention_layernorm", "layer_norm2"}, {"mlp.up_proj", "mlp.fc1"},                   \
        {"mlp.down_proj", "mlp.fc2"}, {"model.norm", prefix "post_layernorm"},                     \
    {                                                                                              \
        "lm_head", "classification_head"                                                           \
    }
#define HUGGINGFACE_TOWER(prefix)                                                                  \
    .layers = prefix "encoder.layers.", .configured = true, .activation = ACTIVATION_QUICK_GELU,   \
    .epsilon = 1e-5, .loader = "transformers"

static const tower_names conventions[] = {
    {.key = "open_clip",
     .names = {{"model.patches", "visual.conv1"},
               {"model.class_token", "visual.class_embedding"},
               {"model.embed_positions", "visual.positional_embedding"},
               {"model.embed_norm", "visual.ln_pre"},
               {"input_layernorm", "ln_1"},
               {"self_attn.o_proj", "attn.out_proj"},
               {"post_attention_layernorm", "ln_2"},
               {"mlp.up_proj", "mlp.c_fc"},
               {"mlp.down_proj", "mlp.c_proj"},
               {"model.norm", "visual.ln_post"},
               {"model.projection", "visual.proj"},
               {"lm_head", "classification_head"}},
     .layers = "visual.transformer.resblocks.",
     .qkv = "attn.in_proj_",
     .bare_projection = true,
     .activation = ACTIVATION_GELU,
     .epsilon = 1e-5,
     .loader = "open_clip"},
    {.key = "huggingface",
     .names = {HUGGINGFACE_NAMES("vision_model."), {"model.projection", "visual_projection"}},
     HUGGINGFACE_TOWER("vision_model.")},
    {.key = "huggingface-vision", .names = {HUGGINGFACE_NAMES("")}, HUGGINGFACE_TOWER("")},
    {0}};

/* The first norm of the first layer, under each convention. */
static const char *const anchors[] = {"visual.transformer.resblocks.0.ln_1.weight",
                                      "vision_model.encoder.layers.0.layer_norm1.weight",
                                      "encoder.layers.0.layer_norm1.weight", NULL};

/* -- what the tensors of open_clip show -------------------------------------------------------- */

/* Finds a tensor outside the tower, under the same prefix. */
static const tensor_view *find_beside(const checkpoint *weights, const char *name)
{
    char whole[TENSOR_LONGEST_NAME + DECODER_NAME_SIZE];
    snprintf(whole, sizeof whole, "%s%s", checkpoint_prefix(weights), name);
    return checkpoint_find(weights, whole);
}

/* The wrapper of model soups has OpenAI's network in "model" and a head beside it, which was
 * trained on features of unit length. */
static bool is_model_soup(const checkpoint *weights)
{
    const char *prefix = checkpoint_prefix(weights);
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

/* -- the activation of open_clip's networks ---------------------------------------------------- */

/* Whether `word` is in `name`, as a word of its own if `whole`. Case does not matter. */
static bool has_word(const char *name, const char *word, bool whole)
{
    const size_t length = strlen(word);
    for (const char *at = name; *at != 0; at++) {
        const bool begins = at == name || !isalnum((unsigned char)at[-1]);
        if (strncasecmp(at, word, length) == 0 &&
            (!whole || (begins && !isalnum((unsigned char)at[length])))) {
            return true;
        }
    }
    return false;
}

/* Whether the name of the weights file, or the last one of the path that was opened, is that of
 * such a network. */
static bool names_quick_gelu(const surroundings *around)
{
    const char *last = around->path;
    for (const char *at = last; *at != 0; at++) {
        last = *at != '/' && at > around->path && at[-1] == '/' ? at : last;
    }
    const char *const names[] = {last, checkpoint_file_name(around->weights, 0)};
    bool found = false;
    for (int i = 0; i < 2; i++) {
        found =
            found || has_word(names[i], "quickgelu", false) || has_word(names[i], "openai", true);
    }
    return found;
}

/* Whether the arguments are those of the class CLIP itself, not of one of open_clip's other
 * classes, which have more. */
static bool is_for_clip(const json_t *model)
{
    static const char *const known[] = {"embed_dim", "vision_cfg", "text_cfg", "quick_gelu"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        count += json_object_get(model, known[i]) != NULL ? 1 : 0;
    }
    const json_t *vision = json_object_get(model, "vision_cfg");
    const json_t *text = json_object_get(model, "text_cfg");
    return json_object_size(model) == count && json_is_object(vision) && json_is_object(text) &&
           json_object_get(vision, "timm_model_name") == NULL &&
           json_object_get(text, "hf_model_name") == NULL;
}

/* In this order: what the tensors show of OpenAI's own files, "quick_gelu" of
 * open_clip_config.json, whose "model_cfg" without it is one without QuickGELU, the names of the
 * files, an assumption. OpenAI's own files, whose networks were trained with QuickGELU, state the
 * input size, or have convolutions in F16 and norms in F32 (convert_weights of model.py). Source:
 * open_clip 3.3, factory.py, pretrained.py and the names of its model configurations. */
static grail_status complete(const surroundings *around, json_t *config, char *notice)
{
    grail_status status = GRAIL_OK;
    const checkpoint *weights = around->weights;
    const char *names = json_string_value(json_object_get(config, "names"));
    model_config file = {0};
    bool quick = false;
    if (names == NULL || strcmp(names, "open_clip") != 0) {
        return GRAIL_OK;
    }
    const tensor_view *patch = find_beside(weights, "visual.conv1.weight");
    const tensor_view *norm = find_beside(weights, "visual.ln_post.weight");
    const bool soup = is_model_soup(weights);
    const bool shown = soup || find_beside(weights, "input_resolution") != NULL ||
                       (patch != NULL && norm != NULL && patch->dtype == GRAIL_DTYPE_F16 &&
                        norm->dtype == GRAIL_DTYPE_F32);
    if (shown) {
        TRY(json_put(config, "activation", json_text("quick_gelu")));
    }
    TRY(json_put(config, "normalize", json_boolean(soup)));
    TRY(model_config_read_beside(weights, around->directory, OPEN_CLIP_CONFIG_NAME, &file));
    const json_t *model = json_object_get(file.document, "model_cfg");
    if (is_for_clip(model)) {
        TRY(json_put(config, TOWER_OPEN_CLIP_ARGUMENTS, json_true()));
    }
    if (json_is_object(model)) {
        TRY(json_get_boolean(file.path, model, "quick_gelu", false, &quick));
    } else if (shown) {
        goto out;
    } else {
        quick = names_quick_gelu(around);
        snprintf(
            notice, NOTICE_SIZE,
            quick
                ? "the tensors of open_clip do not show whether the activation is gelu or "
                  "quick_gelu; quick_gelu was taken from the name; the setting activation=gelu or "
                  "activation=quick_gelu decides"
                : "the tensors of open_clip do not show whether the activation is gelu or "
                  "quick_gelu; gelu is assumed, but networks whose name ends in -quickgelu and "
                  "weights of the tags openai, metaclip and dfn have quick_gelu; the "
                  "setting activation=gelu or activation=quick_gelu decides");
    }
    TRY(json_put(config, "activation",
                 json_text(activation_name(quick ? ACTIVATION_QUICK_GELU : ACTIVATION_GELU))));
out:
    model_config_fini(&file);
    return status;
}

/* -- the families ------------------------------------------------------------------------------ */

static const char *preset(const json_t *config)
{
    (void)config;
    return "clip";
}

/* The text tower and the temperature, and the numbers that OpenAI's archives store beside the
 * weights. */
static outside_part outside(const char *tensor)
{
    static const struct {
        const char *begin;
        outside_part part;
    } known[] = {
        {"input_resolution", OUTSIDE_BUFFER},
        {"context_length", OUTSIDE_BUFFER},
        {"vocab_size", OUTSIDE_BUFFER},
        {"token_embedding.", OUTSIDE_WEIGHTS},
        {"positional_embedding", OUTSIDE_WEIGHTS},
        {"transformer.", OUTSIDE_WEIGHTS},
        {"ln_final.", OUTSIDE_WEIGHTS},
        {"text_projection", OUTSIDE_WEIGHTS},
        {"logit_scale", OUTSIDE_WEIGHTS},
        {"logit_bias", OUTSIDE_WEIGHTS},
        {"text.", OUTSIDE_WEIGHTS},
        {"text_model.", OUTSIDE_WEIGHTS},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(tensor, known[i].begin, strlen(known[i].begin)) == 0) {
            return known[i].part;
        }
    }
    return OUTSIDE_REFUSED;
}

#define CLIP                                                                                       \
    TOWER_SLOTS, .conventions = conventions, .anchors = anchors, .complete = complete,             \
                 .image_processor = "CLIP", .preset = preset, .outside = outside

/* The families differ only in the tensors of the text tower, so one of them recognises both. */
const architecture architecture_clip = {CLIP, .name = "clip", .recognise = tower_recognise};
const architecture architecture_clip_vision = {CLIP, .name = "clip_vision_model"};
