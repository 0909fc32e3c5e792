#include "pipeline/sweep_recipe.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum {
    RECIPE_MAXIMUM = 1 << 20,
    MOST_CHECKPOINTS = 100,
    MOST_GRIDS = 100,
    MOST_SETTINGS = 32,
    MOST_IMAGES = 1 << 30,
    MOST_SIDE = 1 << 13,
    MOST_ALIGN = 1 << 20,
    LONGEST_NAME = 100
};

static const char *const recipe_keys[] = {"about",      "checkpoints", "selectors",  "sparsities",
                                          "compensate", "samples",     "seeds",      "repeat",
                                          "sites",      "loop",        "align",      "stream_score",
                                          "grids",      "calibration", "evaluation", NULL};
static const char *const grid_keys[] = {"checkpoints", "selectors", "sparsities", "compensate",
                                        "samples",     "seeds",     "loop",       NULL};
static const char *const checkpoint_keys[] = {"name", "path", "settings", NULL};
static const char *const images_keys[] = {"path", "preset", "split",  "labels", "size",
                                          "mean", "std",    "images", NULL};

/* *out is owned: the path itself, or joined with the directory when it is relative. */
static grail_status read_path(const char *where, const json_t *object, const char *key,
                              const char *directory, char **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(sweep_read_text(where, object, key, &path));
    if (path[0] == '/') {
        *out = path;
        path = NULL;
    } else {
        TRY(path_join(out, directory, path));
    }
out:
    memory_free(path);
    return status;
}

static grail_status read_range(const char *where, const json_t *object, const char *key,
                               int64_t fallback, int64_t least, int64_t most, int64_t *out)
{
    int64_t value = 0;
    const grail_status status = json_get_integer(where, object, key, fallback, &value);
    if (status != GRAIL_OK) {
        return status;
    }
    if (value < least || value > most) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is %lld, expected %lld to %lld", where,
                         key, (long long)value, (long long)least, (long long)most);
    }
    *out = value;
    return GRAIL_OK;
}

/* -- checkpoints --------------------------------------------------------------------------------
 */

static grail_status read_setting(const char *where, const char *key, const json_t *value,
                                 char **out)
{
    if (json_is_string(value)) {
        return memory_format(out, "%s=%s", key, json_string_value(value));
    }
    if (json_is_integer(value)) {
        return memory_format(out, "%s=%lld", key, (long long)json_integer_value(value));
    }
    if (json_is_boolean(value)) {
        return memory_format(out, "%s=%s", key, json_is_true(value) ? "true" : "false");
    }
    return error_set(GRAIL_ERROR_FORMAT,
                     "%s: settings.%s: expected text, a whole number, true or false", where, key);
}

static grail_status read_settings(const char *where, const json_t *object, sweep_checkpoint *c)
{
    grail_status status = GRAIL_OK;
    json_t *settings = json_object_get(object, "settings");
    const char *key = NULL;
    json_t *value = NULL;
    if (settings == NULL) {
        return GRAIL_OK;
    }
    if (!json_is_object(settings) || json_object_size(settings) > MOST_SETTINGS) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"settings\" is not an object of at most %d entries", where,
             MOST_SETTINGS);
    }
    TRY(memory_new(&c->settings, json_object_size(settings), sizeof c->settings[0]));
    json_object_foreach (settings, key, value) {
        TRY(read_setting(where, key, value, &c->settings[c->setting_count]));
        c->setting_count++;
    }
out:
    return status;
}

static grail_status read_checkpoint(const char *source, json_t *object, const char *directory,
                                    sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    sweep_checkpoint *c = &r->checkpoints[r->checkpoint_count++];
    TRY(memory_format(&where, "%s: checkpoints[%d]", source, r->checkpoint_count - 1));
    TRY(json_check_keys(where, object, checkpoint_keys));
    TRY(sweep_read_text(where, object, "name", &c->name));
    if (strlen(c->name) > LONGEST_NAME) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"name\" has %zu bytes, at most %d are allowed", where,
             strlen(c->name), LONGEST_NAME);
    }
    for (const sweep_checkpoint *other = r->checkpoints; other < c; other++) {
        if (strcmp(other->name, c->name) == 0) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: the name \"%s\" is taken by checkpoints[%d]", where,
                 c->name, (int)(other - r->checkpoints));
        }
    }
    TRY(read_path(where, object, "path", directory, &c->path));
    TRY(read_settings(where, object, c));
