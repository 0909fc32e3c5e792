#include "study/results/variant.h"

#include <string.h>

static const struct {
    const char *name, *compensation;
    bool repairs;
} forms[VARIANT_FORMS] = {
    [VARIANT_NONE] = {"none", "none", false},
    [VARIANT_REPAIR] = {"repair", "none", true},
    [VARIANT_GRAIL] = {"grail", "grail", false},
    [VARIANT_GRAIL_REPAIR] = {"grail+repair", "grail", true},
    [VARIANT_FULL] = {"full", "full", false},
    [VARIANT_FULL_REPAIR] = {"full+repair", "full", true},
};

static const char *const heal_names[HEAL_KINDS] = {
    [HEAL_NONE] = "none",
    [HEAL_BLOCK] = "block",
    [HEAL_MODEL] = "model",
    [HEAL_BLOCK_MODEL] = "block,model",
};

variant variant_healed(variant form, heal_kind heal)
{
    return (variant)((int)heal * (int)VARIANT_FORMS + (int)form);
}

variant variant_form(variant v)
{
    return (variant)((int)v % (int)VARIANT_FORMS);
}

heal_kind variant_heal(variant v)
{
    return (heal_kind)((int)v / (int)VARIANT_FORMS);
}

const char *heal_kind_name(heal_kind heal)
{
    return heal_names[heal];
}

bool heal_kind_from_name(const char *name, heal_kind *out)
{
    for (int h = 0; h < HEAL_KINDS; h++) {
        if (strcmp(heal_names[h], name) == 0) {
            *out = (heal_kind)h;
            return true;
        }
    }
    return false;
}

const char *variant_form_name(variant v)
{
    return forms[variant_form(v)].name;
}

const char *variant_compensation(variant v)
{
    return forms[variant_form(v)].compensation;
}

bool variant_repairs(variant v)
{
    return forms[variant_form(v)].repairs;
}

bool variant_from_name(const char *name, variant *out)
{
    for (int v = 0; v < VARIANT_FORMS; v++) {
        if (strcmp(forms[v].name, name) == 0) {
            *out = (variant)v;
            return true;
        }
    }
    return false;
}

bool variant_from_parts(const char *compensation, bool repairs, variant *out)
{
    for (int v = 0; v < VARIANT_FORMS; v++) {
        if (strcmp(forms[v].compensation, compensation) == 0 && forms[v].repairs == repairs) {
            *out = (variant)v;
            return true;
        }
    }
    return false;
}
