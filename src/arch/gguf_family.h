/* Decoders in GGUF files. Sources: llama.cpp's conversion scripts, its constants, and the models
 * that it builds. */
#ifndef GRAIL_ARCH_GGUF_FAMILY_H
#define GRAIL_ARCH_GGUF_FAMILY_H

#include "arch/decoder.h"
#include "arch/gguf_keys.h"
#include "arch/model.h"

/* The tensor of what rotary frequencies are divided by. */
#define GGUF_DIVISORS "rope_freqs.weight"

enum { GGUF_BLOCKS_VERSION = 2 }; /* of the layout of quantised types */

/** What a file's "general.architecture" stands for. */
typedef struct gguf_family {
    const char *name;       /* in GGUF */
    const char *model_type; /* of Hugging Face's config.json */
    bool rows_in_pairs;    /* q and k are turned by neighbouring rows, not by those of two halves */
    bool differs_by_layer; /* layers may have different widths */
    bool has_divisors;     /* of rotary frequencies, in a table */
    const char *biases;    /* whose parts may have a bias: "" or the beginnings of their names */
} gguf_family;

/** The family of a GGUF file; an unknown one is GRAIL_ERROR_UNSUPPORTED. */
grail_status gguf_family_find(const checkpoint *weights, const gguf_family **out) GRAIL_MUST_CHECK;
/** The family of that name in GGUF; NULL without one. */
const gguf_family *gguf_family_named(const char *name);

/** The family as which a network of this "model_type" is written: one whose layers differ, or a
 * qwen2 whose heads do not fill the hidden width, as one that turns rows in pairs and takes biases.
 * NULL where there is none. */
const gguf_family *gguf_family_for(const char *model_type, bool uniform, bool heads_fill);

/** Whether none of them holds a network whose texts have up to `context` positions, whatever its
 * widths; `reason` says why, by the name of what config.json calls it. */
bool gguf_family_lacks(const graph *g, int64_t context, char reason[LOADER_REASON_SIZE]);
/** The epsilon of the first norm. */
double gguf_family_epsilon(const graph *g);
/** Refuses a network with biases that the family has no place for. */
grail_status gguf_family_check_biases(const gguf_family *family, const graph *g) GRAIL_MUST_CHECK;

/** The configuration that a config.json would state, from the keys of a file; *out is owned. */
grail_status gguf_read_config(const checkpoint *weights, json_t **out) GRAIL_MUST_CHECK;

/** What the name of a parameter, model.layers.LAYER.PART.KIND or PART.KIND, is made of. */
typedef struct gguf_part {
    int layer; /* GRAPH_NONE outside the layers */
    char part[DECODER_NAME_SIZE];
    char kind[16];
} gguf_part;
gguf_part gguf_part_of(const char *parameter);
/** Its name in GGUF files; false for a part that they do not have under this name. */
bool gguf_parameter_name(const char *parameter, char name[DECODER_NAME_SIZE]);

/** Where a parameter of a layer lies in a GGUF file: with the rows of q and k as in config.json's
 * networks, or in pairs. */
decoder_place gguf_place(const decoder_config *c, int layer, const char *part, const char *kind);
decoder_place gguf_place_in_pairs(const decoder_config *c, int layer, const char *part,
                                  const char *kind);

/** Completes a configuration by what only the tensors of a GGUF file show: their places, which
 * biases there are, and the table of frequencies. */
grail_status gguf_complete_config(const checkpoint *weights, decoder_config *c) GRAIL_MUST_CHECK;

/** Puts the widths of FFNs and heads: numbers, or arrays where layers differ. */
grail_status gguf_put_widths(const graph *g, const gguf_family *family,
                             gguf_pairs *out) GRAIL_MUST_CHECK;

/** The keys of the result of a model from a GGUF file: its own, but for the widths of `narrowed`.
 */
grail_status gguf_describe_narrowed(const grail_model *model, const graph *narrowed,
                                    gguf_pairs *out) GRAIL_MUST_CHECK;

/** The same as a file of another family whose matrices have this type; GRAIL_DTYPE_COUNT: the type
 * that it states. Settings of the model that no family holds are GRAIL_ERROR_UNSUPPORTED. */
grail_status gguf_describe_as(const grail_model *model, const graph *narrowed,
                              const gguf_family *after, grail_dtype type,
                              gguf_pairs *out) GRAIL_MUST_CHECK;
/** The family as which the model with this graph is written anew; *out is NULL where there is none.
 */
grail_status gguf_family_of_target(const grail_model *model, const graph *g,
                                   const gguf_family **out) GRAIL_MUST_CHECK;

/** The family of a result that keeps the places of its tensors. */
grail_status gguf_family_of_narrowed(const grail_model *model, const graph *narrowed,
                                     const gguf_family **out) GRAIL_MUST_CHECK;

/** Who opens a result of this family, in place of what is said of a directory:
 * verdicts[LOADER_COUNT]. `config` is that of the model. */
void gguf_judge_loaders(const gguf_family *family, const json_t *config, const graph *narrowed,
                        loader_verdict *verdicts);

#endif
