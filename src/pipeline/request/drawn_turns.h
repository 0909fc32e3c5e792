/* Conversations as a network draws them: behind the beginning of a user's turn it writes the
 * question, and behind what ends it its own answer, in windows of one conversation after the other.
 *
 * Source: Magpie (arXiv 2406.08464).
 */
#ifndef GRAIL_PIPELINE_REQUEST_DRAWN_TURNS_H
#define GRAIL_PIPELINE_REQUEST_DRAWN_TURNS_H

#include "arch/model_text.h"

/** What all windows share. */
typedef struct drawn_turns {
    chat_turns turns; /* empty where no conversations are drawn */
    char *place;      /* where the template stands, or NULL */
    const char *why;  /* why none are drawn although there is a template, or NULL */
} drawn_turns;

/** What the template of a model says, for windows of `length` tokens. drawn_turns_fini frees *out,
 * even after a failure. */
grail_status drawn_turns_find(const grail_model *model, const grail_text_source *source,
                              int64_t length, drawn_turns *out) GRAIL_MUST_CHECK;
void drawn_turns_fini(drawn_turns *t); /* works on a zeroed one */

/** Where a window stands: its tokens are those of `given` from `place` on, and then the network's.
 */
typedef struct drawn_turn {
    const token_list *given; /* NULL: the network draws */
    int64_t place;
    bool answers; /* what it draws is the answer, or else the question */
    int64_t spoken;
} drawn_turn;

/** Whether the next token is a given one, and which. */
bool drawn_turn_gives(const drawn_turns *t, drawn_turn *now, int32_t *id);
/** What stands where the network drew `id`: this, or in place of one that ends its turn, which
 * `ends` says of those that end texts, what the template has there. *ended says whether it was one.
 * A question has at most `most` tokens. */
int32_t drawn_turn_take(const drawn_turns *t, drawn_turn *now, int32_t id, bool ends, int64_t most,
                        bool *ended);

#endif
