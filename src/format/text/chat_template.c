#include "format/text/chat_template.h"

#include "base/file.h"
#include "base/json.h"
#include "format/text/text_limits.h"
#include "format/text/tokenizer_internal.h"

#include <string.h>

static grail_status find_in_settings(const char *directory, const char *name, char **text,
                                     char **place)
{
    grail_status status = GRAIL_OK;
    json_t *settings = NULL;
    TRY(json_find_file(directory, name, CHAT_TEMPLATE_LARGEST_FILE, json_read_file_of_reals,
                       &settings));
    const json_t *value = json_object_get(settings, "chat_template");
    const char *found = json_string_value(value);
    for (size_t i = 0; i < json_array_size(value) && found == NULL; i++) {
        const json_t *one = json_array_get(value, i);
        const char *called = json_string_value(json_object_get(one, "name"));
        if (called != NULL && strcmp(called, "default") == 0) {
            found = json_string_value(json_object_get(one, "template"));
        }
    }
    if (found != NULL) {
        TRY(memory_copy_string(text, found));
        TRY(memory_format(place, "%s/%s: chat_template", directory, name));
    }
out:
    json_decref(settings);
    return status;
}

grail_status chat_template_find(const char *directory, char **text, char **place)
{
    static const char *const settings[] = {"tokenizer_config.json", "chat_template.json"};
    grail_status status = GRAIL_OK;
    buffer bytes = {0};
    char *found = NULL;
    char *path = NULL; /* what it was read from */
    TRY(path_find(&path, directory, "chat_template.jinja"));
    if (path != NULL) {
        TRY(file_read(path, CHAT_TEMPLATE_LARGEST_FILE, &bytes));
        if (memchr(bytes.bytes, 0, bytes.size) != NULL) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: holds a zero byte; it is no template", path);
        }
        TRY(memory_copy_string(&found, bytes.size == 0 ? "" : (const char *)bytes.bytes));
    }
    for (int i = 0; i < 2 && found == NULL; i++) {
        TRY(find_in_settings(directory, settings[i], &found, &path));
    }
    *text = found;
    *place = path;
    found = NULL;
    path = NULL;
out:
    memory_free(found);
    memory_free(path);
    buffer_fini(&bytes);
    return status;
}

enum { ENOUGH_MARKS = 2 };

static bool has_id(const token_list *list, int32_t id)
{
    bool found = false;
    for (int64_t i = 0; i < list->count; i++) {
        found = found || list->ids[i] == id;
    }
    return found;
}

grail_status turns_find(const tokenizer *t, const token_windows *w, turns_found *out)
{
    bool *is_mark = NULL; /* [size]: which ids are marks that were not met yet */
    int64_t size = 0;
    int64_t count = 0;
    int64_t met = 0;
    for (int64_t i = 0; i < t->added_count; i++) {
        size = t->added[i].id < size ? size : t->added[i].id + 1;
    }
    CHECK(memory_new(&is_mark, (size_t)size, sizeof is_mark[0]));
    for (int64_t i = 0; i < t->added_count; i++) {
        const int32_t id = t->added[i].id;
        const bool is_new = !is_mark[id] && !has_id(&t->before, id) && !has_id(&t->after, id);
        is_mark[id] = is_mark[id] || is_new;
        count += is_new ? 1 : 0;
    }
    const int64_t enough = count < ENOUGH_MARKS ? count : ENOUGH_MARKS;
    for (int64_t i = 0; i < window_start(w, w->count) && met < enough; i++) {
        const int32_t id = w->ids[i];
        if (id < size && is_mark[id]) {
            is_mark[id] = false;
            met++;
        }
    }
    *out = count == 0 ? TURNS_UNKNOWN : met >= enough ? TURNS_THERE : TURNS_MISSING;
    memory_free(is_mark);
    return GRAIL_OK;
}
