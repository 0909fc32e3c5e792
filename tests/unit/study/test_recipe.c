/* Recipes of sweeps: what they may say, and the cells they make. */
#include "recipes.h"

#include "support/json_memory.h"
#include "support/support.h"

#include "study/sweep/results_file.h"

#include <grail/compress.h>

#include <stdio.h>
#include <string.h>

static void assert_refused(const char *text, const char *message)
{
    sweep_recipe r = {0};
    assert_fails(recipe_parse(text, &r), GRAIL_ERROR_FORMAT, message);
    assert_null(r.document);
}

/* The options that all cells of a recipe without lists of choices have. */
static grail_plan_options options_of(const sweep_recipe *r)
{
    grail_plan_options options;
    assert_int_equal(r->choices.count, 1);
    assert_null(r->choices.list[0].text);
    assert_ok(sweep_choice_options(&r->choices.list[0], &options));
    return options;
}

/* -- what a recipe says -------------------------------------------------------------------------
 */

static void what_a_recipe_leaves_out_has_defaults(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(RECIPE(ONE, LISTS, ""));
    const grail_plan_options options = options_of(&r);
    assert_int_equal(r.checkpoints.count, 1);
    assert_string_equal(r.checkpoints.list[0].name, "a");
    assert_string_equal(r.checkpoints.list[0].path, "dir/a.pth");
    assert_int_equal(r.checkpoints.list[0].setting_count, 0);
    assert_int_equal(r.grid_count, 1);
    assert_true(r.grids[0].axes[SWEEP_SAMPLES].count == 1 &&
                r.grids[0].axes[SWEEP_SAMPLES].values[0] == 128.0);
    assert_true(r.grids[0].axes[SWEEP_SEEDS].count == 1 &&
                r.grids[0].axes[SWEEP_SEEDS].values[0] == 0.0);
    assert_false(r.grids[0].open_loop);
    assert_true(sweep_choice_cuts(&r.choices.list[0], "conv") &&
                !sweep_choice_cuts(&r.choices.list[0], "stream"));
    assert_int_equal(r.choices.list[0].kind_count, 1);
    assert_int_equal(options.compress.cut.align, 1);
    assert_null(options.compress.cut.select); /* as grail_compress_options */
    assert_null(options.compress.cut.stream_score);
    assert_string_equal(options.compress.run.precision, "f32");
    assert_true(r.grids[0].axes[SWEEP_HEAL].count == 1 &&
                r.grids[0].axes[SWEEP_HEAL].values[0] == HEAL_NONE);
    assert_true(options.compress.heal.steps == 0 &&
                options.compress.heal.rate == 0.0); /* as grail_compress_options */
    assert_false(r.repeats_calibration);
    assert_string_equal(r.calibration.list[0].images.path, "dir/c");
    assert_null(r.calibration.list[0].images.preset);
    assert_int_equal(r.calibration.list[0].images.mean.given, 0);
    assert_int_equal(r.evaluation.list[0].count, 0);
    sweep_recipe_fini(&r);
    sweep_recipe_fini(&r);
}

static void a_recipe_names_what_scores_a_stream(void **state)
{
    (void)state;
    static const char *const names[] = {"first", "all", "branch"};
    static const char *const recipes[] = {RECIPE(ONE, LISTS, ", \"stream_score\": \"first\""),
                                          RECIPE(ONE, LISTS, ", \"stream_score\": \"all\""),
                                          RECIPE(ONE, LISTS, ", \"stream_score\": \"branch\"")};
    for (int i = 0; i < 3; i++) {
        sweep_recipe r = recipe_parsed(recipes[i]);
        const grail_plan_options options = options_of(&r);
        assert_string_equal(options.compress.cut.stream_score, names[i]);
        sweep_recipe_fini(&r);
    }
}

