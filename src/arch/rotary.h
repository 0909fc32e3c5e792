/* Rotary positions as configurations describe them. */
#ifndef GRAIL_ARCH_ROTARY_H
#define GRAIL_ARCH_ROTARY_H

#include "base/json.h"

#include <stdint.h>

/** Where a family's configuration describes the positions of some of its layers. */
typedef struct rotary_source {
    int64_t head_dim, context;
    /** The member of "rope_parameters" for layers of this type, where it has members for types. */
    const char *layer_type;
    const char *theta_key, *partial_key; /* outside "rope_parameters" */
    double theta, partial;               /* where the configuration does not state them */
    bool unscaled;                       /* "rope_scaling" is not about these layers */
} rotary_source;

/** What rope nodes are told. */
typedef struct rotary {
    int64_t turned;         /* features of each head, the first ones; an even number */
    double factor;          /* of what is turned */
    double *frequency;      /* [turned / 2], owned; NULL: no rotary positions */
    double *long_frequency; /* in samples of more than `longest` positions, owned; or NULL */
    int64_t longest;
} rotary;

/** The object that describes rotary positions, of either version of transformers, and the kind of
 * their scaling; "default" where none is stated. */
const json_t *rotary_scaling(const json_t *config, const char **type);

/** `name` is that of the configuration, for messages. rotary_fini frees. */
grail_status rotary_read(const char *name, const json_t *json, const rotary_source *from,
                         rotary *out) GRAIL_MUST_CHECK;
void rotary_fini(rotary *r); /* a zeroed one is allowed */

#endif
