#include "eval/choice_rows.h"

#include <inttypes.h>

/* The token that stands before a text without context. */
static grail_status first_token(const grail_model *model, const tokenizer *t, int32_t *out)
{
    int64_t id = tokenizer_bos(t);
    if (id < 0 && model->config != NULL) {
        CHECK(json_get_integer("config.json", model->config, "bos_token_id", -1, &id));
    }
    if (id < 0 || id >= model->graph->vocabulary) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the context is empty, and neither tokenizer nor config.json name a token "
                         "that texts begin with");
    }
    *out = (int32_t)id;
    return GRAIL_OK;
}

/* Where the text begins with that token anyway, it stands there once. */
static grail_status encode_alone(const grail_model *model, const tokenizer *t, const char *text,
                                 size_t size, token_list *out)
{
    int32_t first = 0;
    const int64_t before = out->count;
    CHECK(first_token(model, t, &first));
    CHECK(token_list_push(out, first));
    CHECK(tokenizer_encode(t, text, size, false, out));
    if (out->count > before + 2 && out->ids[before + 1] == first) {
        for (int64_t i = before + 1; i + 1 < out->count; i++) {
            out->ids[i] = out->ids[i + 1];
        }
        out->count--;
    }
    return GRAIL_OK;
}

static grail_status count_tokens(const tokenizer *t, const char *text, size_t size, int64_t *out)
{
    token_list alone = {0};
    const grail_status status = tokenizer_encode(t, text, size, true, &alone);
    *out = alone.count;
    token_list_fini(&alone);
    return status;
}

/* Appends the tokens of a choice; *context is how many of them belong to its context. */
static grail_status encode(const grail_model *model, const tokenizer *t, const task_documents *d,
                           const task_choice *c, token_list *out, int64_t *context)
{
    const char *text = (const char *)d->text.bytes + c->begin;
    *context = 1;
    if (c->split == c->begin) {
        return encode_alone(model, t, text, c->end - c->begin, out);
    }
    CHECK(count_tokens(t, text, c->split - c->begin, context));
    return tokenizer_encode(t, text, c->end - c->begin, true, out);
}

/* `first` is where the tokens of the choice begin. */
static grail_status make_row(const grail_model *model, const token_list *tokens, int64_t first,
                             int64_t context, choice_row *out)
{
    const int64_t all = tokens->count - first;
    const int64_t scored = all - context;
    CHECK(token_list_check(tokens, first, model->graph->vocabulary));
    if (scored < 1) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the tokenizer makes no token of it beyond the %" PRId64 " of its context",
                         context);
    }
    if (context < 1 || scored > model->context) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "has %" PRId64 " tokens behind %" PRId64
                         " of context; the model takes 1 to %" PRId64 " behind at least one",
                         scored, context, model->context);
    }
    const int64_t left_out = all - 1 > model->context ? all - 1 - model->context : 0;
    *out = (choice_row){.first = first + left_out, .inputs = all - 1 - left_out, .scored = scored};
    return GRAIL_OK;
}

static grail_status add_choice(const grail_model *model, const tokenizer *t,
                               const task_documents *d, const task_choice *c, choice_rows *out)
{
    int64_t context = 0;
    choice_row *row = &out->rows[out->count];
    const int64_t first = out->tokens.count;
    CHECK(encode(model, t, d, c, &out->tokens, &context));
    CHECK(make_row(model, &out->tokens, first, context, row));
    out->shortened += row->first > first ? 1 : 0;
    out->count++;
    return GRAIL_OK;
}

grail_status choice_rows_make(const grail_model *model, const tokenizer *t, const task_documents *d,
                              choice_rows *out)
{
    grail_status status = GRAIL_OK;
    choice_rows r = {0};
    TRY(memory_new(&r.rows, (size_t)d->choice_count, sizeof r.rows[0]));
    for (int64_t i = 0; i < d->count; i++) {
        const task_document *document = &d->documents[i];
        for (int64_t k = 0; k < document->count; k++) {
            TRY(error_in(add_choice(model, t, d, &d->choices[document->first + k], &r),
                         "%s: line %" PRId64 ": choice %" PRId64, d->path, document->line, k));
        }
    }
    *out = r;
    r = (choice_rows){0};
out:
    choice_rows_fini(&r);
    return status;
}

void choice_rows_fini(choice_rows *r)
{
    token_list_fini(&r->tokens);
    memory_free(r->rows);
    *r = (choice_rows){0};
}
