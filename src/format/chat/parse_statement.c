/* Statements. */
#include "format/chat/nodes.h"

#include <string.h>

/* What ends the statements that are parsed: a tag, whose first token is current, or the template.
 */
typedef enum chat_end { END_OF_TEMPLATE, END_OF_BLOCK } chat_end;

static grail_status parse_statements(chat_parser *p, chat_node **first, chat_end *end);

static bool is_name(const chat_parser *p, const char *name)
{
    return chat_lexer_is_name(&p->lexer, name);
}

/* The tag that ends a block; `name` is its first token. */
static grail_status end_block(chat_parser *p, const char *name)
{
    if (!is_name(p, name)) {
        return chat_lexer_unexpected(&p->lexer, name);
    }
    CHECK(chat_lexer_next(&p->lexer));
    return chat_lexer_end_tag(&p->lexer);
}

/* Behind the first tag of a block: its statements. The tag that ends them has begun. */
static grail_status parse_body(chat_parser *p, const char *expected, chat_node **out)
{
    chat_end end = END_OF_TEMPLATE;
    CHECK(chat_lexer_end_tag(&p->lexer));
    CHECK(chat_deeper(p));
    CHECK(parse_statements(p, out, &end));
    p->depth--;
    return end == END_OF_BLOCK ? GRAIL_OK : chat_lexer_unexpected(&p->lexer, expected);
}

/* {% else %} with its statements, where there is one. */
static grail_status parse_else(chat_parser *p, const char *expected, chat_node **out)
{
    if (!is_name(p, "else")) {
        return GRAIL_OK;
    }
    CHECK(chat_lexer_next(&p->lexer));
    return parse_body(p, expected, out);
}

/* Each {% elif %} is an `if` among the others of the one before it. */
static grail_status parse_if(chat_parser *p, chat_node **out)
{
    chat_node **place = out;
    chat_node *last = NULL;
    do {
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(chat_add_node(p, CHAT_NODE_IF, NULL, NULL, &last));
        CHECK(chat_parse_expression(p, &last->a));
        CHECK(parse_body(p, "endif", &last->b));
        *place = last;
        place = &last->c;
    } while (is_name(p, "elif"));
    CHECK(parse_else(p, "endif", &last->c));
    return end_block(p, "endif");
}

static grail_status parse_for(chat_parser *p, chat_node **out)
{
    chat_node *loop = NULL;
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(chat_parse_name(p, CHAT_NODE_FOR, &loop));
    if (chat_lexer_is_sign(&p->lexer, ",")) {
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(chat_parse_name(p, CHAT_NODE_NAME, &loop->d));
    }
    if (!is_name(p, "in")) {
        return chat_lexer_unexpected(&p->lexer, "in");
    }
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(chat_parse_condition(p, &loop->a));
    if (is_name(p, "if")) {
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(chat_parse_condition(p, &loop->e));
    }
    p->loops++;
    CHECK(parse_body(p, "endfor", &loop->b));
    p->loops--;
    CHECK(parse_else(p, "endfor", &loop->c));
    *out = loop;
    return end_block(p, "endfor");
}

/* A name, or an attribute of one. */
static grail_status parse_target(chat_parser *p, chat_node **out)
{
    CHECK(chat_parse_name(p, CHAT_NODE_NAME, out));
    if (chat_lexer_is_sign(&p->lexer, ".")) {
        chat_node *attribute = NULL;
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(chat_parse_name(p, CHAT_NODE_ATTRIBUTE, &attribute));
        attribute->a = *out;
        *out = attribute;
    }
    return GRAIL_OK;
}

static grail_status parse_set(chat_parser *p, chat_node **out)
{
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(chat_add_node(p, CHAT_NODE_SET, NULL, NULL, out));
    CHECK(parse_target(p, &(*out)->a));
    if (p->lexer.kind == TOKEN_END) {
        CHECK(parse_body(p, "endset", &(*out)->d));
        return end_block(p, "endset");
    }
    CHECK(chat_expect_sign(p, "="));
    CHECK(chat_parse_expression(p, &(*out)->b));
    return chat_lexer_end_tag(&p->lexer);
}

