/* A conversation that a template is applied to. */
#ifndef GRAIL_FORMAT_CHAT_RUN_H
#define GRAIL_FORMAT_CHAT_RUN_H

#include "format/chat/functions.h"
#include "format/chat/nodes.h"

/* Names that are known: those of the conversation, and inside of each loop or macro its own. */
typedef struct chat_scope {
    const struct chat_scope *outer; /* NULL for that of the conversation */
    chat_object names;
} chat_scope;

typedef enum chat_jump { JUMP_NONE, JUMP_BREAK, JUMP_CONTINUE } chat_jump;

typedef struct chat_run chat_run;

/* Gives *out the text of a macro. */
typedef grail_status (*macro_function)(chat_run *r, const chat_node *macro,
                                       const chat_arguments *arguments, chat_value *out);

struct chat_run {
    chat_memory *memory;
    chat_scope *global, *scope; /* the outermost and the innermost one */
    buffer *out;
    int depth; /* of expressions and statements that wait for others */
    int line;  /* of the innermost part that failed; 0: none */
    chat_jump jump;
    macro_function run_macro;
};

/** One more part of a template that is evaluated; the caller counts r->depth down again. */
grail_status chat_step(chat_run *r) GRAIL_MUST_CHECK;
grail_status chat_look_up(chat_run *r, chat_text name, chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_evaluate(chat_run *r, const chat_node *n, chat_value *out) GRAIL_MUST_CHECK;
grail_status chat_evaluate_truth(chat_run *r, const chat_node *n, bool *out) GRAIL_MUST_CHECK;

#endif
