/* Any bytes as a chat template and a conversation. The first byte chooses whether an answer begins;
 * the messages follow the template behind a zero byte, or are two plain ones. What is printed is
 * UTF-8, and the same each time. */
#include "fuzz.h"

#include "base/utf8.h"
#include "format/chat/conversation.h"
#include "format/chat/template.h"

#include <string.h>

static const char usual[] = "[{\"role\":\"user\",\"content\":\" Hi \\u00e9\"},"
                            "{\"role\":\"assistant\",\"content\":\"<think>a</think>b\"}]";

static void render_twice(const chat_template *t, const json_t *messages, bool answers)
{
    const chat_context context = {.add_generation_prompt = answers};
    buffer texts[2] = {{0}, {0}};
    grail_status results[2];
    for (int i = 0; i < 2; i++) {
        buffer_init(&texts[i], 1 << 24);
        results[i] = chat_template_render(t, messages, &context, &texts[i]);
    }
    fuzz_require(results[0] == results[1] && texts[0].size == texts[1].size);
    fuzz_require(texts[0].size == 0 || memcmp(texts[0].bytes, texts[1].bytes, texts[0].size) == 0);
    fuzz_require(utf8_valid_prefix(texts[0].bytes, texts[0].size) == texts[0].size);
    buffer_fini(&texts[0]);
    buffer_fini(&texts[1]);
}

static void try_conversation(const chat_template *t, const char *text, size_t size, bool answers)
{
    json_t *given = NULL;
    json_t *messages = NULL;
    if (json_parse("messages", text, size, &given) == GRAIL_OK &&
        chat_conversation_read(given, &messages) == GRAIL_OK) {
        render_twice(t, messages, answers);
    }
    json_decref(messages);
    json_decref(given);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    chat_template *t = NULL;
    if (size == 0) {
        return 0;
    }
    const char *source = (const char *)data + 1;
    const char *end = memchr(source, 0, size - 1);
    const size_t length = end == NULL ? size - 1 : (size_t)(end - source);
    if (chat_template_parse(source, length, &t) != GRAIL_OK) {
        return 0;
    }
    if (end == NULL) {
        try_conversation(t, usual, strlen(usual), data[0] % 2 == 1);
    } else {
        try_conversation(t, end + 1, size - 2 - length, data[0] % 2 == 1);
    }
    chat_template_free(t);
    return 0;
}
