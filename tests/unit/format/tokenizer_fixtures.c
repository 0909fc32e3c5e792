#include "tokenizer_fixtures.h"

#include "support/support.h"

#include <string.h>

grail_status open_tokenizer_text(const char *text, tokenizer **out)
{
    return tokenizer_from_json("t.json", text, strlen(text), out);
}

grail_status open_tokenizer_with(const char *model, const char *beside, tokenizer **out)
{
    OWNED(char) *text = NULL;
    grail_status status = memory_format(&text, "{\"model\":{%s}%s}", model, beside);
    if (status == GRAIL_OK) {
        status = open_tokenizer_text(text, out);
    }
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
    OWNED(token_list) ids = {0};
    assert_ok(tokenizer_encode(t, text, strlen(text), special, &ids));
    int64_t i = 0;
    for (; i < ids.count && expected[i] >= 0; i++) {
        assert_int_equal(ids.ids[i], expected[i]);
    }
    assert_int_equal(expected[i], -1);
    assert_int_equal(i, ids.count);
}
