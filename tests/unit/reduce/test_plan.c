/* Plans: presets, documents that are read and written, and those that are refused. */
#include "support/support.h"

#include "reduce/plan.h"
#include "support/json_memory.h"

#include <string.h>

static char ffn_name[] = "a.down";
static char heads_name[] = "a.o";

/* 12 query heads in 3 groups, 100 neurons. */
static site two_sites[] = {{.name = heads_name, .kind = SITE_HEADS, .units = 12, .groups = 3},
                           {.name = ffn_name, .kind = SITE_FFN, .units = 100, .groups = 1}};
static const site_list sites = {.sites = two_sites, .count = 2};

static plan new_plan(void)
{
    plan p = {.gqa = GQA_QUERY_PER_GROUP, .seed = 5};
    assert_ok(compensation_from_name("full", &selector_wanda, &p.compensation));
    assert_ok(plan_init(&p, &sites, &selector_wanda));
    return p;
}

static grail_status read_document(const json_t *document, plan *p)
{
    const grail_status status = plan_read("p.json", document, &sites, p);
    return status == GRAIL_OK ? plan_read_compensation("p.json", document, &p->compensation)
                              : status;
}

static grail_status read_text(const char *text, plan *p)
{
    OPENED(json_t, document, json_parse("p.json", text, strlen(text), &document));
    return read_document(document, p);
}

TEST(presets_are_those_of_the_design)
{
    const selector *any = &selector_wanda;
    compensation c;
    assert_ok(compensation_from_name("none", any, &c));
    assert_false(c.enabled);
    assert_ok(compensation_from_name("grail", any, &c));
    assert_true(c.enabled && c.target == TARGET_LOCAL && c.bias == BIAS_OFF);
    assert_true(c.ridge == RIDGE_ZERO && c.ridge_scale == RIDGE_SCALE_MEAN &&
                c.alpha.value == 1e-3);
    assert_true(c.token_weights == TOKEN_WEIGHTS_NONE && c.refit == REFIT_NONE);
    assert_ok(compensation_from_name("full", any, &c));
    assert_true(c.enabled && c.target == TARGET_MIXED && c.bias == BIAS_AUTO);
    assert_true(c.ridge == RIDGE_PRIOR && c.ridge_scale == RIDGE_SCALE_MEAN &&
                c.alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED);
    assert_true(c.token_weights == TOKEN_WEIGHTS_STREAM && c.refit == REFIT_AUTO);
    assert_fails(compensation_from_name("paper", any, &c), GRAIL_ERROR_ARGUMENT,
                 "unknown compensation 'paper'; expected one of none, own, grail, full");
}

TEST(own_is_that_of_the_selector)
{
    compensation c;
    assert_ok(compensation_from_name("own", &selector_flap, &c));
    assert_true(c.enabled && c.target == TARGET_LOCAL && c.bias == BIAS_ON);
    assert_true(c.fit == FIT_BIAS_ONLY);
    assert_ok(compensation_from_name("own", &selector_ziplm, &c));
    assert_true(c.enabled && c.target == TARGET_LOCAL && c.bias == BIAS_OFF);
    assert_true(c.fit == FIT_WEIGHTS && c.ridge == RIDGE_PRIOR && c.conv_fit == CONV_FIT_CHANNEL);
    assert_true(c.ridge_of == RIDGE_OF_ALL && c.alpha.value == 1e-2);
    assert_ok(compensation_from_name("grail", &selector_flap, &c));
    assert_true(c.fit == FIT_WEIGHTS && c.ridge_of == RIDGE_OF_KEPT);
    assert_fails(compensation_from_name("own", &selector_wanda, &c), GRAIL_ERROR_ARGUMENT,
                 "selector 'wanda' has no update of its own; choose none, grail or full; these "
                 "selectors have one: slimgpt, ziplm, obs, flap, flap-ifv, flap-wifn, wanda++");
    assert_ok(compensation_from_name("own", &selector_wanda_plus, &c));
    assert_true(!c.enabled && c.regional_training);
    assert_ok(compensation_from_name("full", &selector_wanda_plus, &c));
    assert_true(c.enabled && !c.regional_training);
}

