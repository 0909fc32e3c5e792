/* Perplexity as the research repositories measure it. Source: docs/numerics.md, Perplexity. */
#include "eval/perplexity.h"

#include "arch/model_text.h"
#include "base/option_values.h"
#include "comm/comm.h"
#include "eval/measuring.h"
#include "eval/token_losses.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sums over scored tokens. */
typedef struct nll_sums {
    double sum, square;
    int64_t count;
} nll_sums;

/* Windows of one length; means[count]: the mean NLL of each. */
static grail_status measure_chunk(parameter_store *store, const token_windows *windows,
                                  int64_t first, int64_t count, const forward_watch *watch,
                                  nll_sums *sums, double *means)
{
    grail_status status = GRAIL_OK;
    forward_pass f = {.watch = watch};
    entropy_sums *losses = NULL;
    const token_windows chunk = {.ids = windows->ids + window_start(windows, first),
                                 .count = count,
                                 .length = window_size(windows, first)};
    const int64_t each = chunk.length - 1;
    const int64_t scored = count * each;
    TRY(memory_new_unset(&losses, (size_t)scored, sizeof losses[0]));
    TRY(forward_begin(&f, store->model, store, &chunk, 0, count));
    TRY(token_losses(&f, targets_of_windows(&chunk), 0, losses));
    for (int64_t w = 0; w < count; w++) {
        double of_window = 0.0;
        for (int64_t i = w * each; i < (w + 1) * each; i++) {
            const double nll = entropy_of(&losses[i]);
            of_window += nll;
            sums->square += nll * nll;
        }
        means[w] = of_window / (double)each;
        sums->sum += of_window;
    }
    sums->count += scored;
out:
    forward_end(&f);
    memory_free(losses);
    return status;
}

static void fill_text(const grail_model *model, const grail_text_source *source,
                      const token_windows *windows, grail_perplexity *out)
{
    out->windows = windows->count;
    out->context = windows->length;
    out->stride = windows->length;
    out->scored_tokens = window_start(windows, windows->count) - windows->count;
    out->stream_tokens = windows->stream_tokens;
    memcpy(out->text_sha256, windows->text_hash, sizeof out->text_sha256);
    snprintf(out->dtype, sizeof out->dtype, "%s", grail_dtype_name(model_usual_dtype(model)));
    snprintf(out->protocol, sizeof out->protocol, "%s",
             source->protocol == NULL ? "plain" : source->protocol);
}

enum { CHUNK_TOKENS = 1 << 15 };

/* Windows are measured in chunks of one length, of as many as one pass takes. Ranks take the chunks
 * in turns. */
typedef struct chunk_list {
    const token_windows *text;
    const grail_comm *comm; /* or NULL */
    int64_t *firsts;        /* [count + 1] first window of each chunk, owned */
    int64_t count;          /* chunks */
    nll_sums *of;           /* [count], owned */
    double *means;          /* [text->count], of the windows of the last chunk first; owned */
    grail_eval_observer observer;
    void *user;
} chunk_list;

/* The chunks of this rank. */
typedef struct own_chunks {
    const chunk_list *list;
    int64_t chunk, windows; /* the one at work, and how many windows it has */
    nll_sums sums;          /* of those before it */
} own_chunks;

static void add_sums(const nll_sums *part, nll_sums *into)
{
    into->sum += part->sum;
    into->square += part->square;
    into->count += part->count;
}

/* Tells of the chunks of this rank as a part of those of all, when `part` of the one at work is
 * done. */
static grail_status tell(const own_chunks *own, double part)
{
    const chunk_list *l = own->list;
    const bool ended = part >= 1.0;
    const int64_t total = l->text->count;
    const int64_t round = own->chunk - comm_rank(l->comm);
    const int64_t behind = round + comm_size(l->comm);
    const int64_t before = l->firsts[round];
    const int64_t done = ended ? l->firsts[behind < l->count ? behind : l->count] : before;
    const double moved = part * (double)(own->windows * comm_size(l->comm));
    const grail_eval_progress now = {
        .done = done,
        .total = total,
        .passed = fmin(ended ? (double)done : (double)before + moved, (double)total),
        .so_far = own->sums.count > 0 ? own->sums.sum / (double)own->sums.count : (double)NAN,
        .results = l->means,
        .count = ended ? own->windows : 0};
    return observer_tell(l->observer, l->user, &now, "windows");
}

/* What is left behind the blocks is the measurement itself. */
static grail_status tell_part(void *user, double passed)
{
    return tell(user, fmin(passed, 0.99));
}

static grail_status plan_chunks(const parameter_store *store, chunk_list *l)
{
    const token_windows *text = l->text;
    CHECK(memory_new(&l->firsts, (size_t)text->count + 1, sizeof l->firsts[0]));
    for (int64_t first = 0; first < text->count; first = l->firsts[l->count]) {
        const int64_t size = window_size(text, first);
        const int64_t alike = windows_of_one_size(text, first, text->count);
        const int64_t most = forward_chunk(store->model, store->backend, size,
                                           (forward_limit){.tokens = CHUNK_TOKENS});
        if (size < 2) {
            return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                         "window %lld has one token; perplexity needs two or more "
                                         "in each",
                                         (long long)first),
                               "tokens");
        }
        l->firsts[++l->count] = first + (alike < most ? alike : most);
    }
    return GRAIL_OK;
}

