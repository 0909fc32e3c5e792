/* Changing a network of the vision lab along the axes of its sites: taking out what a run removed,
 * and putting every unit in twice. */
#ifndef GRAIL_TESTS_PIPELINE_VISION_SITES_H
#define GRAIL_TESTS_PIPELINE_VISION_SITES_H

#include "vision_lab.h"

/** The network behind `output` is the dense one, of which the columns are zero that the run removed
 * (its report says which). `path` is where the dense network lies, which changes in memory. */
void assert_pruned_is_zeroed(const vision_lab *v, vision_model *dense, const char *path,
                             const char *output);

typedef enum vision_doubling {
    VISION_EQUAL, /* both copies alike, each with half of the consumers' columns */
    /* The second copy's channel is the first one's times a factor of its own, made by small
     * convolutions and a large BatchNorm; in transformers it is equal but for the consumers, which
     * hardly look at it. Selectors remove the second copies then, at a half. */
    VISION_SCALED
} vision_doubling;

/** Puts every unit of every site in twice, in a mixed order. `path` is where the network lies. */
void vision_double(vision_model *m, const char *path, vision_doubling how);

/** The entry of a site in a run's report. Borrowed; the test fails without it. */
const json_t *vision_reported_site(const json_t *report, const char *name);

/** Ascending kept units of a site, from the report of a run; returns how many. kept[most]. */
int vision_kept_units(const char *output, const char *site, int64_t *kept, int most);

#endif
