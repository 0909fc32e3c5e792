#include "study/page/chart.h"
#include "study/page/describe.h"
#include "study/page/plots.h"
#include "study/page/section.h"
#include "study/page/series.h"
#include "study/page/short_names.h"

#include <math.h>

enum { LEFT = 132, ROW = 14, MOST_FULL_ROWS = 40, NAME_CHARACTERS = 19, LABEL_HEIGHT = 12 };

/* An output of zeros has error 1. Errors above 2 stand at the end of the axis. */
static const double largest_error = 2.0;

/* The two errors that are shown: on the held-out part where there is one. */
static double error_before(const line_site *s)
{
    return isnan(s->held_before) ? s->fit_before : s->held_before;
}

static double error_after(const line_site *s)
{
    return isnan(s->held_after) ? s->fit_after : s->held_after;
}

/* Copies the sites that have errors to sites[0..], in order, where that is not NULL. Returns their
 * number: the others kept all units, and nothing was fitted to them. */
static int take_shown(const result_cell *cell, const line_site **sites)
{
    int count = 0;
    for (int i = 0; i < cell->site_count; i++) {
        const line_site *s = &cell->sites[i];
        if (!isnan(error_before(s)) || !isnan(error_after(s))) {
            if (sites != NULL) {
                sites[count] = s;
            }
            count++;
        }
    }
    return count;
}

static const result_cell *cell_with_sites(const cell_group *g)
{
    for (int i = 0; g != NULL && i < g->count; i++) {
        if (take_shown(g->cells[i], NULL) > 0) {
            return g->cells[i];
        }
    }
    return NULL;
}

/* The cell of the ratio nearest to a half that has sites; NULL where none has. */
static const result_cell *choose_cell(const section *s, int selector, variant v)
{
    const result_cell *chosen = NULL;
    for (int i = 0; i < s->ratio_count; i++) {
        const double ratio = s->ratios[i];
        const result_cell *cell = cell_with_sites(section_at(s, selector, v, ratio));
        if (cell != NULL && (chosen == NULL || fabs(ratio - 0.5) < fabs(chosen->sparsity - 0.5))) {
            chosen = cell;
        }
    }
    return chosen;
}

static double highest(const result_cell *cell)
{
    double most = 0.01;
    for (int i = 0; i < cell->site_count; i++) {
        most = fmax(most, fmax(error_before(&cell->sites[i]), error_after(&cell->sites[i])));
    }
    return fmin(most, largest_error);
}

static void describe_site(markup *m, const line_site *s)
{
    markup_format(m, "%s\n%s of %s units kept\nheld out: %s to %s\nfit: %s to %s",
                  start_of(s->name, 100).text, number_text(s->kept, 0).text,
                  number_text(s->units, 0).text, number_text(s->held_before, 4).text,
                  number_text(s->held_after, 4).text, number_text(s->fit_before, 4).text,
                  number_text(s->fit_after, 4).text);
}

static void draw_name(const chart *c, const char *name, double y)
{
    svg_text(c->out, "t e", (point){LEFT - 8.0, y + 3.8}, name);
}

/* The names of the sites as they stand beside the rows. */
static grail_status shorten_names(const line_site *const *sites, int count, short_names *out)
{
    grail_status status = GRAIL_OK;
    const char **names = NULL;
    TRY(memory_new(&names, (size_t)count, sizeof names[0]));
    for (int i = 0; i < count; i++) {
        names[i] = sites[i]->name;
    }
    TRY(short_names_make(names, count, NAME_CHARACTERS, out));
out:
    memory_free(names);
    return status;
}

static void draw_site(const chart *c, const line_site *s, const result_cell *cell, double row)
{
    const double before = error_before(s);
    const double after = error_after(s);
    svg_hover_begin(c->out);
    describe_site(c->out, s);
    svg_hover_body(c->out);
    if (!isnan(before) && !isnan(after)) {
        svg_line(c->out, "w", chart_at(c, before, row), chart_at(c, after, row));
    }
    const struct {
        variant v;
        double value;
    } marks[] = {{VARIANT_NONE, before}, {cell->variant, after}};
    for (int i = 0; i < 2; i++) {
        if (!isnan(marks[i].value)) {
            const series_style style = setting_style(cell->selector, marks[i].v);
            svg_group_begin(c->out, style.class);
            chart_marker(c, &style, marks[i].value, row);
            svg_group_end(c->out);
        }
    }
    svg_group_end(c->out);
}

static grail_status draw_panel(const aggregate *a, const result_cell *cell, double most, figure *f)
{
    grail_status status = GRAIL_OK;
    panel *p = NULL;
    const line_site **sites = NULL;
    const int rows = take_shown(cell, NULL);
    const double pitch = rows <= MOST_FULL_ROWS ? ROW : (double)ROW * MOST_FULL_ROWS / rows;
    const int label_every = (int)ceil(LABEL_HEIGHT / pitch);
    const double height = pitch * rows;
    const double top = 28.0;
    short_names names = {0};
    TRY(memory_new(&sites, (size_t)rows, sizeof(const line_site *)));
    take_shown(cell, sites);
    TRY(shorten_names(sites, rows, &names));
    TRY(figure_add_panel(f, CHART_WIDTH, top + height + 40.0, &p));
    markup_format(&p->title, "%s, %s %%", start_of(a->results->selectors[cell->selector], 30).text,
                  ratio_text(cell->sparsity).text);
    const chart on = {
        .out = &p->content,
        .x = scale_linear(0.0, most, 4, LEFT, CHART_RIGHT),
        .y = {.from = 0.0, .to = rows, .start = top, .end = top + height},
        .x_label = "relative error of the output",
        .y_label = "",
    };
    chart_frame(&on);
    for (int i = 0; i < rows; i++) {
        if (i % label_every == 0) {
            draw_name(&on, names.names[i], chart_at(&on, 0.0, i + 0.5).y);
        }
        draw_site(&on, sites[i], cell, i + 0.5);
    }
out:
    memory_free(sites);
    short_names_fini(&names);
    return status;
}

static void describe(const section *s, variant best, figure *f)
{
    markup_format(&f->title, "Error of every site before and after, %s",
                  start_of(s->name, 60).text);
    markup_format(&f->caption,
                  "Relative error of the output that reads each site, before and after the fit "
                  "(%s), at the ratio nearest to 50 %%, measured on held-out calibration data "
                  "where there is some. Sites that were cut are in the order of the network%s. An "
                  "output of zeros "
                  "has an error of 1. Errors above 2 are drawn at 2.",
                  variant_label(best),
                  s->is_architecture ? " and come from the first checkpoint and seed" : "");
    figure_add_key(f, variant_style(VARIANT_NONE), KEY_COLOUR, "before");
    figure_add_key(f, variant_style(best), KEY_COLOUR, "after");
}

grail_status plot_sites(const aggregate *a, const section *s, figure *out)
{
    const result_cell *cells[MOST_SELECTORS] = {NULL};
    const variant best = section_best_variant(s);
    double most = 0.0;
    describe(s, best, out);
    for (int i = 0; i < MOST_SELECTORS; i++) {
        cells[i] = s->selectors[i] ? choose_cell(s, i, best) : NULL;
        most = cells[i] == NULL ? most : fmax(most, highest(cells[i]));
    }
    for (int i = 0; i < MOST_SELECTORS; i++) {
        if (cells[i] != NULL) {
            CHECK(draw_panel(a, cells[i], most, out));
        }
    }
    return GRAIL_OK;
}
