/* Any text as the recipe of a sweep. An accepted recipe makes cells that are within their ranges,
 * each once and in order. The line that would be written for a cell reads back as the same cell. */
#include "fuzz.h"

#include "study/recipe/cells.h"
#include "study/results/line_fields.h"

enum { MOST_WRITTEN = 64 };

static int64_t place_of(const sweep_recipe *recipe, const sweep_cell *cells, int64_t count,
                        line_settings settings)
{
    int64_t index = -1;
    fuzz_require(sweep_cell_of_settings("line", &settings, recipe, cells, count, &index) ==
                 GRAIL_OK);
    return index;
}

static void check_cell(const sweep_recipe *recipe, const sweep_cell *cells, int64_t count,
                       int64_t index)
{
    json_t *document = NULL;
    json_t *again = NULL;
    buffer text = {0};
    result_line read = {0};
    const result_line line = {
        .kind = LINE_CELL, .settings = cells[index].settings, .measures = line_not_measured()};
    buffer_init(&text, 1 << 20);
    fuzz_require(line_to_json(&line, &document) == GRAIL_OK);
    fuzz_require(json_append_line(document, &text) == GRAIL_OK);
    fuzz_require(json_parse("line", text.bytes, text.size, &again) == GRAIL_OK);
    fuzz_require(line_check_settings("line", again) == GRAIL_OK);
    fuzz_require(line_read("line", again, &read) == GRAIL_OK);
    fuzz_require(place_of(recipe, cells, count, read.settings) == index);
    line_fini(&read);
    json_decref(document);
    json_decref(again);
    buffer_fini(&text);
}

static void check_cells(const sweep_recipe *recipe, const sweep_cell *cells, int64_t count)
{
    fuzz_require(count >= 1 && count <= SWEEP_MOST_CELLS);
    for (int64_t i = 0; i < count; i++) {
        const sweep_cell *cell = &cells[i];
        fuzz_require(cell->checkpoint >= 0 && cell->checkpoint < recipe->checkpoints.count);
        fuzz_require(cell->choice >= 0 && cell->choice < recipe->choices.count);
        fuzz_require(cell->calibration >= 0 && cell->calibration < recipe->calibration.count);
        fuzz_require(cell->settings.sparsity >= 0.0 && cell->settings.sparsity < 1.0);
        fuzz_require(cell->settings.samples >= 1 && cell->settings.seed >= 0);
        fuzz_require(place_of(recipe, cells, count, cell->settings) == i);
    }
    for (int64_t i = 0; i < count && i < MOST_WRITTEN; i++) {
        check_cell(recipe, cells, count, i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *document = NULL;
    sweep_recipe recipe = {0};
    sweep_cell *cells = NULL;
    int64_t count = 0;
    if (json_parse("recipe.json", data, size, &document) == GRAIL_OK &&
        sweep_recipe_parse("recipe.json", document, "dir", &recipe) == GRAIL_OK) {
        fuzz_require(recipe.checkpoints.count >= 1 && recipe.grid_count >= 1);
        fuzz_require(recipe.calibration.count >= 1 && recipe.evaluation.count >= 1);
        fuzz_require(recipe.calibration.list[0].path != NULL && recipe.choices.count >= 1);
        if (sweep_cells(&recipe, &cells, &count) == GRAIL_OK) {
            check_cells(&recipe, cells, count);
        }
    }
    memory_free(cells);
    sweep_recipe_fini(&recipe);
    json_decref(document);
    return 0;
}
