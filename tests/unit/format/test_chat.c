/* Chat templates: every refusal with its line, the limits that hostile templates meet, where the
 * template of a model is found, and the forms of conversations. tests/golden/test_chat.c compares
 * what is printed with Jinja. */
#include "support/support.h"

#include "format/chat/format.h"
#include "format/chat/limits.h"
#include "format/chat/template.h"
#include "format/gguf/gguf_write.h"

#include <stdio.h>
#include <string.h>

static const char two_turns[] = "[{\"role\":\"user\",\"content\":\"Hi\"},"
                                "{\"role\":\"assistant\",\"content\":\"Yes\"}]";

static json_t *parse_json(const char *text)
{
    json_t *json = NULL;
    assert_ok(json_parse("test", text, strlen(text), &json));
    return json;
}

/* Applies a template to a conversation; *text is valid until the next call. */
static grail_status apply(const char *source, const char *messages, const char **text)
{
    static buffer out;
    grail_status status = GRAIL_OK;
    chat_template *t = NULL;
    json_t *json = parse_json(messages);
    const chat_context context = {.add_generation_prompt = true};
    buffer_fini(&out);
    buffer_init(&out, 1 << 26);
    TRY(chat_template_parse(source, strlen(source), &t));
    TRY(chat_template_render(t, json, &context, &out));
    *text = out.size == 0 ? "" : (const char *)out.bytes;
out:
    chat_template_free(t);
    json_decref(json);
    return status;
}

typedef struct refusal {
    const char *source;
    grail_status status;
    const char *message;
} refusal;

static void check_refusals(const refusal *list, size_t count)
{
    const char *text = NULL;
    for (size_t i = 0; i < count; i++) {
        assert_fails(apply(list[i].source, two_turns, &text), list[i].status, list[i].message);
    }
}

