#include "study/page/figure.h"

#include "study/page/series.h"
#include "study/page/style.h"

#include <math.h>
#include <string.h>

static const point panel_title = {0.0, 14.0};

enum { COLUMNS = 3, GAP = 28, MARGIN = 20, LEGEND_LINE = 20, TITLE_HEIGHT = 34 };

void figure_init(figure *f, const char *kind)
{
    *f = (figure){.kind = kind};
    markup_init(&f->title, MOST_MARKUP);
    markup_init(&f->caption, MOST_MARKUP);
}

void figure_fini(figure *f)
{
    for (int i = 0; i < f->panel_count; i++) {
        markup_fini(&f->panels[i].content);
        markup_fini(&f->panels[i].title);
    }
    memory_free(f->panels);
    markup_fini(&f->title);
    markup_fini(&f->caption);
    *f = (figure){.kind = f->kind};
}

grail_status figure_add_panel(figure *f, double width, double height, panel **out)
{
    CHECK(memory_reserve(&f->panels, (size_t)f->panel_count + 1, sizeof f->panels[0]));
    panel *p = &f->panels[f->panel_count++];
    *p = (panel){.width = width, .height = height};
    markup_init(&p->content, MOST_MARKUP);
    markup_init(&p->title, MOST_MARKUP);
    *out = p;
    return GRAIL_OK;
}

void figure_add_key(figure *f, const series_style *style, legend_key key, const char *label)
{
    if (f->legend_count < MOST_LEGEND) {
        f->legend[f->legend_count++] = (legend_entry){*style, key, label};
    }
}

void figure_add_variants(figure *f, const bool *variants, legend_key key)
{
    for (int v = 0; v < VARIANTS; v++) {
        if (variants[v]) {
            figure_add_key(f, variant_style((variant)v), key, variant_label((variant)v));
        }
    }
}

void figure_add_selectors(figure *f, const bool *selectors, char *const *names)
{
    for (int i = 0; i < MOST_SELECTORS; i++) {
        if (selectors[i]) {
            figure_add_key(f, selector_style(i), KEY_MARKER, names[i]);
        }
    }
}

/* The sample of a legend entry, 30 wide and 12 high, its middle left at the point. */
static void write_key(markup *out, const legend_entry *entry, point at)
{
    svg_group_begin(out, entry->style.class);
    if (entry->key == KEY_LINE) {
        svg_key(out, entry->style.dash, at);
    } else if (entry->key == KEY_COLOUR) {
        svg_rectangle(out, "q", (point){at.x + 8.0, at.y - 5.0}, 18.0, 10.0);
    } else {
        svg_marker(out, &entry->style, (point){at.x + 20.0, at.y}, 3.8);
    }
    svg_group_end(out);
}

grail_status figure_status(const figure *f)
{
    CHECK(markup_status(&f->title));
    CHECK(markup_status(&f->caption));
    for (int i = 0; i < f->panel_count; i++) {
        CHECK(markup_status(&f->panels[i].content));
        CHECK(markup_status(&f->panels[i].title));
    }
    return GRAIL_OK;
}

/* `title` is markup, as all titles of figures and panels. */
static void write_title(markup *out, const char *class, point at, const markup *title)
{
    svg_text_begin(out, class, at);
    markup_append(out, title);
    svg_text_end(out);
}

static void write_legend_html(const figure *f, markup *page)
{
    if (f->legend_count == 0) {
        return;
    }
    markup_raw(page, "<ul class=\"legend\">");
    for (int i = 0; i < f->legend_count; i++) {
        markup_raw(page, "<li><svg viewBox=\"0 0 30 12\" width=\"30\" height=\"12\" "
                         "aria-hidden=\"true\">");
        write_key(page, &f->legend[i], (point){0.0, 6.0});
        markup_format(page, "</svg> %s</li>", start_of(f->legend[i].label, 40).text);
    }
    markup_raw(page, "</ul>\n");
}

static void write_panel_html(const figure *f, const panel *p, markup *page)
{
    markup_raw(page, "<svg");
    if (p->view != NULL) {
        markup_format(page, " class=\"x-%s\"", p->view);
    }
    markup_format(page, " viewBox=\"0 0 %s %s\" role=\"img\" aria-label=\"",
                  number_text(p->width, 0).text, number_text(p->height, 0).text);
    markup_append(page, &f->title);
    markup_raw(page, ": ");
    markup_append(page, &p->title);
    markup_raw(page, "\">");
    write_title(page, "n", panel_title, &p->title);
    markup_append(page, &p->content);
    markup_raw(page, "</svg>\n");
}

static bool is_in_view(const panel *p, const char *view)
{
    return p->view == NULL || strcmp(p->view, view) == 0;
}

const char *figure_view_at(const figure *f, int index)
{
    int found = 0;
    for (int i = 0; i < f->panel_count; i++) {
        const char *view = f->panels[i].view;
        bool is_new = view != NULL;
        for (int j = 0; j < i && is_new; j++) {
            is_new = f->panels[j].view == NULL || strcmp(f->panels[j].view, view) != 0;
        }
        if (is_new && found++ == index) {
            return view;
        }
    }
    return found == 0 && index == 0 ? "" : NULL;
}

