/* The data of the page: what its figures and sentences are made of, hostile names, half a sweep,
 * files, and failures. How a browser draws it is tested by tests/cli/test_page.sh. */
#include "support/support.h"

#include <grail-study/report.h>

#include "base/file.h"
#include "study/page/data.h"
#include "study/page/page.h"
#include "study/page/sizes.h"
#include "study/page/tsv.h"
#include "support/json_memory.h"
#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Takes the text; the data is released with json_decref. */
static json_t *read_data(buffer *text)
{
    results r = {0};
    aggregate a = {0};
    json_t *data = NULL;
    assert_ok(results_parse("r.jsonl", text->bytes, text->size, &r));
    assert_ok(aggregate_results(&r, &a));
    assert_ok(page_data(&a, &data));
    aggregate_fini(&a);
    results_fini(&r);
    buffer_fini(text);
    return data;
}

static const json_t *table_of(const json_t *data, const char *name)
{
    return json_object_get(json_object_get(data, "tables"), name);
}

static size_t rows_of(const json_t *data, const char *name)
{
    return json_array_size(json_object_get(table_of(data, name), "rows"));
}

/* A value of a table by the name of its column. */
static const json_t *value_at(const json_t *data, const char *name, size_t row, const char *column)
{
    const json_t *table = table_of(data, name);
    const json_t *columns = json_object_get(table, "columns");
    for (size_t i = 0; i < json_array_size(columns); i++) {
        if (strcmp(json_string_value(json_array_get(columns, i)), column) == 0) {
            return json_array_get(json_array_get(json_object_get(table, "rows"), row), i);
        }
    }
    fail_msg("the table '%s' has no column '%s'", name, column);
    return NULL;
}

static double number_at(const json_t *data, const char *name, size_t row, const char *column)
{
    return json_number_value(value_at(data, name, row, column));
}

static const char *text_at(const json_t *data, const char *name, size_t row, const char *column)
{
    return json_string_value(value_at(data, name, row, column));
}

static const json_t *network_at(const json_t *data, size_t index)
{
    return json_array_get(json_object_get(data, "networks"), index);
}

static const json_t *decision_at(const json_t *data, size_t index)
{
    return json_array_get(json_object_get(network_at(data, 0), "decisions"), index);
}

static size_t row_in(const json_t *object, const char *key)
{
    assert_true(json_is_integer(json_object_get(object, key)));
    return (size_t)json_integer_value(json_object_get(object, key));
}

/* The kinds of the figures, in their order. */
static void assert_figures(const json_t *data, const char *expected)
{
    char found[256] = "";
    const json_t *figures = json_object_get(data, "figures");
    for (size_t i = 0; i < json_array_size(figures); i++) {
        const json_t *kind = json_object_get(json_array_get(figures, i), "kind");
        assert_true(strlen(found) + 16 < sizeof found);
        strcat(strcat(found, i == 0 ? "" : " "), json_string_value(kind));
    }
    assert_string_equal(found, expected);
}

static const json_t *comparison_of(const json_t *data, const char *better, const char *worse)
{
    const json_t *all = json_object_get(data, "comparisons");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *one = json_array_get(all, i);
        if (strcmp(json_string_value(json_object_get(one, "better")), better) == 0 &&
            strcmp(json_string_value(json_object_get(one, "worse")), worse) == 0) {
            return one;
        }
    }
    return NULL;
}

static void assert_comparison(const json_t *data, const char *better, const char *worse, int above,
                              int of, int apart, double median)
{
    const json_t *one = comparison_of(data, better, worse);
    assert_non_null(one);
    assert_int_equal(json_integer_value(json_object_get(one, "above")), above);
    assert_int_equal(json_integer_value(json_object_get(one, "of")), of);
    assert_int_equal(json_integer_value(json_object_get(one, "apart")), apart);
    assert_true(fabs(json_number_value(json_object_get(one, "median")) - median) < 1e-9);
}