/* Reads {KEY: WORD} into the fields of a list. */
static grail_status read_word(const grail_option *list, const char *key, const char *word,
                              void *owner)
{
    OWNED(json_t) *object = json_object();
    assert_ok(json_put(object, key, json_text(word)));
    return options_from_json("p.json", object, list, owner);
}

static void assert_words(const grail_option *list, void *owner)
{
    for (const grail_option *f = list; f->field != NULL; f++) {
        for (int i = 0; f->words != NULL && f->words[i] != NULL; i++) {
            int found = -1;
            assert_ok(read_word(list, f->key, f->words[i], owner));
            memcpy(&found, (const char *)owner + f->offset, sizeof found);
            assert_int_equal(found, i);
        }
        if (f->words != NULL) {
            assert_fails(read_word(list, f->key, "x", owner), GRAIL_ERROR_FORMAT, f->key);
            assert_fails(read_word(list, f->key, "x", owner), GRAIL_ERROR_FORMAT, f->words[1]);
        }
    }
}

TEST(choices_are_known_by_name)
{
    plan p = {0};
    assert_words(plan_fields, &p);
    assert_words(compensation_fields, &p.compensation);
    assert_true(p.compensation.target == TARGET_MIXED && p.compensation.ridge == RIDGE_PRIOR);
    assert_fails(read_word(compensation_fields, "ridge_scale", "x", &p.compensation),
                 GRAIL_ERROR_FORMAT,
                 "p.json: \"ridge_scale\" is \"x\", expected one of mean, diagonal");
}

TEST(a_new_plan_keeps_everything)
{
    plan p = new_plan();
    assert_int_equal(p.count, 2);
    assert_string_equal(p.sites[0].name, "a.o");
    assert_int_equal(p.sites[0].kept, 12);
    assert_int_equal(p.sites[1].units, 100);
    assert_int_equal(p.sites[1].kept, 100);
    assert_ptr_equal(p.sites[1].selector, &selector_wanda);
    plan_fini(&p);
    plan_fini(&p);
}

TEST(a_document_sets_what_it_names)
{
    OWNED(plan) p = new_plan();
    assert_ok(read_text("{\"grail_plan\": 1, \"seed\": 9, \"gqa\": \"query-per-group\","
                        " \"compensation\": {\"enabled\": true, \"target\": \"local\","
                        " \"bias\": \"on\", \"fit\": \"bias-only\", \"ridge\": \"zero\","
                        " \"ridge_scale\": \"diagonal\", \"token_weights\": \"stream\","
                        " \"ridge_of\": \"all\", \"alpha\": 0.5},"
                        " \"sites\": [{\"site\": \"a.o\", \"kind\": \"heads\", \"units\": 12,"
                        " \"selector\": \"magnitude-l2\", \"kept\": 6}]}",
                        &p));
    assert_int_equal(p.seed, 9);
    assert_int_equal(p.gqa, GQA_QUERY_PER_GROUP);
    assert_true(p.compensation.target == TARGET_LOCAL && p.compensation.bias == BIAS_ON);
    assert_true(p.compensation.ridge == RIDGE_ZERO && p.compensation.alpha.value == 0.5);
    assert_true(p.compensation.ridge_scale == RIDGE_SCALE_DIAGONAL);
    assert_true(p.compensation.token_weights == TOKEN_WEIGHTS_STREAM);
    assert_true(p.compensation.fit == FIT_BIAS_ONLY && p.compensation.ridge_of == RIDGE_OF_ALL);
    assert_int_equal(p.sites[0].kept, 6);
    assert_ptr_equal(p.sites[0].selector, &selector_magnitude_l2);
    assert_int_equal(p.sites[1].kept, 100); /* not named */
}

