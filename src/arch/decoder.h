/* Transformers that read tokens: decoders, llama-like and older, and encoders, whose rows see those
 * on both sides. What the families share; a family is a row of its differences, in a file of its
 * own. */
#ifndef GRAIL_ARCH_DECODER_H
#define GRAIL_ARCH_DECODER_H

#include "arch/architecture.h"
#include "arch/rotary.h"

typedef struct decoder_config decoder_config;
typedef struct builder builder; /* builder.h */

/** Attention whose queries, keys and values are made of narrower vectors (decoder_latent.h): their
 * widths, and the features of a head. */
typedef struct decoder_latent {
    int64_t plain;    /* features of a query or key without positions, which come first, */
    int64_t turned;   /* and with them, which all keys share; 0: attention is not of this kind */
    bool interleaved; /* features 2k and 2k + 1 are turned together */
} decoder_latent;

enum {
    DECODER_NAME_SIZE = 96,
    DECODER_MOST_WIDTH = 1 << 24, /* so that products of sizes are far from overflow */
    DECODER_FIRST_WINDOW = 28     /* value of an absent "max_window_layers" */
};

/** Where a parameter of a layer lies. */
typedef struct decoder_place {
    size_t prefix; /* so many characters of decoder_config.prefix come before its name */
    char tensor[DECODER_NAME_SIZE];
    storage_map map;
} decoder_place;

typedef decoder_place (*decoder_place_function)(const decoder_config *c, int layer,
                                                const char *part, const char *kind);

/** Where a family's config.json says what all decoders have. */
typedef struct decoder_keys {
    const char *hidden, *layers, *heads, *context, *epsilon, *activation;
    const char *kv_heads;          /* NULL: as many as query heads; of "epsilon": the default */
    const char *head_dim;          /* hidden / heads where it is not stated */
    const char *intermediate;      /* width of the FFN */
    int64_t intermediate_multiple; /* of hidden, where it is not stated; 0: it is */
    const char *theta, *partial;   /* of rotary positions; NULL: as most say it */
} decoder_keys;

/** What most call alike. */
#define DECODER_COMMON_KEYS                                                                        \
    .hidden = "hidden_size", .layers = "num_hidden_layers", .heads = "num_attention_heads",        \
    .head_dim = "head_dim", .context = "max_position_embeddings"
/** The same of those with groups of query heads. */
#define DECODER_GROUPED_KEYS                                                                       \
    DECODER_COMMON_KEYS, .kv_heads = "num_key_value_heads", .intermediate = "intermediate_size"

/** Those of most that have LayerNorm. */
#define DECODER_LAYER_NORM_KEYS                                                                    \
    DECODER_GROUPED_KEYS, .epsilon = "layer_norm_eps", .activation = "hidden_act"

/** How a family's tensors call a part. */
typedef struct decoder_name {
    const char *part, *tensor;
} decoder_name;

/** What a family's config.json says of its experts. Layers may have a plain FFN in their place. */
typedef struct decoder_mixture {
    const char *width;        /* key of the width of experts */
    const char *shared_width; /* of the expert that all tokens take; NULL: there is none, or */
    const char *shared_count; /* it is as wide as so many; it has no gate then */
    const char *first_dense;  /* layers from the first on that have a plain FFN; NULL: none */
    int64_t default_count, default_chosen, default_width, default_shared, default_dense;
    bool reads_norm;         /* "norm_topk_prob": shares sum to 1; otherwise they do */
    bool reads_dense_layers; /* "mlp_only_layers" and "decoder_sparse_step" */
    bool are_stacked;        /* in one tensor, so that all have one width */
    bool router_bias;
    bool chooses_groups; /* "n_group" and "topk_group", and a factor of shares */
    bool sigmoid;        /* scores of which, and biases of the choice */
} decoder_mixture;

