/* Expressions. Source of the levels of operators: Jinja 3.1, jinja2/parser.py: filters and tests
 * stand behind a minus sign, attributes, indices and calls before it. */
#include "format/chat/limits.h"
#include "format/chat/nodes.h"

#include <string.h>

static bool is_sign(const chat_parser *p, const char *sign)
{
    return chat_lexer_is_sign(&p->lexer, sign);
}

static bool is_name(const chat_parser *p, const char *name)
{
    return chat_lexer_is_name(&p->lexer, name);
}

void chat_chain_add(chat_chain *chain, chat_node *node)
{
    if (chain->last == NULL) {
        chain->first = node;
    } else {
        chain->last->next = node;
    }
    chain->last = node;
}

grail_status chat_add_node(chat_parser *p, chat_kind kind, chat_node *a, chat_node *b,
                           chat_node **out)
{
    chat_node *node = NULL;
    CHECK(chat_take(p->memory, &node, 1, sizeof *node));
    *node = (chat_node){.kind = kind, .a = a, .b = b, .line = chat_lexer_line(&p->lexer)};
    *out = node;
    return GRAIL_OK;
}

grail_status chat_deeper(chat_parser *p)
{
    return ++p->depth <= CHAT_DEEPEST
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_UNSUPPORTED, "line %d: is nested more than %d deep",
                           chat_lexer_line(&p->lexer), CHAT_DEEPEST);
}

grail_status chat_parse_name(chat_parser *p, chat_kind kind, chat_node **out)
{
    if (p->lexer.kind != TOKEN_NAME) {
        return chat_lexer_unexpected(&p->lexer, "a name");
    }
    CHECK(chat_add_node(p, kind, NULL, NULL, out));
    (*out)->text = p->lexer.token;
    return chat_lexer_next(&p->lexer);
}

grail_status chat_expect_sign(chat_parser *p, const char *sign)
{
    return is_sign(p, sign) ? chat_lexer_next(&p->lexer) : chat_lexer_unexpected(&p->lexer, sign);
}

/* -- literals ---------------------------------------------------------------------------------- */

static grail_status add_literal(chat_parser *p, chat_value value, chat_node **out)
{
    CHECK(chat_add_node(p, CHAT_NODE_LITERAL, NULL, NULL, out));
    (*out)->value = value;
    return GRAIL_OK;
}

/* What a character behind a backslash stands for; 0: it is not known. */
static char unescaped(char c)
{
    static const char from[] = "ntr\\'\"";
    static const char to[] = "\n\t\r\\'\"";
    const char *found = c == 0 ? NULL : strchr(from, c);
    return found == NULL ? 0 : to[found - from];
}

/* Texts that follow each other are one. */
static grail_status parse_text(chat_parser *p, chat_node **out)
{
    char *copy = NULL;
    size_t size = 0;
    const chat_text token = p->lexer.token;
    CHECK(chat_take(p->memory, &copy, token.size, 1));
    for (size_t i = 0; i < token.size; i++) {
        const bool escapes = token.bytes[i] == '\\' && i + 1 < token.size;
        const char c = escapes ? unescaped(token.bytes[++i]) : token.bytes[i];
        if (c == 0) {
            return chat_lexer_unexpected(&p->lexer,
                                         "no escapes but \\n, \\t, \\r, \\\\ and quotes");
        }
        copy[size++] = c;
    }
    CHECK(add_literal(p, chat_string(copy, size), out));
    return chat_lexer_next(&p->lexer);
}

static grail_status parse_texts(chat_parser *p, chat_node **out)
{
    CHECK(parse_text(p, out));
    while (p->lexer.kind == TOKEN_TEXT) {
        chat_node *more = NULL;
        CHECK(parse_text(p, &more));
        CHECK(chat_add_node(p, CHAT_NODE_BINARY, *out, more, out));
        (*out)->text = (chat_text){"+", 1};
    }
    return GRAIL_OK;
}

static grail_status parse_number(chat_parser *p, chat_node **out)
{
    enum { MOST_DIGITS = 18 };
    int64_t number = 0;
    const chat_text token = p->lexer.token;
    const char *behind = p->lexer.at;
    const bool has_fraction =
        p->lexer.end - behind > 1 && behind[0] == '.' && behind[1] >= '0' && behind[1] <= '9';
    for (size_t i = 0; i < token.size; i++) {
        const bool fits = token.bytes[i] >= '0' && token.bytes[i] <= '9' && i < MOST_DIGITS;
        if (!fits || has_fraction) {
            return chat_lexer_unexpected(&p->lexer, "a whole number of at most 18 digits");
        }
        number = number * 10 + (token.bytes[i] - '0');
    }
    CHECK(add_literal(p, chat_integer(number), out));
    return chat_lexer_next(&p->lexer);
}