TEST(a_document_says_how_a_network_of_images_is_run)
{
    OWNED(plan) p = new_plan();
    assert_true(p.select == LOOP_CLOSED && !plan_selects_openly(&p));
    assert_true(p.loop == LOOP_CLOSED && p.stream_score == STREAM_SCORE_FIRST && !p.repair);
    assert_true(p.compensation.conv_fit == CONV_FIT_KERNEL);
    assert_ok(read_text("{\"grail_plan\": 1, \"loop\": \"open\", \"stream_score\": \"all\","
                        " \"repair\": true, \"compensation\": {\"conv_fit\": \"channel\"},"
                        " \"sites\": []}",
                        &p));
    assert_true(p.loop == LOOP_OPEN && p.stream_score == STREAM_SCORE_ALL && p.repair);
    assert_true(p.compensation.conv_fit == CONV_FIT_CHANNEL);
}

TEST(what_a_document_leaves_out_stays)
{
    OWNED(plan) p = new_plan();
    assert_ok(read_text("{\"grail_plan\": 1, \"sites\": []}", &p));
    assert_int_equal(p.seed, 5);
    assert_int_equal(p.gqa, GQA_QUERY_PER_GROUP);
    assert_true(p.compensation.enabled &&
                p.compensation.alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED);
    assert_true(p.compensation.ridge_scale == RIDGE_SCALE_MEAN);
    assert_true(p.compensation.token_weights == TOKEN_WEIGHTS_STREAM);
    assert_int_equal(p.sites[0].kept, 12);
}

static void assert_round_trip(plan *p)
{
    OWNED(json_t) *written = json_object();
    OWNED(json_t) *again = json_object();
    OWNED(plan) q = new_plan();
    assert_ok(plan_to_json(p, &sites, written));
    assert_ok(read_document(written, &q));
    assert_ok(plan_to_json(&q, &sites, again));
    assert_true(json_equal(written, again));
    assert_int_equal(q.gqa, p->gqa);
    assert_true(q.seed == p->seed);
    assert_true(q.compensation.alpha.choice == p->compensation.alpha.choice &&
                q.compensation.alpha.value == p->compensation.alpha.value);
    assert_memory_equal(&q.sites[0].selector, &p->sites[0].selector, sizeof q.sites[0].selector);
    assert_true(q.select == p->select);
    assert_true(q.loop == p->loop && q.stream_score == p->stream_score && q.repair == p->repair);
    assert_true(q.compensation.conv_fit == p->compensation.conv_fit);
    assert_true(q.compensation.ridge_scale == p->compensation.ridge_scale);
    assert_true(q.compensation.token_weights == p->compensation.token_weights);
    assert_true(q.compensation.fit == p->compensation.fit);
    assert_true(q.compensation.ridge_of == p->compensation.ridge_of);
    assert_int_equal(q.sites[1].kept, p->sites[1].kept);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(q.sites[i].kept_units != NULL, p->sites[i].kept_units != NULL);
    }
}

TEST(what_is_written_reads_back_the_same)
{
    OWNED(plan) p = new_plan();
    assert_round_trip(&p);
    p.seed = UINT64_MAX;
    p.gqa = GQA_KV_GROUPS;
    p.compensation = (compensation){.enabled = false,
                                    .bias = BIAS_ON,
                                    .ridge = RIDGE_PRIOR,
                                    .alpha = {GRAIL_NUMBER_GIVEN, 0.1}};
    p.sites[0].selector = &selector_random_fold;
    p.sites[1].kept = 1;
    assert_round_trip(&p);
    p.select = LOOP_OPEN;
    assert_true(plan_selects_openly(&p));
    assert_round_trip(&p);
    p.select = LOOP_CLOSED;
    p.loop = LOOP_OPEN;
    assert_true(plan_selects_openly(&p));
    p.stream_score = STREAM_SCORE_ALL;
    p.repair = true;
    p.compensation.conv_fit = CONV_FIT_CHANNEL;
    p.compensation.ridge_scale = RIDGE_SCALE_DIAGONAL;
    p.compensation.token_weights = TOKEN_WEIGHTS_STREAM;
    p.compensation.fit = FIT_BIAS_ONLY;
    p.compensation.ridge_of = RIDGE_OF_ALL;
    assert_round_trip(&p);
    p.stream_score = STREAM_SCORE_BRANCH;
    assert_round_trip(&p);
}

