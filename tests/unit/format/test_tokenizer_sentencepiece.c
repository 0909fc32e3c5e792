/* Tokenizers of pieces with scores, what these are refused for, and directories whose tokenizer is
 * left to transformers. */
#include "support/support.h"

#include "format/text/tokenizer_internal.h"
#include "support/json_memory.h"
#include "tokenizer_fixtures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static grail_status add(sentence_model *m, const char *piece, float score, uint64_t type)
{
    const text_span text = {piece, strlen(piece)};
    return sentence_model_add(m, (sentence_piece){.text = text, .score = score, .type = type});
}

/* <unk>, <s>, \u2581, a, b, ab, and ba with a higher score. */
static grail_status add_usual(sentence_model *m)
{
    CHECK(add(m, "<unk>", 0.0f, TOKEN_UNKNOWN));
    CHECK(add(m, "<s>", 0.0f, TOKEN_CONTROL));
    CHECK(add(m, "\u2581", -5.0f, TOKEN_NORMAL));
    CHECK(add(m, "a", -6.0f, TOKEN_NORMAL));
    CHECK(add(m, "b", -7.0f, TOKEN_NORMAL));
    CHECK(add(m, "ab", -2.0f, TOKEN_NORMAL));
    return add(m, "ba", -1.0f, TOKEN_NORMAL);
}

/* *out is owned, also after a failure. */
static grail_status open_pieces(sentence_model *m, tokenizer **out)
{
    m->rules = (sentencepiece_rules){.add_dummy_prefix = true, .remove_extra_whitespaces = true};
    CHECK(tokenizer_new("t", "", 0, out));
    return tokenizer_read_pieces(m, *out);
}

static tokenizer *must_open(sentence_model *m)
{
    tokenizer *t = NULL;
    assert_ok(open_pieces(m, &t));
    memory_free(m->pieces);
    return t;
}

/* A control piece is text, which is what SentencePiece makes of it. */
TEST(control_pieces_are_text)
{
    static const char text[] = "<s>ab<s><s>a";
    sentence_model m = {0};
    OWNED(token_list) ids = {0};
    assert_ok(add_usual(&m));
    OWNED(tokenizer) *t = must_open(&m);
    assert_ok(tokenizer_encode(t, text, sizeof text - 1, false, &ids));
    for (int64_t i = 0; i < ids.count; i++) {
        assert_int_not_equal(ids.ids[i], 1);
    }
}

TEST(pieces_merge_by_score)
{
    sentence_model m = {0};
    assert_ok(add_usual(&m));
    OWNED(tokenizer) *t = must_open(&m);
    assert_int_equal(t->model.pieces.count, 7);
    ASSERT_ENCODES(t, "aba", false, 2, 3, 6);
    ASSERT_ENCODES(t, "  ab  z? ", false, 2, 5, 2, 0); /* extra spaces go, unknowns are one */
}

TEST(pieces_of_equal_score_merge_leftmost)
{
    sentence_model m = {0};
    assert_ok(add_usual(&m));
    assert_ok(add(&m, "c", -9.0f, TOKEN_NORMAL));
    assert_ok(add(&m, "ac", -1.0f, TOKEN_NORMAL)); /* as "ba" */
    assert_ok(add(&m, "cb", -1.0f, TOKEN_NORMAL));
    OWNED(tokenizer) *t = must_open(&m);
    ASSERT_ENCODES(t, "bac", false, 2, 6, 7);
    ASSERT_ENCODES(t, "acb", false, 2, 8, 4);
    ASSERT_ENCODES(t, "cba", false, 2, 9, 3);
}

static void refuses_piece(const char *piece, float score, uint64_t type, grail_status code,
                          const char *message)
{
    sentence_model m = {0};
    tokenizer *t = NULL;
    assert_ok(add_usual(&m));
    grail_status status = add(&m, piece, score, type);
    status = status == GRAIL_OK ? open_pieces(&m, &t) : status;
    assert_fails(status, code, message);
    tokenizer_close(t);
    memory_free(m.pieces);
}

