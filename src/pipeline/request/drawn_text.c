#include "pipeline/request/drawn_text.h"

#include "arch/model_text.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "exec/compute.h"
#include "exec/decoding.h"
#include "exec/next_token.h"
#include "pipeline/request/drawn_turns.h"

#include <math.h>
#include <string.h>

enum { USUAL_LENGTH = 512, MOST_SEQUENCES = 128 };
enum { QUESTION_SHARE = 4 }; /* a question has at most this part of a window */

/* For what attentions keep of all sequences that are drawn at once, or a share of the weights:
 * each place reads these once, whatever the number of sequences. */
static const double most_kept_bytes = 3e9;
static const double share_kept = 0.5;

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
    const int64_t most = prompts == NULL || prompts->count == 0 ? 1 : DRAWN_PROMPT;
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
        const int64_t of = i % prompts->count;
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
    backend *backend;
    parameter_store *store;
    int64_t at_once;          /* windows of a batch */
    float *logits;            /* [at_once, vocabulary] */
    int64_t drawn, end_drawn; /* tokens; how many of them were an end */
} drawing;

/* One of the windows that are drawn at once. */
typedef struct sequence {
    random_state random;
    int64_t given; /* tokens that it begins with */
    bool converses;
    drawn_turn turn;
    bool draws; /* the token at hand, which is then `id`, unless `status` is a failure */
    grail_status status;
    int32_t id;
} sequence;

static grail_status choose_token(const drawing *d, int64_t index, sequence *s)
{
    const token_choice choice = {.temperature = 1.0};
    const int64_t vocabulary = d->model->graph->vocabulary;
    return next_token(&choice, d->logits + index * vocabulary, vocabulary, &s->random, &s->id);
}

typedef struct choosing_job {
    const drawing *drawing;
    sequence *sequences;
} choosing_job;

static void choose_tokens(int64_t begin, int64_t end, void *context)
{
    const choosing_job *job = context;
    for (int64_t i = begin; i < end; i++) {
        sequence *s = &job->sequences[i];
        s->status = s->draws ? choose_token(job->drawing, i, s) : GRAIL_OK;
    }
}

/* The token at `place` of a window is what was chosen, or what its turn has there. */
static void take_token(drawing *d, sequence *s, int64_t place, int32_t *window)
{
    int32_t id = s->id;
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
}

