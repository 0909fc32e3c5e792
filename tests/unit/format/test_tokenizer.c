/* Tokenizers: what files are refused for, what single options do, and failed allocations. Whole
 * families are compared with their own libraries in golden/test_tokenizers. */
#include "support/json_memory.h"
#include "support/support.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "format/tokenizer.h"

#include <math.h>
#include <string.h>

#define VOCAB                                                                                      \
    "{\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"aa\":4,\"ab\":5,\"x y\":6,\"\u2581\":7,\" \":8}"

static grail_status open_text(const char *text, tokenizer **out)
{
    return tokenizer_from_json("t.json", text, strlen(text), out);
}

/* The whole file from the members of the model and those beside it. */
static grail_status open_with(const char *model, const char *beside, tokenizer **out)
{
    char *text = NULL;
    assert_ok(memory_format(&text, "{\"model\":{%s}%s}", model, beside));
    const grail_status status = open_text(text, out);
    memory_free(text);
    return status;
}

static tokenizer *must_open(const char *model, const char *beside)
{
    tokenizer *t = NULL;
    assert_ok(open_with(model, beside, &t));
    return t;
}

#define PLAIN "\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":[\"a a\",\"a b\"]"

static void refuses(const char *model, const char *beside, grail_status code, const char *message)
{
    tokenizer *t = NULL;
    assert_fails(open_with(model, beside, &t), code, message);
    assert_null(t);
    assert_fails(open_with(model, beside, &t), code, "t.json: ");
}

static void refuses_model(const char *model, grail_status code, const char *message)
{
    refuses(model, "", code, message);
}

static void refuses_beside(const char *beside, grail_status code, const char *message)
{
    refuses(PLAIN, beside, code, message);
}

/* Encodes and compares; `expected` ends in -1. */
static void assert_encodes(const tokenizer *t, const char *text, bool special,
                           const int32_t expected[])
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

#define ASSERT_ENCODES(t, text, special, ...)                                                      \
    assert_encodes((t), (text), (special), (const int32_t[]){__VA_ARGS__, -1})

/* --- files that are refused --- */

static void bad_json_is_named_with_its_line(void **state)
{
    (void)state;
    tokenizer *t = NULL;
    assert_fails(open_text("{\n\"model\": }", &t), GRAIL_ERROR_FORMAT, "t.json: not valid JSON");
    assert_fails(open_text("{\n\"model\": }", &t), GRAIL_ERROR_FORMAT, "line 2");
    assert_fails(open_text("", &t), GRAIL_ERROR_FORMAT, "t.json: not valid JSON");
    assert_null(t);
}

static void a_missing_model_is_refused(void **state)
{
    (void)state;
    tokenizer *t = NULL;
    assert_fails(open_text("{}", &t), GRAIL_ERROR_FORMAT, "\"model\" is missing");
    assert_fails(open_text("[1]", &t), GRAIL_ERROR_FORMAT, "\"model\" is missing");
}

static void other_model_types_are_refused_by_name(void **state)
{
    (void)state;
    refuses_model("\"type\":\"Unigram\",\"vocab\":[]", GRAIL_ERROR_UNSUPPORTED,
                  "model type 'Unigram' is not supported, only BPE");
    refuses_model("\"vocab\":{}", GRAIL_ERROR_UNSUPPORTED, "without a type");
}

static void a_model_of_early_files_has_no_type(void **state)
{
    (void)state;
    tokenizer *t = must_open("\"vocab\":" VOCAB ",\"merges\":[]", "");
    ASSERT_ENCODES(t, "ab", false, 1, 2);
    tokenizer_close(t);
}

static void options_that_would_change_ids_are_refused(void **state)
{
    (void)state;
    refuses_model(PLAIN ",\"dropout\":0.1", GRAIL_ERROR_UNSUPPORTED, "dropout 0.1");
    refuses_model(PLAIN ",\"end_of_word_suffix\":\"</w>\"", GRAIL_ERROR_UNSUPPORTED,
                  "end_of_word_suffix '</w>'");
    refuses_model(PLAIN ",\"continuing_subword_prefix\":\"##\"", GRAIL_ERROR_UNSUPPORTED, "'##'");
}

static void a_merge_of_an_unknown_piece_is_refused(void **state)
{
    (void)state;
    refuses_model("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a z\"]", GRAIL_ERROR_FORMAT,
                  "merge 0 names the piece 'z', which the vocabulary lacks");
    refuses_model("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]", GRAIL_ERROR_FORMAT,
                  "merge 0 names the piece 'ab'");
}

static void a_merge_that_is_no_pair_is_refused(void **state)
{
    (void)state;
    static const char *const merges[] = {"\"ab\"",    "\"a b c\"", "[\"a\"]", "[\"a\",\"b\",\"c\"]",
                                         "[\"a\",1]", "7"};
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        char *model = NULL;
        assert_ok(memory_format(&model, "\"vocab\":" VOCAB ",\"merges\":[\"a a\",%s]", merges[i]));
        refuses_model(model, GRAIL_ERROR_FORMAT, "merge 1 is not a pair");
        memory_free(model);
    }
    refuses_model("\"type\":\"BPE\",\"vocab\":" VOCAB, GRAIL_ERROR_FORMAT, "no \"merges\" array");
}

