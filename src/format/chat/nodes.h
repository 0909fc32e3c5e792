/* A chat template as a tree, and what its parsers share. */
#ifndef GRAIL_FORMAT_CHAT_NODES_H
#define GRAIL_FORMAT_CHAT_NODES_H

#include "format/chat/lexer.h"

typedef enum chat_kind {
    /* Statements; those that follow each other are linked by `next`. */
    CHAT_NODE_TEXT,   /* text */
    CHAT_NODE_OUTPUT, /* a */
    CHAT_NODE_IF,     /* a: condition, b: statements, c: the others */
    CHAT_NODE_FOR,   /* text: name, d: a second name, a: of what, e: filter, b: statements, c: those
                        of no round */
    CHAT_NODE_SET,   /* a: name or attribute; b: value, or d: statements whose text it is */
    CHAT_NODE_MACRO, /* text: name, a: parameters, linked, b: statements */
    CHAT_NODE_GROUP, /* b: statements */
    CHAT_NODE_BREAK,
    CHAT_NODE_CONTINUE,
    /* Expressions. */
    CHAT_NODE_LITERAL,   /* value */
    CHAT_NODE_NAME,      /* text */
    CHAT_NODE_LIST,      /* a: elements, linked */
    CHAT_NODE_OBJECT,    /* a: keys and values in turn, linked */
    CHAT_NODE_ATTRIBUTE, /* a, text: its name */
    CHAT_NODE_INDEX,     /* a, b */
    CHAT_NODE_SLICE,     /* a, b: begin, c: end, d: step */
    CHAT_NODE_CALL,      /* a: what, b: arguments, linked */
    CHAT_NODE_KEYWORD,   /* text: name, a: an argument of that name, or a parameter's usual value */
    CHAT_NODE_FILTER,    /* a, text: its name, b: arguments */
    CHAT_NODE_TEST,      /* a, text: its name, b: arguments */
    CHAT_NODE_NOT,       /* a */
    CHAT_NODE_MINUS,     /* a */
    CHAT_NODE_AND,       /* a, b */
    CHAT_NODE_OR,        /* a, b */
    CHAT_NODE_BINARY,    /* a, text: operator, b */
    CHAT_NODE_CHOICE     /* a if b else c */
} chat_kind;

typedef struct chat_node {
    chat_kind kind;
    int line;
    chat_text text;
    chat_value value;
    struct chat_node *a, *b, *c, *d, *e, *next; /* NULL: none */
} chat_node;

typedef struct chat_parser {
    chat_memory *memory; /* of all nodes and texts */
    chat_lexer lexer;
    int depth;
    int loops; /* around what is parsed */
} chat_parser;

/* A list of nodes that grows at its end; a zeroed one is empty. */
typedef struct chat_chain {
    chat_node *first, *last;
} chat_chain;

void chat_chain_add(chat_chain *chain, chat_node *node);

grail_status chat_add_node(chat_parser *p, chat_kind kind, chat_node *a, chat_node *b,
                           chat_node **out) GRAIL_MUST_CHECK;
/** One more bracket or statement around what is parsed; the caller counts p->depth down again. */
grail_status chat_deeper(chat_parser *p) GRAIL_MUST_CHECK;
/** Takes a name, with its line. */
grail_status chat_parse_name(chat_parser *p, chat_kind kind, chat_node **out) GRAIL_MUST_CHECK;
grail_status chat_expect_sign(chat_parser *p, const char *sign) GRAIL_MUST_CHECK;

/** An expression, with `a if b else c` or without. */
grail_status chat_parse_expression(chat_parser *p, chat_node **out) GRAIL_MUST_CHECK;
grail_status chat_parse_condition(chat_parser *p, chat_node **out) GRAIL_MUST_CHECK;
/** Arguments or parameters behind "(", up to and with ")". */
grail_status chat_parse_arguments(chat_parser *p, chat_node **out) GRAIL_MUST_CHECK;

/** All statements of a template. */
grail_status chat_parse_template(chat_parser *p, chat_node **out) GRAIL_MUST_CHECK;

#endif
