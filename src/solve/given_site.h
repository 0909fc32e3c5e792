/* A site of a caller's buffers, as selectors see one. */
#ifndef GRAIL_SOLVE_GIVEN_SITE_H
#define GRAIL_SOLVE_GIVEN_SITE_H

#include "reduce/selector.h"

#include <grail/select.h>

/** A graph that has nothing but the site's ends: parameters are the caller's arrays. It must not
 * move. */
typedef struct given_site {
    graph graph;
    node *nodes;                 /* what is owned is these arrays */
    graph_parameter *parameters; /* [graph.parameter_count] */
    const float **values;        /* of the parameters; borrowed */
    site site;
    site_end *ends;     /* of producers, channels and consumers */
    routed_sum *routed; /* [units], or NULL */
    site_view view;     /* `inputs` are owned, [input_count] */
} given_site;

/** Makes a site of what was given, for a decision of `rule` that keeps `kept` units, after checks:
 * shapes fit, and nothing is missing that the rule needs. given_site_fini frees, even after a
 * failure. */
grail_status given_site_init(const grail_site *given, const selector *rule, int64_t kept,
                             given_site *out) GRAIL_MUST_CHECK;
void given_site_fini(given_site *s); /* works on a zeroed one */

/** The kind of that name; GRAIL_ERROR_ARGUMENT lists the known ones. */
grail_status given_site_kind(const char *name, site_kind *out) GRAIL_MUST_CHECK;

#endif