static void ids_out_of_range_are_refused(void **state)
{
    (void)state;
    refuses_model("\"vocab\":{\"a\":-1},\"merges\":[]", GRAIL_ERROR_FORMAT, "piece 'a' has id -1");
    refuses_model("\"vocab\":{\"a\":4294967296},\"merges\":[]", GRAIL_ERROR_FORMAT,
                  "id 4294967296, allowed are 0 to 16777215");
    refuses_model("\"vocab\":{\"a\":1.5},\"merges\":[]", GRAIL_ERROR_FORMAT, "not an integer");
    refuses_model("\"vocab\":[],\"merges\":[]", GRAIL_ERROR_FORMAT, "no \"vocab\" object");
}

static void one_id_for_two_pieces_is_refused(void **state)
{
    (void)state;
    refuses_model("\"vocab\":{\"a\":3,\"b\":3},\"merges\":[]", GRAIL_ERROR_FORMAT,
                  "id 3 belongs to both 'a' and 'b'");
    refuses_model("\"vocab\":{\"a\":3,\"a\":4},\"merges\":[]", GRAIL_ERROR_FORMAT, "duplicate");
}

static void added_tokens_must_agree_with_the_vocabulary(void **state)
{
    (void)state;
    refuses_beside(",\"added_tokens\":[{\"id\":9,\"content\":\"a\"}]", GRAIL_ERROR_FORMAT,
                   "added token 'a' has id 9, the vocabulary says 1");
    refuses_beside(",\"added_tokens\":[{\"id\":1,\"content\":\"z\"}]", GRAIL_ERROR_FORMAT,
                   "id 1 belongs to both 'a' and 'z'");
    refuses_beside(",\"added_tokens\":[{\"id\":-2,\"content\":\"z\"}]", GRAIL_ERROR_FORMAT,
                   "id -2");
    refuses_beside(",\"added_tokens\":[{\"content\":\"z\"}]", GRAIL_ERROR_FORMAT, "\"id\"");
    refuses_beside(",\"added_tokens\":{}", GRAIL_ERROR_FORMAT, "not an array");
}

static void unknown_components_are_refused_with_what_is_supported(void **state)
{
    (void)state;
    refuses_beside(",\"normalizer\":{\"type\":\"Nmt\"}", GRAIL_ERROR_UNSUPPORTED,
                   "normalizer 'Nmt' is not supported; supported are Prepend");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                   "\"Bert\"}]}",
                   GRAIL_ERROR_UNSUPPORTED, "pre-tokenizer 'Bert' is not supported; supported");
    refuses_beside(",\"post_processor\":{\"type\":\"BertProcessing\"}", GRAIL_ERROR_UNSUPPORTED,
                   "post-processor 'BertProcessing' is not supported; supported");
    refuses_beside(",\"normalizer\":{}", GRAIL_ERROR_FORMAT, "a normalizer has no \"type\"");
    refuses_beside(",\"pre_tokenizer\":7", GRAIL_ERROR_FORMAT, "a pre-tokenizer has no \"type\"");
}

static void malformed_components_are_refused(void **state)
{
    (void)state;
    refuses_beside(",\"normalizer\":{\"type\":\"Prepend\"}", GRAIL_ERROR_FORMAT, "\"prepend\"");
    refuses_beside(",\"normalizer\":{\"type\":\"Replace\",\"content\":\"\"}", GRAIL_ERROR_FORMAT,
                   "neither a String nor a Regex");
    refuses_beside(",\"normalizer\":{\"type\":\"Sequence\"}", GRAIL_ERROR_FORMAT,
                   "lacks the array \"normalizers\"");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"}}",
                   GRAIL_ERROR_UNSUPPORTED, "empty pattern");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Punctuation\",\"behavior\":\"Glued\"}",
                   GRAIL_ERROR_FORMAT, "unknown behavior 'Glued'");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"}",
                   GRAIL_ERROR_FORMAT, "replacement 'ab' is not one character");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
                   "\"prepend_scheme\":\"last\"}",
                   GRAIL_ERROR_FORMAT, "unknown prepend_scheme 'last'");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":1}",
                   GRAIL_ERROR_FORMAT, "\"individual_digits\" is not true or false");
}

#define SPLIT(regex) ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"}}"

