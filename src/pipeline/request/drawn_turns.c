#include "pipeline/request/drawn_turns.h"

#include "arch/model_arrays.h"

enum { LEAST_WORDS = 2 }; /* tokens of a question and its answer in a window */

grail_status drawn_turns_find(const grail_model *model, const grail_text_source *source,
                              int64_t length, drawn_turns *out)
{
    grail_status status = GRAIL_OK;
    tokenizer *t = NULL;
    chat_writer *c = NULL;
    bool known = false;
    *out = (drawn_turns){0};
    TRY(model_find_template(model, &out->place));
    if (out->place == NULL) {
        goto out;
    }
    TRY(model_tokenizer_if_read(model, &t));
    if (t != NULL) {
        TRY(model_chat_open(model, t, source, &c));
    }
    if (c != NULL) {
        TRY(chat_turns_find(c, &out->turns, &known));
    }
    if (!known) {
        out->why = t == NULL ? "its tokenizer cannot be read, by which the turns are known"
                             : "it is of no kind that is known here";
    } else if (out->turns.begin.count + out->turns.between.count + LEAST_WORDS > length) {
        out->why = "a window of this context has no room for its turns";
        chat_turns_fini(&out->turns);
    } else {
        const int64_t vocabulary = model_word_count(model);
        TRY(error_in(token_list_check(&out->turns.begin, 0, vocabulary), "%s", out->place));
        TRY(error_in(token_list_check(&out->turns.between, 0, vocabulary), "%s", out->place));
        TRY(error_in(token_list_check(&out->turns.after, 0, vocabulary), "%s", out->place));
    }
out:
    chat_close(c);
    tokenizer_close(t);
    return status;
}

void drawn_turns_fini(drawn_turns *t)
{
    chat_turns_fini(&t->turns);
    memory_free(t->place);
    *t = (drawn_turns){0};
}

/* Behind the end of a conversation comes the beginning of the next one. */
static void go_on(const drawn_turns *t, drawn_turn *now)
{
    if (now->given != NULL && now->place < now->given->count) {
        return;
    }
    const bool was_between = now->given == &t->turns.between;
    const bool was_after = now->given == &t->turns.after;
    now->given = was_after ? &t->turns.begin : NULL;
    now->answers = was_between;
    now->place = 0;
    now->spoken = 0;
}

bool drawn_turn_gives(const drawn_turns *t, drawn_turn *now, int32_t *id)
{
    if (now->given == NULL) {
        return false;
    }
    *id = now->given->ids[now->place++];
    go_on(t, now);
    return true;
}

int32_t drawn_turn_take(const drawn_turns *t, drawn_turn *now, int32_t id, bool ends, int64_t most,
                        bool *ended)
{
    const token_list *end = now->answers ? &t->turns.after : &t->turns.between;
    *ended = ends || (end->count > 0 && id == end->ids[0]);
    now->spoken++;
    if (!*ended && (now->answers || now->spoken < most)) {
        return id;
    }
    const bool writes = *ended && end->count > 0; /* a question that is cut keeps its last token */
    now->given = end;
    now->place = writes ? 1 : 0;
    const int32_t first = writes ? end->ids[0] : id;
    go_on(t, now);
    return first;
}
