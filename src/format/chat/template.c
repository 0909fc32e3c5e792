/* Walks over the statements of a template. */
#include "format/chat/template.h"

#include "base/utf8.h"
#include "format/chat/run.h"

#include <string.h>

struct chat_template {
    chat_memory memory; /* of its source and its nodes */
    chat_node *first;
};

static grail_status run_statements(chat_run *r, const chat_node *first);

/* -- simple statements ------------------------------------------------------------------------- */

static grail_status print(chat_run *r, chat_text text)
{
    CHECK(chat_work(r->memory, text.size));
    return buffer_append(r->out, text.bytes, text.size);
}

static grail_status run_output(chat_run *r, const chat_node *n)
{
    chat_value value = {0};
    chat_text text = {0};
    CHECK(chat_evaluate(r, n->a, &value));
    CHECK(chat_print(r->memory, value, &text));
    return print(r, text);
}

static grail_status run_if(chat_run *r, const chat_node *n)
{
    bool holds = false;
    CHECK(chat_evaluate_truth(r, n->a, &holds));
    return run_statements(r, holds ? n->b : n->c);
}

/* What the statements print, as a text. */
static grail_status capture(chat_run *r, const chat_node *first, chat_value *out)
{
    grail_status status = GRAIL_OK;
    chat_text text = {0};
    buffer captured = {0};
    buffer *outer = r->out;
    buffer_init(&captured, outer->maximum);
    r->out = &captured;
    TRY(run_statements(r, first));
    TRY(chat_copy_text(r->memory, captured.bytes, captured.size, &text));
    *out = chat_string(text.bytes, text.size);
out:
    r->out = outer;
    buffer_fini(&captured);
    return status;
}

static grail_status run_set(chat_run *r, const chat_node *n)
{
    chat_value value = {0};
    chat_value of = {0};
    CHECK(n->b == NULL ? capture(r, n->d, &value) : chat_evaluate(r, n->b, &value));
    if (n->a->kind == CHAT_NODE_NAME) {
        return chat_put(r->memory, &r->scope->names, n->a->text, value);
    }
    CHECK(chat_look_up(r, n->a->a->text, &of));
    if (of.type != CHAT_NAMESPACE) {
        return error_set(GRAIL_ERROR_UNSUPPORTED,
                         "sets a member of '%.*s', which is %s; only namespaces can change",
                         (int)n->a->a->text.size, n->a->a->text.bytes, chat_kind_of(of));
    }
    return chat_put(r->memory, of.as.object, n->a->text, value);
}

static grail_status define_macro(chat_run *r, const chat_node *n)
{
    return chat_put(r->memory, &r->scope->names, n->text,
                    (chat_value){.type = CHAT_MACRO, .as.macro = n});
}

/* -- macros ------------------------------------------------------------------------------------ */

/* The value of a parameter: its argument, else its usual value. */
static grail_status bind_parameter(chat_run *r, const chat_node *n, int place,
                                   const chat_arguments *arguments, int *used)
{
    chat_value value = {0};
    bool found = false;
    for (int i = 0; i < arguments->count && !found; i++) {
        const chat_text name = arguments->names[i];
        found = name.size > 0 ? chat_text_equal(name, n->text) : i == place;
        value = found ? arguments->values[i] : value;
    }
    *used += found ? 1 : 0;
    CHECK(!found && n->a != NULL ? chat_evaluate(r, n->a, &value) : GRAIL_OK);
    return chat_put(r->memory, &r->scope->names, n->text, value);
}

static grail_status bind_parameters(chat_run *r, const chat_node *macro,
                                    const chat_arguments *arguments)
{
    int place = 0;
    int used = 0;
    for (const chat_node *n = macro->a; n != NULL; n = n->next) {
        CHECK(bind_parameter(r, n, place++, arguments, &used));
    }
    return used == arguments->count
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED,
                           "the macro '%.*s' has no parameters for some of its arguments",
                           (int)macro->text.size, macro->text.bytes);
}

/* A macro knows the names of the conversation, and its own. */
static grail_status run_macro(chat_run *r, const chat_node *macro, const chat_arguments *arguments,
                              chat_value *out)
{
    chat_scope *outer = r->scope;
    chat_scope scope = {.outer = r->global};
    r->scope = &scope;
    grail_status status = bind_parameters(r, macro, arguments);
    status = status == GRAIL_OK ? capture(r, macro->b, out) : status;
    r->scope = outer;
    return status;
}