static void patterns_that_would_mean_something_else_are_refused(void **state)
{
    (void)state;
    refuses_beside(SPLIT("[[:punct:]]"), GRAIL_ERROR_UNSUPPORTED, "a bracket inside brackets");
    refuses_beside(SPLIT("[a&&b]"), GRAIL_ERROR_UNSUPPORTED, "an intersection of classes");
    refuses_beside(SPLIT("\\\\p{N}{1,3}+"), GRAIL_ERROR_UNSUPPORTED, "interval followed by '+'");
    refuses_beside(SPLIT("a{,3}"), GRAIL_ERROR_UNSUPPORTED, "interval without a minimum");
    refuses_beside(SPLIT("(?m:a.b)"), GRAIL_ERROR_UNSUPPORTED, "the option m or s");
    refuses_beside(SPLIT("(?i-s)a.b"), GRAIL_ERROR_UNSUPPORTED, "the option m or s");
    refuses_beside(SPLIT("\\\\Qa.b\\\\E"), GRAIL_ERROR_UNSUPPORTED, "an escape");
    refuses_beside(SPLIT("[^\\\\S\\\\n]"), GRAIL_ERROR_UNSUPPORTED, "a negated class inside");
    refuses_beside(SPLIT("\\\\pL"), GRAIL_ERROR_UNSUPPORTED, "a property without braces");
    refuses_beside(SPLIT("a\\\\"), GRAIL_ERROR_UNSUPPORTED, "a trailing backslash");
    refuses_beside(SPLIT("(a"), GRAIL_ERROR_UNSUPPORTED, "pattern '(a': missing closing");
}

/* What is no piece vanishes before merging, so "a?a" is "aa" unless the pattern cuts it. */
static void assert_cuts(const char *split, const char *text, bool cuts)
{
    tokenizer *t = must_open(PLAIN, split);
    if (cuts) {
        ASSERT_ENCODES(t, text, false, 1, 1);
    } else {
        ASSERT_ENCODES(t, text, false, 4);
    }
    tokenizer_close(t);
}

static void patterns_have_the_meaning_of_oniguruma(void **state)
{
    (void)state;
    assert_cuts(SPLIT("\\\\s"), "a\u2003a", true);
    assert_cuts(SPLIT("\\\\s"), "a\u180ea", false);    /* no White_Space since Unicode 6.3 */
    assert_cuts(SPLIT("\\\\W"), "a\u0301a", false);    /* marks are word characters */
    assert_cuts(SPLIT("[^\\\\w-]"), "a\u00b2a", true); /* other numbers are not */
    assert_cuts(SPLIT("[^\\\\w-]"), "a-a", false);
    assert_cuts(SPLIT("\\\\H"), "a\u00e9a", true); /* \h is a hexadecimal digit */
    assert_cuts(SPLIT("[^\\\\h]"), "aa", false);
    assert_cuts(SPLIT("\\\\b"), "a-a", true);
    assert_cuts(SPLIT("\\\\b"), "a\u0301a", false);
    assert_cuts(SPLIT("\\\\B"), "aa", true);
    assert_cuts(SPLIT("(?i:A)(?=a)"), "aa", true);
    assert_cuts(SPLIT("(?=A)"), "aa", false);
    assert_cuts(SPLIT("\\\\p{Han}"), "a\u4e00a", true);
    assert_cuts(SPLIT("\\\\p{Han}"), "a\u3001a", false); /* of many scripts, so not of one */
    assert_cuts(SPLIT("\\\\x{62}+|$"), "a\na", true);    /* $ matches before a line feed */
    assert_cuts(SPLIT("\\\\p{Latin}++"), "aa", false);
}

static void too_many_steps_are_refused(void **state)
{
    (void)state;
    buffer text = {.maximum = 1 << 20};
    assert_ok(buffer_append_string(&text, ",\"normalizer\":{\"type\":\"Sequence\","
                                          "\"normalizers\":["));
    for (int i = 0; i < 33; i++) {
        assert_ok(buffer_format(&text, "%s{\"type\":\"NFC\"}", i > 0 ? "," : ""));
    }
    assert_ok(buffer_append_string(&text, "]}"));
    refuses_beside((const char *)text.bytes, GRAIL_ERROR_UNSUPPORTED, "more than 32 steps");
    buffer_fini(&text);
}

static void templates_without_ids_or_text_are_refused(void **state)
{
    (void)state;
#define TEMPLATE(single)                                                                           \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single "],"                \
    "\"special_tokens\":{\"<s>\":{\"ids\":[7]},\"<e>\":{\"ids\":[]},\"<o>\":{\"ids\":[-1]}}}"
    refuses_beside(TEMPLATE("{\"SpecialToken\":{\"id\":\"<s>\"}}"), GRAIL_ERROR_FORMAT,
                   "no place for the text");
    refuses_beside(TEMPLATE("{\"SpecialToken\":{\"id\":\"<x>\"}}"), GRAIL_ERROR_FORMAT,
                   "no ids for '<x>'");
    refuses_beside(TEMPLATE("{\"SpecialToken\":{\"id\":\"<e>\"}}"), GRAIL_ERROR_FORMAT,
                   "no ids for '<e>'");
    refuses_beside(TEMPLATE("{\"SpecialToken\":{\"id\":\"<o>\"}}"), GRAIL_ERROR_FORMAT, "id -1");
    refuses_beside(TEMPLATE("{\"Sequence\":{}},{\"Sequence\":{}}"), GRAIL_ERROR_FORMAT,
                   "item 1 of the template");
}

