#include "format/chat/functions.h"
#include "format/chat/operators.h"

#include <string.h>

chat_value chat_argument(const chat_arguments *arguments, int place, const char *name)
{
    for (int i = 0; i < arguments->count; i++) {
        const chat_text given = arguments->names[i];
        if (given.size > 0 ? chat_text_is(given, name) : i == place) {
            return arguments->values[i];
        }
    }
    return (chat_value){.type = CHAT_UNDEFINED};
}

static grail_status no_method(chat_text name, chat_value of)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "the method '%.*s' of %s is not understood",
                     (int)name.size, name.bytes, chat_kind_of(of));
}

static grail_status wrong_arguments(chat_text name)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED, "these arguments of '%.*s' are not understood",
                     (int)name.size, name.bytes);
}

/* -- spaces ------------------------------------------------------------------------------------ */

/* What Python's str.isspace takes for a space. */
static bool is_space(chat_text c)
{
    static const char *const wide[] = {
        "\xc2\x85", "\xc2\xa0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
        "\u2004",   "\u2005",   "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
        "\u2028",   "\u2029",   "\u202f", "\u205f", "\u3000",
    };
    bool found = c.size == 1 && (c.bytes[0] == ' ' || (c.bytes[0] >= '\t' && c.bytes[0] <= '\r') ||
                                 (c.bytes[0] >= 0x1c && c.bytes[0] <= 0x1f));
    for (size_t i = 0; c.size > 1 && !found && i < sizeof wide / sizeof wide[0]; i++) {
        found = chat_text_is(c, wide[i]);
    }
    return found;
}

/* Whether a codepoint is one of `set`, or a space where that is NULL. */
static bool is_stripped(chat_text c, const chat_text *set)
{
    return set == NULL ? is_space(c) : memmem(set->bytes, set->size, c.bytes, c.size) != NULL;
}

static bool continues(const char *byte)
{
    return ((unsigned char)*byte & 0xC0) == 0x80;
}

static chat_text first_codepoint(chat_text text)
{
    size_t size = 1;
    while (size < text.size && continues(text.bytes + size)) {
        size++;
    }
    return (chat_text){text.bytes, size};
}

static chat_text last_codepoint(chat_text text)
{
    size_t begin = text.size - 1;
    while (begin > 0 && continues(text.bytes + begin)) {
        begin--;
    }
    return (chat_text){text.bytes + begin, text.size - begin};
}

static chat_text strip_begin(chat_text text, const chat_text *set)
{
    while (text.size > 0) {
        const chat_text c = first_codepoint(text);
        if (!is_stripped(c, set)) {
            break;
        }
        text = (chat_text){text.bytes + c.size, text.size - c.size};
    }
    return text;
}

static chat_text strip_end(chat_text text, const chat_text *set)
{
    while (text.size > 0) {
        const chat_text c = last_codepoint(text);
        if (!is_stripped(c, set)) {
            break;
        }
        text.size -= c.size;
    }
    return text;
}

enum { LONGEST_SET = 64 };

/* strip, lstrip and rstrip. */
static grail_status strip(chat_memory *m, chat_value of, chat_text name,
                          const chat_arguments *arguments, chat_value *out)
{
    chat_text text = of.as.text;
    const chat_value given = chat_argument(arguments, 0, "chars");
    const bool has_set = given.type == CHAT_STRING;
    const chat_text *set = has_set ? &given.as.text : NULL;
    if (has_set ? set->size > LONGEST_SET
                : given.type != CHAT_UNDEFINED && given.type != CHAT_NONE) {
        return wrong_arguments(name);
    }
    CHECK(chat_work(m, 4 * text.size));
    text = name.bytes[0] == 'r' ? text : strip_begin(text, set);
    text = name.bytes[0] == 'l' ? text : strip_end(text, set);
    *out = chat_string(text.bytes, text.size);
    return GRAIL_OK;
}

/* -- letters ----------------------------------------------------------------------------------- */

