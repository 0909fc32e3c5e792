/* Command R7B. Source: configuration_cohere2.py and modeling_cohere2.py of Hugging Face
 * transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    return decoder_read_factor(source, json, "logit_scale", 0.0625, &c->logit_scale);
}

static const decoder_family family = {
    .keys = &decoder_layer_norm_keys,
    .read = read,
    .default_context = 8192,
    .default_epsilon = 1e-5,
    .reads_attention_bias = true,
    .bare_layer_norms = true,
    .parallel = true,
    .shares_norm = true,
    .interleaved = true,
    .turns_windows_alone = true,
    .tied_by_default = true,
    .default_window = 4096,
    .window_pattern = 4,
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED},
};

DECODER(cohere2, family, decoder_usual_settings);
