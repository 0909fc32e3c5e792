/* WordPiece: the pieces of words, the steps around them, and vocabularies that lie. */
#include "support/support.h"

#include "base/json.h"
#include "format/text/tokenizer_internal.h"
#include "support/json_memory.h"
#include "tokenizer_fixtures.h"

#include <string.h>

#define PIECES                                                                                     \
    "{\"[UNK]\":0,\"a\":1,\"ab\":2,\"abc\":3,\"##c\":4,\"##cd\":5,\"##d\":6,\"\u6f22\":7,"         \
    "\"[CLS]\":8,\"[SEP]\":9,\"!\":10,\"##\":11,\"i\":12}"
#define WORDS "\"type\":\"WordPiece\",\"vocab\":" PIECES
#define BERT                                                                                       \
    ",\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"                   \
    "\"BertPreTokenizer\"}"

TEST(the_longest_piece_comes_first)
{
    OWNED(tokenizer) *t = must_open_tokenizer(WORDS, BERT);
    ASSERT_ENCODES(t, "ab", false, 2);
    ASSERT_ENCODES(t, "abcd", false, 3, 6); /* not ab ##cd */
    ASSERT_ENCODES(t, "abccd abdd", false, 3, 5, 2, 6, 6);
    ASSERT_ENCODES(t, "", false, -1);
}

/* No piece goes on with "b", so the word is unknown although it begins with pieces. */
TEST(a_word_is_known_as_a_whole_or_not_at_all)
{
    OWNED(tokenizer) *t = must_open_tokenizer(WORDS, BERT);
    OWNED(token_list) ids = {.most = 2};
    ASSERT_ENCODES(t, "abcdb ab", false, 0, 2);
    assert_ok(tokenizer_encode(t, "abcdcdb ab", 10, false, &ids)); /* the first two alone */
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[0], 0);
}

TEST(a_long_word_is_unknown)
{
    OWNED(tokenizer) *t = must_open_tokenizer(WORDS ",\"max_input_chars_per_word\":3", BERT);
    ASSERT_ENCODES(t, "abc abcd a", false, 3, 0, 1);
    ASSERT_ENCODES(t, "\u6f22\u6f22", false, 7, 7); /* characters, not bytes, each a word */
}

TEST(text_is_cleaned_and_cut_as_bert_does)
{
    tokenizer *t = must_open_tokenizer(WORDS, BERT);
    ASSERT_ENCODES(t, "A\u0301B\u00c1!a\u6f22\ta\u200bb\x01 \ufffd", false, 0, 10, 1, 7, 2);
    ASSERT_ENCODES(t, "\u0130", false, 12); /* its dot is a mark */
    tokenizer_close(t);
    t = must_open_tokenizer(WORDS, ",\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":"
                                   "false,\"strip_accents\":true}");
    ASSERT_ENCODES(t, "\u00e1", false, 1);
    ASSERT_ENCODES(t, "A", false, 0);
    tokenizer_close(t);
}

TEST(frames_are_put_around_a_text)
{
    static const char frame[] =
        ",\"post_processor\":{\"type\":\"BertProcessing\",\"sep\":[\"[SEP]\",9],\"cls\":[\"[CLS]\","
        "8]}";
    OWNED(tokenizer) *t = must_open_tokenizer(WORDS, frame);
    ASSERT_ENCODES(t, "abc", true, 8, 3, 9);
    ASSERT_ENCODES(t, "abc", false, 3);
    assert_int_equal(tokenizer_before(t)->count, 1);
    assert_int_equal(tokenizer_after(t)->ids[0], 9);
}

/* What follows may make another word of the last one. */
TEST(an_open_word_waits)
{
    OWNED(tokenizer) *t = must_open_tokenizer(WORDS, BERT);
    OWNED(token_list) ids = {0};
    assert_ok(tokenizer_encode_start(t, "ab abc abcdcdcdcdcd", 19, false, &ids));
    assert_int_equal(ids.count, 2);
    assert_int_equal(ids.ids[1], 3);
}

TEST(files_without_a_type_are_known_by_their_keys)
{
    tokenizer *t =
        must_open_tokenizer("\"vocab\":" PIECES ",\"max_input_chars_per_word\":100", BERT);
    ASSERT_ENCODES(t, "abcd", false, 3, 6);
    tokenizer_close(t);
}

static void refuses(const char *model, const char *beside, const char *message)
{
    tokenizer *t = NULL;
    assert_fails(open_tokenizer_with(model, beside, &t), GRAIL_ERROR_FORMAT, message);
    assert_null(t);
}

TEST(vocabularies_that_lie_are_refused)
{
    char piece[600];
    refuses("\"type\":\"WordPiece\",\"vocab\":{\"a\":0,\"b\":0}", "",
            "id 0 belongs to both 'a' and 'b'");
    refuses("\"type\":\"WordPiece\",\"vocab\":{\"a\":-3}", "", "piece 'a' has id -3");
    refuses("\"type\":\"WordPiece\",\"vocab\":[]", "", "no \"vocab\" object");
    refuses("\"type\":\"WordPiece\",\"vocab\":{\"a\":0}", "",
            "t.json: the token '[UNK]' for unknown words is not in the vocabulary");
    refuses(WORDS ",\"max_input_chars_per_word\":0", "",
            "\"max_input_chars_per_word\" is 0, expected 1 or more");
    refuses(WORDS, ",\"post_processor\":{\"type\":\"RobertaProcessing\",\"sep\":[\"[SEP]\",9]}",
            "piece 'cls' has id -1");
    memset(piece, 'x', sizeof piece - 1);
    piece[sizeof piece - 1] = 0;
    OPENED(char, model,
           memory_format(&model, "\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0,\"%s\":1}", piece));
    refuses(model, "", "piece 1 has 599 bytes; at most 512 are supported");
}

static grail_status open_and_encode(void *context)
{
    OWNED(tokenizer) *t = NULL;
    OWNED(token_list) ids = {0};
    CHECK(open_tokenizer_with(WORDS, BERT, &t));
    return tokenizer_encode(t, "\u00c1bc a!", 7, true, &ids);
}

TEST(every_failing_allocation_is_survived)
{
    support_fail_each_allocation(open_and_encode, NULL);
}

CMFixtureFunction support_setup = json_memory_use;
