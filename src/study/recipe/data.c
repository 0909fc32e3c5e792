#include "study/recipe/data.h"

#include "base/names.h"
#include "base/options.h"
#include "study/fields.h"

#include <string.h>

enum { MOST_COUNT = 1 << 30, MOST_DATA = 100, LONGEST_NAME = 100 };

const char *const sweep_images_keys[] = {"name",   "kind",   "path", "checkpoints",
                                         "labels", "images", NULL};
const char *const sweep_text_keys[] = {"name", "kind", "path", "checkpoints", "windows", NULL};

static const grail_option kind_field[] = {
    {OPTION_FIELD(sweep_data, kind), .type = GRAIL_OPTION_CHOICE, .key = "kind",
     .words = OPTION_WORDS("images", "text")},
    {0},
};
static const grail_option images_field[] = {
    {OPTION_FIELD(sweep_data, count), .type = GRAIL_OPTION_INTEGER, .below = MOST_COUNT + 1.0,
     .key = "images"},
    {0},
};
static const grail_option windows_field[] = {
    {OPTION_FIELD(sweep_data, count), .type = GRAIL_OPTION_INTEGER, .below = MOST_COUNT + 1.0,
     .key = "windows"},
    {0},
};

/* -- one source --------------------------------------------------------------------------------
 */

static grail_status read_images(const char *where, const json_t *object, const char *directory,
                                sweep_data *d)
{
    CHECK(field_check_keys(where, object, grail_image_option_at, sweep_images_keys));
    CHECK(field_options(where, object, grail_image_option_at, &d->images));
    CHECK(options_from_json(where, object, images_field, d));
    if (json_object_get(object, "labels") != NULL) {
        CHECK(field_path(where, object, "labels", directory, &d->labels));
    }
    d->images.path = d->path;
    d->images.labels = d->labels;
    return GRAIL_OK;
}

static grail_status read_text(const char *where, const json_t *object, sweep_data *d)
{
    CHECK(field_check_keys(where, object, grail_text_option_at, sweep_text_keys));
    CHECK(field_options(where, object, grail_text_option_at, &d->text));
    CHECK(options_from_json(where, object, windows_field, d));
    d->text.path = d->path;
    return GRAIL_OK;
}

/* All checkpoints, or those that "checkpoints" names. */
static grail_status read_serves(const char *where, const json_t *object,
                                const sweep_checkpoints *checkpoints, sweep_data *d)
{
    const json_t *list = json_object_get(object, "checkpoints");
    CHECK(memory_new(&d->serves, (size_t)checkpoints->count, sizeof d->serves[0]));
    if (list != NULL && (!json_is_array(list) || json_array_size(list) == 0)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"checkpoints\" is not an array of names of checkpoints", where);
    }
    for (int c = 0; list == NULL && c < checkpoints->count; c++) {
        d->serves[c] = true;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        const int found = name == NULL ? -1 : sweep_checkpoints_find(checkpoints, name);
        if (found < 0) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: checkpoints[%zu]: expected the name of a checkpoint of this "
                             "recipe",
                             where, i);
        }
        d->serves[found] = true;
    }
    return GRAIL_OK;
}

static grail_status read_one(const char *where, const json_t *object, const char *directory,
                             const sweep_checkpoints *checkpoints, sweep_data *d)
{
    if (!json_is_object(object)) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: not a JSON object", where);
    }
    CHECK(options_from_json(where, object, kind_field, d));
    if (json_object_get(object, "name") != NULL) {
        CHECK(field_copy(where, object, "name", &d->name));
    }
    if (d->name != NULL && strlen(d->name) > LONGEST_NAME) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"name\" has %zu bytes, at most %d are allowed",
                         where, strlen(d->name), LONGEST_NAME);
    }
    CHECK(field_path(where, object, "path", directory, &d->path));
    CHECK(read_serves(where, object, checkpoints, d));
    return d->kind == DATA_IMAGES ? read_images(where, object, directory, d)
                                  : read_text(where, object, d);
}

/* -- a list ------------------------------------------------------------------------------------
 */

static grail_status check_name(const char *where, const sweep_data_list *all, bool is_list)
{
    const sweep_data *d = &all->list[all->count - 1];
    if (is_list && d->name == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"name\" is missing", where);
    }
    for (const sweep_data *other = all->list; other < d; other++) {
        if (strcmp(other->name, d->name) == 0) {
            return error_set(GRAIL_ERROR_FORMAT,
                             "%s: the name \"%s\" is already used by the entry %d", where, d->name,
                             (int)(other - all->list));
        }
    }
    return GRAIL_OK;
}

static grail_status read_entry(const char *source, const char *key, const json_t *object,
                               const char *directory, const sweep_checkpoints *checkpoints,
                               bool is_list, sweep_data_list *out)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    char index[16] = "";
    if (is_list) {
        snprintf(index, sizeof index, "[%d]", out->count);
    }
    TRY(memory_format(&where, "%s: %s%s", source, key, index));
    out->count++;
    TRY(read_one(where, object, directory, checkpoints, &out->list[out->count - 1]));
    TRY(check_name(where, out, is_list));
out:
    memory_free(where);
    return status;
}

grail_status sweep_data_read(const char *source, const json_t *document, const char *key,
                             const char *directory, const sweep_checkpoints *checkpoints,
                             sweep_data_list *out)
{
    const json_t *found = json_object_get(document, key);
    const bool is_list = json_is_array(found);
    const size_t count = is_list ? json_array_size(found) : 1;
    if (found == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", source, key);
    }
    if (count < 1 || count > MOST_DATA) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is not an array of 1 to %d entries",
                         source, key, MOST_DATA);
    }
    CHECK(memory_new(&out->list, count, sizeof out->list[0]));
    for (size_t i = 0; i < count; i++) {
        CHECK(read_entry(source, key, is_list ? json_array_get(found, i) : found, directory,
                         checkpoints, is_list, out));
    }
    return GRAIL_OK;
}

void sweep_data_fini(sweep_data_list *data)
{
    for (int i = 0; i < data->count; i++) {
        memory_free(data->list[i].name);
        memory_free(data->list[i].path);
        memory_free(data->list[i].labels);
        memory_free(data->list[i].serves);
    }
    memory_free(data->list);
    *data = (sweep_data_list){0};
}

bool sweep_data_serves(const sweep_data *d, const sweep_checkpoints *checkpoints, int checkpoint)
{
    const checkpoint_input input = checkpoints->list[checkpoint].input;
    const bool fits = input == INPUT_UNKNOWN || (input == INPUT_IS_TEXT) == (d->kind == DATA_TEXT);
    return d->serves[checkpoint] && fits;
}

int sweep_data_find(const sweep_data_list *data, const char *name)
{
    for (int i = 0; i < data->count; i++) {
        if (names_equal(data->list[i].name, name)) {
            return i;
        }
    }
    return -1;
}
