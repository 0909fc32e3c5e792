/* The choices of tasks as rows of tokens. */
#ifndef GRAIL_EVAL_CHOICE_ROWS_H
#define GRAIL_EVAL_CHOICE_ROWS_H

#include "arch/model.h"
#include "format/text/task_documents.h"
#include "format/text/tokenizer.h"

/** The network reads ids[first .. first + inputs), and is scored on how likely it finds the last
 * `scored` of the tokens ids[first + 1 .. first + inputs]. */
typedef struct choice_row {
    int64_t first;
    int64_t inputs, scored; /* at least 1 */
} choice_row;

typedef struct choice_rows {
    token_list tokens;
    choice_row *rows; /* [count] in the order of the choices, owned */
    int64_t count;
    int64_t shortened; /* rows that lack the beginning of their context */
} choice_rows;

/**
 * Encodes all choices. The tokens of a continuation are those that context and continuation have
 * together beyond as many as the context has alone, whatever becomes of the border. Rows that are
 * longer than the network's context lose tokens at the beginning. An empty context is the token
 * that texts of the network begin with. Source: docs/numerics.md, Zero-shot tasks.
 * GRAIL_ERROR_ARGUMENT names the line of a choice that cannot be scored. choice_rows_fini frees.
 */
grail_status choice_rows_make(const grail_model *model, const tokenizer *t, const task_documents *d,
                              choice_rows *out) GRAIL_MUST_CHECK;
void choice_rows_fini(choice_rows *r); /* works on a zeroed one */

#endif
