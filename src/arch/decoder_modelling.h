/* The file of Python beside a decoder whose layers differ. transformers builds the network from it,
 * as "auto_map" in config.json says. */
#ifndef GRAIL_ARCH_DECODER_MODELLING_H
#define GRAIL_ARCH_DECODER_MODELLING_H

#include "arch/decoder.h"

/** Says that a class has saved the network: `prefix`, the classes of its family, "ForCausalLM". */
grail_status decoder_class_put(const char *prefix, const char *classes_of,
                               json_t *config) GRAIL_MUST_CHECK;
/** Names the classes of the file in `config`, where the family has one. */
grail_status decoder_modelling_name(const decoder_family *family, json_t *config) GRAIL_MUST_CHECK;
/** Takes their names back out, where they are there. */
grail_status decoder_modelling_forget(const decoder_family *family,
                                      json_t *config) GRAIL_MUST_CHECK;

#endif
