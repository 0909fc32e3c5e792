#include "pipeline/sweep_cells.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool selector_draws(selector_kind selector)
{
    return selector == SELECTOR_RANDOM || selector_folds(selector);
}

bool sweep_cell_draws(const sweep_recipe *recipe, const sweep_cell *cell)
{
    return selector_draws(cell->selector) || recipe->repeats_calibration;
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
        order(a->open_loop, b->open_loop),
        order((double)a->samples, (double)b->samples),
        order((double)a->seed, (double)b->seed),
        order(a->selector, b->selector),
        order(a->sparsity, b->sparsity),
        order(a->variant, b->variant),
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
    return a->checkpoint == b->checkpoint && a->open_loop == b->open_loop &&
           a->samples == b->samples && a->seed == b->seed;
}

int64_t sweep_cell_find(const sweep_cell *cells, int64_t count, const sweep_cell *cell)
{
    if (count == 0) {
        return -1;
    }
    const sweep_cell *found = bsearch(cell, cells, (size_t)count, sizeof cells[0], compare_cells);
    return found == NULL ? -1 : found - cells;
}

/* -- enumeration --------------------------------------------------------------------------------
 */

/* Combinations of a grid, those that only repeat another included. */
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
        return error_set(GRAIL_ERROR_FORMAT,
                         "the lists of the recipe make more than %d combinations; shorten them",
                         SWEEP_MOST_CELLS);
    }
    return GRAIL_OK;
}

/* The index-th combination of a grid, its entries in places[]. */
static sweep_cell combine(const sweep_grid *grid, int64_t index, int64_t places[SWEEP_AXES])
{
    double values[SWEEP_AXES];
    for (int axis = 0; axis < SWEEP_AXES; axis++) {
        const int64_t count = grid->axes[axis].count;
        places[axis] = index % count;
        values[axis] = grid->axes[axis].values[places[axis]];
        index /= count;
    }
    return (sweep_cell){
        .checkpoint = (int)values[SWEEP_CHECKPOINTS],
        .open_loop = grid->open_loop,
        .samples = (int64_t)values[SWEEP_SAMPLES],
        .seed = (int64_t)values[SWEEP_SEEDS],
        .selector = (selector_kind)values[SWEEP_SELECTORS],
        .sparsity = values[SWEEP_SPARSITIES],
        .variant = (sweep_variant)values[SWEEP_COMPENSATE],
    };
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
        const sweep_cell cell = combine(grid, i, places);
        if (places[SWEEP_SEEDS] == 0 || sweep_cell_draws(recipe, &cell)) {
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

grail_status sweep_cell_to_json(const sweep_recipe *recipe, const sweep_cell *cell, json_t **out)
{
    const char *name = recipe->checkpoints[cell->checkpoint].name;
    json_t *object = json_pack(
        "{s:o, s:o, s:f, s:o, s:b, s:I, s:I, s:o}", "checkpoint", json_text(name), "selector",
        json_text(selector_name(cell->selector)), "sparsity", cell->sparsity, "compensate",
        json_text(sweep_variant_compensation(cell->variant)), "repair",
        sweep_variant_repairs(cell->variant) ? 1 : 0, "samples", (json_int_t)cell->samples, "seed",
        (json_int_t)cell->seed, "loop", json_text(cell->open_loop ? "open" : "closed"));
    if (object == NULL) {
        return error_set(GRAIL_ERROR_MEMORY, "out of memory while building JSON");
    }
    *out = object;
    return GRAIL_OK;
}

static grail_status find_checkpoint(const char *where, const json_t *object,
                                    const sweep_recipe *recipe, int *out)
{
    const char *name = NULL;
    const grail_status status = json_get_string(where, object, "checkpoint", "", &name);
    if (status != GRAIL_OK) {
        return status;
    }
    for (int i = 0; i < recipe->checkpoint_count; i++) {
        if (strcmp(recipe->checkpoints[i].name, name) == 0) {
            *out = i;
            return GRAIL_OK;
        }
    }
    return error_set(GRAIL_ERROR_FORMAT, "%s: the recipe has no checkpoint \"%s\"", where, name);
}

grail_status sweep_cell_from_json(const char *where, json_t *object, const sweep_recipe *recipe,
                                  sweep_cell *out)
{
    static const char *const keys[] = {"checkpoint", "selector", "sparsity", "compensate", "repair",
                                       "samples",    "seed",     "loop",     NULL};
    grail_status status = GRAIL_OK;
    const char *text = NULL;
    bool repairs = false;
    sweep_cell cell = {0};
    TRY(json_check_keys(where, object, keys));
    TRY(find_checkpoint(where, object, recipe, &cell.checkpoint));
    TRY(json_get_string(where, object, "selector", "", &text));
    TRY(selector_from_name(text, &cell.selector));
    TRY(json_get_real(where, object, "sparsity", -1.0, &cell.sparsity));
    TRY(json_get_boolean(where, object, "repair", false, &repairs));
    TRY(json_get_string(where, object, "compensate", "", &text));
    if (!sweep_variant_find(text, repairs, &cell.variant)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"compensate\" is \"%s\"", where, text);
    }
    TRY(json_require_integer(where, object, "samples", &cell.samples));
    TRY(json_require_integer(where, object, "seed", &cell.seed));
    TRY(json_get_string(where, object, "loop", "", &text));
    cell.open_loop = strcmp(text, "open") == 0;
    *out = cell;
out:
    return status;
}

const char *sweep_cell_text(const sweep_recipe *recipe, const sweep_cell *cell,
                            char text[SWEEP_CELL_TEXT])
{
    snprintf(text, SWEEP_CELL_TEXT, "%s, %s, %g %%, %s, %lld samples, seed %lld%s",
             recipe->checkpoints[cell->checkpoint].name, selector_name(cell->selector),
             100.0 * cell->sparsity, sweep_variant_name(cell->variant), (long long)cell->samples,
             (long long)cell->seed, cell->open_loop ? ", open loop" : "");
    return text;
}