out:
    memory_free(where);
    return status;
}

static grail_status read_checkpoints(const char *source, const json_t *document,
                                     const char *directory, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    const json_t *list = json_object_get(document, "checkpoints");
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 1 || count > MOST_CHECKPOINTS) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"checkpoints\" is not an array of 1 to %d entries", source,
             MOST_CHECKPOINTS);
    }
    TRY(memory_new(&r->checkpoints, count, sizeof r->checkpoints[0]));
    for (size_t i = 0; i < count; i++) {
        TRY(read_checkpoint(source, json_array_get(list, i), directory, r));
    }
out:
    return status;
}

/* -- images -------------------------------------------------------------------------------------
 */

static grail_status read_optional_text(const char *where, const json_t *object, const char *key,
                                       char **out)
{
    return json_object_get(object, key) == NULL ? GRAIL_OK
                                                : sweep_read_text(where, object, key, out);
}

static grail_status read_triple(const char *where, const json_t *object, const char *key,
                                double **out)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    const json_t *list = json_object_get(object, key);
    if (list == NULL) {
        return GRAIL_OK;
    }
    TRY(memory_new(&values, 3, sizeof values[0]));
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(list, i);
        if (json_array_size(list) != 3 || !json_is_number(value)) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an array of three numbers", where, key);
        }
        values[i] = json_number_value(value);
    }
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}

static grail_status check_preset(const char *where, const char *preset)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; preset != NULL && grail_image_preset_at(i) != NULL; i++) {
        if (strcmp(grail_image_preset_at(i), preset) == 0) {
            return GRAIL_OK;
        }
    }
    if (preset != NULL) {
        status =
            error_set(GRAIL_ERROR_FORMAT, "%s: unknown preset \"%s\"; known are", where, preset);
        for (int i = 0; grail_image_preset_at(i) != NULL; i++) {
            error_append("%s %s", i == 0 ? "" : ",", grail_image_preset_at(i));
        }
    }
    return status;
}

static grail_status check_split(const char *where, const char *split)
{
    if (split != NULL && strcmp(split, "train") != 0 && strcmp(split, "test") != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"split\" is \"%s\", expected train or test",
                         where, split);
    }
    return GRAIL_OK;
}

static grail_status read_images(const char *source, const json_t *document, const char *key,
                                const char *directory, sweep_images *out)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    json_t *object = json_object_get(document, key);
    TRY(memory_format(&where, "%s: %s", source, key));
    if (object == NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", source, key);
    }
    TRY(json_check_keys(where, object, images_keys));
    TRY(read_path(where, object, "path", directory, &out->path));
    TRY(read_optional_text(where, object, "preset", &out->preset));
    TRY(check_preset(where, out->preset));
    TRY(read_optional_text(where, object, "split", &out->split));
    TRY(check_split(where, out->split));
    if (json_object_get(object, "labels") != NULL) {
        TRY(read_path(where, object, "labels", directory, &out->labels));
    }
    TRY(read_range(where, object, "size", 0, 0, MOST_SIDE, &out->source.size));
    TRY(read_triple(where, object, "mean", &out->mean));
    TRY(read_triple(where, object, "std", &out->deviation));
    TRY(read_range(where, object, "images", 0, 0, MOST_IMAGES, &out->images));
    out->source.path = out->path;
    out->source.preset = out->preset;
    out->source.split = out->split;
    out->source.labels = out->labels;
    out->source.mean = out->mean;
    out->source.deviation = out->deviation;
out:
    memory_free(where);
    return status;
}

static void images_fini(sweep_images *images)
{
    memory_free(images->path);
    memory_free(images->preset);
    memory_free(images->split);
    memory_free(images->labels);
    memory_free(images->mean);
    memory_free(images->deviation);
}

/* -- the rest -----------------------------------------------------------------------------------
 */

static grail_status find_kind(const char *source, size_t index, const char *name, int *out)
{
    for (int kind = 0; name != NULL && kind < SITE_KINDS; kind++) {
        if (strcmp(site_kind_name((site_kind)kind), name) == 0) {
            *out = kind;
            return GRAIL_OK;
        }
    }
    const grail_status status =
        error_set(GRAIL_ERROR_FORMAT, "%s: sites[%zu]: expected one of", source, index);
    for (int kind = 0; kind < SITE_KINDS; kind++) {
        error_append("%s %s", kind == 0 ? "" : ",", site_kind_name((site_kind)kind));
    }
    return status;
}