/* Tokens at `place` of windows [begin, begin + count), from their logits. */
static grail_status draw_tokens(drawing *d, sequence *sequences, int64_t begin, int64_t count,
                                int64_t place)
{
    int32_t *windows = d->windows->ids + begin * d->windows->length;
    for (int64_t i = 0; i < count; i++) {
        sequence *s = &sequences[i];
        int32_t *window = windows + i * d->windows->length;
        s->draws = place >= s->given &&
                   !(s->converses && drawn_turn_gives(d->turns, &s->turn, &window[place]));
    }
    parallel_for(count, 1, choose_tokens, &(choosing_job){d, sequences});
    for (int64_t i = 0; i < count; i++) {
        sequence *s = &sequences[i];
        if (s->status != GRAIL_OK) { /* another thread has its message */
            return error_in(choose_token(d, i, s), "%s draws no text", d->model->path);
        }
        if (s->draws) {
            take_token(d, s, place, windows + i * d->windows->length);
        }
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

/* Windows [begin, begin + count), token by token. */
typedef struct batch {
    int64_t begin, count;
    decoding running;
    int32_t *ids; /* [count, length] that are appended, owned */
    sequence sequences[MOST_SEQUENCES];
} batch;

/* batch_end frees, also after a failure. */
static grail_status batch_begin(const drawing *d, int64_t begin, int64_t count, batch *b)
{
    const token_windows *w = d->windows;
    *b = (batch){.begin = begin, .count = count};
    CHECK(memory_new(&b->ids, (size_t)(count * w->length), sizeof b->ids[0]));
    CHECK(decoding_begin(&b->running, d->store, count, w->length));
    for (int64_t i = 0; i < count; i++) {
        b->sequences[i] = (sequence){
            .given = given_tokens(d->turns, d->prompts, w->length, begin + i),
            .converses = converses(d->turns, d->prompts, begin + i),
        };
        random_seed(&b->sequences[i].random, d->options->read.seed, (uint64_t)(begin + i) + 1);
    }
    return GRAIL_OK;
}

static void batch_end(batch *b)
{
    decoding_end(&b->running);
    memory_free(b->ids);
}

/* Appends the tokens from `from` on to those before, and draws those at `place`. */
static grail_status draw_place(drawing *d, batch *b, int64_t from, int64_t place)
{
    matrix logits = {0};
    const token_windows *w = d->windows;
    for (int64_t i = 0; i < b->count; i++) {
        memcpy(b->ids + i * (place - from), w->ids + (b->begin + i) * w->length + from,
               (size_t)(place - from) * sizeof b->ids[0]);
    }
    CHECK(decoding_append(&b->running, b->ids, place - from, &logits));
    CHECK(matrix_download_f32(logits, d->logits));
    return draw_tokens(d, b->sequences, b->begin, b->count, place);
}

static grail_status draw_windows(drawing *d, int64_t begin, int64_t count)
{
    grail_status status = GRAIL_OK;
    batch b;
    TRY(batch_begin(d, begin, count, &b));
    for (int64_t place = d->first; place < d->windows->length; place++) {
        TRY(draw_place(d, &b, place == d->first ? 0 : place - 1, place));
        TRY(tell(d, begin, count, place));
    }
out:
    batch_end(&b);
    return status;
}

static grail_status find_sequences(const drawing *d, int64_t *out)
{
    grail_status status = GRAIL_OK;
    const graph *g = d->model->graph;
    grail_model_facts facts = {0};
    int64_t *widths = NULL;
    double bytes = 0.0;
    TRY(grail_model_describe(d->model, &facts));
    TRY(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    TRY(graph_widths(g, widths));
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        if (n->kind == NODE_ATTENTION) {
            bytes += 4.0 * (double)d->windows->length *
                     (double)(widths[n->inputs[1]] + widths[n->inputs[2]]);
        }
    }
    const double may_keep = fmax(most_kept_bytes, share_kept * (double)facts.bytes);
    const double fit = bytes > 0.0 ? may_keep / bytes : MOST_SEQUENCES;
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

/* What drawing needs beside the windows; drawing_fini frees it, also after a failure. */
static grail_status drawing_open(drawing *d)
{
    const grail_compute compute = {.backend = d->options->run.backend,
                                   .precision = d->options->run.precision};
    const int64_t vocabulary = d->model->graph->vocabulary;
    CHECK(find_sequences(d, &d->at_once));
    CHECK(compute_open(&compute, d->model, &d->backend));
    CHECK(parameter_store_create(d->model, d->backend, NULL, &d->store));
    return memory_new_unset(&d->logits, (size_t)(d->at_once * vocabulary), sizeof d->logits[0]);
}

static void drawing_fini(drawing *d)
{
    memory_free(d->logits);
    parameter_store_free(d->store);
    backend_close(d->backend);
}

static grail_status draw_range(drawing *d, int64_t begin, int64_t end)
{
    for (; begin < end; begin += d->at_once) {
        const int64_t left = end - begin;
        CHECK(draw_windows(d, begin, left < d->at_once ? left : d->at_once));
    }
    return GRAIL_OK;
}

/* Windows from number `begin` on, the first ones together: how many are drawn together can decide
 * the last bits of their logits. */
static grail_status draw(drawing *d, int64_t begin, int64_t first)
{
    grail_status status = GRAIL_OK;
    const token_windows *w = d->windows;
    d->restarts =
        d->turns->place == NULL && d->ends->begin >= 0 && !text_ends_with(d->ends, d->ends->begin);
    d->first = w->length;
    for (int64_t i = 0; i < w->count && i < 2; i++) { /* windows are of two sorts at most */
        const int64_t given = given_tokens(d->turns, d->prompts, w->length, i);
        d->first = given < d->first ? given : d->first;
    }
    TRY(drawing_open(d));
    TRY(draw_range(d, begin, first));
    TRY(draw_range(d, first, w->count));
    TRY(check_text(d));
out:
    drawing_fini(d);
    return status;
}

/* -- windows that were drawn before ------------------------------------------------------------ */

void drawn_windows_fini(drawn_windows *k)
{
    token_windows_fini(&k->windows);
    *k = (drawn_windows){0};
}

static grail_status push_text(const char *text, buffer *all)
{
    const char *name = text == NULL ? "" : text;
    return buffer_append(all, name, strlen(name) + 1);
}

/* The hash of all that decides windows, but how they begin. */
static grail_status hash_drawing(const drawing *d, char out[HASH_TEXT_SIZE])
{
    const token_list *const lists[] = {&d->turns->turns.between, &d->turns->turns.after};
    grail_status status = GRAIL_OK;
    char tensors[HASH_TEXT_SIZE];
    buffer all = {0};
    buffer_init(&all, SIZE_MAX / 4);
    TRY(grail_model_digest(d->model, tensors));
    TRY(buffer_append(&all, tensors, sizeof tensors));
    TRY(push_text(d->options->run.backend, &all));
    TRY(push_text(d->options->run.precision, &all));
    TRY(buffer_append(&all, &d->options->read.seed, sizeof d->options->read.seed));
    TRY(buffer_append(&all, &d->windows->length, sizeof d->windows->length));
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)lists[i]->count * sizeof lists[i]->ids[0];
        TRY(bytes > 0 ? buffer_append(&all, lists[i]->ids, bytes) : GRAIL_OK);
    }
    hash_bytes(all.bytes, all.size, out);
out:
    buffer_fini(&all);
    return status;
}

/* The first `wanted` windows are those that are kept, if these begin in the same way. */
static bool take_kept(const drawing *d, const token_windows *kept, int64_t wanted)
{
    const token_windows *w = d->windows;
    for (int64_t i = 0; i < wanted; i++) {
        const int64_t given = given_tokens(d->turns, d->prompts, w->length, i);
        if (memcmp(w->ids + i * w->length, kept->ids + i * w->length,
                   (size_t)given * sizeof w->ids[0]) != 0) {
            return false;
        }
    }
    memcpy(w->ids, kept->ids, (size_t)(wanted * w->length) * sizeof w->ids[0]);
    return true;
}

static grail_status keep(const token_windows *w, int64_t first, const char *origin,
                         drawn_windows *kept)
{
    const size_t ids = (size_t)(first * w->length);
    drawn_windows_fini(kept);
    CHECK(memory_new_unset(&kept->windows.ids, ids, sizeof w->ids[0]));
    memcpy(kept->windows.ids, w->ids, ids * sizeof w->ids[0]);
    memcpy(kept->origin, origin, sizeof kept->origin);
    kept->windows.count = first;
    kept->windows.length = w->length;
    return GRAIL_OK;
}

/* All windows, or of those that are drawn first the `wanted` ones alone. */
static grail_status draw_or_take(drawing *d, int64_t wanted, int64_t first, drawn_windows *kept)
{
    char origin[HASH_TEXT_SIZE];
    bool taken = false;
    if (kept == NULL) {
        return draw(d, 0, first);
    }
    CHECK(hash_drawing(d, origin));
    if (strcmp(origin, kept->origin) == 0 && kept->windows.count == first) {
        taken = take_kept(d, &kept->windows, wanted < first ? wanted : first);
    }
    if (!taken || wanted > first) {
        CHECK(draw(d, taken ? first : 0, first));
    }
    return taken ? GRAIL_OK : keep(d->windows, first, origin, kept);
}

/* -- how long it takes ------------------------------------------------------------------------- */

/* *seconds of one place in the middle of so many windows. */
static grail_status measure_place(drawing *d, int64_t count, double *seconds)
{
    enum { PLACES = 4 };
    static const double enough = 0.5;
    grail_status status = GRAIL_OK;
    batch b;
    const int64_t middle = d->windows->length / 2;
    const int64_t end = d->windows->length - 1;
    double begun = clock_seconds();
    double passed = 0.0;
    TRY(batch_begin(d, 0, count, &b));
    TRY(draw_place(d, &b, 0, 1)); /* loads the weights */
    *seconds = clock_seconds() - begun;
    TRY(decoding_pretend(&b.running, middle));
    for (int made = 0; made <= PLACES && middle + made < end && passed < enough; made++) {
        begun = made == 1 ? clock_seconds() : begun; /* the first one makes room */
        TRY(draw_place(d, &b, middle + made, middle + made + 1));
        passed = made == 0 ? 0.0 : clock_seconds() - begun;
        *seconds = made == 0 ? *seconds : passed / made;
    }
out:
    batch_end(&b);
    return status;
}

static grail_status measure_batches(drawing *d, drawing_times *out)
{
    enum { FEW = 8 };
    const int64_t many = d->at_once;
    double of_few = 0.0;
    double of_many = 0.0;
    if (many > FEW) {
        CHECK(measure_place(d, FEW, &of_few));
    }
    CHECK(measure_place(d, many, &of_many));
    const double more = many > FEW ? fmax(0.0, of_many - of_few) / (double)(many - FEW) : 0.0;
    *out = (drawing_times){
        .step = fmax(0.0, of_many - more * (double)many), .window = more, .at_once = many};
    return GRAIL_OK;
}

double drawing_seconds(const drawing_times *t, int64_t count, int64_t length)
{
    const int64_t batches = t->at_once > 0 ? (count + t->at_once - 1) / t->at_once : 0;
    return (double)length * ((double)batches * t->step + (double)count * t->window);
}

/* -- all --------------------------------------------------------------------------------------- */

/* Names the network, what windows begin with, and the seed. */
static grail_status hash_origin(const grail_model *model, const grail_compress_options *options,
                                const chat_turns *turns, int64_t count, token_windows *w)
{
    const token_list *const lists[] = {&turns->between, &turns->after};
    grail_status status = GRAIL_OK;
    char tensors[HASH_TEXT_SIZE];
    buffer all = {0};
    buffer_init(&all, SIZE_MAX / 4);
    TRY(grail_model_digest(model, tensors));
    TRY(buffer_append(&all, tensors, sizeof tensors));
    TRY(buffer_append(&all, &options->read.seed, sizeof options->read.seed));
    TRY(buffer_append(&all, w->ids, (size_t)(count * w->length) * sizeof w->ids[0]));
    for (int i = 0; i < 2; i++) {
        const size_t bytes = (size_t)lists[i]->count * sizeof lists[i]->ids[0];
        TRY(bytes > 0 ? buffer_append(&all, lists[i]->ids, bytes) : GRAIL_OK);
    }
    hash_bytes(all.bytes, all.size, w->text_hash);
out:
    buffer_fini(&all);
    return status;
}

/* The model that draws; *opened, owned, where it is a teacher. */
static grail_status open_dense(const grail_model *model, const grail_compress_options *options,
                               int64_t count, int64_t length, grail_model **opened,
                               const grail_model **out)
{
    if (options->heal.teacher != NULL) {
        CHECK(grail_model_open_with(options->heal.teacher, options->read.reading, opened));
    }
    const grail_model *dense = *opened == NULL ? model : *opened;
    CHECK(model_check_next_token(dense, "drawing text needs"));
    if (length < 2 || length > dense->context || count < 1) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT,
                      "%s draws windows of 2 to %lld tokens, not %lld windows of %lld", dense->path,
                      (long long)dense->context, (long long)count, (long long)length),
            "path context");
    }
    *out = dense;
    return GRAIL_OK;
}

