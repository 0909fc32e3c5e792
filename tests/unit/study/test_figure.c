/* Figures: one drawing in the page and as a file, with names that would break either. */
#include "support/support.h"

#include "study/page/chart.h"
#include "study/page/figure.h"
#include "study/page/series.h"
#include "well_formed.h"

#include <string.h>

static const char hostile[] = "</title><script>alert(1)</script>\"'&\x01";

static void add_panel(figure *f, const char *title)
{
    panel *p = NULL;
    assert_ok(figure_add_panel(f, CHART_WIDTH, CHART_HEIGHT, &p));
    markup_text(&p->title, title);
    const chart c = {.out = &p->content,
                     .x = scale_linear(0.0, 100.0, 5, CHART_LEFT, CHART_RIGHT),
                     .y = scale_linear(0.0, 100.0, 5, CHART_BOTTOM, CHART_TOP),
                     .x_label = "x",
                     .y_label = "y"};
    chart_frame(&c);
    svg_hover_begin(c.out);
    markup_text(c.out, hostile);
    svg_hover_body(c.out);
    chart_marker(&c, variant_style(VARIANT_FULL), 50.0, 25.0);
    svg_group_end(c.out);
}

static figure hostile_figure(int panels)
{
    figure f;
    figure_init(&f, "accuracy");
    markup_text(&f.title, hostile);
    markup_text(&f.caption, hostile);
    for (int i = 0; i < panels; i++) {
        add_panel(&f, hostile);
    }
    figure_add_key(&f, variant_style(VARIANT_NONE), KEY_LINE, hostile);
    assert_ok(figure_status(&f));
    return f;
}

static void a_file_of_its_own_is_well_formed(void **state)
{
    (void)state;
    for (int panels = 1; panels <= 7; panels++) {
        figure f = hostile_figure(panels);
        markup svg;
        markup_init(&svg, 1 << 20);
        figure_write_svg(&f, "", &svg);
        assert_ok(markup_status(&svg));
        const char *text = (const char *)svg.bytes.bytes;
        assert_well_formed(text);
        assert_int_equal(count_of(text, "<script"), 0);
        assert_int_equal(count_of(text, "transform=\"translate("), panels);
        assert_int_equal(count_of(text, "var("), 0); /* stands without a page's variables */
        markup_fini(&svg);
        figure_fini(&f);
    }
}

static void in_the_page_every_panel_has_a_name(void **state)
{
    (void)state;
    figure f = hostile_figure(2);
    markup page;
    markup_init(&page, 1 << 20);
    figure_write_html(&f, 3, &page);
    assert_ok(markup_status(&page));
    const char *text = (const char *)page.bytes.bytes;
    assert_well_formed(text);
    assert_int_equal(count_of(text, "role=\"img\" aria-label=\"&lt;/title"), 2);
    assert_int_equal(count_of(text, ": &lt;/title"), 2); /* the figure's, then the panel's */
    assert_int_equal(count_of(text, "<script"), 0);
    assert_non_null(strstr(text, "Figure 3."));
    markup_fini(&page);
    figure_fini(&f);
}

/* Two panels of one view, one of another, and one of all. */
static figure figure_with_views(void)
{
    figure f = hostile_figure(4);
    f.panels[0].view = "parameters";
    f.panels[1].view = "macs";
    f.panels[2].view = "parameters";
    return f;
}

static void every_view_is_a_file_of_its_own(void **state)
{
    (void)state;
    static const struct {
        const char *view;
        int panels;
    } expected[] = {{"parameters", 3}, {"macs", 2}};
    figure f = figure_with_views();
    for (int i = 0; i < 2; i++) {
        markup svg;
        markup_init(&svg, 1 << 20);
        assert_string_equal(figure_view_at(&f, i), expected[i].view);
        figure_write_svg(&f, expected[i].view, &svg);
        const char *text = (const char *)svg.bytes.bytes;
        assert_well_formed(text);
        assert_int_equal(count_of(text, "transform=\"translate("), expected[i].panels);
        assert_int_equal(count_of(text, "translate(20.0 "), 1); /* one row */
        markup_fini(&svg);
    }
    assert_null(figure_view_at(&f, 2));
    figure_fini(&f);
}

static void in_the_page_panels_have_the_class_of_their_view(void **state)
{
    (void)state;
    figure f = figure_with_views();
    markup page;
    markup_init(&page, 1 << 20);
    figure_write_html(&f, 1, &page);
    const char *text = (const char *)page.bytes.bytes;
    assert_well_formed(text);
    assert_int_equal(count_of(text, "<svg class=\"x-parameters\" "), 2);
    assert_int_equal(count_of(text, "<svg class=\"x-macs\" "), 1);
    assert_int_equal(count_of(text, "panels four"), 0); /* three are shown at once */
    markup_fini(&page);
    figure_fini(&f);
}

