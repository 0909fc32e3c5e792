#include "study/recipe/cells.h"

#include <grail/compress.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of a recipe's selectors are known ones. */
static bool selector_draws(int selector)
{
    grail_selector_facts facts = {0};
    return grail_selector_describe(grail_selector_at(selector), &facts) == GRAIL_OK &&
           facts.draws != 0;
}

/* -- order --------------------------------------------------------------------------------------
 */

static int order(double a, double b)
{
    return (a > b) - (a < b);
}

static int compare_cells(const void *left, const void *right)
{
    const sweep_cell *a = left;
    const sweep_cell *b = right;
    const int orders[] = {
        order(a->checkpoint, b->checkpoint),
        order(a->settings.open_loop, b->settings.open_loop),
        order(a->calibration, b->calibration),
        order((double)a->settings.samples, (double)b->settings.samples),
        order((double)a->settings.seed, (double)b->settings.seed),
        order(a->choice, b->choice),
        order(a->selector, b->selector),
        order(a->settings.sparsity, b->settings.sparsity),
        order(a->settings.variant, b->settings.variant),
    };
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (orders[i] != 0) {
            return orders[i];
        }
    }
    return 0;
}

bool sweep_cells_share(const sweep_cell *a, const sweep_cell *b)
{
    return a->checkpoint == b->checkpoint && a->settings.open_loop == b->settings.open_loop &&
           a->calibration == b->calibration && a->settings.samples == b->settings.samples &&
           a->settings.seed == b->settings.seed;
}

/* -- enumeration --------------------------------------------------------------------------------
 */

/* Adds the number of combinations of a grid, including those that repeat another. */
static grail_status count_grid(const sweep_grid *grid, int64_t *total)
{
    int64_t product = 1;
    for (int axis = 0; axis < SWEEP_AXES; axis++) {
        product *= grid->axes[axis].count; /* at most 100000 times 1000 */
        if (product > SWEEP_MOST_CELLS) {
            break;
        }
    }
    *total += product;
    if (*total > SWEEP_MOST_CELLS) {
        return error_set(
            GRAIL_ERROR_FORMAT,
            "the lists of the recipe make more than %d combinations; shorten the lists",
            SWEEP_MOST_CELLS);
    }
    return GRAIL_OK;
}

/* A cell that is not healed has nothing that only healing has. */
static int choice_of(const sweep_recipe *recipe, int given, variant v)
{
    return given < 0 || variant_heal(v) != HEAL_NONE ? given : recipe->choices.list[given].unhealed;
}

/* The index-th combination of a grid, its entries in places[]. */
static sweep_cell combine(const sweep_recipe *recipe, const sweep_grid *grid, int64_t index,
                          int64_t places[SWEEP_AXES])
{
    double values[SWEEP_AXES];
    for (int axis = 0; axis < SWEEP_AXES; axis++) {
        const int64_t count = grid->axes[axis].count;
        places[axis] = index % count;
        values[axis] = grid->axes[axis].values[places[axis]];
        index /= count;
    }
    const int checkpoint = (int)values[SWEEP_CHECKPOINTS];
    const int selector = (int)values[SWEEP_SELECTORS];
    const int calibration = (int)values[SWEEP_CALIBRATIONS];
    const variant made =
        variant_healed((variant)values[SWEEP_COMPENSATE], (heal_kind)values[SWEEP_HEAL]);
    const int choice = choice_of(recipe, (int)values[SWEEP_CHOICES], made);
    const line_settings settings = {
        .checkpoint = recipe->checkpoints.list[checkpoint].name,
        .selector = grail_selector_at(selector),
        .sparsity = values[SWEEP_SPARSITIES],
        .variant = made,
        .samples = (int64_t)values[SWEEP_SAMPLES],
        .seed = (int64_t)values[SWEEP_SEEDS],
        .open_loop = grid->open_loop,
        .calibration = recipe->calibration.list[calibration].name,
        .choices = recipe->choices.list[choice].text,
    };
    return (sweep_cell){checkpoint, selector, calibration, choice, settings};
}

static bool is_calibrated(const sweep_recipe *recipe, int calibration, int checkpoint)
{
    return sweep_data_serves(&recipe->calibration.list[calibration], &recipe->checkpoints,
                             checkpoint);
}

