/* The complete report: what it shows, hostile names, half a sweep, files, and failures. */
#include "support/support.h"

#include <grail-study/report.h>

#include "base/file.h"
#include "study/page/page.h"
#include "support/json_memory.h"
#include "sweep.h"
#include "well_formed.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Takes the text; the page is released with markup_fini. */
static markup render(buffer *text, int *figures)
{
    results r = {0};
    aggregate a = {0};
    markup page;
    markup_init(&page, 1 << 24);
    assert_ok(results_parse("r.jsonl", text->bytes, text->size, &r));
    assert_ok(aggregate_results(&r, &a));
    assert_ok(page_write(&a, NULL, &page, figures));
    aggregate_fini(&a);
    results_fini(&r);
    buffer_fini(text);
    return page;
}

static const char *text_of(const markup *page)
{
    return (const char *)page->bytes.bytes;
}

/* The links at the top are in the order of what they lead to. */
static void assert_in_order(const char *html)
{
    const char *link = strstr(html, "<nav");
    const char *place = html;
    const char *end = strstr(link, "</nav>");
    int links = 0;
    while ((link = strstr(link, "href=\"#")) != NULL && link < end) {
        char id[64];
        link += strlen("href=\"#");
        snprintf(id, sizeof id, "id=\"%.*s\"", (int)strcspn(link, "\""), link);
        place = strstr(place, id);
        if (place == NULL) {
            fail_msg("%s is missing, or before what is linked before it", id);
            return;
        }
        links++;
    }
    assert_true(links >= 3);
}

static void a_sweep_gives_every_plot_and_table(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_fill(&text);
    markup page = render(&text, &figures);
    assert_in_order(text_of(&page));
    const char *html = text_of(&page);
    assert_well_formed(html);
    assert_int_equal(figures, 2 + 2 * 5);
    static const char *const parts[] = {"<h3>Before and after</h3>",
                                        "<h3>Accuracy against size</h3>",
                                        "<h3>Accuracy against size, first</h3>",
                                        "<h3>Gain against size, second</h3>",
                                        "<h3>Gain against calibration samples, first</h3>",
                                        "<h3>Error of every site before and after, first</h3>",
                                        "<h3>Time and memory, second</h3>",
                                        "Top-1 accuracy in %, first, 64 samples, closed loop",
                                        "Dense checkpoints",
                                        "Cells that failed",
                                        "site &#39;a.conv&#39; holds a NaN",
                                        "All 164 measured cells",
                                        "&quot;note&quot;: &quot;&lt;b&gt;&quot;",
                                        "a &amp; b",
                                        "prefers-color-scheme:dark",
                                        "@media print"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(html, parts[i]) == NULL) {
            fail_msg("the page lacks: %s", parts[i]);
        }
    }
    assert_int_equal(count_of(html, "<script>"), 1);
    assert_int_equal(count_of(html, "http"), 0); /* nothing from the network */
    markup_fini(&page);
}

/* first: dense 85; at 75 % none 42.5, grail 50, full 57.5 (+ 0.5 for the mean of two seeds) */
static void the_largest_gain_is_told(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_fill(&text);
    markup page = render(&text, &figures);
    assert_non_null(strstr(text_of(&page),
                           "<i>first</i>, 85.0\xC2\xA0% top-1 when dense: with 75\xC2\xA0% of the "
                           "units removed by random, the plain cut keeps 43.0\xC2\xA0%"));
    /* means of two seeds that are 1 point apart: intervals of 6 points and more */
    assert_non_null(strstr(text_of(&page),
                           "grail is above none in 12 of 12 (by more than both intervals in 0; "
                           "median difference 5.0\xC2\xA0points)"));
    markup_fini(&page);
}

static void add_healed(buffer *text, const char *compensate, const char *heal, double top1)
{
    const sweep_cell cell = {.checkpoint = "a",
                             .selector = "wanda",
                             .compensate = compensate,
                             .heal = heal,
                             .sparsity = 0.5,
                             .samples = 64,
                             .top1 = top1};
    sweep_add_cell(text, &cell);
}

