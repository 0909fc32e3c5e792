#include "eval/prompt.h"

#include "arch/model_text.h"
#include "base/option_values.h"
#include "base/utf8.h"

#include <string.h>

enum { LARGEST_PROMPT = 1 << 26 };

/* Adds what somebody says to a conversation. */
static grail_status add_message(const char *field, const char *role, const char *text,
                                json_t *messages)
{
    json_t *message = json_object();
    const size_t valid = utf8_valid_prefix(text, strlen(text));
    CHECK(json_push(messages, message));
    if (valid != strlen(text)) {
        return option_about(
            field, error_set(GRAIL_ERROR_FORMAT, "the %s is not UTF-8 at byte %zu", field, valid));
    }
    CHECK(json_put(message, "role", json_text(role)));
    return json_put(message, "content", json_string_nocheck(text));
}

static grail_status list_messages(const grail_generate_options *o, json_t *messages)
{
    if (o->system != NULL) {
        CHECK(add_message("system", "system", o->system, messages));
    }
    return add_message("prompt", "user", o->prompt, messages);
}

/* A token that ends texts ends answers, too. */
static grail_status find_end(const chat_format *f, const tokenizer *t, int32_t *end)
{
    token_list ids = {0};
    const char *text = chat_format_end(f);
    const grail_status status =
        text == NULL ? GRAIL_OK : tokenizer_encode_conversation(t, text, strlen(text), &ids);
    *end = status == GRAIL_OK && ids.count == 1 ? ids.ids[0] : -1;
    token_list_fini(&ids);
    return status;
}

/* The template writes all special tokens, so none are put around its text. */
static grail_status encode_chat(const grail_model *model, const grail_generate_options *options,
                                const tokenizer *t, token_list *out, int32_t *end)
{
    grail_status status = GRAIL_OK;
    const chat_origin origin = model_chats(model);
    chat_format *f = NULL;
    buffer text = {0};
    json_t *messages = json_array();
    buffer_init(&text, LARGEST_PROMPT);
    if (messages == NULL) {
        FAIL(GRAIL_ERROR_MEMORY, "no memory for a conversation");
    }
    TRY(list_messages(options, messages));
    TRY(option_about("chat", chat_format_open(&origin, &f)));
    TRY(option_about("chat", chat_format_render(f, messages, NULL, true, &text)));
    TRY(tokenizer_encode_conversation(t, text.size == 0 ? "" : (const char *)text.bytes, text.size,
                                      out));
    TRY(find_end(f, t, end));
out:
    chat_format_close(f);
    json_decref(messages);
    buffer_fini(&text);
    return status;
}

grail_status prompt_encode(const grail_model *model, const grail_generate_options *options,
                           const tokenizer *t, token_list *out, int32_t *end)
{
    *end = -1;
    if (options->chat != 0) {
        return encode_chat(model, options, t, out, end);
    }
    if (options->system != NULL) {
        return option_about(
            "system", error_set(GRAIL_ERROR_ARGUMENT, "a system message needs a conversation"));
    }
    return option_about("prompt",
                        tokenizer_encode(t, options->prompt, strlen(options->prompt), true, out));
}
