/* Any bytes as a tokenizer, which encodes any text. An input is 'j', a tokenizer.json, a NUL byte
 * and the text. An accepted file gives the same ids twice, all of them in the vocabulary. For the
 * beginning of the text it gives the first ids of the complete text. */
#include "fuzz.h"

#include "format/text/tokenizer_internal.h"

#include <string.h>

/* The certain ids of the first half of a text must be the first ids of the complete text. */
static void check_start(const tokenizer *t, const char *text, size_t size, const token_list *whole)
{
    token_list start = {0};
    size_t half = size / 2;
    while (half < size && ((unsigned char)text[half] & 0xC0) == 0x80) {
        half++;
    }
    if (tokenizer_encode_start(t, text, half, false, &start) == GRAIL_OK) {
        fuzz_require(start.count <= whole->count);
    }
    for (int64_t i = 0; i < start.count; i++) {
        fuzz_require(start.ids[i] == whole->ids[i]);
    }
    token_list_fini(&start);
}

static void check_ids(const tokenizer *t, const token_list *ids)
{
    for (int64_t i = 0; i < ids->count; i++) {
        fuzz_require(ids->ids[i] < t->model.pieces.count &&
                     vocabulary_piece(&t->model.pieces, ids->ids[i]).bytes != NULL);
    }
}

/* Text that is invalid, or that a pattern gives up on, adds no id. */
static void check_encoding(const tokenizer *t, const char *text, size_t size)
{
    token_list ids = {0};
    token_list again = {0};
    if (tokenizer_encode(t, text, size, false, &ids) != GRAIL_OK) {
        fuzz_require(ids.count == 0);
    } else {
        fuzz_require(tokenizer_encode(t, text, size, false, &again) == GRAIL_OK);
        fuzz_require(again.count == ids.count);
        check_start(t, text, size, &ids);
    }
    for (int64_t i = 0; i < ids.count; i++) {
        fuzz_require(ids.ids[i] == again.ids[i]);
    }
    check_ids(t, &ids);
    token_list_fini(&ids);
    token_list_fini(&again);
}

static void try_json(const char *bytes, size_t size)
{
    const char *end = memchr(bytes, '\0', size);
    const size_t length = end == NULL ? size : (size_t)(end - bytes);
    tokenizer *t = NULL;
    if (tokenizer_from_json("input", bytes, length, &t) == GRAIL_OK) {
        check_encoding(t, bytes + length, size - length);
    }
    tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    if (size > 0 && bytes[0] == 'j') {
        try_json(bytes + 1, size - 1);
    }
    return 0;
}