static void healing_is_one_more_repair(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "before and after closed-form repair and healing.",
        "full 70.0\xC2\xA0%, heal model 60.0\xC2\xA0%, full + heal model 80.0\xC2\xA0%",
        "full + heal model is above full in 1 of 1 (by more than both intervals in 1; median "
        "difference 10.0\xC2\xA0points)",
        "full + heal model is above heal model in 1 of 1 (by more than both intervals in 1; median "
        "difference 20.0\xC2\xA0points)",
        "heal model is above none in 1 of 1",
        "<th scope=\"col\">full + heal model</th>",                   /* accuracy */
        "<th scope=\"col\">heal</th><th scope=\"col\">evaluate</th>", /* time */
        "full + heal model\nheal: 12.5\xC2\xA0s on average",          /* a bar of it */
        "healed in 12.5\xC2\xA0s",                                    /* a marker */
        "</th><td "
        "class=\"text\">blocks</td><td>100</td><td>0.5000</td><td>0.3750</td><td>6.50\xC2\xA0s</"
        "td>",
        "</th><td "
        "class=\"text\">network</td><td>160</td><td>0.3125</td><td>0.1875</td><td>6.00\xC2\xA0s</"
        "td>",
    };
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    sweep_add_dense(&text, "a", "net", 0.9);
    add_healed(&text, "none", NULL, 0.1);
    add_healed(&text, "none", "model", 0.6);
    add_healed(&text, "full", NULL, 0.7);
    add_healed(&text, "full", "model", 0.8);
    markup page = render(&text, &figures);
    assert_well_formed(text_of(&page));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(text_of(&page), parts[i]) == NULL) {
            fail_msg("the page lacks: %s", parts[i]);
        }
    }
    markup_fini(&page);
}

static void a_page_without_healing_does_not_speak_of_it(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_fill(&text);
    markup page = render(&text, &figures);
    assert_int_equal(count_of(text_of(&page), "heal"), 0);
    markup_fini(&page);
}

static void the_page_opens_with_the_decision(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    sweep_add_dense(&text, "a", "net", 0.9);
    const sweep_cell good = {.checkpoint = "a",
                             .selector = "wanda",
                             .compensate = "full",
                             .sparsity = 0.5,
                             .samples = 64,
                             .top1 = 0.885};
    sweep_cell bad = good;
    bad.selector = "random";
    bad.top1 = 0.5;
    sweep_add_cell(&text, &good);
    sweep_add_cell(&text, &bad);
    markup page = render(&text, &figures);
    const char *html = text_of(&page);
    static const char *const parts[] = {
        "<p>Dense: top-1 90.0\xC2\xA0% (87.1 to 92.3), 1.00\xC2\xA0k parameters, 2.00\xC2\xA0k "
        "MACs.</p>",
        "<h4>at most 1 point lost</h4>\n<p class=\"cut\">none of the measured cuts</p>\n<p>The one "
        "that "
        "comes nearest removes 50.0\xC2\xA0% of the parameters and loses 1.5 points (-2.4 to "
        "5.4).</p>",
        "<h4>at most 2 points lost</h4>\n<p class=\"cut\">50.0\xC2\xA0% of the parameters "
        "removed</p>",
        "<p>50\xC2\xA0% of the units asked for, 55.0\xC2\xA0% of the MACs removed</p>",
        "Within its interval it may lose more than 2 points.",
        "<p>selector wanda, repair full, 64 samples, closed loop</p>",
        "<code>grail compress p <span>-o narrow</span> <span>--calib CALIBRATION</span> "
        "<span>--selector "
        "wanda</span> <span>--sparsity 0.5</span>",
        "The same cut as before.",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(html, parts[i]) == NULL) {
            fail_msg("the page lacks: %s", parts[i]);
        }
    }
    assert_true(strstr(html, "How far can it be cut?") < strstr(html, "<figure"));
    assert_int_equal(count_of(html, "<pre class=\"command\">"), 1);
    /* the dense network at 0 % and 90.0 of 0..100, where every line begins */
    assert_non_null(strstr(html, "<g class=\"d\"><path class=\"i\" d=\"M40.0 66."));
    assert_non_null(strstr(html, "<path class=\"l\" d=\"M40.0 61.8L"));
    assert_well_formed(html);
    markup_fini(&page);
}

/* Lines break behind hyphens, also between those of an option. */
static void options_with_long_values_stay_whole(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    buffer_init(&text, 1 << 24);
    sweep_add(&text, "{\"grail_results\": 1, \"recipe\": {\"calibration\": {\"path\": "
                     "\"/a/directory/with-a-long-name/of-images\"}}, \"started\": \"now\", "
                     "\"machine\": {\"cpu\": \"a\", \"threads\": 2}, \"version\": \"0.1.0\"}");
    sweep_add_dense(&text, "a", "net", 0.9);
    const sweep_cell cell = {.checkpoint = "a",
                             .selector = "wanda",
                             .compensate = "full",
                             .sparsity = 0.5,
                             .samples = 64,
                             .top1 = 0.9};
    sweep_add_cell(&text, &cell);
    markup page = render(&text, &figures);
    assert_non_null(strstr(text_of(&page), "<span>--calib</span> /a/directory/with-a-long-name/"
                                           "of-images <span>--selector wanda</span>"));
    markup_fini(&page);
}

