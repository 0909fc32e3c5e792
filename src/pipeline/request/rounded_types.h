/* Which matrices of a result are rounded: to groups of integers (tensor/groups.h) in a directory,
 * whose configuration says so (source: compressed-tensors, quant_config), or to blocks in a GGUF
 * file (arch/gguf_target.h). */
#ifndef GRAIL_PIPELINE_REQUEST_ROUNDED_TYPES_H
#define GRAIL_PIPELINE_REQUEST_ROUNDED_TYPES_H

#include "arch/gguf_target.h"
#include "arch/model.h"
#include "heal/heal_options.h"
#include "reduce/plan.h"

typedef struct rounded_types {
    const char *name;    /* of the type, static; NULL: nothing is rounded */
    int bits;            /* of groups; 0: a GGUF file */
    int64_t group;       /* elements; the largest of 128, 64 and 32 that fills all rows */
    grail_dtype *dtypes; /* [parameter_count] of the result; GRAIL_DTYPE_COUNT: as without rounding;
                            in a GGUF file some are not rounded, but have another dtype */
} rounded_types;

/** What a rounding must fit to. */
typedef struct rounded_subject {
    const grail_model *model;
    const site_list *sites;
    const plan *plan;
    const heal_options *heal;
    const graph *narrowed;
    const gguf_target *target; /* NULL: a directory */
    bool is_shared;            /* over several ranks */
} rounded_subject;

/** *out <- `type`, which is NULL or one of rounded_type_names, where it is one of GGUF files, else
 * NULL; static. */
grail_status rounded_type_of_file(const char *type, const char **out) GRAIL_MUST_CHECK;

/** In a directory all matrices of blocks are rounded, and `config`, that of the result, says so; in
 * a GGUF file what the target's types say. A width that no group fills, or after a cut no block, is
 * GRAIL_ERROR_SHAPE; the message says how many units would do. *out is released with
 * rounded_types_fini, even after a failure. */
grail_status rounded_types_choose(const char *type, const rounded_subject *subject, json_t *config,
                                  rounded_types *out) GRAIL_MUST_CHECK;
void rounded_types_fini(rounded_types *r); /* works on a zeroed one */

/** The parameter's type in the result; GRAIL_DTYPE_COUNT: as without rounding. */
grail_dtype rounded_dtype(const rounded_types *r, int parameter);
/** Whether it is rounded to blocks or groups. */
bool parameter_is_rounded(const rounded_types *r, int parameter);
/** How many of the graph's parameters are. */
int rounded_types_count(const rounded_types *r, const graph *g);

/** What the tensors are smaller by than without rounding, in bytes. */
int64_t rounded_types_saving(const rounded_types *r, const grail_model *model,
                             const graph *narrowed);

#endif
