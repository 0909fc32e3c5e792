/* "per_layer_config" of a decoder's config.json: {"3": {"intermediate_size": 64}} overrides single
 * layers, and "skip": ["attention"] or ["mlp"] says what a layer lacks. Source: transformers 5,
 * integrations/heterogeneity. */
#ifndef GRAIL_ARCH_DECODER_LAYERS_H
#define GRAIL_ARCH_DECODER_LAYERS_H

#include "arch/decoder.h"

#define DECODER_LAYERS_KEY "per_layer_config"

/** Refuses anything but an object whose keys are numbers of layers, each once. */
grail_status decoder_layers_check(const char *source, const json_t *json,
                                  int64_t layers) GRAIL_MUST_CHECK;
/** What the configuration says of layer `index` alone; NULL for nothing. */
const json_t *decoder_layer_entry(const json_t *json, int64_t index);
/** Takes away what "skip" of `own`, which may be NULL, names. */
grail_status decoder_layer_skip(const char *source, const json_t *own,
                                decoder_layer *layer) GRAIL_MUST_CHECK;

/* What sets layers of one decoder apart: windows of attention, and rotary positions. */

/** Refuses lists of another length than the layers, and unknown types. */
grail_status decoder_types_check(const char *source, const json_t *json,
                                 const decoder_config *c) GRAIL_MUST_CHECK;
/** Fills window and rotary of layer `index`. */
grail_status decoder_type_read(const char *source, const json_t *json, int64_t index,
                               decoder_config *c) GRAIL_MUST_CHECK;
/** Puts the lists of what a pattern says of each layer into `config`, where it has none. */
grail_status decoder_types_state(const decoder_family *family, json_t *config,
                                 int layers) GRAIL_MUST_CHECK;

#endif
