/* By which marks of a chat template windows of tokens are known as conversations: those of the
 * forms that published templates have, each with a conversation in its form and with plain text. */
#include "tokenizer_fixtures.h"

#include "support/support.h"

#include "format/text/turn_marks.h"

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

/* Byte-level characters of ASCII are tokens, with six added ones. */
static tokenizer *open_ascii(void)
{
    buffer model = {.maximum = 1 << 14};
    assert_ok(
        buffer_append_string(&model, "\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"\\u0120\":93"));
    for (int i = 0; i < 93; i++) {
        assert_ok(buffer_format(&model, ",\"\\u%04x\":%d", (unsigned)('!' + i), i));
    }
    assert_ok(buffer_append_string(&model, "}"));
    tokenizer *t = must_open_tokenizer((const char *)model.bytes, added);
    buffer_fini(&model);
    return t;
}

typedef struct search {
    const char *template;
    const tokenizer *t;
    token_windows windows;
    turns_found found;
} search;

static grail_status look(void *user)
{
    search *s = user;
    return turns_find(s->template, s->t, &s->windows, &s->found);
}

static search search_of(const tokenizer *t, const char *template, const char *text)
{
    enum { LENGTH = 40 };
    search s = {.template = template, .t = t};
    token_list list = {0};
    assert_ok(tokenizer_encode(t, text, strlen(text), true, &list));
    while (list.count % LENGTH != 0) {
        assert_ok(token_list_push(&list, '.' - '!'));
    }
    s.windows = (token_windows){.ids = list.ids, .count = list.count / LENGTH, .length = LENGTH};
    return s;
}

static turns_found find(const char *template, const char *text)
{
    tokenizer *t = open_ascii();
    search s = search_of(t, template, text);
    assert_ok(look(&s));
    token_windows_fini(&s.windows);
    tokenizer_close(t);
    return s.found;
}

static const char plain[] = "Robert <b> is an English actor [1]. Role: 'user'. He said: <i>no</i>.";

static const char chatml[] =
    "{% for m in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + m['role'] + "
    "'\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor %}";

static void tags_that_are_tokens_tell(void **state)
{
    (void)state;
    assert_int_equal(find(chatml, plain), TURNS_MISSING);
    assert_int_equal(find(chatml, "<|im_start|>user\nHi<|im_end|>\n"), TURNS_THERE);
    assert_int_equal(find("{{ '<｜User｜>' + a + '<｜Assistant｜>' + b }}", plain), TURNS_MISSING);
    assert_int_equal(
        find("{{ '<｜User｜>' + a + '<｜Assistant｜>' + b }}", "<｜User｜>Hi<｜Assistant｜>Yes"),
        TURNS_THERE);
}

/* One of them may end each document. */
static void one_mark_of_several_does_not(void **state)
{
    (void)state;
    assert_int_equal(find(chatml, "A text.<|im_end|>Another text.<|im_end|>"), TURNS_MISSING);
}

static void what_stands_around_every_text_does_not(void **state)
{
    (void)state;
    static const char vicuna[] = "{{ '<s>USER: ' + a + ' ASSISTANT: ' + b + '</s>' }}";
    assert_int_equal(find(vicuna, "A text.</s><s>Another.</s>"), TURNS_MISSING);
    assert_int_equal(find(vicuna, "<s>USER: Hi ASSISTANT: Yes</s>"), TURNS_THERE);
}

static void tags_of_several_tokens_tell(void **state)
{
    (void)state;
    static const char llama2[] =
        "{% set l = messages[1:] %}{{ bos_token + '[INST] ' + a + ' [/INST]' }}";
    static const char exaone[] =
        "{{ '[|' + role + '|]' + a + '[|endofturn|]' }}{{ '[|assistant|]' }}";
    assert_int_equal(find(llama2, plain), TURNS_MISSING);
    assert_int_equal(find(llama2, "[INST] Hi [/INST] Yes"), TURNS_THERE);
    assert_int_equal(find(exaone, plain), TURNS_MISSING);
    assert_int_equal(find(exaone, "[|user|]Hi[|endofturn|][|assistant|]Yes[|endofturn|]"),
                     TURNS_THERE);
}

static void speakers_tell_where_there_are_no_tags(void **state)
{
    (void)state;
    static const char falcon[] = "{{ 'User: ' + a }}{{ 'Assistant: ' + b + eos_token }}";
    assert_int_equal(find(falcon, plain), TURNS_MISSING);
    assert_int_equal(find(falcon, "User: Hi\nAssistant: Yes"), TURNS_THERE);
    assert_int_equal(find(falcon, "SuperUser: Hi\nUser: Yes"), TURNS_MISSING);
    assert_int_equal(find("{{ 'USER: ' + a }}{{ 'ASSISTANT: ' + b }}", "USER: a text"),
                     TURNS_MISSING);
}

static void a_single_mark_is_enough_alone(void **state)
{
    (void)state;
    static const char composed[] = "{{ '<|' + m['role'] + '|>' + a }}{{ '<|assistant|>' }}";
    assert_int_equal(find(composed, plain), TURNS_MISSING);
    assert_int_equal(find(composed, "<|user|>Hi<|assistant|>Yes"), TURNS_THERE);
}

static void a_template_without_marks_says_nothing(void **state)
{
    (void)state;
    static const char *const templates[] = {"",
                                            "{% for m in messages %}{{ m.content }}{% endfor %}",
                                            "{{ m[a] }}{{ m[0] }} a < b > c [",
                                            "<",
                                            "[|",
                                            "A:",
                                            ":",
                                            "<>",
                                            "<|>"};
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        assert_int_equal(find(templates[i], plain), TURNS_UNKNOWN);
    }
}

/* More tags than are kept, and longer ones. */
static void hostile_templates_are_read(void **state)
{
    (void)state;
    buffer text = {.maximum = 1 << 20};
    for (int i = 0; i < 5000; i++) {
        assert_ok(buffer_format(&text, "<a%d>[|b%d|]", i, i));
    }
    assert_ok(buffer_append_string(&text, "<"));
    for (int i = 0; i < 5000; i++) {
        assert_ok(buffer_append_string(&text, "long"));
    }
    assert_ok(buffer_append_string(&text, ">"));
    assert_int_equal(find((const char *)text.bytes, plain), TURNS_MISSING);
    assert_int_equal(find((const char *)text.bytes, "<a1> [|b2|]"), TURNS_THERE);
    buffer_fini(&text);
}

static void every_failing_allocation_is_survived(void **state)
{
    (void)state;
    tokenizer *t = open_ascii();
    search s = search_of(t, "{{ '[INST] ' + a + ' [/INST]' }}", plain);
    support_fail_each_allocation(look, &s);
    token_windows_fini(&s.windows);
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_that_are_tokens_tell),
        cmocka_unit_test(one_mark_of_several_does_not),
        cmocka_unit_test(what_stands_around_every_text_does_not),
        cmocka_unit_test(tags_of_several_tokens_tell),
        cmocka_unit_test(speakers_tell_where_there_are_no_tags),
        cmocka_unit_test(a_single_mark_is_enough_alone),
        cmocka_unit_test(a_template_without_marks_says_nothing),
        cmocka_unit_test(hostile_templates_are_read),
        cmocka_unit_test(every_failing_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