static void everything_that_a_recipe_says_is_read(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(
        "{\"about\": \"x\", \"checkpoints\": [{\"name\": \"a\", \"path\": \"/m/a.pth\","
        " \"settings\": {\"activation\": \"gelu\", \"normalize\": true, \"head_dim\": 64}}],"
        " \"selectors\": [\"fold\", \"random\"], \"sparsities\": [0, 0.25],"
        " \"compensate\": [\"full\", \"grail+repair\"], \"samples\": [8, 16], \"seeds\": [3, 1],"
        " \"heal\": [\"model\", \"none\", \"block\", \"block,model\"], \"heal_steps\": 32,"
        " \"heal_rate\": 0.01,"
        " \"repeat\": \"calibration\", \"sites\": [\"stream\", \"heads\"], \"loop\": \"open\","
        " \"select\": \"open\","
        " \"align\": 8, \"stream_score\": \"all\", \"precision\": \"bf16\","
        " \"calibration\": {\"path\": \"/c\", \"preset\": \"cifar\", \"split\": \"train\","
        " \"size\": 32, \"mean\": [0.1, 0.2, 0.3], \"std\": [1, 2, 3]},"
        " \"evaluation\": {\"path\": \"e\", \"labels\": \"l.csv\", \"images\": 2000}}");
    const grail_plan_options options = options_of(&r);
    assert_string_equal(r.checkpoints.list[0].path, "/m/a.pth");
    assert_int_equal(r.checkpoints.list[0].setting_count, 3);
    assert_string_equal(r.checkpoints.list[0].settings[0], "activation=gelu");
    assert_string_equal(r.checkpoints.list[0].settings[1], "normalize=true");
    assert_string_equal(r.checkpoints.list[0].settings[2], "head_dim=64");
    const sweep_grid *g = &r.grids[0];
    assert_string_equal(grail_selector_at((int)g->axes[SWEEP_SELECTORS].values[0]), "fold");
    assert_true(g->axes[SWEEP_SPARSITIES].values[1] == 0.25);
    assert_true(g->axes[SWEEP_COMPENSATE].values[1] == VARIANT_GRAIL_REPAIR);
    const double *heal = g->axes[SWEEP_HEAL].values;
    assert_int_equal(g->axes[SWEEP_HEAL].count, HEAL_KINDS);
    assert_true(heal[0] == HEAL_MODEL && heal[1] == HEAL_NONE && heal[2] == HEAL_BLOCK &&
                heal[3] == HEAL_BLOCK_MODEL);
    assert_true(options.compress.heal.steps == 32 && options.compress.heal.rate == 0.01);
    assert_true(g->axes[SWEEP_SAMPLES].values[1] == 16.0);
    assert_true(g->axes[SWEEP_SEEDS].values[0] == 3.0);
    assert_true(g->open_loop && r.repeats_calibration);
    assert_true(sweep_choice_cuts(&r.choices.list[0], "stream") &&
                sweep_choice_cuts(&r.choices.list[0], "heads"));
    assert_false(sweep_choice_cuts(&r.choices.list[0], "conv"));
    assert_int_equal(options.compress.cut.align, 8);
    assert_string_equal(options.compress.cut.select, "open");
    assert_string_equal(options.compress.cut.stream_score, "all");
    assert_string_equal(options.compress.run.precision, "bf16");
    assert_string_equal(r.calibration.list[0].images.split, "train");
    assert_int_equal(r.calibration.list[0].images.size, 32);
    assert_int_equal(r.calibration.list[0].images.mean.given, 1);
    assert_near(r.calibration.list[0].images.mean.values[1], 0.2, 0.0);
    assert_near(r.calibration.list[0].images.deviation.values[2], 3.0, 0.0);
    assert_string_equal(r.evaluation.list[0].images.labels, "dir/l.csv");
    assert_int_equal(r.evaluation.list[0].count, 2000);
    sweep_recipe_fini(&r);
}

