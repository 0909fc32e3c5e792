/* Results files: what a line says, files that end early, and lines that are refused. */
#include "support/support.h"

#include "study/fields.h"
#include "study/results/line_text.h"
#include "study/results/results.h"
#include "support/json_memory.h"
#include "sweep.h"

#include <math.h>
#include <string.h>

#define HEADER "{\"grail_results\": 1}\n"
#define CELL(rest)                                                                                 \
    "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"wanda\", \"sparsity\": 0.5, "              \
    "\"compensate\": \"grail\", \"samples\": 128, \"seed\": 3" rest

static results parse(const char *text)
{
    results r = {0};
    assert_ok(results_parse("r.jsonl", text, strlen(text), &r));
    return r;
}

static void a_cell_is_read_whole(void **state)
{
    (void)state;
    results r = parse(
        HEADER CELL(", \"repair\": true, \"loop\": \"open\"}, \"top1\": 0.8, \"top5\": 0.98, "
                    "\"interval\": 0.0078, \"images\": 2000, \"parameters\": 5600000, "
                    "\"macs\": 280000000, \"seconds\": {\"calibrate\": 1.2, \"compensate\": 3.4, "
                    "\"evaluate\": 5.6, \"total\": 10.2}, \"peak_bytes\": 1234567890, \"sites\": "
                    "[{\"name\": \"layer\", \"kind\": \"conv\", \"units\": 64, \"kept\": 44, "
                    "\"fit_before\": 0.21, \"fit_after\": 0.03, \"held_before\": 0.22, "
                    "\"held_after\": 0.04}]}\n"));
    assert_int_equal(r.cell_count, 1);
    const result_cell *c = &r.cells[0];
    assert_string_equal(r.checkpoints[c->checkpoint].name, "a");
    assert_string_equal(r.selectors[c->selector], "wanda");
    assert_int_equal(c->settings.variant, VARIANT_GRAIL_REPAIR);
    assert_true(c->settings.open_loop && c->settings.samples == 128 && c->settings.seed == 3 &&
                c->line == 2);
    assert_true(c->settings.sparsity == 0.5 && c->measures.top1 == 0.8 &&
                c->measures.top5 == 0.98 && c->measures.interval == 0.0078);
    assert_true(c->measures.images == 2000.0 && c->measures.parameters == 5.6e6 &&
                c->measures.macs == 2.8e8);
    assert_true(c->measures.seconds[SECONDS_COMPENSATE] == 3.4 &&
                c->measures.seconds[SECONDS_TOTAL] == 10.2);
    assert_true(c->measures.peak_bytes == 1234567890.0 && c->error == NULL && c->site_count == 1);
    const line_site *s = &c->sites[0];
    assert_string_equal(s->name, "layer");
    assert_true(s->units == 64.0 && s->kept == 44.0 && s->fit_before == 0.21);
    assert_true(s->fit_after == 0.03 && s->held_before == 0.22 && s->held_after == 0.04);
    results_fini(&r);
}

static void a_healed_cell_is_read_whole(void **state)
{
    (void)state;
    results r = parse(HEADER CELL(
        ", \"heal\": \"model\"}, \"top1\": 0.8, \"seconds\": {\"heal\": 7.5}, \"healed\": "
        "[{\"block\": 3, \"steps\": 80, \"held_loss_before\": 0.5, \"held_loss_after\": 0.25, "
        "\"seconds\": 2.5}, {\"block\": null, \"steps\": 160}]}\n") CELL("}, \"top1\": 0.7}\n"));
    assert_int_equal(r.cell_count, 2);
    const result_cell *c = &r.cells[0];
    assert_int_equal(variant_form(c->settings.variant), VARIANT_GRAIL);
    assert_int_equal(variant_heal(c->settings.variant), HEAL_MODEL);
    assert_true(c->measures.seconds[SECONDS_HEAL] == 7.5 && c->healing_count == 2);
    const line_healing *h = c->healings;
    assert_true(h[0].block == 3.0 && h[0].steps == 80.0 && h[0].held_before == 0.5 &&
                h[0].held_after == 0.25 && h[0].seconds == 2.5);
    assert_true(isnan(h[1].block) && h[1].steps == 160.0 && isnan(h[1].held_after));
    /* a line from before there was healing */
    assert_int_equal(variant_heal(r.cells[1].settings.variant), HEAL_NONE);
    assert_true(isnan(r.cells[1].measures.seconds[SECONDS_HEAL]) && r.cells[1].healing_count == 0);
    results_fini(&r);
}

