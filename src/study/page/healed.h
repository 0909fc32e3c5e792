/* What the trainings of a section's healed variants did. */
#ifndef GRAIL_STUDY_PAGE_HEALED_H
#define GRAIL_STUDY_PAGE_HEALED_H

#include "study/page/aggregate.h"

/** Over all cells that the section shows; empty where nothing of the kind was trained. */
typedef struct healed {
    spread steps, before, after; /* of a training: steps taken, held-out loss */
    spread seconds;              /* of all trainings of a cell */
} healed;

/** Measures the trainings of blocks, or those of the whole network. */
healed healed_measure(const section *s, variant v, bool of_blocks);

#endif
