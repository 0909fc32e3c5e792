/* Time and memory that the variants of a section took. */
#ifndef GRAIL_STUDY_PAGE_COST_H
#define GRAIL_STUDY_PAGE_COST_H

#include "study/page/aggregate.h"

/** The cost of a variant over all groups that the section shows. */
typedef struct cost {
    spread seconds[SECONDS_KINDS]; /* of the groups' means */
    spread peak;                   /* of the groups' highest */
} cost;

/** Fills costs[VARIANTS]. */
void cost_measure(const section *s, cost *costs);

#endif
