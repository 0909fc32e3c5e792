#include "study/fields.h"

#include "base/file.h"
#include "base/names.h"

#include <string.h>

grail_status field_text(const char *where, const json_t *object, const char *key, const char **out)
{
    grail_status status = GRAIL_OK;
    const char *text = NULL;
    TRY(json_get_string(where, object, key, NULL, &text));
    if (text == NULL || text[0] == 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" is missing", where, key);
    }
    if (strlen(text) > FIELD_MOST_BYTES) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: \"%s\" has %zu bytes, at most %d are allowed", where, key,
             strlen(text), FIELD_MOST_BYTES);
    }
    *out = text;
out:
    return status;
}

grail_status field_word(const char *where, const json_t *object, const char *key, const char *first,
                        const char *second, bool fallback, bool *out)
{
    const char *word = NULL;
    const grail_status status =
        json_get_string(where, object, key, fallback ? second : first, &word);
    if (status != GRAIL_OK) {
        return status;
    }
    if (strcmp(word, first) != 0 && strcmp(word, second) != 0) {
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is \"%s\", expected %s or %s", where, key,
                         word, first, second);
    }
    *out = strcmp(word, second) == 0;
    return GRAIL_OK;
}

grail_status field_copy(const char *where, const json_t *object, const char *key, char **out)
{
    const char *text = NULL;
    const grail_status status = field_text(where, object, key, &text);
    return status == GRAIL_OK ? memory_copy_string(out, text) : status;
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

typedef struct known_names {
    const char *(*at)(int);
} known_names;

static const char *list_at(const void *list, int i)
{
    const known_names *names = list;
    return names->at(i);
}

grail_status field_range(const char *where, const json_t *object, const char *key, int64_t fallback,
                         int64_t least, int64_t most, int64_t *out)
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

void field_append_known(const char *name, const char *(*name_at)(int))
{
    const known_names list = {.at = name_at};
    error_append_names(name, list_at, &list);
}