/** Which norms a branch of a layer has, attention or FFN. */
typedef enum branch_norms {
    NORM_BEFORE,
    NORM_BEHIND,
    NORM_BEFORE_AND_BEHIND,
    NORM_OF_SUM /* of the residual stream with what the branch added (post-norm) */
} branch_norms;

/** Which numbers of heads a loader opens. */
typedef enum head_rule {
    HEADS_ANY,     /* it reads head_dim */
    HEADS_DIVIDE,  /* it reads head_dim, but checks that the heads divide the hidden width */
    HEADS_DERIVED, /* it takes hidden / heads features for each */
    HEADS_UNKNOWN, /* it has no class for the family, */
    HEADS_UNTRIED  /* or nobody has tried whether it opens results */
} head_rule;

/** What is known of the loaders. Source: the classes of transformers and vLLM, the converter and
 * the graphs of llama.cpp. */
typedef struct decoder_loaders {
    head_rule transformers, vllm, llama_cpp;
    bool llama_cpp_multiplies; /* its converter takes the FFN for 4 times the hidden width */
    bool vllm_deci; /* its DeciLMForCausalLM computes such layers, and reads what modeling_grail.py
                       says of each */
    bool pairs_behind_rank; /* transformers takes what is turned, which stands behind the rank of
                               keys and values in a row, for complex numbers */
} decoder_loaders;

/** Differences between the families. Source: the configuration and modeling classes of the families
 * in Hugging Face transformers. */
typedef struct decoder_family {
    /** Where PART.KIND of a layer lies: parts are "self_attn.k_proj", "input_layernorm" and so on,
     * kinds are "weight", "bias" and "". The name of the parameter in the graph is
     * model.layers.LAYER.PART.KIND, or without .KIND where that is "", wherever it lies. Outside
     * the layers LAYER is GRAPH_NONE and the name PART.KIND, with the parts "model.embed_tokens",
     * "model.embed_positions", "model.token_types", "model.embed_norm", "model.norm" and "lm_head".
     * NULL: as decoder_place_plain says. */
    decoder_place_function place;
    decoder_keys keys; /* without any: those of llama and most others */
    /* At most 15, and one without a part; those that are missing are called so. */
    decoder_name names[16];
    const char *qkv, *gate_up; /* tensors of a layer with q, k and v one after another, and gate and
                                  up; NULL: each is a tensor of its own */
    const char *classes; /* how names of transformers' classes begin, where modeling_grail.py builds
                            layers of different widths with them; NULL: it does not */
    const char *layers;  /* before a layer's number; NULL: "model.layers." */
    const char *prefix;  /* of all names but the head's; NULL: they have it */
    const char *base;    /* what they then begin with; NULL: "model." */
    /** Reads what only this family's configuration says; NULL: nothing. */
    grail_status (*read)(const char *source, const json_t *json, decoder_config *c);
    int64_t default_kv_heads; /* if config.json does not state it; 0 = as many as query heads */
    int64_t default_head_dim; /* 0 = hidden_size / num_attention_heads */
    int64_t default_context;
    int64_t default_intermediate;       /* 0: it is stated */
    double default_epsilon;             /* 0 = 1e-6 */
    double default_theta;               /* 0 = 10000 */
    double default_partial;             /* 0 = 1 */
    activation_kind default_activation; /* silu */
    bool squares_by_default;            /* value of an absent activation: "relu2" */
    bool always_qkv_bias;      /* q, k and v have a bias, whatever the configuration says */
    bool reads_attention_bias; /* "attention_bias" switches biases of q, k, v and o */
    bool attention_bias_by_default;
    bool bias_spares_output; /* "attention_bias" switches those of q, k and v alone */
    bool reads_mlp_bias;
    bool always_biases;      /* all Linears of layers have one */
    bool layer_norms;        /* LayerNorm with a bias, in place of RMSNorm */
    bool bare_layer_norms;   /* LayerNorm without a bias, */
    bool norms_lack_weights; /* or without any parameter */
    bool norms_add_one;      /* norms multiply by 1 + weight */
    branch_norms norms;      /* "branch_norm" of self_attn and mlp is the one behind */
    bool parallel;           /* attention and FFN read the same residual stream, */
    bool shares_norm;        /* through one norm */
    bool learned_positions;  /* a table that is added to the embeddings, no rotary positions */
    int64_t spare_positions; /* rows at its begin that are not used */
    bool counts_spare;       /* the key of the context counts them, too */
    bool encoder;            /* rows see those on both sides, and the output is hidden states */
    bool embedding_norm;
    bool token_types;         /* the first row of a table is added to all embeddings: one segment */
    bool bare_begin;          /* the first layer has no norm before attention */
    bool interleaved;         /* rotary positions turn features 2k and 2k + 1 of a head */
    bool turns_windows_alone; /* layers without a window have no rotary positions, */
    bool turns_windowless;    /* unless no layer has one */
    int unturned_layers;      /* every layer of this number has no rotary positions; 0: all have */
    bool ungated;             /* the FFN is down(act(up(m))) */
    decoder_mixture mixture;  /* of experts in the place of FFNs; without a width: none */
    bool tied_by_default;     /* value of an absent "tie_word_embeddings" */
    bool head_bias;
    bool query_key_norm;      /* RMSNorm over head_dim on q and k before the rotary positions */
    bool query_key_norm_wide; /* over all heads at once */
    bool latent;              /* attention by decoder_latent */
    bool sinks; /* "self_attn.sinks": each head's softmax also sums over one more score */
    int64_t default_window;    /* value of an absent "sliding_window" */
    bool reads_window;         /* though there is none by default */
    bool window_is_optional;   /* the window counts only with "use_sliding_window" */
    int window_pattern;        /* all layers but every one of this number have the window, unless
                                  "layer_types" says otherwise; 0: all have it */
    const char *begin_pattern; /* key of that number, where the first layer of each such run is the
                                  other one; NULL: the last one is, and the key is the usual one */
    const char *window_key;    /* NULL: "sliding_window"; of encoders it counts both sides */
    const char *window_theta;  /* key of the base of layers with a window, which have rotary
                                  positions of their own; NULL: they have those of all */
    double default_window_theta;
    bool names_are_tensors; /* parameters have the names of their tensors, with the first row where
                               they are a part of one */
    /** What comes before the layers, and behind them; NULL: embeddings of tokens, and logits or
     * hidden states. */
    grail_status (*begin)(builder *b, int *h);
    grail_status (*end)(builder *b, int *h);
    decoder_loaders loaders;
} decoder_family;

