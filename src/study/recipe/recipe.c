#include "study/recipe/recipe.h"

#include "base/file.h"
#include "base/options.h"
#include "study/fields.h"

#include <string.h>

enum { RECIPE_MAXIMUM = 1 << 20, MOST_GRIDS = 100 };

const char *const sweep_recipe_keys[] = {
    "$schema", "about",      "checkpoints", "selectors", "sparsities", "compensate",
    "heal",    "samples",    "seeds",       "sites",     "loop",       "calibration",
    "repeat",  "evaluation", "outcomes",    "latency",   "grids",      NULL};
const char *const sweep_grid_keys[] = {"checkpoints", "selectors",   "sparsities", "compensate",
                                       "heal",        "samples",     "seeds",      "sites",
                                       "loop",        "calibration", NULL};

#define USUAL_PRECISION "f32"

static const grail_option own_fields[] = {
    {OPTION_FIELD(sweep_recipe, repeats_calibration), .type = GRAIL_OPTION_CHOICE, .key = "repeat",
     .words = OPTION_WORDS("selector", "calibration")},
    {OPTION_FIELD(sweep_recipe, keeps_outcomes), .type = GRAIL_OPTION_FLAG, .key = "outcomes"},
    {OPTION_FIELD(sweep_recipe, latency), .type = GRAIL_OPTION_WORD, .key = "latency",
     .what = "engine", .words = OPTION_WORDS("onnxruntime", "grail")},
    {0},
};

static grail_status read_own(const char *source, const json_t *document, sweep_recipe *r)
{
    const char *about = NULL;
    const json_t *precision = json_object_get(document, "precision");
    CHECK(json_get_string(source, document, "about", NULL, &about));
    CHECK(json_get_string(source, document, "$schema", NULL, &about));
    CHECK(sweep_choices_check(source, document));
    r->precision = json_is_string(precision) ? json_string_value(precision) : USUAL_PRECISION;
    return options_from_json(source, document, own_fields, r);
}

static grail_status read_choices(const char *where, const json_t *document, const json_t *object,
                                 sweep_recipe *r, sweep_grid *grid)
{
    sweep_list *list = &grid->axes[SWEEP_CHOICES];
    return sweep_choices_add(where, document, object, &r->choices, &list->values, &list->count);
}

static grail_status read_grid(const char *source, const json_t *document, const json_t *object,
                              const sweep_grid *top, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    sweep_grid *grid = &r->grids[r->grid_count];
    const sweep_names names = {&r->checkpoints, &r->calibration};
    TRY(memory_format(&where, "%s: grids[%d]", source, r->grid_count));
    TRY(field_check_keys(where, object, sweep_choice_key_at, sweep_grid_keys));
    TRY(sweep_choices_check(where, object));
    TRY(sweep_grid_read(where, object, names, top, true, grid));
    r->grid_count++;
    TRY(read_choices(where, document, object, r, grid));
out:
    memory_free(where);
    return status;
}

static grail_status read_grids(const char *source, const json_t *document, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    sweep_grid top = {0};
    const sweep_names names = {&r->checkpoints, &r->calibration};
    const json_t *list = json_object_get(document, "grids");
    const size_t count = list == NULL ? 1 : json_array_size(list);
    if (list != NULL && (!json_is_array(list) || count < 1 || count > MOST_GRIDS)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"grids\" is not an array of 1 to %d entries", source,
             MOST_GRIDS);
    }
    TRY(memory_new(&r->grids, count, sizeof r->grids[0]));
    TRY(sweep_grid_read(source, document, names, NULL, list == NULL, &top));
    if (list == NULL) {
        TRY(read_choices(source, document, document, r, &top));
        r->grids[r->grid_count++] = top;
        top = (sweep_grid){0};
    }
    while (r->grid_count < (int)count) {
        TRY(read_grid(source, document, json_array_get(list, (size_t)r->grid_count), &top, r));
    }
    TRY(sweep_choices_name(document, &r->choices));
out:
    sweep_grid_fini(&top);
    return status;
}

/* How many samples are drawn is said by cells. */
static grail_status check_calibration(const char *source, const sweep_data_list *calibration)
{
    for (int i = 0; i < calibration->count; i++) {
        const sweep_data *d = &calibration->list[i];
        if (d->count > 0) {
            const char *key = d->kind == DATA_IMAGES ? "images" : "windows";
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: calibration: \"%s\" is a key of \"evaluation\"; give the "
                             "number of calibration samples in \"samples\"",
                             source, key);
        }
    }
    return GRAIL_OK;
}

grail_status sweep_recipe_parse(const char *source, json_t *document, const char *directory,
                                sweep_recipe *out)
{
    grail_status status = GRAIL_OK;
    sweep_recipe r = {.document = json_incref(document)};
    TRY(field_check_keys(source, document, sweep_choice_key_at, sweep_recipe_keys));
    TRY(sweep_checkpoints_read(source, document, directory, &r.checkpoints));
    TRY(sweep_data_read(source, document, "calibration", directory, &r.checkpoints,
                        &r.calibration));
    TRY(sweep_data_read(source, document, "evaluation", directory, &r.checkpoints, &r.evaluation));
    TRY(check_calibration(source, &r.calibration));
    TRY(read_own(source, document, &r));
    TRY(read_grids(source, document, &r));
    *out = r;
    r = (sweep_recipe){0};
out:
    sweep_recipe_fini(&r);
    return status;
}

/* What is usual is left out, so that recipes with and without it are the same. */
static grail_status set_precision(const char *name, json_t *document)
{
    (void)json_object_del(document, "precision");
    return strcmp(name, USUAL_PRECISION) == 0 ? GRAIL_OK
                                              : json_put(document, "precision", json_text(name));
}

grail_status sweep_recipe_read(const char *path, const char *precision, sweep_recipe *out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    char *directory = NULL;
    TRY(path_parent(&directory, path));
    TRY(json_read_file(path, RECIPE_MAXIMUM, &document));
    if (precision != NULL && json_is_object(document)) {
        TRY(set_precision(precision, document));
    }
    TRY(sweep_recipe_parse(path, document, directory, out));
out:
    json_decref(document);
    memory_free(directory);
    return status;
}

void sweep_recipe_fini(sweep_recipe *r)
{
    for (int g = 0; r->grids != NULL && g < r->grid_count; g++) {
        sweep_grid_fini(&r->grids[g]);
    }
    sweep_checkpoints_fini(&r->checkpoints);
    memory_free(r->grids);
    sweep_choices_fini(&r->choices);
    sweep_data_fini(&r->calibration);
    sweep_data_fini(&r->evaluation);
    json_decref(r->document);
    *r = (sweep_recipe){0};
}
