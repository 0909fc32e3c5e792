#include "pipeline/request/drawn_text.h"

#include "arch/model_text.h"
#include "base/buffer.h"
#include "exec/compute.h"
#include "exec/decoding.h"
#include "exec/next_token.h"
#include "pipeline/request/drawn_turns.h"

#include <string.h>

enum { USUAL_LENGTH = 512, PROMPT_TOKENS = 32, MOST_SEQUENCES = 128 };
enum { QUESTION_SHARE = 4 }; /* a question has at most this part of a window */

/* For what attentions keep of all sequences that are drawn at once. */
static const double most_kept_bytes = 2e9;

bool text_is_drawn(const char *path)
{
    return path != NULL && strcmp(path, DRAWN_PLACE) == 0;
}

int64_t drawn_length(const grail_model *model, const grail_compress_options *options)
{
    const int64_t asked = options->read.text.context;
    const int64_t usual = model->context < USUAL_LENGTH ? model->context : USUAL_LENGTH;
    return asked > 0 ? asked : usual;
}

/* -- how windows begin ------------------------------------------------------------------------- */

static int64_t prompt_tokens(const token_windows *prompts, int64_t length)
{
    const int64_t most = prompts == NULL || prompts->count == 0 ? 1 : PROMPT_TOKENS;
    return most < length ? most : length;
}

/* Without a token that begins texts it is one that ends them, and else any. */
static int32_t first_token(const grail_model *model, const text_ends *e, uint64_t seed,
                           int64_t window)
{
    random_state random;
    random_seed(&random, seed, (uint64_t)window + 1);
    if (e->begin >= 0) {
        return e->begin;
    }
    return e->end_count > 0 && e->ends[0] >= 0 && e->ends[0] < model->graph->vocabulary
               ? e->ends[0]
               : (int32_t)random_below(&random, model->graph->vocabulary);
}

/* All windows of a model that answers; beside other texts every second one, as it reads both. */
static bool converses(const drawn_turns *t, const token_windows *prompts, int64_t window)
{
    return t->turns.begin.count > 0 && (prompts == NULL || prompts->count == 0 || window % 2 == 1);
}

static int64_t given_tokens(const drawn_turns *t, const token_windows *prompts, int64_t length,
                            int64_t window)
{
    return converses(t, prompts, window) ? t->turns.begin.count : prompt_tokens(prompts, length);
}

static void begin_windows(const grail_model *model, const text_ends *e, uint64_t seed,
                          const token_windows *prompts, const drawn_turns *t, token_windows *w)
{
    for (int64_t i = 0; i < w->count; i++) {
        int32_t *to = w->ids + i * w->length;
        const int64_t tokens = given_tokens(t, prompts, w->length, i);
        if (converses(t, prompts, i)) {
            memcpy(to, t->turns.begin.ids, (size_t)tokens * sizeof to[0]);
            continue;
        }
        if (prompts == NULL || prompts->count == 0) {
            to[0] = first_token(model, e, seed, i);
            continue;
        }
        const int64_t of = i * prompts->count / w->count; /* spread evenly */
        const int64_t size = window_size(prompts, of);
        for (int64_t k = 0; k < tokens; k++) {
            to[k] = prompts->ids[window_start(prompts, of) + k % size];
        }
    }
}

/* -- drawing ----------------------------------------------------------------------------------- */

typedef struct drawing {
    const grail_model *model; /* the dense one */
    const grail_compress_options *options;
    const text_ends *ends;
    const token_windows *prompts; /* or NULL */
    const drawn_turns *turns;
    token_windows *windows;
    int64_t first; /* token that is drawn first */
    bool restarts; /* behind an end comes the token that begins texts */
    parameter_store *store;
    float *logits;            /* [sequences, vocabulary] */
    int64_t drawn, end_drawn; /* tokens; how many of them were an end */
} drawing;

/* One of the windows that are drawn at once. */
typedef struct sequence {
    random_state random;
    int64_t given; /* tokens that it begins with */
    bool converses;
    drawn_turn turn;
} sequence;

static grail_status draw_token(drawing *d, sequence *s, const float *logits, int64_t place,
                               int32_t *window)
{
    const token_choice choice = {.temperature = 1.0};
    int32_t id = 0;
    CHECK(error_in(next_token(&choice, logits, d->model->graph->vocabulary, &s->random, &id),
                   "%s draws no text", d->model->path));
    bool ends = text_ends_with(d->ends, id);
    if (s->converses) {
        const int64_t most = d->windows->length / QUESTION_SHARE;
        id = drawn_turn_take(d->turns, &s->turn, id, ends, most, &ends);
    } else if (d->restarts && place > s->given && text_ends_with(d->ends, window[place - 1])) {
        id = d->ends->begin;
    }
    d->drawn++;
    d->end_drawn += ends ? 1 : 0;
    window[place] = id;
    return GRAIL_OK;
}