static void without_a_dense_network_losses_are_not_known(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    add_healed(&text, "full", NULL, 0.7);
    markup page = render(&text, &figures);
    assert_non_null(strstr(text_of(&page), "The dense network was not measured"));
    assert_int_equal(count_of(text_of(&page), "class=\"command\""), 0);
    assert_int_equal(count_of(text_of(&page), "nan"), 0);
    assert_well_formed(text_of(&page));
    markup_fini(&page);
}

/* 500 images: about 4 points to each side. */
static void a_winner_is_bold_only_beyond_the_intervals(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        buffer text;
        int figures = 0;
        sweep_begin(&text);
        sweep_add_dense(&text, "a", "net", 0.9);
        add_healed(&text, "none", NULL, 0.6);
        add_healed(&text, "grail", NULL, 0.7);
        add_healed(&text, "full", NULL, i == 0 ? 0.73 : 0.8);
        markup page = render(&text, &figures);
        assert_int_equal(count_of(text_of(&page), "<td><b>"), i);
        assert_int_equal(count_of(text_of(&page), "<td><b>80.0</b><small>76.3\xE2\x80\x93"), i);
        markup_fini(&page);
    }
}

static void the_reader_chooses_the_axis(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_fill(&text);
    markup page = render(&text, &figures);
    static const char *const axes[] = {"cut", "parameters", "macs", "time"};
    for (size_t i = 0; i < 4; i++) {
        char part[64];
        snprintf(part, sizeof part, "name=\"x\" id=\"x-%s\"%s/>", axes[i],
                 i == 1 ? " checked=\"checked\"" : "");
        assert_int_equal(count_of(text_of(&page), part), 1);
        snprintf(part, sizeof part, "main:has(.axes :checked:not(#x-%s)) .x-%s{display:none}",
                 axes[i], axes[i]);
        assert_int_equal(count_of(text_of(&page), part), 1);
        /* all settings, then a panel for each of two selectors and five repairs, of two networks */
        snprintf(part, sizeof part, "<svg class=\"x-%s\"", axes[i]);
        assert_in_range(count_of(text_of(&page), part), 2 + 2 * (2 + 5), 4 + 2 * (2 + 5));
    }
    markup_fini(&page);
}

/* Without parameters, MACs and times there is nothing to choose from. */
static void an_axis_that_was_not_measured_is_not_offered(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"top1\": 0.9, \"images\": 100}}");
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", \"sparsity\": 0.5, "
                     "\"compensate\": \"full\"}, \"top1\": 0.9, \"images\": 100}");
    markup page = render(&text, &figures);
    assert_int_equal(count_of(text_of(&page), "<fieldset"), 0);
    assert_int_equal(count_of(text_of(&page), "<svg class=\"x-parameters\""), 0);
    assert_int_equal(count_of(text_of(&page), "<svg class=\"x-cut\""), 3);
    assert_non_null(strstr(text_of(&page), "50.0\xC2\xA0% of the units removed"));
    markup_fini(&page);
}

static void networks_of_text_have_perplexities(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"perplexity\": 6, "
                     "\"perplexity_error\": 0.03, \"parameters\": 1000}}");
    for (int i = 0; i < 2; i++) {
        assert_ok(
            buffer_format(&text,
                          "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"wanda\", "
                          "\"sparsity\": 0.%d, \"compensate\": \"full\"}, \"perplexity\": %s, "
                          "\"perplexity_error\": 0.03, \"parameters\": %d}\n",
                          i + 2, i == 0 ? "6.24" : "900", 800 - 100 * i));
    }
    markup page = render(&text, &figures);
    const char *html = text_of(&page);
    static const char *const parts[] = {
        ("<h4>at most 5\xC2\xA0% more perplexity</h4>\n<p class=\"cut\">20.0\xC2\xA0% of the "
         "parameters"),
        "perplexity 6.240 (6.181 to 6.299): has 4.0\xC2\xA0% (2.6 to 5.4) more",
        "<h3>Perplexity against size</h3>",
        "<h3>Perplexity against size, a</h3>",
        "<h3>Perplexity, a,",
        "dense 6.000</text>",
        "+5 %</text>"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(html, parts[i]) == NULL) {
            fail_msg("the page lacks: %s", parts[i]);
        }
    }
    assert_int_equal(count_of(html, "nan"), 0);
    assert_well_formed(html);
    markup_fini(&page);
}