static void what_is_not_known_is_refused_with_its_place(void **state)
{
    (void)state;
    assert_refused("[]", "r.json: not a JSON object");
    assert_refused(RECIPE(ONE, LISTS, ", \"sparsity\": 1"), "r.json: unknown key \"sparsity\"");
    assert_refused(
        RECIPE("[{\"name\": \"a\", \"path\": \"p\", \"x\": 1}]", LISTS, ""),
        "r.json: checkpoints[0]: unknown key \"x\"; the known keys are name, path, settings");
    assert_refused(RECIPE("[{\"path\": \"p\"}]", LISTS, ""), "checkpoints[0]: \"name\" is missing");
    assert_refused(RECIPE("[{\"name\": \"a\", \"path\": 7}]", LISTS, ""),
                   "checkpoints[0]: \"path\" is not a string");
    assert_refused(
        RECIPE("[{\"name\": \"a\", \"path\": \"p\"}, {\"name\": \"a\", \"path\": \"q\"}]", LISTS,
               ""),
        "checkpoints[1]: the name \"a\" is already used by checkpoints[0]");
    assert_refused(
        RECIPE("[{\"name\": \"a\", \"path\": \"p\", \"settings\": {\"k\": [1]}}]", LISTS, ""),
        "checkpoints[0]: settings.k: expected text");
    assert_refused(RECIPE("[]", LISTS, ""), "\"checkpoints\" is not an array of 1 to 100");
    assert_refused(RECIPE(ONE, LISTS, ", \"loop\": \"half\""),
                   "\"loop\" is \"half\", expected one of closed, open");
    assert_refused(RECIPE(ONE, LISTS, ", \"repeat\": \"x\""),
                   "expected one of selector, calibration");
    assert_refused(RECIPE(ONE, LISTS, ", \"select\": \"x\""),
                   "\"select\" is \"x\", expected one of closed, open");
    assert_refused(RECIPE(ONE, LISTS, ", \"stream_score\": \"x\""),
                   "\"stream_score\" is \"x\", expected one of first, all, branch");
    assert_refused(RECIPE(ONE, LISTS, ", \"align\": -1"), "\"align\" is -1, expected 0 to");
    assert_refused(RECIPE(ONE, LISTS, ", \"precision\": \"f16\""),
                   "\"precision\" is \"f16\", expected one of auto, f32, bf16");
    assert_refused(RECIPE(ONE, LISTS, ", \"heal_steps\": -1"),
                   "\"heal_steps\" is -1, expected 0 to 1000000");
    assert_refused(RECIPE(ONE, LISTS, ", \"heal_rate\": 1"),
                   "\"heal_rate\" is 1, expected 0 to below 1");
    assert_refused(RECIPE(ONE, LISTS, ", \"heal_rate\": \"x\""), "\"heal_rate\" is not a number");
#define SITES(sites)                                                                               \
    "{\"checkpoints\": " ONE ", " LISTS sites ", \"calibration\": {\"path\": \"c\"},"              \
    " \"evaluation\": {\"path\": \"e\"}}"
    assert_refused(SITES(""), "\"sites\" is not an array");
    assert_refused(SITES(", \"sites\": [\"conv\", \"x\"]"),
                   "sites[1]: expected one of ffn, heads, conv, stream");
    assert_refused(SITES(", \"sites\": [\"conv\", \"conv\"]"),
                   "sites[1]: repeats an earlier entry of the list");
    assert_refused("{\"checkpoints\": " ONE ", " LISTS ", \"sites\": [\"conv\"]}",
                   "\"calibration\" is missing");
}

#define LIST(key, value)                                                                           \
    RECIPE(ONE, "\"selectors\": [\"wanda\"], \"compensate\": [\"none\"]", ", \"" key "\": " value)

static void entries_of_lists_are_refused_with_their_place(void **state)
{
    (void)state;
    assert_refused(RECIPE(ONE, "\"selectors\": [\"wanda\"], \"compensate\": [\"none\"]", ""),
                   "r.json: \"sparsities\" is missing");
    assert_refused(LIST("sparsities", "0.5"), "\"sparsities\" is not an array of 1 to 1000");
    assert_refused(LIST("sparsities", "[]"), "\"sparsities\" is not an array of 1 to 1000");
    assert_refused(LIST("sparsities", "[0.5, 1.0]"),
                   "r.json: sparsities[1]: expected a number in [0, 1)");
    assert_refused(LIST("sparsities", "[-0.1]"), "sparsities[0]: expected a number in [0, 1)");
    assert_refused(LIST("sparsities", "[\"0.1\"]"), "sparsities[0]: expected a number in [0, 1)");
    assert_refused(LIST("sparsities", "[0.1, 0.2, 0.1]"),
                   "sparsities[2]: repeats an earlier entry of the list");
    assert_refused(LIST("sparsities", "[0.5], \"samples\": [0]"),
                   "samples[0]: expected an integer");
    assert_refused(LIST("sparsities", "[0.5], \"samples\": [8.5]"),
                   "samples[0]: expected an integer");
    assert_refused(LIST("sparsities", "[0.5], \"seeds\": [0, -1]"),
                   "seeds[1]: expected an integer");
    assert_refused(RECIPE(ONE, "\"selectors\": [\"finest\"], \"sparsities\": [0.5]", ""),
                   "r.json: selectors[0]: unknown selector 'finest'");
    assert_refused(RECIPE(ONE, "\"selectors\": [1], \"sparsities\": [0.5]", ""),
                   "selectors[0]: expected the name of a selector");
    assert_refused(RECIPE(ONE,
                          "\"selectors\": [\"wanda\"], \"sparsities\": [0.5], \"compensate\":"
                          " [\"none\", \"paper\"]",
                          ""),
                   "compensate[1]: expected one of none, repair, grail, grail+repair, full");
    assert_refused(RECIPE(ONE, LISTS, ", \"heal\": \"model\""), "\"heal\" is not an array");
    assert_refused(RECIPE(ONE, LISTS, ", \"heal\": [\"model\", \"head\"]"),
                   "r.json: heal[1]: expected one of none, block, model, block,model");
    assert_refused(RECIPE(ONE, LISTS, ", \"heal\": [true]"),
                   "heal[0]: expected one of none, block");
}

