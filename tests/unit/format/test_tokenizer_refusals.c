/* Tokenizers: what a tokenizer.json is refused for. */
#include "support/support.h"

#include "base/buffer.h"
#include "format/text/tokenizer_internal.h"
#include "support/json_memory.h"
#include "tokenizer_fixtures.h"

#include <stdio.h>
#include <string.h>

static void refuses(const char *model, const char *beside, grail_status code, const char *message)
{
    tokenizer *t = NULL;
    assert_fails(open_tokenizer_with(model, beside, &t), code, message);
    assert_null(t);
    assert_fails(open_tokenizer_with(model, beside, &t), code, "t.json: ");
}

static void refuses_model(const char *model, grail_status code, const char *message)
{
    refuses(model, "", code, message);
}

static void refuses_beside(const char *beside, grail_status code, const char *message)
{
    refuses(PLAIN, beside, code, message);
}

TEST(bad_json_is_named_with_its_line)
{
    tokenizer *t = NULL;
    assert_fails(open_tokenizer_text("{\n\"model\": }", &t), GRAIL_ERROR_FORMAT,
                 "t.json: not valid JSON");
    assert_fails(open_tokenizer_text("{\n\"model\": }", &t), GRAIL_ERROR_FORMAT, "line 2");
    assert_fails(open_tokenizer_text("", &t), GRAIL_ERROR_FORMAT, "t.json: not valid JSON");
    assert_null(t);
}

TEST(a_missing_model_is_refused)
{
    tokenizer *t = NULL;
    assert_fails(open_tokenizer_text("{}", &t), GRAIL_ERROR_FORMAT, "\"model\" is missing");
    assert_fails(open_tokenizer_text("[1]", &t), GRAIL_ERROR_FORMAT, "\"model\" is missing");
}

TEST(other_model_types_are_refused_by_name)
{
    refuses_model("\"type\":\"Unigram\",\"vocab\":[]", GRAIL_ERROR_UNSUPPORTED,
                  "model type 'Unigram' is not supported, only BPE");
    refuses_model("\"vocab\":{}", GRAIL_ERROR_UNSUPPORTED, "without a type");
}

TEST(options_that_would_change_ids_are_refused)
{
    refuses_model(PLAIN ",\"dropout\":0.1", GRAIL_ERROR_UNSUPPORTED, "dropout 0.1");
    refuses_model(PLAIN ",\"end_of_word_suffix\":\"</w>\"", GRAIL_ERROR_UNSUPPORTED,
                  "end_of_word_suffix '</w>'");
    refuses_model(PLAIN ",\"continuing_subword_prefix\":\"##\"", GRAIL_ERROR_UNSUPPORTED, "'##'");
}

TEST(a_merge_of_an_unknown_piece_is_refused)
{
    refuses_model("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a z\"]", GRAIL_ERROR_FORMAT,
                  "merge 0 names the piece 'z', which is not in the vocabulary");
    refuses_model("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]", GRAIL_ERROR_FORMAT,
                  "merge 0 names the piece 'ab'");
}

TEST(a_merge_that_is_no_pair_is_refused)
{
    static const char *const merges[] = {"\"ab\"",    "\"a b c\"", "[\"a\"]", "[\"a\",\"b\",\"c\"]",
                                         "[\"a\",1]", "7"};
    for (size_t i = 0; i < sizeof merges / sizeof merges[0]; i++) {
        OWNED(char) *model = NULL;
        assert_ok(memory_format(&model, "\"vocab\":" VOCAB ",\"merges\":[\"a a\",%s]", merges[i]));
        refuses_model(model, GRAIL_ERROR_FORMAT, "merge 1 is not a pair");
    }
    refuses_model("\"type\":\"BPE\",\"vocab\":" VOCAB, GRAIL_ERROR_FORMAT, "no \"merges\" array");
}

TEST(ids_out_of_range_are_refused)
{
    refuses_model("\"vocab\":{\"a\":-1},\"merges\":[]", GRAIL_ERROR_FORMAT, "piece 'a' has id -1");
    refuses_model("\"vocab\":{\"a\":4294967296},\"merges\":[]", GRAIL_ERROR_FORMAT,
                  "has id 4294967296; ids must be 0 to 16777215");
    refuses_model("\"vocab\":{\"a\":1.5},\"merges\":[]", GRAIL_ERROR_FORMAT, "not an integer");
    refuses_model("\"vocab\":[],\"merges\":[]", GRAIL_ERROR_FORMAT, "no \"vocab\" object");
}

TEST(one_id_for_two_pieces_is_refused)
{
    refuses_model("\"vocab\":{\"a\":3,\"b\":3},\"merges\":[]", GRAIL_ERROR_FORMAT,
                  "id 3 belongs to both 'a' and 'b'");
    refuses_model("\"vocab\":{\"a\":3,\"a\":4},\"merges\":[]", GRAIL_ERROR_FORMAT, "duplicate");
}

