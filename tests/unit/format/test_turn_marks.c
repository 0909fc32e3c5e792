/* By which tokens windows are known as conversations: in the forms that published templates write
 * them, and plain text. */
#include "tokenizer_fixtures.h"

#include "support/support.h"

#include "format/text/chat_template.h"

#include <string.h>

#define ADDED(id, text) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":true}"

static const char added[] =
    ",\"added_tokens\":[" ADDED(94, "<|im_start|>") "," ADDED(95, "<|im_end|>") "," ADDED(
        96,
        "<s>") "," ADDED(97,
                         "</s>") "," ADDED(98,
                                           "<｜User｜>") "," ADDED(99,
                                                                   "<｜Assistant｜>") "],\"pre_"
                                                                                      "tokenizer\":"
                                                                                      "{\"type\":"
                                                                                      "\"ByteLevel"
                                                                                      "\",\"add_"
                                                                                      "prefix_"
                                                                                      "space\":"
                                                                                      "false},"
                                                                                      "\"post_"
                                                                                      "processor\":"
                                                                                      "{\"type\":"
                                                                                      "\"TemplatePr"
                                                                                      "ocessing\","
                                                                                      "\"single\":["
                                                                                      "{\"SpecialTo"
                                                                                      "ken\":{"
                                                                                      "\"id\":\"<s>"
                                                                                      "\"}},{"
                                                                                      "\"Sequence\""
                                                                                      ":{\"id\":"
                                                                                      "\"A\"}}],"
                                                                                      "\"special_"
                                                                                      "tokens\":{"
                                                                                      "\"<s>\":{"
                                                                                      "\"ids\":[96]"
                                                                                      "}}}";

/* Byte-level characters of ASCII are tokens, with added ones. */
static tokenizer *open_ascii(const char *others)
{
    OWNED(buffer) model = {.maximum = 1 << 14};
    assert_ok(
        buffer_append_string(&model, "\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"\\u0120\":93"));
    for (int i = 0; i < 93; i++) {
        assert_ok(buffer_format(&model, ",\"\\u%04x\":%d", (unsigned)('!' + i), i));
    }
    assert_ok(buffer_append_string(&model, "}"));
    tokenizer *t = must_open_tokenizer((const char *)model.bytes, others);
    return t;
}

typedef struct search {
    const tokenizer *t;
    token_windows windows;
    turns_found found;
} search;

static grail_status look(void *user)
{
    search *s = user;
    return turns_find(s->t, &s->windows, &s->found);
}

static search search_of(const tokenizer *t, const char *text)
{
    enum { LENGTH = 40 };
    search s = {.t = t};
    token_list list = {0};
    assert_ok(tokenizer_encode(t, text, strlen(text), true, &list));
    while (list.count % LENGTH != 0) {
        assert_ok(token_list_push(&list, '.' - '!'));
    }
    s.windows = (token_windows){.ids = list.ids, .count = list.count / LENGTH, .length = LENGTH};
    return s;
}

static turns_found find_with(const char *others, const char *text)
{
    OWNED(tokenizer) *t = open_ascii(others);
    search s = search_of(t, text);
    assert_ok(look(&s));
    token_windows_fini(&s.windows);
    return s.found;
}

static turns_found find(const char *text)
{
    return find_with(added, text);
}

static const char plain[] = "Robert <b> is an English actor [1]. Role: 'user'. He said: <i>no</i>.";

TEST(two_added_tokens_tell)
{
    assert_int_equal(find(plain), TURNS_MISSING);
    assert_int_equal(find("<|im_start|>user\nHi<|im_end|>\n"), TURNS_THERE);
    assert_int_equal(find("<｜User｜>Hi<｜Assistant｜>Yes"), TURNS_THERE);
    assert_int_equal(find("[INST] Hi [/INST] Yes"), TURNS_MISSING); /* no tokens */
}

/* One of them may end each document. */
TEST(one_of_several_does_not)
{
    assert_int_equal(find("A text.<|im_end|>Another text.<|im_end|>"), TURNS_MISSING);
}

TEST(what_stands_around_every_text_does_not)
{
    assert_int_equal(find("A text.</s><s>Another.</s>"), TURNS_MISSING);
}

TEST(the_only_one_is_enough)
{
    static const char one[] = ",\"added_tokens\":[" ADDED(94, "<|end|>") "]";
    assert_int_equal(find_with(one, plain), TURNS_MISSING);
    assert_int_equal(find_with(one, "Hi<|end|>"), TURNS_THERE);
}

TEST(a_tokenizer_without_any_says_nothing)
{
    assert_int_equal(find_with("", plain), TURNS_UNKNOWN);
}

TEST(every_failing_allocation_is_survived)
{
    OWNED(tokenizer) *t = open_ascii(added);
    search s = search_of(t, plain);
    support_fail_each_allocation(look, &s);
    token_windows_fini(&s.windows);
}