/* Allocates what the list owns, also after a failure. */
static grail_status measure_own(parameter_store *store, chunk_list *l)
{
    own_chunks own = {.list = l};
    const forward_watch watch = {tell_part, &own};
    CHECK(memory_new(&l->of, (size_t)l->count, sizeof l->of[0]));
    CHECK(memory_new(&l->means, (size_t)l->text->count, sizeof l->means[0]));
    for (int64_t i = comm_rank(l->comm); i < l->count; i += comm_size(l->comm)) {
        own.chunk = i;
        own.windows = l->firsts[i + 1] - l->firsts[i];
        CHECK(
            measure_chunk(store, l->text, l->firsts[i], own.windows, &watch, &l->of[i], l->means));
        add_sums(&l->of[i], &own.sums);
        CHECK(tell(&own, 1.0));
    }
    return GRAIL_OK;
}

/* Adds up in the order of the chunks, whoever measured them. */
static grail_status measure_chunks(parameter_store *store, const token_windows *text,
                                   const grail_comm *comm, grail_eval_observer observer, void *user,
                                   nll_sums *sums)
{
    grail_status status = GRAIL_OK;
    chunk_list l = {.text = text, .comm = comm, .observer = observer, .user = user};
    TRY(plan_chunks(store, &l));
    TRY(comm_settle(comm, measure_own(store, &l)));
    for (int64_t i = 0; i < l.count; i++) {
        TRY(comm_broadcast_next(comm, (int)(i % comm_size(comm)), &l.of[i], sizeof l.of[i]));
        add_sums(&l.of[i], sums);
    }
out:
    memory_free(l.firsts);
    memory_free(l.of);
    memory_free(l.means);
    return status;
}

grail_status perplexity_check_windows(int64_t windows)
{
    return option_integer("windows", "the number of windows", windows, 0);
}

static grail_status read_text(const grail_model *recorded, const grail_model *model,
                              const grail_text_source *source, int64_t windows, token_windows *text,
                              grail_perplexity *result)
{
    text_overlap overlap = {0};
    CHECK(model_read_first_windows(model, source, windows, text, result->tokenizer_sha256));
    if (windows > text->count) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "%lld windows were requested, but the text holds %lld",
                                     (long long)windows, (long long)text->count),
                           "windows");
    }
    text->count = windows > 0 ? windows : text->count;
    CHECK(text_overlap_find(recorded, text, &overlap));
    result->calibration_runs = overlap.recorded;
    result->overlap_runs = overlap.found;
    result->is_calibration = overlap.is_calibration ? 1 : 0;
    return GRAIL_OK;
}

grail_status perplexity_measure(const grail_model *recorded, parameter_store *store,
                                const grail_text_source *source, int64_t windows,
                                const grail_comm *comm, grail_eval_observer observer, void *user,
                                grail_perplexity *out)
{
    grail_status status = GRAIL_OK;
    token_windows text = {0};
    nll_sums sums = {0};
    grail_perplexity result = {0};
    TRY(comm_settle(comm, read_text(recorded, store->model, source, windows, &text, &result)));
    TRY(windows_sort(&text));
    TRY(agreement_check(comm, recorded, store->backend, "text", text.ids,
                        (size_t)window_start(&text, text.count) * sizeof text.ids[0]));
    TRY(measure_chunks(store, &text, comm, observer, user, &sums));
    fill_text(store->model, source, &text, &result);
    const double n = (double)sums.count;
    const double variance = sums.square / n - sums.sum / n * (sums.sum / n);
    result.mean_nll = sums.sum / n;
    result.perplexity = exp(result.mean_nll);
    result.error = sums.count > 1 ? sqrt(fmax(variance, 0.0) / (n - 1.0)) * result.perplexity : 0.0;
    snprintf(result.precision, sizeof result.precision, "%s", backend_precision(store->backend));
    *out = result;
out:
    token_windows_fini(&text);
    return status;
}

/* Images are refused where the text is read. */
static grail_status check_kind(const grail_model *model)
{
    return model->graph->input_kind == INPUT_IMAGES
               ? GRAIL_OK
               : model_check_next_token(model, "perplexity is made of");
}

static grail_status open_to_measure(const grail_model *model, const grail_model *narrow,
                                    int64_t windows, const grail_compute *compute,
                                    measured_network *n)
{
    CHECK(perplexity_check_windows(windows));
    return measured_open_alone(model, narrow, compute, n);
}

grail_status grail_perplexity_of_cut(const grail_model *dense, const grail_model *narrow,
                                     const grail_text_source *source, int64_t windows,
                                     const grail_compute *compute, grail_eval_observer observer,
                                     void *user, grail_perplexity *out)
{
    grail_status status = GRAIL_OK;
    measured_network n = {0};
    const grail_comm *comm = compute == NULL ? NULL : compute->comm;
    CHECK(comm_check(comm));
    CHECK(check_kind(dense));
    TRY(comm_settle(comm, open_to_measure(dense, narrow, windows, compute, &n)));
    TRY(perplexity_measure(narrow == NULL ? dense : narrow, n.store, source, windows, comm,
                           observer, user, out));
out:
    measured_close(&n);
    return status;
}

grail_status grail_perplexity_measure(const grail_model *model, const grail_text_source *source,
                                      int64_t windows, const grail_compute *compute,
                                      grail_eval_observer observer, void *user,
                                      grail_perplexity *out)
{
    return grail_perplexity_of_cut(model, NULL, source, windows, compute, observer, user, out);
}

grail_status grail_perplexity_describe(const grail_model *model, const grail_text_source *source,
                                       int64_t windows, grail_perplexity *out)
{
    grail_status status = GRAIL_OK;
    token_windows text = {0};
    grail_perplexity result = {0};
    TRY(check_kind(model));
    TRY(perplexity_check_windows(windows));
    TRY(read_text(model, model, source, windows, &text, &result));
    fill_text(model, source, &text, &result);
    *out = result;
out:
    token_windows_fini(&text);
    return status;
}
