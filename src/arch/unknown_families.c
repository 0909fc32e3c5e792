/* The families that are often asked for. Sources: the modeling classes of Hugging Face transformers
 * 5.23 that go by these names. */
#include "arch/unknown_families.h"

#include "base/status.h"

#include <string.h>

typedef struct unknown_family {
    const char *type;    /* "model_type" */
    const char *nearest; /* known family; NULL: none */
    const char *reason;  /* continues "but TYPE" or "TYPE" */
} unknown_family;

#define EXPERTS "splits its FFN into experts, of which a router chooses some for each token"
#define TWO_STACKS "consists of an encoder and a decoder that attends to it"
#define ENCODER "reads tokens, and norms the sums of the residual stream (post-norm)"
#define BESIDE_IMAGES                                                                              \
    "joins a language model to another encoder; narrow its language model alone, saved as its "    \
    "own "
#define STATE_SPACE "has state-space layers where grail knows attention"

static const unknown_family families[] = {
    {"gemma", "llama", "multiplies by 1 + w in its norms, and scales its embeddings"},
    {"gemma2", "llama",
     "multiplies by 1 + w in its norms, caps attention scores and logits softly, and norms also "
     "what attention and FFN add (sandwich norms)"},
    {"gemma3_text", "llama",
     "multiplies by 1 + w in its norms, norms also what attention and FFN add (sandwich norms), "
     "and gives its windowed layers another rotary base"},
    {"gemma3", "llama",
     "joins gemma3_text, which multiplies by 1 + w in its norms, to an image encoder"},
    {"gemma3n", "llama", "has several residual streams and embeddings for every layer"},
    {"phi", "llama",
     "adds attention and FFN side by side, has LayerNorm, an FFN without a gate, and rotary "
     "positions on a part of each head"},
    {"phi3", "llama",
     "fuses q, k and v in qkv_proj, and gate and up in gate_up_proj; save it with these split, as "
     "llama, where its rotary scaling is none"},
    {"phimoe", "mistral", EXPERTS},
    {"gpt_neox", "llama",
     "has LayerNorm, adds attention and FFN side by side, fuses q, k and v head by head in "
     "query_key_value, and has an FFN without a gate"},
    {"gpt2", "llama",
     "has LayerNorm, learned positions, an FFN without a gate, and weights stored [in, out] with "
     "q, k and v fused in c_attn"},
    {"gpt_neo", "llama", "has LayerNorm, learned positions and an FFN without a gate"},
    {"gptj", "llama",
     "adds attention and FFN side by side, has LayerNorm, an FFN without a gate, and rotary "
     "positions on neighbouring pairs of a part of each head"},
    {"codegen", "llama",
     "adds attention and FFN side by side, has LayerNorm, and fuses q, k and v in qkv_proj"},
    {"gpt_bigcode", "llama",
     "has LayerNorm, learned positions, one head of keys and values, and q, k and v fused in "
     "c_attn"},
    {"starcoder2", "mistral", "has LayerNorm and an FFN without a gate"},
    {"opt", "llama", "has LayerNorm, learned positions and an FFN without a gate"},
    {"bloom", "llama",
     "has LayerNorm, slopes added to the scores (ALiBi) for positions, q, k and v fused head by "
     "head, and an FFN without a gate"},
    {"mpt", "llama",
     "has LayerNorm, slopes added to the scores (ALiBi) for positions, q, k and v fused in Wqkv, "
     "and an FFN without a gate"},
    {"falcon", "llama",
     "has LayerNorm, adds attention and FFN side by side, fuses q, k and v in query_key_value, and "
     "has an FFN without a gate"},
    {"stablelm", "llama",
     "has LayerNorm where llama has RMSNorm, and rotary positions on a part of each head"},
    {"persimmon", "llama",
     "has LayerNorm, norms q and k, fuses them in query_key_value, and has an FFN without a gate"},
    {"cohere", "llama",
     "adds attention and FFN side by side behind one LayerNorm, turns neighbouring pairs for "
     "rotary "
     "positions, and scales its logits"},
    {"cohere2", "llama",
     "adds attention and FFN side by side behind one LayerNorm, has layers without positions, and "
     "scales its logits"},
    {"olmo", "llama", "has LayerNorm without weights where llama has RMSNorm"},
    {"olmo2", "llama",
     "norms what attention and FFN add, not what they read, and norms q and k over all heads"},
    {"olmo3", "llama",
     "norms what attention and FFN add, not what they read, and norms q and k over all heads"},
    {"granite", "llama",
     "scales embeddings, scores, residual sums and logits by its configuration"},
    {"seed_oss", "qwen2",
     "differs in the name, as long as \"attention_out_bias\" is false: \"model_type\": \"qwen2\" "
     "in "
     "config.json opens it"},
    {"hunyuan", "qwen3",
     "norms q and k behind the rotary positions, shares keys and values between layers, and may "
     "split its FFN into experts"},
    {"hunyuan_v1_dense", "qwen3", "norms q and k behind the rotary positions, not before them"},
    {"minicpm3", "llama", "computes keys and values from a compressed vector, and scales its sums"},
    {"nemotron", "llama",
     "has LayerNorm with 1 + w, a squared ReLU in an FFN without a gate, and rotary positions on a "
     "part of each head"},
    {"arcee", "llama", "has an FFN without a gate, with a squared ReLU"},
    {"smollm3", "llama", "has layers without rotary positions"},
    {"exaone4", "llama", "norms what attention and FFN add, and has layers without positions"},
    {"glm", "llama",
     "fuses gate and up in gate_up_proj, and turns neighbouring pairs of a part of each head"},
    {"glm4", "llama",
     "fuses gate and up in gate_up_proj, and norms also what attention and FFN add"},
    {"ernie4_5", "llama", "turns neighbouring pairs of q and k for rotary positions"},
    {"chatglm", "llama",
     "fuses q, k and v in query_key_value and gate and up in dense_h_to_4h, and turns a part of "
     "each head"},
    {"baichuan", "llama", "fuses q, k and v in W_pack"},
    {"internlm2", "llama", "fuses q, k and v group by group in wqkv"},
    {"qwen", "llama", "fuses q, k and v in c_attn, and scales scores by the length of the text"},
    {"bitnet", "llama", "has weights of three values, which are already quantised"},
    {"apertus", "llama", "has an FFN without a gate, with an activation of learned slopes"},
    {"helium", "llama", "turns neighbouring pairs of q and k for rotary positions"},
    {"diffllama", "llama", "subtracts two attentions from each other"},
    {"ministral", "mistral",
     "lets some layers attend to all positions and others within a window (\"layer_types\")"},
    {"ministral3", "mistral", "scales queries by their positions"},
    {"mixtral", "mistral", EXPERTS},
    {"qwen2_moe", "qwen2", EXPERTS ", beside a shared one"},
    {"qwen3_moe", "qwen3", EXPERTS},
    {"qwen3_next", "qwen3", "has linear attention in most layers, and " EXPERTS},
    {"olmoe", "llama", EXPERTS ", and norms q and k over all heads"},
    {"granitemoe", "llama", EXPERTS},
    {"dbrx", "llama", EXPERTS ", and fuses q, k and v in Wqkv"},
    {"jetmoe", "llama", EXPERTS ", and its attention, too"},
    {"gpt_oss", "llama", EXPERTS ", stored in MXFP4, and gives every head a sink"},
    {"llama4_text", "llama", EXPERTS ", and has layers without rotary positions"},
    {"llama4", "llama", "joins llama4_text, which has experts, to an image encoder"},
    {"glm4_moe", "llama", EXPERTS},
    {"ernie4_5_moe", "llama", EXPERTS},
    {"hunyuan_v1_moe", "qwen3", EXPERTS ", and norms q and k behind the rotary positions"},
    {"minimax_m2", "llama", EXPERTS},
    {"deepseek", "llama", EXPERTS ", beside shared ones"},
    {"deepseek_v2", "llama",
     "computes keys and values from a compressed vector (MLA), and splits its FFN into experts"},
    {"deepseek_v3", "llama",
     "computes keys and values from a compressed vector (MLA), and splits its FFN into experts"},
    {"mamba", NULL, STATE_SPACE},
    {"mamba2", NULL, STATE_SPACE},
    {"falcon_mamba", NULL, STATE_SPACE},
    {"jamba", "llama", "has state-space layers among those with attention, and experts"},
    {"bamba", "llama", "has state-space layers among those with attention"},
    {"zamba2", "llama", "has state-space layers among those with attention"},
    {"falcon_h1", "llama", "has state-space layers beside its attention"},
    {"nemotron_h", "llama", "has state-space layers among those with attention"},
    {"lfm2", "llama", "has short convolutions among the layers with attention"},
    {"recurrent_gemma", "llama", "has recurrent layers among those with attention"},
    {"rwkv", NULL, "has recurrent layers where grail knows attention"},
    {"xlstm", NULL, "has recurrent layers where grail knows attention"},
    {"bert", "vit", ENCODER},
    {"roberta", "vit", ENCODER},
    {"xlm-roberta", "vit", ENCODER},
    {"camembert", "vit", ENCODER},
    {"distilbert", "vit", ENCODER},
    {"electra", "vit", ENCODER},
    {"mpnet", "vit", ENCODER},
    {"albert", "vit", ENCODER ", and uses one layer again and again"},
    {"deberta", "vit", "reads tokens, with scores that depend on relative positions"},
    {"deberta-v2", "vit", "reads tokens, with scores that depend on relative positions"},
    {"modernbert", "llama",
     "attends in both directions, has LayerNorm, and fuses q, k and v in Wqkv"},
    {"t5", "llama", TWO_STACKS ", with a learned bias of the scores for positions"},
    {"mt5", "llama", TWO_STACKS ", with a learned bias of the scores for positions"},
    {"umt5", "llama", TWO_STACKS ", with a learned bias of the scores for positions"},
    {"bart", "llama", TWO_STACKS},
    {"mbart", "llama", TWO_STACKS},
    {"pegasus", "llama", TWO_STACKS},
    {"marian", "llama", TWO_STACKS},
    {"m2m_100", "llama", TWO_STACKS},
    {"whisper", "llama", TWO_STACKS ", and reads sound"},
    {"wav2vec2", "vit", "reads sound through convolutions in time"},
    {"hubert", "vit", "reads sound through convolutions in time"},
    {"llava", "llama", BESIDE_IMAGES "llama or mistral"},
    {"llava_next", "llama", BESIDE_IMAGES "llama or mistral"},
    {"mistral3", "mistral", BESIDE_IMAGES "mistral"},
    {"mllama", "llama", "has layers that attend to images"},
    {"qwen2_vl", "qwen2", "has rotary positions in three parts, and joins an image encoder"},
    {"qwen2_5_vl", "qwen2", "has rotary positions in three parts, and joins an image encoder"},
    {"qwen3_vl", "qwen3", "has rotary positions in three parts, and joins an image encoder"},
    {"paligemma", "llama",
     "joins gemma, which multiplies by 1 + w in its norms, to an image encoder"},
    {"idefics3", "llama", BESIDE_IMAGES "llama"},
    {"smolvlm", "llama", BESIDE_IMAGES "llama"},
    {"internvl", "qwen2", BESIDE_IMAGES "qwen2 or llama"},
    {"clip_text_model", "clip", "is the text tower alone; give the complete clip"},
    {"siglip", "clip", "has no class token: attention with a learned query pools its patches"},
    {"siglip2", "clip", "has no class token: attention with a learned query pools its patches"},
    {"siglip_vision_model", "clip_vision_model",
     "has no class token: attention with a learned query pools its patches"},
    {"chinese_clip", "clip", "has another text tower"},
    {"deit", "vit", "has a distillation token beside the class token"},
    {"dinov2", "vit",
     "multiplies what attention and FFN add by a layer scale, and classifies the class token "
     "together with the mean of the patches"},
    {"dinov2_with_registers", "vit",
     "has register tokens, and multiplies what attention and FFN add by a layer scale"},
    {"dinov3_vit", "vit", "has register tokens, rotary positions and a layer scale"},
    {"ijepa", "vit", "has no class token"},
    {"vit_mae", "vit", "has a decoder that draws the hidden patches, and no classifier"},
    {"beit", "vit", "adds a bias of relative positions to the scores, and has a layer scale"},
    {"data2vec-vision", "vit",
     "adds a bias of relative positions to the scores, and has a layer scale"},
    {"swin", "vit", "attends within shifted windows, and merges patches between its stages"},
    {"swinv2", "vit", "attends within shifted windows, and merges patches between its stages"},
    {"segformer", "vit", "attends to shrunken maps, and merges patches between its stages"},
    {"pvt", "vit", "attends to shrunken maps, and merges patches between its stages"},
    {"yolos", "vit", "has detection tokens"},
    {"convnext", "resnet", "has depthwise convolutions, LayerNorm and a layer scale"},
    {"convnextv2", "resnet", "has depthwise convolutions and LayerNorm"},
    {"regnet", "resnet", "has grouped convolutions"},
    {"efficientnet", "resnet", "has depthwise convolutions and squeeze-excitation"},
    {"mobilenet_v1", "resnet", "has depthwise convolutions"},
    {"mobilenet_v2", "resnet", "has depthwise convolutions"},
    {"mobilevit", "resnet", "has depthwise convolutions, and attention among them"},
    {"bit", "resnet", "has GroupNorm and standardised weights (ResNetV2)"},
    {"poolformer", "vit", "pools where vit attends"},
};