/* 12 query heads in 3 groups of 4. */
#define HEADS(fields) SITES("{\"site\": \"a.o\", " fields "}")
#define SITES(entry) "{\"grail_plan\": 1, \"sites\": [" entry "]}"

TEST(a_document_can_name_the_units_that_stay)
{
    static const int64_t heads[] = {0, 3, 4, 5, 9, 10};
    plan p = new_plan();
    assert_ok(read_text(HEADS("\"kept\": 6, \"kept_units\": [0, 3, 4, 5, 9, 10]"), &p));
    assert_int_equal(p.sites[0].kept, 6);
    assert_memory_equal(p.sites[0].kept_units, heads, sizeof heads);
    assert_null(p.sites[1].kept_units);
    assert_round_trip(&p);
    plan_fini(&p);
    p = new_plan(); /* they are the width */
    assert_ok(read_text(SITES("{\"site\": \"a.down\", \"kept_units\": [7, 99]}"), &p));
    assert_int_equal(p.sites[1].kept, 2);
    assert_int_equal(p.sites[1].kept_units[1], 99);
    assert_round_trip(&p);
    plan_fini(&p);
    p = new_plan(); /* null names none, as of every key */
    assert_ok(read_text(HEADS("\"kept\": 3, \"kept_units\": null"), &p));
    assert_null(p.sites[0].kept_units);
    assert_round_trip(&p);
    plan_fini(&p);
}

static void assert_refused(const char *text, grail_status code, const char *message)
{
    OWNED(plan) p = new_plan();
    assert_fails(read_text(text, &p), code, message);
}

TEST(a_document_of_another_kind_is_refused)
{
    assert_refused("[]", GRAIL_ERROR_FORMAT, "p.json: not a JSON object");
    assert_refused("{}", GRAIL_ERROR_FORMAT, "p.json: not a plan, expected \"grail_plan\": 1");
    assert_refused("{\"grail_plan\": 2}", GRAIL_ERROR_FORMAT, "is 2, expected 1");
    assert_refused("{\"grail_plan\": 1}", GRAIL_ERROR_FORMAT, "\"sites\" is not an array");
    assert_refused("{\"grail_plan\": 1, \"seed\": \"x\", \"sites\": []}", GRAIL_ERROR_FORMAT,
                   "\"seed\" is not an integer");
}

TEST(a_site_that_does_not_fit_is_named)
{
    assert_refused(SITES("7"), GRAIL_ERROR_FORMAT, "p.json: sites[0]: not a JSON object");
    assert_refused(SITES("{}"), GRAIL_ERROR_FORMAT, "an entry of \"sites\" has no \"site\"");
    assert_refused(SITES("{\"site\": \"b\"}"), GRAIL_ERROR_FORMAT,
                   "'b' is not a site of this model");
    assert_refused(SITES("{\"site\": \"a.o\"}"), GRAIL_ERROR_FORMAT,
                   "site 'a.o' has no \"kept\"; give the number of units to keep");
    assert_refused(SITES("{\"site\": \"a.o\", \"kept\": 3, \"units\": 8}"), GRAIL_ERROR_FORMAT,
                   "site 'a.o' has 12 units in this model, but the plan says 8");
    assert_refused(SITES("{\"site\": \"a.o\", \"kept\": -1}"), GRAIL_ERROR_FORMAT,
                   "site 'a.o' keeps -1 units, expected 1 to 12, or 0");
    assert_refused(SITES("{\"site\": \"a.o\", \"kept\": 13}"), GRAIL_ERROR_FORMAT,
                   "keeps 13 units, expected 1 to 12");
    assert_refused(SITES("{\"site\": \"a.o\", \"kept\": 4}"), GRAIL_ERROR_FORMAT,
                   "keeps 4 units, expected a multiple of its 3 groups");
    assert_refused(SITES("{\"site\": \"a.o\", \"kept\": 3}, {\"site\": \"a.o\", \"kept\": 6}"),
                   GRAIL_ERROR_FORMAT, "site 'a.o' appears twice in \"sites\"");
    assert_refused(SITES("{\"site\": \"a.o\", \"kept\": 3.5}"), GRAIL_ERROR_FORMAT,
                   "\"kept\" is not an integer");
}

