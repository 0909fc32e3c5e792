#include "study/page/style.h"

#include "study/page/axis.h"

#include <string.h>

/* Contrast with the background: text 4.5 or more, lines and markers 3 or more (WCAG 2.1). A colour
 * means one thing on the whole page. */
static const struct {
    const char *name, *light, *dark;
} colours[] = {
    {"paper", "#fdfcf9", "#15171a"},
    {"ink", "#1c1c1a", "#e8e6e0"},
    {"soft", "#5e5b54", "#a9a69e"},
    {"rule", "#e1ddd3", "#2f3338"},
    {"axis", "#8b877d", "#6e7278"},
    {"wash", "#f5f2ea", "#1d2024"},
    {"link", "#1a5c93", "#7db8e8"},
    /* variants: none, REPAIR, grail, grail + REPAIR, full, full + REPAIR */
    {"v0", "#6f6d68", "#a3a19b"},
    {"v1", "#a87400", "#dfb04a"},
    {"v2", "#0067b1", "#5fb0ee"},
    {"v3", "#00857a", "#3fc6b2"},
    {"v4", "#c2402a", "#ff8068"},
    {"v5", "#8d4aa3", "#c99be0"},
    /* healed variants: block, model, block,model */
    {"v6", "#5f7d12", "#a8c95a"},
    {"v7", "#b0206e", "#ff7fb8"},
    {"v8", "#3d3fa8", "#9aa0ff"},
    /* stages: calibrate, compensate, heal, evaluate */
    {"q0", "#8791a0", "#7d8898"},
    {"q1", "#5a6675", "#b3bdcb"},
    {"q2", "#343d49", "#e3e8f0"},
    {"q3", "#95897a", "#8c8375"},
};

enum { COLOURS = sizeof colours / sizeof colours[0], FIRST_SERIES = 7 };

/* Elements with a colour of their own; lines and markers take that of their series through
 * `color`. */
static const struct {
    const char *selector, *property, *colour;
} painted[] = {
    {".z", "stroke", "ink"},   {".d", "color", "ink"},   {".y", "stroke", "paper"},
    {".bg", "fill", "paper"},  {".o", "fill", "paper"},  {".f,.n,.k", "fill", "ink"},
    {".t,.u", "fill", "soft"}, {".g", "stroke", "rule"}, {".a", "stroke", "axis"},
    {".r", "stroke", "soft"},  {".w", "stroke", "axis"},
};

/* Compiled in: the rules of figures, those of the page, and its script. Classes of figures:
 * a axis, c centred, d dense, e end, f figure title, g grid, h hover, i interval, k key, l line, m
 * marker, n panel title, o hollow, p pointer area, q bar, r reference, t tick label, u axis label,
 * w whisker, y halo, z Pareto line */
extern const unsigned char drawing_css[], page_css[], page_js[];
extern const unsigned long drawing_css_size, page_css_size, page_js_size;

/* Panels of another axis than the chosen one are hidden; all show where a page has no choice, and
 * in browsers that do not know :has. */
static void write_views(markup *page)
{
    for (int i = 0; i < AXES; i++) {
        const char *name = axis_name((axis_kind)i);
        markup_format(page, "main:has(.axes :checked:not(#x-%s)) .x-%s{display:none}", name, name);
    }
}

static void write_variables(markup *page, bool dark)
{
    markup_raw(page, ":root{");
    for (int i = 0; i < COLOURS; i++) {
        markup_format(page, "--%s:%s;", colours[i].name, dark ? colours[i].dark : colours[i].light);
    }
    markup_raw(page, "}");
}

static const char *light(const char *name)
{
    for (int i = 0; i < COLOURS; i++) {
        if (strcmp(colours[i].name, name) == 0) {
            return colours[i].light;
        }
    }
    return "";
}

void style_write_page(markup *page)
{
    write_variables(page, false);
    markup_raw(page, "@media screen and (prefers-color-scheme:dark){");
    write_variables(page, true);
    markup_raw(page, "}\n");
    markup_bytes(page, page_css, page_css_size);
    write_views(page);
    markup_bytes(page, drawing_css, drawing_css_size);
    for (size_t i = 0; i < sizeof painted / sizeof painted[0]; i++) {
        markup_format(page, "%s{%s:var(--%s)}", painted[i].selector, painted[i].property,
                      painted[i].colour);
    }
    for (int i = FIRST_SERIES; i < COLOURS; i++) {
        markup_format(page, ".%s{color:var(--%s)}", colours[i].name, colours[i].name);
    }
}

void style_write_svg(markup *out)
{
    markup_bytes(out, drawing_css, drawing_css_size);
    for (size_t i = 0; i < sizeof painted / sizeof painted[0]; i++) {
        markup_format(out, "%s{%s:%s}", painted[i].selector, painted[i].property,
                      light(painted[i].colour));
    }
    for (int i = FIRST_SERIES; i < COLOURS; i++) {
        markup_format(out, ".%s{color:%s}", colours[i].name, colours[i].light);
    }
}

void style_write_script(markup *page)
{
    markup_bytes(page, page_js, page_js_size);
}
