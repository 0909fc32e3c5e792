/* Going on with a text, token by token. */
#include <grail/generate.h>

#include "arch/model_text.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/option_values.h"
#include "base/options.h"
#include "base/utf8.h"
#include "eval/measuring.h"
#include "exec/decoding.h"
#include "exec/next_token.h"

#include <stdio.h>
#include <string.h>

enum { USUAL_TOKENS = 64, LONGEST_TOKEN = 1 << 20 };

/* clang-format off */
#define FIELD(member) OPTION_FIELD(grail_generate_options, member)
static const grail_option fields[] = {
    {FIELD(prompt), .type = GRAIL_OPTION_TEXT, .what = "prompt", .name = "prompt",
     .argument = "TEXT", .help = "text that the network goes on with"},
    {FIELD(tokens), .type = GRAIL_OPTION_INTEGER, .what = "the number of tokens",
     .zero_is_usual = 1, .name = "tokens", .argument = "N",
     .help = "tokens to generate at most (64)"},
    {FIELD(temperature), .type = GRAIL_OPTION_REAL, .what = "temperature",
     .name = "temperature", .argument = "T",
     .help = "draw tokens, with logits divided by T; 0 takes the most likely one each time (0)"},
    {FIELD(top_k), .type = GRAIL_OPTION_INTEGER, .what = "top-k", .zero_is_usual = 1,
     .name = "top-k", .argument = "N", .only_with = "temperature", .never_with = "temperature=0",
     .help = "draw from the N most likely tokens alone (all)"},
    {FIELD(top_p), .type = GRAIL_OPTION_REAL, .what = "top-p", .zero_is_usual = 1, .below = 1.0,
     .name = "top-p", .argument = "P", .only_with = "temperature", .never_with = "temperature=0",
     .help = "draw from the fewest most likely tokens that are together as likely as P (all)"},
    {FIELD(seed), .type = GRAIL_OPTION_SEED, .name = "seed", .argument = "N",
     .only_with = "temperature", .help = "seed of the draws (0)"},
    OPTION_ROOM(grail_generate_options, room, grail_generate_options),
    {0},
};
/* clang-format on */

const grail_option *grail_generate_option_at(int i)
{
    return option_at(fields, i);
}

typedef struct generation {
    const grail_model *model;
    const grail_generate_options *options;
    grail_generate_observer observer;
    void *user;
    tokenizer *tokenizer;
    token_list prompt;
    text_ends ends;
    int64_t wanted; /* tokens at most */
    random_state random;
    float *logits;  /* [vocabulary] */
    buffer pending; /* bytes of a character that is not complete */
} generation;

/* -- the prompt -------------------------------------------------------------------------------- */

static grail_status read_prompt(generation *g)
{
    const char *prompt = g->options->prompt;
    CHECK(options_check(fields, g->options));
    CHECK(option_given("prompt", "prompt", prompt));
    if (g->model->graph->input_kind != INPUT_TOKENS) {
        return error_set(GRAIL_ERROR_ARGUMENT, "'%s' reads images, and goes on with no text",
                         g->model->path);
    }
    CHECK(model_check_next_token(g->model, "generating text needs"));
    CHECK(model_tokenizer_open(g->model, &g->tokenizer));
    CHECK(option_about("prompt",
                       tokenizer_encode(g->tokenizer, prompt, strlen(prompt), true, &g->prompt)));
    CHECK(error_in(token_list_check(&g->prompt, 0, g->model->graph->vocabulary), "the prompt"));
    if (g->prompt.count == 0 || g->prompt.count >= g->model->context) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "the prompt has %lld tokens, expected 1 to %lld: the network "
                                     "takes %lld",
                                     (long long)g->prompt.count, (long long)g->model->context - 1,
                                     (long long)g->model->context),
                           "prompt");
    }
    return GRAIL_OK;
}

/* -- tokens ------------------------------------------------------------------------------------ */

/* Shows the characters that a token completes; *stopped is what the observer wants. */
static grail_status show(generation *g, int32_t id, bool ends, bool *stopped)
{
    grail_status status = GRAIL_OK;
    char *text = NULL;
    if (!ends) {
        TRY(tokenizer_decode(g->tokenizer, id, &g->pending));
    }
    size_t whole = utf8_valid_prefix(g->pending.bytes, g->pending.size);
    const bool is_broken =
        g->pending.size - whole >= 4; /* no character has so many bytes to come */
    whole = is_broken ? g->pending.size : whole;
    TRY(memory_new(&text, whole + 1, 1));
    if (whole > 0) {
        memcpy(text, g->pending.bytes, whole);
        memmove(g->pending.bytes, g->pending.bytes + whole, g->pending.size - whole);
        g->pending.size -= whole;
    }
    *stopped = g->observer != NULL && g->observer(g->user, id, text) != 0;
out:
    memory_free(text);
    return status;
}

static grail_status go_on(generation *g, decoding *d, grail_generated *out)
{
    double begin = clock_seconds();
    matrix logits = {0};
    bool stopped = false;
    bool goes_on = true;
    int32_t id = 0;
    const token_choice choice = {.temperature = g->options->temperature,
                                 .top_p = g->options->top_p,
                                 .top_k = g->options->top_k};
    CHECK(decoding_append(d, g->prompt.ids, g->prompt.count, &logits));
    out->prompt_seconds = clock_seconds() - begin;
    begin = clock_seconds();
    while (goes_on) {
        CHECK(matrix_download_f32(logits, g->logits));
        CHECK(error_in(next_token(&choice, g->logits, logits.columns, &g->random, &id), "%s",
                       g->model->path));
        out->tokens++;
        out->ended = text_ends_with(&g->ends, id) ? 1 : 0;
        CHECK(show(g, id, out->ended != 0, &stopped));
        goes_on = !stopped && out->ended == 0 && out->tokens < g->wanted && d->count < d->most;
        CHECK(goes_on ? decoding_append(d, &id, 1, &logits) : GRAIL_OK);
    }
    out->seconds = clock_seconds() - begin;
    return GRAIL_OK;
}

grail_status grail_generate(const grail_model *model, const grail_generate_options *options,
                            const grail_compute *compute, grail_generate_observer observer,
                            void *user, grail_generated *out)
{
    grail_status status = GRAIL_OK;
    measured_network n = {0};
    decoding d = {0};
    grail_generated made = {0};
    generation g = {.model = model,
                    .options = options,
                    .observer = observer,
                    .user = user,
                    .wanted = options->tokens == 0 ? USUAL_TOKENS : options->tokens};
    buffer_init(&g.pending, LONGEST_TOKEN);
    TRY(read_prompt(&g));
    TRY(model_text_ends(model, &g.ends));
    random_seed(&g.random, options->seed, 0);
    TRY(memory_new_unset(&g.logits, (size_t)model->graph->vocabulary, sizeof g.logits[0]));
    TRY(measured_open(model, NULL, compute, &n));
    const int64_t left = model->context - g.prompt.count;
    TRY(decoding_begin(&d, n.store, 1, g.prompt.count + (g.wanted < left ? g.wanted : left)));
    TRY(go_on(&g, &d, &made));
    made.prompt_tokens = g.prompt.count;
    snprintf(made.precision, sizeof made.precision, "%s", backend_precision(n.backend));
    *out = made;
out:
    decoding_end(&d);
    measured_close(&n);
    tokenizer_close(g.tokenizer);
    token_list_fini(&g.prompt);
    memory_free(g.logits);
    buffer_fini(&g.pending);
    return status;
}
