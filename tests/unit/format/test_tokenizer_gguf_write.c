/* Tokenizers of pieces with scores as keys of GGUF files: what is written encodes as its source. */
#include "support/support.h"

#include "base/file.h"
#include "format/text/tokenizer_internal.h"
#include "support/json_memory.h"

#include <stdio.h>
#include <string.h>

enum { FIRST = 259, COUNT = FIRST + 10 }; /* the pieces of bytes come before */

static const char *const pieces[COUNT - FIRST] = {"\u2581", "a",       "b",        "c",   "ab",
                                                  "bc",     "\u2581a", "\u2581ab", "abc", "<x>"};

#define USUAL                                                                                      \
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"    \
    "\"\u2581\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]}"
#define METASPACE(scheme, split)                                                                   \
    "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","    \
    "\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"
/* bc before ab, so "abc" is a and bc */
#define MERGES "\"b c\",\"a b\",\"\u2581 a\",\"\u2581 ab\",\"\u2581a b\",\"a bc\",\"ab c\""

static void write_json(const char *directory, const char *steps, const char *merges,
                       const char *model)
{
    OWNED(buffer) text = {.maximum = 1 << 16};
    assert_ok(buffer_format(&text,
                            "{%s,\"post_processor\":{\"type\":\"TemplateProcessing\","
                            "\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{"
                            "\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},"
                            "\"added_tokens\":[{\"id\":0,\"content\":\"<unk>\",\"special\":"
                            "true},{\"id\":1,\"content\":\"<s>\",\"special\":true},{\"id\":2,"
                            "\"content\":\"</s>\",\"special\":true},{\"id\":%d,"
                            "\"content\":\"<x>\",\"special\":false}],\"model\":{\"type\":"
                            "\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true,%s,"
                            "\"vocab\":{\"<unk>\":0,\"<s>\":1,\"</s>\":2",
                            steps, COUNT - 1, model));
    for (int i = 0; i < 256; i++) {
        assert_ok(buffer_format(&text, ",\"<0x%02X>\":%d", (unsigned)i, 3 + i));
    }
    for (int i = FIRST; i < COUNT - 1; i++) {
        assert_ok(buffer_format(&text, ",\"%s\":%d", pieces[i - FIRST], i));
    }
    assert_ok(buffer_format(&text, "},\"merges\":[%s]}}", merges));
    support_write_file(directory, "tokenizer.json", text.bytes, text.size);
}

/* Writes the tokenizer of a directory into a file, and opens that. */
static grail_status write_and_open(const char *directory, tokenizer **out)
{
    grail_status status = GRAIL_OK;
    gguf_pairs pairs;
    tensor_writer *writer = NULL;
    tensor_file *file = NULL;
    OWNED(char) *path = NULL;
    bool of_pieces = false;
    gguf_pairs_init(&pairs);
    TRY(path_join(&path, directory, "t.gguf"));
    (void)remove(path);
    TRY(tokenizer_write_gguf(directory, NULL, 0, COUNT + 2, &of_pieces, &pairs));
    assert_true(of_pieces);
    TRY(gguf_writer_open(path, &pairs, 0, NULL, LAYOUT_NEW, &writer));
    TRY(tensor_writer_seal(writer));
    TRY(gguf_open(path, &file));
    TRY(tokenizer_from_gguf("t.gguf", gguf_metadata_of(file), NULL, out));
out:
    tensor_file_close(file);
    tensor_writer_close(writer);
    gguf_pairs_fini(&pairs);
    return status;
}

static void assert_same_ids(const tokenizer *a, const tokenizer *b)
{
    static const char *const texts[] = {"",          "abc", "ab c  abcab", "a ", "\u00e9\nabc<x>",
                                        "ab <0x41>", "ccba"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        OWNED(token_list) expected = {0};
        OWNED(token_list) found = {0};
        assert_ok(tokenizer_encode(a, texts[i], strlen(texts[i]), true, &expected));
        assert_ok(tokenizer_encode(b, texts[i], strlen(texts[i]), true, &found));
        assert_int_equal(found.count, expected.count);
        assert_memory_equal(found.ids, expected.ids,
                            (size_t)expected.count * sizeof expected.ids[0]);
    }
}

DIRECTORY_TEST(what_is_written_encodes_like_its_source)
{
    static const char *const steps[] = {USUAL, METASPACE("always", "false"),
                                        METASPACE("never", "false")};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        write_json(directory, steps[i], MERGES, "\"byte_fallback\":true");
        OPENED(tokenizer, own, tokenizer_open(directory, &own));
        OPENED(tokenizer, other, write_and_open(directory, &other));
        assert_same_ids(own, other);
        assert_int_equal(tokenizer_bos(other), 1);
    }
}

static void refuses(const char *directory, const char *steps, const char *merges, const char *model,
                    const char *message)
{
    tokenizer *t = NULL;
    write_json(directory, steps, merges, model);
    assert_fails(write_and_open(directory, &t), GRAIL_ERROR_UNSUPPORTED, message);
    assert_null(t);
}

DIRECTORY_TEST(what_scores_cannot_say_is_refused)
{
    static const char bytes[] = "\"byte_fallback\":true";
    static const char merges[] = "the merges of its tokenizer are not those of pieces with scores";
    static const char other_steps[] = "changes a text in another way than GGUF files can say";
    refuses(directory, USUAL, "\"b c\",\"a b\"", bytes,
            merges); /* \u2581 and a make a piece, too */
    refuses(directory, USUAL,
            "\"b c\",\"a b\",\"\u2581 ab\",\"\u2581 a\",\"\u2581a b\",\"a bc\",\"ab c\"", bytes,
            merges); /* one piece between the merges of another */
    refuses(directory, METASPACE("always", "true"), MERGES, bytes, other_steps);
    refuses(directory, "\"normalizer\":{\"type\":\"NFC\"}", MERGES, bytes, other_steps);
    refuses(directory, "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}", MERGES,
            bytes, other_steps);
    refuses(directory, USUAL, MERGES, "\"byte_fallback\":false", "GGUF files have names for");
}

static grail_status write_once(void *context)
{
    OWNED(tokenizer) *t = NULL;
    return write_and_open(context, &t);
}

DIRECTORY_TEST(every_failing_allocation_is_survived)
{
    write_json(directory, USUAL, MERGES, "\"byte_fallback\":true");
    support_fail_each_allocation(write_once, directory);
}

CMFixtureFunction support_setup = json_memory_use;
