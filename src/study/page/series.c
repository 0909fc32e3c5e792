#include "study/page/series.h"

/* All forms, in their order: colour and dashes tell what is healed, the marker tells the form. */
#define HEALED(heal, colour, dash)                                                                 \
    {heal, {colour, dash, MARKER_CIRCLE, true}},                                                   \
        {"REPAIR + " heal, {colour, dash, MARKER_SQUARE, true}},                                   \
        {"grail + " heal, {colour, dash, MARKER_CIRCLE, false}},                                   \
        {"grail + REPAIR + " heal, {colour, dash, MARKER_UP, false}},                              \
        {"full + " heal, {colour, dash, MARKER_DIAMOND, false}},                                   \
    {                                                                                              \
        "full + REPAIR + " heal,                                                                   \
        {                                                                                          \
            colour, dash, MARKER_DOWN, false                                                       \
        }                                                                                          \
    }

static const struct {
    const char *label;
    series_style style;
} variants[VARIANTS] = {
    [VARIANT_NONE] = {"none", {"v0", "1.5 3", MARKER_CIRCLE, true}},
    [VARIANT_REPAIR] = {"REPAIR", {"v1", "5 3", MARKER_SQUARE, true}},
    [VARIANT_GRAIL] = {"grail", {"v2", NULL, MARKER_CIRCLE, false}},
    [VARIANT_GRAIL_REPAIR] = {"grail + REPAIR", {"v3", "7 2.5 1.5 2.5", MARKER_UP, false}},
    [VARIANT_FULL] = {"full", {"v4", NULL, MARKER_DIAMOND, false}},
    [VARIANT_FULL_REPAIR] = {"full + REPAIR", {"v5", "7 2.5 1.5 2.5", MARKER_DOWN, false}},
    [HEAL_BLOCK * VARIANT_FORMS] = HEALED("heal block", "v6", "10 2"),
    [HEAL_MODEL * VARIANT_FORMS] = HEALED("heal model", "v7", "3 1.5"),
    [HEAL_BLOCK_MODEL * VARIANT_FORMS] = HEALED("heal block,model", "v8", "10 2 2 2"),
};

static const series_style selectors[] = {
    {"s0", "1.5 3", MARKER_CIRCLE, true}, {"s1", NULL, MARKER_SQUARE, false},
    {"s2", "6 3", MARKER_SQUARE, true},   {"s3", NULL, MARKER_UP, false},
    {"s4", NULL, MARKER_DIAMOND, false},  {"s5", "6 3", MARKER_DIAMOND, true},
    {"s6", NULL, MARKER_DOWN, false},     {"s7", "7 2.5 1.5 2.5", MARKER_CROSS, false},
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