TEST(bad_pieces_are_refused)
{
    sentence_model none = {0};
    OWNED(tokenizer) *t = NULL;
    refuses_piece("c", 0.0f, 9, GRAIL_ERROR_FORMAT, "piece 7 has the unknown type 9");
    refuses_piece("c", (float)INFINITY, 1, GRAIL_ERROR_FORMAT, "piece 7 has a score");
    refuses_piece("", 0.0f, 1, GRAIL_ERROR_FORMAT, "piece 7 is empty or not valid UTF-8");
    refuses_piece("\xff", 0.0f, 1, GRAIL_ERROR_FORMAT, "piece 7 is empty or not valid UTF-8");
    refuses_piece("a", 0.0f, 1, GRAIL_ERROR_FORMAT, "piece 'a' has two ids, 3 and 7");
    refuses_piece("u", 0.0f, 2, GRAIL_ERROR_FORMAT, "pieces 0 and 7 are both of type UNKNOWN");
    refuses_piece("ax", 0.0f, 1, GRAIL_ERROR_UNSUPPORTED,
                  "piece 'ax' holds the character 'x', which is not itself a piece");
    assert_fails(open_pieces(&none, &t), GRAIL_ERROR_FORMAT, "its tokenizer holds no pieces");
}

TEST(user_defined_pieces_come_first_and_never_merge)
{
    sentence_model m = {0};
    assert_ok(add_usual(&m));
    assert_ok(add(&m, "aab", 0.0f, TOKEN_USER_DEFINED));
    assert_ok(add(&m, "aaba", 9.0f, TOKEN_NORMAL));
    assert_ok(add(&m, "c", 0.0f, TOKEN_USER_DEFINED));
    assert_ok(add(&m, "ca", 9.0f, TOKEN_NORMAL));
    OWNED(tokenizer) *t = must_open(&m);
    ASSERT_ENCODES(t, "baabaca", false, 2, 4, 7, 3, 9, 3);
}

DIRECTORY_TEST(other_files_of_a_directory_are_refused_by_name)
{
    static const char json[] = "{\"model\":{\"vocab\":{\"a\":5},\"merges\":[]}}";
    static const char *const files[] = {"vocab.txt", "tokenizer.model"};
    OWNED(tokenizer) *t = NULL;
    bool exists = true;
    assert_fails(tokenizer_open(directory, &t), GRAIL_ERROR_IO,
                 "has neither tokenizer.json nor vocab.json with merges.txt");
    for (int i = 0; i < 2; i++) {
        char message[256];
        support_write_file(directory, files[i], "x", 1);
        snprintf(message, sizeof message,
                 ": has no tokenizer.json, and its %s is not read; transformers makes one of it, "
                 "AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                 files[i]);
        assert_fails(tokenizer_open(directory, &t), GRAIL_ERROR_UNSUPPORTED, message);
        assert_ok(tokenizer_exists(directory, &exists));
        assert_false(exists);
    }
    support_write_file(directory, "tokenizer.json", json, sizeof json - 1);
    assert_ok(tokenizer_open(directory, &t));
    assert_int_equal(t->model.pieces.count, 6);
}

static grail_status open_and_encode(void *context)
{
    OWNED(tokenizer) *t = NULL;
    OWNED(token_list) ids = {0};
    sentence_model m = {0};
    grail_status status = GRAIL_OK;
    TRY(add_usual(&m));
    TRY(add(&m, "aab", 0.0f, TOKEN_USER_DEFINED));
    TRY(open_pieces(&m, &t));
    TRY(tokenizer_encode(t, "ab ba x", 7, true, &ids));
out:
    memory_free(m.pieces);
    return status;
}

TEST(every_failed_allocation_is_survived)
{
    support_fail_each_allocation(open_and_encode, NULL);
}

CMFixtureFunction support_setup = json_memory_use;
