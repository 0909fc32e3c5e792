#include "format/chat/lexer.h"

#include "base/utf8.h"

#include <string.h>

chat_lexer chat_lexer_of(chat_text source)
{
    return (chat_lexer){.source = source.bytes,
                        .end = source.bytes + source.size,
                        .at = source.bytes,
                        .counted = source.bytes,
                        .line = 1,
                        .close = "%}"};
}

int chat_lexer_line(chat_lexer *l)
{
    for (; l->counted < l->at; l->counted++) {
        l->line += *l->counted == '\n' ? 1 : 0;
    }
    return l->line;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

static bool begins(const chat_lexer *l, const char *text)
{
    const size_t size = strlen(text);
    return (size_t)(l->end - l->at) >= size && memcmp(l->at, text, size) == 0;
}

static void skip_spaces(chat_lexer *l)
{
    while (l->at < l->end && is_space(*l->at)) {
        l->at++;
    }
}

grail_status chat_lexer_unexpected(chat_lexer *l, const char *expected)
{
    enum { MOST_SHOWN = 40 };
    size_t size = l->token.size < MOST_SHOWN ? l->token.size : MOST_SHOWN;
    if (l->kind == TOKEN_END) {
        return error_set(GRAIL_ERROR_UNSUPPORTED, "line %d: the %s ends, expected %s",
                         chat_lexer_line(l), l->at == l->end ? "template" : "tag", expected);
    }
    size = utf8_valid_prefix(l->token.bytes, size);
    return error_set(GRAIL_ERROR_UNSUPPORTED, "line %d: found '%.*s', expected %s",
                     chat_lexer_line(l), (int)size, l->token.bytes, expected);
}

/* -- between tags ------------------------------------------------------------------------------ */

static bool begins_tag(const char *c, const char *end)
{
    return end - c > 1 && c[0] == '{' && (c[1] == '{' || c[1] == '%' || c[1] == '#');
}

/* Where the text before a tag ends. {%- removes all spaces before it; statements and comments
 * without a sign remove those between them and the begin of their line (lstrip_blocks). */
static const char *text_end(const chat_lexer *l, const char *begin, const char *tag)
{
    const char mark = l->end - tag > 2 ? tag[2] : ' ';
    const char *c = tag;
    while (c > begin && is_space(c[-1]) && (mark == '-' || c[-1] != '\n')) {
        c--;
    }
    const bool begins_line = c == l->source || c[-1] == '\n';
    return mark == '-' || (mark != '+' && tag[1] != '{' && begins_line) ? c : tag;
}

chat_piece chat_lexer_text(chat_lexer *l, chat_text *text)
{
    const char *begin = l->at;
    const char *tag = begin;
    while (tag < l->end && !begins_tag(tag, l->end)) {
        tag++;
    }
    const char *stop = tag == l->end ? tag : text_end(l, begin, tag);
    *text = (chat_text){begin, (size_t)(stop - begin)};
    l->at = tag;
    l->kind = TOKEN_END;
    if (tag == l->end) {
        return PIECE_END;
    }
    return tag[1] == '{' ? PIECE_OUTPUT : tag[1] == '%' ? PIECE_STATEMENT : PIECE_COMMENT;
}

/* Goes on behind a tag: "-" removes all spaces there, and statements and comments without a sign
 * the line end (trim_blocks). */
static void leave_tag(chat_lexer *l, char mark, bool trims)
{
    if (mark == '-') {
        skip_spaces(l);
    } else if (trims && mark != '+' && l->at < l->end && *l->at == '\n') {
        l->at++;
    }
}

grail_status chat_lexer_skip_comment(chat_lexer *l)
{
    const char *c = l->at + 2;
    while (l->end - c > 1 && !(c[0] == '#' && c[1] == '}')) {
        c++;
    }
    if (l->end - c < 2) {
        return error_set(GRAIL_ERROR_FORMAT, "line %d: a comment does not end; it lacks '#}'",
                         chat_lexer_line(l));
    }
    const char mark = c - l->at > 2 ? c[-1] : ' ';
    l->at = c + 2;
    leave_tag(l, mark, true);
    return GRAIL_OK;
}

/* -- within tags ------------------------------------------------------------------------------- */

grail_status chat_lexer_begin_tag(chat_lexer *l)
{
    l->close = l->at[1] == '{' ? "}}" : "%}";
    l->open = 0;
    l->at += 2;
    l->at += l->at < l->end && (*l->at == '-' || (*l->at == '+' && l->close[0] == '%')) ? 1 : 0;
    return chat_lexer_next(l);
}

/* A sign that belongs to the end of the tag at l->at, or 0. */
static char mark_of_end(const chat_lexer *l)
{
    const bool has_mark = l->at < l->end && (*l->at == '-' || (*l->at == '+' && *l->close == '%'));
    return has_mark && l->end - l->at > 2 && memcmp(l->at + 1, l->close, 2) == 0 ? *l->at : 0;
}

grail_status chat_lexer_end_tag(chat_lexer *l)
{
    if (l->kind != TOKEN_END || l->at == l->end) {
        return chat_lexer_unexpected(l, l->close);
    }
    const char mark = mark_of_end(l);
    l->at += mark == 0 ? 2 : 3;
    leave_tag(l, mark, l->close[0] == '%');
    return GRAIL_OK;
}

static grail_status take_quoted(chat_lexer *l)
{
    const char quote = *l->at;
    const char *c = l->at + 1;
    while (c < l->end && *c != quote) {
        c += *c == '\\' && l->end - c > 1 ? 2 : 1;
    }
    if (c >= l->end) {
        return error_set(GRAIL_ERROR_FORMAT, "line %d: a text does not end; it lacks its %c",
                         chat_lexer_line(l), quote);
    }
    l->kind = TOKEN_TEXT;
    l->token = (chat_text){l->at + 1, (size_t)(c - l->at) - 1};
    l->at = c + 1;
    return GRAIL_OK;
}

static void take_sign(chat_lexer *l)
{
    static const char *const pairs[] = {"==", "!=", "<=", ">=", "//", "**"};
    l->kind = TOKEN_SIGN;
    l->token = (chat_text){l->at, 1};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        l->token.size = begins(l, pairs[i]) ? 2 : l->token.size;
    }
    const char c = *l->at;
    const bool closes = (c == ')' || c == ']' || c == '}') && l->open > 0;
    l->open += c == '(' || c == '[' || c == '{' ? 1 : closes ? -1 : 0;
    l->at += l->token.size;
}

grail_status chat_lexer_next(chat_lexer *l)
{
    skip_spaces(l);
    l->kind = TOKEN_END;
    if (l->at == l->end || (l->open == 0 && (begins(l, l->close) || mark_of_end(l) != 0))) {
        return GRAIL_OK;
    }
    if (*l->at == '\'' || *l->at == '"') {
        return take_quoted(l);
    }
    if (!is_word(*l->at)) {
        take_sign(l);
        return GRAIL_OK;
    }
    const char *begin = l->at;
    l->kind = is_digit(*begin) ? TOKEN_NUMBER : TOKEN_NAME;
    while (l->at < l->end && is_word(*l->at)) {
        l->at++;
    }
    l->token = (chat_text){begin, (size_t)(l->at - begin)};
    return GRAIL_OK;
}

bool chat_lexer_is_name(const chat_lexer *l, const char *name)
{
    return l->kind == TOKEN_NAME && chat_text_is(l->token, name);
}

bool chat_lexer_is_sign(const chat_lexer *l, const char *sign)
{
    return l->kind == TOKEN_SIGN && chat_text_is(l->token, sign);
}
