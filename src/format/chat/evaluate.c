/* Values of expressions. */
#include "base/utf8.h"
#include "format/chat/limits.h"
#include "format/chat/operators.h"
#include "format/chat/run.h"

#include <string.h>

grail_status chat_step(chat_run *r)
{
    if (++r->depth > CHAT_MOST_NESTED) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "is nested more than %d deep", CHAT_MOST_NESTED);
    }
    return chat_work(r->memory, CHAT_WORK_OF_STEP);
}

grail_status chat_look_up(chat_run *r, chat_text name, chat_value *out)
{
    *out = (chat_value){.type = CHAT_UNDEFINED};
    for (const chat_scope *s = r->scope; s != NULL && out->type == CHAT_UNDEFINED; s = s->outer) {
        CHECK(chat_find(r->memory, &s->names, name, out));
    }
    return GRAIL_OK;
}

grail_status chat_evaluate_truth(chat_run *r, const chat_node *n, bool *out)
{
    chat_value value = {0};
    CHECK(chat_evaluate(r, n, &value));
    *out = chat_truth(value);
    return GRAIL_OK;
}

/* -- calls ------------------------------------------------------------------------------------- */

static grail_status take_arguments(chat_run *r, const chat_node *first, chat_arguments *out)
{
    for (const chat_node *n = first; n != NULL; n = n->next) {
        const bool has_name = n->kind == CHAT_NODE_KEYWORD;
        if (out->count == CHAT_MOST_ARGUMENTS) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "has more than %d arguments",
                             CHAT_MOST_ARGUMENTS);
        }
        CHECK(chat_evaluate(r, has_name ? n->a : n, &out->values[out->count]));
        out->names[out->count++] = has_name ? n->text : (chat_text){0};
    }
    return GRAIL_OK;
}

/* namespace(name=value, ...) */
static grail_status make_namespace(chat_run *r, const chat_arguments *arguments, chat_value *out)
{
    CHECK(chat_new_object(r->memory, CHAT_NAMESPACE, out));
    for (int i = 0; i < arguments->count; i++) {
        if (arguments->names[i].size == 0) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "an argument of 'namespace' without a name is not understood");
        }
        CHECK(chat_put(r->memory, out->as.object, arguments->names[i], arguments->values[i]));
    }
    return GRAIL_OK;
}

static grail_status raise_exception(chat_run *r, const chat_arguments *arguments)
{
    enum { MOST = 400 }; /* bytes of a message */
    chat_text text = {0};
    CHECK(chat_print(r->memory, chat_argument(arguments, 0, "message"), &text));
    const size_t size = utf8_valid_prefix(text.bytes, text.size < MOST ? text.size : MOST);
    return error_set(GRAIL_ERROR_FORMAT, "the template refuses the conversation: %.*s", (int)size,
                     size == 0 ? "" : text.bytes);
}

static grail_status call_name(chat_run *r, chat_text name, const chat_arguments *arguments,
                              chat_value *out)
{
    chat_value found = {0};
    CHECK(chat_look_up(r, name, &found));
    if (found.type == CHAT_MACRO) {
        return r->run_macro(r, found.as.macro, arguments, out);
    }
    if (chat_text_is(name, "namespace")) {
        return make_namespace(r, arguments, out);
    }
    if (chat_text_is(name, "raise_exception")) {
        return raise_exception(r, arguments);
    }
    return error_set(GRAIL_ERROR_UNSUPPORTED, "the function '%.*s' is not understood",
                     (int)name.size, name.bytes);
}

static grail_status evaluate_call(chat_run *r, const chat_node *n, chat_value *out)
{
    const chat_node *what = n->a;
    chat_arguments arguments = {.count = 0};
    chat_value of = {0};
    if (what->kind != CHAT_NODE_NAME && what->kind != CHAT_NODE_ATTRIBUTE) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "a call of a value without a name is not "
                                                  "understood");
    }
    CHECK(what->kind == CHAT_NODE_ATTRIBUTE ? chat_evaluate(r, what->a, &of) : GRAIL_OK);
    CHECK(take_arguments(r, n->b, &arguments));
    return what->kind == CHAT_NODE_NAME ? call_name(r, what->text, &arguments, out)
                                        : chat_method(r->memory, of, what->text, &arguments, out);
}

/* A filter or a test. */
static grail_status evaluate_filter(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_arguments arguments = {.count = 0};
    chat_value of = {0};
    bool holds = false;
    CHECK(chat_evaluate(r, n->a, &of));
    CHECK(take_arguments(r, n->b, &arguments));
    if (n->kind == CHAT_NODE_FILTER) {
        return chat_filter(r->memory, of, n->text, &arguments, out);
    }
    CHECK(chat_test(r->memory, of, n->text, &arguments, &holds));
    *out = chat_boolean(holds);
    return GRAIL_OK;
}

/* -- other expressions ------------------------------------------------------------------------- */

