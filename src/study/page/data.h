/* Everything that the page shows, as the JSON that its script draws. */
#ifndef GRAIL_STUDY_PAGE_DATA_H
#define GRAIL_STUDY_PAGE_DATA_H

#include "base/json.h"
#include "study/page/aggregate.h"

/** {"facts", "networks", "comparisons", "variants" (all labels, in their order), "selectors",
 * "tables" (by name), "figures", "recipe"}: findings.h, tables.h, figures.h. *out is owned. */
grail_status page_data(const aggregate *a, json_t **out) GRAIL_MUST_CHECK;

#endif