static grail_status parse_macro(chat_parser *p, chat_node **out)
{
    chat_node *macro = NULL;
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(chat_parse_name(p, CHAT_NODE_MACRO, &macro));
    CHECK(chat_expect_sign(p, "("));
    CHECK(chat_parse_arguments(p, &macro->a));
    for (const chat_node *n = macro->a; n != NULL; n = n->next) {
        if (n->kind != CHAT_NODE_NAME && n->kind != CHAT_NODE_KEYWORD) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "line %d: a parameter of the macro '%.*s' is no name", n->line,
                             (int)macro->text.size, macro->text.bytes);
        }
    }
    const int loops = p->loops;
    p->loops = 0;
    CHECK(parse_body(p, "endmacro", &macro->b));
    p->loops = loops;
    *out = macro;
    return end_block(p, "endmacro");
}

/* {% generation %} marks what an assistant says, for those who train on it. */
static grail_status parse_group(chat_parser *p, chat_node **out)
{
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(chat_add_node(p, CHAT_NODE_GROUP, NULL, NULL, out));
    CHECK(parse_body(p, "endgeneration", &(*out)->b));
    return end_block(p, "endgeneration");
}

static grail_status parse_jump(chat_parser *p, chat_node **out)
{
    if (p->loops == 0) {
        return chat_lexer_unexpected(&p->lexer, "it in a loop alone");
    }
    CHECK(chat_add_node(p, is_name(p, "break") ? CHAT_NODE_BREAK : CHAT_NODE_CONTINUE, NULL, NULL,
                        out));
    CHECK(chat_lexer_next(&p->lexer));
    return chat_lexer_end_tag(&p->lexer);
}

static grail_status parse_output(chat_parser *p, chat_node **out)
{
    chat_node *value = NULL;
    CHECK(chat_lexer_begin_tag(&p->lexer));
    CHECK(chat_parse_expression(p, &value));
    CHECK(chat_lexer_end_tag(&p->lexer));
    return chat_add_node(p, CHAT_NODE_OUTPUT, value, NULL, out);
}

typedef grail_status (*statement_parser)(chat_parser *p, chat_node **out);

static statement_parser parser_here(const chat_parser *p)
{
    static const struct {
        const char *name;
        statement_parser parse;
    } statements[] = {
        {"if", parse_if},         {"for", parse_for},          {"set", parse_set},
        {"macro", parse_macro},   {"generation", parse_group}, {"break", parse_jump},
        {"continue", parse_jump},
    };
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        if (is_name(p, statements[i].name)) {
            return statements[i].parse;
        }
    }
    return NULL;
}

static bool ends_block(const chat_parser *p)
{
    static const char *const names[] = {"elif",   "else",     "endif",        "endfor",
                                        "endset", "endmacro", "endgeneration"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        found = found || is_name(p, names[i]);
    }
    return found;
}

/* The tag at which the lexer stands; *ends where it ends what encloses it. */
static grail_status parse_tag(chat_parser *p, chat_piece piece, chat_node **out, bool *ends)
{
    if (piece == PIECE_COMMENT) {
        return chat_lexer_skip_comment(&p->lexer);
    }
    if (piece == PIECE_OUTPUT) {
        return parse_output(p, out);
    }
    CHECK(chat_lexer_begin_tag(&p->lexer));
    const statement_parser parse = parser_here(p);
    if (parse != NULL) {
        return parse(p, out);
    }
    *ends = ends_block(p);
    return *ends ? GRAIL_OK
                 : chat_lexer_unexpected(
                       &p->lexer, "if, for, set, macro, generation, break, continue or an end");
}

static grail_status parse_statements(chat_parser *p, chat_node **first, chat_end *end)
{
    chat_chain chain = {0};
    bool ends = false;
    *end = END_OF_BLOCK;
    while (!ends) {
        chat_text text = {0};
        chat_node *node = NULL;
        const chat_piece piece = chat_lexer_text(&p->lexer, &text);
        if (text.size > 0) {
            CHECK(chat_add_node(p, CHAT_NODE_TEXT, NULL, NULL, &node));
            node->text = text;
            chat_chain_add(&chain, node);
            node = NULL;
        }
        if (piece == PIECE_END) {
            *end = END_OF_TEMPLATE;
            break;
        }
        CHECK(parse_tag(p, piece, &node, &ends));
        if (node != NULL) {
            chat_chain_add(&chain, node);
        }
    }
    *first = chain.first;
    return GRAIL_OK;
}

grail_status chat_parse_template(chat_parser *p, chat_node **out)
{
    chat_end end = END_OF_TEMPLATE;
    CHECK(parse_statements(p, out, &end));
    return end == END_OF_TEMPLATE
               ? GRAIL_OK
               : chat_lexer_unexpected(&p->lexer, "a statement; nothing is open");
}
