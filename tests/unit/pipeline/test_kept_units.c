/* Plans that name the units that stay: with the units that a selector keeps they give the
 * selector's bytes, whatever repairs them; other units are kept just as well, and need no data of
 * their own. */
#include "vision_sites.h"

#include <string.h>

/* The plan of the run behind `output`, with the units that its report says were kept, and another
 * selector, which would keep others. */
static char *plan_of_kept_units(const char *output, const char *named)
{
    OWNED(json_t) *report = read_json(output, "report.json");
    OWNED(json_t) *plan_json = read_json(output, "plan.json");
    const json_t *reported = json_object_get(report, "sites");
    const json_t *planned = json_object_get(plan_json, "sites");
    for (size_t i = 0; i < json_array_size(planned); i++) {
        json_t *entry = json_array_get(planned, i);
        json_t *units = json_object_get(json_array_get(reported, i), "kept_units");
        assert_int_equal(json_object_set_new(entry, "selector", json_string(named)), 0);
        if (units != NULL) {
            assert_int_equal(json_object_set(entry, "kept_units", units), 0);
        }
    }
    char *text = json_dumps(plan_json, 0);
    assert_non_null(text);
    return text;
}

/* The plan that a run writes says what it was told. */
static void assert_plan_is(const char *output, const char *text)
{
    OWNED(json_t) *written = read_json(output, "plan.json");
    OWNED(json_t) *told = json_loads(text, 0, NULL);
    assert_true(json_equal(written, told));
}

/* Runs with the options and again with a plan that names the units which that kept. */
static void assert_repeated(grail_compress_options options, const char *named, const char *again)
{
    assert_ok(lab_compress(&options));
    char *text = plan_of_kept_units(options.output.path, named);
    const char *first = options.output.path;
    options.output.path = again;
    options.amount.plan_text = text;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(first, again);
    assert_plan_is(again, text);
    free(text);
}

/* A selection, how it is repaired, and the selector that the plan names beside its units: one that
 * decides at the same place where maps before it are refitted, one of the same update with `own`.
 */
LAB_TEST(the_units_of_a_selector_give_its_bytes_in_a_decoder)
{
    static const struct {
        const char *selector, *compensate, *named, *select;
    } runs[] = {{"wanda", "none", "random", NULL},       {"wanda", "grail", "random", NULL},
                {"wanda", "full", "obs", NULL},          {"random", "full", "magnitude-l2", NULL},
                {"obs", "own", "ziplm", NULL},           {"obs", "full", "wanda", NULL},
                {"flap", "full", "wanda", NULL},         {"wanda++", "own", "wanda++", NULL},
                {"wanda++", "full", "wanda", NULL},      {"flap", "full", "random", "open"},
                {"obs", "grail", "magnitude-l1", "open"}};
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char first[32];
        char again[32];
        snprintf(first, sizeof first, "first-%zu", i);
        snprintf(again, sizeof again, "again-%zu", i);
        grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, first));
        options.cut.selector = runs[i].selector;
        options.fit.compensate = runs[i].compensate;
        options.cut.select = runs[i].select;
        const bool full = strcmp(runs[i].compensate, "full") == 0;
        options.fit.refit = full ? "all" : NULL;
        options.fit.token_weights = NULL;
        assert_repeated(options, runs[i].named, lab_path(l, again));
    }
}

VISION_TEST(the_units_of_a_selector_give_its_bytes_in_a_network_of_images)
{
    static const struct {
        const char *selector, *compensate, *named;
        bool open, repair;
    } runs[] = {{"magnitude-l1", "grail", "random", true, true},
                {"wanda", "full", "magnitude-l2", false, false},
                {"gram-css", "full", "leverage", false, true},
                {"leverage", "none", "wanda", false, true}};
    const char *model = vision_network(v, VISION_BASIC, "model");
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        char first[32];
        char again[32];
        snprintf(first, sizeof first, "first-%zu", i);
        snprintf(again, sizeof again, "again-%zu", i);
        grail_compress_options options = vision_options(v, model, vision_path(v, first));
        vision_cut(&options, 0.4);
        options.cut.selector = runs[i].selector;
        options.fit.compensate = runs[i].compensate;
        options.fit.open_loop = runs[i].open;
        options.fit.repair = runs[i].repair;
        assert_repeated(options, runs[i].named, vision_path(v, again));
    }
}

