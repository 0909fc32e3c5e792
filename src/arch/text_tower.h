/* The language model of a larger network, whose config.json has that of the language model under
 * "text_config". It is read as the plain language model, which its results are. */
#ifndef GRAIL_ARCH_TEXT_TOWER_H
#define GRAIL_ARCH_TEXT_TOWER_H

#include "arch/architecture.h"

/** *out, owned, is the configuration of the language model where `config` is of no known family and
 * its "text_config" of one; NULL elsewhere. */
grail_status text_tower_config(const json_t *config, json_t **out) GRAIL_MUST_CHECK;

/** Says of the configuration that the head is the table of embeddings, where `weights` have no
 * other head: what is stated of that beside "text_config" differs by release and class. */
grail_status text_tower_tie(const architecture *a, const checkpoint *weights,
                            json_t *config) GRAIL_MUST_CHECK;

#endif
