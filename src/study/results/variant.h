/* What follows the cut: a form, which is a compensation and whether REPAIR follows it, and what is
 * healed after that. */
#ifndef GRAIL_STUDY_RESULTS_VARIANT_H
#define GRAIL_STUDY_RESULTS_VARIANT_H

#include <stdbool.h>

/** As grail_compress_options.heal. */
typedef enum heal_kind {
    HEAL_NONE,
    HEAL_BLOCK,
    HEAL_MODEL,
    HEAL_BLOCK_MODEL,
    HEAL_KINDS
} heal_kind;

/** In the order in which pages show them. */
typedef enum variant {
    VARIANT_NONE,
    VARIANT_REPAIR,
    VARIANT_GRAIL,
    VARIANT_GRAIL_REPAIR,
    VARIANT_FULL,
    VARIANT_FULL_REPAIR,
    VARIANT_OWN, /* what the selector's authors do */
    VARIANT_OWN_REPAIR,
    VARIANT_FORMS, /* behind those that are not healed: the same again for each further heal_kind */
    VARIANTS = VARIANT_FORMS * (int)HEAL_KINDS
} variant;

/** The variant of this form, one below VARIANT_FORMS, that is healed; and the two parts of one. */
variant variant_healed(variant form, heal_kind heal);
variant variant_form(variant v);
heal_kind variant_heal(variant v);

/** "none", "block", "model", "block,model". */
const char *heal_kind_name(heal_kind heal);
int heal_kind_find(const char *name); /* -1: there is none */

/** The name of its form: "none", "repair", "grail", "grail+repair", "full", "full+repair",
 * "own", "own+repair". */
const char *variant_form_name(variant v);
/** The two parts of its form: the compensation's name, static, and whether there is REPAIR. */
const char *variant_compensation(variant v);
bool variant_repairs(variant v);

/** The form with this name, or with these two parts; -1 when there is none. */
int variant_form_find(const char *name);
int variant_form_of_parts(const char *compensation, bool repairs);

#endif