/* Every checkpoint of a grid needs something to calibrate on. */
static grail_status check_grid(const sweep_recipe *recipe, const sweep_grid *grid)
{
    const sweep_list *checkpoints = &grid->axes[SWEEP_CHECKPOINTS];
    const sweep_list *calibrations = &grid->axes[SWEEP_CALIBRATIONS];
    for (int i = 0; i < checkpoints->count; i++) {
        const int checkpoint = (int)checkpoints->values[i];
        bool found = false;
        for (int c = 0; c < calibrations->count; c++) {
            found = found || is_calibrated(recipe, (int)calibrations->values[c], checkpoint);
        }
        if (!found) {
            const sweep_checkpoint *named = &recipe->checkpoints.list[checkpoint];
            const char *reads = named->input == INPUT_IS_TEXT     ? "; it reads text"
                                : named->input == INPUT_IS_IMAGES ? "; it reads images"
                                                                  : "";
            return error_set(GRAIL_ERROR_FORMAT,
                             "grids[%d]: none of the calibrations is for checkpoint \"%s\"%s",
                             (int)(grid - recipe->grids), named->name, reads);
        }
    }
    return GRAIL_OK;
}

static void add_grid(const sweep_recipe *recipe, const sweep_grid *grid, sweep_cell *cells,
                     int64_t *count)
{
    int64_t combinations = 1;
    for (int axis = 0; axis < SWEEP_AXES; axis++) {
        combinations *= grid->axes[axis].count;
    }
    for (int64_t i = 0; i < combinations; i++) {
        int64_t places[SWEEP_AXES];
        const sweep_cell cell = combine(recipe, grid, i, places);
        /* further seeds: the selector draws (random, fold, random-fold), or the recipe repeats
         * everything with other calibration samples */
        const bool has_seed = places[SWEEP_SEEDS] == 0 || recipe->repeats_calibration ||
                              selector_draws(cell.selector);
        if (has_seed && is_calibrated(recipe, cell.calibration, cell.checkpoint)) {
            cells[(*count)++] = cell;
        }
    }
}

static int64_t drop_repeated(sweep_cell *cells, int64_t count)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++) {
        if (kept == 0 || compare_cells(&cells[kept - 1], &cells[i]) != 0) {
            cells[kept++] = cells[i];
        }
    }
    return kept;
}

grail_status sweep_cells(const sweep_recipe *recipe, sweep_cell **out, int64_t *count)
{
    grail_status status = GRAIL_OK;
    sweep_cell *cells = NULL;
    int64_t total = 0;
    int64_t filled = 0;
    for (int g = 0; g < recipe->grid_count; g++) {
        TRY(check_grid(recipe, &recipe->grids[g]));
        TRY(count_grid(&recipe->grids[g], &total));
    }
    TRY(memory_new(&cells, (size_t)total, sizeof cells[0]));
    for (int g = 0; g < recipe->grid_count; g++) {
        add_grid(recipe, &recipe->grids[g], cells, &filled);
    }
    qsort(cells, (size_t)filled, sizeof cells[0], compare_cells);
    *count = drop_repeated(cells, filled);
    *out = cells;
    cells = NULL;
out:
    memory_free(cells);
    return status;
}

/* -- as text ------------------------------------------------------------------------------------
 */

grail_status sweep_cell_of_settings(const char *where, const line_settings *settings,
                                    const sweep_recipe *recipe, const sweep_cell *cells,
                                    int64_t count, int64_t *index)
{
    sweep_cell cell = {
        .checkpoint = sweep_checkpoints_find(&recipe->checkpoints, settings->checkpoint),
        .calibration = sweep_data_find(&recipe->calibration, settings->calibration),
        .choice = choice_of(recipe, sweep_choices_find(&recipe->choices, settings->choices),
                            settings->variant),
        .settings = *settings,
    };
    if (cell.checkpoint < 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: the recipe has no checkpoint \"%s\"", where,
                         settings->checkpoint);
    }
    CHECK(sweep_find_selector(where, settings->selector, &cell.selector));
    const sweep_cell *found =
        count == 0 ? NULL : bsearch(&cell, cells, (size_t)count, sizeof cells[0], compare_cells);
    if (found == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: this cell is not in the recipe", where);
    }
    *index = found - cells;
    return GRAIL_OK;
}

const char *sweep_cell_text(const sweep_cell *cell, char text[SWEEP_CELL_TEXT])
{
    const line_settings *s = &cell->settings;
    const heal_kind heal = variant_heal(s->variant);
    const bool healed = heal != HEAL_NONE;
    const bool only_healed = healed && variant_form(s->variant) == VARIANT_NONE;
    snprintf(text, SWEEP_CELL_TEXT, "%s, %s, %g %%, %s%s%s%s, %lld samples%s%s, seed %lld%s%s%s",
             s->checkpoint, s->selector, 100.0 * s->sparsity,
             only_healed ? "" : variant_form_name(s->variant), healed && !only_healed ? " + " : "",
             healed ? "heal " : "", healed ? heal_kind_name(heal) : "", (long long)s->samples,
             s->calibration == NULL ? "" : " of ", s->calibration == NULL ? "" : s->calibration,
             (long long)s->seed, s->open_loop ? ", open loop" : "", s->choices == NULL ? "" : ", ",
             s->choices == NULL ? "" : s->choices);
    return text;
}
