/* What follows the cut: a compensation, and whether REPAIR follows that. */
#ifndef GRAIL_STUDY_RESULTS_VARIANT_H
#define GRAIL_STUDY_RESULTS_VARIANT_H

#include <stdbool.h>

/** In the order in which pages show them. */
typedef enum variant {
    VARIANT_NONE,
    VARIANT_REPAIR,
    VARIANT_GRAIL,
    VARIANT_GRAIL_REPAIR,
    VARIANT_FULL,
    VARIANT_FULL_REPAIR,
    VARIANTS
} variant;

/** "none", "repair", "grail", "grail+repair", "full", "full+repair". */
const char *variant_name(variant v);
/** Its two parts: the compensation's name, static, and whether there is REPAIR. */
const char *variant_compensation(variant v);
bool variant_repairs(variant v);

/** Finds a variant by its name, or by its two parts; false when there is none. */
bool variant_from_name(const char *name, variant *out);
bool variant_from_parts(const char *compensation, bool repairs, variant *out);

#endif
