/* Comparing two networks' logits, and the zero-column identity: a network pruned without
 * compensation equals the dense one whose removed consumer columns are zero. */
#include "arch/model_text.h"
#include "base/file.h"
#include "base/random.h"
#include "eval/forward.h"

#include <grail/eval.h>

#include <math.h>
#include <string.h>

enum { REPORT_MAXIMUM = 256 << 20, RANDOM_WINDOWS = 4, RANDOM_LENGTH = 64 };

typedef struct comparison_sums {
    double max_abs, kl, max_kl;
    int64_t same_top, tokens;
} comparison_sums;

static double log_sum_exp(const float *logits, int64_t count)
{
    double largest = (double)logits[0];
    for (int64_t i = 1; i < count; i++) {
        largest = fmax(largest, (double)logits[i]);
    }
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return largest + log(sum);
}

static int64_t index_of_largest(const float *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static void compare_row(const float *a, const float *b, int64_t count, comparison_sums *sums)
{
    const double log_a = log_sum_exp(a, count);
    const double log_b = log_sum_exp(b, count);
    double kl = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double p = (double)a[i] - log_a;
        sums->max_abs = fmax(sums->max_abs, fabs((double)a[i] - (double)b[i]));
        kl += exp(p) * (p - ((double)b[i] - log_b));
    }
    sums->kl += kl;
    sums->max_kl = fmax(sums->max_kl, kl);
    sums->same_top += index_of_largest(a, count) == index_of_largest(b, count) ? 1 : 0;
    sums->tokens++;
}

/* Logits of `rows` positions of both networks as f32: left and right[rows, vocabulary]. */
static grail_status compare_rows(forward_pass *a, forward_pass *b, int64_t window, int64_t from,
                                 int64_t rows, float *left, float *right, comparison_sums *sums)
{
    grail_status status = GRAIL_OK;
    const int64_t vocabulary = a->model->graph->vocabulary;
    const void *logits = NULL;
    TRY(forward_logits(a, window, from, rows, &logits));
    a->backend->to_f32(rows * vocabulary, logits, left);
    TRY(forward_logits(b, window, from, rows, &logits));
    b->backend->to_f32(rows * vocabulary, logits, right);
    for (int64_t r = 0; r < rows; r++) {
        compare_row(left + r * vocabulary, right + r * vocabulary, vocabulary, sums);
    }
out:
    return status;
}

static grail_status compare_chunk(parameter_store *a, parameter_store *b,
                                  const token_windows *windows, int64_t first, int64_t count,
                                  comparison_sums *sums)
{
    grail_status status = GRAIL_OK;
    forward_pass left = {0};
    forward_pass right = {0};
    float *rows = NULL;
    const int64_t vocabulary = a->model->graph->vocabulary;
    TRY(memory_new(&rows, (size_t)(2 * FORWARD_ROWS * vocabulary), sizeof rows[0]));
    TRY(forward_begin(&left, a->model, a, windows, first, count));
    TRY(forward_begin(&right, b->model, b, windows, first, count));
    for (int64_t w = first; w < first + count; w++) {
        for (int64_t from = 0; from < windows->length; from += FORWARD_ROWS) {
            const int64_t rest = windows->length - from;
            TRY(compare_rows(&left, &right, w, from, rest < FORWARD_ROWS ? rest : FORWARD_ROWS,
                             rows, rows + FORWARD_ROWS * vocabulary, sums));
        }
    }
out:
    memory_free(rows);
    forward_end(&left);
    forward_end(&right);
    return status;
}

static grail_status compare_stores(parameter_store *a, parameter_store *b,
                                   const token_windows *windows, comparison_sums *sums)
{
    grail_status status = GRAIL_OK;
    const int64_t chunk = forward_chunk(a->model, a->backend, windows->length, 0);
    for (int64_t first = 0; first < windows->count; first += chunk) {
        const int64_t left = windows->count - first;
        TRY(compare_chunk(a, b, windows, first, left < chunk ? left : chunk, sums));
    }
out:
    return status;
}

static grail_status random_windows(int64_t vocabulary, token_windows *out)
{
    grail_status status = GRAIL_OK;
    random_state random;
    token_windows w = {.count = RANDOM_WINDOWS, .length = RANDOM_LENGTH};
    TRY(memory_new(&w.ids, RANDOM_WINDOWS * RANDOM_LENGTH, sizeof w.ids[0]));
    random_seed(&random, 0, 0);
    for (int64_t i = 0; i < w.count * w.length; i++) {
        w.ids[i] = (int32_t)random_below(&random, vocabulary);
    }
    *out = w;
out:
    return status;
}

static grail_status read_source(const grail_model *model, const grail_text_source *source,
                                int64_t most, token_windows *out)
{
    char hash[65];
    if (source == NULL || source->path == NULL) {
        return random_windows(model->graph->vocabulary, out);
    }
    const grail_status status = model_read_windows(model, source, out, hash);
    if (status == GRAIL_OK && most > 0 && most < out->count) {
        out->count = most;
    }
    return status;
}

/* Zeroes the columns of the removed units in an overlay of the dense network. */
static grail_status zero_columns(parameter_store *store, const site *s, const bool *kept)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    int64_t elements = 0;
    const site_end *end = &s->consumers[0];
    const int index = store->model->graph->nodes[end->node].weight;
    const int64_t *shape = store->model->graph->parameters[index].shape;
    TRY(parameter_store_read_f32(store, index, &weight, &elements));
    for (int64_t o = 0; o < shape[0]; o++) {
        for (int64_t j = 0; j < shape[1]; j++) {
            weight[o * shape[1] + j] *= kept[j / end->features_per_unit] ? 1.0F : 0.0F;
        }
    }
    TRY(parameter_store_set(store, index, shape, weight));