static void a_sweep_gives_every_figure_and_table(void **state)
{
    (void)state;
    buffer text;
    sweep_fill(&text);
    json_t *data = read_data(&text);
    assert_figures(data, "tradeoff scatter accuracy gain samples sites cost accuracy gain samples "
                         "sites cost");
    assert_int_equal(rows_of(data, "cells"), 164);
    assert_int_equal(rows_of(data, "failures"), 1);
    assert_int_equal(rows_of(data, "dense"), 2);
    assert_int_equal(rows_of(data, "cost"), 2 * 6);
    assert_int_equal(rows_of(data, "sites"), 2 * 2 * 2);
    assert_int_equal(rows_of(data, "healing"), 0);
    assert_string_equal(text_at(data, "failures", 0, "error"), "site 'a.conv' holds a NaN");
    assert_string_equal(text_at(data, "sites", 0, "repair"), "full");
    assert_true(fabs(number_at(data, "sites", 0, "ratio") - 0.5) < 1e-12);
    assert_string_equal(json_string_value(json_object_get(network_at(data, 1), "name")), "second");
    json_decref(data);
}

/* Every row of a figure of samples shares its selector's ratio with another number of samples. */
static void samples_are_compared_at_one_ratio(void **state)
{
    (void)state;
    buffer text;
    sweep_fill(&text);
    json_t *data = read_data(&text);
    const json_t *figure = json_array_get(json_object_get(data, "figures"), 4);
    const json_t *rows = json_object_get(figure, "rows");
    assert_int_equal(json_array_size(rows), 2 * 5 * 2); /* selectors, repairs, numbers of samples */
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const size_t row = (size_t)json_integer_value(json_array_get(rows, i));
        assert_true(fabs(number_at(data, "groups", row, "ratio") - 0.5) < 1e-12);
        assert_string_not_equal(text_at(data, "groups", row, "repair"), "none");
    }
    json_decref(data);
}

static void add_of_choices(buffer *text, const char *compensate, int samples, double sparsity,
                           const char *choices)
{
    assert_ok(buffer_format(text,
                            "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"wanda\", "
                            "\"sparsity\": %g, \"compensate\": \"%s\", \"samples\": %d, "
                            "\"seed\": 0%s}, \"top1\": %.2f}\n",
                            sparsity, compensate, samples, choices,
                            strcmp(compensate, "none") == 0 ? 0.5 : 0.7));
}

/* Most cells have no choices, but more numbers of samples were measured with some. */
static void samples_are_compared_with_the_choices_that_have_most_of_them(void **state)
{
    (void)state;
    static const char bf16[] = ", \"choices\": \"precision=bf16\"";
    buffer text;
    sweep_begin(&text);
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"top1\": 0.9, \"images\": 100}}");
    for (int i = 0; i < 3; i++) {
        add_of_choices(&text, "none", 8, 0.2 + 0.1 * i, "");
        add_of_choices(&text, "full", 8, 0.2 + 0.1 * i, "");
        add_of_choices(&text, "grail", 8, 0.2 + 0.1 * i, "");
    }
    add_of_choices(&text, "full", 16, 0.4, "");
    for (int samples = 8; samples <= 32; samples *= 2) {
        add_of_choices(&text, "none", samples, 0.3, bf16);
        add_of_choices(&text, "full", samples, 0.3, bf16);
    }
    json_t *data = read_data(&text);
    assert_figures(data, "tradeoff scatter accuracy gain samples");
    const json_t *rows =
        json_object_get(json_array_get(json_object_get(data, "figures"), 4), "rows");
    assert_int_equal(json_array_size(rows), 3);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const size_t row = (size_t)json_integer_value(json_array_get(rows, i));
        assert_string_equal(text_at(data, "groups", row, "setting"), "precision=bf16");
    }
    json_decref(data);
}