static void images_are_refused_with_their_place(void **state)
{
    (void)state;
#define IMAGES(calibration)                                                                        \
    "{\"checkpoints\": " ONE ", " LISTS ", \"sites\": [\"conv\"], \"evaluation\": {\"path\":"      \
    " \"e\"}, \"calibration\": " calibration "}"
    assert_refused(IMAGES("7"), "r.json: calibration: not a JSON object");
    assert_refused(IMAGES("{}"), "calibration: \"path\" is missing");
    assert_refused(IMAGES("{\"path\": \"c\", \"preset\": \"x\"}"),
                   "calibration: \"preset\" is \"x\", expected one of cifar");
    assert_refused(IMAGES("{\"path\": \"c\", \"split\": \"all\"}"),
                   "calibration: \"split\" is \"all\", expected one of train, test");
    assert_refused(IMAGES("{\"path\": \"c\", \"mean\": [1, 2]}"),
                   "calibration: \"mean\" is not an array of three numbers");
    assert_refused(IMAGES("{\"path\": \"c\", \"images\": 8}"),
                   "give the number of calibration samples in \"samples\"");
}

#define TEXTS(calibration, evaluation, more)                                                       \
    "{\"checkpoints\": [{\"name\": \"a\", \"path\": \"p\"}, {\"name\": \"b\", \"path\": "          \
    "\"q\"}], " LISTS ", \"sites\": [\"ffn\"], \"calibration\": " calibration                      \
    ", \"evaluation\": " evaluation more "}"
#define TEXT "{\"kind\": \"text\", \"path\": \"t.txt\"}"
#define NAMED(name, more)                                                                          \
    "{\"name\": \"" name "\", \"kind\": \"text\", \"path\": \"t.txt\"" more "}"

static void texts_and_their_options_are_read(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(
        TEXTS(TEXT,
              "[" NAMED("x", ", \"protocol\": \"lines\", \"context\": 256, "
                             "\"window_bos\": true,"
                             " \"windows\": 9, \"field\": \"story\", \"checkpoints\": "
                             "[\"b\"]") ", {\"name\": \"y\", \"path\": \"images\", "
                                        "\"images\": 7}]",
              ", \"outcomes\": true"));
    assert_int_equal(r.calibration.count, 1);
    assert_null(r.calibration.list[0].name);
    assert_int_equal(r.calibration.list[0].kind, DATA_TEXT);
    assert_string_equal(r.calibration.list[0].text.path, "dir/t.txt");
    assert_int_equal(r.evaluation.count, 2);
    const sweep_data *x = &r.evaluation.list[0];
    assert_string_equal(x->text.protocol, "lines");
    assert_string_equal(x->text.field, "story");
    assert_true(x->text.context == 256 && x->text.window_bos == 1 && x->count == 9);
    assert_false(sweep_data_serves(x, &r.checkpoints, 0));
    assert_true(sweep_data_serves(x, &r.checkpoints, 1));
    r.checkpoints.list[1].input = INPUT_IS_IMAGES;
    assert_false(sweep_data_serves(x, &r.checkpoints, 1));
    assert_true(sweep_data_serves(&r.evaluation.list[1], &r.checkpoints, 1));
    assert_int_equal(r.evaluation.list[1].count, 7);
    assert_true(r.keeps_outcomes);
    sweep_recipe_fini(&r);
}

