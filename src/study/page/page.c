#include "study/page/page.h"

#include "base/file.h"
#include "base/output_file.h"
#include "study/page/axis.h"
#include "study/page/decision_page.h"
#include "study/page/describe.h"
#include "study/page/figure.h"
#include "study/page/headline.h"
#include "study/page/plots.h"
#include "study/page/section.h"
#include "study/page/style.h"
#include "study/page/tables.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_SLUG = 40 };

typedef struct page_writer {
    const aggregate *a;
    const char *svg_directory; /* may be NULL */
    markup *page;
    int figures;
} page_writer;

grail_status page_check_place(const char *path, const char *mark)
{
    grail_status status = GRAIL_OK;
    file_map map = {0};
    struct stat info;
    if (lstat(path, &info) != 0) {
        return GRAIL_OK; /* other problems show when the file is written */
    }
    if (!S_ISREG(info.st_mode)) {
        FAIL(GRAIL_ERROR_EXISTS,
             "'%s' is %s, and a report can replace only a regular file; choose another name", path,
             S_ISDIR(info.st_mode)   ? "a directory"
             : S_ISLNK(info.st_mode) ? "a symbolic link"
                                     : "a device or a pipe");
    }
    TRY(file_map_open(&map, path));
    const size_t head = map.size < PAGE_HEAD ? map.size : PAGE_HEAD;
    if (map.size > 0 && memmem(map.data, head, mark, strlen(mark)) == NULL) {
        FAIL(GRAIL_ERROR_EXISTS,
             "'%s' exists and was not written by grail report; choose another name or delete the "
             "file",
             path);
    }
out:
    file_map_close(&map);
    return status;
}

/* A section's name as part of a file name: letters, digits, dots and dashes. */
static void slug(const char *name, char *out)
{
    size_t length = 0;
    for (; *name != 0 && length < MOST_SLUG; name++) {
        const char c = *name;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
        out[length++] = plain ? c : '-';
    }
    out[length] = 0;
}

static grail_status write_svg_file(const page_writer *w, const figure *f, const char *view,
                                   const char *name)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    char file[MOST_SLUG + 64];
    char part[MOST_SLUG + 1];
    markup svg;
    markup_init(&svg, MOST_MARKUP);
    slug(name, part);
    snprintf(file, sizeof file, "%02d-%s%s%s%s%s.svg", w->figures, f->kind, part[0] == 0 ? "" : "-",
             part, view[0] == 0 ? "" : "-by-", view);
    figure_write_svg(f, view, &svg);
    TRY(markup_status(&svg));
    TRY(path_join(&path, w->svg_directory, file));
    TRY(page_check_place(path, FIGURE_MARK));
    TRY(output_file_write(path, svg.bytes.bytes, svg.bytes.size));
out:
    markup_fini(&svg);
    memory_free(path);
    return status;
}

/* `name` tells the figures of one kind apart. */
static grail_status add_figure(page_writer *w, const figure *f, const char *name)
{
    CHECK(figure_status(f));
    if (f->panel_count > 0) {
        w->figures++;
        figure_write_html(f, w->figures, w->page);
        const char *view = figure_view_at(f, 0);
        for (int i = 1; w->svg_directory != NULL && view != NULL; i++) {
            CHECK(write_svg_file(w, f, view, name));
            view = figure_view_at(f, i);
        }
    }
    return markup_status(w->page);
}

static grail_status add_plots(page_writer *w, const section *s)
{
    static const struct {
        const char *kind;
        grail_status (*plot)(const aggregate *a, const section *s, figure *out);
    } plots[] = {
        {"accuracy", plot_accuracy}, {"gain", plot_gain}, {"samples", plot_samples},
        {"sites", plot_sites},       {"cost", plot_cost},
    };
    grail_status status = GRAIL_OK;
    figure f = {0};
    for (size_t i = 0; i < sizeof plots / sizeof plots[0]; i++) {
        figure_init(&f, plots[i].kind);
        TRY(plots[i].plot(w->a, s, &f));
        TRY(add_figure(w, &f, s->name));
        figure_fini(&f);
    }
out:
    figure_fini(&f);
    return status;
}

static grail_status add_section(page_writer *w, int index)
{
    const section *s = &w->a->sections[index];
    if (s->group_count == 0) {
        return GRAIL_OK;
    }
    markup_format(w->page, "<section>\n<h2 id=\"section-%d\">", index + 1);
    markup_text(w->page, s->name);
    markup_raw(w->page, "</h2>\n");
    if (s->is_architecture) {
        markup_format(w->page, "<p>Means over %s of this architecture.</p>\n",
                      count_text(s->checkpoints, "checkpoint").text);
    }
    CHECK(add_plots(w, s));
    table_accuracy(w->a, s, w->page);
    table_cost(s, w->page);
    table_healing(s, w->page);
    markup_raw(w->page, "</section>\n");
    return GRAIL_OK;
}

static bool any_gains(const aggregate *a)
{
    for (int i = 0; i < a->group_count; i++) {
        if (a->groups[i].gain.count > 0) {
            return true;
        }
    }
    return false;
}

