/* The largest cut that a loss allows, and the command that makes it. */
#include "support/support.h"

#include "study/page/command.h"
#include "study/page/decision.h"
#include "support/json_memory.h"
#include "sweep.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sample {
    results r;
    aggregate a;
} sample;

/* Takes the text. */
static sample *make(buffer *text)
{
    sample *s = NULL;
    assert_ok(memory_new(&s, 1, sizeof *s));
    assert_ok(results_parse("r.jsonl", text->bytes, text->size, &s->r));
    assert_ok(aggregate_results(&s->r, &s->a));
    buffer_fini(text);
    return s;
}

static void release(sample *s)
{
    aggregate_fini(&s->a);
    results_fini(&s->r);
    memory_free(s);
}

/* A cell whose share of removed parameters is its ratio; the dense network has 1000. */
static void add(buffer *text, const char *selector, const char *compensate, double ratio,
                double top1)
{
    assert_ok(buffer_format(text,
                            "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"%s\", "
                            "\"sparsity\": %.3f, \"compensate\": \"%s\"}, \"top1\": %.4f, "
                            "\"images\": 500, \"parameters\": %.0f}\n",
                            selector, ratio, compensate, top1, 1000.0 * (1.0 - ratio)));
}

static void begin(buffer *text)
{
    sweep_begin(text);
    sweep_add_dense(text, "a", "net", 0.9);
}

static const cell_group *largest(const sample *s, double limit)
{
    return decision_largest(&s->a, &s->a.sections[0], limit);
}

static void the_largest_cut_within_each_loss_is_found(void **state)
{
    (void)state;
    buffer text;
    begin(&text);
    add(&text, "wanda", "full", 0.1, 0.895);
    add(&text, "wanda", "full", 0.3, 0.89); /* exactly 1 point */
    add(&text, "wanda", "full", 0.5, 0.879);
    add(&text, "wanda", "grail", 0.5, 0.85); /* exactly 5, but loses more than the above */
    add(&text, "wanda", "full", 0.7, 0.849);
    sample *s = make(&text);
    assert_near(largest(s, 1.0)->key.sparsity, 0.3, 1e-12);
    assert_near(largest(s, 2.0)->key.sparsity, 0.3, 1e-12);
    assert_near(largest(s, 5.0)->key.sparsity, 0.5, 1e-12);
    assert_int_equal(largest(s, 5.0)->key.variant, VARIANT_FULL);
    assert_near(largest(s, 0.5)->key.sparsity, 0.1, 1e-12);
    release(s);
}

static void of_equal_cuts_the_one_that_loses_least_is_taken(void **state)
{
    (void)state;
    buffer text;
    begin(&text);
    add(&text, "random", "full", 0.5, 0.892);
    add(&text, "wanda", "grail", 0.5, 0.894);
    add(&text, "wanda", "full", 0.5, 0.893);
    sample *s = make(&text);
    assert_string_equal(s->r.selectors[largest(s, 1.0)->key.selector], "wanda");
    assert_int_equal(largest(s, 1.0)->key.variant, VARIANT_GRAIL);
    release(s);
}

static void the_default_stands_for_the_best_where_intervals_do_not_tell_them_apart(void **state)
{
    (void)state;
    buffer text;
    begin(&text);
    add(&text, "wanda", "grail", 0.5, 0.895);
    add(&text, "obs", "grail", 0.5, 0.893);
    add(&text, "obs", "full", 0.5, 0.891);
    add(&text, "obs", "full", 0.3, 0.899); /* smaller */
    add(&text, "wanda", "grail", 0.7, 0.86);
    add(&text, "obs", "full", 0.7, 0.70); /* of its size, but far behind */
    sample *s = make(&text);
    assert_string_equal(s->r.selectors[largest(s, 1.0)->key.selector], "obs");
    assert_int_equal(largest(s, 1.0)->key.variant, VARIANT_FULL);
    assert_near(largest(s, 1.0)->key.sparsity, 0.5, 1e-12);
    assert_int_equal(largest(s, 0.8)->key.variant, VARIANT_GRAIL); /* the default loses 0.9 */
    assert_int_equal(largest(s, 50.0)->key.variant, VARIANT_GRAIL);
    release(s);
}

/* Selectors come in grail's order, random before wanda: the simpler repair comes first all the
 * same. */