static void a_dense_checkpoint_is_read_whole(void **state)
{
    (void)state;
    results r = parse(HEADER CELL("}, \"top1\": 0.5}\n") "{\"dense\": {\"checkpoint\": \"a\", "
                                                         "\"path\": \"p\", \"architecture\": "
                                                         "\"net\", \"parameters\": 11173962, "
                                                         "\"macs\": 556651008, \"top1\": 0.86, "
                                                         "\"top5\": 0.993, \"interval\": 0.0068, "
                                                         "\"images\": 2000}}\n");
    assert_int_equal(r.checkpoint_count, 1); /* the cell's own, though its line came first */
    const result_checkpoint *c = &r.checkpoints[0];
    assert_string_equal(c->architecture, "net");
    assert_true(c->measures.parameters == 11173962.0 && c->measures.macs == 556651008.0 &&
                c->measures.top1 == 0.86);
    assert_true(c->measures.top5 == 0.993 && c->measures.interval == 0.0068 &&
                c->measures.images == 2000.0);
    results_fini(&r);
}

static void what_is_null_or_absent_is_not_a_number(void **state)
{
    (void)state;
    results r = parse(HEADER CELL("}, \"top1\": null, \"seconds\": null, \"sites\": null}\n"));
    const result_cell *c = &r.cells[0];
    assert_true(isnan(c->measures.top1) && isnan(c->measures.top5) &&
                isnan(c->measures.seconds[SECONDS_TOTAL]));
    assert_true(isnan(c->measures.peak_bytes) && c->site_count == 0);
    assert_true(isnan(r.checkpoints[0].measures.top1) && r.checkpoints[0].architecture == NULL);
    assert_true(!c->settings.open_loop && c->settings.variant == VARIANT_GRAIL);
    results_fini(&r);
}

static void a_failed_cell_keeps_what_was_said(void **state)
{
    (void)state;
    results r = parse(HEADER CELL("}, \"error\": \"site 'x'\"}\n"));
    assert_string_equal(r.cells[0].error, "site 'x'");
    results_fini(&r);
}

#define ON(name, hash, windows)                                                                    \
    "{\"name\": \"" name "\", \"perplexity\": 4, \"windows\": " windows ", \"context\": 8, "       \
    "\"data_sha256\": \"" hash "\"}"
#define DENSE_ON(list) "{\"dense\": {\"checkpoint\": \"a\", \"evaluations\": [" list "]}}\n"

/* A line with two texts is a cell on each; the first has what the line as a whole has. */
static void texts_are_told_apart(void **state)
{
    (void)state;
    results r =
        parse(HEADER DENSE_ON(ON("x", "11", "2") ", " ON("y", "22", "3"))
                  CELL(", \"calibration\": \"c\", \"choices\": \"align=8\"}, \"error\": \"NaN\"}\n")
                      CELL("}, \"evaluations\": [" ON("x", "11", "2") ", " ON(
                          "y", "22", "3") "], \"parameters\": 9, \"peak_bytes\": 5, "
                                          "\"seconds\": {\"total\": 2}, \"sites\": [{\"name\": "
                                          "\"s\", \"units\": 4, \"kept\": 2}]}\n"));
    assert_int_equal(r.checkpoint_count, 2);
    assert_string_equal(r.checkpoints[0].name, "a on x");
    assert_string_equal(r.checkpoints[1].name, "a on y");
    assert_string_equal(r.checkpoints[1].network, "a");
    assert_true(!r.checkpoints[0].is_further && r.checkpoints[1].is_further);
    assert_int_equal(r.cell_count, 4);
    /* a failure stands on both */
    assert_string_equal(r.cells[0].error, "NaN");
    assert_string_equal(r.cells[1].error, "NaN");
    assert_true(r.cells[0].checkpoint == 0 && r.cells[1].checkpoint == 1);
    assert_string_equal(r.settings[r.cells[0].setting].text, "of c, align=8");
    assert_string_equal(r.cells[0].settings.calibration, "c");
    assert_int_equal(r.cells[2].setting, 0);
    assert_string_equal(r.settings[0].text, "");
    assert_true(r.cells[2].site_count == 1 && r.cells[2].measures.peak_bytes == 5.0);
    assert_true(r.cells[3].is_further && r.cells[3].site_count == 0);
    assert_true(isnan(r.cells[3].measures.peak_bytes) && r.cells[3].measures.parameters == 9.0);
    assert_true(isnan(r.cells[3].measures.seconds[SECONDS_TOTAL]));
    results_fini(&r);
}

