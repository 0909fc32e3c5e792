/* The numbers of the page as tables (row.h): what its figures and its tables show. The first column
 * of all is the network. Numbers are as in the results: shares, seconds, bytes. */
#ifndef GRAIL_STUDY_PAGE_TABLES_H
#define GRAIL_STUDY_PAGE_TABLES_H

#include "base/json.h"
#include "study/page/aggregate.h"

/**
 * Puts the tables by their names into an object:
 *
 *   groups    all groups, in their order, with how they compare: whether a group is on the Pareto
 *             line against each measure of size, is what plots against the ratio show, and is a
 *             winner: its interval lies beyond those of all other repairs of its cut
 *   sites     the sites of the network that each selector cut to the ratio nearest to a half, with
 *             the error of the output that reads each, before and after the fit of the section's
 *             best repair
 *   cost      time by stage and peak memory of each repair of each section
 *   healing   steps, losses and time of the trainings of healed repairs
 *   dense     the networks as they were
 *   cells, failures
 *             the measured cells, and those that failed
 */
grail_status tables_put(const aggregate *a, json_t *tables) GRAIL_MUST_CHECK;

#endif