/** Rotary positions of layers. */
typedef enum rotary_kind { ROTARY_USUAL, ROTARY_OF_WINDOWS, ROTARY_KINDS, ROTARY_NONE } rotary_kind;

/** No heads: the layer has no attention; intermediate 0 and no experts: no FFN. It has at least one
 * of them. */
typedef struct decoder_layer {
    int64_t intermediate, heads, kv_heads, window;
    int64_t experts;       /* in the place of the FFN */
    int64_t *expert_width; /* [experts], owned */
    int64_t shared;        /* width of the expert that all tokens take; 0: there is none */
    /* of attention by decoder_latent: */
    int64_t query_rank; /* 0: queries are made of the stream itself */
    int64_t rank;       /* of keys and values */
    int64_t value;      /* features of a head's values */
    rotary_kind rotary;
} decoder_layer;

/** A validated configuration. */
struct decoder_config {
    const decoder_family *family;
    decoder_place_function place; /* that of the family, or of a GGUF file */
    const char *prefix;           /* see decoder_place */
    const struct tower *tower;    /* of an image network; NULL for others */
    int64_t hidden, layers, vocabulary, head_dim, context;
    int64_t token_types; /* rows of their table */
    bool old_norm_names; /* norms of this checkpoint have a "gamma" and a "beta" */
    double epsilon;
    activation_kind activation;
    bool squares_activation; /* what the activation makes is squared */
    bool tied, qkv_bias, output_bias, mlp_bias, parallel, shares_norm;
    double embedding_scale; /* what embeddings are multiplied by, */
    double branch_scale;    /* what attention and FFN add, */
    double logit_scale;
    double score_scale;
    double score_cap, logit_cap; /* c tanh(x / c); 0: none */
    double gate_limit; /* FFNs are down(act(min(gate, l)) (min(max(up, -l), l) + 1)); 0: none */
    decoder_latent latent;
    route_attributes route;      /* to experts */
    decoder_layer *layer;        /* [layers], owned */
    rotary rotary[ROTARY_KINDS]; /* without frequencies where no layer has them */
};

