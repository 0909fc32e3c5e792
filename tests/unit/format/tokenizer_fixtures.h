/* Small tokenizers for tests: the members that a tokenizer.json is made of, opening them, and
 * comparing what a text is encoded to. */
#ifndef GRAIL_TESTS_TOKENIZER_FIXTURES_H
#define GRAIL_TESTS_TOKENIZER_FIXTURES_H

#include "format/text/tokenizer.h"

#define VOCAB                                                                                      \
    "{\"<unk>\":0,\"a\":1,\"b\":2,\"c\":3,\"aa\":4,\"ab\":5,\"x y\":6,\"\u2581\":7,\" \":8}"

/* Members of the model. */
#define PLAIN "\"type\":\"BPE\",\"vocab\":" VOCAB ",\"merges\":[\"a a\",\"a b\"]"

/* Members beside the model. */
#define SPLIT(regex) ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"}}"
#define TEMPLATE(single)                                                                           \
    ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[" single "],"                \
    "\"special_tokens\":{\"<s>\":{\"ids\":[7]},\"<e>\":{\"ids\":[]},\"<o>\":{\"ids\":[-1]}}}"

/** A tokenizer.json by the name of "t.json". */
grail_status open_tokenizer_text(const char *text, tokenizer **out);
/** One of the members of the model and those beside it. */
grail_status open_tokenizer_with(const char *model, const char *beside, tokenizer **out);
tokenizer *must_open_tokenizer(const char *model, const char *beside);

/** Encodes and compares; `expected` ends in -1. */
void assert_encodes(const tokenizer *t, const char *text, bool special, const int32_t expected[]);

#define ASSERT_ENCODES(t, text, special, ...)                                                      \
    assert_encodes((t), (text), (special), (const int32_t[]){__VA_ARGS__, -1})

#endif
