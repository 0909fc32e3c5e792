/* What a network that answers says to questions whose answers can be checked. */
#include "arch/model_text.h"
#include "base/utf8.h"
#include "eval/measuring.h"
#include "exec/decoding.h"
#include "exec/next_token.h"
#include "pipeline/request/drawn_turns.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { MOST_TOKENS = 24, LONGEST_ANSWER = 1 << 16 };

static const char *const questions[GRAIL_ANSWERS][2] = {
    {"What is the capital of France?", "Paris"},
    {"What colour is the sky on a clear day?", "blue"},
    {"What is 2 + 3?", "5"},
};

/* Whether a word stands in a text by itself, in letters of any case. */
static bool holds_word(const char *text, const char *word)
{
    const size_t size = strlen(word);
    bool found = false;
    for (const char *at = text; *at != 0 && !found; at++) {
        found = strncasecmp(at, word, size) == 0 && !isalnum((unsigned char)at[size]) &&
                (at == text || !isalnum((unsigned char)at[-1]));
    }
    return found;
}

typedef struct asking {
    const grail_model *model;
    const tokenizer *tokenizer;
    const chat_turns *turns;
    text_ends ends;
    measured_network network;
    float *logits; /* [vocabulary] */
} asking;

static bool ends_answer(const asking *a, int32_t id)
{
    const token_list *after = &a->turns->after;
    return text_ends_with(&a->ends, id) || (after->count > 0 && id == after->ids[0]);
}

static grail_status say(const asking *a, const token_list *prompt, buffer *out)
{
    static const token_choice likeliest = {.temperature = 0.0};
    grail_status status = GRAIL_OK;
    decoding d = {0};
    matrix logits = {0};
    int32_t id = 0;
    TRY(decoding_begin(&d, a->network.store, 1, prompt->count + MOST_TOKENS));
    TRY(decoding_append(&d, prompt->ids, prompt->count, &logits));
    for (int i = 0; i < MOST_TOKENS; i++) {
        TRY(matrix_download_f32(logits, a->logits));
        TRY(error_in(next_token(&likeliest, a->logits, logits.columns, NULL, &id), "%s",
                     a->model->path));
        if (ends_answer(a, id)) {
            break;
        }
        TRY(tokenizer_decode(a->tokenizer, id, out));
        TRY(i + 1 < MOST_TOKENS ? decoding_append(&d, &id, 1, &logits) : GRAIL_OK);
    }
out:
    decoding_end(&d);
    return status;
}

static grail_status ask(const asking *a, grail_answer *answer)
{
    grail_status status = GRAIL_OK;
    token_list prompt = {0};
    buffer said = {0};
    buffer_init(&said, LONGEST_ANSWER);
    TRY(token_list_append(&prompt, &a->turns->begin));
    TRY(tokenizer_encode(a->tokenizer, answer->question, strlen(answer->question), false, &prompt));
    TRY(token_list_append(&prompt, &a->turns->between));
    TRY(error_in(token_list_check(&prompt, 0, a->model->graph->vocabulary), "a question"));
    if (prompt.count + MOST_TOKENS > a->model->context) {
        FAIL(GRAIL_ERROR_UNSUPPORTED, "%s: %lld positions have no room for a question",
             a->model->path, (long long)a->model->context);
    }
    TRY(say(a, &prompt, &said));
    const size_t most = sizeof answer->text - 1;
    const size_t size = said.size < most ? said.size : most;
    const size_t whole = utf8_valid_prefix(said.bytes, size);
    snprintf(answer->text, sizeof answer->text, "%.*s", (int)whole,
             said.bytes == NULL ? "" : (const char *)said.bytes);
    answer->is_right = holds_word(answer->text, answer->expected) ? 1 : 0;
out:
    token_list_fini(&prompt);
    buffer_fini(&said);
    return status;
}

static grail_status tell(grail_eval_observer observer, void *user, int asked)
{
    const grail_eval_progress now = {
        .done = asked, .total = GRAIL_ANSWERS, .passed = asked, .so_far = (double)NAN};
    return observer_tell(observer, user, &now, "answers");
}

static grail_status ask_all(asking *a, const grail_compute *compute, grail_eval_observer observer,
                            void *user, grail_answers *out)
{
    grail_status status = GRAIL_OK;
    grail_compute alone = compute == NULL ? (grail_compute){0} : *compute;
    alone.comm = NULL;
    TRY(model_text_ends(a->model, &a->ends));
    TRY(memory_new_unset(&a->logits, (size_t)a->model->graph->vocabulary, sizeof a->logits[0]));
    TRY(measured_open(a->model, NULL, &alone, &a->network));
    for (int i = 0; i < GRAIL_ANSWERS; i++) {
        TRY(tell(observer, user, i));
        out->items[i] = (grail_answer){.question = questions[i][0], .expected = questions[i][1]};
        TRY(ask(a, &out->items[i]));
    }
    out->count = GRAIL_ANSWERS;
    TRY(tell(observer, user, GRAIL_ANSWERS));
out:
    measured_close(&a->network);
    memory_free(a->logits);
    return status;
}

grail_status grail_answers_measure(const grail_model *model, const grail_text_source *source,
                                   const grail_compute *compute, grail_eval_observer observer,
                                   void *user, grail_answers *out)
{
    grail_status status = GRAIL_OK;
    grail_answers made = {0};
    drawn_turns turns = {0};
    tokenizer *t = NULL;
    asking a = {.model = model, .turns = &turns.turns};
    TRY(model_check_next_token(model, "an answer needs"));
    TRY(drawn_turns_find(model, source, model->context, &turns));
    if (turns.why != NULL) {
        snprintf(made.notice, sizeof made.notice,
                 "no questions were asked: the model has a chat template (%s), but %s", turns.place,
                 turns.why);
    } else if (turns.place != NULL) {
        TRY(model_tokenizer_open(model, &t));
        a.tokenizer = t;
        TRY(ask_all(&a, compute, observer, user, &made));
    }
    *out = made;
out:
    drawn_turns_fini(&turns);
    tokenizer_close(t);
    return status;
}
