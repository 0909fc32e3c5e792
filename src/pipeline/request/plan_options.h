/* Makes the plan of a run from its options. */
#ifndef GRAIL_PIPELINE_REQUEST_PLAN_OPTIONS_H
#define GRAIL_PIPELINE_REQUEST_PLAN_OPTIONS_H

#include "arch/model.h"
#include "reduce/alignment.h"
#include "reduce/plan.h"

#include <grail/compress.h>

/** Makes the model's sites, with the heads grouped as the options ask, and the plan: from the plan
 * document that the options name, or from selector and sparsity. *sites and *out, which
 * begin empty, are owned, even after a failure: grail_site_list_free, plan_fini. */
grail_status plan_from_options(const grail_model *model, const grail_compress_options *options,
                               grail_site_list **sites, plan *out) GRAIL_MUST_CHECK;

/** The alignment that the options ask for, with the blocks of the type that the result, or else the
 * model, is quantised in. */
alignment plan_alignment(const grail_model *model, const grail_compress_options *options);

#endif
