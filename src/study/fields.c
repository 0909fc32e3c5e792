#include "study/fields.h"

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
        return error_set(GRAIL_ERROR_FORMAT, "%s: \"%s\" is \"%.40s\", expected %s or %s", where,
                         key, word, first, second);
    }
    *out = strcmp(word, second) == 0;
    return GRAIL_OK;
}
