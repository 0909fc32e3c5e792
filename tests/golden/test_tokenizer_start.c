/* The ids of the beginning of a text are the first ids of the complete text, whatever follows.
 * Checked with the tokenizers under tests/golden/tokenizers and others made here, at every place of
 * a nasty text, before many continuations. */
#include "support/support.h"

#include "base/file.h"
#include "golden_tokenizer.h"

#include <stdio.h>
#include <string.h>

static const char *const continuations[] = {"",
                                            "a",
                                            " ",
                                            "  x",
                                            "\n",
                                            "\r\n",
                                            ".",
                                            "'s",
                                            "1",
                                            "\u0301",
                                            "\u1e0b\u0323",
                                            "\u2581",
                                            "b c",
                                            "<s>",
                                            " <s>",
                                            "end>",
                                            "<|endoftext|>",
                                            "\u4e00",
                                            "\xf0\x9f\x91\x8d",
                                            "   ",
                                            "\t\n a"};

enum { CONTINUATIONS = sizeof continuations / sizeof continuations[0] };

static token_list encode(const tokenizer *t, const char *text, size_t size, bool special)
{
    token_list ids = {0};
    assert_ok(tokenizer_encode(t, text, size, special, &ids));
    return ids;
}

static void assert_begins_with(const char *what, size_t cut, const token_list *whole,
                               const token_list *start)
{
    bool same = start->count <= whole->count;
    for (int64_t i = 0; same && i < start->count; i++) {
        same = whole->ids[i] == start->ids[i];
    }
    if (!same) {
        print_error("%s: the ids of the first %zu bytes are not the first ids of the text\n", what,
                    cut);
        fail();
    }
}

/* Number of certain ids of text[0 .. cut), which every continuation keeps. */
static int64_t check_cut(const char *what, const tokenizer *t, const buffer *text, size_t cut)
{
    OWNED(token_list) start = {0};
    OWNED(buffer) continued = {.maximum = 1 << 20};
    assert_ok(tokenizer_encode_start(t, (const char *)text->bytes, cut, true, &start));
    for (int i = 0; i < CONTINUATIONS; i++) {
        continued.size = 0;
        assert_ok(buffer_append(&continued, text->bytes, cut));
        assert_ok(buffer_append_string(&continued, continuations[i]));
        OWNED(token_list) whole = encode(t, (const char *)continued.bytes, continued.size, true);
        assert_begins_with(what, cut, &whole, &start);
    }
    return start.count;
}

static size_t character_start(const buffer *text, size_t at)
{
    while (at < text->size && (text->bytes[at] & 0xC0) == 0x80) {
        at++;
    }
    return at;
}

/* Checks every character of a window of the text; returns the number of certain ids at its end. */
static int64_t check_window(const char *what, const tokenizer *t, const buffer *text, size_t begin,
                            size_t size)
{
    int64_t count = 0;
    OWNED(buffer) window = {.maximum = 1 << 20};
    begin = character_start(text, begin);
    const size_t end = character_start(text, begin + size < text->size ? begin + size : text->size);
    assert_ok(buffer_append(&window, text->bytes + begin, end - begin));
    OWNED(token_list) whole = encode(t, (const char *)window.bytes, window.size, true);
    for (size_t cut = 0; cut <= window.size; cut++) {
        OWNED(token_list) start = {0};
        if (character_start(&window, cut) != cut) {
            continue;
        }
        count = check_cut(what, t, &window, cut);
        assert_ok(tokenizer_encode_start(t, (const char *)window.bytes, cut, true, &start));
        assert_begins_with(what, cut, &whole, &start);
    }
    return count;
}

static void read_nasty(buffer *out)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/tokenizers/nasty.txt", GRAIL_SOURCE_DIR);
    assert_ok(file_read(path, 1 << 20, out));
}

static void check_everywhere(const char *what, const tokenizer *t)
{
    enum { WINDOW = 150 };
    OWNED(buffer) text = {0};
    read_nasty(&text);
    for (size_t begin = 0; begin < text.size; begin += WINDOW - 30) {
        check_window(what, t, &text, begin, WINDOW);
    }
}

/* Nearly all ids of plain prose are certain. */
static void check_prose(const char *what, const tokenizer *t)
{
    enum { MOST_MISSING = 60 };
    char path[4096];
    OWNED(buffer) text = {0};
    snprintf(path, sizeof path, "%s/demo/held-out.txt", GRAIL_SOURCE_DIR);
    assert_ok(file_read(path, 1 << 20, &text));
    OWNED(token_list) whole = encode(t, (const char *)text.bytes, text.size, true);
    OWNED(token_list) start = {0};
    assert_ok(tokenizer_encode_start(t, (const char *)text.bytes, text.size, true, &start));
    assert_begins_with(what, text.size, &whole, &start);
    if (start.count < whole.count - MOST_MISSING) {
        print_error("%s: only %lld of %lld ids are certain\n", what, (long long)start.count,
                    (long long)whole.count);
        fail();
    }
    start.count = 0;
    start.most = 100;
    assert_ok(tokenizer_encode(t, (const char *)text.bytes, text.size, true, &start));
    assert_int_equal(start.count, 100);
    assert_begins_with(what, text.size, &whole, &start);
}