static void write_contents(const page_writer *w)
{
    markup_raw(w->page, "<nav aria-label=\"Contents\">");
    markup_raw(w->page, w->a->group_count > 0 ? "<a href=\"#decision\">decision</a> " : "");
    markup_raw(w->page, any_gains(w->a) ? "<a href=\"#repairs\">repairs</a> " : "");
    for (int i = 0; i < w->a->section_count; i++) {
        if (w->a->sections[i].group_count > 0) {
            markup_format(w->page, "<a href=\"#section-%d\">%s</a> ", i + 1,
                          start_of(w->a->sections[i].name, 40).text);
        }
    }
    markup_raw(w->page, "<a href=\"#numbers\">numbers</a></nav>\n");
}

static bool any_heals(const aggregate *a)
{
    for (int i = 0; i < a->section_count; i++) {
        if (section_heals(&a->sections[i])) {
            return true;
        }
    }
    return false;
}

static void write_head(const page_writer *w)
{
    markup_raw(w->page,
               "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
               "<meta name=\"color-scheme\" content=\"light dark\">\n" PAGE_MARK "\n<style>\n");
    style_write_page(w->page);
    markup_raw(w->page,
               "\n</style>\n</head>\n<body>\n<main>\n<h1>Width cut and repaired</h1>\n"
               "<p class=\"by\">Results of a grail sweep: narrowed networks before and after "
               "closed-form repair");
    markup_raw(w->page, any_heals(w->a) ? " and healing.</p>\n" : ".</p>\n");
}

static grail_status write_recipe(const page_writer *w)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    const json_t *recipe = w->a->results->header.recipe;
    buffer_init(&text, MOST_MARKUP);
    if (recipe != NULL) {
        TRY(json_append_indented(recipe, &text));
        markup_raw(w->page, "<details>\n<summary>Recipe</summary>\n<pre>");
        markup_text(w->page, (const char *)text.bytes);
        markup_raw(w->page, "</pre>\n</details>\n");
    }
out:
    buffer_fini(&text);
    return status;
}

static grail_status write_numbers(const page_writer *w)
{
    markup_raw(w->page, "<section>\n<h2 id=\"numbers\">Numbers</h2>\n");
    table_dense(w->a, w->page);
    markup_raw(w->page, "<div id=\"failures\">");
    table_failures(w->a, w->page);
    markup_raw(w->page, "</div>\n");
    table_cells(w->a, w->page);
    const grail_status status = write_recipe(w);
    markup_raw(w->page, "</section>\n");
    return status;
}

/* What all plots against size have on their x axis; style.c shows the panels of the choice. */
static void write_axes(const page_writer *w)
{
    const axis_kind first = axis_first(w->a);
    int count = 0;
    for (int i = 0; i < AXES; i++) {
        count += axis_occurs_anywhere((axis_kind)i, w->a) ? 1 : 0;
    }
    if (count < 2) {
        return;
    }
    markup_raw(w->page, "<fieldset class=\"axes\"><legend>Size by</legend>");
    for (int i = 0; i < AXES; i++) {
        const axis_kind axis = (axis_kind)i;
        if (axis_occurs_anywhere(axis, w->a)) {
            markup_format(
                w->page, "<label><input type=\"radio\" name=\"x\" id=\"x-%s\"%s/> %s</label> ",
                axis_name(axis), axis == first ? " checked=\"checked\"" : "", axis_choice(axis));
        }
    }
    markup_raw(w->page, "</fieldset>\n");
}

static grail_status add_overview_figure(page_writer *w, const char *kind,
                                        grail_status (*plot)(const aggregate *a, figure *out))
{
    grail_status status = GRAIL_OK;
    figure f = {0};
    figure_init(&f, kind);
    TRY(plot(w->a, &f));
    TRY(add_figure(w, &f, ""));
out:
    figure_fini(&f);
    return status;
}

static grail_status write_overview(page_writer *w)
{
    remarks_write(w->a, w->page);
    write_contents(w);
    CHECK(decision_page_write(w->a, w->page));
    write_axes(w);
    CHECK(add_overview_figure(w, "tradeoff", plot_tradeoff));
    facts_write(w->a, w->page);
    if (any_gains(w->a)) {
        markup_raw(w->page, "<section>\n<h2 id=\"repairs\">What repair gives back</h2>\n");
        CHECK(headline_write(w->a, w->page));
        CHECK(add_overview_figure(w, "scatter", plot_scatter));
        markup_raw(w->page, "</section>\n");
    }
    return GRAIL_OK;
}

grail_status page_write(const aggregate *a, const char *svg_directory, markup *page, int *figures)
{
    page_writer w = {.a = a, .svg_directory = svg_directory, .page = page};
    write_head(&w);
    CHECK(write_overview(&w));
    for (int i = 0; i < a->section_count; i++) {
        CHECK(add_section(&w, i));
    }
    CHECK(write_numbers(&w));
    markup_raw(page, "</main>\n<script>");
    style_write_script(page);
    markup_raw(page, "</script>\n</body>\n</html>\n");
    CHECK(markup_status(page));
    *figures = w.figures;
    return GRAIL_OK;
}