TEST(units_that_do_not_fit_are_refused)
{
    const grail_status code = GRAIL_ERROR_FORMAT;
    assert_refused(HEADS("\"kept_units\": 3"), code,
                   "p.json: site 'a.o': \"kept_units\" is not an array of units; give the "
                   "ascending indices of those that stay");
    assert_refused(HEADS("\"kept_units\": {}"), code, "is not an array of units");
    assert_refused(HEADS("\"kept_units\": []"), code, "is not an array of units");
    assert_refused(HEADS("\"kept_units\": [], \"kept\": 0"), code, "is not an array of units");
    assert_refused(HEADS("\"kept_units\": [0, 4, 8], \"kept\": 0"), code,
                   "site 'a.o': \"kept_units\" names 3 units, but \"kept\" is 0; leave "
                   "\"kept_units\" out to drop the sublayer");
    assert_refused(HEADS("\"kept_units\": [0, 4, 8], \"kept\": 6"), code,
                   "site 'a.o': \"kept_units\" names 3 units, but \"kept\" is 6; make them agree, "
                   "or leave \"kept\" out");
    assert_refused(HEADS("\"kept_units\": [0, 1.0, 8]"), code,
                   "site 'a.o': \"kept_units\"[1] is not an integer; give indices of units from 0 "
                   "to 11");
    assert_refused(HEADS("\"kept_units\": [0, 4, \"8\"]"), code, "[2] is not an integer");
    assert_refused(HEADS("\"kept_units\": [0, 4, 12]"), code,
                   "site 'a.o': \"kept_units\"[2] is 12, expected a unit from 0 to 11");
    assert_refused(HEADS("\"kept_units\": [-1, 4, 8]"), code, "[0] is -1, expected a unit from 0");
    assert_refused(HEADS("\"kept_units\": [0, 4, 9223372036854775807]"), code,
                   "[2] is 9223372036854775807, expected");
    assert_refused(HEADS("\"kept_units\": [0, 8, 4]"), code,
                   "site 'a.o': \"kept_units\"[2] is 4 after 8; sort the units, each once");
    assert_refused(HEADS("\"kept_units\": [0, 4, 4]"), code, "[2] is 4 after 4; sort the units");
    assert_refused(HEADS("\"kept_units\": [0, 4]"), code,
                   "keeps 2 units, expected a multiple of its 3 groups");
    assert_refused(HEADS("\"kept_units\": [0, 4, 5]"), code,
                   "site 'a.o': \"kept_units\" keeps 2 of the units 4 to 7, expected 1: as many of "
                   "each of the 3 groups");
    assert_refused(HEADS("\"kept_units\": [8, 9, 10]"), code, "keeps 0 of the units 0 to 3");
    assert_refused(HEADS("\"kept_units\": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]"), code,
                   "keeps 13 units, expected 1 to 12");
    assert_refused(HEADS("\"kept_units\": [0, 4, 8], \"selector\": \"fold\""), code,
                   "site 'a.o': the selector 'fold' merges units, but \"kept_units\" keeps some as "
                   "they are; name a selector that keeps units");
}