/* first: dense 85; at 75 % none 42.5, grail 50, full 57.5 (+ 0.5 for the mean of two seeds) */
static void the_largest_gain_is_told(void **state)
{
    (void)state;
    buffer text;
    sweep_fill(&text);
    json_t *data = read_data(&text);
    const size_t row = row_in(network_at(data, 0), "largest_gain");
    assert_string_equal(text_at(data, "groups", row, "selector"), "random");
    assert_string_equal(text_at(data, "groups", row, "repair"), "full");
    assert_true(fabs(number_at(data, "groups", row, "ratio") - 0.75) < 1e-12);
    assert_true(fabs(number_at(data, "groups", row, "plain") - 0.43) < 1e-9);
    /* means of two seeds that are 1 point apart: intervals of 6 points and more */
    assert_comparison(data, "grail", "none", 12, 12, 0, 0.05);
    json_decref(data);
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
    buffer text;
    sweep_begin(&text);
    sweep_add_dense(&text, "a", "net", 0.9);
    add_healed(&text, "none", NULL, 0.1);
    add_healed(&text, "none", "model", 0.6);
    add_healed(&text, "full", NULL, 0.7);
    add_healed(&text, "full", "model", 0.8);
    json_t *data = read_data(&text);
    assert_comparison(data, "full + heal model", "full", 1, 1, 1, 0.1);
    assert_comparison(data, "full + heal model", "heal model", 1, 1, 1, 0.2);
    assert_comparison(data, "heal model", "none", 1, 1, 1, 0.5);
    assert_null(comparison_of(data, "grail", "none"));
    assert_int_equal(rows_of(data, "healing"), 4);
    assert_string_equal(text_at(data, "healing", 0, "repair"), "heal model");
    assert_string_equal(text_at(data, "healing", 0, "trained"), "blocks");
    assert_true(number_at(data, "healing", 0, "steps") == 100.0);
    assert_true(number_at(data, "healing", 0, "loss_before") == 0.5);
    assert_true(number_at(data, "healing", 0, "seconds") == 6.5);
    assert_string_equal(text_at(data, "healing", 1, "trained"), "network");
    assert_true(number_at(data, "healing", 1, "loss_after") == 0.1875);
    assert_string_equal(text_at(data, "cost", 3, "repair"), "full + heal model");
    assert_true(number_at(data, "cost", 3, "heal") == 12.5);
    assert_true(json_is_null(value_at(data, "cost", 0, "heal")));
    json_decref(data);
}

static void the_decision_names_the_largest_cut_of_each_limit(void **state)
{
    (void)state;
    buffer text;
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
    json_t *data = read_data(&text);
    assert_true(json_is_null(json_object_get(decision_at(data, 0), "row")));
    const size_t nearest = row_in(decision_at(data, 0), "nearest");
    assert_string_equal(text_at(data, "groups", nearest, "selector"), "wanda");
    assert_true(fabs(number_at(data, "groups", nearest, "lost") - 1.5) < 1e-9);
    assert_true(fabs(number_at(data, "groups", nearest, "removed") - 0.5) < 1e-9);
    assert_true(fabs(number_at(data, "groups", nearest, "removed_macs") - 0.55) < 1e-9);
    assert_true(json_number_value(json_object_get(decision_at(data, 1), "limit")) == 2.0);
    assert_int_equal(row_in(decision_at(data, 1), "row"), nearest);
    assert_int_equal(json_integer_value(json_object_get(decision_at(data, 1), "alike")), 0);
    const char *command = json_string_value(json_object_get(decision_at(data, 1), "command"));
    assert_non_null(strstr(command, "grail compress p -o narrow --calib CALIBRATION --selector "
                                    "wanda --sparsity 0.5"));
    json_decref(data);
}

static void without_a_dense_network_losses_are_not_known(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add_healed(&text, "full", NULL, 0.7);
    json_t *data = read_data(&text);
    assert_null(json_object_get(network_at(data, 0), "decisions"));
    assert_true(json_is_null(value_at(data, "groups", 0, "lost")));
    assert_true(json_is_null(value_at(data, "dense", 0, "top1")));
    json_decref(data);
}

/* 500 images: about 4 points to each side. */
static void a_winner_lies_beyond_the_intervals_of_the_others(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        buffer text;
        sweep_begin(&text);
        sweep_add_dense(&text, "a", "net", 0.9);
        add_healed(&text, "none", NULL, 0.6);
        add_healed(&text, "grail", NULL, 0.7);
        add_healed(&text, "full", NULL, i == 0 ? 0.73 : 0.8);
        json_t *data = read_data(&text);
        for (size_t row = 0; row < 3; row++) {
            assert_int_equal(json_is_true(value_at(data, "groups", row, "winner")),
                             i == 1 && row == 2);
        }
        json_decref(data);
    }
}

static bool beats(const json_t *data, size_t a, size_t b, const char *size)
{
    const double sign = strcmp(size, "latency") == 0 ? -1.0 : 1.0;
    const double larger =
        sign * (number_at(data, "groups", a, size) - number_at(data, "groups", b, size));
    const double better =
        number_at(data, "groups", a, "value") - number_at(data, "groups", b, "value");
    return larger >= 0.0 && better >= 0.0 && (larger > 0.0 || better > 0.0);
}

