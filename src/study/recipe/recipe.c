#include "study/recipe/recipe.h"

#include "base/file.h"
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
    field_append_known(name, grail_site_kind_at);
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
    grail_status status = GRAIL_OK;
    const json_t *list = json_object_get(document, "sites");
    if (!json_is_array(list) || json_array_size(list) < 1) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"sites\" is not an array of kinds of sites", source);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *kind = NULL;
        TRY(find_kind(source, i, json_string_value(json_array_get(list, i)), &kind));
        if (sweep_recipe_cuts(r, kind) || r->kind_count == SWEEP_MOST_KINDS) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: sites[%zu]: repeats an earlier entry of the list", source,
                 i);
        }
        r->kinds[r->kind_count++] = kind;
    }
out:
    return status;
}

#define USUAL_PRECISION "f32"

static const char *precision_at(int i)
{
    static const char *const names[] = {"auto", "f32", "bf16", "bf16-gram", NULL};
    return names[i];
}

static const char *select_at(int i)
{
    static const char *const names[] = {"closed", "open", NULL};
    return names[i];
}

static const char *stream_score_at(int i)
{
    static const char *const names[] = {"first", "all", "branch", NULL};
    return names[i];
}

/* The static name of a list that ends with NULL, or NULL. */
static const char *find_name(const char *(*at)(int i), const char *name)
{
    int i = 0;
    while (at(i) != NULL && strcmp(at(i), name) != 0) {
        i++;
    }
    return at(i);
}

/* *out is static. */
static grail_status read_name(const char *source, const json_t *document, const char *key,
                              const char *(*at)(int i), const char *usual, const char **out)
{
    grail_status status = GRAIL_OK;
    const char *name = NULL;
    TRY(json_get_string(source, document, key, usual, &name));
    *out = find_name(at, name);
    if (*out == NULL) {
        status = error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is \"%s\", expected one of", source, key,
                           name);
        field_append_known(name, at);
    }
out:
    return status;
}

/* 0 in both: as grail_compress_options. */
static grail_status read_healing(const char *source, const json_t *document, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    TRY(field_range(source, document, "heal_steps", 0, 0, MOST_HEAL_STEPS, &r->heal_steps));
    TRY(json_get_real(source, document, "heal_rate", 0.0, &r->heal_rate));
    if (!(r->heal_rate >= 0.0 && r->heal_rate < 1.0)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"heal_rate\" is %g, expected a number in [0, 1)", source,
             r->heal_rate);
    }
out:
    return status;
}

static grail_status read_choices(const char *source, const json_t *document, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    const char *about = NULL;
    TRY(json_get_string(source, document, "about", NULL, &about));
    TRY(json_get_string(source, document, "$schema", NULL, &about));
    TRY(read_kinds(source, document, r));
    TRY(field_range(source, document, "align", 1, 0, MOST_ALIGN, &r->align));
    TRY(read_healing(source, document, r));
    TRY(field_word(source, document, "repeat", "selector", "calibration", false,
                   &r->repeats_calibration));
    TRY(read_name(source, document, "select", select_at, "closed", &r->select));
    TRY(read_name(source, document, "stream_score", stream_score_at, "first", &r->stream_score));
    TRY(read_name(source, document, "precision", precision_at, USUAL_PRECISION, &r->precision));
out:
    return status;
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

/* Directory part of a path, "." where it has none; *out is owned. */
static grail_status directory_of(const char *path, char **out)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return memory_copy_string(out, ".");
    }
    return memory_format(out, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

/* What is usual is left out, so that recipes with and without it are the same. */
static grail_status set_precision(const char *name, json_t *document)
{
    if (find_name(precision_at, name) == NULL) {
        const grail_status status = error_set(
            GRAIL_ERROR_ARGUMENT, "the precision of a sweep is '%s', expected one of", name);
        field_append_known(name, precision_at);
        return error_about(status, "precision");
    }
    (void)json_object_del(document, "precision");
    return strcmp(name, USUAL_PRECISION) == 0 ? GRAIL_OK
                                              : json_put(document, "precision", json_text(name));
}

grail_status sweep_recipe_read(const char *path, const char *precision, sweep_recipe *out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    char *directory = NULL;
    TRY(directory_of(path, &directory));
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