/* `and` and `or` give one of their sides, and may leave the other alone. */
static grail_status evaluate_either(chat_run *r, const chat_node *n, chat_value *out)
{
    CHECK(chat_evaluate(r, n->a, out));
    return chat_truth(*out) == (n->kind == CHAT_NODE_AND) ? chat_evaluate(r, n->b, out) : GRAIL_OK;
}

static grail_status evaluate_binary(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value a = {0};
    chat_value b = {0};
    CHECK(chat_evaluate(r, n->a, &a));
    CHECK(chat_evaluate(r, n->b, &b));
    return chat_binary(r->memory, n->text, a, b, out);
}

static grail_status evaluate_list(chat_run *r, const chat_node *n, chat_value *out)
{
    CHECK(chat_new_list(r->memory, out));
    for (const chat_node *item = n->a; item != NULL; item = item->next) {
        chat_value value = {0};
        CHECK(chat_evaluate(r, item, &value));
        CHECK(chat_push(r->memory, out->as.list, value));
    }
    return GRAIL_OK;
}

static grail_status evaluate_object(chat_run *r, const chat_node *n, chat_value *out)
{
    CHECK(chat_new_object(r->memory, CHAT_OBJECT, out));
    for (const chat_node *item = n->a; item != NULL; item = item->next->next) {
        chat_value key = {0};
        chat_value value = {0};
        CHECK(chat_evaluate(r, item, &key));
        CHECK(chat_evaluate(r, item->next, &value));
        if (key.type != CHAT_STRING) {
            return error_set(GRAIL_ERROR_UNSUPPORTED, "%s is no key of an object; only texts are",
                             chat_kind_of(key));
        }
        CHECK(chat_put(r->memory, out->as.object, key.as.text, value));
    }
    return GRAIL_OK;
}

/* An attribute, an index or a slice. */
static grail_status evaluate_part(chat_run *r, const chat_node *n, chat_value *out)
{
    const chat_node *nodes[3] = {n->b, n->c, n->d};
    chat_value of = {0};
    chat_value bounds[3] = {{0}};
    CHECK(chat_evaluate(r, n->a, &of));
    if (n->kind == CHAT_NODE_ATTRIBUTE) {
        return chat_attribute(r->memory, of, n->text, out);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(nodes[i] == NULL ? GRAIL_OK : chat_evaluate(r, nodes[i], &bounds[i]));
    }
    return n->kind == CHAT_NODE_INDEX ? chat_index(r->memory, of, bounds[0], out)
                                      : chat_slice(r->memory, of, bounds, out);
}

static grail_status evaluate_not(chat_run *r, const chat_node *n, chat_value *out)
{
    bool holds = false;
    CHECK(chat_evaluate_truth(r, n->a, &holds));
    *out = chat_boolean(!holds);
    return GRAIL_OK;
}

static grail_status evaluate_minus(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value value = {0};
    CHECK(chat_evaluate(r, n->a, &value));
    return chat_minus(value, out);
}

/* What an `else` lacks is not defined. */
static grail_status evaluate_choice(chat_run *r, const chat_node *n, chat_value *out)
{
    bool holds = false;
    CHECK(chat_evaluate_truth(r, n->b, &holds));
    const chat_node *chosen = holds ? n->a : n->c;
    return chosen == NULL ? GRAIL_OK : chat_evaluate(r, chosen, out);
}

static grail_status evaluate_kind(chat_run *r, const chat_node *n, chat_value *out)
{
    switch (n->kind) {
    case CHAT_NODE_LITERAL:
        *out = n->value;
        return GRAIL_OK;
    case CHAT_NODE_NAME:
        return chat_look_up(r, n->text, out);
    case CHAT_NODE_LIST:
        return evaluate_list(r, n, out);
    case CHAT_NODE_OBJECT:
        return evaluate_object(r, n, out);
    case CHAT_NODE_ATTRIBUTE:
    case CHAT_NODE_INDEX:
    case CHAT_NODE_SLICE:
        return evaluate_part(r, n, out);
    case CHAT_NODE_CALL:
        return evaluate_call(r, n, out);
    case CHAT_NODE_FILTER:
    case CHAT_NODE_TEST:
        return evaluate_filter(r, n, out);
    case CHAT_NODE_NOT:
        return evaluate_not(r, n, out);
    case CHAT_NODE_MINUS:
        return evaluate_minus(r, n, out);
    case CHAT_NODE_AND:
    case CHAT_NODE_OR:
        return evaluate_either(r, n, out);
    case CHAT_NODE_BINARY:
        return evaluate_binary(r, n, out);
    case CHAT_NODE_CHOICE:
        return evaluate_choice(r, n, out);
    default:
        return error_set(GRAIL_ERROR_UNSUPPORTED, "an argument with a name stands for a value");
    }
}

grail_status chat_evaluate(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_value value = {0};
    grail_status status = chat_step(r);
    status = status == GRAIL_OK ? evaluate_kind(r, n, &value) : status;
    r->depth--;
    r->line = status != GRAIL_OK && r->line == 0 ? n->line : r->line;
    *out = value;
    return status;
}
