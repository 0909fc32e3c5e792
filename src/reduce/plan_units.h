/* The units of a plan's site in its JSON document: how many stay, and which, where it says so. */
#ifndef GRAIL_REDUCE_PLAN_UNITS_H
#define GRAIL_REDUCE_PLAN_UNITS_H

#include "reduce/plan.h"

/**
 * Reads "units", "kept" and "kept_units" of an entry of "sites" into own->kept and own->kept_units.
 * own->selector is the one that the entry names. Errors name `source` and the site.
 */
grail_status plan_site_read_units(const char *source, const json_t *entry, const site *s,
                                  plan_site *own) GRAIL_MUST_CHECK;

/** Writes "kept", and "kept_units" where the plan names them. */
grail_status plan_site_write_units(const plan_site *own, json_t *entry) GRAIL_MUST_CHECK;

#endif
