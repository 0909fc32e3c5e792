/* Perplexity as the research repositories measure it. Source: docs/numerics.md, Perplexity. */
#include "eval/perplexity.h"

#include "arch/model_text.h"
#include "base/option_values.h"
#include "eval/token_losses.h"
#include "eval/zeroed_store.h"
#include "exec/compute.h"
#include "pipeline/request/calibration_record.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sums over scored tokens. */
typedef struct nll_sums {
    double sum, square;
    int64_t count;
} nll_sums;

/* means[count]: the mean NLL of each window. */
static grail_status measure_chunk(parameter_store *store, const token_windows *windows,
                                  int64_t first, int64_t count, nll_sums *sums, double *means)
{
    grail_status status = GRAIL_OK;
    forward_pass f = {0};
    entropy_sums *losses = NULL;
    const int64_t each = windows->length - 1;
    const int64_t scored = count * each;
    TRY(memory_new_unset(&losses, (size_t)scored, sizeof losses[0]));
    TRY(forward_begin(&f, store->model, store, windows, first, count));
    TRY(token_losses(&f, targets_of_windows(windows), 0, losses));
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

/* The record has runs of the calibration tokens, and the hash of the text. */
static grail_status compare_with_calibration(const grail_model *model, const token_windows *windows,
                                             grail_perplexity *out)
{
    grail_status status = GRAIL_OK;
    json_t *record = NULL;
    hash_set set = {0};
    TRY(calibration_record_read(model, &record));
    TRY(calibration_record_hashes(model, record, &set));
    out->calibration_runs = set.count;
    out->overlap_runs = shingles_found(&set, windows);
    out->is_calibration = calibration_record_is(record, "text_sha256", windows->text_hash) ? 1 : 0;
out:
    hash_set_fini(&set);
    json_decref(record);
    return status;
}

static void fill_result(const token_windows *windows, const nll_sums *sums, grail_perplexity *out)
{
    const double n = (double)sums->count;
    const double mean = sums->sum / n;
    const double variance = sums->square / n - mean * mean;
    out->mean_nll = mean;
    out->perplexity = exp(mean);
    out->error = sums->count > 1 ? sqrt(fmax(variance, 0.0) / (n - 1.0)) * out->perplexity : 0.0;
    out->windows = windows->count;
    out->context = windows->length;
    out->stride = windows->length;
    out->scored_tokens = sums->count;
    out->stream_tokens = windows->stream_tokens;
    memcpy(out->text_sha256, windows->text_hash, sizeof out->text_sha256);
}

static grail_status limit_windows(token_windows *windows, int64_t most)
{
    if (most > windows->count) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "%lld windows were requested, but the text holds %lld",
                                     (long long)most, (long long)windows->count),
                           "windows");
    }
    windows->count = most > 0 ? most : windows->count;
    return GRAIL_OK;
}

static grail_status measure_chunks(parameter_store *store, const token_windows *text,
                                   grail_eval_observer observer, void *user, nll_sums *sums)
{
    grail_status status = GRAIL_OK;
    double *means = NULL;
    const int64_t chunk = forward_chunk(store->model, store->backend, text->length, 0);
    const int64_t most = text->count < chunk ? text->count : chunk;
    TRY(memory_new(&means, (size_t)most, sizeof means[0]));
    for (int64_t first = 0; first < text->count; first += chunk) {
        const int64_t count = text->count - first < chunk ? text->count - first : chunk;
        TRY(measure_chunk(store, text, first, count, sums, means));
        const grail_eval_progress now = {.done = first + count,
                                         .total = text->count,
                                         .so_far = sums->sum / (double)sums->count,
                                         .results = means,
                                         .count = count};
        if (observer != NULL && observer(user, &now) != 0) {
            FAIL(GRAIL_ERROR_CANCELLED, "cancelled after %lld of %lld windows", (long long)now.done,
                 (long long)now.total);
        }
    }
out:
    memory_free(means);
    return status;
}

grail_status perplexity_check_windows(int64_t windows)
{
    return option_integer("windows", "the number of windows", windows, 0);
}

grail_status perplexity_measure(const grail_model *recorded, parameter_store *store,
                                const grail_text_source *source, int64_t windows,
                                grail_eval_observer observer, void *user, grail_perplexity *out)
{
    grail_status status = GRAIL_OK;
    token_windows text = {0};
    nll_sums sums = {0};
    grail_perplexity result = {0};
    TRY(model_read_first_windows(store->model, source, windows, &text, result.tokenizer_sha256));
    TRY(limit_windows(&text, windows));
    TRY(compare_with_calibration(recorded, &text, &result));
    TRY(measure_chunks(store, &text, observer, user, &sums));
    fill_result(&text, &sums, &result);
    snprintf(result.dtype, sizeof result.dtype, "%s",
             grail_dtype_name(model_usual_dtype(store->model)));
    snprintf(result.precision, sizeof result.precision, "%s", backend_precision(store->backend));
    snprintf(result.protocol, sizeof result.protocol, "%s",
             source->protocol == NULL ? "plain" : source->protocol);
    *out = result;
out:
    token_windows_fini(&text);
    return status;
}

/* `narrow` NULL: of `model` itself; else of what `narrow` kept of it. */
static grail_status measure(const grail_model *model, const grail_model *narrow,
                            const grail_text_source *source, int64_t windows,
                            const grail_compute *compute, grail_eval_observer observer, void *user,
                            grail_perplexity *out)
{
    grail_status status = GRAIL_OK;
    backend *b = NULL;
    parameter_store *store = NULL;
    parameter_store *cut = NULL;
    TRY(perplexity_check_windows(windows));
    TRY(compute_open(compute, model, &b));
    TRY(parameter_store_create(model, b, NULL, &store));
    if (narrow != NULL) {
        TRY(zeroed_store_of_cut(store, narrow, &cut));
    }
    TRY(perplexity_measure(narrow == NULL ? model : narrow, cut == NULL ? store : cut, source,
                           windows, observer, user, out));
out:
    parameter_store_free(cut);
    parameter_store_free(store);
    backend_close(b);
    return status;
}

grail_status grail_perplexity_measure(const grail_model *model, const grail_text_source *source,
                                      int64_t windows, const grail_compute *compute,
                                      grail_eval_observer observer, void *user,
                                      grail_perplexity *out)
{
    return measure(model, NULL, source, windows, compute, observer, user, out);
}

grail_status grail_perplexity_of_cut(const grail_model *dense, const grail_model *narrow,
                                     const grail_text_source *source, int64_t windows,
                                     const grail_compute *compute, grail_eval_observer observer,
                                     void *user, grail_perplexity *out)
{
    return measure(dense, narrow, source, windows, compute, observer, user, out);
}