static void texts_are_refused_with_their_place(void **state)
{
    (void)state;
    assert_refused(TEXTS("[]", TEXT, ""), "r.json: \"calibration\" is not an array of 1 to 100");
    assert_refused(TEXTS("[" TEXT "]", TEXT, ""), "r.json: calibration[0]: \"name\" is missing");
    assert_refused(TEXTS(TEXT, "[" NAMED("x", "") ", " NAMED("x", "") "]", ""),
                   "evaluation[1]: the name \"x\" is already used by the entry 0");
    assert_refused(TEXTS(TEXT, "{\"kind\": \"sound\", \"path\": \"p\"}", ""),
                   "\"kind\" is \"sound\", expected one of images, text");
    assert_refused(TEXTS(TEXT, "{\"kind\": \"text\"}", ""), "evaluation: \"path\" is missing");
    assert_refused(TEXTS(TEXT, "{\"kind\": \"text\", \"path\": \"t\", \"split\": \"test\"}", ""),
                   "evaluation: unknown key \"split\"; the known keys are name, kind, path");
    assert_refused(TEXTS(TEXT, "{\"kind\": \"text\", \"path\": \"t\", \"context\": -1}", ""),
                   "evaluation: \"context\" is -1, expected 0");
    assert_refused(TEXTS(TEXT, "{\"kind\": \"text\", \"path\": \"t\", \"protocol\": \"c5\"}", ""),
                   "\"protocol\" is \"c5\", expected one of plain, lines");
    assert_refused(TEXTS(TEXT, "[7]", ""), "evaluation[0]: not a JSON object");
    assert_refused(TEXTS(TEXT, "[" NAMED("x", ", \"checkpoints\": [\"c\"]") "]", ""),
                   "evaluation[0]: checkpoints[0]: expected the name of a checkpoint");
    assert_refused(TEXTS(TEXT, "[" NAMED("x", ", \"checkpoints\": []") "]", ""),
                   "\"checkpoints\" is not an array of names of checkpoints");
    assert_refused(TEXTS("{\"kind\": \"text\", \"path\": \"t\", \"windows\": 8}", TEXT, ""),
                   "\"windows\" is a key of \"evaluation\"");
    assert_refused(TEXTS(TEXT, TEXT, ", \"grids\": [{\"calibration\": [\"x\"]}]"),
                   "grids[0]: calibration[0]: expected the name of a calibration of this recipe");
}

static void choices_are_refused_with_their_place(void **state)
{
    (void)state;
    assert_refused(RECIPE(ONE, LISTS, ", \"target\": \"far\""),
                   "r.json: \"target\" is \"far\", expected one of local, dense, mixed");
    assert_refused(RECIPE(ONE, LISTS, ", \"grids\": [{}, {\"refit\": [\"all\", 7]}]"),
                   "r.json: grids[1]: \"refit\" is not a string");
    assert_refused(RECIPE(ONE, LISTS, ", \"alpha\": [0.1, -1]"), "\"alpha\" is negative");
    assert_refused(RECIPE(ONE, LISTS, ", \"alpha\": [0.1, 0.1]"),
                   "r.json: alpha[1]: repeats an earlier entry of the list");
    assert_refused(RECIPE(ONE, LISTS, ", \"alpha\": []"),
                   "\"alpha\" is neither a value nor an array of 1 to 1000 values");
    assert_refused(RECIPE(ONE, LISTS, ", \"budget\": \"lucky\""),
                   "\"budget\" is \"lucky\", expected one of uniform, flap");
    assert_refused(RECIPE(ONE, LISTS, ", \"uniform_widths\": true"),
                   "r.json: \"uniform_widths\" has no effect without \"limit\" or \"budget\"");
    assert_refused(RECIPE(ONE, LISTS, ", \"tries\": \"many\", \"budget\": \"search\""),
                   "\"tries\" is not an integer");
    assert_refused(RECIPE(ONE, LISTS, ", \"precision\": {}"), "\"precision\" is not a string");
}

/* -- cells --------------------------------------------------------------------------------------
 */

static int64_t cells_of(const char *text)
{
    sweep_recipe r = recipe_parsed(text);
    sweep_cell *cells = NULL;
    const int64_t count = recipe_cells(&r, &cells);
    for (int64_t i = 0; i < count; i++) {
        const line_settings settings = cells[i].settings;
        int64_t index = -1;
        assert_ok(sweep_cell_of_settings("line", &settings, &r, cells, count, &index));
        assert_int_equal(index, i);
    }
    memory_free(cells);
    sweep_recipe_fini(&r);
    return count;
}

static void lists_are_combined(void **state)
{
    (void)state;
    assert_int_equal(cells_of(RECIPE(ONE, LISTS, "")), 1);
    assert_int_equal(
        cells_of(RECIPE("[{\"name\": \"a\", \"path\": \"p\"}, {\"name\": \"b\", \"path\": \"q\"}]",
                        "\"selectors\": [\"wanda\", \"magnitude-l1\"], \"sparsities\": [0.1, 0.2,"
                        " 0.3], \"compensate\": [\"none\", \"full\"], \"samples\": [8, 16]",
                        ", \"heal\": [\"none\", \"block\", \"model\"]")),
        2 * 2 * 3 * 2 * 2 * 3);
}

