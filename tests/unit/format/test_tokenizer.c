/* Tokenizers: what single options of a tokenizer.json do, and failed allocations.
 * golden/test_tokenizers compares complete families with their own libraries. */
#include "support/support.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "format/text/tokenizer_internal.h"
#include "support/json_memory.h"
#include "tokenizer_fixtures.h"

#include <string.h>

TEST(a_model_of_early_files_has_no_type)
{
    OWNED(tokenizer) *t = must_open_tokenizer("\"vocab\":" VOCAB ",\"merges\":[]", "");
    ASSERT_ENCODES(t, "ab", false, 1, 2);
}

TEST(merges_apply_by_rank_and_then_leftmost)
{
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, "");
    ASSERT_ENCODES(t, "aaa", false, 4, 1);
    ASSERT_ENCODES(t, "aab", false, 4, 2);
    ASSERT_ENCODES(t, "cab", false, 3, 5);
}

TEST(merges_may_be_arrays)
{
    tokenizer *t =
        must_open_tokenizer("\"type\":\"BPE\",\"vocab\":{\"x \":0,\"y\":1,\"x y\":2,\"x\":3,"
                            "\" \":4},\"merges\":[[\"x\",\" \"],[\"x \",\"y\"]]",
                            "");
    ASSERT_ENCODES(t, "x yx", false, 2, 3);
    tokenizer_close(t);
}

TEST(ignore_merges_takes_whole_words)
{
    tokenizer *t = must_open_tokenizer(PLAIN ",\"ignore_merges\":true", "");
    ASSERT_ENCODES(t, "x y", false, 6);
    tokenizer_close(t);
    t = must_open_tokenizer(PLAIN ",\"unk_token\":\"<unk>\"", "");
    ASSERT_ENCODES(t, "x y", false, 0, 8, 0);
    tokenizer_close(t);
}

TEST(unknown_characters_follow_the_models_options)
{
    tokenizer *t = must_open_tokenizer(PLAIN, "");
    ASSERT_ENCODES(t, "a??b", false, 5); /* they vanish before merging */
    tokenizer_close(t);
    t = must_open_tokenizer(PLAIN ",\"unk_token\":\"<unk>\"", "");
    ASSERT_ENCODES(t, "a??b?", false, 1, 0, 0, 2, 0);
    tokenizer_close(t);
    t = must_open_tokenizer(PLAIN ",\"unk_token\":\"<unk>\",\"fuse_unk\":true", "");
    ASSERT_ENCODES(t, "a??b?", false, 1, 0, 2, 0);
    tokenizer_close(t);
}

TEST(an_unknown_token_without_an_id_fails_only_when_needed)
{
    OWNED(token_list) ids = {0};
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN ",\"unk_token\":\"<none>\"", "");
    ASSERT_ENCODES(t, "ab", false, 5);
    assert_fails(tokenizer_encode(t, "a\u00e9", 3, false, &ids), GRAIL_ERROR_FORMAT,
                 "the vocabulary has neither the character U+00E9 nor an unknown token");
    assert_int_equal(ids.count, 0);
}

TEST(byte_fallback_needs_every_byte_of_the_character)
{
    tokenizer *t =
        must_open_tokenizer("\"vocab\":{\"<unk>\":0,\"<0xC3>\":1,\"<0xA9>\":2,\"a\":3},"
                            "\"merges\":[],\"unk_token\":\"<unk>\",\"byte_fallback\":true",
                            "");
    ASSERT_ENCODES(t, "a\u00e9\u00e8", false, 3, 1, 2, 0);
    ASSERT_ENCODES(t, "\u00e8\u00e9", false, 1, 2, 0); /* as Hugging Face tokenizers has it */
    tokenizer_close(t);
}

TEST(merges_of_byte_pieces_apply)
{
    OWNED(tokenizer) *t =
        must_open_tokenizer("\"vocab\":{\"<0xC3>\":1,\"<0xA9>\":2,\"<0xC3><0xA9>\":3},"
                            "\"merges\":[\"<0xC3> <0xA9>\"],\"byte_fallback\":true",
                            "");
    ASSERT_ENCODES(t, "\u00e9\u00e9", false, 3, 3);
}

TEST(invalid_utf8_is_named_by_its_offset)
{
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {{"ab\xff", "at byte 2"},
                 {"a\xe2\x96", "at byte 1"},
                 {"\xc0\x80", "at byte 0"},
                 {"\xc3\xa9\xed\xa0\x80", "at byte 2"},
                 {"\xf4\x90\x80\x80", "at byte 0"}};
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, "");
    OWNED(token_list) ids = {0};
    assert_ok(token_list_push(&ids, 77));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(tokenizer_encode(t, cases[i].text, strlen(cases[i].text), true, &ids),
                     GRAIL_ERROR_FORMAT, cases[i].message);
        assert_int_equal(ids.count, 1);
    }
}