/* --- encoding --- */

static void merges_apply_by_rank_and_then_leftmost(void **state)
{
    (void)state;
    tokenizer *t = must_open(PLAIN, "");
    ASSERT_ENCODES(t, "aaa", false, 4, 1);
    ASSERT_ENCODES(t, "aab", false, 4, 2);
    ASSERT_ENCODES(t, "cab", false, 3, 5);
    tokenizer_close(t);
}

static void merges_may_be_arrays(void **state)
{
    (void)state;
    tokenizer *t = must_open("\"type\":\"BPE\",\"vocab\":{\"x \":0,\"y\":1,\"x y\":2,\"x\":3,"
                             "\" \":4},\"merges\":[[\"x\",\" \"],[\"x \",\"y\"]]",
                             "");
    ASSERT_ENCODES(t, "x yx", false, 2, 3);
    tokenizer_close(t);
}

static void ignore_merges_takes_whole_words(void **state)
{
    (void)state;
    tokenizer *t = must_open(PLAIN ",\"ignore_merges\":true", "");
    ASSERT_ENCODES(t, "x y", false, 6);
    tokenizer_close(t);
    t = must_open(PLAIN ",\"unk_token\":\"<unk>\"", "");
    ASSERT_ENCODES(t, "x y", false, 0, 8, 0);
    tokenizer_close(t);
}

static void unknown_characters_follow_the_models_options(void **state)
{
    (void)state;
    tokenizer *t = must_open(PLAIN, "");
    ASSERT_ENCODES(t, "a??b", false, 5); /* they vanish before merging */
    tokenizer_close(t);
    t = must_open(PLAIN ",\"unk_token\":\"<unk>\"", "");
    ASSERT_ENCODES(t, "a??b?", false, 1, 0, 0, 2, 0);
    tokenizer_close(t);
    t = must_open(PLAIN ",\"unk_token\":\"<unk>\",\"fuse_unk\":true", "");
    ASSERT_ENCODES(t, "a??b?", false, 1, 0, 2, 0);
    tokenizer_close(t);
}

static void an_unknown_token_without_an_id_fails_only_when_needed(void **state)
{
    (void)state;
    token_list ids = {0};
    tokenizer *t = must_open(PLAIN ",\"unk_token\":\"<none>\"", "");
    ASSERT_ENCODES(t, "ab", false, 5);
    assert_fails(tokenizer_encode(t, "a\u00e9", 3, false, &ids), GRAIL_ERROR_FORMAT,
                 "character U+00E9 is not in the vocabulary");
    assert_int_equal(ids.count, 0);
    token_list_fini(&ids);
    tokenizer_close(t);
}

static void byte_fallback_needs_every_byte_of_the_character(void **state)
{
    (void)state;
    tokenizer *t = must_open("\"vocab\":{\"<unk>\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"a\":3},"
                             "\"merges\":[],\"unk_token\":\"<unk>\",\"byte_fallback\":true",
                             "");
    ASSERT_ENCODES(t, "a\u00e9\u00e8", false, 3, 1, 2, 0);
    ASSERT_ENCODES(t, "\u00e8\u00e9", false, 1, 2, 0); /* as Hugging Face tokenizers has it */
    tokenizer_close(t);
}

static void merges_of_byte_pieces_apply(void **state)
{
    (void)state;
    tokenizer *t = must_open("\"vocab\":{\"<0xC3>\":1,\"<0xA9>\":2,\"<0xC3><0xA9>\":3},"
                             "\"merges\":[\"<0xC3> <0xA9>\"],\"byte_fallback\":true",
                             "");
    ASSERT_ENCODES(t, "\u00e9\u00e9", false, 3, 3);
    tokenizer_close(t);
}

static void invalid_utf8_is_named_by_its_offset(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {{"ab\xff", "at byte 2"},
                 {"a\xe2\x96", "at byte 1"},
                 {"\xc0\x80", "at byte 0"},
                 {"\xc3\xa9\xed\xa0\x80", "at byte 2"},
                 {"\xf4\x90\x80\x80", "at byte 0"}};
    tokenizer *t = must_open(PLAIN, "");
    token_list ids = {0};
    assert_ok(token_list_push(&ids, 77));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(tokenizer_encode(t, cases[i].text, strlen(cases[i].text), true, &ids),
                     GRAIL_ERROR_FORMAT, cases[i].message);
        assert_int_equal(ids.count, 1);
    }
    token_list_fini(&ids);
    tokenizer_close(t);
}

static void encoding_appends(void **state)
{
    (void)state;
    tokenizer *t = must_open(PLAIN, "");
    token_list ids = {0};
    assert_ok(tokenizer_encode(t, "ab", 2, false, &ids));
    assert_ok(tokenizer_encode(t, "c", 1, false, &ids));
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[0], 5);
    assert_int_equal(ids.ids[1], 3);
    token_list_fini(&ids);
    tokenizer_close(t);
}