/* true, false and none in both ways, or a name. */
static grail_status parse_word(chat_parser *p, chat_node **out)
{
    const bool yes = is_name(p, "true") || is_name(p, "True");
    const bool no = is_name(p, "false") || is_name(p, "False");
    const bool none = is_name(p, "none") || is_name(p, "None");
    if (!yes && !no && !none) {
        return chat_parse_name(p, CHAT_NODE_NAME, out);
    }
    CHECK(add_literal(p, none ? (chat_value){.type = CHAT_NONE} : chat_boolean(yes), out));
    return chat_lexer_next(&p->lexer);
}

/* -- brackets ---------------------------------------------------------------------------------- */

/* Between items, or before what closes them. */
static grail_status take_comma(chat_parser *p, const char *close)
{
    if (is_sign(p, close)) {
        return GRAIL_OK;
    }
    return is_sign(p, ",") ? chat_lexer_next(&p->lexer)
                           : chat_lexer_unexpected(&p->lexer, "a comma or a bracket");
}

grail_status chat_parse_arguments(chat_parser *p, chat_node **out)
{
    chat_chain chain = {0};
    while (!is_sign(p, ")")) {
        chat_node *item = NULL;
        CHECK(chat_parse_expression(p, &item));
        if (is_sign(p, "=") && item->kind == CHAT_NODE_NAME) {
            item->kind = CHAT_NODE_KEYWORD;
            CHECK(chat_lexer_next(&p->lexer));
            CHECK(chat_parse_expression(p, &item->a));
        }
        chat_chain_add(&chain, item);
        CHECK(take_comma(p, ")"));
    }
    *out = chain.first;
    return chat_lexer_next(&p->lexer);
}

/* The rest of a list whose first element is `first`, or NULL. */
static grail_status parse_list(chat_parser *p, chat_node *first, const char *close, chat_node **out)
{
    chat_chain chain = {0};
    if (first != NULL) {
        chat_chain_add(&chain, first);
        CHECK(take_comma(p, close));
    }
    while (!is_sign(p, close)) {
        chat_node *item = NULL;
        CHECK(chat_parse_expression(p, &item));
        chat_chain_add(&chain, item);
        CHECK(take_comma(p, close));
    }
    CHECK(chat_lexer_next(&p->lexer));
    return chat_add_node(p, CHAT_NODE_LIST, chain.first, NULL, out);
}

static grail_status parse_object(chat_parser *p, chat_node **out)
{
    chat_chain chain = {0};
    while (!is_sign(p, "}")) {
        chat_node *key = NULL;
        chat_node *value = NULL;
        CHECK(chat_parse_expression(p, &key));
        CHECK(chat_expect_sign(p, ":"));
        CHECK(chat_parse_expression(p, &value));
        chat_chain_add(&chain, key);
        chat_chain_add(&chain, value);
        CHECK(take_comma(p, "}"));
    }
    CHECK(chat_lexer_next(&p->lexer));
    return chat_add_node(p, CHAT_NODE_OBJECT, chain.first, NULL, out);
}

/* Behind "(": an expression, or a tuple, which is a list here. */
static grail_status parse_bracket(chat_parser *p, chat_node **out)
{
    if (is_sign(p, ")")) {
        return parse_list(p, NULL, ")", out);
    }
    CHECK(chat_parse_expression(p, out));
    return is_sign(p, ",") ? parse_list(p, *out, ")", out) : chat_expect_sign(p, ")");
}

static grail_status parse_primary(chat_parser *p, chat_node **out)
{
    switch (p->lexer.kind) {
    case TOKEN_TEXT:
        return parse_texts(p, out);
    case TOKEN_NUMBER:
        return parse_number(p, out);
    case TOKEN_NAME:
        return parse_word(p, out);
    default:
        break;
    }
    if (is_sign(p, "(")) {
        CHECK(chat_lexer_next(&p->lexer));
        return parse_bracket(p, out);
    }
    if (is_sign(p, "[")) {
        CHECK(chat_lexer_next(&p->lexer));
        return parse_list(p, NULL, "]", out);
    }
    if (is_sign(p, "{")) {
        CHECK(chat_lexer_next(&p->lexer));
        return parse_object(p, out);
    }
    return chat_lexer_unexpected(&p->lexer, "a value");
}