/* No group of the network beats one on its line in both size and quality, and whatever is beaten
 * by none is on it; the dense network is the best of accuracy here. */
static void the_pareto_line_holds_what_no_other_beats(void **state)
{
    (void)state;
    buffer text;
    sweep_fill(&text);
    json_t *data = read_data(&text);
    for (int kind = 0; kind < SIZES; kind++) {
        const char *size = size_name((size_kind)kind);
        char column[64];
        snprintf(column, sizeof column, "pareto_%s", size);
        for (size_t i = 0; i < rows_of(data, "groups"); i++) {
            bool beaten = false;
            for (size_t j = 0; j < rows_of(data, "groups"); j++) {
                beaten = beaten || (strcmp(text_at(data, "groups", i, "network"),
                                           text_at(data, "groups", j, "network")) == 0 &&
                                    beats(data, j, i, size));
            }
            const bool on_line = json_is_true(value_at(data, "groups", i, column));
            /* against time the dense network, which was not timed, beats nothing */
            assert_int_equal(on_line, !beaten);
        }
    }
    json_decref(data);
}

static void what_was_not_measured_is_null(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"top1\": 0.9, \"images\": 100}}");
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", \"sparsity\": 0.5, "
                     "\"compensate\": \"full\"}, \"top1\": 0.9, \"images\": 100}");
    json_t *data = read_data(&text);
    static const char *const missing[] = {"removed", "removed_macs", "latency", "gain", "top5"};
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        assert_true(json_is_null(value_at(data, "groups", 0, missing[i])));
    }
    assert_figures(data, "tradeoff accuracy"); /* no gain, no sites, no times */
    json_decref(data);
}

/* Two windows on which one network always has a little less loss than the other, though their
 * losses lie far apart: told apart pair by pair, and not by their own intervals. */
static void outcomes_are_compared_pair_by_pair(void **state)
{
    (void)state;
#define LOSSES(perplexity, losses)                                                                 \
    "\"perplexity\": " perplexity ", \"perplexity_error\": 2, \"windows\": 4, \"losses\": " losses
#define TEXT_CELL(repair, rest)                                                                    \
    "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"obs\", \"sparsity\": 0.5, "                \
    "\"compensate\": "                                                                             \
    "\"" repair "\"}, \"parameters\": 500, " rest "}"
    for (int kept = 0; kept < 2; kept++) {
        buffer text;
        sweep_begin(&text);
        sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"parameters\": 1000, "
                         "\"perplexity\": 5, \"perplexity_error\": 2}}");
        sweep_add(&text, kept != 0
                             ? TEXT_CELL("none", LOSSES("8", "[1, 2, 3, 2.32]"))
                             : TEXT_CELL("none", "\"perplexity\": 8, \"perplexity_error\": 2"));
        sweep_add(&text, kept != 0
                             ? TEXT_CELL("grail", LOSSES("7.5", "[0.95, 1.93, 2.94, 2.24]"))
                             : TEXT_CELL("grail", "\"perplexity\": 7.5, \"perplexity_error\": 2"));
        json_t *data = read_data(&text);
        const size_t row = 1; /* of the repaired group */
        assert_string_equal(text_at(data, "groups", row, "repair"), "grail");
        assert_near(number_at(data, "groups", row, "gain"), 1.0 - 7.5 / 8.0, 1e-9);
        assert_near(number_at(data, "groups", row, "plain"), 8.0, 1e-9);
        assert_true((number_at(data, "groups", row, "gain_low") > 0.0) == (kept != 0));
        assert_true(json_is_true(value_at(data, "groups", row, "winner")) == (kept != 0));
        assert_comparison(data, "grail", "none", 1, 1, kept, 1.0 - 7.5 / 8.0);
        json_decref(data);
    }
}

static void networks_of_text_have_perplexities(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"perplexity\": 6, "
                     "\"perplexity_error\": 0.03, \"parameters\": 1000}}");
    sweep_add(&text,
              "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"wanda\", \"sparsity\": 0.2, "
              "\"compensate\": \"full\"}, \"perplexity\": 6.24, \"perplexity_error\": 0.03, "
              "\"parameters\": 800}");
    json_t *data = read_data(&text);
    assert_string_equal(json_string_value(json_object_get(network_at(data, 0), "measure")),
                        "perplexity");
    assert_true(fabs(number_at(data, "groups", 0, "value") - 6.24) < 1e-9);
    assert_true(fabs(number_at(data, "groups", 0, "lost") - 4.0) < 1e-9);
    assert_true(number_at(data, "cells", 0, "perplexity") == 6.24);
    assert_int_equal(row_in(decision_at(data, 1), "row"), 0); /* at most 5 % more */
    json_decref(data);
}