static void a_pattern_that_backtracks_without_end_gives_up(void **state)
{
    (void)state;
    tokenizer *t = must_open(PLAIN, SPLIT("(?:a|a|aa)+(?=c)"));
    char text[64];
    token_list ids = {0};
    memset(text, 'a', sizeof text);
    assert_fails(tokenizer_encode(t, text, sizeof text, false, &ids), GRAIL_ERROR_UNSUPPORTED,
                 "gave up at byte 0 of a section of 64 bytes");
    token_list_fini(&ids);
    tokenizer_close(t);
}

static void a_normalizer_that_multiplies_the_text_is_stopped(void **state)
{
    (void)state;
    buffer text = {.maximum = 1 << 20};
    token_list ids = {0};
    assert_ok(buffer_append_string(&text, ",\"normalizer\":{\"type\":\"Sequence\","
                                          "\"normalizers\":["));
    for (int i = 0; i < 20; i++) {
        assert_ok(buffer_format(&text,
                                "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
                                "\"content\":\"aaaa\"}",
                                i > 0 ? "," : ""));
    }
    assert_ok(buffer_append_string(&text, "]}"));
    tokenizer *t = must_open(PLAIN, (const char *)text.bytes);
    assert_fails(tokenizer_encode(t, "a", 1, false, &ids), GRAIL_ERROR_FORMAT,
                 "normalizing 1 bytes: more than the allowed");
    token_list_fini(&ids);
    tokenizer_close(t);
    buffer_fini(&text);
}

static void added_tokens_are_matched_before_the_model(void **state)
{
    (void)state;
    tokenizer *t = must_open(PLAIN, ",\"added_tokens\":[{\"id\":10,\"content\":\"ca\"},"
                                    "{\"id\":11,\"content\":\"cab\",\"single_word\":true},"
                                    "{\"id\":12,\"content\":\"x\",\"lstrip\":true,\"rstrip\":true},"
                                    "{\"id\":13,\"content\":\"\"}]");
    assert_int_equal(tokenizer_size(t), 13);
    ASSERT_ENCODES(t, "aca b", false, 1, 10, 8, 2);
    ASSERT_ENCODES(t, "a cab", false, 1, 8, 11);
    ASSERT_ENCODES(t, "acab", false, 1, 3, 5);       /* the longest match is no whole word, */
    ASSERT_ENCODES(t, "\u24b6cab", false, 3, 5);     /* nor is it here: a circled letter */
    ASSERT_ENCODES(t, "\u2460cab\u2460", false, 11); /* a circled digit is no word character */
    ASSERT_ENCODES(t, "a \t x \u3000a", false, 1, 12, 1);
    tokenizer_close(t);
}

static void the_post_processor_frames_the_text(void **state)
{
    (void)state;
    tokenizer *t = must_open(
        PLAIN, TEMPLATE("{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}},"
                        "{\"SpecialToken\":{\"id\":\"<s>\"}}"));
    assert_int_equal(tokenizer_bos(t), 7);
    ASSERT_ENCODES(t, "c", true, 7, 3, 7);
    ASSERT_ENCODES(t, "", true, 7, 7);
    ASSERT_ENCODES(t, "c", false, 3);
    tokenizer_close(t);
    t = must_open(PLAIN, "");
    assert_int_equal(tokenizer_bos(t), -1);
    tokenizer_close(t);
}

static void holes_have_no_piece(void **state)
{
    (void)state;
    tokenizer *t = must_open("\"vocab\":{\"a\":2,\"b\":7},\"merges\":[]", "");
    assert_int_equal(tokenizer_size(t), 8);
    assert_string_equal(tokenizer_piece(t, 2), "a");
    assert_string_equal(tokenizer_piece(t, 7), "b");
    assert_null(tokenizer_piece(t, 0));
    assert_null(tokenizer_piece(t, 6));
    assert_null(tokenizer_piece(t, 8));
    assert_null(tokenizer_piece(t, -1));
    tokenizer_close(t);
}

static void the_hash_is_that_of_the_file(void **state)
{
    (void)state;
    static const char text[] = "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    char hash[HASH_TEXT_SIZE];
    tokenizer *t = NULL;
    hash_bytes(text, sizeof text - 1, hash);
    assert_ok(open_text(text, &t));
    assert_string_equal(tokenizer_hash(t), hash);
    tokenizer_close(t);
}

/* --- SentencePiece --- */

static void append_field(buffer *out, int number, const void *bytes, size_t size)
{
    const unsigned char head[2] = {(unsigned char)(number << 3 | 2), (unsigned char)size};
    assert_true(size < 128);
    assert_ok(buffer_append(out, head, 2));
    assert_ok(buffer_append(out, bytes, size));
}

