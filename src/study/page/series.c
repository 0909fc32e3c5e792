#include "study/page/series.h"

/* All forms, in their order: dashes tell the form, their gap what is healed. */
#define HEALED(heal, colour, gap)                                                                  \
    {heal, {.class = colour, .dash = "1.5 " gap}},                                                 \
        {"REPAIR + " heal, {.class = colour, .dash = "5 " gap}},                                   \
        {"grail + " heal, {.class = colour, .dash = "10 " gap}},                                   \
        {"grail + REPAIR + " heal, {.class = colour, .dash = "7 " gap " 1.5 " gap}},               \
        {"full + " heal, {.class = colour, .dash = "20 " gap}},                                    \
    {                                                                                              \
        "full + REPAIR + " heal,                                                                   \
        {                                                                                          \
            .class = colour, .dash = "3 " gap                                                      \
        }                                                                                          \
    }

/* Colours and dashes. */
static const struct {
    const char *label;
    series_style style;
} variants[VARIANTS] = {
    [VARIANT_NONE] = {"none", {.class = "v0", .dash = "1.5 3"}},
    [VARIANT_REPAIR] = {"REPAIR", {.class = "v1", .dash = "5 3"}},
    [VARIANT_GRAIL] = {"grail", {.class = "v2", .dash = "10 3"}},
    [VARIANT_GRAIL_REPAIR] = {"grail + REPAIR", {.class = "v3", .dash = "7 3 1.5 3"}},
    [VARIANT_FULL] = {"full", {.class = "v4"}},
    [VARIANT_FULL_REPAIR] = {"full + REPAIR", {.class = "v5", .dash = "3 3"}},
    [HEAL_BLOCK * VARIANT_FORMS] = HEALED("heal block", "v6", "1.5"),
    [HEAL_MODEL * VARIANT_FORMS] = HEALED("heal model", "v7", "4"),
    [HEAL_BLOCK_MODEL * VARIANT_FORMS] = HEALED("heal block,model", "v8", "5.5"),
};

/* Markers; by themselves in the colour of the dense network's text. */
static const series_style selectors[] = {
    {"d", NULL, MARKER_CIRCLE, true},   {"d", NULL, MARKER_CIRCLE, false},
    {"d", NULL, MARKER_SQUARE, true},   {"d", NULL, MARKER_UP, false},
    {"d", NULL, MARKER_DIAMOND, false}, {"d", NULL, MARKER_DIAMOND, true},
    {"d", NULL, MARKER_DOWN, false},    {"d", NULL, MARKER_CROSS, false},
};

const series_style *variant_style(variant v)
{
    return &variants[v].style;
}

const char *variant_label(variant v)
{
    return variants[v].label;
}

const series_style *selector_style(int selector)
{
    return &selectors[(size_t)selector % (sizeof selectors / sizeof selectors[0])];
}

series_style setting_style(int selector, variant v)
{
    series_style style = *selector_style(selector);
    style.class = variants[v].style.class;
    style.dash = variants[v].style.dash;
    return style;
}