static void further_seeds_run_where_chance_plays(void **state)
{
    (void)state;
#define SEEDED(selector, variant, more)                                                            \
    RECIPE(ONE,                                                                                    \
           "\"selectors\": [\"" selector "\"], \"sparsities\": [0.5], \"compensate\": [\"" variant \
           "\"], \"seeds\": [4, 5, 6]",                                                            \
           more)
#define REPEATED ", \"repeat\": \"calibration\""
    assert_int_equal(cells_of(SEEDED("magnitude-l1", "full", "")), 1);
    assert_int_equal(cells_of(SEEDED("wanda", "none", "")), 1);
    assert_int_equal(cells_of(SEEDED("random", "none", "")), 3);
    assert_int_equal(cells_of(SEEDED("fold", "none", "")), 3);
    assert_int_equal(cells_of(SEEDED("random-fold", "grail", "")), 3);
    assert_int_equal(cells_of(SEEDED("magnitude-l1", "full", REPEATED)), 3);
    assert_int_equal(cells_of(SEEDED("magnitude-l1", "repair", REPEATED)), 3);
    assert_int_equal(cells_of(SEEDED("magnitude-l1", "none", REPEATED)), 3);
}

static void the_first_seed_is_the_one_of_the_list(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(SEEDED("magnitude-l2", "none", ""));
    sweep_cell *cells = NULL;
    assert_int_equal(recipe_cells(&r, &cells), 1);
    assert_int_equal(cells[0].settings.seed, 4);
    memory_free(cells);
    sweep_recipe_fini(&r);
}

static void grids_take_what_they_lack_from_the_top_and_cells_count_once(void **state)
{
    (void)state;
    /* two at the top; one of them again with other sample counts, of which 128 is there already */
    assert_int_equal(
        cells_of(RECIPE(ONE,
                        "\"selectors\": [\"wanda\"], \"sparsities\": [0.5, 0.25],"
                        " \"compensate\": [\"none\"]",
                        ", \"grids\": [{}, {\"sparsities\": [0.5], \"samples\": [8, 128]}]")),
        3);
    /* a cell is healed where a grid says so */
    assert_int_equal(cells_of(RECIPE(ONE, LISTS,
                                     ", \"grids\": [{}, {\"heal\": [\"model\"]},"
                                     " {\"heal\": [\"model\", \"none\"]}]")),
                     2);
    /* lists that stand in the grids alone */
    assert_int_equal(cells_of(RECIPE(ONE, "\"selectors\": [\"wanda\"]",
                                     ", \"grids\": [{\"sparsities\": [0.5],"
                                     " \"compensate\": [\"none\", \"full\"], \"loop\": \"open\"},"
                                     " {\"sparsities\": [0.5], \"compensate\": [\"none\"]}]")),
                     3);
    assert_refused(
        RECIPE(ONE, "\"selectors\": [\"wanda\"]", ", \"grids\": [{\"sparsities\": [0.5]}]"),
        "r.json: grids[0]: \"compensate\" is missing");
    assert_refused(RECIPE(ONE, LISTS, ", \"grids\": [{\"repeat\": \"selector\"}]"),
                   "grids[0]: unknown key \"repeat\"");
    assert_refused(RECIPE(ONE, LISTS, ", \"grids\": [{}, {\"checkpoints\": [\"b\"]}]"),
                   "grids[1]: checkpoints[0]: expected the name of a checkpoint of this recipe");
    assert_refused(RECIPE(ONE, LISTS, ", \"grids\": []"), "\"grids\" is not an array of 1 to 100");
}

static void what_only_healing_has_makes_no_further_unhealed_cells(void **state)
{
    (void)state;
    const char *const text =
        RECIPE(ONE, LISTS,
               ", \"heal\": [\"none\", \"model\"], \"heal_steps\": [40, 80], \"heal_rate\": 0.01,"
               " \"target\": [\"local\", \"dense\"]");
    sweep_recipe r = recipe_parsed(text);
    sweep_cell *cells = NULL;
    int64_t count = 0;
    int unhealed = 0;
    assert_ok(sweep_cells(&r, &cells, &count));
    assert_int_equal(count, 6);
    for (int64_t i = 0; i < count; i++) {
        const bool healed = variant_heal(cells[i].settings.variant) != HEAL_NONE;
        unhealed += healed ? 0 : 1;
        assert_true((strstr(cells[i].settings.choices, "heal_steps=") != NULL) == healed);
        assert_non_null(strstr(cells[i].settings.choices, "target="));
        /* lines of before, when such cells had them, are of the same cell */
        line_settings before = cells[i].settings;
        int64_t index = -1;
        before.choices = healed                                    ? before.choices
                         : strstr(before.choices, "local") != NULL ? "target=local heal_steps=80"
                                                                   : "target=dense heal_steps=80";
        assert_ok(sweep_cell_of_settings("line", &before, &r, cells, count, &index));
        assert_int_equal(index, i);
    }
    assert_int_equal(unhealed, 2);
    memory_free(cells);
    sweep_recipe_fini(&r);
    /* so they are those of a grid without it */
    assert_int_equal(cells_of(RECIPE(ONE, LISTS,
                                     ", \"grids\": [{}, {\"heal\": [\"model\", \"none\"],"
                                     " \"heal_steps\": [40, 80]}]")),
                     3);
}

