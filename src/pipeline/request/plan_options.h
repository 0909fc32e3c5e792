/* From the options of a run to its plan. */
#ifndef GRAIL_PIPELINE_REQUEST_PLAN_OPTIONS_H
#define GRAIL_PIPELINE_REQUEST_PLAN_OPTIONS_H

#include "arch/model.h"
#include "reduce/plan.h"

#include <grail/compress.h>

/** The model's sites with the heads grouped as asked, and the plan: from the document that the
 * options name, or from selector and sparsity. *sites and *out are owned: grail_site_list_free,
 * plan_fini. */
grail_status plan_from_options(const grail_model *model, const grail_compress_options *options,
                               grail_site_list **sites, plan *out) GRAIL_MUST_CHECK;

#endif
