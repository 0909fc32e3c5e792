#include "study/recipe/recipe.h"

#include "base/file.h"
#include "base/names.h"
#include "base/options.h"
#include "study/fields.h"

#include <string.h>

enum {
    RECIPE_MAXIMUM = 1 << 20,
    MOST_GRIDS = 100,
    MOST_ALIGN = 1 << 20,
    MOST_HEAL_STEPS = 1000000,
};

const char *const sweep_recipe_keys[] = {
    "$schema", "about",       "checkpoints", "selectors", "sparsities",   "compensate",
    "heal",    "heal_steps",  "heal_rate",   "samples",   "seeds",        "repeat",
    "sites",   "loop",        "select",      "align",     "stream_score", "precision",
    "grids",   "calibration", "evaluation",  NULL};
const char *const sweep_grid_keys[] = {"checkpoints", "selectors", "sparsities",
                                       "compensate",  "heal",      "samples",
                                       "seeds",       "loop",      NULL};

#define USUAL_PRECISION "f32"
const char *const sweep_precisions[] = {"auto", USUAL_PRECISION, "bf16", "bf16-gram", NULL};

/* clang-format off */
#define FIELD(member, name) OPTION_FIELD(sweep_recipe, member), .key = (name)
static const grail_option choices[] = {
    {FIELD(run.cut.align, "align"), .type = GRAIL_OPTION_INTEGER, .below = MOST_ALIGN + 1.0,
     .usual = "1"},
    {FIELD(run.cut.select, "select"), .type = GRAIL_OPTION_WORD,
     .words = OPTION_WORDS("closed", "open"), .usual = "closed"},
    {FIELD(run.cut.stream_score, "stream_score"), .type = GRAIL_OPTION_WORD,
     .words = OPTION_WORDS("first", "all", "branch"), .usual = "first"},
    {FIELD(run.heal.steps, "heal_steps"), .type = GRAIL_OPTION_INTEGER,
     .below = MOST_HEAL_STEPS + 1.0},
    {FIELD(run.heal.rate, "heal_rate"), .type = GRAIL_OPTION_REAL, .below = 1.0},
    {FIELD(run.run.precision, "precision"), .type = GRAIL_OPTION_WORD, .words = sweep_precisions,
     .usual = USUAL_PRECISION},
    {FIELD(repeats_calibration, "repeat"), .type = GRAIL_OPTION_CHOICE,
     .words = OPTION_WORDS("selector", "calibration")},
    {0},
};
/* clang-format on */

static const char *kind_at(const void *list, int i)
{
    (void)list;
    return grail_site_kind_at(i);
}

static grail_status find_kind(const char *source, size_t index, const char *name, const char **out)
{
    for (int k = 0; name != NULL && grail_site_kind_at(k) != NULL; k++) {
        if (strcmp(grail_site_kind_at(k), name) == 0) {
            *out = grail_site_kind_at(k);
            return GRAIL_OK;
        }
    }
    const grail_status status =
        error_set(GRAIL_ERROR_FORMAT, "%s: sites[%zu]: expected one of", source, index);
    error_append_names(name, kind_at, NULL);
    return status;
}

bool sweep_recipe_cuts(const sweep_recipe *recipe, const char *kind)
{
    for (int i = 0; i < recipe->kind_count; i++) {
        if (strcmp(recipe->kinds[i], kind) == 0) {
            return true;
        }
    }
    return false;
}

static grail_status read_kinds(const char *source, const json_t *document, sweep_recipe *r)
{
    const json_t *list = json_object_get(document, "sites");
    if (!json_is_array(list) || json_array_size(list) < 1) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"sites\" is not an array of kinds of sites",
                         source);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *kind = NULL;
        CHECK(find_kind(source, i, json_string_value(json_array_get(list, i)), &kind));
        if (sweep_recipe_cuts(r, kind) || r->kind_count == SWEEP_MOST_KINDS) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: sites[%zu]: repeats an earlier entry of the list", source, i);
        }
        r->kinds[r->kind_count++] = kind;
    }
    return GRAIL_OK;
}

static grail_status read_choices(const char *source, const json_t *document, sweep_recipe *r)
{
    const char *about = NULL;
    CHECK(json_get_string(source, document, "about", NULL, &about));
    CHECK(json_get_string(source, document, "$schema", NULL, &about));
    CHECK(read_kinds(source, document, r));
    grail_compress_options_init(&r->run);
    options_init(choices, r);
    return options_from_json(source, document, choices, r);
}

static grail_status read_grids(const char *source, const json_t *document, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    sweep_grid top = {0};
    const json_t *list = json_object_get(document, "grids");
    const size_t count = list == NULL ? 1 : json_array_size(list);
    if (list != NULL && (!json_is_array(list) || count < 1 || count > MOST_GRIDS)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"grids\" is not an array of 1 to %d entries", source,
             MOST_GRIDS);
    }
    TRY(memory_new(&r->grids, count, sizeof r->grids[0]));
    TRY(sweep_grid_read(source, document, &r->checkpoints, NULL, list == NULL, &top));
    if (list == NULL) {
        r->grids[r->grid_count++] = top;
        top = (sweep_grid){0};
    }
    while (r->grid_count < (int)count) {
        json_t *object = json_array_get(list, (size_t)r->grid_count);
        memory_free(where);
        where = NULL;
        TRY(memory_format(&where, "%s: grids[%d]", source, r->grid_count));
        TRY(json_check_keys(where, object, sweep_grid_keys));
        TRY(sweep_grid_read(where, object, &r->checkpoints, &top, true, &r->grids[r->grid_count]));
        r->grid_count++;
    }
out:
    sweep_grid_fini(&top);
    memory_free(where);
    return status;
}

grail_status sweep_recipe_parse(const char *source, json_t *document, const char *directory,
                                sweep_recipe *out)
{
    grail_status status = GRAIL_OK;
    sweep_recipe r = {.document = json_incref(document)};
    TRY(json_check_keys(source, document, sweep_recipe_keys));
    TRY(sweep_checkpoints_read(source, document, directory, &r.checkpoints));
    TRY(read_choices(source, document, &r));
    TRY(read_grids(source, document, &r));
    TRY(sweep_images_read(source, document, "calibration", directory, &r.calibration));
    TRY(sweep_images_read(source, document, "evaluation", directory, &r.evaluation));
    if (r.calibration.images > 0) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: calibration: \"images\" is a key of \"evaluation\"; give the number of "
             "calibration samples in \"samples\"",
             source);
    }
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
    sweep_images_fini(&r->calibration);
    sweep_images_fini(&r->evaluation);
    json_decref(r->document);
    *r = (sweep_recipe){0};
}
