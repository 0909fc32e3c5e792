/* How the frequencies of rotary positions are changed for longer texts. */
#ifndef GRAIL_ARCH_ROTARY_SCALING_H
#define GRAIL_ARCH_ROTARY_SCALING_H

#include "arch/rotary.h"

/** The frequencies of `count` pairs before they are scaled, theta^(-2k/size). */
typedef struct rotary_base {
    const char *name; /* of the configuration */
    const json_t *json;
    double theta;
    int64_t size, count, context;
} rotary_base;

/** Changes r->frequency[count] as `scaling`, an object with "rope_type" or "type", says, and sets
 * the other fields that follow from it. */
grail_status rotary_scale(const rotary_base *b, const json_t *scaling, rotary *r) GRAIL_MUST_CHECK;

#endif
