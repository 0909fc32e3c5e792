/* Command R and R7B. Source: configuration_cohere.py, configuration_cohere2.py and the modeling
 * files beside them of Hugging Face transformers. */
#include "arch/decoder.h"

static grail_status read(const char *source, const json_t *json, decoder_config *c)
{
    if (!c->family->turns_windows_alone) { /* Command R7B has no such key */
        CHECK(decoder_refuse(source, json, "use_qk_norm", "every head has norms of its own"));
    }
    return decoder_read_factor(source, json, "logit_scale", 0.0625, &c->logit_scale);
}

#define COMMON                                                                                     \
    .keys = {DECODER_LAYER_NORM_KEYS}, .read = read, .default_context = 8192,                      \
    .default_epsilon = 1e-5, .reads_attention_bias = true, .bare_layer_norms = true,               \
    .parallel = true, .shares_norm = true, .interleaved = true, .tied_by_default = true,           \
    .loaders = {.vllm = HEADS_DERIVED, .llama_cpp = HEADS_DERIVED}

static const decoder_family family = {COMMON, .default_theta = 5e5};
static const decoder_family family2 = {COMMON, .turns_windows_alone = true, .default_window = 4096,
                                       .window_pattern = 4};

DECODER(cohere, family, decoder_usual_settings);
DECODER(cohere2, family2, decoder_usual_settings);