/* Text of a page with the data; released with buffer_fini. */
static buffer page_of(const json_t *data)
{
    buffer page;
    buffer_init(&page, 1 << 24);
    assert_ok(page_write(data, &page));
    return page;
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at += strlen(part)) {
        count++;
    }
    return count;
}

static void hostile_names_stay_text(void **state)
{
    (void)state;
    static const char name[] = "</script><!--<script>alert(1)</script>\\\"'&\\u0001\\u2028\\t\\n";
    buffer text;
    sweep_begin(&text);
    sweep_add_dense(&text, name, name, 0.9);
    for (int i = 0; i < 2; i++) {
        sweep_cell cell = {.checkpoint = name,
                           .selector = name,
                           .compensate = i == 0 ? "none" : "full",
                           .sparsity = 0.3,
                           .samples = 8,
                           .top1 = 0.1 * (i + 1)};
        sweep_add_cell(&text, &cell);
        cell.sparsity = 0.6;
        sweep_add_failure(&text, &cell, name);
    }
    json_t *data = read_data(&text);
    buffer page = page_of(data);
    const char *html = (const char *)page.bytes;
    const char *begin = strstr(html, "<script id=\"data\"");
    const char *end = strstr(begin, "</script>");
    assert_int_equal(count_of(html, "<script"), 2);
    assert_int_equal(count_of(html, "alert(1)<"), 0);
    assert_int_equal(count_of(html, "\xE2\x80\xA8"), 0);
    assert_null(memchr(begin + 1, '<', (size_t)(end - begin - 1)));
    assert_non_null(strstr(html, "\\u003c/script\\u003e\\u003c!--"));
    buffer tsv;
    buffer_init(&tsv, 1 << 24);
    const json_t *figure = json_array_get(json_object_get(data, "figures"), 0);
    assert_ok(tsv_of_figure(data, figure, &tsv));
    assert_int_equal(count_of((const char *)tsv.bytes, "\n"), 1 + 2);
    assert_int_equal(count_of((const char *)tsv.bytes, "\x01"), 0);
    assert_int_equal(strncmp((const char *)tsv.bytes, TSV_MARK, strlen(TSV_MARK)), 0);
    buffer_fini(&tsv);
    buffer_fini(&page);
    json_decref(data);
}

static void a_sweep_that_has_only_begun_gives_a_page(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    json_t *data = read_data(&text);
    buffer page = page_of(data);
    assert_figures(data, "");
    assert_int_equal(json_array_size(json_object_get(data, "networks")), 0);
    assert_non_null(strstr((const char *)page.bytes, PAGE_MARK));
    assert_true(strstr((const char *)page.bytes, PAGE_MARK) <
                (const char *)page.bytes + PLACE_HEAD - strlen(PAGE_MARK));
    buffer_fini(&page);
    json_decref(data);
    sweep_begin(&text);
    sweep_add_dense(&text, "a", "net", 0.9);
    assert_ok(buffer_append_string(&text, "{\"cell\": {\"chec"));
    data = read_data(&text);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(data, "facts"), "cut_line")), 3);
    json_decref(data);
}

static void cells_without_any_number_give_no_figure(void **state)
{
    (void)state;
    static const char *const names[] = {"none", "grail", "full"};
    buffer text;
    sweep_begin(&text);
    for (int i = 0; i < 3; i++) {
        assert_ok(buffer_format(&text,
                                "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", "
                                "\"sparsity\": 0, \"compensate\": \"%s\"}, \"sites\": "
                                "[{\"name\": \"s\"}]}\n",
                                names[i]));
    }
    json_t *data = read_data(&text);
    assert_figures(data, "");
    assert_int_equal(rows_of(data, "groups"), 3);
    json_decref(data);
}

typedef struct paths {
    char *directory, *results, *html, *tsv;
} paths;

static paths make_paths(void)
{
    paths p = {.directory = support_temporary_directory()};
    assert_ok(path_join(&p.results, p.directory, "r.jsonl"));
    assert_ok(path_join(&p.html, p.directory, "report.html"));
    assert_ok(path_join(&p.tsv, p.directory, "tsv"));
    return p;
}