static void the_known_selectors_come_first(void **state)
{
    (void)state;
    results r = parse(HEADER "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"own\", "
                             "\"sparsity\": 0, \"compensate\": \"none\"}}\n");
    assert_string_equal(r.selectors[0], "random");
    assert_string_equal(r.selectors[r.cells[0].selector], "own");
    assert_int_equal(r.cells[0].selector, r.selector_count - 1);
    results_fini(&r);
}

static void a_last_line_that_is_cut_short_is_left_out(void **state)
{
    (void)state;
    const char *const whole = HEADER CELL("}, \"top1\": 0.5}\n") CELL("}, \"top1\": 0.25}");
    const size_t second = strlen(HEADER CELL("}, \"top1\": 0.5}\n"));
    for (size_t size = second; size <= strlen(whole); size++) {
        results r = {0};
        assert_ok(results_parse("r.jsonl", whole, size, &r));
        const bool is_whole = size == strlen(whole);
        assert_int_equal(r.cell_count, is_whole ? 2 : 1);
        assert_int_equal(r.cut_line, is_whole || size == second ? 0 : 3);
        results_fini(&r);
    }
}

static void assert_refused(const char *text, const char *message)
{
    results r = {0};
    assert_fails(results_parse("r.jsonl", text, strlen(text), &r), GRAIL_ERROR_FORMAT, message);
    assert_null(r.cells);
}

static void files_that_are_no_results_are_refused(void **state)
{
    (void)state;
    assert_refused("", "r.jsonl: the file is empty");
    assert_refused("{\"grail_re", "r.jsonl: line 1: not valid JSON");
    assert_refused("[1]\n", "these are not the results of a sweep");
    assert_refused("{\"plan\": 1}\n", "these are not the results of a sweep");
    assert_refused("{\"grail_results\": \"1\"}\n", "\"grail_results\" is not an integer");
    results r = {0};
    const char *const later = "{\"grail_results\": 3}\n";
    assert_fails(results_parse("r.jsonl", later, strlen(later), &r), GRAIL_ERROR_UNSUPPORTED,
                 "version 3, but this grail reads versions 1 to 2");
}

/* A file as a sweep writes it. */
static void write_lines(buffer *text)
{
    static const char *const lines[] = {
        "{\"grail_results\":2,\"recipe\":{}}",
        "{\"dense\":{\"checkpoint\":\"a\",\"top1\":0.9}}",
        "{\"cell\":{\"checkpoint\":\"a\",\"selector\":\"wanda\",\"sparsity\":0.5,\"compensate\":"
        "\"none\"},"
        "\"top1\":0.25}",
    };
    buffer_init(text, 1 << 20);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        json_t *document = NULL;
        assert_ok(json_parse("line", lines[i], strlen(lines[i]), &document));
        assert_ok(line_append_text(document, text));
        json_decref(document);
    }
}

static void every_flipped_bit_is_noticed(void **state)
{
    (void)state;
    buffer text;
    write_lines(&text);
    results r = {0};
    assert_ok(results_parse("r.jsonl", text.bytes, text.size, &r));
    assert_int_equal(r.cell_count, 1);
    assert_int_equal(r.cut_line, 0);
    results_fini(&r);
    for (size_t i = 0; i < text.size; i++) {
        for (int bit = 0; bit < 8; bit++) {
            const unsigned char flip = (unsigned char)(1 << bit);
            text.bytes[i] ^= flip;
            assert_fails(results_parse("r.jsonl", text.bytes, text.size, &r), GRAIL_ERROR_FORMAT,
                         "r.jsonl: line ");
            text.bytes[i] ^= flip;
        }
    }
    buffer_fini(&text);
}

