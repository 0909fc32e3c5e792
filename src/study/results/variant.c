#include "study/results/variant.h"

#include <string.h>

static const struct {
    const char *name, *compensation;
    bool repairs;
} variants[VARIANTS] = {
    [VARIANT_NONE] = {"none", "none", false},
    [VARIANT_REPAIR] = {"repair", "none", true},
    [VARIANT_GRAIL] = {"grail", "grail", false},
    [VARIANT_GRAIL_REPAIR] = {"grail+repair", "grail", true},
    [VARIANT_FULL] = {"full", "full", false},
    [VARIANT_FULL_REPAIR] = {"full+repair", "full", true},
};

const char *variant_name(variant v)
{
    return variants[v].name;
}

const char *variant_compensation(variant v)
{
    return variants[v].compensation;
}

bool variant_repairs(variant v)
{
    return variants[v].repairs;
}

bool variant_from_name(const char *name, variant *out)
{
    for (int v = 0; v < VARIANTS; v++) {
        if (strcmp(variants[v].name, name) == 0) {
            *out = (variant)v;
            return true;
        }
    }
    return false;
}

bool variant_from_parts(const char *compensation, bool repairs, variant *out)
{
    for (int v = 0; v < VARIANTS; v++) {
        if (strcmp(variants[v].compensation, compensation) == 0 && variants[v].repairs == repairs) {
            *out = (variant)v;
            return true;
        }
    }
    return false;
}
