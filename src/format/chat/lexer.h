/* Cuts the source of a template into its text, and into the tokens of its tags. */
#ifndef GRAIL_FORMAT_CHAT_LEXER_H
#define GRAIL_FORMAT_CHAT_LEXER_H

#include "format/chat/value.h"

typedef enum chat_token { TOKEN_END, TOKEN_NAME, TOKEN_NUMBER, TOKEN_TEXT, TOKEN_SIGN } chat_token;

typedef struct chat_lexer {
    const char *source, *end, *at;
    const char *counted; /* lines are counted up to here */
    int line;
    /* The current token; TOKEN_END at the end of a tag. A text is without its quotes, and with its
     * escapes. */
    chat_token kind;
    chat_text token;
    const char *close; /* what ends the tag: "}}" or "%}" */
    int open;          /* brackets within the tag */
} chat_lexer;

typedef enum chat_piece { PIECE_END, PIECE_OUTPUT, PIECE_STATEMENT, PIECE_COMMENT } chat_piece;

/** `source` holds no zero bytes and no carriage returns, and outlives the lexer. */
chat_lexer chat_lexer_of(chat_text source);

/** The text up to the next tag, without the spaces that the tag removes, and what follows it. */
chat_piece chat_lexer_text(chat_lexer *l, chat_text *text);
grail_status chat_lexer_skip_comment(chat_lexer *l) GRAIL_MUST_CHECK;
/** Begins the tag that follows, at its first token. */
grail_status chat_lexer_begin_tag(chat_lexer *l) GRAIL_MUST_CHECK;
/** Ends the tag, all tokens of which were taken, and skips the spaces that it removes. */
grail_status chat_lexer_end_tag(chat_lexer *l) GRAIL_MUST_CHECK;
/** Goes on to the next token of the tag. */
grail_status chat_lexer_next(chat_lexer *l) GRAIL_MUST_CHECK;

/** Number of the line up to which was read. */
int chat_lexer_line(chat_lexer *l);
bool chat_lexer_is_name(const chat_lexer *l, const char *name);
bool chat_lexer_is_sign(const chat_lexer *l, const char *sign);
/** An error that names the current token, and what is expected in its place. */
grail_status chat_lexer_unexpected(chat_lexer *l, const char *expected);

#endif