static void of_equal_losses_the_simplest_repair_is_taken(void **state)
{
    (void)state;
    buffer text;
    begin(&text);
    add(&text, "random", "full", 0.5, 0.893);
    add(&text, "wanda", "none", 0.5, 0.893);
    add(&text, "wanda", "grail", 0.5, 0.893);
    sample *s = make(&text);
    assert_int_equal(largest(s, 1.0)->key.variant, VARIANT_NONE);
    release(s);
}

static void where_no_cut_qualifies_the_least_loss_is_told(void **state)
{
    (void)state;
    buffer text;
    begin(&text);
    add(&text, "wanda", "full", 0.0, 0.9); /* removes nothing */
    add(&text, "wanda", "full", 0.3, 0.86);
    add(&text, "wanda", "full", 0.5, 0.87);
    sample *s = make(&text);
    assert_null(largest(s, 1.0));
    assert_near(decision_least_loss(&s->a.sections[0])->key.sparsity, 0.5, 1e-12);
    release(s);
}

static void without_the_dense_network_nothing_is_decided(void **state)
{
    (void)state;
    buffer text;
    sweep_begin(&text);
    add(&text, "wanda", "full", 0.3, 0.9);
    sample *s = make(&text);
    assert_null(largest(s, 5.0));
    assert_null(decision_least_loss(&s->a.sections[0]));
    release(s);
}

/* What is removed counts, not what was asked for. */
static void the_size_is_that_of_removed_parameters(void **state)
{
    (void)state;
    buffer text;
    begin(&text);
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"wanda\", \"sparsity\": "
                     "0.5, \"compensate\": \"full\"}, \"top1\": 0.9, \"parameters\": 800}");
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"fold\", \"sparsity\": "
                     "0.4, \"compensate\": \"full\"}, \"top1\": 0.9, \"parameters\": 600}");
    sample *s = make(&text);
    assert_near(largest(s, 1.0)->key.sparsity, 0.4, 1e-12);
    assert_near(decision_cut(largest(s, 1.0)), 0.4, 1e-12);
    release(s);
}

static void limits_fit_the_measure(void **state)
{
    (void)state;
    assert_near(decision_limits(QUALITY_ACCURACY)[1], 2.0, 0.0);
    assert_near(decision_limits(QUALITY_PERPLEXITY)[2], 10.0, 0.0);
}

/* -- commands -----------------------------------------------------------------------------------
 */

static void assert_command(const char *header, const char *dense, const char *line,
                           const char *expected)
{
    buffer text;
    buffer command;
    buffer_init(&text, 1 << 20);
    buffer_init(&command, 1 << 20);
    sweep_add(&text, header);
    sweep_add(&text, dense);
    sweep_add(&text, line);
    sample *s = make(&text);
    assert_int_equal(s->a.group_count, 1);
    assert_ok(command_write(&s->a, &s->a.groups[0], &command));
    assert_string_equal((const char *)command.bytes, expected);
    buffer_fini(&command);
    release(s);
}

static void the_command_has_the_settings_of_cell_and_recipe(void **state)
{
    (void)state;
    assert_command(
        "{\"grail_results\": 1, \"recipe\": {\"checkpoints\": [{\"name\": \"a\", \"path\": "
        "\"../nets/a.pth\", \"settings\": {\"head_dim\": 32, \"activation\": \"quick gelu\"}}], "
        "\"sites\": [\"conv\", \"ffn\"], \"align\": 8, \"select\": \"open\", \"stream_score\": "
        "\"all\", \"precision\": "
        "\"bf16\", \"heal_steps\": 40, \"heal_rate\": 0.005, \"calibration\": {\"path\": "
        "\"../data\", \"preset\": \"cifar\", \"mean\": [0.5, 0.25, 0.125], \"size\": 32}}}",
        "{\"dense\": {\"checkpoint\": \"a\", \"path\": \"bench/../nets/a.pth\"}}",
        "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"fold\", \"sparsity\": 0.35, "
        "\"compensate\": \"full\", \"repair\": true, \"heal\": \"block\", \"samples\": 64, "
        "\"seed\": "
        "3, \"loop\": \"open\"}}",
        "grail compress nets/a.pth -o narrow --set head_dim=32 --set 'activation=quick "
        "gelu' --calib data --preset cifar --size 32 --mean 0.5,0.25,0.125 --selector "
        "fold --sparsity 0.35 --compensate full --repair --samples 64 --seed 3 --loop open --heal "
        "block --sites conv,ffn --select open --stream-score all --align 8 --heal-steps 40 "
        "--heal-rate 0.005 --precision bf16");
}