static void lines_without_checksum_are_refused_where_others_have_one(void **state)
{
    (void)state;
    static const char plain[] = "{\"dense\":{\"checkpoint\":\"b\"}}\n";
    buffer text;
    results r = {0};
    write_lines(&text);
    assert_ok(buffer_append_string(&text, plain));
    assert_fails(results_parse("r.jsonl", text.bytes, text.size, &r), GRAIL_ERROR_FORMAT,
                 "r.jsonl: line 4: has no checksum");
    buffer_fini(&text);
}

static void other_data_under_one_name_are_refused(void **state)
{
    (void)state;
    static const char dense[] = HEADER DENSE_ON(ON("x", "11", "2"));
    static const char *const other[] = {ON("x", "12", "2"), ON("x", "11", "3")};
    char text[2048];
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%s%s%s]}\n", dense, CELL("}, \"evaluations\": ["), other[i]);
        assert_refused(text,
                       "line 3: \"a on x\" was measured on other data, or on other windows of "
                       "it, than line 2 says");
    }
    snprintf(text, sizeof text, "%s%s%s]}\n", dense, CELL("}, \"evaluations\": ["),
             ON("y", "12", "2"));
    results r = parse(text);
    assert_int_equal(r.checkpoint_count, 2);
    results_fini(&r);
}