/* Arrays of choices are combined, and cells are told apart by what varies. */
static void choices_are_combined(void **state)
{
    (void)state;
    assert_int_equal(cells_of(RECIPE(ONE, LISTS,
                                     ", \"target\": [\"local\", \"dense\"], \"alpha\":"
                                     " [\"cross-validation\", 0.5, 3], \"align\": 8")),
                     6);
    assert_int_equal(
        cells_of(RECIPE(ONE, LISTS,
                        ", \"grids\": [{}, {\"refit\": [\"none\", \"all\"]},"
                        " {\"refit\": \"none\"}, {\"sites\": [\"stream\", \"ffn\"]}]")),
        4);
    sweep_recipe r =
        recipe_parsed(RECIPE(ONE, LISTS,
                             ", \"limit\": \"macs\", \"align\": 8, \"grids\": [{\"alpha\":"
                             " 0.25, \"sites\": [\"conv\", \"ffn\"], \"drop_sublayers\":"
                             " true}, {\"budget\": [\"error\"], \"tries\": 7}]"));
    grail_plan_options options;
    assert_int_equal(r.choices.count, 2);
    assert_string_equal(r.choices.list[0].text, "sites=conv,ffn alpha=0.25 drop_sublayers=true");
    assert_true(sweep_choice_plans(&r.choices.list[0]));
    assert_ok(sweep_choice_options(&r.choices.list[0], &options));
    assert_true(options.compress.fit.alpha.value == 0.25 && options.drop_sublayers == 1);
    assert_string_equal(options.limit, "macs");
    assert_string_equal(options.budget, "search");
    assert_int_equal(options.compress.cut.align, 8);
    assert_string_equal(r.choices.list[1].text, "sites=conv budget=error tries=7");
    assert_ok(sweep_choice_options(&r.choices.list[1], &options));
    assert_string_equal(options.budget, "error");
    assert_int_equal(options.tries, 7);
    sweep_recipe_fini(&r);
}

/* Each calibration is combined with the checkpoints that it is for. */
static void calibrations_are_combined(void **state)
{
    (void)state;
#define THREE                                                                                      \
    "[" NAMED("x", ", \"checkpoints\": [\"a\"]") ", " NAMED("y", "") ", " NAMED("z", "") "]"
    assert_int_equal(cells_of(TEXTS(THREE, TEXT, "")), 5);
    assert_int_equal(cells_of(TEXTS(THREE, TEXT, ", \"grids\": [{\"calibration\": [\"y\"]}]")), 2);
    sweep_recipe r =
        recipe_parsed(TEXTS(THREE, TEXT, ", \"grids\": [{}, {\"calibration\": [\"x\"]}]"));
    sweep_cell *cells = NULL;
    int64_t count = 0;
    assert_fails(sweep_cells(&r, &cells, &count), GRAIL_ERROR_FORMAT,
                 "grids[1]: none of the calibrations is for checkpoint \"b\"");
    sweep_recipe_fini(&r);
}

static void too_many_cells_are_refused(void **state)
{
    (void)state;
    char text[16384];
    char numbers[4096] = "";
    size_t used = 0;
    for (int i = 1; i <= 400; i++) {
        used +=
            (size_t)snprintf(numbers + used, sizeof numbers - used, "%s%d", i == 1 ? "" : ", ", i);
    }
    snprintf(text, sizeof text, RECIPE(ONE, LISTS, ", \"samples\": [%s], \"seeds\": [%s]"), numbers,
             numbers);
    sweep_recipe r = recipe_parsed(text);
    sweep_cell *cells = NULL;
    int64_t count = 0;
    assert_fails(sweep_cells(&r, &cells, &count), GRAIL_ERROR_FORMAT,
                 "more than 100000 combinations");
    sweep_recipe_fini(&r);
}

