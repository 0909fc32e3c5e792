#include "tokenizer_fixtures.h"

#include "support/support.h"

#include <string.h>

grail_status open_tokenizer_text(const char *text, tokenizer **out)
{
    return tokenizer_from_json("t.json", text, strlen(text), out);
}

grail_status open_tokenizer_with(const char *model, const char *beside, tokenizer **out)
{
    char *text = NULL;
    assert_ok(memory_format(&text, "{\"model\":{%s}%s}", model, beside));
    const grail_status status = open_tokenizer_text(text, out);
    memory_free(text);
    return status;
}

tokenizer *must_open_tokenizer(const char *model, const char *beside)
{
    tokenizer *t = NULL;
    assert_ok(open_tokenizer_with(model, beside, &t));
    return t;
}

void assert_encodes(const tokenizer *t, const char *text, bool special, const int32_t expected[])
{
    token_list ids = {0};
    assert_ok(tokenizer_encode(t, text, strlen(text), special, &ids));
    int64_t i = 0;
    for (; i < ids.count && expected[i] >= 0; i++) {
        assert_int_equal(ids.ids[i], expected[i]);
    }
    assert_int_equal(expected[i], -1);
    assert_int_equal(i, ids.count);
    token_list_fini(&ids);
}

void append_model_field(buffer *out, int number, const void *bytes, size_t size)
{
    const unsigned char head[2] = {(unsigned char)(number << 3 | 2), (unsigned char)size};
    assert_true(size < 128);
    assert_ok(buffer_append(out, head, 2));
    assert_ok(buffer_append(out, bytes, size));
}

void append_model_piece(buffer *out, const char *piece, float score, int type)
{
    buffer message = {.maximum = 1 << 10};
    const unsigned char kind[2] = {3 << 3, (unsigned char)type};
    unsigned char number[5] = {2 << 3 | 5};
    memcpy(number + 1, &score, sizeof score);
    append_model_field(&message, 1, piece, strlen(piece));
    assert_ok(buffer_append(&message, number, sizeof number));
    assert_ok(buffer_append(&message, kind, sizeof kind));
    append_model_field(out, 1, message.bytes, message.size);
    buffer_fini(&message);
}