/* A site that kept all its units has no errors, and no row. */
static void sites_keep_what_tells_them_apart(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", \"sparsity\": 0.5, "
                     "\"compensate\": \"full\"}, \"top1\": 0.9, \"sites\": [{\"name\": "
                     "\"vit.encoder.layer.0.attention.output.dense\", \"fit_before\": 0.5}, "
                     "{\"name\": \"vit.encoder.layer.9.attention.output.dense\"}, {\"name\": "
                     "\"vit.encoder.layer.10.attention.output.dense\", \"fit_before\": 0.5}]}");
    markup page = render(&text, &figures);
    assert_non_null(strstr(text_of(&page), ">0.attenti\xE2\x80\xA6put.dense</text>"));
    assert_non_null(strstr(text_of(&page), ">10.attent\xE2\x80\xA6put.dense</text>"));
    assert_null(strstr(text_of(&page), ">9.atten"));
    markup_fini(&page);
}

static void hostile_names_stay_text(void **state)
{
    (void)state;
    static const char name[] = "</title></script><script>alert(1)</script>\\\"'&\\u0001\\u202e";
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    sweep_add_dense(&text, name, name, 0.9);
    for (int i = 0; i < 4; i++) {
        const sweep_cell cell = {.checkpoint = name,
                                 .selector = name,
                                 .compensate = i % 2 == 0 ? "none" : "full",
                                 .sparsity = 0.3 + 0.3 * (i / 2),
                                 .samples = 8,
                                 .top1 = 0.1 * (i + 1)};
        sweep_add_cell(&text, &cell);
        if (i == 3) {
            sweep_add_failure(&text, &cell, name);
        }
    }
    markup page = render(&text, &figures);
    assert_well_formed(text_of(&page));
    assert_int_equal(count_of(text_of(&page), "<script"), 1);
    assert_int_equal(count_of(text_of(&page), "\xE2\x80\xAE"), 0);
    assert_int_equal(count_of(text_of(&page), "alert(1)"),
                     count_of(text_of(&page), "&lt;script&gt;alert(1)"));
    markup_fini(&page);
}

static void a_sweep_that_has_only_begun_gives_a_page(void **state)
{
    (void)state;
    buffer text;
    int figures = -1;
    sweep_begin(&text);
    markup empty = render(&text, &figures);
    assert_well_formed(text_of(&empty));
    assert_int_equal(figures, 0);
    assert_non_null(strstr(text_of(&empty), "No cell has been measured yet"));
    markup_fini(&empty);
    sweep_begin(&text);
    sweep_add_dense(&text, "a", "net", 0.9);
    assert_ok(buffer_append_string(&text, "{\"cell\": {\"chec"));
    markup page = render(&text, &figures);
    assert_well_formed(text_of(&page));
    assert_non_null(
        strstr(text_of(&page), "The file ends within line 3. The report leaves this line out"));
    markup_fini(&page);
}

static void cells_without_any_number_give_a_page(void **state)
{
    (void)state;
    buffer text;
    int figures = 0;
    sweep_begin(&text);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"none", "grail", "full"};
        assert_ok(buffer_format(&text,
                                "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", "
                                "\"sparsity\": 0, \"compensate\": \"%s\"}, \"sites\": "
                                "[{\"name\": \"s\"}]}\n",
                                names[i]));
    }
    markup page = render(&text, &figures);
    assert_well_formed(text_of(&page));
    assert_int_equal(count_of(text_of(&page), "nan"), 0);
    assert_int_equal(count_of(text_of(&page), "inf"), 0);
    markup_fini(&page);
}

typedef struct paths {
    char *directory, *results, *html, *svg;
} paths;

static paths make_paths(void)
{
    paths p = {.directory = support_temporary_directory()};
    assert_ok(path_join(&p.results, p.directory, "r.jsonl"));
    assert_ok(path_join(&p.html, p.directory, "report.html"));
    assert_ok(path_join(&p.svg, p.directory, "svg"));
    return p;
}

static void free_paths(paths *p)
{
    support_remove_tree(p->directory);
    memory_free(p->results);
    memory_free(p->html);
    memory_free(p->svg);
    memory_free(p->directory);
}

static void write_sweep(const paths *p)
{
    buffer text;
    sweep_fill(&text);
    support_write_file(p->directory, "r.jsonl", text.bytes, text.size);
    buffer_fini(&text);
}