/* -- behind a value ---------------------------------------------------------------------------- */

/* A bound of a slice, where there is one. */
static grail_status parse_bound(chat_parser *p, chat_node **out)
{
    return is_sign(p, ":") || is_sign(p, "]") ? GRAIL_OK : chat_parse_expression(p, out);
}

/* [i], or [i:j] and [i:j:k], of which any may be left out. */
static grail_status parse_index(chat_parser *p, chat_node **node)
{
    chat_node *bounds[3] = {NULL};
    int colons = 0;
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(parse_bound(p, &bounds[0]));
    for (; colons < 2 && is_sign(p, ":"); colons++) {
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(parse_bound(p, &bounds[colons + 1]));
    }
    if (colons == 0 && bounds[0] == NULL) {
        return chat_lexer_unexpected(&p->lexer, "an index");
    }
    CHECK(chat_expect_sign(p, "]"));
    CHECK(
        chat_add_node(p, colons == 0 ? CHAT_NODE_INDEX : CHAT_NODE_SLICE, *node, bounds[0], node));
    (*node)->c = bounds[1];
    (*node)->d = bounds[2];
    return GRAIL_OK;
}

static grail_status parse_call(chat_parser *p, chat_node **node)
{
    chat_node *arguments = NULL;
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(chat_parse_arguments(p, &arguments));
    return chat_add_node(p, CHAT_NODE_CALL, *node, arguments, node);
}

static grail_status parse_postfix(chat_parser *p, chat_node **node)
{
    for (;;) {
        chat_node *name = NULL;
        if (is_sign(p, ".")) {
            CHECK(chat_lexer_next(&p->lexer));
            CHECK(chat_parse_name(p, CHAT_NODE_ATTRIBUTE, &name));
            name->a = *node;
            *node = name;
        } else if (is_sign(p, "[")) {
            CHECK(parse_index(p, node));
        } else if (is_sign(p, "(")) {
            CHECK(parse_call(p, node));
        } else {
            return GRAIL_OK;
        }
    }
}

static grail_status parse_filter(chat_parser *p, chat_node **node)
{
    chat_node *filter = NULL;
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(chat_parse_name(p, CHAT_NODE_FILTER, &filter));
    filter->a = *node;
    *node = filter;
    if (is_sign(p, "(")) {
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(chat_parse_arguments(p, &filter->b));
    }
    return GRAIL_OK;
}

/* Whether an argument without brackets follows the name of a test. */
static bool begins_argument(const chat_parser *p)
{
    static const char *const ends[] = {"and", "or", "not", "is", "in", "if", "else"};
    bool found = p->lexer.kind == TOKEN_NAME || p->lexer.kind == TOKEN_TEXT ||
                 p->lexer.kind == TOKEN_NUMBER || is_sign(p, "[") || is_sign(p, "{");
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        found = found && !is_name(p, ends[i]);
    }
    return found;
}

/* Behind `is`: a test, negated or not, with an argument in brackets, without them, or none. */
static grail_status parse_test(chat_parser *p, chat_node **node)
{
    chat_node *test = NULL;
    CHECK(chat_lexer_next(&p->lexer));
    const bool negated = is_name(p, "not");
    CHECK(negated ? chat_lexer_next(&p->lexer) : GRAIL_OK);
    CHECK(chat_parse_name(p, CHAT_NODE_TEST, &test));
    test->a = *node;
    *node = test;
    if (is_sign(p, "(")) {
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(chat_parse_arguments(p, &test->b));
    } else if (begins_argument(p)) {
        CHECK(parse_primary(p, &test->b));
        CHECK(parse_postfix(p, &test->b));
    }
    return negated ? chat_add_node(p, CHAT_NODE_NOT, *node, NULL, node) : GRAIL_OK;
}

/* -- operators --------------------------------------------------------------------------------- */

static grail_status parse_unary(chat_parser *p, chat_node **out)
{
    int signs = 0;
    for (; is_sign(p, "-"); signs++) {
        CHECK(chat_lexer_next(&p->lexer));
    }
    CHECK(parse_primary(p, out));
    CHECK(parse_postfix(p, out));
    for (; signs > 0; signs--) {
        CHECK(chat_add_node(p, CHAT_NODE_MINUS, *out, NULL, out));
    }
    while (is_sign(p, "|") || is_name(p, "is")) {
        CHECK(is_name(p, "is") ? parse_test(p, out) : parse_filter(p, out));
    }
    return GRAIL_OK;
}