TEST(added_tokens_must_agree_with_the_vocabulary)
{
    refuses_beside(",\"added_tokens\":[{\"id\":9,\"content\":\"a\"}]", GRAIL_ERROR_FORMAT,
                   "added token 'a' has id 9, but the vocabulary gives it id 1");
    refuses_beside(",\"added_tokens\":[{\"id\":1,\"content\":\"z\"}]", GRAIL_ERROR_FORMAT,
                   "id 1 belongs to both 'a' and 'z'");
    refuses_beside(",\"added_tokens\":[{\"id\":-2,\"content\":\"z\"}]", GRAIL_ERROR_FORMAT,
                   "id -2");
    refuses_beside(",\"added_tokens\":[{\"content\":\"z\"}]", GRAIL_ERROR_FORMAT, "\"id\"");
    refuses_beside(",\"added_tokens\":{}", GRAIL_ERROR_FORMAT, "not an array");
}

TEST(unknown_components_are_refused_with_what_is_supported)
{
    refuses_beside(",\"normalizer\":{\"type\":\"Nmt\"}", GRAIL_ERROR_UNSUPPORTED,
                   "normalizer 'Nmt' is not supported; the supported ones are Prepend, Replace, "
                   "NFC, NFD, NFKC, NFKD, Strip, Lowercase, BertNormalizer, Sequence");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                   "\"Bert\"}]}",
                   GRAIL_ERROR_UNSUPPORTED,
                   "pre-tokenizer 'Bert' is not supported; the supported ones are Split, "
                   "ByteLevel, Digits, Punctuation, WhitespaceSplit, Metaspace, BertPreTokenizer, "
                   "Sequence");
    refuses_beside(",\"post_processor\":{\"type\":\"Bert\"}", GRAIL_ERROR_UNSUPPORTED,
                   "post-processor 'Bert' is not supported; the supported ones are "
                   "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence");
    refuses_beside(",\"normalizer\":{}", GRAIL_ERROR_FORMAT, "a normalizer has no \"type\"");
    refuses_beside(",\"pre_tokenizer\":7", GRAIL_ERROR_FORMAT, "a pre-tokenizer has no \"type\"");
}

TEST(malformed_components_are_refused)
{
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
                   GRAIL_ERROR_FORMAT,
                   "Metaspace has the replacement 'ab', expected a single character");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\","
                   "\"prepend_scheme\":\"last\"}",
                   GRAIL_ERROR_FORMAT, "unknown prepend_scheme 'last'");
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Digits\",\"individual_digits\":1}",
                   GRAIL_ERROR_FORMAT, "\"individual_digits\" is not true or false");
}

