/* What sets layers of one decoder apart: windows of attention, and rotary positions. */
#ifndef GRAIL_ARCH_DECODER_TYPES_H
#define GRAIL_ARCH_DECODER_TYPES_H

#include "arch/decoder.h"

/** Whether layer `index` has the window of the configuration, if there is one. */
bool decoder_layer_slides(const decoder_family *family, const json_t *json, int64_t index);
/** Whether layer `index` has rotary positions; `slides` tells whether it has a window. */
bool decoder_layer_turns(const decoder_family *family, const json_t *json, int64_t index,
                         bool slides);

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
