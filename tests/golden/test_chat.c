/* Chat templates against jinja2: the texts of the conversations in chat/, or that both refuse them.
 * make_chat_golden.py made the references. */
#include "support/support.h"

#include "base/file.h"
#include "format/chat/template.h"

#include <stdio.h>
#include <string.h>

#define CHAT GRAIL_SOURCE_DIR "/tests/golden/chat"

static const char *string_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static void parse_file(const char *name, chat_template **out)
{
    char path[1024];
    buffer text = {0};
    snprintf(path, sizeof path, CHAT "/%s", name);
    assert_ok(file_read(path, 1 << 20, &text));
    assert_ok(chat_template_parse((const char *)text.bytes, text.size, out));
    buffer_fini(&text);
}

/* What the template refuses itself has the same message; of what Python refuses, the fact. */
static void compare_refusal(const json_t *entry, grail_status status)
{
    const char *place = strstr(grail_error_message(), "refuses the conversation: ");
    assert_int_not_equal(status, GRAIL_OK);
    if (place != NULL) {
        assert_string_equal(strchr(place, ':') + 2, string_of(entry, "error"));
    }
}

static void compare_entry(const json_t *entry, const json_t *conversations, const json_t *tokens)
{
    buffer out = {0};
    chat_template *t = NULL;
    const json_t *conversation = json_array_get(
        conversations, (size_t)json_integer_value(json_object_get(entry, "conversation")));
    const chat_context context = {
        .tokens = tokens,
        .tools = json_object_get(conversation, "tools"),
        .add_generation_prompt = json_is_true(json_object_get(entry, "prompt")),
    };
    buffer_init(&out, 1 << 20);
    parse_file(string_of(entry, "template"), &t);
    print_message("%s, conversation %d\n", string_of(entry, "template"),
                  (int)json_integer_value(json_object_get(entry, "conversation")));
    const grail_status status =
        chat_template_render(t, json_object_get(conversation, "messages"), &context, &out);
    if (string_of(entry, "text") == NULL) {
        compare_refusal(entry, status);
    } else {
        assert_ok(status);
        assert_string_equal(out.size == 0 ? "" : (const char *)out.bytes, string_of(entry, "text"));
    }
    chat_template_free(t);
    buffer_fini(&out);
}

static void templates_print_what_jinja_prints(void **state)
{
    (void)state;
    json_t *expected = NULL;
    json_t *conversations = NULL;
    json_t *tokens = json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>");
    assert_ok(json_read_file(CHAT "/expected.json", 1 << 20, &expected));
    assert_ok(json_read_file(CHAT "/conversations.json", 1 << 20, &conversations));
    assert_true(json_array_size(expected) > 150);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        compare_entry(json_array_get(expected, i), conversations, tokens);
    }
    json_decref(tokens);
    json_decref(conversations);
    json_decref(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_print_what_jinja_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