/* Keys that show what a family without a row is. */
static const struct {
    const char *key, *reason;
} signs[] = {
    {"num_local_experts", "its FFN has experts"},
    {"num_experts", "its FFN has experts"},
    {"n_routed_experts", "its FFN has experts"},
    {"kv_lora_rank", "its keys and values come from a compressed vector (MLA)"},
    {"ssm_cfg", "it has state-space layers"},
    {"state_size", "it has state-space layers"},
    {"text_config", "it joins a language model to another encoder"},
    {"final_logit_softcapping", "it caps its logits softly"},
    {"parallel_attn", "it adds attention and FFN side by side"},
    {"use_parallel_residual", "it adds attention and FFN side by side"},
    {"alibi", "its positions are slopes added to the scores (ALiBi)"},
    {"partial_rotary_factor", "its rotary positions turn a part of each head"},
    {"layer_norm_epsilon", "it has LayerNorm where llama has RMSNorm"},
};

static const unknown_family *find_family(const char *type)
{
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        if (strcmp(families[i].type, type) == 0) {
            return &families[i];
        }
    }
    return NULL;
}

/* A key whose value switches something off says nothing. */
static bool is_switched_on(const json_t *value)
{
    return json_is_true(value) || json_is_object(value) ||
           (json_is_integer(value) && json_integer_value(value) > 1) ||
           (json_is_real(value) && json_real_value(value) != 1.0);
}

static void explain_by_keys(const json_t *config)
{
    if (json_is_true(json_object_get(config, "is_encoder_decoder"))) {
        error_append("; \"is_encoder_decoder\" shows that it has an encoder and a decoder");
        return;
    }
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (is_switched_on(json_object_get(config, signs[i].key))) {
            error_append("; \"%s\" shows that %s", signs[i].key, signs[i].reason);
            return;
        }
    }
}

void unknown_family_explain(const char *type, const json_t *config)
{
    const unknown_family *f = find_family(type);
    if (f == NULL) {
        explain_by_keys(config);
    } else if (f->nearest == NULL) {
        error_append("; none is near: %s %s", type, f->reason);
    } else {
        error_append("; the nearest is %s, but %s %s", f->nearest, type, f->reason);
    }
}