static void check_family(const char *name)
{
    OWNED(tokenizer) *t = golden_tokenizer(name);
    check_everywhere(name, t);
    check_prose(name, t);
}

TEST(beginnings_hold_for_byte_level_tokenizers)
{
    check_family("gpt2");
    check_family("llama3");
    check_family("qwen2");
    check_family("bert");
    check_family("roberta");
}

TEST(beginnings_hold_for_sentencepiece)
{
    check_family("llama2");
    check_family("llama2-metaspace");
    check_family("sentencepiece");
}

TEST(beginnings_hold_for_other_components)
{
    check_family("components-1");
    check_family("components-2");
    check_family("components-3");
    check_family("components-4");
}

/* A vocabulary with merges of what the continuations begin with. */
#define MODEL(flags)                                                                               \
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true," flags                    \
    "\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"c\":3,\" \":4,\"aa\":5,\"a \":6,\" "                     \
    "a\":7,\"x\":8,\"s\":9,"                                                                       \
    "\"e\":10,\"<s>\":11,\"end>\":12,\"e \":13,\"ab c\":14},"                                      \
    "\"merges\":[\"a a\",[\"a\",\" \"],[\" \",\"a\"],[\"e\",\" \"]]}"
#define ADDED(flags)                                                                               \
    ",\"added_tokens\":[{\"id\":11,\"content\":\"<s>\"," flags                                     \
    "},{\"id\":12,\"content\":\"end>\","                                                           \
    "\"normalized\":true}]"
#define NORMALIZER(type) ",\"normalizer\":{\"type\":" type "}"
#define PATTERN(regex, behavior)                                                                   \
    ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex                       \
    "\"},\"behavior\":\"" behavior "\"}"

/* Components that look far ahead or back, join, or change what stands at an end. */
static const char *const made[] = {
    "",
    ADDED("\"lstrip\":true,\"rstrip\":true"),
    ADDED("\"single_word\":true"),
    NORMALIZER("\"Strip\""),
    NORMALIZER("\"Strip\",\"strip_left\":false"),
    NORMALIZER("\"NFC\"") ADDED("\"lstrip\":true"),
    NORMALIZER("\"NFKD\""),
    NORMALIZER("\"Lowercase\""),
    NORMALIZER("\"Prepend\",\"prepend\":\"a\""),
    NORMALIZER("\"Replace\",\"pattern\":{\"String\":\"bcabcabcabcabcabcabca\"},\"content\":\"xx\""),
    ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"xbxbxbxbxbxbxbxbxbxbx\"}]}",
    NORMALIZER("\"Replace\",\"pattern\":{\"Regex\":\"\\\\s+$\"},\"content\":\"b\""),
    NORMALIZER("\"Replace\",\"pattern\":{\"Regex\":\"a(?=.*c)|(?<=b) \"},\"content\":\"xx\""),
    PATTERN("\\\\s+", "Isolated"),
    PATTERN("\\\\s+", "Removed"),
    PATTERN("\\\\s", "MergedWithPrevious"),
    PATTERN("\\\\s", "MergedWithNext"),
    PATTERN("[a-z]", "Contiguous"),
    PATTERN("a(?=[^c]*c)", "Isolated"),
    PATTERN("(?<![a-z])[a-z]+\\\\b", "Isolated"),
    PATTERN("$|x*", "Isolated"),
    ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"},"
    "{\"type\":\"Punctuation\"},{\"type\":\"WhitespaceSplit\"}]}",
    ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":false}",
    ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\" \",\"split\":false}",
};

/* Halves of what the components above look for, at many places. */
static const char halves[] = "ba\u0301bbbbb bcabcabcabcabcabcabcabbbbb abc ab cab  bca b<s> a<s>b "
                             "end> e 12.c..bc aab e e  end<s><s";

static void check_made(const char *model, const char *beside)
{
    OWNED(tokenizer) *t = NULL;
    OWNED(buffer) text = {.maximum = 1 << 10};
    assert_ok(buffer_append_string(&text, halves));
    OPENED(char, json, memory_format(&json, "%s%s}", model, beside));
    assert_ok(tokenizer_from_json("t.json", json, strlen(json), &t));
    check_window(beside, t, &text, 0, text.size);
    check_everywhere(beside, t);
}

TEST(beginnings_hold_for_what_looks_far)
{
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        check_made(MODEL(""), made[i]);
    }
    check_made(MODEL("\"ignore_merges\":true,"), "");
    check_made(MODEL("\"byte_fallback\":true,"), "");
}
