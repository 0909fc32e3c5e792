#include "study/fields.h"

#include "base/file.h"
#include "base/options.h"

#include <string.h>

grail_status field_text(const char *where, const json_t *object, const char *key, const char **out)
{
    const char *text = NULL;
    CHECK(json_get_string(where, object, key, NULL, &text));
    if (text == NULL || text[0] == 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", where, key);
    }
    if (strlen(text) > FIELD_MOST_BYTES) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" has %zu bytes, at most %d are allowed",
                         where, key, strlen(text), FIELD_MOST_BYTES);
    }
    *out = text;
    return GRAIL_OK;
}

grail_status field_copy(const char *where, const json_t *object, const char *key, char **out)
{
    const char *text = NULL;
    CHECK(field_text(where, object, key, &text));
    return memory_copy_string(out, text);
}

grail_status field_path(const char *where, const json_t *object, const char *key,
                        const char *directory, char **out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    TRY(field_copy(where, object, key, &path));
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

grail_status field_options(const char *where, const json_t *object, grail_option_at at, void *owner)
{
    for (int i = 0; at(i) != NULL; i++) {
        const grail_option field[] = {*at(i), {0}};
        CHECK(options_from_json(where, object, field, owner));
    }
    return GRAIL_OK;
}

grail_status field_check_keys(const char *where, const json_t *object, grail_option_at at,
                              const char *const more[])
{
    grail_status status = GRAIL_OK;
    const char **known = NULL;
    size_t count = 0;
    int fields = 0;
    while (more[count] != NULL) {
        count++;
    }
    while (at(fields) != NULL) {
        fields++;
    }
    TRY(memory_new(&known, count + (size_t)fields + 1, sizeof known[0]));
    memcpy(known, more, count * sizeof known[0]);
    for (int i = 0; i < fields; i++) {
        if (at(i)->key != NULL) {
            known[count++] = at(i)->key;
        }
    }
    TRY(json_check_keys(where, object, known));
out:
    memory_free(known);
    return status;
}
