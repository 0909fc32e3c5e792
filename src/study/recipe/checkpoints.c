#include "study/recipe/checkpoints.h"

#include "study/fields.h"

#include <string.h>

enum { MOST_CHECKPOINTS = 100, MOST_SETTINGS = 32, LONGEST_NAME = 100 };

const char *const sweep_checkpoint_keys[] = {"name", "path", "settings", NULL};

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
                     "%s: settings.%s: expected text, an integer, true or false", where, key);
}

static grail_status read_settings(const char *where, const json_t *object, sweep_checkpoint *c)
{
    json_t *settings = json_object_get(object, "settings");
    const char *key = NULL;
    json_t *value = NULL;
    if (settings == NULL) {
        return GRAIL_OK;
    }
    if (!json_is_object(settings) || json_object_size(settings) > MOST_SETTINGS) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "%s: \"settings\" is not an object of at most %d entries", where,
                         MOST_SETTINGS);
    }
    CHECK(memory_new(&c->settings, json_object_size(settings), sizeof c->settings[0]));
    json_object_foreach (settings, key, value) {
        CHECK(read_setting(where, key, value, &c->settings[c->setting_count]));
        c->setting_count++;
    }
    return GRAIL_OK;
}

static grail_status read_checkpoint(const char *source, json_t *object, const char *directory,
                                    sweep_checkpoints *all)
{
    grail_status status = GRAIL_OK;
    char *where = NULL;
    sweep_checkpoint *c = &all->list[all->count++];
    TRY(memory_format(&where, "%s: checkpoints[%d]", source, all->count - 1));
    TRY(json_check_keys(where, object, sweep_checkpoint_keys));
    TRY(field_copy(where, object, "name", &c->name));
    if (strlen(c->name) > LONGEST_NAME) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"name\" has %zu bytes, at most %d are allowed", where,
             strlen(c->name), LONGEST_NAME);
    }
    for (const sweep_checkpoint *other = all->list; other < c; other++) {
        if (strcmp(other->name, c->name) == 0) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: the name \"%s\" is already used by checkpoints[%d]",
                 where, c->name, (int)(other - all->list));
        }
    }
    TRY(field_path(where, object, "path", directory, &c->path));
    TRY(memory_copy_string(&c->opens, c->path));
    TRY(read_settings(where, object, c));
out:
    memory_free(where);
    return status;
}

grail_status sweep_checkpoints_read(const char *source, const json_t *document,
                                    const char *directory, sweep_checkpoints *out)
{
    grail_status status = GRAIL_OK;
    sweep_checkpoints all = {0};
    const json_t *list = json_object_get(document, "checkpoints");
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count < 1 || count > MOST_CHECKPOINTS) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"checkpoints\" is not an array of 1 to %d entries", source,
             MOST_CHECKPOINTS);
    }
    TRY(memory_new(&all.list, count, sizeof all.list[0]));
    for (size_t i = 0; i < count; i++) {
        TRY(read_checkpoint(source, json_array_get(list, i), directory, &all));
    }
    *out = all;
    all = (sweep_checkpoints){0};
out:
    sweep_checkpoints_fini(&all);
    return status;
}

void sweep_checkpoints_fini(sweep_checkpoints *checkpoints)
{
    for (int i = 0; i < checkpoints->count; i++) {
        sweep_checkpoint *c = &checkpoints->list[i];
        for (int s = 0; s < c->setting_count; s++) {
            memory_free(c->settings[s]);
        }
        memory_free(c->settings);
        memory_free(c->name);
        memory_free(c->path);
        memory_free(c->opens);
    }
    memory_free(checkpoints->list);
    *checkpoints = (sweep_checkpoints){0};
}

int sweep_checkpoints_find(const sweep_checkpoints *checkpoints, const char *name)
{
    for (int i = 0; i < checkpoints->count; i++) {
        if (strcmp(checkpoints->list[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}
