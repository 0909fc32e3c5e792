#include "study/page/chart.h"
#include "study/page/cost.h"
#include "study/page/describe.h"
#include "study/page/plots.h"
#include "study/page/section.h"
#include "study/page/series.h"

#include <math.h>
#include <string.h>

enum { LEAST_LEFT = 108, ROW = 24, BAR = 14, TOP = 28, BELOW = 40, VALUE_WIDTH = 58 };

/* All but the total. */
enum { STAGES = SECONDS_TOTAL };

static const struct {
    const char *name;
    series_style style;
} stages[STAGES] = {
    [SECONDS_CALIBRATE] = {"calibrate", {.class = "q0"}},
    [SECONDS_COMPENSATE] = {"compensate", {.class = "q1"}},
    [SECONDS_HEAL] = {"heal", {.class = "q2"}},
    [SECONDS_EVALUATE] = {"evaluate", {.class = "q3"}},
};

static double stage_seconds(const cost *c, int stage)
{
    return c->seconds[stage].count > 0 ? c->seconds[stage].mean : 0.0;
}

static double all_seconds(const cost *c)
{
    return stage_seconds(c, SECONDS_CALIBRATE) + stage_seconds(c, SECONDS_COMPENSATE) +
           stage_seconds(c, SECONDS_HEAL) + stage_seconds(c, SECONDS_EVALUATE);
}

static bool has_cost(const cost *c)
{
    return all_seconds(c) > 0.0 || c->peak.count > 0;
}

/* Where rows begin: behind the longest of their names. */
static double left_of_rows(const cost *costs)
{
    const double character = 5.8;
    double left = LEAST_LEFT;
    for (int v = 0; v < VARIANTS; v++) {
        if (has_cost(&costs[v])) {
            left = fmax(left, 10.0 + character * (double)strlen(variant_label((variant)v)));
        }
    }
    return left;
}

static void draw_row_name(const chart *c, variant v, double row)
{
    const point start = chart_at(c, 0.0, row);
    svg_text(c->out, "t e", (point){start.x - 8.0, start.y + 3.8}, variant_label(v));
}

static void draw_bar(const chart *c, const char *class, double row, double from, double to)
{
    const point start = chart_at(c, from, row);
    const point end = chart_at(c, to, row);
    svg_group_begin(c->out, class);
    svg_rectangle(c->out, "q", (point){start.x, start.y - BAR / 2.0}, end.x - start.x, BAR);
    svg_group_end(c->out);
}

static void draw_seconds(const chart *c, const cost *costs, variant v, double row)
{
    double from = 0.0;
    for (int i = 0; i < STAGES; i++) {
        const double seconds = stage_seconds(&costs[v], i);
        if (i == SECONDS_HEAL && costs[v].seconds[i].count == 0) {
            continue;
        }
        svg_hover_begin(c->out);
        markup_format(c->out, "%s\n%s: %s on average", variant_label(v), stages[i].name,
                      seconds_text(seconds).text);
        svg_hover_body(c->out);
        draw_bar(c, stages[i].style.class, row, from, from + seconds);
        svg_group_end(c->out);
        from += seconds;
    }
    const point end = chart_at(c, from, row);
    svg_text(c->out, "t y", (point){end.x + 6.0, end.y + 3.8}, seconds_text(from).text);
}

typedef struct byte_unit {
    double size;
    const char *name;
} byte_unit;

static byte_unit memory_unit(double most)
{
    return most < 0.95e9 ? (byte_unit){1e6, "MB"} : (byte_unit){1e9, "GB"};
}

static double most_bytes(const cost *costs)
{
    double most = 0.0;
    for (int v = 0; v < VARIANTS; v++) {
        most = fmax(most, costs[v].peak.count > 0 ? costs[v].peak.most : 0.0);
    }
    return most;
}

static void draw_peak(const chart *c, const cost *costs, variant v, double row)
{
    const double bytes = costs[v].peak.count > 0 ? costs[v].peak.most : 0.0;
    const double shown = bytes / memory_unit(most_bytes(costs)).size;
    const point end = chart_at(c, shown, row);
    draw_bar(c, variant_style(v)->class, row, 0.0, shown);
    svg_text(c->out, "t y", (point){end.x + 6.0, end.y + 3.8}, scaled_text(bytes, "B").text);
}

typedef void (*draw_row)(const chart *c, const cost *costs, variant v, double row);

static grail_status draw_panel(const cost *costs, const char *title, const char *unit, double most,
                               draw_row draw, figure *f)
{
    panel *p = NULL;
    int rows = 0;
    for (int v = 0; v < VARIANTS; v++) {
        rows += has_cost(&costs[v]) ? 1 : 0;
    }
    const double bottom = TOP + (double)ROW * rows;
    CHECK(figure_add_panel(f, CHART_WIDTH, bottom + BELOW, &p));
    markup_raw(&p->title, title);
    const chart on = {
        .out = &p->content,
        .x = scale_linear(0.0, most, 4, left_of_rows(costs), CHART_WIDTH - VALUE_WIDTH),
        .y = {.from = 0.0, .to = rows, .start = TOP, .end = bottom},
        .x_label = unit,
        .y_label = "",
    };
    chart_frame(&on);
    double row = 0.5;
    for (int v = 0; v < VARIANTS; v++) {
        if (has_cost(&costs[v])) {
            draw_row_name(&on, (variant)v, row);
            draw(&on, costs, (variant)v, row);
            row += 1.0;
        }
    }
    return GRAIL_OK;
}

grail_status plot_cost(const aggregate *a, const section *s, figure *out)
{
    cost costs[VARIANTS];
    double most_seconds = 0.0;
    (void)a;
    cost_measure(s, costs);
    for (int v = 0; v < VARIANTS; v++) {
        most_seconds = fmax(most_seconds, all_seconds(&costs[v]));
    }
    markup_format(&out->title, "Time and memory, %s", start_of(s->name, 60).text);
    markup_raw(&out->caption, "Mean seconds per cell in each stage, over selectors, ratios and "
                              "seeds, and the highest peak memory, for each repair.");
    if (most_seconds > 0.0) {
        CHECK(draw_panel(costs, "Time", "seconds", most_seconds, draw_seconds, out));
        for (int i = 0; i < STAGES; i++) {
            if (i != SECONDS_HEAL || section_heals(s)) {
                figure_add_key(out, &stages[i].style, KEY_COLOUR, stages[i].name);
            }
        }
    }
    const double most = most_bytes(costs);
    if (most > 0.0) {
        const byte_unit shown = memory_unit(most);
        CHECK(draw_panel(costs, "Peak memory", shown.name, most / shown.size, draw_peak, out));
    }
    return GRAIL_OK;
}