TEST(names_that_are_not_known_are_refused)
{
    plan p = new_plan();
    assert_true(read_text(SITES("{\"site\": \"a.o\", \"kept\": 3, \"selector\": \"finest\"}"),
                          &p) != GRAIL_OK);
    assert_non_null(strstr(grail_error_message(), "'finest'"));
    assert_true(read_text("{\"grail_plan\": 1, \"gqa\": \"all\", \"sites\": []}", &p) != GRAIL_OK);
    assert_non_null(strstr(grail_error_message(), "expected one of kv-groups, query-per-group"));
    assert_true(
        read_text("{\"grail_plan\": 1, \"compensation\": {\"target\": \"far\"}, \"sites\": []}",
                  &p) != GRAIL_OK);
    assert_non_null(strstr(grail_error_message(), "expected one of local, dense"));
    assert_true(read_text("{\"grail_plan\": 1, \"loop\": \"half\", \"sites\": []}", &p) !=
                GRAIL_OK);
    assert_non_null(strstr(grail_error_message(), "expected one of closed, open"));
    plan_fini(&p);
    assert_refused("{\"grail_plan\": 1, \"compensation\": {\"fit\": \"all\"}, \"sites\": []}",
                   GRAIL_ERROR_FORMAT,
                   "p.json: \"fit\" is \"all\", expected one of weights, bias-only");
    assert_refused("{\"grail_plan\": 1, \"compensation\": {\"ridge_of\": \"both\"}, \"sites\": []}",
                   GRAIL_ERROR_FORMAT,
                   "p.json: \"ridge_of\" is \"both\", expected one of kept, all");
    assert_refused("{\"grail_plan\": 1, \"compensation\": {\"alpha\": -1}, \"sites\": []}",
                   GRAIL_ERROR_FORMAT, "\"alpha\" is negative");
    assert_refused("{\"grail_plan\": 1, \"compensation\": {\"alpha\": \"best\"}, \"sites\": []}",
                   GRAIL_ERROR_FORMAT, "\"alpha\" is not a number");
}

TEST(keys_that_are_not_known_are_refused)
{
    assert_refused("{\"grail_plan\": 1, \"sits\": [], \"sites\": []}", GRAIL_ERROR_FORMAT,
                   "p.json: unknown key \"sits\"; the known keys are gqa, seed, loop, select,");
    assert_refused(
        "{\"grail_plan\": 1, \"compensation\": {\"lambda\": 1}, \"sites\": []}", GRAIL_ERROR_FORMAT,
        "p.json: compensation: unknown key \"lambda\"; the known keys are enabled, target,");
    assert_refused("{\"grail_plan\": 1, \"compensation\": \"full\", \"sites\": []}",
                   GRAIL_ERROR_FORMAT, "p.json: compensation: not a JSON object");
    assert_refused(
        SITES("{\"site\": \"a.o\", \"kept\": 3}, {\"site\": \"a.down\", \"keep\": 3}"),
        GRAIL_ERROR_FORMAT,
        "p.json: sites[1]: unknown key \"keep\"; the known keys are site, kind, selector,");
}

static grail_status read_and_write(void *context)
{
    static const char text[] =
        "{\"grail_plan\": 1, \"compensation\": {\"alpha\": 1},"
        " \"sites\": [{\"site\": \"a.o\", \"selector\": \"fold\", \"kept\": 3},"
        " {\"site\": \"a.down\", \"kept_units\": [4, 8]}]}";
    OWNED(json_t) *document = NULL;
    OWNED(json_t) *written = json_object();
    OWNED(plan) p = {0};
    CHECK(json_parse("p.json", text, sizeof text - 1, &document));
    CHECK(plan_init(&p, &sites, &selector_wanda));
    CHECK(read_document(document, &p));
    return plan_to_json(&p, &sites, written);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(read_and_write, NULL);
}

CMFixtureFunction support_setup = json_memory_use;