static grail_status make_windows(int64_t count, int64_t length, token_windows *out)
{
    size_t ids = 0;
    *out = (token_windows){.count = count, .length = length, .stream_tokens = -1};
    if (!size_multiply((size_t)count, (size_t)length, &ids)) {
        return error_set(GRAIL_ERROR_MEMORY, "%lld windows of %lld tokens are too many",
                         (long long)count, (long long)length);
    }
    return memory_new(&out->ids, ids, sizeof out->ids[0]);
}

grail_status drawn_text_read(const grail_model *model, const grail_compress_options *options,
                             const token_windows *prompts, int64_t count, int64_t length,
                             drawn_windows *kept, token_windows *out, char **notice)
{
    grail_status status = GRAIL_OK;
    grail_model *teacher = NULL;
    const grail_model *dense = NULL;
    drawn_turns turns = {0};
    text_ends ends;
    const int64_t first = options->read.drawn_first > 0 ? options->read.drawn_first : count;
    TRY(open_dense(model, options, count, length, &teacher, &dense));
    TRY(model_text_ends(dense, &ends));
    TRY(make_windows(count > first ? count : first, length, out));
    TRY(drawn_turns_find(dense, &options->read.text, length, &turns));
    begin_windows(dense, &ends, options->read.seed, prompts, &turns, out);
    TRY(hash_origin(dense, options, &turns.turns, count, out));
    if (options->output.dry_run == 0) {
        drawing d = {.model = dense,
                     .options = options,
                     .ends = &ends,
                     .prompts = prompts,
                     .turns = &turns,
                     .windows = out};
        TRY(draw_or_take(&d, count, first, kept));
    }
    out->count = count;
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

grail_status drawn_text_measure(const grail_model *model, const grail_compress_options *options,
                                int64_t count, int64_t length, drawing_times *out)
{
    grail_status status = GRAIL_OK;
    grail_model *teacher = NULL;
    const grail_model *dense = NULL;
    drawn_turns turns = {0};
    token_windows scratch = {0};
    text_ends ends;
    drawing d = {.options = options, .ends = &ends, .turns = &turns, .windows = &scratch};
    TRY(open_dense(model, options, count, length, &teacher, &dense));
    d.model = dense;
    TRY(model_text_ends(dense, &ends));
    TRY(make_windows(count, length, &scratch));
    TRY(drawing_open(&d));
    TRY(measure_batches(&d, out));
out:
    drawing_fini(&d);
    token_windows_fini(&scratch);
    grail_model_close(teacher);
    return status;
}