/* -- loops ------------------------------------------------------------------------------------- */

/* Gives the names of a loop the next element. */
static grail_status bind_element(chat_run *r, const chat_node *n, chat_value element)
{
    chat_object *names = &r->scope->names;
    if (n->d == NULL) {
        return chat_put(r->memory, names, n->text, element);
    }
    if (element.type != CHAT_LIST || element.as.list->count != 2) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "a loop of two names over %s, not over pairs",
                         chat_kind_of(element));
    }
    CHECK(chat_put(r->memory, names, n->text, element.as.list->items[0]));
    return chat_put(r->memory, names, n->d->text, element.as.list->items[1]);
}

/* The elements that a loop goes over: those of a list, or the keys of an object. */
static grail_status list_of(chat_run *r, const chat_node *n, chat_value *out)
{
    chat_arguments none = {.count = 0};
    chat_value of = {0};
    CHECK(chat_evaluate(r, n->a, &of));
    return chat_filter(r->memory, of, (chat_text){"list", 4}, &none, out);
}

/* Leaves out the elements for which the condition of the loop does not hold. */
static grail_status select_elements(chat_run *r, const chat_node *n, chat_value *list)
{
    chat_value kept = {0};
    CHECK(chat_new_list(r->memory, &kept));
    for (size_t i = 0; i < list->as.list->count; i++) {
        bool holds = false;
        CHECK(bind_element(r, n, list->as.list->items[i]));
        CHECK(chat_evaluate_truth(r, n->e, &holds));
        CHECK(holds ? chat_push(r->memory, kept.as.list, list->as.list->items[i]) : GRAIL_OK);
    }
    *list = kept;
    return GRAIL_OK;
}

/* Sets what `loop` knows in round i of a loop. */
static grail_status describe_loop(chat_run *r, const chat_list *list, size_t i, chat_object *loop)
{
    const chat_value undefined = {.type = CHAT_UNDEFINED};
    const int64_t index = (int64_t)i;
    const int64_t count = (int64_t)list->count;
    const struct {
        const char *name;
        chat_value value;
    } members[] = {
        {"index0", chat_integer(index)},
        {"index", chat_integer(index + 1)},
        {"revindex0", chat_integer(count - index - 1)},
        {"revindex", chat_integer(count - index)},
        {"first", chat_boolean(i == 0)},
        {"last", chat_boolean(index + 1 == count)},
        {"length", chat_integer(count)},
        {"previtem", i > 0 ? list->items[i - 1] : undefined},
        {"nextitem", index + 1 < count ? list->items[i + 1] : undefined},
    };
    for (size_t k = 0; k < sizeof members / sizeof members[0]; k++) {
        CHECK(chat_put(r->memory, loop, (chat_text){members[k].name, strlen(members[k].name)},
                       members[k].value));
    }
    return GRAIL_OK;
}

static grail_status run_rounds(chat_run *r, const chat_node *n, const chat_list *list)
{
    chat_value loop = {0};
    CHECK(chat_new_object(r->memory, CHAT_OBJECT, &loop));
    for (size_t i = 0; i < list->count && r->jump != JUMP_BREAK; i++) {
        r->scope->names.count = 0; /* what a round sets ends with it */
        r->jump = JUMP_NONE;
        CHECK(describe_loop(r, list, i, loop.as.object));
        CHECK(chat_put(r->memory, &r->scope->names, (chat_text){"loop", 4}, loop));
        CHECK(bind_element(r, n, list->items[i]));
        CHECK(run_statements(r, n->b));
    }
    r->jump = JUMP_NONE;
    return GRAIL_OK;
}

static grail_status run_for(chat_run *r, const chat_node *n)
{
    grail_status status = GRAIL_OK;
    chat_value list = {0};
    chat_scope *outer = r->scope;
    chat_scope scope = {.outer = outer};
    TRY(list_of(r, n, &list));
    r->scope = &scope;
    if (n->e != NULL) {
        TRY(select_elements(r, n, &list));
    }
    if (list.as.list->count > 0) {
        TRY(run_rounds(r, n, list.as.list));
    } else {
        TRY(run_statements(r, n->c));
    }
out:
    r->scope = outer;
    return status;
}

/* -- all statements ---------------------------------------------------------------------------- */