static void free_paths(paths *p)
{
    support_remove_tree(p->directory);
    memory_free(p->results);
    memory_free(p->html);
    memory_free(p->tsv);
    memory_free(p->directory);
}

static void write_sweep(const paths *p)
{
    buffer text;
    sweep_fill(&text);
    support_write_file(p->directory, "r.jsonl", text.bytes, text.size);
    buffer_fini(&text);
}

static void page_and_tables_are_written(void **state)
{
    (void)state;
    paths p = make_paths();
    grail_report report = {0};
    const grail_report_files files = {.html_path = p.html, .tsv_directory = p.tsv};
    char *name = NULL;
    write_sweep(&p);
    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        assert_ok(grail_report_write(p.results, &files, &report));
    }
    assert_int_equal(report.checkpoints, 2);
    assert_int_equal(report.cells, 164);
    assert_int_equal(report.failed_cells, 1);
    assert_int_equal(report.figures, 12);
    assert_int_equal(report.cut_line, 0);
    assert_true(file_exists(p.html));
    assert_ok(path_join(&name, p.tsv, "03-accuracy-first.tsv"));
    assert_true(file_exists(name));
    memory_free(name);
    free_paths(&p);
}

static void the_results_are_never_replaced(void **state)
{
    (void)state;
    paths p = make_paths();
    char *other = NULL;
    grail_report_files files = {.html_path = p.results};
    write_sweep(&p);
    assert_fails(grail_report_write(p.results, &files, NULL), GRAIL_ERROR_ARGUMENT,
                 "is the results file; choose another name for the report");
    assert_ok(path_join(&other, p.directory, "link"));
    assert_int_equal(link(p.results, other), 0);
    files.html_path = other;
    assert_fails(grail_report_write(p.results, &files, NULL), GRAIL_ERROR_ARGUMENT,
                 "is the results file");
    memory_free(other);
    free_paths(&p);
}

static void what_cannot_be_read_or_written_is_named(void **state)
{
    (void)state;
    paths p = make_paths();
    grail_report_files files = {.html_path = p.html};
    assert_fails(grail_report_write(p.results, &files, NULL), GRAIL_ERROR_IO, "r.jsonl");
    write_sweep(&p);
    files.html_path = "/nowhere/x.html";
    assert_fails(grail_report_write(p.results, &files, NULL), GRAIL_ERROR_IO, "/nowhere/x.html");
    files = (grail_report_files){.html_path = p.html, .tsv_directory = p.results};
    assert_fails(grail_report_write(p.results, &files, NULL), GRAIL_ERROR_EXISTS,
                 "cannot create directory");
    assert_false(file_exists(p.html));
    free_paths(&p);
}

static grail_status write_report(void *context)
{
    const paths *p = context;
    const grail_report_files files = {.html_path = p->html, .tsv_directory = p->tsv};
    return grail_report_write(p->results, &files, NULL);
}

/* Few figures, since each file waits for the disk. */
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
        cmocka_unit_test(a_sweep_gives_every_figure_and_table),
        cmocka_unit_test(samples_are_compared_at_one_ratio),
        cmocka_unit_test(samples_are_compared_with_the_choices_that_have_most_of_them),
        cmocka_unit_test(the_largest_gain_is_told),
        cmocka_unit_test(healing_is_one_more_repair),
        cmocka_unit_test(the_decision_names_the_largest_cut_of_each_limit),
        cmocka_unit_test(without_a_dense_network_losses_are_not_known),
        cmocka_unit_test(a_winner_lies_beyond_the_intervals_of_the_others),
        cmocka_unit_test(the_pareto_line_holds_what_no_other_beats),
        cmocka_unit_test(what_was_not_measured_is_null),
        cmocka_unit_test(outcomes_are_compared_pair_by_pair),
        cmocka_unit_test(networks_of_text_have_perplexities),
        cmocka_unit_test(hostile_names_stay_text),
        cmocka_unit_test(a_sweep_that_has_only_begun_gives_a_page),
        cmocka_unit_test(cells_without_any_number_give_no_figure),
        cmocka_unit_test(page_and_tables_are_written),
        cmocka_unit_test(the_results_are_never_replaced),
        cmocka_unit_test(what_cannot_be_read_or_written_is_named),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
