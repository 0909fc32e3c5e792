/* Windows of texts that are encoded only as far as they are needed: the same as of short ones. */
#include "windows_fixture.h"

#include "base/file.h"
#include "base/hash.h"
#include "format/text/text_limits.h"
#include "support/support.h"

#include <string.h>

/* Writes enough copies to exceed the size up to which a text is always encoded completely. */
static size_t write_copies(const fixture *f, const char *name, const char *text)
{
    OWNED(buffer) copies = {.maximum = 1 << 26};
    while (copies.size <= TEXT_ENCODED_WHOLE + (4 << 20)) {
        assert_ok(buffer_append_string(&copies, text));
    }
    support_write_file(f->directory, name, copies.bytes, copies.size);
    const size_t size = copies.size;
    return size;
}

/* The first windows of a large text are those of a short one that begins as it does, and no more
 * is encoded. */
static void check_first_windows(const char *ending, const char *text, text_protocol protocol,
                                bool window_bos)
{
    enum { WINDOWS = 3, LENGTH = 20 };
    fixture f;
    token_windows first = {0};
    buffer few = {.maximum = 1 << 20};
    for (int i = 0; i < 20; i++) {
        assert_ok(buffer_append_string(&few, text));
    }
    windows_setup(&f, ending, (const char *)few.bytes);
    f.options.window_bos = window_bos;
    f.options.windows = WINDOWS;
    read_windows(&f, protocol, LENGTH);
    assert_true(f.windows.count >= WINDOWS && f.windows.stream_tokens > WINDOWS * LENGTH);
    first = f.windows;
    f.windows = (token_windows){0};
    write_copies(&f, ending, text);
    read_windows(&f, protocol, LENGTH);
    assert_true(f.windows.count >= WINDOWS);
    assert_int_equal(f.windows.stream_tokens, -1);
    assert_memory_equal(f.windows.ids, first.ids, WINDOWS * LENGTH * sizeof first.ids[0]);
    assert_string_not_equal(f.windows.text_hash, first.text_hash);
    token_windows_fini(&first);
    buffer_fini(&few);
    windows_teardown(&f);
}

TEST(no_more_of_a_large_text_is_encoded_than_its_windows_need)
{
    static const char lines[] = " ab cd\n\nef  \nfed cba a b c d e f \n";
    static const char documents[] =
        "{\"text\": \"ab cd\\nf a b c d e f a b c d e f a b c d e f a b c d e f a b c d e f a b c "
        "d e "
        "f a b c d e f a b c d e f a b c d e f a b c d e f a b c d e f a b c d e f\"}\n\n"
        "{\"text\": \"ef a b c d e f a b c d e f a b c d e f a b c d e f a b c d e f a b c d e f "
        "\"}\n";
    for (int p = TEXT_PLAIN; p <= TEXT_PTB; p++) {
        check_first_windows("a.txt", lines, (text_protocol)p, p == TEXT_PTB);
        if (support_takes(p, TEXT_PTB)) {
            check_first_windows("a.jsonl", documents, (text_protocol)p, p == TEXT_PLAIN);
        }
    }
    check_first_windows("a.txt", lines, TEXT_C4, false);
}

/* The rest of a text is read and checked even when no window needs it. */
TEST(the_rest_of_a_large_text_is_checked)
{
    fixture f;
    char hash[HASH_TEXT_SIZE];
    windows_setup(&f, "a.txt", "a");
    f.options.windows = 1;
    const size_t size = write_copies(&f, "a.txt", "abc def\n");
    read_windows(&f, TEXT_PLAIN, 4);
    buffer text = {.maximum = 1 << 26};
    assert_ok(file_read(f.path, 1 << 26, &text));
    hash_bytes(text.bytes, text.size, hash);
    assert_string_equal(f.windows.text_hash, hash);
    text.bytes[size - 1] = 0xff;
    support_write_file(f.directory, "a.txt", text.bytes, size);
    token_windows_fini(&f.windows);
    assert_fails(windows_read(&f.options, f.t, VOCABULARY, &f.windows), GRAIL_ERROR_FORMAT,
                 "a.txt: is not UTF-8 at byte");
    buffer_fini(&text);
    windows_teardown(&f);
}

/* BOS, then copies of "abc def\n", then perhaps what ends a text. */
static void assert_copies(const token_windows *w)
{
    static const int32_t period[] = {1, 2, 3, 7, 4, 5, 6, 8};
    for (int64_t i = 1; i < w->count * w->length; i++) {
        assert_int_equal(w->ids[i], period[(i - 1) % 8]);
    }
}

/* Windows that reach a little beyond the part that is encoded at first, and all windows up to the
 * last one, which only the end of the text completes. The tokenizer appends an id to a text. */
TEST(windows_at_every_end_of_a_large_text_are_right)
{
    fixture f;
    char *text = NULL;
    windows_setup(&f, "a.txt", "a");
    tokenizer_close(f.t);
    f.t = NULL;
    const char *sequence = strstr(windows_tokenizer, "{\"Sequence\"");
    assert_ok(memory_format(&text,
                            "%.*s{\"Sequence\": {\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": "
                            "\"<s>\"}}%s",
                            (int)(sequence - windows_tokenizer), windows_tokenizer,
                            strchr(sequence, ']')));
    assert_ok(tokenizer_from_json("t.json", text, strlen(text), &f.t));
    const size_t size = write_copies(&f, "a.txt", "abc def\n");
    f.options.windows = TEXT_ENCODED_WHOLE / 2 + 1;
    read_windows(&f, TEXT_PLAIN, 2);
    assert_int_equal(f.windows.count, TEXT_ENCODED_WHOLE / 2 + 1);
    assert_copies(&f.windows);
    f.options.windows = (int64_t)(size + 2) / 1000; /* one id for each byte, and two */
    read_windows(&f, TEXT_PLAIN, 1000);
    assert_int_equal(f.windows.count, (size + 2) / 1000);
    assert_copies(&f.windows);
    f.options.windows = INT64_MAX / 2;
    read_windows(&f, TEXT_PLAIN, 1000);
    assert_int_equal(f.windows.stream_tokens, size + 2);
    memory_free(text);
    windows_teardown(&f);
}
