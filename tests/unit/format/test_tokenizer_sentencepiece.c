/* Tokenizers of SentencePiece models, what these are refused for, and directories that hold one. */
#include "support/support.h"

#include "base/buffer.h"
#include "format/text/tokenizer_internal.h"
#include "support/json_memory.h"
#include "tokenizer_fixtures.h"

#include <math.h>
#include <string.h>

/* <unk>, <s>, ▁, a, b, ab, and ba with a higher score; then the trainer's and normalizer's options.
 */
static void append_model(buffer *out, int type, const char *charsmap)
{
    const unsigned char trainer[2] = {3 << 3, (unsigned char)type};
    append_model_piece(out, "<unk>", 0.0f, 2);
    append_model_piece(out, "<s>", 0.0f, 3);
    append_model_piece(out, "\u2581", -5.0f, 1);
    append_model_piece(out, "a", -6.0f, 1);
    append_model_piece(out, "b", -7.0f, 1);
    append_model_piece(out, "ab", -2.0f, 1);
    append_model_piece(out, "ba", -1.0f, 1);
    append_model_field(out, 2, trainer, sizeof trainer);
    buffer message = {.maximum = 1 << 10};
    append_model_field(&message, 2, charsmap, strlen(charsmap));
    append_model_field(out, 3, message.bytes, message.size);
    buffer_fini(&message);
}

static grail_status open_model(const buffer *bytes, tokenizer **out)
{
    return tokenizer_from_sentencepiece("t.model", bytes->bytes, bytes->size, out);
}

/* A control piece is text, which is what SentencePiece makes of it. */
static void control_pieces_are_text(void **state)
{
    (void)state;
    static const char text[] = "<s>ab<s><s>a";
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    token_list ids = {0};
    append_model(&bytes, 2, "");
    assert_ok(open_model(&bytes, &t));
    assert_ok(tokenizer_encode(t, text, sizeof text - 1, false, &ids));
    for (int64_t i = 0; i < ids.count; i++) {
        assert_int_not_equal(ids.ids[i], 1);
    }
    token_list_fini(&ids);
    tokenizer_close(t);
    buffer_fini(&bytes);
}

static void sentencepiece_merges_by_score(void **state)
{
    (void)state;
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    append_model(&bytes, 2, "");
    assert_ok(open_model(&bytes, &t));
    assert_int_equal(t->model.pieces.count, 7);
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
    append_model_piece(&bytes, "c", -9.0f, 1);
    append_model_piece(&bytes, "ac", -1.0f, 1); /* as "ba" */
    append_model_piece(&bytes, "cb", -1.0f, 1);
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
    append_model_piece(&bytes, piece, score, type);
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
                  "piece 'ax' holds the character 'x', which is not itself a piece; convert the "
                  "tokenizer to tokenizer.json");
}

static void damaged_sentencepiece_models_are_refused(void **state)
{
    (void)state;
    buffer bytes = {.maximum = 1 << 16};
    tokenizer *t = NULL;
    assert_fails(tokenizer_from_sentencepiece("t.model", "", 0, &t), GRAIL_ERROR_FORMAT,
                 "t.model: holds no pieces; is this a SentencePiece model?");
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
    append_model_piece(&bytes, "aab", 0.0f, 4);
    append_model_piece(&bytes, "aaba", 9.0f, 1);
    append_model_piece(&bytes, "c", 0.0f, 4);
    append_model_piece(&bytes, "ca", 9.0f, 1);
    assert_ok(open_model(&bytes, &t));
    ASSERT_ENCODES(t, "baabaca", false, 2, 4, 7, 3, 9, 3);
    tokenizer_close(t);
    buffer_fini(&bytes);
}

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
    assert_int_equal(t->model.pieces.count, 7);
    tokenizer_close(t);
    support_write_file(directory, "tokenizer.json", json, sizeof json - 1);
    assert_ok(tokenizer_open(directory, &t));
    assert_int_equal(t->model.pieces.count, 6);
    tokenizer_close(t);
    buffer_fini(&bytes);
    support_remove_tree(directory);
    memory_free(directory);
}

static void the_configuration_says_whether_bos_and_eos_are_put(void **state)
{
    (void)state;
    static const char off[] = "{\"add_bos_token\": false, \"add_eos_token\": true, "
                              "\"model_max_length\": 1000000000000000019884624838656}";
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
    append_model_piece(&bytes, "aab", 0.0f, 4);
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
        cmocka_unit_test(control_pieces_are_text),
        cmocka_unit_test(sentencepiece_merges_by_score),
        cmocka_unit_test(pieces_of_equal_score_merge_leftmost),
        cmocka_unit_test(sentencepiece_models_of_other_kinds_are_refused),
        cmocka_unit_test(bad_sentencepiece_pieces_are_refused),
        cmocka_unit_test(damaged_sentencepiece_models_are_refused),
        cmocka_unit_test(user_defined_pieces_come_first_and_never_merge),
        cmocka_unit_test(a_directory_gives_its_json_before_its_model),
        cmocka_unit_test(the_configuration_says_whether_bos_and_eos_are_put),
        cmocka_unit_test(every_failed_allocation_of_sentencepiece_is_survived),
    };
    return cmocka_run_group_tests(tests, json_memory_use, NULL);
}
