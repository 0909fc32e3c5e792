/* The decoder families: a table of differences for each. */
#include "arch/decoder.h"

#include <string.h>

static const decoder_family llama = {
    .default_context = 2048,
    .reads_attention_bias = true,
    .reads_mlp_bias = true,
};

static const decoder_family mistral = {
    .default_kv_heads = 8,
    .default_context = 131072,
    .default_window = 4096,
};

static const decoder_family qwen2 = {
    .default_kv_heads = 32,
    .default_context = 32768,
    .always_qkv_bias = true,
    .default_window = 4096,
    .window_is_optional = true,
};

static const decoder_family qwen3 = {
    .default_kv_heads = 32,
    .default_head_dim = 128,
    .default_context = 32768,
    .reads_attention_bias = true,
    .query_key_norm = true,
    .default_window = 4096,
    .window_is_optional = true,
};

/* The configuration of a decoder states all its widths. */
static grail_status build(const architecture *self, const char *source, const json_t *config,
                          const checkpoint *weights, graph **out)
{
    (void)weights;
    decoder_config c = {0};
    grail_status status = decoder_config_read(self->family, source, config, &c);
    if (status == GRAIL_OK) {
        status = decoder_build(source, &c, out);
    }
    decoder_config_fini(&c);
    return status;
}

static int64_t context(const architecture *self, const json_t *config)
{
    const json_t *value = json_object_get(config, "max_position_embeddings");
    return json_is_integer(value) ? (int64_t)json_integer_value(value)
                                  : self->family->default_context;
}

/* Old files store the rotary table as a buffer; networks with tied embeddings may store the head a
 * second time. */
static bool is_ignorable(const char *tensor)
{
    return strstr(tensor, "rotary_emb.inv_freq") != NULL || strcmp(tensor, "lm_head.weight") == 0;
}

/* Widths are not settings: the tensors determine them. */
static const char *const settings[] = {
    "hidden_act",     "rms_norm_eps",       "max_position_embeddings",
    "sliding_window", "use_sliding_window", NULL};

#define DECODER(symbol, text, table)                                                               \
    const architecture symbol = {.name = text,                                                     \
                                 .family = &table,                                                 \
                                 .settings = settings,                                             \
                                 .build = build,                                                   \
                                 .describe_narrowed = decoder_describe_narrowed,                   \
                                 .judge_loaders = decoder_judge_loaders,                           \
                                 .context = context,                                               \
                                 .is_ignorable = is_ignorable}

DECODER(architecture_llama, "llama", llama);
DECODER(architecture_mistral, "mistral", mistral);
DECODER(architecture_qwen2, "qwen2", qwen2);
DECODER(architecture_qwen3, "qwen3", qwen3);
