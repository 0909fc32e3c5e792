#include "format/chat/conversation.h"

#include <string.h>

/* -- contents ---------------------------------------------------------------------------------- */

static grail_status add_part(const json_t *part, bool is_first, buffer *text)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *bytes = json_string_value(json_object_get(part, "text"));
    if (json_is_string(part)) {
        bytes = json_string_value(part);
    } else if (type == NULL || strcmp(type, "text") != 0 || bytes == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "its content has a part of type \"%s\", expected parts {\"type\": "
                         "\"text\", \"text\": ...}; leave out what is no text",
                         type == NULL ? "(none)" : type);
    }
    CHECK(is_first ? GRAIL_OK : buffer_append(text, "\n", 1));
    return buffer_append_string(text, bytes);
}

/* The content as one text; of parts, joined by line ends. */
static grail_status read_content(const json_t *content, json_t **out)
{
    enum { MOST_BYTES = 1 << 26 };
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, MOST_BYTES);
    if (!json_is_array(content)) {
        FAIL(GRAIL_ERROR_FORMAT, "its content is neither a text nor a list of texts");
    }
    for (size_t i = 0; i < json_array_size(content); i++) {
        TRY(add_part(json_array_get(content, i), i == 0, &text));
    }
    *out = json_stringn_nocheck(text.size == 0 ? "" : (const char *)text.bytes, text.size);
out:
    buffer_fini(&text);
    return status;
}

static grail_status set_content(json_t *message)
{
    json_t *content = json_object_get(message, "content");
    json_t *text = NULL;
    const bool calls_tools = json_array_size(json_object_get(message, "tool_calls")) > 0;
    if (json_is_string(content) || (calls_tools && (content == NULL || json_is_null(content)))) {
        return GRAIL_OK;
    }
    if (content == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "has no \"content\"");
    }
    CHECK(read_content(content, &text));
    return json_put(message, "content", text);
}

/* -- messages ---------------------------------------------------------------------------------- */

/* The role of a speaker, or NULL. */
static const char *role_of(const char *speaker)
{
    static const char *const roles[][2] = {
        {"human", "user"},          {"user", "user"},       {"gpt", "assistant"},
        {"assistant", "assistant"}, {"model", "assistant"}, {"bot", "assistant"},
        {"system", "system"},       {"tool", "tool"},
    };
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(speaker, roles[i][0]) == 0) {
            return roles[i][1];
        }
    }
    return NULL;
}

/* {"from", "value"} as {"role", "content"}. */
static grail_status name_role(json_t *message)
{
    const char *speaker = json_string_value(json_object_get(message, "from"));
    json_t *value = json_object_get(message, "value");
    const char *role = speaker == NULL ? NULL : role_of(speaker);
    if (speaker == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "has no text \"role\" (nor \"from\")");
    }
    if (role == NULL) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is from \"%s\", expected human, user, gpt, assistant, model, bot, system "
                         "or tool; or give a \"role\" and \"content\"",
                         speaker);
    }
    if (value == NULL) {
        return error_set(GRAIL_ERROR_FORMAT, "has no \"value\"");
    }
    CHECK(json_put(message, "role", json_text(role)));
    return json_put(message, "content", json_incref(value));
}

static grail_status read_message(const json_t *given, json_t *messages)
{
    json_t *message = json_copy((json_t *)(uintptr_t)given);
    CHECK(json_push(messages, message));
    if (!json_is_object(message)) {
        return error_set(GRAIL_ERROR_FORMAT,
                         "is no object, expected {\"role\": ..., \"content\": ...}");
    }
    if (!json_is_string(json_object_get(message, "role"))) {
        CHECK(name_role(message));
    }
    return set_content(message);
}

grail_status chat_conversation_read(const json_t *messages, json_t **out)
{
    grail_status status = GRAIL_OK;
    json_t *made = json_array();
    if (made == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "no memory for a conversation");
    }
    if (json_array_size(messages) == 0) {
        FAIL(GRAIL_ERROR_FORMAT, "the conversation has no messages; leave it out");
    }
    for (size_t i = 0; i < json_array_size(messages); i++) {
        TRY(error_in(read_message(json_array_get(messages, i), made), "message %zu", i + 1));
    }
    *out = made;
    made = NULL;
out:
    json_decref(made);
    return status;
}
