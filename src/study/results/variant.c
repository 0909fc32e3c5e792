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
    [VARIANT_OWN] = {"own", "own", false},
    [VARIANT_OWN_REPAIR] = {"own+repair", "own", true},
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

int heal_kind_find(const char *name)
{
    int h = HEAL_KINDS - 1;
    while (h >= 0 && strcmp(heal_names[h], name) != 0) {
        h--;
    }
    return h;
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

int variant_form_find(const char *name)
{
    int v = VARIANT_FORMS - 1;
    while (v >= 0 && strcmp(forms[v].name, name) != 0) {
        v--;
    }
    return v;
}

int variant_form_of_parts(const char *compensation, bool repairs)
{
    int v = VARIANT_FORMS - 1;
    while (v >= 0 &&
           (strcmp(forms[v].compensation, compensation) != 0 || forms[v].repairs != repairs)) {
        v--;
    }
    return v;
}
