/* Ids of the tokenizers under tests/golden/tokenizers against those that Hugging Face tokenizers
 * and SentencePiece give (make_tokenizer_golden.py). */
#include "support/support.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "golden_tokenizer.h"

#include <stdio.h>
#include <string.h>

static const char *golden_path(const char *family, const char *file)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/tokenizers/%s/%s", GRAIL_SOURCE_DIR, family, file);
    return path;
}

static json_t *read_expected(const char *path)
{
    json_t *expected = NULL;
    assert_ok(json_read_file(path, 1 << 24, &expected));
    return expected;
}

static token_list encode(const tokenizer *t, const char *text, size_t size, bool special)
{
    token_list ids = {0};
    assert_ok(tokenizer_encode(t, text, size, special, &ids));
    return ids;
}

/* The ids as a text, separated by spaces, hashed. */
static void assert_digest(const char *what, token_list *ids, const json_t *expected)
{
    OWNED(buffer) text = {.maximum = SIZE_MAX};
    char hash[HASH_TEXT_SIZE];
    for (int64_t i = 0; i < ids->count; i++) {
        assert_ok(buffer_format(&text, "%s%d", i > 0 ? " " : "", ids->ids[i]));
    }
    hash_bytes(text.bytes, text.size, hash);
    if (strcmp(hash, json_string_value(json_object_get(expected, "sha256"))) != 0) {
        print_error("%s: %lld ids differ from the expected %lld\n", what, (long long)ids->count,
                    (long long)json_integer_value(json_object_get(expected, "count")));
        fail();
    }
    token_list_fini(ids);
}

static void assert_ids(const char *what, token_list *ids, const json_t *expected)
{
    int64_t i = 0;
    while (i < ids->count &&
           ids->ids[i] == json_integer_value(json_array_get(expected, (size_t)i))) {
        i++;
    }
    if (i < ids->count || (size_t)i != json_array_size(expected)) {
        print_error("%s: id %lld of %lld differs; %zu expected\n", what, (long long)i,
                    (long long)ids->count, json_array_size(expected));
        fail();
    }
    token_list_fini(ids);
}

typedef struct family {
    const char *name;
    tokenizer *tokenizer;
    json_t *expected;
    buffer text;
} family;

static family open_family(const char *name)
{
    family f = {.name = name, .tokenizer = golden_tokenizer(name)};
    f.expected = read_expected(golden_path(name, "ids.json"));
    assert_ok(file_read(golden_path(".", "nasty.txt"), 1 << 20, &f.text));
    return f;
}

static void close_family(family *f)
{
    tokenizer_close(f->tokenizer);
    json_decref(f->expected);
    buffer_fini(&f->text);
}

static void check_lines(const family *f)
{
    const json_t *lines = json_object_get(f->expected, "lines");
    const char *line = (const char *)f->text.bytes;
    const char *end = line + f->text.size;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        char what[128];
        snprintf(what, sizeof what, "%s, line %zu", f->name, i + 1);
        const char *feed = memchr(line, '\n', (size_t)(end - line));
        const char *stop = feed == NULL ? end : feed;
        token_list ids = encode(f->tokenizer, line, (size_t)(stop - line), false);
        assert_ids(what, &ids, json_array_get(lines, i));
        line = feed == NULL ? end : feed + 1;
    }
    assert_ptr_equal(line, end);
}

static void check_whole(const family *f)
{
    const char *text = (const char *)f->text.bytes;
    token_list plain = encode(f->tokenizer, text, f->text.size, false);
    token_list special = encode(f->tokenizer, text, f->text.size, true);
    token_list empty = encode(f->tokenizer, "", 0, true);
    assert_digest(f->name, &plain, json_object_get(f->expected, "whole"));
    assert_digest(f->name, &special, json_object_get(f->expected, "whole_special"));
    assert_ids(f->name, &empty, json_object_get(f->expected, "empty_special"));
}

/* The same word as long_word() of the script makes. */
static void check_long_word(const family *f)
{
    enum { LETTERS = 50000 };
    uint32_t state = 12345;
    OPENED(char, word, memory_new(&word, LETTERS, 1));
    for (int i = 0; i < LETTERS; i++) {
        state = (state * 1103515245u + 12345u) & 0x7FFFFFFFu;
        word[i] = "etaoinshrdlu"[(state >> 16) % 12];
    }
    token_list ids = encode(f->tokenizer, word, LETTERS, false);
    assert_digest(f->name, &ids, json_object_get(f->expected, "long_word"));
}

static void check_family(const char *name)
{
    family f = open_family(name);
    check_lines(&f);
    check_whole(&f);
    check_long_word(&f);
    close_family(&f);
}

TEST(llama2_with_prepend_and_byte_fallback_equals_tokenizers)
{
    check_family("llama2");
}

TEST(llama2_with_metaspace_equals_tokenizers)
{
    check_family("llama2-metaspace");
}

TEST(gpt2_equals_tokenizers)
{
    check_family("gpt2");
}

TEST(llama3_equals_tokenizers)
{
    check_family("llama3");
}

TEST(qwen2_equals_tokenizers)
{
    check_family("qwen2");
}

TEST(other_components_equal_tokenizers)
{
    check_family("components-1");
    check_family("components-2");
    check_family("components-3");
    check_family("components-4");
}

TEST(wordpieces_equal_tokenizers)
{
    check_family("bert");
    check_family("bert-cased");
    check_family("bert-accents");
}

TEST(roberta_equals_tokenizers)
{
    check_family("roberta");
}

TEST(merges_equal_transformers)
{
    check_family("merges-gpt2");
    check_family("merges-roberta");
    check_family("merges-qwen2");
}

/* The pieces of a SentencePiece model, as keys of a GGUF file. */
TEST(pieces_of_a_gguf_file_equal_sentencepiece)
{
    check_family("sentencepiece");
}

TEST(stories260k_equals_tokenizers_on_its_text)
{
    static char directory[4096];
    const char *model = support_shared_data("stories260k");
    snprintf(directory, sizeof directory, "%s", model == NULL ? "" : model);
    const char *path = support_shared_data("text/tinystories.txt");
    if (model == NULL || path == NULL) {
        print_message("stories260k_equals_tokenizers_on_its_text: no shared data\n");
        skip();
    }
    OWNED(buffer) text = {0};
    OWNED(json_t) *expected = read_expected(golden_path(".", "stories260k.json"));
    const json_t *lines = json_object_get(expected, "lines");
    OPENED(tokenizer, t, tokenizer_open(directory, &t));
    assert_ok(file_read(path, 1 << 24, &text));
    const char *line = (const char *)text.bytes;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        const size_t size = strcspn(line, "\n");
        token_list ids = encode(t, line, size, true);
        assert_digest("stories260k", &ids, json_array_get(lines, i));
        line += size + 1;
    }
}