static void append_piece(buffer *out, const char *piece, float score, int type)
{
    buffer message = {.maximum = 1 << 10};
    const unsigned char kind[2] = {3 << 3, (unsigned char)type};
    unsigned char number[5] = {2 << 3 | 5};
    memcpy(number + 1, &score, sizeof score);
    append_field(&message, 1, piece, strlen(piece));
    assert_ok(buffer_append(&message, number, sizeof number));
    assert_ok(buffer_append(&message, kind, sizeof kind));
    append_field(out, 1, message.bytes, message.size);
    buffer_fini(&message);
}

/* <unk>, <s>, ▁, a, b, ab, and ba with a higher score; then the trainer's and normalizer's options.
 */
static void append_model(buffer *out, int type, const char *charsmap)
{
    const unsigned char trainer[2] = {3 << 3, (unsigned char)type};
    append_piece(out, "<unk>", 0.0f, 2);
    append_piece(out, "<s>", 0.0f, 3);
    append_piece(out, "\u2581", -5.0f, 1);
    append_piece(out, "a", -6.0f, 1);
    append_piece(out, "b", -7.0f, 1);
    append_piece(out, "ab", -2.0f, 1);
    append_piece(out, "ba", -1.0f, 1);
    append_field(out, 2, trainer, sizeof trainer);
    buffer message = {.maximum = 1 << 10};
    append_field(&message, 2, charsmap, strlen(charsmap));
    append_field(out, 3, message.bytes, message.size);
    buffer_fini(&message);
}

static grail_status open_model(const buffer *bytes, tokenizer **out)
{
    return tokenizer_from_sentencepiece("t.model", bytes->bytes, bytes->size, out);
}

static void sentencepiece_merges_by_score(void **state)
{
    (void)state;
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    append_model(&bytes, 2, "");
    assert_ok(open_model(&bytes, &t));
    assert_int_equal(tokenizer_size(t), 7);
    assert_int_equal(tokenizer_bos(t), 1);
    ASSERT_ENCODES(t, "aba", true, 1, 2, 3, 6);
    ASSERT_ENCODES(t, "  ab  z? ", false, 2, 5, 2, 0); /* extra spaces go, unknowns are one */
    tokenizer_close(t);
    buffer_fini(&bytes);
}

static void pieces_of_equal_score_merge_leftmost(void **state)
{
    (void)state;
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    append_model(&bytes, 2, "");
    append_piece(&bytes, "c", -9.0f, 1);
    append_piece(&bytes, "ac", -1.0f, 1); /* as "ba" */
    append_piece(&bytes, "cb", -1.0f, 1);
    assert_ok(open_model(&bytes, &t));
    ASSERT_ENCODES(t, "bac", false, 2, 6, 7);
    ASSERT_ENCODES(t, "acb", false, 2, 8, 4);
    ASSERT_ENCODES(t, "cba", false, 2, 9, 3);
    tokenizer_close(t);
    buffer_fini(&bytes);
}

static void sentencepiece_models_of_other_kinds_are_refused(void **state)
{
    (void)state;
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    append_model(&bytes, 1, "");
    assert_fails(open_model(&bytes, &t), GRAIL_ERROR_UNSUPPORTED,
                 "t.model: SentencePiece model type UNIGRAM is not supported, only BPE");
    bytes.size = 0;
    append_model(&bytes, 3, "");
    assert_fails(open_model(&bytes, &t), GRAIL_ERROR_UNSUPPORTED, "type WORD or CHAR");
    bytes.size = 0;
    append_model(&bytes, 2, "map");
    assert_fails(open_model(&bytes, &t), GRAIL_ERROR_UNSUPPORTED, "only identity; convert");
    assert_null(t);
    buffer_fini(&bytes);
}

static void refuses_piece(const char *piece, float score, int type, grail_status code,
                          const char *message)
{
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    append_model(&bytes, 2, "");
    append_piece(&bytes, piece, score, type);
    assert_fails(open_model(&bytes, &t), code, message);
    buffer_fini(&bytes);
}

static void bad_sentencepiece_pieces_are_refused(void **state)
{
    (void)state;
    refuses_piece("c", 0.0f, 5, GRAIL_ERROR_UNSUPPORTED, "piece 7 is of type UNUSED");
    refuses_piece("c", 0.0f, 9, GRAIL_ERROR_FORMAT, "piece 7 has the unknown type 9");
    refuses_piece("c", (float)INFINITY, 1, GRAIL_ERROR_FORMAT, "piece 7 has a score");
    refuses_piece("", 0.0f, 1, GRAIL_ERROR_FORMAT, "piece 7 is empty or not valid UTF-8");
    refuses_piece("\xff", 0.0f, 1, GRAIL_ERROR_FORMAT, "piece 7 is empty or not valid UTF-8");
    refuses_piece("a", 0.0f, 1, GRAIL_ERROR_FORMAT, "piece 'a' has two ids, 3 and 7");
    refuses_piece("u", 0.0f, 2, GRAIL_ERROR_FORMAT, "pieces 0 and 7 are both of type UNKNOWN");
    refuses_piece("ax", 0.0f, 1, GRAIL_ERROR_UNSUPPORTED,
                  "piece 'ax' holds the character 'x', which is no piece itself");
}

