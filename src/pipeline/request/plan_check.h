/* Refuses plans that the network cannot follow, before anything runs. */
#ifndef GRAIL_PIPELINE_REQUEST_PLAN_CHECK_H
#define GRAIL_PIPELINE_REQUEST_PLAN_CHECK_H

#include "arch/model.h"
#include "reduce/plan.h"

/** GRAIL_ERROR_UNSUPPORTED names the first site that cannot be narrowed as planned. */
grail_status plan_check(const grail_model *model, const site_list *sites,
                        const plan *p) GRAIL_MUST_CHECK;

#endif
