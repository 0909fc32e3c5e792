/* Which figures the page has, and which rows of its tables each of them shows. */
#ifndef GRAIL_STUDY_PAGE_FIGURES_H
#define GRAIL_STUDY_PAGE_FIGURES_H

#include "base/json.h"
#include "study/page/aggregate.h"

/**
 * Adds the figures in the order of the page, each {"kind", "network" (null: all), "file" (the name
 * of its files without an ending: "03-accuracy-resnet18"), "table", "rows": [indices]}. `tables`
 * holds those of tables.h by name. A figure without rows is left out.
 */
grail_status figures_add(const aggregate *a, const json_t *tables,
                         json_t *figures) GRAIL_MUST_CHECK;

#endif