/* The plan of the run behind `output`, with a ridge that follows all features before the cut. */
static char *plan_of_all_features(const char *output)
{
    json_t *plan_json = read_json(output, "plan.json");
    json_t *fit = json_object_get(plan_json, "compensation");
    assert_int_equal(json_object_set_new(fit, "ridge_of", json_string("all")), 0);
    char *text = json_dumps(plan_json, 0);
    assert_non_null(text);
    json_decref(plan_json);
    return text;
}

/* A consumer of few outputs is observed by what a known selection keeps and takes away; a ridge of
 * all features needs the sums of all. Without a ridge both are one regression. */
VISION_TEST(sums_of_kept_features_give_the_fit_of_all)
{
    const char *model = vision_network(v, VISION_BOTTLENECK, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "kept"));
    vision_cut(&options, 0.75);
    options.cut.selector = "magnitude-l1";
    options.fit.compensate = "grail";
    options.fit.alpha = (grail_number){GRAIL_NUMBER_GIVEN, 0.0};
    assert_ok(lab_compress(&options));
    char *text = plan_of_all_features(options.output.path);
    options.output.path = vision_path(v, "all");
    options.fit.alpha = (grail_number){0};
    options.amount.plan_text = text;
    assert_ok(lab_compress(&options));
    const double apart = vision_difference(v, vision_path(v, "kept"), vision_path(v, "all"));
    assert_true(apart > 0.0 && apart < 1e-4);
    free(text);
}

/* Any units, cut plainly and without calibration data: the dense network without them. */
VISION_TEST(other_units_are_kept_without_data)
{
    static const char text[] =
        "{\"grail_plan\": 1, \"compensation\": {\"enabled\": false}, \"sites\": ["
        "{\"site\": \"layer1.0.conv1\", \"selector\": \"wanda\", \"kept_units\": [1, 2, 7]},"
        "{\"site\": \"layer1.0.conv2\", \"selector\": \"gram-css\", \"kept_units\": [5]},"
        "{\"site\": \"fc\", \"kept_units\": [0, 4, 5, 11]}]}";
    static const int64_t stream[] = {1, 2, 7};
    OWNED(vision_model) dense;
    int64_t kept[4];
    const char *model = vision_network(v, VISION_BASIC, "model");
    grail_compress_options options = vision_options(v, model, vision_path(v, "out"));
    options.amount.plan_text = text;
    options.read.images = NULL;
    assert_ok(lab_compress(&options));
    assert_int_equal(vision_kept_units(options.output.path, "layer1.0.conv1", kept, 4), 3);
    assert_memory_equal(kept, stream, sizeof stream);
    vision_make(&dense, VISION_BASIC);
    assert_pruned_is_zeroed(v, &dense, model, options.output.path);
}

LAB_TEST(a_run_goes_on_with_its_own_units_alone)
{
    static const char text[] =
        "{\"grail_plan\": 1, \"sites\": [{\"site\": \"model.layers.1.mlp.down_proj\","
        " \"selector\": \"wanda\", \"kept_units\": [%d, 8, 9]}]}";
    char one[160];
    char other[160];
    snprintf(one, sizeof one, text, 3);
    snprintf(other, sizeof other, text, 4);
    grail_compress_options options = lab_options(l, lab_golden("llama3"), lab_path(l, "whole"));
    options.amount.plan_text = one;
    assert_ok(lab_compress(&options));
    options.output.path = lab_path(l, "parts");
    options.run.observer = vision_stop_behind_first_block;
    assert_int_equal(lab_compress(&options), GRAIL_ERROR_CANCELLED);
    options.run.observer = NULL;
    options.output.resume = 1;
    options.amount.plan_text = other;
    assert_fails(lab_compress(&options), GRAIL_ERROR_ARGUMENT,
                 "was started with other options or files: plan.sites[3].kept_units differs");
    options.amount.plan_text = one;
    assert_ok(lab_compress(&options));
    assert_same_checkpoint(lab_path(l, "whole"), lab_path(l, "parts"));
}