enum { LEVEL_OR, LEVEL_AND, LEVEL_NOT, LEVEL_COMPARE, LEVEL_SUM, LEVEL_JOIN, LEVEL_TIMES, LEVELS };

/* The operators of each level, the weakest first. */
static const char *const levels[LEVELS][8] = {
    [LEVEL_OR] = {"or"},
    [LEVEL_AND] = {"and"},
    [LEVEL_COMPARE] = {"==", "!=", "<", ">", "<=", ">=", "in"},
    [LEVEL_SUM] = {"+", "-"},
    [LEVEL_JOIN] = {"~"},
    [LEVEL_TIMES] = {"*", "/", "%", "//"},
};

static const char *operator_here(const chat_parser *p, int level)
{
    for (int i = 0; levels[level][i] != NULL; i++) {
        const char *name = levels[level][i];
        if (is_sign(p, name) || is_name(p, name)) {
            return name;
        }
    }
    return NULL;
}

static grail_status parse_level(chat_parser *p, int level, chat_node **out);

static grail_status parse_not(chat_parser *p, chat_node **out)
{
    int negations = 0;
    for (; is_name(p, "not"); negations++) {
        CHECK(chat_lexer_next(&p->lexer));
    }
    CHECK(parse_level(p, LEVEL_COMPARE, out));
    for (; negations > 0; negations--) {
        CHECK(chat_add_node(p, CHAT_NODE_NOT, *out, NULL, out));
    }
    return GRAIL_OK;
}

/* What stands to the right of an operator. */
static grail_status parse_right(chat_parser *p, int level, const char *name, chat_node **out)
{
    chat_node *right = NULL;
    const chat_kind kind = level == LEVEL_OR    ? CHAT_NODE_OR
                           : level == LEVEL_AND ? CHAT_NODE_AND
                                                : CHAT_NODE_BINARY;
    CHECK(chat_lexer_next(&p->lexer));
    CHECK(parse_level(p, level + 1, &right));
    CHECK(chat_add_node(p, kind, *out, right, out));
    (*out)->text = (chat_text){name, strlen(name)};
    return GRAIL_OK;
}

/* a < b < c means two comparisons in Python, which no template needs. */
static grail_status parse_comparison(chat_parser *p, chat_node **out)
{
    CHECK(parse_level(p, LEVEL_COMPARE + 1, out));
    const bool negated = is_name(p, "not");
    CHECK(negated ? chat_lexer_next(&p->lexer) : GRAIL_OK);
    const char *name = operator_here(p, LEVEL_COMPARE);
    if (negated && !is_name(p, "in")) {
        return chat_lexer_unexpected(&p->lexer, "in");
    }
    if (name == NULL) {
        return GRAIL_OK;
    }
    CHECK(parse_right(p, LEVEL_COMPARE, name, out));
    CHECK(negated ? chat_add_node(p, CHAT_NODE_NOT, *out, NULL, out) : GRAIL_OK);
    return operator_here(p, LEVEL_COMPARE) == NULL
               ? GRAIL_OK
               : chat_lexer_unexpected(&p->lexer, "one comparison; join several with 'and'");
}

static grail_status parse_level(chat_parser *p, int level, chat_node **out)
{
    if (level == LEVEL_NOT) {
        return parse_not(p, out);
    }
    if (level == LEVEL_COMPARE) {
        return parse_comparison(p, out);
    }
    if (level == LEVELS) {
        return parse_unary(p, out);
    }
    CHECK(parse_level(p, level + 1, out));
    for (const char *name; (name = operator_here(p, level)) != NULL;) {
        CHECK(parse_right(p, level, name, out));
    }
    return GRAIL_OK;
}

grail_status chat_parse_condition(chat_parser *p, chat_node **out)
{
    CHECK(chat_deeper(p));
    CHECK(parse_level(p, LEVEL_OR, out));
    p->depth--;
    return GRAIL_OK;
}

grail_status chat_parse_expression(chat_parser *p, chat_node **out)
{
    CHECK(chat_parse_condition(p, out));
    while (is_name(p, "if")) {
        chat_node *condition = NULL;
        chat_node *other = NULL;
        CHECK(chat_lexer_next(&p->lexer));
        CHECK(chat_parse_condition(p, &condition));
        if (is_name(p, "else")) {
            CHECK(chat_lexer_next(&p->lexer));
            CHECK(chat_deeper(p));
            CHECK(chat_parse_expression(p, &other));
            p->depth--;
        }
        CHECK(chat_add_node(p, CHAT_NODE_CHOICE, *out, condition, out));
        (*out)->c = other;
    }
    return GRAIL_OK;
}
