/* Vision transformers with norms before attention and ffn, shared by the ViT and CLIP families.
 * Checkpoints follow different naming conventions; a convention is one table. Every width is read
 * from the tensors, so a narrowed checkpoint opens like a dense one. */
#ifndef GRAIL_ARCH_TRANSFORMER_TOWER_H
#define GRAIL_ARCH_TRANSFORMER_TOWER_H

#include "arch/architecture.h"

/** Image side when neither the tensors nor the configuration give it. */
enum { TOWER_CIFAR_SIDE = 32 };

/** Key of a configuration made by recognition: open_clip's own file beside the tensors has the
 * arguments of its class CLIP. */
#define TOWER_OPEN_CLIP_ARGUMENTS "open_clip_arguments"

/** Names without their prefix in a checkpoint ("module.", "vit."). "X" of a Linear or norm stands
 * for X.weight and X.bias. */
typedef struct tower_names {
    const char *key;         /* in "names" of a configuration made by recognition */
    const char *patch;       /* Conv2d; Linear over patches where `positions` is NULL */
    const char *class_token; /* NULL: the mean over all positions is classified instead */
    const char *positions;   /* NULL: the fixed sine and cosine table of SimpleViT */
    const char *first_norm;  /* before the layers, if the checkpoint has it; or NULL */
    const char *layer;       /* before a layer's number; the names below follow "number." */
    const char *attention_norm;
    const char *fused_weight, *fused_bias; /* q, k and v one after the other; or NULL and: */
    const char *queries, *keys, *values;
    const char *output;
    const char *ffn_norm, *up, *down;
    const char *last_norm;  /* applied before classification */
    const char *projection; /* without bias, if the checkpoint has it; or NULL */
    const char *head;       /* where a checkpoint has it */
    bool bare_projection;   /* the projection is a matrix stored [in, out], not X.weight */
    bool bare_output;       /* `output` has no bias */
    bool configured;        /* comes with a config.json of Hugging Face */
    activation_kind activation;
    double epsilon;
    double first_norm_epsilon; /* with a first norm, where that differs; 0: it does not */
    const char *loader;        /* the library that uses these names */
} tower_names;

typedef struct tower_family {
    const char *name; /* "model_type" */
    const tower_names *conventions;
    int count;
} tower_family;

/** The convention that fits a checkpoint best, and the prefix of its names (owned). */
typedef struct tower_match {
    const tower_names *names;
    char *prefix;
    recognition found;
} tower_match;

grail_status tower_find(const tower_family *family, const checkpoint *weights,
                        tower_match *out) GRAIL_MUST_CHECK;
void tower_match_fini(tower_match *m); /* a zeroed one is allowed */

typedef struct tower_layer {
    int64_t inner; /* width of q, k and v each */
    int64_t ffn;
} tower_layer;

/** Everything that is needed to build a graph. */
typedef struct tower {
    tower_match match;
    const checkpoint *weights;
    char *head; /* complete name of the head, NULL without a head; owned */
    int64_t width, patch, side;
    int64_t positions;  /* class token included */
    int64_t projection; /* outputs; 0 = none */
    int64_t classes;    /* 0 = no head */
    int64_t head_dim;
    bool patch_bias, first_norm, query_bias, head_bias;
    bool normalize; /* features are scaled to unit length before the head */
    activation_kind activation;
    double epsilon;
    int layer_count;
    tower_layer *layers; /* owned */
} tower;

/** Reads configuration and shapes; tower_fini frees. */
grail_status tower_read(const tower_family *family, const char *source, const json_t *config,
                        const checkpoint *weights, tower *out) GRAIL_MUST_CHECK;
void tower_fini(tower *t); /* a zeroed one is allowed */

grail_status tower_build(const char *source, const tower *t, graph **out) GRAIL_MUST_CHECK;

/** "prefix" + the formatted name; the caller frees it. */
grail_status tower_name(char **out, const char *prefix, const char *format, ...)
    GRAIL_PRINTF(3, 4) GRAIL_MUST_CHECK;

/* Used by the families for the slots of `architecture`. */

grail_status tower_measure(const tower_family *family, const checkpoint *weights,
                           recognition *r) GRAIL_MUST_CHECK;
/** Fills *r. If no tensor is missing, also fills *match and *config: model_type, names, activation,
 * image_size. */
grail_status tower_recognise(const tower_family *family, const checkpoint *weights, recognition *r,
                             tower_match *match, json_t **config) GRAIL_MUST_CHECK;
/** Calls tower_read and tower_build. */
grail_status tower_build_from(const tower_family *family, const char *source, const json_t *config,
                              const checkpoint *weights, graph **out) GRAIL_MUST_CHECK;
grail_status tower_describe_narrowed(const architecture *self, const graph *narrowed,
                                     json_t *config) GRAIL_MUST_CHECK;
/** `family` gives the loader of the convention that the configuration names. */
grail_status tower_judge_loaders(const tower_family *family, const json_t *config,
                                 const graph *narrowed, loader_verdict *verdicts) GRAIL_MUST_CHECK;

/** Side of the images according to a configuration; `fallback` if it does not state it. */
int64_t tower_image_side(const json_t *config, int64_t fallback);

/** The object that holds a tower's sizes: "vision_config", or the configuration itself. */
const json_t *tower_section(const json_t *config);

extern const char *const tower_settings[];

#endif
