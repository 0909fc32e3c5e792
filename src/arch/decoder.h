/* Llama-like decoders: what the families share. A family is a row of its differences, in a file of
 * its own. */
#ifndef GRAIL_ARCH_DECODER_H
#define GRAIL_ARCH_DECODER_H

#include "arch/architecture.h"

typedef struct decoder_config decoder_config;

enum {
    DECODER_NAME_SIZE = 96,
    DECODER_FIRST_WINDOW = 28 /* value of an absent "max_window_layers" */
};

/** Where a parameter of a layer lies. */
typedef struct decoder_place {
    char tensor[DECODER_NAME_SIZE];
    storage_map map;
} decoder_place;

/** Where a family's config.json says what all decoders have. */
typedef struct decoder_keys {
    const char *hidden, *layers, *heads, *context, *epsilon, *activation;
    const char *kv_heads;          /* NULL: as many as query heads */
    const char *head_dim;          /* NULL: hidden / heads, also in what loaders build */
    const char *intermediate;      /* width of the FFN */
    int64_t intermediate_multiple; /* of hidden, where it is not stated; 0: it is */
} decoder_keys;

/** Those of llama and most others. */
extern const decoder_keys decoder_usual_keys;

/** Differences between the families. Source: the configuration and modeling classes of the families
 * in Hugging Face transformers. */
typedef struct decoder_family {
    /** Where PART.KIND of a layer lies: parts are "self_attn.k_proj", "input_layernorm" and so on,
     * kinds are "weight" and "bias". The name of the parameter in the graph is
     * model.layers.LAYER.PART.KIND, wherever it lies. Outside the layers LAYER is GRAPH_NONE and
     * the name PART.KIND, with the parts "model.embed_tokens", "model.embed_positions",
     * "model.norm" and "lm_head". */
    decoder_place (*place)(const decoder_config *c, int layer, const char *part, const char *kind);
    const decoder_keys *keys;
    int64_t default_kv_heads; /* if config.json does not state it; 0 = as many as query heads */
    int64_t default_head_dim; /* 0 = hidden_size / num_attention_heads */
    int64_t default_context;
    bool always_qkv_bias;      /* q, k and v have a bias, whatever the configuration says */
    bool reads_attention_bias; /* "attention_bias" switches biases of q, k, v and o */
    bool reads_mlp_bias;
    bool always_biases;      /* all Linears of layers have one */
    bool layer_norms;        /* LayerNorm with a bias, in place of RMSNorm */
    bool learned_positions;  /* a table that is added to the embeddings, no rotary positions */
    bool ungated;            /* the FFN is down(act(up(m))) */
    bool tied_by_default;    /* value of an absent "tie_word_embeddings" */
    bool query_key_norm;     /* RMSNorm over head_dim on q and k before the rotary positions */
    int64_t default_window;  /* value of an absent "sliding_window"; 0 = no window */
    bool window_is_optional; /* the window counts only with "use_sliding_window" */
} decoder_family;

/** No heads: the layer has no attention; intermediate 0: no FFN. It has at least one of them. */
typedef struct decoder_layer {
    int64_t intermediate, heads, kv_heads, window;
} decoder_layer;

/** A validated configuration. */
struct decoder_config {
    const decoder_family *family;
    int64_t hidden, layers, vocabulary, head_dim, context;
    double epsilon;
    activation_kind activation;
    bool tied, qkv_bias, output_bias, mlp_bias;
    decoder_layer *layer; /* [layers], owned */
    double *frequency;    /* rotary frequencies [head_dim / 2], owned; NULL without */
};

grail_status decoder_config_read(const decoder_family *family, const char *source,
                                 const json_t *json, decoder_config *out) GRAIL_MUST_CHECK;
void decoder_config_fini(decoder_config *c);

/** Builds the graph, which takes ownership of c->frequency. */
grail_status decoder_graph(const char *source, decoder_config *c, graph **out) GRAIL_MUST_CHECK;

/** The place of a parameter that is the tensor of its own name. */
decoder_place decoder_place_plain(const decoder_config *c, int layer, const char *part,
                                  const char *kind);

/* The slots of `architecture`, as decoders fill them. */
extern const char *const decoder_usual_settings[];
grail_status decoder_build(const architecture *self, const char *source, const json_t *config,
                           const checkpoint *weights, graph **out);
int64_t decoder_context(const architecture *self, const json_t *config);
outside_part decoder_outside(const char *tensor);
grail_status decoder_describe_narrowed(const architecture *self, const graph *narrowed,
                                       json_t *config);
grail_status decoder_judge_loaders(const architecture *self, const json_t *config,
                                   const graph *narrowed, loader_verdict *verdicts);
grail_status decoder_rename_tensor(const char *tensor, int blocks, const int *numbers, char **out);

/** Defines architecture_NAME of the family with this row; NAME is its "model_type", `keys` what may
 * be set. */
#define DECODER(NAME, row, keys)                                                                   \
    const architecture architecture_##NAME = {.name = #NAME,                                       \
                                              .family = &(row),                                    \
                                              .settings = (keys),                                  \
                                              .class_ending = "ForCausalLM",                       \
                                              .build = decoder_build,                              \
                                              .describe_narrowed = decoder_describe_narrowed,      \
                                              .judge_loaders = decoder_judge_loaders,              \
                                              .rename_tensor = decoder_rename_tensor,              \
                                              .context = decoder_context,                          \
                                              .outside = decoder_outside}

/** Rotary frequencies of a configuration, frequency[head_dim / 2]. */
grail_status rotary_frequencies(const char *source, const json_t *json, int64_t head_dim,
                                double *frequency) GRAIL_MUST_CHECK;

#endif
