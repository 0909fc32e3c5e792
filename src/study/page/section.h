/* The groups of a section: their order, and which of them it shows. */
#ifndef GRAIL_STUDY_PAGE_SECTION_H
#define GRAIL_STUDY_PAGE_SECTION_H

#include "study/page/aggregate.h"

/** The orders of integers, of ratios and of groups: by section, selector, variant, loop, setting,
 * samples, ratio. Ratios are equal up to 1e-6. */
int integer_compare(int64_t a, int64_t b);
int ratio_compare(double a, double b);
int group_key_compare(const group_key *a, const group_key *b);

/** NULL where there is none. */
const cell_group *section_find(const section *s, const group_key *key);
/** The group at the section's own setting. A plain cut that was only measured with other samples or
 * in another loop stands in for it, since these affect a plain cut only through its selector. */
const cell_group *section_at(const section *s, int selector, variant v, double sparsity);
/** Whether the group is what section_at shows. */
bool section_shows(const section *s, const cell_group *group);

/** The strongest compensation that occurs: full before grail, and without REPAIR before with
 * REPAIR; a healed variant only where all are healed. VARIANT_NONE where none occurs. */
variant section_best_variant(const section *s);

#endif