/* Tokens at `place` of windows [begin, begin + count), from their logits. */
static grail_status draw_tokens(drawing *d, sequence *sequences, int64_t begin, int64_t count,
                                int64_t place)
{
    for (int64_t i = 0; i < count; i++) {
        sequence *s = &sequences[i];
        int32_t *window = d->windows->ids + (begin + i) * d->windows->length;
        const float *logits = d->logits + i * d->model->graph->vocabulary;
        const bool is_given =
            place < s->given ||
            (s->converses && drawn_turn_gives(d->turns, &s->turn, &window[place]));
        CHECK(is_given ? GRAIL_OK : draw_token(d, s, logits, place, window));
    }
    return GRAIL_OK;
}

static grail_status tell(const drawing *d, int64_t begin, int64_t count, int64_t place)
{
    const grail_run_options *run = &d->options->run;
    const double done = ((double)begin + (double)count * (double)(place + 1 - d->first) /
                                             (double)(d->windows->length - d->first)) /
                        (double)d->windows->count;
    if (run->step_observer == NULL || run->step_observer(run->observer_user, GRAIL_STEP_DRAWING,
                                                         d->model->graph->block_count, done) == 0) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_CANCELLED, "cancelled while the network drew its own text");
}

/* Windows [begin, begin + count), token by token behind their first ones. */
static grail_status draw_windows(drawing *d, int64_t begin, int64_t count)
{
    grail_status status = GRAIL_OK;
    decoding running = {0};
    matrix logits = {0};
    int32_t *ids = NULL;
    sequence sequences[MOST_SEQUENCES];
    const token_windows *w = d->windows;
    TRY(memory_new(&ids, (size_t)(count * w->length), sizeof ids[0]));
    TRY(decoding_begin(&running, d->store, count, w->length));
    for (int64_t i = 0; i < count; i++) {
        sequences[i] = (sequence){
            .given = given_tokens(d->turns, d->prompts, w->length, begin + i),
            .converses = converses(d->turns, d->prompts, begin + i),
        };
        random_seed(&sequences[i].random, d->options->read.seed, (uint64_t)(begin + i) + 1);
    }
    for (int64_t place = d->first; place < w->length; place++) {
        const int64_t from = place == d->first ? 0 : place - 1;
        for (int64_t i = 0; i < count; i++) {
            memcpy(ids + i * (place - from), w->ids + (begin + i) * w->length + from,
                   (size_t)(place - from) * sizeof ids[0]);
        }
        TRY(decoding_append(&running, ids, place - from, &logits));
        TRY(matrix_download_f32(logits, d->logits));
        TRY(draw_tokens(d, sequences, begin, count, place));
        TRY(tell(d, begin, count, place));
    }
out:
    decoding_end(&running);
    memory_free(ids);
    return status;
}

/* So many that what attentions keep of them stays small beside the weights. */
static grail_status find_sequences(const drawing *d, int64_t *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = d->model->graph;
    int64_t *widths = NULL;
    double bytes = 0.0;
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(graph_widths(g, widths));
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (n->kind == NODE_ATTENTION) {
            bytes += 4.0 * (double)d->windows->length *
                     (double)(widths[n->inputs[1]] + widths[n->inputs[2]]);
        }
    }
    const double fit = bytes > 0.0 ? most_kept_bytes / bytes : MOST_SEQUENCES;
    const int64_t most = fit < 1.0 ? 1 : fit < MOST_SEQUENCES ? (int64_t)fit : MOST_SEQUENCES;
    *out = most < d->windows->count ? most : d->windows->count;
out:
    memory_free(widths);
    return status;
}

/* A network that says nothing is no source of samples. */
static grail_status check_text(const drawing *d)
{
    if (2 * d->end_drawn <= d->drawn) {
        return GRAIL_OK;
    }
    return error_about(error_set(GRAIL_ERROR_UNSUPPORTED,
                                 "%s draws a token that ends texts or turns %lld times in %lld and "
                                 "hardly any text; calibrate on a text",
                                 d->model->path, (long long)d->end_drawn, (long long)d->drawn),
                       "path");
}

