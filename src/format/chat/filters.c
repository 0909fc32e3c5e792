#include "format/chat/functions.h"
#include "format/chat/operators.h"

#include <string.h>

static grail_status not_of(const char *what, chat_text name, chat_value of)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "the %s '%.*s' of %s, with these arguments, is not understood", what,
                     (int)name.size, name.bytes, chat_kind_of(of));
}

/* -- tests ------------------------------------------------------------------------------------- */

/* Tests that look at one value. */
static bool test_kind(chat_value of, chat_text name, bool *out)
{
    const bool is_text = of.type == CHAT_STRING;
    const bool is_whole = of.type == CHAT_INTEGER;
    const bool is_number = is_whole || of.type == CHAT_BOOLEAN || of.type == CHAT_REAL;
    const bool has_items = is_text || of.type == CHAT_LIST || chat_is_object(of);
    const struct {
        const char *name;
        bool holds;
    } tests[] = {
        {"defined", of.type != CHAT_UNDEFINED},
        {"undefined", of.type == CHAT_UNDEFINED},
        {"none", of.type == CHAT_NONE},
        {"string", is_text},
        {"mapping", of.type == CHAT_OBJECT},
        {"iterable", has_items || of.type == CHAT_UNDEFINED},
        {"sequence", has_items || of.type == CHAT_UNDEFINED},
        {"boolean", of.type == CHAT_BOOLEAN},
        {"true", of.type == CHAT_BOOLEAN && of.as.truth},
        {"false", of.type == CHAT_BOOLEAN && !of.as.truth},
        {"integer", is_whole},
        {"float", of.type == CHAT_REAL},
        {"number", is_number},
        {"odd", is_whole && of.as.integer % 2 != 0},
        {"even", is_whole && of.as.integer % 2 == 0},
    };
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (chat_text_is(name, tests[i].name)) {
            *out = tests[i].holds;
            return true;
        }
    }
    return false;
}

/* The operator that a test is, or "". */
static const char *operator_of(chat_text name)
{
    static const char *const operators[][2] = {
        {"eq", "=="}, {"equalto", "=="}, {"ne", "!="}, {"in", "in"}};
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        if (chat_text_is(name, operators[i][0])) {
            return operators[i][1];
        }
    }
    return "";
}

grail_status chat_test(chat_memory *m, chat_value of, chat_text name,
                       const chat_arguments *arguments, bool *out)
{
    chat_value result = {0};
    const chat_value with = chat_argument(arguments, 0, "");
    const char *sign = operator_of(name);
    if (arguments->count == 0 && test_kind(of, name, out)) {
        return GRAIL_OK;
    }
    if (arguments->count == 1 && sign[0] != 0) {
        CHECK(chat_binary(m, (chat_text){sign, strlen(sign)}, of, with, &result));
        *out = chat_truth(result);
        return GRAIL_OK;
    }
    if (chat_text_is(name, "divisibleby") && of.type == CHAT_INTEGER && with.type == CHAT_INTEGER &&
        with.as.integer > 0) {
        *out = of.as.integer % with.as.integer == 0;
        return GRAIL_OK;
    }
    return not_of("test", name, of);
}

/* -- filters of one value ---------------------------------------------------------------------- */

static grail_status use_default(chat_memory *m, chat_value of, chat_text name,
                                const chat_arguments *arguments, chat_value *out)
{
    const chat_value otherwise = chat_argument(arguments, 0, "default_value");
    const bool when_false = chat_truth(chat_argument(arguments, 1, "boolean"));
    (void)m;
    (void)name;
    const bool given = when_false ? chat_truth(of) : of.type != CHAT_UNDEFINED;
    *out = given ? of : otherwise.type == CHAT_UNDEFINED ? chat_string("", 0) : otherwise;
    return GRAIL_OK;
}

/* Filters that print what they get, and are methods of texts. */
static grail_status as_method(chat_memory *m, chat_value of, chat_text name,
                              const chat_arguments *arguments, chat_value *out)
{
    chat_text text = {0};
    CHECK(chat_print(m, of, &text));
    of = chat_string(text.bytes, text.size);
    if (chat_text_is(name, "string")) {
        *out = of;
        return GRAIL_OK;
    }
    return chat_method(m, of, chat_text_is(name, "trim") ? (chat_text){"strip", 5} : name,
                       arguments, out);
}

static grail_status measure(chat_memory *m, chat_value of, chat_text name,
                            const chat_arguments *arguments, chat_value *out)
{
    size_t size = 0;
    (void)arguments;
    if (of.type == CHAT_STRING) {
        CHECK(chat_work(m, of.as.text.size));
        size = chat_text_length(of.as.text);
    } else if (of.type == CHAT_LIST) {
        size = of.as.list->count;
    } else if (of.type == CHAT_OBJECT) {
        size = of.as.object->count;
    } else if (of.type != CHAT_UNDEFINED) {
        return not_of("filter", name, of);
    }
    *out = chat_integer((int64_t)size);
    return GRAIL_OK;
}

/* first and last */
static grail_status take_end(chat_memory *m, chat_value of, chat_text name,
                             const chat_arguments *arguments, chat_value *out)
{
    (void)arguments;
    *out = (chat_value){.type = CHAT_UNDEFINED};
    if (of.type == CHAT_UNDEFINED) {
        return GRAIL_OK;
    }
    if (of.type != CHAT_STRING && of.type != CHAT_LIST) {
        return not_of("filter", name, of);
    }
    return chat_index(m, of, chat_integer(name.bytes[0] == 'f' ? 0 : -1), out);
}