/* upper, lower, capitalize and title. */
static grail_status change_case(chat_memory *m, chat_value of, chat_text name,
                                const chat_arguments *arguments, chat_value *out)
{
    chat_text copy = {0};
    char *bytes = NULL;
    bool upper = !chat_text_is(name, "lower");
    (void)arguments;
    CHECK(chat_copy_text(m, of.as.text.bytes, of.as.text.size, &copy));
    bytes = (char *)(uintptr_t)copy.bytes;
    for (size_t i = 0; i < copy.size; i++) {
        const char c = bytes[i];
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (((unsigned char)c & 0x80) != 0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "'%.*s' of letters outside ASCII is not understood", (int)name.size,
                             name.bytes);
        }
        bytes[i] = (char)(!is_letter ? c : upper ? c & ~0x20 : c | 0x20);
        upper = chat_text_is(name, "upper") || (chat_text_is(name, "title") && !is_letter);
    }
    *out = chat_string(copy.bytes, copy.size);
    return GRAIL_OK;
}

/* startswith and endswith. */
static grail_status has_end(chat_memory *m, chat_value of, chat_text name,
                            const chat_arguments *arguments, chat_value *out)
{
    const chat_text text = of.as.text;
    const chat_value given = chat_argument(arguments, 0, "");
    if (given.type != CHAT_STRING || arguments->count != 1) {
        return wrong_arguments(name);
    }
    const size_t size = given.as.text.size;
    const bool fits = size <= text.size;
    const size_t begin = !fits || name.bytes[0] == 's' ? 0 : text.size - size;
    CHECK(chat_work(m, size));
    *out =
        chat_boolean(fits && chat_text_equal((chat_text){text.bytes + begin, size}, given.as.text));
    return GRAIL_OK;
}

/* -- cutting and joining ----------------------------------------------------------------------- */

static grail_status push_text(chat_memory *m, chat_value list, const char *bytes, size_t size)
{
    CHECK(chat_work(m, CHAT_WORK_OF_STEP));
    return chat_push(m, list.as.list, chat_string(bytes, size));
}

static grail_status split_at(chat_memory *m, chat_text text, chat_text by, int64_t most,
                             chat_value list)
{
    size_t from = 0;
    for (int64_t cuts = 0; cuts != most; cuts++) {
        size_t place = 0;
        CHECK(chat_search(m, text, from, by, &place));
        if (place > text.size) {
            break;
        }
        CHECK(push_text(m, list, text.bytes + from, place - from));
        from = place + by.size;
    }
    return push_text(m, list, text.bytes + from, text.size - from);
}

static grail_status split_words(chat_memory *m, chat_text text, chat_value list)
{
    CHECK(chat_work(m, 2 * text.size));
    for (text = strip_begin(text, NULL); text.size > 0; text = strip_begin(text, NULL)) {
        const char *begin = text.bytes;
        while (text.size > 0 && !is_space(first_codepoint(text))) {
            const size_t size = first_codepoint(text).size;
            text = (chat_text){text.bytes + size, text.size - size};
        }
        CHECK(push_text(m, list, begin, (size_t)(text.bytes - begin)));
    }
    return GRAIL_OK;
}

static grail_status split(chat_memory *m, chat_value of, chat_text name,
                          const chat_arguments *arguments, chat_value *out)
{
    const chat_value by = chat_argument(arguments, 0, "sep");
    const chat_value most = chat_argument(arguments, 1, "maxsplit");
    const bool by_spaces = by.type == CHAT_UNDEFINED || by.type == CHAT_NONE;
    const bool limits = most.type != CHAT_UNDEFINED;
    if ((limits && (most.type != CHAT_INTEGER || by_spaces)) ||
        (!by_spaces && (by.type != CHAT_STRING || by.as.text.size == 0))) {
        return wrong_arguments(name);
    }
    CHECK(chat_new_list(m, out));
    return by_spaces ? split_words(m, of.as.text, *out)
                     : split_at(m, of.as.text, by.as.text, limits ? most.as.integer : -1, *out);
}

/* The elements of a list, all of which must be texts, behind each other. */
static grail_status join_texts(chat_memory *m, const chat_list *list, chat_text between,
                               chat_text name, chat_value *out)
{
    char *bytes = NULL;
    size_t size = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].type != CHAT_STRING) {
            return wrong_arguments(name);
        }
        CHECK(chat_work(m, list->items[i].as.text.size + between.size)); /* bounds the sum, too */
        size += list->items[i].as.text.size + (i > 0 ? between.size : 0);
    }
    CHECK(chat_take(m, &bytes, size, 1));
    *out = chat_string(bytes, size);
    for (size_t i = 0; i < list->count; i++) {
        const chat_text parts[2] = {between, list->items[i].as.text};
        for (int k = i > 0 ? 0 : 1; k < 2; k++) {
            if (parts[k].size > 0) {
                memcpy(bytes, parts[k].bytes, parts[k].size);
                bytes += parts[k].size;
            }
        }
    }
    return GRAIL_OK;
}