/** What a configuration begins with. */
#define DECODER_UNSCALED                                                                           \
    .prefix = "", .embedding_scale = 1.0, .branch_scale = 1.0, .logit_scale = 1.0

grail_status decoder_config_read(const decoder_family *family, const char *source,
                                 const json_t *json, decoder_config *out) GRAIL_MUST_CHECK;
void decoder_config_fini(decoder_config *c);

/** Builds the graph, which takes ownership of the tables of c->rotary. */
grail_status decoder_graph(const char *source, decoder_config *c, graph **out) GRAIL_MUST_CHECK;

/** A width or number of at least `least`; `fallback` where it is not stated. */
grail_status decoder_read_size(const char *source, const json_t *json, const char *key,
                               int64_t fallback, int64_t least, int64_t *out) GRAIL_MUST_CHECK;
/** Refuses a configuration in which `key` is true. */
grail_status decoder_refuse(const char *source, const json_t *json, const char *key,
                            const char *what) GRAIL_MUST_CHECK;
/** Biases of all Linears of layers, where `key` switches them. */
grail_status decoder_read_biases(const char *source, const json_t *json, const char *key,
                                 bool fallback, decoder_config *c) GRAIL_MUST_CHECK;
/** A number that may not be 0, such as a multiplier. */
grail_status decoder_read_factor(const char *source, const json_t *json, const char *key,
                                 double fallback, double *out) GRAIL_MUST_CHECK;
/** Granite's factors of embeddings, branches, scores and logits. */
grail_status decoder_read_multipliers(const char *source, const json_t *json,
                                      decoder_config *c) GRAIL_MUST_CHECK;
/** Refuses OLMo's bound of queries, keys and values. */
grail_status decoder_refuse_clipping(const char *source, const json_t *json) GRAIL_MUST_CHECK;
/** Refuses a configuration in which `key` is false. */
grail_status decoder_require(const char *source, const json_t *json, const char *key,
                             const char *what) GRAIL_MUST_CHECK;
/** What values are capped at softly; null: 0, which stands for no cap. */
grail_status decoder_read_cap(const char *source, const json_t *json, const char *key,
                              double fallback, double *out) GRAIL_MUST_CHECK;

const decoder_keys *decoder_keys_of(const decoder_family *family);
/** Whether "model_type" is this one. */
bool decoder_config_is(const json_t *config, const char *type);
/** Whether the heads of a configuration divide its hidden width. */
bool decoder_heads_fill(const json_t *config, const decoder_keys *keys);

/* -- where parameters lie (decoder_places.c) --------------------------------------------------- */

/** PART.KIND or LAYERS + layer.PART.KIND; PART alone where KIND is "". */
void decoder_name_part(const char *layers, int layer, const char *part, const char *kind,
                       char name[DECODER_NAME_SIZE]);
/** The place of a parameter whose tensor is called as the family's `names` say, and fused as `qkv`
 * and `gate_up` do. */
decoder_place decoder_place_plain(const decoder_config *c, int layer, const char *part,
                                  const char *kind);