static void what_is_not_understood_is_named_with_its_line(void **state)
{
    (void)state;
    static const refusal list[] = {
        {"a\n{% include 'x' %}", GRAIL_ERROR_UNSUPPORTED, "line 2: found 'include', expected if"},
        {"{% if x %}", GRAIL_ERROR_UNSUPPORTED, "the template ends, expected endif"},
        {"{% for m in messages %}{% endif %}", GRAIL_ERROR_UNSUPPORTED,
         "found 'endif', expected endfor"},
        {"{% endif %}", GRAIL_ERROR_UNSUPPORTED, "nothing is open"},
        {"{{ 1 + }}", GRAIL_ERROR_UNSUPPORTED, "the tag ends, expected a value"},
        {"{{ 1 2 }}", GRAIL_ERROR_UNSUPPORTED, "found '2', expected }}"},
        {"{{ 1", GRAIL_ERROR_UNSUPPORTED, "the template ends, expected }}"},
        {"{{ 'a }}", GRAIL_ERROR_FORMAT, "line 1: a text does not end"},
        {"\n\n{# a", GRAIL_ERROR_FORMAT, "line 3: a comment does not end"},
        {"{{ '\\x41' }}", GRAIL_ERROR_UNSUPPORTED, "no escapes but"},
        {"{{ 1.5 }}", GRAIL_ERROR_UNSUPPORTED, "a whole number"},
        {"{{ 1234567890123456789 }}", GRAIL_ERROR_UNSUPPORTED, "a whole number"},
        {"{{ 1 < 2 < 3 }}", GRAIL_ERROR_UNSUPPORTED, "one comparison"},
        {"{{ 1 not 2 }}", GRAIL_ERROR_UNSUPPORTED, "expected in"},
        {"{{ [1 2] }}", GRAIL_ERROR_UNSUPPORTED, "a comma or a bracket"},
        {"{{ x[] }}", GRAIL_ERROR_UNSUPPORTED, "an index"},
        {"{% break %}", GRAIL_ERROR_UNSUPPORTED, "in a loop alone"},
        {"{% macro f(1) %}{% endmacro %}", GRAIL_ERROR_UNSUPPORTED, "'f' is no name"},
        {"{{ f() }}", GRAIL_ERROR_UNSUPPORTED, "line 1: the function 'f' is not understood"},
        {"{{ strftime_now('%Y') }}", GRAIL_ERROR_UNSUPPORTED, "'strftime_now'"},
        {"{{ messages.pop() }}", GRAIL_ERROR_UNSUPPORTED, "the method 'pop' of a list"},
        {"{{ 'a'.split('') }}", GRAIL_ERROR_UNSUPPORTED, "these arguments of 'split'"},
        {"{{ 'a' | wordwrap }}", GRAIL_ERROR_UNSUPPORTED, "the filter 'wordwrap' of a text"},
        {"{{ 1 is prime }}", GRAIL_ERROR_UNSUPPORTED, "the test 'prime' of an integer"},
        {"{{ 'é' | upper }}", GRAIL_ERROR_UNSUPPORTED, "letters outside ASCII"},
        {"{{ messages }}", GRAIL_ERROR_UNSUPPORTED, "a list cannot be printed"},
        {"{{ 1 / 2 }}", GRAIL_ERROR_UNSUPPORTED, "the operator / is not understood"},
        {"{{ 1 // 0 }}", GRAIL_ERROR_UNSUPPORTED, "1 // 0 has no result"},
        {"{{ 'a' + 1 }}", GRAIL_ERROR_UNSUPPORTED, "a text and an integer"},
        {"{{ {1: 2} }}", GRAIL_ERROR_UNSUPPORTED, "no key of an object"},
        {"{{ x.y }}", GRAIL_ERROR_FORMAT, "asks for 'y' of something that is not defined"},
        {"{% set m.x = 1 %}", GRAIL_ERROR_UNSUPPORTED, "only namespaces can change"},
        {"{% for a, b in messages %}{% endfor %}", GRAIL_ERROR_UNSUPPORTED, "not over pairs"},
        {"{% for a in 1 %}{% endfor %}", GRAIL_ERROR_UNSUPPORTED, "the filter 'list'"},
        {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", GRAIL_ERROR_UNSUPPORTED,
         "has no parameters for some"},
        {"{{ messages[::0] }}", GRAIL_ERROR_UNSUPPORTED, "every 0-th"},
        {"\n{% if true %}\n{{ raise_exception('not so') }}{% endif %}", GRAIL_ERROR_FORMAT,
         "line 3: the template refuses the conversation: not so"},
        {"a\xff", GRAIL_ERROR_FORMAT, "not UTF-8"},
    };
    check_refusals(list, sizeof list / sizeof list[0]);
}

static void hostile_templates_meet_limits(void **state)
{
    (void)state;
    static const refusal list[] = {
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", GRAIL_ERROR_UNSUPPORTED,
         "is nested more than"},
        {"{% set n = namespace(l=[0]) %}{% for a in [0,0,0,0,0,0,0,0,0,0] %}"
         "{% for b in [0,0,0,0] %}{% set n.l = n.l + n.l %}{% endfor %}{% endfor %}",
         GRAIL_ERROR_UNSUPPORTED, "more than the allowed"},
        {"{% set n = namespace(l='ab') %}{% for a in [0,0,0,0,0,0,0,0,0,0] %}"
         "{% for b in [0,0,0,0] %}{% set n.l = n.l ~ n.l %}{% endfor %}{% endfor %}",
         GRAIL_ERROR_UNSUPPORTED, "more than the allowed"},
        /* A list that holds itself twice, sixty times over: compared, it would never end. */
        {"{% set n = namespace(a=[0], b=[0]) %}{% for i in [0,0,0,0,0,0,0,0,0,0] %}"
         "{% for k in [0,0,0,0,0,0] %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}"
         "{% endfor %}{% endfor %}{{ n.a == n.b }}",
         GRAIL_ERROR_UNSUPPORTED, "more than the allowed"},
        {"{% set n = namespace(a=[0]) %}{% for i in [0,0,0,0,0,0,0,0,0,0] %}"
         "{% for k in [0,0,0,0,0,0,0,0,0,0] %}{% set n.a = [n.a] %}{% endfor %}{% endfor %}"
         "{{ n.a | tojson }}",
         GRAIL_ERROR_UNSUPPORTED, "tojson of a value more than 64 deep"},
        {"{% set l = [0,0,0,0,0,0,0,0,0,0] %}{% for a in l %}{% for b in l %}{% for c in l %}"
         "{% for d in l %}{% for e in l %}{% for f in l %}{% for g in l %}{% endfor %}{% endfor %}"
         "{% endfor %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
         GRAIL_ERROR_UNSUPPORTED, "steps of work"},
    };
    check_refusals(list, sizeof list / sizeof list[0]);
}