TEST(encoding_appends)
{
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, "");
    OWNED(token_list) ids = {0};
    assert_ok(tokenizer_encode(t, "ab", 2, false, &ids));
    assert_ok(tokenizer_encode(t, "c", 1, false, &ids));
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[0], 5);
    assert_int_equal(ids.ids[1], 3);
}

/* Text that is no piece vanishes before merging, so "a?a" is "aa" unless the pattern cuts it. */
static void assert_cuts(const char *split, const char *text, bool cuts)
{
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, split);
    if (cuts) {
        ASSERT_ENCODES(t, text, false, 1, 1);
    } else {
        ASSERT_ENCODES(t, text, false, 4);
    }
}

TEST(patterns_have_the_meaning_of_oniguruma)
{
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

TEST(a_pattern_that_backtracks_without_end_gives_up)
{
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, SPLIT("(?:a|a|aa)+(?=c)"));
    char text[64];
    OWNED(token_list) ids = {0};
    memset(text, 'a', sizeof text);
    assert_fails(tokenizer_encode(t, text, sizeof text, false, &ids), GRAIL_ERROR_UNSUPPORTED,
                 "matching a pattern of the tokenizer stopped at byte 0 of a section of 64 bytes:");
}

/* `count` times "a". */
static buffer many(int64_t count)
{
    buffer text = {.maximum = 1 << 24};
    for (int64_t i = 0; i < count; i++) {
        assert_ok(buffer_append(&text, "a", 1));
    }
    return text;
}

/* Each match looks at the rest of the text: step by step, or in one go. */
TEST(a_pattern_that_looks_through_the_text_at_every_place_gives_up)
{
    static const char *const splits[] = {SPLIT("(?=[^b]*b)|a"), SPLIT("(?=[^b]*+b)|a")};
    enum { SHORT = 1000, LONG = 1000000 };
    for (int i = 0; i < 2; i++) {
        OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, splits[i]);
        OWNED(token_list) ids = {0};
        OWNED(buffer) text = many(LONG);
        assert_ok(buffer_append_string(&text, "b"));
        assert_ok(tokenizer_encode(t, (const char *)text.bytes, SHORT, false, &ids));
        assert_int_equal(ids.count, SHORT);
        assert_fails(tokenizer_encode(t, (const char *)text.bytes, LONG, false, &ids),
                     GRAIL_ERROR_UNSUPPORTED,
                     "t.json: matching a pattern of the tokenizer stopped at byte");
        assert_int_equal(ids.count, SHORT);
    }
}

/* A word, or a gap, of any length is ordinary. */
TEST(long_words_and_gaps_are_split_like_short_ones)
{
    enum { LONG = 1000000 };
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, SPLIT("[a-z]*b|[a-z]+|\\\\s+(?!\\\\S)"));
    OWNED(token_list) ids = {0};
    OWNED(buffer) text = many(LONG);
    for (int i = 0; i < LONG; i++) {
        assert_ok(buffer_append(&text, i % 2 == 0 ? " " : "\n", 1));
    }
    assert_ok(buffer_append_string(&text, "c"));
    assert_ok(tokenizer_encode(t, (const char *)text.bytes, text.size, false, &ids));
    assert_int_equal(ids.ids[0], 4);
    assert_int_equal(ids.ids[ids.count - 1], 3);
}