static void page_and_figures_are_written(void **state)
{
    (void)state;
    paths p = make_paths();
    grail_report report = {0};
    char *name = NULL;
    buffer svg = {0};
    write_sweep(&p);
    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        assert_ok(grail_report_write(p.results, p.html, p.svg, &report));
    }
    assert_int_equal(report.checkpoints, 2);
    assert_int_equal(report.cells, 164);
    assert_int_equal(report.failed_cells, 1);
    assert_int_equal(report.figures, 12);
    assert_int_equal(report.cut_line, 0);
    assert_true(file_exists(p.html));
    assert_ok(path_join(&name, p.svg, "03-accuracy-first-by-macs.svg"));
    assert_ok(file_read(name, 1 << 24, &svg));
    assert_well_formed((const char *)svg.bytes);
    buffer_fini(&svg);
    memory_free(name);
    free_paths(&p);
}

static void the_results_are_never_replaced(void **state)
{
    (void)state;
    paths p = make_paths();
    char *other = NULL;
    write_sweep(&p);
    assert_fails(grail_report_write(p.results, p.results, NULL, NULL), GRAIL_ERROR_ARGUMENT,
                 "is the results file; choose another name for the report");
    assert_ok(path_join(&other, p.directory, "link"));
    assert_int_equal(link(p.results, other), 0);
    assert_fails(grail_report_write(p.results, other, NULL, NULL), GRAIL_ERROR_ARGUMENT,
                 "is the results file");
    memory_free(other);
    free_paths(&p);
}

static void what_cannot_be_read_or_written_is_named(void **state)
{
    (void)state;
    paths p = make_paths();
    assert_fails(grail_report_write(p.results, p.html, NULL, NULL), GRAIL_ERROR_IO, "r.jsonl");
    write_sweep(&p);
    assert_fails(grail_report_write(p.results, "/nowhere/x.html", NULL, NULL), GRAIL_ERROR_IO,
                 "/nowhere/x.html");
    assert_fails(grail_report_write(p.results, p.html, p.results, NULL), GRAIL_ERROR_EXISTS,
                 "cannot create directory");
    assert_false(file_exists(p.html));
    free_paths(&p);
}

static grail_status write_report(void *context)
{
    const paths *p = context;
    return grail_report_write(p->results, p->html, p->svg, NULL);
}

/* One axis alone, since every file of a figure waits for the disk. */
static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    paths p = make_paths();
    buffer text;
    sweep_begin(&text);
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"top1\": 0.9, \"images\": 100}}");
    for (int i = 0; i < 4; i++) {
        assert_ok(buffer_format(&text,
                                "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"random\", "
                                "\"sparsity\": 0.5, \"compensate\": \"%s\", \"samples\": %d, "
                                "\"seed\": %d}, \"top1\": 0.%d, \"sites\": [{\"name\": \"s\", "
                                "\"fit_before\": 0.5, \"fit_after\": 0.1}]}\n",
                                i == 0 ? "none" : "full", i == 3 ? 4 : 8, i == 2, 6 + i));
    }
    support_write_file(p.directory, "r.jsonl", text.bytes, text.size);
    buffer_fini(&text);
    support_fail_each_allocation(write_report, &p);
    free_paths(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sweep_gives_every_plot_and_table),
        cmocka_unit_test(the_largest_gain_is_told),
        cmocka_unit_test(healing_is_one_more_repair),
        cmocka_unit_test(a_page_without_healing_does_not_speak_of_it),
        cmocka_unit_test(the_page_opens_with_the_decision),
        cmocka_unit_test(options_with_long_values_stay_whole),
        cmocka_unit_test(without_a_dense_network_losses_are_not_known),
        cmocka_unit_test(a_winner_is_bold_only_beyond_the_intervals),
        cmocka_unit_test(the_reader_chooses_the_axis),
        cmocka_unit_test(an_axis_that_was_not_measured_is_not_offered),
        cmocka_unit_test(networks_of_text_have_perplexities),
        cmocka_unit_test(sites_keep_what_tells_them_apart),
        cmocka_unit_test(hostile_names_stay_text),
        cmocka_unit_test(a_sweep_that_has_only_begun_gives_a_page),
        cmocka_unit_test(cells_without_any_number_give_a_page),
        cmocka_unit_test(page_and_figures_are_written),
        cmocka_unit_test(the_results_are_never_replaced),
        cmocka_unit_test(what_cannot_be_read_or_written_is_named),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