static void bad_lines_are_refused_by_number(void **state)
{
    (void)state;
    static const struct {
        const char *line, *message;
    } bad[] = {
        {"{\"cell\": \n", "line 2: not valid JSON"},
        {"\n", "line 2: not valid JSON"},
        {"7\n", "line 2: not valid JSON"},
        {"[]\n", "line 2: expected an object that has an object \"dense\" or \"cell\""},
        {"{\"cell\": 1}\n", "expected an object that has an object \"dense\" or \"cell\""},
        {"{\"dense\": {}}\n", "line 2: \"checkpoint\" is missing"},
        {"{\"dense\": {\"checkpoint\": \"\"}}\n", "\"checkpoint\" is missing"},
        {"{\"dense\": {\"checkpoint\": 5}}\n", "\"checkpoint\" is not a string"},
        {"{\"dense\": {\"checkpoint\": \"a\", \"top1\": 86}}\n", "\"top1\" is 86, expected 0 to 1"},
        {"{\"dense\": {\"checkpoint\": \"a\", \"macs\": -1}}\n", "\"macs\" is -1, expected 0 to"},
        {"{\"cell\": {\"checkpoint\": \"a\"}}\n", "\"selector\" is missing"},
        {"{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\"}}\n",
         "\"sparsity\" is missing, expected a number in [0, 1)"},
        {"{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", \"sparsity\": 1}}\n",
         "\"sparsity\" is 1, expected a number in [0, 1)"},
        {"{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", \"sparsity\": 0, "
         "\"compensate\": \"most\"}}\n",
         "\"compensate\" is \"most\", expected none, grail, full or own"},
        {CELL(", \"repair\": 1}}\n"), "\"repair\" is not true or false"},
        {CELL(", \"loop\": \"round\"}}\n"), "\"loop\" is \"round\", expected one of closed, open"},
        {CELL(", \"seed\": 4}}\n"), "duplicate object key"},
        {CELL("}, \"top1\": \"x\"}\n"), "\"top1\" is not a number"},
        {CELL("}, \"top5\": 1.5}\n"), "\"top5\" is 1.5, expected 0 to 1"},
        {CELL("}, \"seconds\": 3}\n"), "\"seconds\" is not an object"},
        {CELL("}, \"seconds\": {\"total\": -1}}\n"), "\"total\" is -1"},
        {CELL("}, \"peak_bytes\": 1e300}\n"), "\"peak_bytes\" is 1e+300"},
        {CELL("}, \"sites\": {}}\n"), "\"sites\" is not an array"},
        {CELL("}, \"sites\": [3]}\n"), "\"name\" is missing"},
        {CELL("}, \"sites\": [{\"name\": \"s\"}, {\"name\": \"t\", \"units\": \"8\"}]}\n"),
         "\"units\" is not a number"},
        {CELL("}, \"error\": 5}\n"), "\"error\" is not a string"},
        {CELL(", \"heal\": \"head\"}}\n"),
         "line 2: \"heal\" is \"head\", expected none, block, model or block,model"},
        {CELL("}, \"healed\": 1}\n"), "\"healed\" is not an array"},
        {CELL("}, \"healed\": [1]}\n"), "\"healed\" holds a value that is not an object"},
        {CELL("}, \"healed\": [{\"steps\": -1}]}\n"), "\"steps\" is -1, expected 0 to"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[512] = HEADER;
        strcat(text, bad[i].line);
        assert_refused(text, bad[i].message);
    }
}

static void negative_counts_are_refused(void **state)
{
    (void)state;
    assert_refused(HEADER "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"b\", \"sparsity\": "
                          "0.1, \"compensate\": \"none\", \"samples\": -4}}\n",
                   "\"samples\" is -4, expected 0 or more");
}

static void add_named(buffer *text, const char *checkpoint, const char *selector)
{
    const sweep_cell cell = {.checkpoint = checkpoint,
                             .selector = selector,
                             .compensate = "none",
                             .sparsity = 0.1,
                             .top1 = 0.5};
    sweep_add_cell(text, &cell);
}

static void names_are_limited_in_number_and_length(void **state)
{
    (void)state;
    buffer text;
    char name[FIELD_MOST_BYTES + 2];
    sweep_begin(&text);
    for (int i = 0; i <= MOST_SELECTORS; i++) {
        snprintf(name, sizeof name, "s%d", i);
        add_named(&text, "a", name);
    }
    assert_refused((const char *)text.bytes, "more than 32 selectors");
    buffer_fini(&text);
    sweep_begin(&text);
    for (int i = 0; i <= MOST_CHECKPOINTS; i++) {
        snprintf(name, sizeof name, "c%d", i);
        add_named(&text, name, "random");
    }
    assert_refused((const char *)text.bytes, "line 1026: the file has more than 1024 checkpoints");
    buffer_fini(&text);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    sweep_begin(&text);
    add_named(&text, name, "random");
    assert_refused((const char *)text.bytes, "\"checkpoint\" has 1001 bytes, at most 1000");
    buffer_fini(&text);
}

static void a_line_of_many_megabytes_is_refused(void **state)
{
    (void)state;
    const size_t size = (4 << 20) + 64;
    char *text = NULL;
    results r = {0};
    assert_ok(memory_new(&text, size + 1, 1));
    memset(text, ' ', size);
    memcpy(text, HEADER, strlen(HEADER));
    text[size - 1] = '\n';
    assert_fails(results_parse("r.jsonl", text, size, &r), GRAIL_ERROR_FORMAT,
                 "line 2: the line has 4194346 bytes, expected at most 4194304");
    memory_free(text);
}

static grail_status parse_all(void *context)
{
    const buffer *text = context;
    results r = {0};
    const grail_status status = results_parse("r.jsonl", text->bytes, text->size, &r);
    results_fini(&r);
    return status;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    sweep_add_dense(&text, "first", "net", 0.9);
    const sweep_cell cell = {.checkpoint = "first",
                             .selector = "own",
                             .compensate = "full",
                             .sparsity = 0.5,
                             .top1 = 0.5};
    sweep_add_cell(&text, &cell);
    sweep_add_failure(&text, &cell, "why");
    support_fail_each_allocation(parse_all, &text);
    /* also where the last line has no end, which must not pass for one that is cut short */
    text.size--;
    support_fail_each_allocation(parse_all, &text);
    buffer_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cell_is_read_whole),
        cmocka_unit_test(texts_are_told_apart),
        cmocka_unit_test(other_data_under_one_name_are_refused),
        cmocka_unit_test(a_healed_cell_is_read_whole),
        cmocka_unit_test(a_dense_checkpoint_is_read_whole),
        cmocka_unit_test(what_is_null_or_absent_is_not_a_number),
        cmocka_unit_test(a_failed_cell_keeps_what_was_said),
        cmocka_unit_test(the_known_selectors_come_first),
        cmocka_unit_test(a_last_line_that_is_cut_short_is_left_out),
        cmocka_unit_test(files_that_are_no_results_are_refused),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(lines_without_checksum_are_refused_where_others_have_one),
        cmocka_unit_test(bad_lines_are_refused_by_number),
        cmocka_unit_test(negative_counts_are_refused),
        cmocka_unit_test(names_are_limited_in_number_and_length),
        cmocka_unit_test(a_line_of_many_megabytes_is_refused),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