static grail_status run_statement(chat_run *r, const chat_node *n)
{
    switch (n->kind) {
    case CHAT_NODE_TEXT:
        return print(r, n->text);
    case CHAT_NODE_OUTPUT:
        return run_output(r, n);
    case CHAT_NODE_IF:
        return run_if(r, n);
    case CHAT_NODE_FOR:
        return run_for(r, n);
    case CHAT_NODE_SET:
        return run_set(r, n);
    case CHAT_NODE_MACRO:
        return define_macro(r, n);
    case CHAT_NODE_GROUP:
        return run_statements(r, n->b);
    default:
        r->jump = n->kind == CHAT_NODE_BREAK ? JUMP_BREAK : JUMP_CONTINUE;
        return GRAIL_OK;
    }
}

static grail_status run_statements(chat_run *r, const chat_node *first)
{
    grail_status status = GRAIL_OK;
    for (const chat_node *n = first; n != NULL && status == GRAIL_OK && r->jump == JUMP_NONE;
         n = n->next) {
        status = chat_step(r);
        status = status == GRAIL_OK ? run_statement(r, n) : status;
        r->depth--;
        r->line = status != GRAIL_OK && r->line == 0 ? n->line : r->line;
    }
    return status;
}

/* -- reading and applying ---------------------------------------------------------------------- */

/* Every kind of line end becomes "\n", and the last one is left out, as Jinja does. */
static grail_status copy_source(chat_memory *m, const char *text, size_t size, chat_text *out)
{
    char *bytes = NULL;
    size_t count = 0;
    CHECK(chat_take(m, &bytes, size, 1));
    for (size_t i = 0; i < size; i++) {
        const bool is_pair = text[i] == '\r' && i + 1 < size && text[i + 1] == '\n';
        bytes[count++] = text[i] == '\r' ? '\n' : text[i];
        i += is_pair ? 1 : 0;
    }
    count -= count > 0 && bytes[count - 1] == '\n' ? 1 : 0;
    *out = (chat_text){bytes, count};
    return GRAIL_OK;
}

grail_status chat_template_parse(const char *text, size_t size, chat_template **out)
{
    grail_status status = GRAIL_OK;
    chat_template *t = NULL;
    chat_text source = {0};
    chat_parser p = {.depth = 0};
    if (size > CHAT_LARGEST_TEMPLATE) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "has %zu bytes, more than the allowed %d", size,
             CHAT_LARGEST_TEMPLATE);
    }
    if (utf8_valid_prefix(text, size) != size || memchr(text, 0, size) != NULL) {
        FAIL(GRAIL_ERROR_FORMAT, "is not UTF-8, or holds a zero byte");
    }
    TRY(memory_new(&t, 1, sizeof *t));
    TRY(copy_source(&t->memory, text, size, &source));
    p.memory = &t->memory;
    p.lexer = chat_lexer_of(source);
    TRY(chat_parse_template(&p, &t->first));
    *out = t;
    t = NULL;
out:
    chat_template_free(t);
    return status;
}

void chat_template_free(chat_template *t)
{
    if (t != NULL) {
        chat_memory_fini(&t->memory);
        memory_free(t);
    }
}

static grail_status define_json(chat_run *r, const char *name, const json_t *json)
{
    chat_value value = {.type = CHAT_NONE};
    CHECK(json == NULL ? GRAIL_OK : chat_from_json(r->memory, json, &value));
    return chat_put(r->memory, &r->global->names, (chat_text){name, strlen(name)}, value);
}

/* The names that transformers gives where a caller gives no others. */
static grail_status define(chat_run *r, const json_t *messages, const chat_context *context)
{
    const char *name = NULL;
    json_t *token = NULL;
    json_object_foreach ((json_t *)(uintptr_t)context->tokens, name, token) {
        CHECK(define_json(r, name, token));
    }
    CHECK(define_json(r, "messages", messages));
    CHECK(define_json(r, "tools", context->tools));
    CHECK(define_json(r, "documents", NULL));
    return chat_put(r->memory, &r->global->names, (chat_text){"add_generation_prompt", 21},
                    chat_boolean(context->add_generation_prompt));
}

grail_status chat_template_render(const chat_template *t, const json_t *messages,
                                  const chat_context *context, buffer *out)
{
    grail_status status = GRAIL_OK;
    chat_memory memory = {0};
    chat_scope global = {0};
    chat_run r = {
        .memory = &memory, .global = &global, .scope = &global, .out = out, .run_macro = run_macro};
    TRY(define(&r, messages, context));
    status = run_statements(&r, t->first);
    status = r.line > 0 ? error_in(status, "line %d", r.line) : status;
out:
    chat_memory_fini(&memory);
    return status;
}
