/* Which matrices of a result are rounded to groups of integers (tensor/groups.h), and what its
 * configuration says of that. Source of the configuration: compressed-tensors, quant_config. */
#ifndef GRAIL_PIPELINE_REQUEST_ROUNDED_TYPES_H
#define GRAIL_PIPELINE_REQUEST_ROUNDED_TYPES_H

#include "arch/model.h"
#include "pipeline/request/heal_options.h"
#include "reduce/plan.h"

typedef struct rounded_types {
    const char *name; /* of the type, static; NULL: nothing is rounded */
    int bits;
    int64_t group;       /* elements; the largest of 128, 64 and 32 that fills all rows */
    grail_dtype *dtypes; /* [parameter_count], GRAIL_DTYPE_COUNT where a parameter is not rounded */
} rounded_types;

/** What a rounding must fit to. */
typedef struct rounded_subject {
    const grail_model *model;
    const site_list *sites;
    const plan *plan;
    const heal_options *heal;
    const graph *narrowed;
    bool is_shared; /* over several ranks */
} rounded_subject;

/** `type` is NULL or one of rounded_type_names. Unless it is none, all matrices of blocks are
 * rounded, and `config`, that of the result, says so. A width that no group fills is
 * GRAIL_ERROR_SHAPE; the message says how many units would do. *out is released with
 * rounded_types_fini, even after a failure. */
grail_status rounded_types_choose(const char *type, const rounded_subject *subject, json_t *config,
                                  rounded_types *out) GRAIL_MUST_CHECK;
void rounded_types_fini(rounded_types *r); /* works on a zeroed one */

/** GRAIL_DTYPE_COUNT where the parameter is not rounded. */
grail_dtype rounded_dtype(const rounded_types *r, int parameter);

/** What the files are smaller by than without rounding, in bytes. */
int64_t rounded_types_saving(const rounded_types *r, const grail_model *model,
                             const graph *narrowed);

#endif