/* a.join(list) */
static grail_status join(chat_memory *m, chat_value of, chat_text name,
                         const chat_arguments *arguments, chat_value *out)
{
    const chat_value list = chat_argument(arguments, 0, "");
    return list.type == CHAT_LIST ? join_texts(m, list.as.list, of.as.text, name, out)
                                  : wrong_arguments(name);
}

static grail_status replace(chat_memory *m, chat_value of, chat_text name,
                            const chat_arguments *arguments, chat_value *out)
{
    const chat_value old = chat_argument(arguments, 0, "old");
    const chat_value new = chat_argument(arguments, 1, "new");
    chat_value pieces = {0};
    if (old.type != CHAT_STRING || new.type != CHAT_STRING || old.as.text.size == 0 ||
        arguments->count != 2) {
        return wrong_arguments(name);
    }
    CHECK(chat_new_list(m, &pieces));
    CHECK(split_at(m, of.as.text, old.as.text, -1, pieces));
    return join_texts(m, pieces.as.list, new.as.text, name, out);
}

/* -- objects ----------------------------------------------------------------------------------- */

static grail_status get(chat_memory *m, chat_value of, chat_text name,
                        const chat_arguments *arguments, chat_value *out)
{
    const chat_value key = chat_argument(arguments, 0, "key");
    const chat_value otherwise = chat_argument(arguments, 1, "default");
    if (key.type != CHAT_STRING) {
        return wrong_arguments(name);
    }
    CHECK(chat_find(m, of.as.object, key.as.text, out));
    if (out->type == CHAT_UNDEFINED) {
        *out = otherwise.type == CHAT_UNDEFINED ? (chat_value){.type = CHAT_NONE} : otherwise;
    }
    return GRAIL_OK;
}

/* keys, values and items, each of which is a list of a key and a value. */
static grail_status list_members(chat_memory *m, chat_value of, chat_text name,
                                 const chat_arguments *arguments, chat_value *out)
{
    const chat_object *object = of.as.object;
    (void)arguments;
    CHECK(chat_new_list(m, out));
    for (size_t i = 0; i < object->count; i++) {
        const chat_text key = object->members[i].key;
        chat_value item = chat_string(key.bytes, key.size);
        if (chat_text_is(name, "items")) {
            CHECK(chat_new_list(m, &item));
            CHECK(push_text(m, item, key.bytes, key.size));
            CHECK(chat_push(m, item.as.list, object->members[i].value));
        } else if (chat_text_is(name, "values")) {
            item = object->members[i].value;
        }
        CHECK(chat_push(m, out->as.list, item));
    }
    return GRAIL_OK;
}

/* -- all --------------------------------------------------------------------------------------- */

grail_status chat_method(chat_memory *m, chat_value of, chat_text name,
                         const chat_arguments *arguments, chat_value *out)
{
    static const struct {
        const char *name;
        bool of_text; /* or of objects */
        int most;     /* arguments */
        chat_function function;
    } methods[] = {
        {"strip", true, 1, strip},
        {"lstrip", true, 1, strip},
        {"rstrip", true, 1, strip},
        {"upper", true, 0, change_case},
        {"lower", true, 0, change_case},
        {"capitalize", true, 0, change_case},
        {"title", true, 0, change_case},
        {"startswith", true, 1, has_end},
        {"endswith", true, 1, has_end},
        {"split", true, 2, split},
        {"join", true, 1, join},
        {"replace", true, 2, replace},
        {"get", false, 2, get},
        {"keys", false, 0, list_members},
        {"values", false, 0, list_members},
        {"items", false, 0, list_members},
    };
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const bool fits = methods[i].of_text ? of.type == CHAT_STRING : chat_is_object(of);
        if (fits && chat_text_is(name, methods[i].name)) {
            return arguments->count <= methods[i].most
                       ? methods[i].function(m, of, name, arguments, out)
                       : wrong_arguments(name);
        }
    }
    return no_method(name, of);
}
