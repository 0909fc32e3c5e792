/* What Gemma 2 and 3 have in common. */
#ifndef GRAIL_ARCH_DECODER_GEMMA_PARTS_H
#define GRAIL_ARCH_DECODER_GEMMA_PARTS_H

#include "arch/decoder.h"

extern const decoder_keys gemma_keys;
extern const decoder_name gemma_names[];

/** Scales and caps; the caps are those of a configuration that does not state them. */
grail_status gemma_read(const char *source, const json_t *json, double score_cap, double logit_cap,
                        decoder_config *c) GRAIL_MUST_CHECK;

#endif