static void damaged_sentencepiece_models_are_refused(void **state)
{
    (void)state;
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    assert_fails(tokenizer_from_sentencepiece("t.model", "", 0, &t), GRAIL_ERROR_FORMAT,
                 "t.model: no pieces");
    append_model(&bytes, 2, "");
    for (size_t size = 1; size < bytes.size; size++) {
        tokenizer *part = NULL;
        const grail_status status =
            tokenizer_from_sentencepiece("t.model", bytes.bytes, size, &part);
        assert_true((status == GRAIL_OK) == (part != NULL));
        tokenizer_close(part);
    }
    assert_fails(tokenizer_from_sentencepiece("t.model", bytes.bytes, 5, &t), GRAIL_ERROR_FORMAT,
                 "ends within a field at byte 2");
    assert_fails(tokenizer_from_sentencepiece("t.model", "\x0b", 1, &t), GRAIL_ERROR_FORMAT,
                 "bad wire type 3");
    assert_fails(tokenizer_from_sentencepiece("t.model", "\x02", 1, &t), GRAIL_ERROR_FORMAT,
                 "bad field number");
    assert_fails(tokenizer_from_sentencepiece(
                     "t.model", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11, &t),
                 GRAIL_ERROR_FORMAT, "more than 64 bits");
    assert_null(t);
    buffer_fini(&bytes);
}

static void user_defined_pieces_come_first_and_never_merge(void **state)
{
    (void)state;
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    append_model(&bytes, 2, "");
    append_piece(&bytes, "aab", 0.0f, 4);
    append_piece(&bytes, "aaba", 9.0f, 1);
    append_piece(&bytes, "c", 0.0f, 4);
    append_piece(&bytes, "ca", 9.0f, 1);
    assert_ok(open_model(&bytes, &t));
    ASSERT_ENCODES(t, "baabaca", false, 2, 4, 7, 3, 9, 3);
    tokenizer_close(t);
    buffer_fini(&bytes);
}

/* --- directories --- */

static void a_directory_gives_its_json_before_its_model(void **state)
{
    (void)state;
    static const char json[] = "{\"model\":{\"vocab\":{\"a\":5},\"merges\":[]}}";
    char *directory = support_temporary_directory();
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    assert_fails(tokenizer_open(directory, &t), GRAIL_ERROR_IO,
                 "has neither tokenizer.json nor tokenizer.model");
    append_model(&bytes, 2, "");
    support_write_file(directory, "tokenizer.model", bytes.bytes, bytes.size);
    assert_ok(tokenizer_open(directory, &t));
    assert_int_equal(tokenizer_size(t), 7);
    tokenizer_close(t);
    support_write_file(directory, "tokenizer.json", json, sizeof json - 1);
    assert_ok(tokenizer_open(directory, &t));
    assert_int_equal(tokenizer_size(t), 6);
    tokenizer_close(t);
    buffer_fini(&bytes);
    support_remove_tree(directory);
    memory_free(directory);
}

static void the_configuration_says_whether_bos_and_eos_are_put(void **state)
{
    (void)state;
    static const char off[] = "{\"add_bos_token\": false, \"add_eos_token\": true}";
    static const char bad[] = "{\"add_bos_token\": 3}";
    char *directory = support_temporary_directory();
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    append_model(&bytes, 2, "");
    support_write_file(directory, "tokenizer.model", bytes.bytes, bytes.size);
    support_write_file(directory, "tokenizer_config.json", off, sizeof off - 1);
    assert_ok(tokenizer_open(directory, &t));
    assert_int_equal(tokenizer_bos(t), -1);
    ASSERT_ENCODES(t, "a", true, 2, 3, 2); /* EOS is piece 2 unless the file says otherwise */
    tokenizer_close(t);
    t = NULL;
    support_write_file(directory, "tokenizer_config.json", bad, sizeof bad - 1);
    assert_fails(tokenizer_open(directory, &t), GRAIL_ERROR_FORMAT, "\"add_bos_token\" is not");
    assert_null(t);
    buffer_fini(&bytes);
    support_remove_tree(directory);
    memory_free(directory);
}

/* --- failed allocations --- */

static const char everything[] =
    "{\"model\":{" PLAIN ",\"unk_token\":\"<unk>\"},"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFKC\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"\\\\s(b)|\\\\w{9}\"},\"content\":\"bb\"},"
    "{\"type\":\"Prepend\",\"prepend\":\"c\"},{\"type\":\"Strip\"},{\"type\":\"Lowercase\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Metaspace\","
    "\"replacement\":\"\u2581\"},{\"type\":\"ByteLevel\"}]},"
    "\"added_tokens\":[{\"id\":10,\"content\":\"<x>\"},{\"id\":11,\"content\":\"zz\","
    "\"normalized\":true}]" TEMPLATE("{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{}}") "}";

