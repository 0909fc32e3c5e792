/* What a chat template computes with. A value is small and copied; the texts, lists and objects
 * that it names lie in the memory of the conversation, or of its JSON, and do not change, but for
 * namespaces. */
#ifndef GRAIL_FORMAT_CHAT_VALUE_H
#define GRAIL_FORMAT_CHAT_VALUE_H

#include "base/buffer.h"
#include "base/json.h"
#include "format/chat/memory.h"

typedef enum chat_type {
    CHAT_UNDEFINED,
    CHAT_NONE,
    CHAT_BOOLEAN,
    CHAT_INTEGER,
    CHAT_REAL, /* only of JSON; it can be passed on, not computed with */
    CHAT_STRING,
    CHAT_LIST,
    CHAT_OBJECT,
    CHAT_NAMESPACE, /* an object whose members can be set */
    CHAT_MACRO
} chat_type;

typedef struct chat_text {
    const char *bytes; /* UTF-8, not terminated */
    size_t size;
} chat_text;

typedef struct chat_value {
    chat_type type;
    union {
        bool truth;
        int64_t integer;
        double real;
        chat_text text;
        struct chat_list *list;
        struct chat_object *object; /* of a namespace, too */
        const struct chat_node *macro;
    } as;
} chat_value;

typedef struct chat_list {
    chat_value *items; /* [count] */
    size_t count, capacity;
} chat_list;

typedef struct chat_member {
    chat_text key;
    chat_value value;
} chat_member;

typedef struct chat_object {
    chat_member *members; /* [count], in the order in which they were put */
    size_t count, capacity;
} chat_object;

bool chat_text_equal(chat_text a, chat_text b);
bool chat_text_is(chat_text a, const char *b);
/** Counts the codepoints. */
size_t chat_text_length(chat_text text);
/** Copies bytes into memory. */
grail_status chat_copy_text(chat_memory *m, const void *bytes, size_t size,
                            chat_text *out) GRAIL_MUST_CHECK;

chat_value chat_boolean(bool truth);
chat_value chat_integer(int64_t integer);
chat_value chat_string(const char *bytes, size_t size);
/** A list, or an object, or a namespace without members. */
grail_status chat_new_list(chat_memory *m, chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_new_object(chat_memory *m, chat_type type, chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_push(chat_memory *m, chat_list *list, chat_value value) GRAIL_MUST_CHECK;
/** Adds a member, or sets the one of that key. */
grail_status chat_put(chat_memory *m, chat_object *object, chat_text key,
                      chat_value value) GRAIL_MUST_CHECK;
/** *out is undefined where there is no such member. */
grail_status chat_find(chat_memory *m, const chat_object *object, chat_text key,
                       chat_value *out) GRAIL_MUST_CHECK;

/** A value of JSON, whose texts it borrows. */
grail_status chat_from_json(chat_memory *m, const json_t *json, chat_value *out) GRAIL_MUST_CHECK;

bool chat_is_object(chat_value value); /* or a namespace */
bool chat_truth(chat_value value);
/** For messages: "a text", "a list", ... */
const char *chat_kind_of(chat_value value);
/** What is printed of a value: a text, an integer, True, False, None, nothing of what is undefined.
 * Others are GRAIL_ERROR_UNSUPPORTED. */
grail_status chat_print(chat_memory *m, chat_value value, chat_text *out) GRAIL_MUST_CHECK;
grail_status chat_equal(chat_memory *m, chat_value a, chat_value b, bool *out) GRAIL_MUST_CHECK;

#endif