/* `count` times `unit`, then `end`. */
static char *repeated(const char *begin, const char *unit, size_t count, const char *end)
{
    buffer text = {0};
    buffer_init(&text, 1 << 24);
    assert_ok(buffer_append_string(&text, begin));
    for (size_t i = 0; i < count; i++) {
        assert_ok(buffer_append_string(&text, unit));
    }
    assert_ok(buffer_append_string(&text, end));
    return (char *)text.bytes;
}

static void deep_and_large_sources_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *begin, *unit;
        size_t count;
        const char *end, *message;
    } sources[] = {
        {"{{ ", "(", 100000, "", "is nested more than 64 deep"},
        {"{{ ", "[", 100000, "", "is nested more than 64 deep"},
        {"", "{% if 1 %}", 10000, "", "is nested more than 64 deep"},
        {"{{ 1", " if 0 else 1", 10000, " }}", "is nested more than 64 deep"},
        {"{{ 1", " + 1", 10000, " }}", "is nested more than 512 deep"},
        {"{{ ", "not ", 10000, "1 }}", "is nested more than 512 deep"},
        {"{{ ", "-", 10000, "1 }}", "is nested more than 512 deep"},
        {"{{ 1", " | string", 10000, " }}", "is nested more than 512 deep"},
        {"{% if 0 %}", "{% elif 0 %}", 10000, "{% endif %}", "is nested more than 512 deep"},
        {"", "0123456789abcdef", 1 << 17, "", "more than the allowed"},
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        const char *text = NULL;
        char *source =
            repeated(sources[i].begin, sources[i].unit, sources[i].count, sources[i].end);
        assert_fails(apply(source, two_turns, &text), GRAIL_ERROR_UNSUPPORTED, sources[i].message);
        memory_free(source);
    }
}

static void a_chain_of_conditions_is_not_deep(void **state)
{
    (void)state;
    const char *text = NULL;
    char *source = repeated("{% if 0 %}", "{% elif 0 %}a", 200, "{% else %}b{% endif %}");
    assert_ok(apply(source, two_turns, &text));
    assert_string_equal(text, "b");
    memory_free(source);
}

/* -- where the template is --------------------------------------------------------------------- */

static grail_status render_origin(const chat_origin *origin, const char *messages, buffer *out)
{
    grail_status status = GRAIL_OK;
    chat_format *f = NULL;
    json_t *json = parse_json(messages);
    buffer_init(out, 1 << 20);
    TRY(chat_format_open(origin, &f));
    TRY(chat_format_render(f, json, NULL, false, out));
out:
    chat_format_close(f);
    json_decref(json);
    return status;
}

static void assert_rendered(const chat_origin *origin, const char *expected)
{
    buffer out = {0};
    assert_ok(render_origin(origin, two_turns, &out));
    assert_string_equal((const char *)out.bytes, expected);
    buffer_fini(&out);
}

static void write_text(const char *directory, const char *name, const char *text)
{
    support_write_file(directory, name, text, strlen(text));
}

