/* The numbers of the page as tables (row.h): what its figures and its tables show. The first column
 * of all is the network. Numbers are as in the results: shares, seconds, bytes. */
#ifndef GRAIL_STUDY_PAGE_TABLES_H
#define GRAIL_STUDY_PAGE_TABLES_H

#include "base/json.h"
#include "study/page/aggregate.h"

/** All groups, in their order, with how they compare: whether a group is on the Pareto line against
 * each measure of size, is what plots against the ratio show, and is a winner: its interval lies
 * beyond those of all other repairs of its cut. *out is owned, here and below. */
grail_status table_groups(const aggregate *a, json_t **out) GRAIL_MUST_CHECK;

/** Time by stage and peak memory of each repair of each section. */
grail_status table_cost(const aggregate *a, json_t **out) GRAIL_MUST_CHECK;

/** Steps, losses and time of the trainings of healed repairs. */
grail_status table_healing(const aggregate *a, json_t **out) GRAIL_MUST_CHECK;

/** The sites of the network that each selector cut to the ratio nearest to a half, with the error
 * of the output that reads each, before and after the fit of the section's best repair. */
grail_status table_sites(const aggregate *a, json_t **out) GRAIL_MUST_CHECK;

grail_status table_dense(const aggregate *a, json_t **out) GRAIL_MUST_CHECK;
/** The measured cells, or those that failed. */
grail_status table_cells(const aggregate *a, bool failed, json_t **out) GRAIL_MUST_CHECK;

#endif