out:
    memory_free(weight);
    return status;
}

static grail_status zero_site(parameter_store *store, const site_list *sites, const char *source,
                              const json_t *entry)
{
    grail_status status = GRAIL_OK;
    bool *kept = NULL;
    const char *name = json_string_value(json_object_get(entry, "site"));
    const int index = name == NULL ? -1 : site_list_find(sites, name);
    const json_t *list = json_object_get(entry, "kept_units");
    if (list == NULL) {
        return GRAIL_OK; /* a site that keeps everything */
    }
    if (index < 0) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: '%s' is not a site of the dense model", source,
             name == NULL ? "(unnamed)" : name);
    }
    const site *s = &sites->sites[index];
    TRY(memory_new(&kept, (size_t)s->units, sizeof kept[0]));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t unit = json_integer_value(json_array_get(list, i));
        if (unit < 0 || unit >= s->units) {
            FAIL(GRAIL_ERROR_FORMAT, "%s: site '%s' keeps unit %lld of %lld", source, name,
                 (long long)unit, (long long)s->units);
        }
        kept[unit] = true;
    }
    TRY(zero_columns(store, s, kept));
out:
    memory_free(kept);
    return status;
}

static bool identity_applies(const json_t *report)
{
    const json_t *enabled = json_object_get(
        json_object_get(json_object_get(report, "plan"), "compensation"), "enabled");
    const json_t *sites = json_object_get(report, "sites");
    if (!json_is_false(enabled) || !json_is_array(sites)) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(sites); i++) {
        if (json_object_get(json_array_get(sites, i), "labels") != NULL) {
            return false; /* folded */
        }
    }
    return true;
}

static gqa_mode report_gqa(const json_t *report)
{
    const char *text = json_string_value(json_object_get(json_object_get(report, "plan"), "gqa"));
    return text != NULL && strcmp(text, "query-per-group") == 0 ? GQA_QUERY_PER_GROUP
                                                                : GQA_KV_GROUPS;
}

static grail_status zeroed_store(parameter_store *dense, const char *source, const json_t *report,
                                 parameter_store **out)
{
    grail_status status = GRAIL_OK;
    parameter_store *store = NULL;
    site_list sites = {0};
    const json_t *entries = json_object_get(report, "sites");
    TRY(sites_derive(dense->model->graph, report_gqa(report), &sites));
    TRY(parameter_store_create(dense->model, dense->backend, dense, &store));
    for (size_t i = 0; i < json_array_size(entries); i++) {
        TRY(zero_site(store, &sites, source, json_array_get(entries, i)));
    }
    *out = store;
    store = NULL;
out:
    parameter_store_free(store);
    site_list_fini(&sites);
    return status;
}

static grail_status check_identity(parameter_store *dense, parameter_store *narrow,
                                   const token_windows *windows, grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    char *path = NULL;
    json_t *report = NULL;
    parameter_store *zeroed = NULL;
    comparison_sums sums = {0};
    TRY(path_join(&path, checkpoint_directory(narrow->model->checkpoint), "report.json"));
    if (!file_exists(path)) {
        goto out;
    }
    TRY(json_read_file(path, REPORT_MAXIMUM, &report));
    if (identity_applies(report)) {
        TRY(zeroed_store(dense, path, report, &zeroed));
        TRY(compare_stores(zeroed, narrow, windows, &sums));
        out->identity_checked = 1;
        out->identity_max_abs = sums.max_abs;
    }
out:
    parameter_store_free(zeroed);
    json_decref(report);
    memory_free(path);
    return status;
}

static grail_status check_reads_text(const grail_model *model)
{
    if (model->graph->input_kind == INPUT_TOKENS) {
        return GRAIL_OK;
    }
    return error_set(
        GRAIL_ERROR_UNSUPPORTED,
        "%s: this network reads images, and only networks that read text are compared; "
        "grail eval gives the accuracy of both",
        checkpoint_path(model->checkpoint));
}

static grail_status check_pair(const grail_model *dense, const grail_model *narrow)
{
    grail_status status = GRAIL_OK;
    TRY(check_reads_text(dense));
    TRY(check_reads_text(narrow));
    if (dense->graph->vocabulary != narrow->graph->vocabulary) {
        FAIL(GRAIL_ERROR_SHAPE, "the vocabularies differ: %lld tokens in '%s', %lld in '%s'",
             (long long)dense->graph->vocabulary, checkpoint_path(dense->checkpoint),
             (long long)narrow->graph->vocabulary, checkpoint_path(narrow->checkpoint));
    }
out:
    return status;
}

grail_status grail_verify(const grail_model *dense, const grail_model *narrow,
                          const grail_text_source *source, int64_t windows,
                          const char *backend_name, grail_comparison *out)
{
    grail_status status = GRAIL_OK;
    const backend *b = NULL;
    token_windows text = {0};
    parameter_store *left = NULL;
    parameter_store *right = NULL;
    comparison_sums sums = {0};
    grail_comparison result = {0};
    TRY(check_pair(dense, narrow));
    TRY(backend_find(backend_name, &b));
    TRY(read_source(dense, source, windows, &text));
    TRY(parameter_store_create(dense, b, NULL, &left));
    TRY(parameter_store_create(narrow, b, NULL, &right));
    TRY(compare_stores(left, right, &text, &sums));
    result.max_abs = sums.max_abs;
    result.mean_kl = sums.kl / (double)sums.tokens;
    result.max_kl = sums.max_kl;
    result.top1_agreement = (double)sums.same_top / (double)sums.tokens;
    result.tokens = sums.tokens;
    TRY(check_identity(left, right, &text, &result));
    *out = result;
out:
    parameter_store_free(left);
    parameter_store_free(right);
    token_windows_fini(&text);
    return status;
}
