#include "arch/gguf_keys.h"

#include "base/bytes.h"

#include <stdio.h>
#include <string.h>

static const gguf_key keys[] = {
#define GGUF_NAMED(ID, USE, KEY, NEUTRAL, SAYS) {GGUF_##USE, KEY, NEUTRAL, SAYS},
#define GGUF_OTHER(USE, KEY, NEUTRAL, SAYS) {GGUF_##USE, KEY, NEUTRAL, SAYS},
#include "arch/gguf_key_list.h"
#undef GGUF_NAMED
#undef GGUF_OTHER
};

static const char *const names[GGUF_KEY_COUNT] = {
#define GGUF_NAMED(ID, USE, KEY, NEUTRAL, SAYS) [GGUF_KEY_##ID] = (KEY),
#define GGUF_OTHER(USE, KEY, NEUTRAL, SAYS)
#include "arch/gguf_key_list.h"
#undef GGUF_NAMED
#undef GGUF_OTHER
};

gguf_key_name gguf_key_of(const char *architecture, gguf_key_id id)
{
    gguf_key_name key;
    snprintf(key.text, sizeof key.text, "%s%s", names[id][0] == '.' ? architecture : "", names[id]);
    return key;
}

bool gguf_key_is(const char *architecture, gguf_key_id id, const char *key)
{
    return strcmp(gguf_key_of(architecture, id).text, key) == 0;
}

/* "a*b" fits what begins with "a" and ends with "b". */
static bool fits(const char *pattern, const char *name)
{
    const char *star = strchr(pattern, '*');
    if (star == NULL) {
        return strcmp(pattern, name) == 0;
    }
    const size_t before = (size_t)(star - pattern);
    const size_t behind = strlen(star + 1);
    const size_t length = strlen(name);
    return length >= before + behind && strncmp(pattern, name, before) == 0 &&
           strcmp(star + 1, name + length - behind) == 0;
}

const gguf_key *gguf_key_find(const char *architecture, const char *key)
{
    const size_t length = strlen(architecture);
    const bool is_own = length > 0 && strncmp(key, architecture, length) == 0 && key[length] == '.';
    const char *name = is_own ? key + length : key;
    size_t i = 0;
    while ((keys[i].name[0] == '.') != is_own || !fits(keys[i].name, name)) {
        i++;
    }
    return &keys[i];
}

/* -- values ------------------------------------------------------------------------------------ */

enum { VALUE_SIZE = 64 };

/* Element i; of an array of texts only that it is one. */
static grail_status value_text(const gguf_value *value, uint64_t i, char text[VALUE_SIZE])
{
    const char *bytes = NULL;
    size_t size = 0;
    int64_t integer = 0;
    double real = 0.0;
    gguf_walk walk = {.value = value};
    if (value->type == GGUF_BOOL) {
        snprintf(text, VALUE_SIZE, "%s", value->bytes[i] != 0 ? "true" : "false");
    } else if (value->type == GGUF_TEXT && !value->is_array &&
               gguf_walk_next(&walk, &bytes, &size)) {
        snprintf(text, VALUE_SIZE, "%.*s", size < VALUE_SIZE ? (int)size : VALUE_SIZE, bytes);
    } else if (value->type == GGUF_TEXT) {
        snprintf(text, VALUE_SIZE, "a list of texts");
    } else if (value->type == GGUF_F32 || value->type == GGUF_F64) {
        CHECK(gguf_real_at(value, i, &real));
        snprintf(text, VALUE_SIZE, "%.9g", real);
    } else {
        CHECK(gguf_integer_at(value, i, &integer));
        snprintf(text, VALUE_SIZE, "%lld", (long long)integer);
    }
    return GRAIL_OK;
}

bool gguf_is_listed(const char *list, const char *text, bool whole)
{
    while (*list != 0) {
        const size_t own = strcspn(list, "|");
        if (strncmp(list, text, own) == 0 && (!whole || text[own] == 0)) {
            return true;
        }
        list += own + (list[own] == '|' ? 1 : 0);
    }
    return false;
}

static grail_status refuse(const gguf_key *key, const gguf_value *value, const char *text)
{
    error_set(GRAIL_ERROR_UNSUPPORTED, "key '%s' is %s (%s), which grail does not carry",
              value->key, text, key->says[0] == 0 ? "what the file holds" : key->says);
    for (const char *at = key->neutral; *at != 0; at += strcspn(at, "|"), at += *at == 0 ? 0 : 1) {
        error_append("%s %.*s", at == key->neutral ? "; expected" : " or", (int)strcspn(at, "|"),
                     at);
    }
    error_append("; if the network is the same without the key, remove it (gguf-new-metadata "
                 "--remove-metadata, of the Python package gguf)");
    return GRAIL_ERROR_UNSUPPORTED;
}

grail_status gguf_keys_check(const gguf_metadata *m, const char *architecture, bool of_tokenizer)
{
    static const char prefix[] = "tokenizer.";
    for (int64_t i = 0; i < m->count; i++) {
        const gguf_value *value = &m->values[i];
        const gguf_key *key = gguf_key_find(architecture, value->key);
        char text[VALUE_SIZE] = "an empty list";
        if ((strncmp(value->key, prefix, sizeof prefix - 1) == 0) != of_tokenizer ||
            (key->use != GGUF_REFUSED && key->neutral[0] == 0)) {
            continue;
        }
        for (uint64_t k = 0; k < value->count; k++) {
            CHECK(value_text(value, k, text));
            if (!gguf_is_listed(key->neutral, text, true)) {
                return refuse(key, value, text);
            }
        }
        if (key->neutral[0] == 0) {
            return refuse(key, value, text);
        }
    }
    return GRAIL_OK;
}