static void directories_hold_templates_in_three_files(void **state)
{
    const chat_origin origin = {.path = *state};
    buffer out = {0};
    assert_fails(render_origin(&origin, two_turns, &out), GRAIL_ERROR_UNSUPPORTED,
                 "has no chat template");
    write_text(*state, "chat_template.json", "{\"chat_template\":\"json\"}");
    assert_rendered(&origin, "json");
    write_text(*state, "tokenizer_config.json",
               "{\"model_max_length\":1000000000000000019884624838656,\"bos_token\":{\"content\":"
               "\"<b>\"},\"eos_token\":\"<e>\",\"pad_token\":null,\"chat_template\":[{\"name\":"
               "\"tool_use\",\"template\":\"t\"},{\"name\":\"default\",\"template\":\"{{ bos_token "
               "}}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}\"}]}");
    assert_rendered(&origin, "<b>Hi<e>False");
    write_text(*state, "special_tokens_map.json", "{\"bos_token\":\"no\",\"pad_token\":\"<p>\"}");
    write_text(*state, "chat_template.jinja", "{{ pad_token }}{{ bos_token }}{{ x }}\n");
    assert_rendered(&origin, "<p><b>");
    write_text(*state, "chat_template.jinja", "\n{% call %}");
    assert_fails(render_origin(&origin, two_turns, &out), GRAIL_ERROR_UNSUPPORTED,
                 "chat_template.jinja: line 2: found 'call'");
    assert_fails(render_origin(&origin, two_turns, &out), GRAIL_ERROR_UNSUPPORTED,
                 "apply the template with the model's own library");
    support_write_file(*state, "chat_template.jinja", "a\0b", 3);
    assert_fails(render_origin(&origin, two_turns, &out), GRAIL_ERROR_FORMAT, "a zero byte");
    buffer_fini(&out);
}

static void gguf_files_hold_the_template_as_a_key(void **state)
{
    (void)state;
    gguf_pairs pairs = {0};
    tensor_file *file = NULL;
    buffer image = {0};
    gguf_pairs_init(&pairs);
    buffer_init(&image, 1 << 16);
    assert_ok(gguf_put_text(&pairs, "tokenizer.chat_template",
                            "{{ bos_token }}{{ messages[1].content }}{{ eos_token is defined }}"));
    assert_ok(gguf_put_integer(&pairs, "tokenizer.ggml.bos_token_id", GGUF_U32, 1));
    assert_ok(gguf_put_integer(&pairs, "tokenizer.ggml.eos_token_id", GGUF_U32, 7));
    assert_ok(gguf_put_array(&pairs, "tokenizer.ggml.tokens", GGUF_TEXT, 2));
    assert_ok(gguf_append_text(&pairs, "a", 1));
    assert_ok(gguf_append_text(&pairs, "<s>", 3));
    const uint32_t version = 3;
    const uint64_t tensors = 0;
    assert_ok(buffer_append(&image, "GGUF", 4));
    assert_ok(buffer_append(&image, &version, sizeof version));
    assert_ok(buffer_append(&image, &tensors, sizeof tensors));
    assert_ok(buffer_append(&image, &pairs.count, sizeof pairs.count));
    assert_ok(buffer_append(&image, pairs.bytes.bytes, pairs.bytes.size));
    assert_ok(gguf_open_bytes("x.gguf", image.bytes, image.size, &file));
    const chat_origin origin = {.path = "x.gguf", .gguf = gguf_metadata_of(file)};
    assert_rendered(&origin, "<s>YesFalse");
    tensor_file_close(file);
    gguf_pairs_fini(&pairs);
    buffer_fini(&image);
}

/* -- conversations ----------------------------------------------------------------------------- */

static const char plain_template[] =
    "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";