static void paths_are_short(void **state)
{
    (void)state;
    static const struct {
        const char *given, *shown;
    } paths[] = {
        {"bench/recipes/../../demo/cnn.pth", "demo/cnn.pth"},
        {"./a//b/./c/", "a/b/c"},
        {"../nets/../a.pth", "../a.pth"},
        {"a/../../b", "../b"},
        {"/a/../../b", "/../b"},
        {"a/..", "."},
        {"./-a", "./-a"},
        {"..a/b..", "..a/b.."},
        {"../../a", "../../a"},
        {"/", "/"},
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        char dense[128];
        char command[256];
        snprintf(dense, sizeof dense, "{\"dense\": {\"checkpoint\": \"a\", \"path\": \"%s\"}}",
                 paths[i].given);
        snprintf(command, sizeof command,
                 "grail compress %s -o narrow --calib CALIBRATION --selector obs --sparsity 0.5 "
                 "--compensate none --samples 8 --seed 0 --align 1 --precision f32",
                 paths[i].shown);
        assert_command("{\"grail_results\": 1}", dense,
                       "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"obs\", "
                       "\"sparsity\": 0.5, \"compensate\": \"none\", \"samples\": 8}}",
                       command);
    }
}

/* A sweep rounds no widths and computes in f32 where its recipe says nothing of them. */
static void what_a_recipe_leaves_open_is_named(void **state)
{
    (void)state;
    assert_command("{\"grail_results\": 1}", "{\"dense\": {\"checkpoint\": \"a\"}}",
                   "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"obs\", \"sparsity\": 0.5, "
                   "\"compensate\": \"none\", \"samples\": 8}}",
                   "grail compress MODEL -o narrow --calib CALIBRATION --selector obs --sparsity "
                   "0.5 --compensate none --samples 8 --seed 0 --align 1 --precision f32");
}

static void hostile_words_are_quoted(void **state)
{
    (void)state;
    assert_command(
        "{\"grail_results\": 1, \"recipe\": {\"checkpoints\": [{\"name\": \"a\", \"path\": 7}], "
        "\"sites\": 5, \"align\": 0, \"calibration\": {\"path\": \"-c $(rm x)\"}}}",
        "{\"dense\": {\"checkpoint\": \"a\", \"path\": \"-it's `x`\"}}",
        "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"; ls\", \"sparsity\": 0.5, "
        "\"compensate\": \"full\"}}",
        "grail compress './-it'\\''s `x`' -o narrow --calib './-c $(rm x)' --selector '; ls' "
        "--sparsity 0.5 --compensate full --samples 0 --seed 0 --sites 5 --align auto --precision "
        "f32");
}

static grail_status write_command(void *context)
{
    const sample *s = context;
    buffer command;
    buffer_init(&command, 1 << 20);
    const grail_status status = command_write(&s->a, &s->a.groups[0], &command);
    buffer_fini(&command);
    return status;
}

static void every_failed_allocation_is_survived(void **state)
{
    (void)state;
    buffer text;
    buffer_init(&text, 1 << 20);
    sweep_add(&text, "{\"grail_results\": 1, \"recipe\": {\"checkpoints\": [{\"name\": \"a\", "
                     "\"path\": \"a.pth\", \"settings\": {\"x\": \"y\"}}]}}");
    sweep_add(&text, "{\"dense\": {\"checkpoint\": \"a\", \"path\": \"b/a.pth\"}}");
    sweep_add(&text, "{\"cell\": {\"checkpoint\": \"a\", \"selector\": \"obs\", \"sparsity\": 0.5, "
                     "\"compensate\": \"none\"}}");
    sample *s = make(&text);
    support_fail_each_allocation(write_command, s);
    release(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_cut_within_each_loss_is_found),
        cmocka_unit_test(of_equal_cuts_the_one_that_loses_least_is_taken),
        cmocka_unit_test(the_default_stands_for_the_best_where_intervals_do_not_tell_them_apart),
        cmocka_unit_test(of_equal_losses_the_simplest_repair_is_taken),
        cmocka_unit_test(where_no_cut_qualifies_the_least_loss_is_told),
        cmocka_unit_test(without_the_dense_network_nothing_is_decided),
        cmocka_unit_test(the_size_is_that_of_removed_parameters),
        cmocka_unit_test(limits_fit_the_measure),
        cmocka_unit_test(the_command_has_the_settings_of_cell_and_recipe),
        cmocka_unit_test(what_a_recipe_leaves_open_is_named),
        cmocka_unit_test(hostile_words_are_quoted),
        cmocka_unit_test(paths_are_short),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
