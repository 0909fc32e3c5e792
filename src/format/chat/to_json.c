/* The filter tojson, as transformers defines it: json.dumps(ensure_ascii=False). */
#include "format/chat/functions.h"

#include <string.h>

enum { DEEPEST_VALUE = 64, MOST_BYTES = 1 << 26 };

typedef struct json_writer {
    chat_memory *memory;
    buffer out;
    int indent; /* 0: all on one line */
} json_writer;

static grail_status write_value(json_writer *w, chat_value of, int depth);

static grail_status write_text(json_writer *w, chat_text text)
{
    static const char from[] = "\"\\\n\r\t\f\b";
    static const char to[] = "\"\\nrtfb";
    CHECK(chat_work(w->memory, text.size));
    CHECK(buffer_append(&w->out, "\"", 1));
    for (size_t i = 0; i < text.size; i++) {
        const char c = text.bytes[i];
        const char *known = c == 0 ? NULL : strchr(from, c);
        if (known != NULL) {
            CHECK(buffer_format(&w->out, "\\%c", to[known - from]));
        } else if ((unsigned char)c < 0x20) {
            CHECK(buffer_format(&w->out, "\\u%04x", (unsigned)c));
        } else {
            CHECK(buffer_append(&w->out, &c, 1));
        }
    }
    return buffer_append(&w->out, "\"", 1);
}

/* Before an item, or before what closes a list that has some. */
static grail_status begin_item(json_writer *w, bool is_first, bool closes, int depth)
{
    if (!is_first && !closes) {
        CHECK(buffer_append_string(&w->out, w->indent == 0 ? ", " : ","));
    }
    return w->indent == 0 ? GRAIL_OK : buffer_format(&w->out, "\n%*s", w->indent * depth, "");
}

static grail_status write_list(json_writer *w, const chat_list *list, int depth)
{
    CHECK(buffer_append(&w->out, "[", 1));
    for (size_t i = 0; i < list->count; i++) {
        CHECK(begin_item(w, i == 0, false, depth + 1));
        CHECK(write_value(w, list->items[i], depth + 1));
    }
    CHECK(list->count > 0 ? begin_item(w, false, true, depth) : GRAIL_OK);
    return buffer_append(&w->out, "]", 1);
}

static grail_status write_object(json_writer *w, const chat_object *object, int depth)
{
    CHECK(buffer_append(&w->out, "{", 1));
    for (size_t i = 0; i < object->count; i++) {
        CHECK(begin_item(w, i == 0, false, depth + 1));
        CHECK(write_text(w, object->members[i].key));
        CHECK(buffer_append(&w->out, ": ", 2));
        CHECK(write_value(w, object->members[i].value, depth + 1));
    }
    CHECK(object->count > 0 ? begin_item(w, false, true, depth) : GRAIL_OK);
    return buffer_append(&w->out, "}", 1);
}

static grail_status write_value(json_writer *w, chat_value of, int depth)
{
    CHECK(chat_work(w->memory, CHAT_WORK_OF_STEP));
    if (depth == DEEPEST_VALUE) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "tojson of a value more than %d deep",
                         DEEPEST_VALUE);
    }
    switch (of.type) {
    case CHAT_STRING:
        return write_text(w, of.as.text);
    case CHAT_LIST:
        return write_list(w, of.as.list, depth);
    case CHAT_OBJECT:
        return write_object(w, of.as.object, depth);
    case CHAT_INTEGER:
        return buffer_format(&w->out, "%lld", (long long)of.as.integer);
    case CHAT_BOOLEAN:
        return buffer_append_string(&w->out, of.as.truth ? "true" : "false");
    case CHAT_NONE:
        return buffer_append_string(&w->out, "null");
    default:
        return error_set(GRAIL_ERROR_UNSUPPORTED, "tojson of %s is not understood",
                         chat_kind_of(of));
    }
}

grail_status chat_to_json(chat_memory *m, chat_value of, int indent, chat_value *out)
{
    grail_status status = GRAIL_OK;
    chat_text text = {0};
    json_writer w = {.memory = m, .indent = indent};
    buffer_init(&w.out, MOST_BYTES);
    TRY(write_value(&w, of, 0));
    TRY(chat_copy_text(m, w.out.bytes, w.out.size, &text));
    *out = chat_string(text.bytes, text.size);
out:
    buffer_fini(&w.out);
    return status;
}
