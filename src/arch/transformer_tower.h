/* Vision transformers with norms before attention and ffn, shared by the ViT and CLIP families:
 * their layers are those of a row of decoder.h. Checkpoints follow different naming conventions; a
 * convention is one table. Every width is read from the tensors, so a narrowed checkpoint opens
 * like a dense one. */
#ifndef GRAIL_ARCH_TRANSFORMER_TOWER_H
#define GRAIL_ARCH_TRANSFORMER_TOWER_H

#include "arch/decoder.h"

/** Image side when neither the tensors nor the configuration give it. */
enum { TOWER_CIFAR_SIDE = 32 };

/** Key of a configuration made by recognition: open_clip's own file beside the tensors has the
 * arguments of its class CLIP. */
#define TOWER_OPEN_CLIP_ARGUMENTS "open_clip_arguments"

/** Names without their prefix in a checkpoint ("vit."). */
typedef struct tower_names {
    const char *key; /* in "names" of a configuration made by recognition; NULL behind the last */
    /** Parts as decoder.h calls them, and the embedding "model.patches" (Conv2d; Linear over
     * patches in a network without positions), "model.class_token" (without it the mean over all
     * positions is classified), "model.embed_positions" (without it: the fixed sine and cosine
     * table of SimpleViT), "model.embed_norm" and "model.projection" (without bias), where a
     * checkpoint has them, and "lm_head", the classifier. X stands for X.weight and X.bias, but for
     * the whole name of class token and positions. */
    decoder_name names[16];
    const char *layers;   /* before a layer's number */
    const char *qkv;      /* before "weight" and "bias" of q, k and v one after another, or NULL */
    bool bare_projection; /* the projection is a matrix stored [in, out], not X.weight */
    bool bare_attention;  /* its Linears have no bias */
    bool configured;      /* comes with a config.json of Hugging Face */
    activation_kind activation;
    double epsilon;
    double first_norm_epsilon; /* with a norm of embeddings, where that differs; 0: it does not */
    const char *loader;        /* the library that uses these names */
} tower_names;

/* The slots of `architecture`, as towers fill them. */

extern const char *const tower_settings[];
grail_status tower_match(const architecture *self, const checkpoint *weights,
                         recognition *r) GRAIL_MUST_CHECK;
/** The configuration has model_type, names, activation and image_size. */
grail_status tower_recognise(const architecture *self, const checkpoint *weights, recognition *r,
                             json_t **config) GRAIL_MUST_CHECK;
grail_status tower_build(const architecture *self, const char *source, const json_t *config,
                         const checkpoint *weights, graph **out) GRAIL_MUST_CHECK;
grail_status tower_describe_narrowed(const architecture *self, const graph *narrowed,
                                     json_t *config) GRAIL_MUST_CHECK;
grail_status tower_judge_loaders(const architecture *self, const json_t *config, const graph *dense,
                                 const graph *narrowed, loader_verdict *verdicts) GRAIL_MUST_CHECK;

/** Those that all families of towers fill alike. */
#define TOWER_SLOTS                                                                                \
    .settings = tower_settings, .match = tower_match, .build = tower_build,                        \
    .describe_narrowed = tower_describe_narrowed, .judge_loaders = tower_judge_loaders

/** Side of the images according to a configuration; `fallback` if it does not state it. */
int64_t tower_image_side(const json_t *config, int64_t fallback);

#endif