static void cells_that_share_a_dense_pass_follow_each_other(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(
        RECIPE("[{\"name\": \"a\", \"path\": \"p\"}, {\"name\": \"b\", \"path\": \"q\"}]",
               "\"selectors\": [\"random\", \"wanda\"], \"sparsities\": [0.3, 0.1],"
               " \"compensate\": [\"full\", \"none\"], \"samples\": [16, 8], \"seeds\": [1, 0]",
               ""));
    sweep_cell *cells = NULL;
    const int64_t count = recipe_cells(&r, &cells);
    int changes = 0;
    for (int64_t i = 1; i < count; i++) {
        changes += sweep_cells_share(&cells[i - 1], &cells[i]) ? 0 : 1;
    }
    assert_int_equal(changes, 2 * 2 * 2 - 1); /* one for each checkpoint, sample count and seed */
    memory_free(cells);
    sweep_recipe_fini(&r);
}

static void the_words_for_a_cell_tell_what_is_healed(void **state)
{
    (void)state;
    static const char *const words[] = {"none,", "full,", "heal block,model,",
                                        "full + heal block,model,"};
    sweep_recipe r = recipe_parsed(RECIPE(ONE,
                                          "\"selectors\": [\"wanda\"], \"sparsities\": [0.5],"
                                          " \"compensate\": [\"full\", \"none\"]",
                                          ", \"heal\": [\"block,model\", \"none\"]"));
    sweep_cell *cells = NULL;
    char text[SWEEP_CELL_TEXT];
    char expected[SWEEP_CELL_TEXT];
    assert_int_equal(recipe_cells(&r, &cells), 4);
    for (int i = 0; i < 4; i++) {
        snprintf(expected, sizeof expected, "a, wanda, 50 %%, %s 128 samples, seed 0", words[i]);
        assert_string_equal(sweep_cell_text(&cells[i], text), expected);
    }
    memory_free(cells);
    sweep_recipe_fini(&r);
}

static void a_cell_reads_back_as_it_was_written(void **state)
{
    (void)state;
    sweep_recipe r = recipe_parsed(
        RECIPE(ONE,
               "\"selectors\": [\"fold\"], \"sparsities\": [0.30000000000000004, 0.7],"
               " \"compensate\": [\"grail+repair\", \"full\"], \"seeds\": [9007199254740992]",
               ", \"loop\": \"open\", \"heal\": [\"none\", \"block,model\"]"));
    sweep_cell *cells = NULL;
    char words[SWEEP_CELL_TEXT];
    const int64_t count = recipe_cells(&r, &cells);
    assert_int_equal(count, 8);
    for (int64_t i = 0; i < count; i++) {
        json_t *document = NULL;
        json_t *again = NULL;
        buffer text = {.maximum = 1000};
        int64_t index = -1;
        result_line read = {0};
        const result_line line = {
            .kind = LINE_FAILURE, .settings = cells[i].settings, .error = "no luck"};
        assert_ok(line_to_json(&line, &document));
        assert_ok(json_append_line(document, &text));
        assert_ok(json_parse("line", text.bytes, text.size, &again));
        assert_ok(line_check_settings("line", again));
        assert_ok(line_read("line", again, &read));
        assert_ok(sweep_cell_of_settings("line", &read.settings, &r, cells, count, &index));
        assert_int_equal(index, i);
        line_fini(&read);
        json_decref(document);
        json_decref(again);
        buffer_fini(&text);
    }
    assert_string_equal(
        sweep_cell_text(&cells[0], words),
        "a, fold, 30 %, grail+repair, 128 samples, seed 9007199254740992, open loop");
    memory_free(cells);
    sweep_recipe_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_recipe_leaves_out_has_defaults),
        cmocka_unit_test(a_recipe_names_what_scores_a_stream),
        cmocka_unit_test(everything_that_a_recipe_says_is_read),
        cmocka_unit_test(what_is_not_known_is_refused_with_its_place),
        cmocka_unit_test(entries_of_lists_are_refused_with_their_place),
        cmocka_unit_test(images_are_refused_with_their_place),
        cmocka_unit_test(lists_are_combined),
        cmocka_unit_test(further_seeds_run_where_chance_plays),
        cmocka_unit_test(the_first_seed_is_the_one_of_the_list),
        cmocka_unit_test(grids_take_what_they_lack_from_the_top_and_cells_count_once),
        cmocka_unit_test(texts_and_their_options_are_read),
        cmocka_unit_test(texts_are_refused_with_their_place),
        cmocka_unit_test(choices_are_refused_with_their_place),
        cmocka_unit_test(choices_are_combined),
        cmocka_unit_test(calibrations_are_combined),
        cmocka_unit_test(too_many_cells_are_refused),
        cmocka_unit_test(cells_that_share_a_dense_pass_follow_each_other),
        cmocka_unit_test(what_only_healing_has_makes_no_further_unhealed_cells),
        cmocka_unit_test(the_words_for_a_cell_tell_what_is_healed),
        cmocka_unit_test(a_cell_reads_back_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