TEST(patterns_that_would_mean_something_else_are_refused)
{
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

TEST(too_many_steps_are_refused)
{
    OWNED(buffer) text = {.maximum = 1 << 20};
    assert_ok(buffer_append_string(&text, ",\"normalizer\":{\"type\":\"Sequence\","
                                          "\"normalizers\":["));
    for (int i = 0; i < 33; i++) {
        assert_ok(buffer_format(&text, "%s{\"type\":\"NFC\"}", i > 0 ? "," : ""));
    }
    assert_ok(buffer_append_string(&text, "]}"));
    refuses_beside((const char *)text.bytes, GRAIL_ERROR_UNSUPPORTED, "more than 32 steps");
}

#define BYTE_LEVEL "{\"type\":\"ByteLevel\",\"use_regex\":false}"

TEST(two_byte_levels_are_refused)
{
    refuses_beside(",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" BYTE_LEVEL
                   "," BYTE_LEVEL "]}",
                   GRAIL_ERROR_UNSUPPORTED,
                   "t.json: the pre-tokenizer has more than one ByteLevel");
}

TEST(an_overlong_added_token_is_refused)
{
    char content[TOKENIZER_LONGEST_ADDED + 2];
    memset(content, 'a', sizeof content);
    content[sizeof content - 1] = 0;
    OPENED(char, beside,
           memory_format(&beside, ",\"added_tokens\":[{\"id\":90,\"content\":\"%s\"}]", content));
    refuses_beside(beside, GRAIL_ERROR_FORMAT,
                   "t.json: an added token or user-defined piece has 1025 bytes, more than the "
                   "allowed 1024");
}

/* The table has 4096 slots by then; half a million pieces that are not chosen reach no such number.
 */
TEST(pieces_that_are_made_to_collide_are_refused)
{
    vocabulary v;
    int32_t id = 0;
    grail_status status = GRAIL_OK;
    vocabulary_init(&v);
    for (uint32_t i = 0; status == GRAIL_OK; i++) {
        char piece[24];
        const int length = snprintf(piece, sizeof piece, "%x", i);
        uint64_t hash = 0xCBF29CE484222325u;
        for (int c = 0; c < length; c++) {
            hash = (hash ^ (unsigned char)piece[c]) * 0x100000001B3u;
        }
        if (((hash ^ hash >> 29) & 4095) == 7) {
            status = vocabulary_add(&v, span_of_string(piece), id++);
        }
    }
    assert_fails(status, GRAIL_ERROR_FORMAT, "more than 1024 pieces collide in a hash table");
    vocabulary_fini(&v);
    vocabulary_init(&v);
    for (int32_t i = 0; i < 500000; i++) {
        char piece[24];
        snprintf(piece, sizeof piece, "piece%d", i);
        assert_ok(vocabulary_add(&v, span_of_string(piece), i));
    }
    vocabulary_fini(&v);
}

TEST(merges_that_are_made_to_collide_are_refused)
{
    pair_table t = {0};
    grail_status status = GRAIL_OK;
    for (int32_t left = 0; left < 4096 && status == GRAIL_OK; left++) {
        for (int32_t right = 0; right < 4096 && status == GRAIL_OK; right++) {
            uint64_t key = ((uint64_t)(uint32_t)left << 32) | (uint32_t)right;
            key *= 0x9E3779B97F4A7C15u;
            if (((key ^ key >> 32) & 4095) == 7) {
                status = pair_table_put(&t, (pair_entry){.left = left, .right = right});
            }
        }
    }
    assert_fails(status, GRAIL_ERROR_FORMAT, "more than 1024 merges collide in a hash table");
    pair_table_fini(&t);
    for (int32_t i = 0; i < 500000; i++) {
        assert_ok(pair_table_put(&t, (pair_entry){.left = i % 701, .right = i}));
    }
    pair_table_fini(&t);
}

TEST(templates_without_ids_or_text_are_refused)
{
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

/* Writes vocab.json, merges.txt and settings, and opens the directory. */
static grail_status open_merges(const char *directory, const char *vocab, const char *merges,
                                const char *settings, tokenizer **out)
{
    support_write_file(directory, "vocab.json", vocab, strlen(vocab));
    support_write_file(directory, "merges.txt", merges, strlen(merges));
    support_write_file(directory, "tokenizer_config.json", settings, strlen(settings));
    return tokenizer_open(directory, out);
}

DIRECTORY_TEST(merges_that_do_not_fit_are_refused)
{
    static const struct {
        const char *vocab, *merges, *settings;
        grail_status code;
        const char *message;
    } cases[] = {
        {"{\"a\":0}", "", "{\"tokenizer_class\":\"CLIPTokenizer\"}", GRAIL_ERROR_UNSUPPORTED,
         "names the class 'CLIPTokenizer', which grail does not know"},
        {"{\"a\":0}", "", "{\"tokenizer_class\":\"GPT2TokenizerX\"}", GRAIL_ERROR_UNSUPPORTED,
         "GPT2TokenizerX"},
        {"{\"a\":0}", "a b\n", "{}", GRAIL_ERROR_FORMAT, "merge 0 names the piece 'b'"},
        {"{\"a\":0}", "\xff\n", "{}", GRAIL_ERROR_FORMAT, "merges.txt is not UTF-8 at byte 0"},
        {"[]", "", "{}", GRAIL_ERROR_FORMAT, "no \"vocab\" object"},
        {"{\"a\":\"b\"}", "", "{}", GRAIL_ERROR_FORMAT, "id of piece 'a' is not an integer"},
        {"{\"a\":9223372036854775807}", "", "{}", GRAIL_ERROR_FORMAT, "has id 9223372036854775807"},
        {"{\"a\":0}", "", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}",
         GRAIL_ERROR_FORMAT, "\"added_tokens_decoder\" has 'x'"},
        {"{\"a\":0}", "", "{\"added_tokens_decoder\":{\"1\":7}}", GRAIL_ERROR_FORMAT,
         "\"added_tokens_decoder\" has '1'"},
        {"{\"a\":0}", "", "{\"tokenizer_class\":\"BartTokenizer\",\"cls_token\":null}",
         GRAIL_ERROR_FORMAT, "cls"},
    };
    OWNED(tokenizer) *t = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(open_merges(directory, cases[i].vocab, cases[i].merges, cases[i].settings, &t),
                     cases[i].code, cases[i].message);
        assert_null(t);
    }
    assert_ok(open_merges(directory, "{\"a\":0,\"b\":1,\"ab\":2}", "#version: 0.2\r\na b\r\n",
                          "{\"add_bos_token\":true,\"model_max_length\":1e30}", &t));
    assert_int_equal(tokenizer_bos(t), 3); /* <|endoftext|>, behind the pieces */
}

CMFixtureFunction support_setup = json_memory_use;