static void conversations_have_roles_or_speakers(void **state)
{
    const chat_origin origin = {.path = *state};
    buffer out = {0};
    write_text(*state, "chat_template.jinja", plain_template);
    assert_ok(
        render_origin(&origin,
                      "[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"},"
                      "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"c\"},\"d\"]},"
                      "{\"role\":\"assistant\",\"tool_calls\":[{}]}]",
                      &out));
    assert_string_equal((const char *)out.bytes, "user:a;assistant:b;user:c\nd;assistant:;");
    buffer_fini(&out);
}

static void conversations_without_texts_are_refused(void **state)
{
    const chat_origin origin = {.path = *state};
    static const refusal list[] = {
        {"[]", GRAIL_ERROR_FORMAT, "has no messages"},
        {"[1]", GRAIL_ERROR_FORMAT, "message 1: is no object"},
        {"[{\"role\":\"user\",\"content\":\"a\"},{\"content\":\"b\"}]", GRAIL_ERROR_FORMAT,
         "message 2: has no text \"role\""},
        {"[{\"role\":\"user\"}]", GRAIL_ERROR_FORMAT, "has no \"content\""},
        {"[{\"role\":\"user\",\"content\":null}]", GRAIL_ERROR_FORMAT, "neither a text"},
        {"[{\"role\":\"user\",\"content\":7}]", GRAIL_ERROR_FORMAT, "neither a text"},
        {"[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]", GRAIL_ERROR_FORMAT,
         "a part of type \"image_url\""},
        {"[{\"role\":\"user\",\"content\":[7]}]", GRAIL_ERROR_FORMAT, "a part of type \"(none)\""},
        {"[{\"from\":\"someone\",\"value\":\"a\"}]", GRAIL_ERROR_FORMAT, "is from \"someone\""},
        {"[{\"from\":\"gpt\"}]", GRAIL_ERROR_FORMAT, "has no \"value\""},
    };
    write_text(*state, "chat_template.jinja", plain_template);
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        buffer out = {0};
        assert_fails(render_origin(&origin, list[i].source, &out), list[i].status, list[i].message);
        buffer_fini(&out);
    }
}

/* -- memory ------------------------------------------------------------------------------------ */

static grail_status render_all(void *context)
{
    buffer out = {0};
    chat_format *f = NULL;
    json_t *json = parse_json(two_turns);
    const chat_origin origin = {.path = context};
    grail_status status = GRAIL_OK;
    buffer_init(&out, 1 << 20);
    TRY(chat_format_open(&origin, &f));
    TRY(chat_format_render(f, json, NULL, true, &out));
out:
    chat_format_close(f);
    json_decref(json);
    buffer_fini(&out);
    return status;
}

static void every_failing_allocation_is_survived(void **state)
{
    write_text(*state, "tokenizer_config.json", "{\"bos_token\":\"<b>\"}");
    write_text(*state, "chat_template.jinja",
               "{% macro f(x) %}{{ x | tojson }}{% endmacro %}{% set n = namespace(a=[]) %}"
               "{% for m in messages %}{% set n.a = n.a + [m.content.split('i')] %}{% set c %}"
               "{{ f(m) }}{% endset %}{{ c | replace('a', 'bb') }}{% endfor %}{{ n.a | length }}");
    support_fail_each_allocation(render_all, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_understood_is_named_with_its_line),
        cmocka_unit_test(hostile_templates_meet_limits),
        cmocka_unit_test(deep_and_large_sources_are_refused),
        cmocka_unit_test(a_chain_of_conditions_is_not_deep),
        cmocka_unit_test_setup_teardown(directories_hold_templates_in_three_files,
                                        support_open_directory, support_close_directory),
        cmocka_unit_test(gguf_files_hold_the_template_as_a_key),
        cmocka_unit_test_setup_teardown(conversations_have_roles_or_speakers,
                                        support_open_directory, support_close_directory),
        cmocka_unit_test_setup_teardown(conversations_without_texts_are_refused,
                                        support_open_directory, support_close_directory),
        cmocka_unit_test_setup_teardown(every_failing_allocation_is_survived,
                                        support_open_directory, support_close_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