/* list and items */
static grail_status as_list(chat_memory *m, chat_value of, chat_text name,
                            const chat_arguments *arguments, chat_value *out)
{
    const bool of_pairs = chat_text_is(name, "items");
    if (of.type == CHAT_UNDEFINED) {
        return chat_new_list(m, out);
    }
    if (of.type == CHAT_OBJECT) {
        return chat_method(m, of, of_pairs ? name : (chat_text){"keys", 4}, arguments, out);
    }
    *out = of;
    return of.type == CHAT_LIST && !of_pairs ? GRAIL_OK : not_of("filter", name, of);
}

static grail_status write_json(chat_memory *m, chat_value of, chat_text name,
                               const chat_arguments *arguments, chat_value *out)
{
    enum { MOST_INDENT = 16 };
    const chat_value indent = chat_argument(arguments, MOST_INDENT, "indent"); /* never by place */
    const bool fits =
        indent.type == CHAT_UNDEFINED || indent.type == CHAT_NONE ||
        (indent.type == CHAT_INTEGER && indent.as.integer > 0 && indent.as.integer <= MOST_INDENT);
    if (!fits || arguments->count > (indent.type == CHAT_UNDEFINED ? 0 : 1)) {
        return not_of("filter", name, of);
    }
    return chat_to_json(m, of, indent.type == CHAT_INTEGER ? (int)indent.as.integer : 0, out);
}

/* -- filters of lists -------------------------------------------------------------------------- */

/* Elements are printed before they are joined. */
static grail_status join(chat_memory *m, chat_value of, chat_text name,
                         const chat_arguments *arguments, chat_value *out)
{
    const chat_value between = chat_argument(arguments, 0, "d");
    chat_arguments texts = {.count = 1};
    if ((of.type != CHAT_LIST && of.type != CHAT_UNDEFINED) ||
        (between.type != CHAT_STRING && between.type != CHAT_UNDEFINED)) {
        return not_of("filter", name, of);
    }
    CHECK(chat_new_list(m, &texts.values[0]));
    for (size_t i = 0; of.type == CHAT_LIST && i < of.as.list->count; i++) {
        chat_text text = {0};
        CHECK(chat_print(m, of.as.list->items[i], &text));
        CHECK(chat_push(m, texts.values[0].as.list, chat_string(text.bytes, text.size)));
    }
    return chat_method(m, between.type == CHAT_STRING ? between : chat_string("", 0), name, &texts,
                       out);
}

/* map(attribute="name") */
static grail_status map(chat_memory *m, chat_value of, chat_text name,
                        const chat_arguments *arguments, chat_value *out)
{
    const chat_value attribute = chat_argument(arguments, CHAT_MOST_ARGUMENTS, "attribute");
    if (of.type != CHAT_LIST || attribute.type != CHAT_STRING || arguments->count != 1) {
        return not_of("filter", name, of);
    }
    CHECK(chat_new_list(m, out));
    for (size_t i = 0; i < of.as.list->count; i++) {
        chat_value part = {0};
        CHECK(chat_attribute(m, of.as.list->items[i], attribute.as.text, &part));
        CHECK(chat_push(m, out->as.list, part));
    }
    return GRAIL_OK;
}

/* Whether an element passes the test that selectattr names behind the attribute; without one it
 * must be true. */
static grail_status passes(chat_memory *m, chat_value part, const chat_arguments *arguments,
                           bool *out)
{
    chat_arguments with = {.count = arguments->count > 2 ? 1 : 0, .values = {arguments->values[2]}};
    const chat_value test = chat_argument(arguments, 1, "");
    *out = chat_truth(part);
    if (test.type == CHAT_UNDEFINED) {
        return GRAIL_OK;
    }
    return chat_test(m, part, test.as.text, &with, out);
}

/* selectattr and rejectattr */
static grail_status choose(chat_memory *m, chat_value of, chat_text name,
                           const chat_arguments *arguments, chat_value *out)
{
    const chat_value attribute = chat_argument(arguments, 0, "");
    const chat_value test = chat_argument(arguments, 1, "");
    const bool keeps = name.bytes[0] == 's';
    if (of.type != CHAT_LIST || attribute.type != CHAT_STRING ||
        (test.type != CHAT_STRING && test.type != CHAT_UNDEFINED)) {
        return not_of("filter", name, of);
    }
    CHECK(chat_new_list(m, out));
    for (size_t i = 0; i < of.as.list->count; i++) {
        chat_value part = {0};
        bool passed = false;
        CHECK(chat_attribute(m, of.as.list->items[i], attribute.as.text, &part));
        CHECK(passes(m, part, arguments, &passed));
        CHECK(passed == keeps ? chat_push(m, out->as.list, of.as.list->items[i]) : GRAIL_OK);
    }
    return GRAIL_OK;
}

/* -- all --------------------------------------------------------------------------------------- */

grail_status chat_filter(chat_memory *m, chat_value of, chat_text name,
                         const chat_arguments *arguments, chat_value *out)
{
    static const struct {
        const char *name;
        int most; /* arguments */
        chat_function function;
    } filters[] = {
        {"default", 2, use_default},  {"d", 2, use_default},     {"trim", 1, as_method},
        {"upper", 0, as_method},      {"lower", 0, as_method},   {"title", 0, as_method},
        {"capitalize", 0, as_method}, {"replace", 2, as_method}, {"string", 0, as_method},
        {"length", 0, measure},       {"count", 0, measure},     {"first", 0, take_end},
        {"last", 0, take_end},        {"list", 0, as_list},      {"items", 0, as_list},
        {"tojson", 2, write_json},    {"join", 1, join},         {"map", 1, map},
        {"selectattr", 3, choose},    {"rejectattr", 3, choose},
    };
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        if (chat_text_is(name, filters[i].name) && arguments->count <= filters[i].most) {
            return filters[i].function(m, of, name, arguments, out);
        }
    }
    return not_of("filter", name, of);
}
