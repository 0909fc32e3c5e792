#include "format/text/token_array.h"

#include "base/hash.h"
#include "base/memory.h"
#include "base/option_values.h"

#include <string.h>

grail_status tokens_check(const grail_tokens *t)
{
    size_t size = 0;
    CHECK(OPTION_ROOM_OF(grail_tokens, t));
    const bool fits = t->windows > 0 && t->length > 0 &&
                      size_multiply((size_t)t->windows, (size_t)t->length, &size) &&
                      size_multiply(size, sizeof(int32_t), &size);
    if (t->ids != NULL && fits) {
        return GRAIL_OK;
    }
    return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                 "%lld windows of %lld tokens in memory%s; expected at least one "
                                 "window of at least one token",
                                 (long long)t->windows, (long long)t->length,
                                 t->ids == NULL ? ", and no ids" : ""),
                       "tokens");
}

static int64_t length_of(const grail_tokens *t, int64_t window)
{
    return t->lengths == NULL ? t->length : t->lengths[window];
}

void tokens_hash(const grail_tokens *t, char hash[HASH_TEXT_SIZE])
{
    hash_state state;
    hash_begin(&state);
    for (int64_t i = 0; i < t->windows; i++) {
        const int64_t length = length_of(t, i);
        hash_add(&state, &length, sizeof length);
        hash_add(&state, t->ids + i * t->length, (size_t)length * sizeof t->ids[0]);
    }
    hash_end(&state, hash);
}

grail_status windows_of_tokens(const grail_tokens *tokens, int64_t vocabulary, token_windows *out)
{
    grail_status status = GRAIL_OK;
    token_windows w = {.count = tokens->windows, .length = tokens->length};
    int64_t used = 0;
    TRY(tokens_check(tokens));
    TRY(memory_new_unset(&w.ids, (size_t)(w.count * w.length), sizeof w.ids[0]));
    if (tokens->lengths != NULL) {
        TRY(memory_new(&w.starts, (size_t)w.count + 1, sizeof w.starts[0]));
    }
    for (int64_t i = 0; i < w.count; i++) {
        const int64_t length = length_of(tokens, i);
        const int32_t *ids = tokens->ids + i * w.length;
        if (length < 1 || length > w.length) {
            FAIL_ABOUT("tokens", GRAIL_ERROR_ARGUMENT,
                       "window %lld in memory has a length of %lld; expected 1 to %lld tokens",
                       (long long)i, (long long)length, (long long)w.length);
        }
        for (int64_t k = 0; k < length; k++) {
            if (ids[k] < 0 || ids[k] >= vocabulary) {
                FAIL_ABOUT(
                    "tokens", GRAIL_ERROR_ARGUMENT,
                    "window %lld in memory has the token id %ld at position %lld; expected 0 "
                    "to %lld, the model's vocabulary",
                    (long long)i, (long)ids[k], (long long)k, (long long)vocabulary - 1);
            }
        }
        memcpy(w.ids + used, ids, (size_t)length * sizeof w.ids[0]);
        used += length;
        if (w.starts != NULL) {
            w.starts[i + 1] = used;
        }
    }
    w.stream_tokens = used;
    tokens_hash(tokens, w.text_hash);
    *out = w;
    w = (token_windows){0};
out:
    token_windows_fini(&w);
    return status;
}