static grail_status read_kinds(const char *source, const json_t *document, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    const json_t *list = json_object_get(document, "sites");
    if (!json_is_array(list) || json_array_size(list) < 1) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"sites\" is not an array of kinds of sites", source);
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        int kind = 0;
        TRY(find_kind(source, i, json_string_value(json_array_get(list, i)), &kind));
        if (r->cuts[kind]) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: sites[%zu]: stands in the list before", source, i);
        }
        r->cuts[kind] = true;
    }
out:
    return status;
}

/* One of two words; *out tells whether it is the second. */
static grail_status read_word(const char *source, const json_t *document, const char *key,
                              const char *first, const char *second, bool *out)
{
    const char *word = NULL;
    const grail_status status = json_get_string(source, document, key, first, &word);
    if (status != GRAIL_OK) {
        return status;
    }
    if (strcmp(word, first) != 0 && strcmp(word, second) != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is \"%s\", expected %s or %s", source, key,
                         word, first, second);
    }
    *out = strcmp(word, second) == 0;
    return GRAIL_OK;
}

static grail_status read_choices(const char *source, const json_t *document, sweep_recipe *r)
{
    grail_status status = GRAIL_OK;
    bool all = false;
    const char *about = NULL;
    TRY(json_get_string(source, document, "about", NULL, &about));
    TRY(read_kinds(source, document, r));
    TRY(read_range(source, document, "align", 1, 0, MOST_ALIGN, &r->align));
    TRY(read_word(source, document, "repeat", "selector", "calibration", &r->repeats_calibration));
    TRY(read_word(source, document, "stream_score", "first", "all", &all));
    TRY(memory_copy_string(&r->stream_score, all ? "all" : "first"));
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
    TRY(sweep_grid_read(source, document, r, NULL, list == NULL, &top));
    if (list == NULL) {
        r->grids[r->grid_count++] = top;
        top = (sweep_grid){0};
    }
    while (r->grid_count < (int)count) {
        json_t *object = json_array_get(list, (size_t)r->grid_count);
        memory_free(where);
        where = NULL;
        TRY(memory_format(&where, "%s: grids[%d]", source, r->grid_count));
        TRY(json_check_keys(where, object, grid_keys));
        TRY(sweep_grid_read(where, object, r, &top, true, &r->grids[r->grid_count]));
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
    TRY(json_check_keys(source, document, recipe_keys));
    TRY(read_checkpoints(source, document, directory, &r));
    TRY(read_choices(source, document, &r));
    TRY(read_grids(source, document, &r));
    TRY(read_images(source, document, "calibration", directory, &r.calibration));
    TRY(read_images(source, document, "evaluation", directory, &r.evaluation));
    if (r.calibration.images > 0) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: calibration: \"images\" is for the evaluation; say \"samples\" instead", source);
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

grail_status sweep_recipe_read(const char *path, sweep_recipe *out)
{
    grail_status status = GRAIL_OK;
    json_t *document = NULL;
    char *directory = NULL;
    TRY(directory_of(path, &directory));
    TRY(json_read_file(path, RECIPE_MAXIMUM, &document));
    TRY(sweep_recipe_parse(path, document, directory, out));
out:
    json_decref(document);
    memory_free(directory);
    return status;
}

void sweep_recipe_fini(sweep_recipe *r)
{
    for (int i = 0; r->checkpoints != NULL && i < r->checkpoint_count; i++) {
        sweep_checkpoint *c = &r->checkpoints[i];
        for (int s = 0; s < c->setting_count; s++) {
            memory_free(c->settings[s]);
        }
        memory_free(c->settings);
        memory_free(c->name);
        memory_free(c->path);
    }
    for (int g = 0; r->grids != NULL && g < r->grid_count; g++) {
        sweep_grid_fini(&r->grids[g]);
    }
    memory_free(r->checkpoints);
    memory_free(r->grids);
    memory_free(r->stream_score);
    images_fini(&r->calibration);
    images_fini(&r->evaluation);
    json_decref(r->document);
    *r = (sweep_recipe){0};
}
