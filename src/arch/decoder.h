/* Llama-like decoders: what the families share. A family is a table of its differences. */
#ifndef GRAIL_ARCH_DECODER_H
#define GRAIL_ARCH_DECODER_H

#include "arch/architecture.h"

/** Differences between the families. Source: the Hugging Face configuration and modeling
 * classes. */
typedef struct decoder_family {
    int64_t default_kv_heads; /* when config.json has none; 0 = as many as query heads */
    int64_t default_head_dim; /* 0 = hidden_size / num_attention_heads */
    int64_t default_context;
    bool always_qkv_bias;      /* q, k and v have a bias, whatever the configuration says */
    bool reads_attention_bias; /* "attention_bias" switches biases of q, k, v and o */
    bool reads_mlp_bias;
    bool query_key_norm;     /* RMSNorm over head_dim on q and k before the rotary positions */
    int64_t default_window;  /* value of an absent "sliding_window"; 0 = no window */
    bool window_is_optional; /* the window counts only with "use_sliding_window" */
} decoder_family;

typedef struct decoder_layer {
    int64_t intermediate, heads, kv_heads, window;
} decoder_layer;

/** A validated configuration. */
typedef struct decoder_config {
    const decoder_family *family;
    int64_t hidden, layers, vocabulary, head_dim, context;
    double epsilon;
    activation_kind activation;
    bool tied, qkv_bias, output_bias, mlp_bias;
    decoder_layer *layer; /* [layers], owned */
    double *frequency;    /* rotary frequencies [head_dim / 2], owned */
} decoder_config;

grail_status decoder_config_read(const decoder_family *family, const char *source,
                                 const json_t *json, decoder_config *out) GRAIL_MUST_CHECK;
void decoder_config_fini(decoder_config *c);

/** Builds the graph; takes c->frequency over. */
grail_status decoder_build(const char *source, decoder_config *c, graph **out) GRAIL_MUST_CHECK;

/* The slots of `architecture` that decoders fill. */
grail_status decoder_describe_narrowed(const graph *narrowed, json_t *config);
grail_status decoder_judge_loaders(const json_t *config, const graph *narrowed,
                                   loader_verdict *verdicts);

/** Rotary frequencies of a configuration, frequency[head_dim / 2]. */
grail_status rotary_frequencies(const char *source, const json_t *json, int64_t head_dim,
                                double *frequency) GRAIL_MUST_CHECK;

#endif