static grail_status draw(const grail_model *model, const grail_compress_options *options,
                         const text_ends *ends, const token_windows *prompts,
                         const drawn_turns *turns, token_windows *w)
{
    grail_status status = GRAIL_OK;
    backend *b = NULL;
    int64_t at_once = 0;
    drawing d = {.model = model,
                 .options = options,
                 .ends = ends,
                 .prompts = prompts,
                 .turns = turns,
                 .windows = w,
                 .first = w->length};
    const grail_compute compute = {.backend = options->run.backend,
                                   .precision = options->run.precision};
    d.restarts = turns->place == NULL && ends->begin >= 0 && !text_ends_with(ends, ends->begin);
    for (int64_t i = 0; i < w->count && i < 2; i++) { /* windows are of two sorts at most */
        const int64_t given = given_tokens(turns, prompts, w->length, i);
        d.first = given < d.first ? given : d.first;
    }
    TRY(find_sequences(&d, &at_once));
    TRY(compute_open(&compute, model, &b));
    TRY(parameter_store_create(model, b, NULL, &d.store));
    TRY(memory_new_unset(&d.logits, (size_t)(at_once * model->graph->vocabulary),
                         sizeof d.logits[0]));
    for (int64_t begin = 0; begin < w->count; begin += at_once) {
        const int64_t left = w->count - begin;
        TRY(draw_windows(&d, begin, left < at_once ? left : at_once));
    }
    TRY(check_text(&d));
out:
    memory_free(d.logits);
    parameter_store_free(d.store);
    backend_close(b);
    return status;
}

/* -- all --------------------------------------------------------------------------------------- */

/* Names the network, what windows begin with, and the seed. */
static grail_status hash_origin(const grail_model *model, const grail_compress_options *options,
                                const chat_turns *turns, token_windows *w)
{
    const token_list *const lists[] = {&turns->between, &turns->after};
    grail_status status = GRAIL_OK;
    char tensors[HASH_TEXT_SIZE];
    buffer all = {0};
    buffer_init(&all, SIZE_MAX / 4);
    TRY(grail_model_digest(model, tensors));
    TRY(buffer_append(&all, tensors, sizeof tensors));
    TRY(buffer_append(&all, &options->read.seed, sizeof options->read.seed));
    TRY(buffer_append(&all, w->ids, (size_t)(w->count * w->length) * sizeof w->ids[0]));
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)lists[i]->count * sizeof lists[i]->ids[0];
        TRY(bytes > 0 ? buffer_append(&all, lists[i]->ids, bytes) : GRAIL_OK);
    }
    hash_bytes(all.bytes, all.size, w->text_hash);
out:
    buffer_fini(&all);
    return status;
}

grail_status drawn_text_read(const grail_model *model, const grail_compress_options *options,
                             const token_windows *prompts, int64_t count, int64_t length,
                             token_windows *out, char **notice)
{
    grail_status status = GRAIL_OK;
    grail_model *teacher = NULL;
    drawn_turns turns = {0};
    text_ends ends;
    size_t ids = 0;
    if (options->heal.teacher != NULL) {
        TRY(grail_model_open_with(options->heal.teacher, options->read.reading, &teacher));
    }
    const grail_model *dense = teacher == NULL ? model : teacher;
    TRY(model_check_next_token(dense, "drawing text needs"));
    if (length < 2 || length > dense->context || count < 1) {
        FAIL_ABOUT("path context", GRAIL_ERROR_ARGUMENT,
                   "%s draws windows of 2 to %lld tokens, not %lld windows of %lld", dense->path,
                   (long long)dense->context, (long long)count, (long long)length);
    }
    TRY(model_text_ends(dense, &ends));
    *out = (token_windows){.count = count, .length = length, .stream_tokens = -1};
    if (!size_multiply((size_t)count, (size_t)length, &ids)) {
        FAIL(GRAIL_ERROR_MEMORY, "%lld windows of %lld tokens are too many", (long long)count,
             (long long)length);
    }
    TRY(memory_new(&out->ids, ids, sizeof out->ids[0]));
    TRY(drawn_turns_find(dense, &options->read.text, length, &turns));
    begin_windows(dense, &ends, options->read.seed, prompts, &turns, out);
    TRY(hash_origin(dense, options, &turns.turns, out));
    if (options->output.dry_run == 0) {
        TRY(draw(dense, options, &ends, prompts, &turns, out));
    }
    out->is_written = turns.turns.begin.count > 0;
    if (turns.why != NULL) {
        TRY(memory_format(notice,
                          "the network drew plain text and no conversations: it has a chat "
                          "template (%s), but %s; the Python package, which runs templates of any "
                          "kind, draws them",
                          turns.place, turns.why));
    }
out:
    drawn_turns_fini(&turns);
    grail_model_close(teacher);
    return status;
}