static void a_legend_shows_colours_and_markers(void **state)
{
    (void)state;
    figure f = hostile_figure(1);
    markup page;
    markup_init(&page, 1 << 20);
    figure_add_key(&f, variant_style(VARIANT_FULL), KEY_COLOUR, "colour");
    figure_add_key(&f, selector_style(1), KEY_MARKER, "marker");
    figure_write_html(&f, 1, &page);
    const char *text = (const char *)page.bytes.bytes;
    assert_non_null(strstr(text, "<g class=\"v4\"><rect class=\"q\""));
    assert_int_equal(count_of(text, "<path class=\"l\""), 1); /* of the series alone */
    markup_fini(&page);
    figure_fini(&f);
}

static void an_interval_is_drawn_where_it_is_known(void **state)
{
    (void)state;
    const estimate known = {50.0, 40.0, 75.0};
    const estimate unknown = {50.0, NOT_MEASURED, NOT_MEASURED};
    markup out;
    markup_init(&out, 1 << 20);
    const chart c = {.out = &out,
                     .x = scale_linear(0.0, 100.0, 5, 0.0, 100.0),
                     .y = scale_linear(0.0, 100.0, 5, 200.0, 0.0)};
    chart_interval(&c, 20.0, &unknown);
    assert_int_equal(out.bytes.size, 0);
    chart_interval(&c, 20.0, &known);
    assert_string_equal((const char *)out.bytes.bytes,
                        "<path class=\"i\" d=\"M20.0 120.0L20.0 50.0M17.5 120.0L22.5 120.0M17.5 "
                        "50.0L22.5 50.0\"/>");
    markup_fini(&out);
}

static void values_stand_at_their_places(void **state)
{
    (void)state;
    figure f = hostile_figure(1);
    /* x 50 of 0..100 between 40 and 326; y 25 of 0..100 between 204 and 46 */
    assert_non_null(strstr((const char *)f.panels[0].content.bytes.bytes,
                           "<circle class=\"p\" r=\"8\" cx=\"183.0\" cy=\"164.5\"/>"));
    figure_fini(&f);
}

static void a_failed_append_in_any_panel_is_told(void **state)
{
    (void)state;
    figure f = hostile_figure(2);
    f.panels[1].content.bytes.maximum = f.panels[1].content.bytes.size;
    markup_raw(&f.panels[1].content, "more");
    assert_fails(figure_status(&f), GRAIL_ERROR_FORMAT, "more than the allowed");
    figure_fini(&f);
}

/* Without their colours: marker, hollow or not, and dash. */
static bool looks_alike(const series_style *a, const series_style *b)
{
    const char *dash_a = a->dash == NULL ? "" : a->dash;
    const char *dash_b = b->dash == NULL ? "" : b->dash;
    return a->shape == b->shape && a->hollow == b->hollow && strcmp(dash_a, dash_b) == 0;
}

static void series_differ_without_their_colours(void **state)
{
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        for (int j = 0; j < i; j++) {
            assert_false(looks_alike(variant_style((variant)i), variant_style((variant)j)));
        }
    }
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < i; j++) {
            assert_false(looks_alike(selector_style(i), selector_style(j)));
        }
    }
}

/* A colour belongs to a variant, and a marker to a selector, whatever the figure. */
static void a_setting_has_the_colour_of_its_repair_and_the_marker_of_its_selector(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        for (int v = 0; v < VARIANTS; v++) {
            const series_style style = setting_style(i, (variant)v);
            assert_string_equal(style.class, variant_style((variant)v)->class);
            assert_int_equal(style.shape, selector_style(i)->shape);
            assert_int_equal(style.hollow, selector_style(i)->hollow);
            assert_string_not_equal(style.class, selector_style(i)->class);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_its_own_is_well_formed),
        cmocka_unit_test(in_the_page_every_panel_has_a_name),
        cmocka_unit_test(every_view_is_a_file_of_its_own),
        cmocka_unit_test(in_the_page_panels_have_the_class_of_their_view),
        cmocka_unit_test(a_legend_shows_colours_and_markers),
        cmocka_unit_test(an_interval_is_drawn_where_it_is_known),
        cmocka_unit_test(values_stand_at_their_places),
        cmocka_unit_test(a_failed_append_in_any_panel_is_told),
        cmocka_unit_test(series_differ_without_their_colours),
        cmocka_unit_test(a_setting_has_the_colour_of_its_repair_and_the_marker_of_its_selector),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