static int count_in_view(const figure *f, const char *view)
{
    int count = 0;
    for (int i = 0; i < f->panel_count; i++) {
        count += is_in_view(&f->panels[i], view) ? 1 : 0;
    }
    return count;
}

void figure_write_html(const figure *f, int number, markup *page)
{
    markup_format(page, "<figure id=\"figure-%d\" class=\"%s\">\n<h3>", number, f->kind);
    markup_append(page, &f->title);
    markup_raw(page, "</h3>\n");
    write_legend_html(f, page);
    markup_raw(page, count_in_view(f, figure_view_at(f, 0)) == 4
                         ? "<div class=\"panels four\">\n" /* two per row */
                         : "<div class=\"panels\">\n");
    for (int i = 0; i < f->panel_count; i++) {
        write_panel_html(f, &f->panels[i], page);
    }
    markup_format(page, "</div>\n<figcaption><b>Figure %d.</b> ", number);
    markup_append(page, &f->caption);
    markup_raw(page, "</figcaption>\n</figure>\n");
}

/* The layout of a figure in a file of its own. */
typedef struct sheet {
    const char *view;
    int columns;
    double column, width, height, legend_height;
} sheet;

/* The height of the row whose first panel has that index among those in view. */
static double row_height(const figure *f, const sheet *s, int first)
{
    double height = 0.0;
    int index = 0;
    for (int i = 0; i < f->panel_count; i++) {
        if (is_in_view(&f->panels[i], s->view)) {
            const bool is_inside = index >= first && index < first + s->columns;
            height = is_inside ? fmax(height, f->panels[i].height) : height;
            index++;
        }
    }
    return height + GAP;
}

/* The estimated width of a legend entry; there is no font to measure it with. */
static double legend_width(const legend_entry *entry)
{
    return 56.0 + 6.4 * fmin((double)strlen(entry->label), 40.0);
}

/* Draws the legend into `out`, unless it is NULL, and returns its height. */
static double write_legend(const figure *f, const sheet *s, markup *out)
{
    point at = {MARGIN, MARGIN + TITLE_HEIGHT};
    for (int i = 0; i < f->legend_count; i++) {
        const double width = legend_width(&f->legend[i]);
        if (at.x > MARGIN && at.x + width > s->width - MARGIN) {
            at = (point){MARGIN, at.y + LEGEND_LINE};
        }
        if (out != NULL) {
            write_key(out, &f->legend[i], at);
            svg_text_begin(out, "k", (point){at.x + 36.0, at.y + 4.0});
            markup_raw(out, start_of(f->legend[i].label, 40).text);
            svg_text_end(out);
        }
        at.x += width;
    }
    return f->legend_count == 0 ? 0.0 : at.y + LEGEND_LINE - MARGIN - TITLE_HEIGHT;
}

static sheet lay_out(const figure *f, const char *view)
{
    const int count = count_in_view(f, view);
    sheet s = {.view = view, .columns = count < COLUMNS ? count : COLUMNS};
    if (count == 4) {
        s.columns = 2;
    }
    for (int i = 0; i < f->panel_count; i++) {
        s.column = fmax(s.column, f->panels[i].width);
    }
    s.width = fmax(2.0 * MARGIN + s.columns * (s.column + GAP) - GAP, 420.0);
    s.legend_height = write_legend(f, &s, NULL);
    s.height = 2.0 * MARGIN + TITLE_HEIGHT + s.legend_height - GAP;
    for (int i = 0; i < count; i += s.columns) {
        s.height += row_height(f, &s, i);
    }
    return s;
}

static void write_sheet_head(const figure *f, const sheet *s, markup *out)
{
    const short_text width = svg_number(s->width);
    const short_text height = svg_number(s->height);
    markup_format(out, /* FIGURE_MARK in page.h is this beginning */
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"%s\" "
                  "height=\"%s\" viewBox=\"0 0 %s %s\">\n<title>",
                  width.text, height.text, width.text, height.text);
    markup_append(out, &f->title);
    markup_raw(out, "</title>\n<desc>");
    markup_append(out, &f->caption);
    markup_raw(out, "</desc>\n<style>");
    style_write_svg(out);
    markup_raw(out, "</style>\n");
    svg_rectangle(out, "bg", (point){0.0, 0.0}, s->width, s->height);
    write_title(out, "f", (point){MARGIN, MARGIN + 8.0}, &f->title);
}

void figure_write_svg(const figure *f, const char *view, markup *out)
{
    const sheet s = lay_out(f, view);
    write_sheet_head(f, &s, out);
    write_legend(f, &s, out);
    point at = {MARGIN, MARGIN + TITLE_HEIGHT + s.legend_height};
    int index = 0;
    for (int i = 0; i < f->panel_count; i++) {
        if (!is_in_view(&f->panels[i], view)) {
            continue;
        }
        if (index > 0 && index % s.columns == 0) {
            at = (point){MARGIN, at.y + row_height(f, &s, index - s.columns)};
        }
        markup_format(out, "<g transform=\"translate(%s %s)\">", svg_number(at.x).text,
                      svg_number(at.y).text);
        write_title(out, "n", panel_title, &f->panels[i].title);
        markup_append(out, &f->panels[i].content);
        markup_raw(out, "</g>\n");
        at.x += s.column + GAP;
        index++;
    }
    markup_raw(out, "</svg>\n");
}