static grail_status open_and_encode_json(void *context)
{
    const char *text = context;
    tokenizer *t = NULL;
    token_list ids = {0};
    grail_status status = tokenizer_from_json("t.json", everything, sizeof everything - 1, &t);
    if (status == GRAIL_OK) {
        status = tokenizer_encode(t, text, strlen(text), true, &ids);
        assert_true(status == GRAIL_OK || ids.count == 0);
    } else {
        assert_null(t);
    }
    token_list_fini(&ids);
    tokenizer_close(t);
    return status;
}

static void every_failed_allocation_of_json_is_survived(void **state)
{
    (void)state;
    static char text[] =
        "aabaab zz<x>  ba \u00e9\u0301\u00fc aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    support_fail_each_allocation(open_and_encode_json, text);
}

static grail_status open_and_encode_directory(void *context)
{
    tokenizer *t = NULL;
    token_list ids = {0};
    grail_status status = tokenizer_open(context, &t);
    if (status == GRAIL_OK) {
        status = tokenizer_encode(t, "ab ba x", 7, true, &ids);
    }
    token_list_fini(&ids);
    tokenizer_close(t);
    return status;
}

static void every_failed_allocation_of_sentencepiece_is_survived(void **state)
{
    (void)state;
    static const char configuration[] = "{\"add_bos_token\": true}";
    char *directory = support_temporary_directory();
    buffer bytes = {.maximum = 1 << 16};
    append_model(&bytes, 2, "");
    append_piece(&bytes, "aab", 0.0f, 4);
    support_write_file(directory, "tokenizer.model", bytes.bytes, bytes.size);
    support_write_file(directory, "tokenizer_config.json", configuration, sizeof configuration - 1);
    support_fail_each_allocation(open_and_encode_directory, directory);
    buffer_fini(&bytes);
    support_remove_tree(directory);
    memory_free(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_json_is_named_with_its_line),
        cmocka_unit_test(a_missing_model_is_refused),
        cmocka_unit_test(other_model_types_are_refused_by_name),
        cmocka_unit_test(a_model_of_early_files_has_no_type),
        cmocka_unit_test(options_that_would_change_ids_are_refused),
        cmocka_unit_test(a_merge_of_an_unknown_piece_is_refused),
        cmocka_unit_test(a_merge_that_is_no_pair_is_refused),
        cmocka_unit_test(ids_out_of_range_are_refused),
        cmocka_unit_test(one_id_for_two_pieces_is_refused),
        cmocka_unit_test(added_tokens_must_agree_with_the_vocabulary),
        cmocka_unit_test(unknown_components_are_refused_with_what_is_supported),
        cmocka_unit_test(malformed_components_are_refused),
        cmocka_unit_test(patterns_that_would_mean_something_else_are_refused),
        cmocka_unit_test(patterns_have_the_meaning_of_oniguruma),
        cmocka_unit_test(too_many_steps_are_refused),
        cmocka_unit_test(templates_without_ids_or_text_are_refused),
        cmocka_unit_test(merges_apply_by_rank_and_then_leftmost),
        cmocka_unit_test(merges_may_be_arrays),
        cmocka_unit_test(ignore_merges_takes_whole_words),
        cmocka_unit_test(unknown_characters_follow_the_models_options),
        cmocka_unit_test(an_unknown_token_without_an_id_fails_only_when_needed),
        cmocka_unit_test(byte_fallback_needs_every_byte_of_the_character),
        cmocka_unit_test(merges_of_byte_pieces_apply),
        cmocka_unit_test(invalid_utf8_is_named_by_its_offset),
        cmocka_unit_test(encoding_appends),
        cmocka_unit_test(a_pattern_that_backtracks_without_end_gives_up),
        cmocka_unit_test(a_normalizer_that_multiplies_the_text_is_stopped),
        cmocka_unit_test(added_tokens_are_matched_before_the_model),
        cmocka_unit_test(the_post_processor_frames_the_text),
        cmocka_unit_test(holes_have_no_piece),
        cmocka_unit_test(the_hash_is_that_of_the_file),
        cmocka_unit_test(sentencepiece_merges_by_score),
        cmocka_unit_test(pieces_of_equal_score_merge_leftmost),
        cmocka_unit_test(sentencepiece_models_of_other_kinds_are_refused),
        cmocka_unit_test(bad_sentencepiece_pieces_are_refused),
        cmocka_unit_test(damaged_sentencepiece_models_are_refused),
        cmocka_unit_test(user_defined_pieces_come_first_and_never_merge),
        cmocka_unit_test(a_directory_gives_its_json_before_its_model),
        cmocka_unit_test(the_configuration_says_whether_bos_and_eos_are_put),
        cmocka_unit_test(every_failed_allocation_of_json_is_survived),
        cmocka_unit_test(every_failed_allocation_of_sentencepiece_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