/* Every pair of steps puts another mark before every piece and cuts it off again. */
TEST(a_tokenizer_that_makes_more_and_more_of_a_word_is_stopped)
{
    OWNED(buffer) text = {.maximum = 1 << 20};
    OWNED(token_list) ids = {0};
    assert_ok(buffer_append_string(
        &text, ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["));
    for (int i = 0; i < 16; i++) {
        assert_ok(buffer_format(&text,
                                "%s{\"type\":\"Metaspace\",\"replacement\":\"%c\",\"split\":false},"
                                "{\"type\":\"Split\",\"pattern\":{\"String\":\"%c\"},"
                                "\"behavior\":\"Isolated\"}",
                                i > 0 ? "," : "", i % 2 == 0 ? 'b' : 'c', i % 2 == 0 ? 'b' : 'c'));
    }
    assert_ok(buffer_append_string(&text, "]}"));
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, (const char *)text.bytes);
    assert_fails(tokenizer_encode(t, "a", 1, false, &ids), GRAIL_ERROR_FORMAT,
                 "t.json: the tokenizer makes more than 8 ids per byte from 1 bytes of text");
    assert_int_equal(ids.count, 0);
}

TEST(a_normalizer_that_multiplies_the_text_is_stopped)
{
    OWNED(buffer) text = {.maximum = 1 << 20};
    OWNED(token_list) ids = {0};
    assert_ok(buffer_append_string(&text, ",\"normalizer\":{\"type\":\"Sequence\","
                                          "\"normalizers\":["));
    for (int i = 0; i < 20; i++) {
        assert_ok(buffer_format(&text,
                                "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
                                "\"content\":\"aaaa\"}",
                                i > 0 ? "," : ""));
    }
    assert_ok(buffer_append_string(&text, "]}"));
    OWNED(tokenizer) *t = must_open_tokenizer(PLAIN, (const char *)text.bytes);
    assert_fails(tokenizer_encode(t, "a", 1, false, &ids), GRAIL_ERROR_FORMAT,
                 "normalizing 1 bytes: more than the allowed");
}

TEST(added_tokens_are_matched_before_the_model)
{
    tokenizer *t =
        must_open_tokenizer(PLAIN, ",\"added_tokens\":[{\"id\":10,\"content\":\"ca\"},"
                                   "{\"id\":11,\"content\":\"cab\",\"single_word\":true},"
                                   "{\"id\":12,\"content\":\"x\",\"lstrip\":true,\"rstrip\":true},"
                                   "{\"id\":13,\"content\":\"\"}]");
    assert_int_equal(t->model.pieces.count, 13);
    ASSERT_ENCODES(t, "aca b", false, 1, 10, 8, 2);
    ASSERT_ENCODES(t, "a cab", false, 1, 8, 11);
    ASSERT_ENCODES(t, "acab", false, 1, 3, 5);       /* the longest match is no whole word, */
    ASSERT_ENCODES(t, "\u24b6cab", false, 3, 5);     /* nor is it here: a circled letter */
    ASSERT_ENCODES(t, "\u2460cab\u2460", false, 11); /* a circled digit is no word character */
    ASSERT_ENCODES(t, "a \t x \u3000a", false, 1, 12, 1);
    tokenizer_close(t);
}

TEST(the_post_processor_frames_the_text)
{
    tokenizer *t = must_open_tokenizer(
        PLAIN, TEMPLATE("{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}},"
                        "{\"SpecialToken\":{\"id\":\"<s>\"}}"));
    assert_int_equal(tokenizer_bos(t), 7);
    ASSERT_ENCODES(t, "c", true, 7, 3, 7);
    ASSERT_ENCODES(t, "", true, 7, 7);
    ASSERT_ENCODES(t, "c", false, 3);
    tokenizer_close(t);
    t = must_open_tokenizer(PLAIN, "");
    assert_int_equal(tokenizer_bos(t), -1);
    tokenizer_close(t);
}

TEST(holes_have_no_piece)
{
    OWNED(tokenizer) *t = must_open_tokenizer("\"vocab\":{\"a\":2,\"b\":7},\"merges\":[]", "");
    assert_int_equal(t->model.pieces.count, 8);
    assert_string_equal(vocabulary_piece(&t->model.pieces, 2).bytes, "a");
    assert_string_equal(vocabulary_piece(&t->model.pieces, 7).bytes, "b");
    assert_null(vocabulary_piece(&t->model.pieces, 0).bytes);
    assert_null(vocabulary_piece(&t->model.pieces, 6).bytes);
    assert_null(vocabulary_piece(&t->model.pieces, 8).bytes);
    assert_null(vocabulary_piece(&t->model.pieces, -1).bytes);
}

TEST(the_hash_is_that_of_the_file)
{
    static const char text[] = "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}";
    char hash[HASH_TEXT_SIZE];
    hash_bytes(text, sizeof text - 1, hash);
    OPENED(tokenizer, t, open_tokenizer_text(text, &t));
    assert_string_equal(tokenizer_hash(t), hash);
}

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
    OWNED(tokenizer) *t = NULL;
    OWNED(token_list) ids = {0};
    grail_status status = tokenizer_from_json("t.json", everything, sizeof everything - 1, &t);
    if (status == GRAIL_OK) {
        status = tokenizer_encode(t, text, strlen(text), true, &ids);
        assert_true(status == GRAIL_OK || ids.count == 0);
    } else {
        assert_null(t);
    }
    return status;
}

TEST(every_failed_allocation_of_json_is_survived)
{
    static char text[] =
        "aabaab zz<x>  ba \u00e9\u0301\u00fc aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    support_fail_each_allocation(open_and_encode_json, text);
}

TEST(ids_that_a_vocabulary_lacks_are_named_by_their_place)
{
    int32_t ids[] = {7, 0, 4, 5, -1};
    const token_list list = {.ids = ids, .count = 4};
    const token_list negative = {.ids = ids, .count = 5};
    assert_ok(token_list_check(&list, 1, 6));
    assert_fails(token_list_check(&list, 0, 6), GRAIL_ERROR_ARGUMENT, "token 0 has id 7");
    assert_fails(token_list_check(&list, 1, 5), GRAIL_ERROR_ARGUMENT,
                 "token 2 has id 5, outside the model's vocabulary of 5");
    assert_fails(token_list_check(&negative, 1, 6), GRAIL_ERROR_ARGUMENT, "token 3 has id -1");
}

CMFixtureFunction support_setup = json_memory_use;