decoder_place_function decoder_place_by(const decoder_family *family);
/** The place of a head of its own. */
decoder_place decoder_head_place(const decoder_family *family);
/** How the list calls a part; NULL where it does not have it. */
const char *decoder_name_in(const decoder_name *names, const char *part);
/** The part behind the number of "mlp.experts.7.up_proj", and *expert = 7; NULL for other parts. */
const char *decoder_expert_part(const char *part, int64_t *expert);
/** "mlp.experts.EXPERT" */
void decoder_name_expert(int64_t expert, char name[DECODER_NAME_SIZE]);
/** `rows` rows of the layer's tensor FUSED.KIND, from row `first` on. */
decoder_place decoder_place_rows(const decoder_config *c, int layer, const char *fused,
                                 const char *kind, int64_t first, int64_t rows);

/* -- the slots of `architecture`, as decoders fill them ---------------------------------------- */

extern const char *const decoder_usual_settings[];
grail_status decoder_build(const architecture *self, const char *source, const json_t *config,
                           const checkpoint *weights, graph **out);
int64_t decoder_context(const architecture *self, const json_t *config);
const char *decoder_base(const architecture *self);
outside_part decoder_outside(const char *tensor);
grail_status decoder_describe_narrowed(const architecture *self, const graph *narrowed,
                                       json_t *config);
grail_status decoder_judge_loaders(const architecture *self, const json_t *config,
                                   const graph *dense, const graph *narrowed,
                                   loader_verdict *verdicts);
grail_status decoder_loader_file(const architecture *self, const json_t *config,
                                 const graph *narrowed, const char **name, buffer *content);
grail_status decoder_rename_tensor(const char *tensor, int blocks, const int *numbers, char **out);

/** Defines architecture_NAME of the family with this row; NAME is its "model_type", `keys` what may
 * be set, and `ending` how the names of classes with the last layer end. */
#define DECODER_OF_CLASS(NAME, row, keys, ending)                                                  \
    const architecture architecture_##NAME = {.name = #NAME,                                       \
                                              .family = &(row),                                    \
                                              .settings = (keys),                                  \
                                              .class_ending = (ending),                            \
                                              .build = decoder_build,                              \
                                              .base = decoder_base,                                \
                                              .describe_narrowed = decoder_describe_narrowed,      \
                                              .judge_loaders = decoder_judge_loaders,              \
                                              .loader_file = decoder_loader_file,                  \
                                              .rename_tensor = decoder_rename_tensor,              \
                                              .context = decoder_context,                          \
                                              .outside = decoder_outside}
#define DECODER(NAME, row, keys) DECODER_OF_CLASS(NAME, row, keys, "ForCausalLM")

/* -- what encoders share (encoder_parts.c) ----------------------------------------------------- */

/** Reads the number of token types, and refuses what only some encoders have. */
grail_status encoder_read(const char *source, const json_t *json, decoder_config *c);
outside_part encoder_outside(const char *tensor);

/** What rows of BERT and of networks like it have in common. */
#define ENCODER_LIKE_BERT                                                                          \
    .default_context = 512, .default_epsilon = 1e-12, .default_activation = ACTIVATION_GELU,       \
    .always_biases = true, .layer_norms = true, .norms = NORM_OF_SUM, .learned_positions = true,   \
    .encoder = true, .embedding_norm = true, .ungated = true, .loaders = ENCODER_LOADERS
#define ENCODER_LOADERS                                                                            \
    {                                                                                              \
        HEADS_DERIVED, .vllm = HEADS_UNTRIED, .llama_cpp = HEADS_UNTRIED                           \
    }

/** Defines architecture_NAME of the encoder whose "model_type" is TYPE. Sublayers cannot be
 * dropped: the norm of their sum would stay. */
#define ENCODER(NAME, type, row, keys)                                                             \
    const architecture architecture_##NAME = {.name = (type),                                      \
                                              .family = &(row),                                    \
                                              .settings = (keys),                                  \
                                              .build = decoder_build,                              \
                                              .base = decoder_base,                                \
                                              .describe_narrowed = decoder_describe_narrowed,      \
                                              .judge_loaders = decoder_judge_loaders,              \
                                              .context = decoder_context,                          \
                                              .outside = encoder_outside}

#endif
