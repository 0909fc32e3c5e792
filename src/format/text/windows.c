#include "format/text/windows.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/name_list.h"
#include "base/random.h"
#include "format/text/corpus.h"
#include "format/text/text_encode.h"

#include <stdlib.h>
#include <string.h>

const char *const text_protocol_names[] = {"plain", "lines", "wikitext2", "ptb", "c4", NULL};

/* The number of ids in a window that are not of the text. */
static int64_t ids_around(const window_options *options, const tokenizer *t)
{
    if (t != NULL && options->documents) {
        return tokenizer_before(t)->count + tokenizer_after(t)->count;
    }
    return t != NULL && options->window_bos && tokenizer_bos(t) >= 0 ? 1 : 0;
}

static grail_status cut_windows(const window_options *options, const tokenizer *t, token_list *list,
                                token_windows *w)
{
    enum { C4_WINDOWS = 256 };
    const bool begins = t != NULL && options->window_bos;
    w->count = list->count / (w->length - (begins ? 1 : 0));
    if (options->protocol == TEXT_C4 && w->count > C4_WINDOWS) {
        w->count = C4_WINDOWS;
    }
    if (w->count == 0) {
        return error_about(
            error_set(
                GRAIL_ERROR_ARGUMENT,
                "%s: the text holds %lld tokens, fewer than one window of %lld; give more text "
                "or a smaller context",
                options->path, (long long)list->count, (long long)w->length),
            "path context");
    }
    const size_t size = (size_t)(w->count * w->length);
    const int64_t step = w->length - 1;
    const int32_t bos = begins ? tokenizer_bos(t) : -1;
    if (bos < 0) { /* the list already holds the windows one after another, and they take it over */
        CHECK(memory_resize(&list->ids, size, sizeof list->ids[0]));
        w->ids = list->ids;
        *list = (token_list){0};
        return GRAIL_OK;
    }
    CHECK(memory_new_unset(&w->ids, size, sizeof w->ids[0]));
    for (int64_t i = 0; i < w->count; i++) {
        w->ids[i * w->length] = bos;
        memcpy(w->ids + i * w->length + 1, list->ids + i * step, (size_t)step * sizeof w->ids[0]);
    }
    return GRAIL_OK;
}

/* Appends the ids of one file, and hashes it. */
static grail_status read_file(const window_options *options, const tokenizer *t, token_list *list,
                              token_windows *w)
{
    grail_status status = GRAIL_OK;
    corpus *c = NULL;
    bool complete = true;
    TRY(corpus_open(options->path, options->field, &c));
    corpus_set_chat(c, options->chat);
    w->length = options->length != 0 ? options->length
                : corpus_row(c) > 0  ? corpus_row(c)
                                     : options->default_length;
    const int64_t around = ids_around(options, t);
    if (w->length < 2 || w->length <= around) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "a context of %lld tokens is too short; it must be at least %lld",
             (long long)w->length, (long long)(around > 1 ? around + 1 : 2));
    }
    if (options->window_bos && around == 0) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "the windows cannot begin with a BOS token: this tokenizer has none");
    }
    /* the number of ids that the windows need, or that of documents; 0 for all */
    int64_t wanted = options->windows;
    if (wanted > 0 && !(options->documents && corpus_ids(c) < 0) &&
        __builtin_mul_overflow(wanted, w->length - around, &wanted)) {
        wanted = 0;
    }
    TRY(text_encode(c, options, t, wanted, list, w, &complete));
    TRY(corpus_finish(c, w->text_hash));
    w->stream_tokens = complete ? list->count : corpus_ids(c); /* -1: a text of unknown length */
out:
    corpus_close(c);
    return status;
}

/* A Parquet file is none, but is refused by its name rather than left out. */
static bool is_text(const char *name)
{
    return name_is_of_kind(name, ".txt") || name_is_of_kind(name, ".jsonl") ||
           name_is_of_kind(name, ".jsonl.gz") || name_is_of_kind(name, ".parquet");
}

/* name_list_fini frees *out. */
static grail_status list_texts(const char *folder, name_list *out)
{
    CHECK(name_list_read(folder, is_text, out));
    return out->count > 0
               ? GRAIL_OK
               : error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                       "the folder '%s' holds no text: no .txt, .jsonl or "
                                       ".jsonl.gz file",
                                       folder),
                             "path");
}

grail_status windows_check_path(const char *path)
{
    name_list names = {0};
    const grail_status status = file_is_directory(path) ? list_texts(path, &names) : GRAIL_OK;
    name_list_fini(&names);
    return status;
}

/* The texts of a folder behind each other, in the order of their names. Its hash is that of their
 * hashes. */
static grail_status read_folder(const window_options *options, const tokenizer *t, token_list *list,
                                token_windows *w)
{
    grail_status status = GRAIL_OK;
    name_list names = {0};
    hash_state hash;
    char *path = NULL;
    bool complete = true;
    TRY(list_texts(options->path, &names));
    hash_begin(&hash);
    for (size_t i = 0; i < names.count; i++) {
        window_options of_file = *options;
        memory_free(path);
        path = NULL;
        TRY(path_join(&path, options->path, names.names[i]));
        of_file.path = path;
        TRY(read_file(&of_file, t, list, w));
        complete = complete && w->stream_tokens >= 0;
        hash_add(&hash, w->text_hash, HASH_TEXT_SIZE - 1);
    }
    hash_end(&hash, w->text_hash);
    w->stream_tokens = complete ? list->count : -1;
out:
    memory_free(path);
    name_list_fini(&names);
    return status;
}

grail_status windows_read(const window_options *options, const tokenizer *t, int64_t vocabulary,
                          token_windows *out)
{
    grail_status status = GRAIL_OK;
    token_list list = {0};
    token_windows w = {0};
    TRY(file_is_directory(options->path) ? read_folder(options, t, &list, &w)
                                         : read_file(options, t, &list, &w));
    TRY(error_in(token_list_check(&list, 0, vocabulary), "%s", options->path));
    if (!options->documents || (w.starts == NULL && list.count > 0)) {
        TRY(cut_windows(options, t, &list, &w));
    } else if (w.count == 0) {
        FAIL_ABOUT("path", GRAIL_ERROR_ARGUMENT,
                   "%s: the tokenizer makes no token of any document; give text that it knows",
                   options->path);
    } else { /* documents are windows already */
        w.ids = list.ids;
        list = (token_list){0};
    }
    *out = w;
    w = (token_windows){0};
out:
    token_windows_fini(&w);
    token_list_fini(&list);
    return status;
}

void token_windows_fini(token_windows *w)
{
    memory_free(w->ids);
    memory_free(w->starts);
    *w = (token_windows){0};
}

int64_t window_start(const token_windows *w, int64_t i)
{
    return w->starts == NULL ? i * w->length : w->starts[i];
}

int64_t window_size(const token_windows *w, int64_t i)
{
    return window_start(w, i + 1) - window_start(w, i);
}

int64_t windows_mean_size(const token_windows *w)
{
    return w->count == 0 ? 0 : (window_start(w, w->count) + w->count - 1) / w->count;
}

int64_t windows_full(const token_windows *w)
{
    int64_t full = 0;
    for (int64_t i = 0; w->starts != NULL && i < w->count; i++) {
        full += window_size(w, i) == w->length ? 1 : 0;
    }
    return full;
}

int64_t windows_of_one_size(const token_windows *w, int64_t first, int64_t end)
{
    int64_t i = w->starts == NULL ? end : first + 1;
    while (i < end && window_size(w, i) == window_size(w, first)) {
        i++;
    }
    return i - first;
}

bool windows_equal(const token_windows *a, const token_windows *b)
{
    bool equal = a->count == b->count;
    for (int64_t i = 0; equal && i <= a->count; i++) {
        equal = window_start(a, i) == window_start(b, i);
    }
    return equal &&
           memcmp(a->ids, b->ids, (size_t)window_start(a, a->count) * sizeof a->ids[0]) == 0;
}

/* One window's size and its place in the text. */
typedef struct sized_window {
    int64_t size, index;
} sized_window;

static int compare_sizes(const void *a, const void *b)
{
    const sized_window *x = a;
    const sized_window *y = b;
    if (x->size != y->size) {
        return x->size < y->size ? -1 : 1;
    }
    return x->index < y->index ? -1 : 1;
}

grail_status windows_sort(token_windows *w)
{
    grail_status status = GRAIL_OK;
    sized_window *order = NULL;
    int32_t *ids = NULL;
    int64_t used = 0;
    if (w->starts == NULL) {
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&order, (size_t)w->count, sizeof order[0]));
    TRY(memory_new_unset(&ids, (size_t)window_start(w, w->count), sizeof ids[0]));
    for (int64_t i = 0; i < w->count; i++) {
        order[i] = (sized_window){.size = window_size(w, i), .index = i};
    }
    qsort(order, (size_t)w->count, sizeof order[0], compare_sizes);
    for (int64_t i = 0; i < w->count; i++) {
        memcpy(ids + used, w->ids + window_start(w, order[i].index),
               (size_t)order[i].size * sizeof ids[0]);
        used += order[i].size;
    }
    for (int64_t i = 0; i < w->count; i++) {
        w->starts[i + 1] = w->starts[i] + order[i].size;
    }
    memory_free(w->ids);
    w->ids = ids;
    ids = NULL;
out:
    memory_free(order);
    memory_free(ids);
    return status;
}

grail_status windows_sample(token_windows *w, int64_t samples, uint64_t seed)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    int64_t used = 0;
    if (samples < 1 || samples > w->count) {
        if (w->starts != NULL) {
            FAIL_ABOUT("path samples", GRAIL_ERROR_ARGUMENT,
                       "%lld samples were requested, but the text holds only %lld documents; give "
                       "more text or fewer samples",
                       (long long)samples, (long long)w->count);
        }
        FAIL_ABOUT("path samples context", GRAIL_ERROR_ARGUMENT,
                   "%lld samples were requested, but the text holds only %lld windows of %lld "
                   "tokens; give more text, fewer samples or a smaller context",
                   (long long)samples, (long long)w->count, (long long)w->length);
    }
    TRY(random_sample(seed, w->count, samples, &order));
    for (int64_t i = 0; i < samples; i++) {
        const int64_t size = window_size(w, order[i]);
        memmove(w->ids + used, w->ids + window_start(w, order[i]), (size_t)size * sizeof w->ids[0]);
        if (w->starts != NULL) {
            w->starts[i] = used; /* order ascends: the starts from order[i] + 1 on are needed yet */
        }
        used += size;
    }
    if (w->starts != NULL) {
        w->starts[samples] = used;
    }
    w->count = samples;
    TRY(memory_resize(&w->ids, (size_t)used, sizeof w->ids[0]));
out:
    memory_free(order);
    return status;
}

/* The hash of a run is a polynomial in its ids modulo 2^64, so that it can be updated from one run
 * to the next. */
static const uint64_t shingle_base = 0x9E3779B97F4A7C15U | 1U;

static uint64_t shingle_hash(const int32_t *ids)
{
    uint64_t hash = 0;
    for (int i = 0; i < SHINGLE_TOKENS; i++) {
        hash = hash * shingle_base + (uint64_t)ids[i] + 1;
    }
    return hash;
}

/* Runs of a window; its first token may be a BOS. */
static int64_t runs_of(const token_windows *w, int64_t i)
{
    return (window_size(w, i) - 1) / SHINGLE_TOKENS;
}

grail_status shingles_of_windows(const token_windows *w, hash_set *out)
{
    grail_status status = GRAIL_OK;
    hash_set set = {0};
    int64_t total = 0;
    for (int64_t i = 0; i < w->count; i++) {
        total += runs_of(w, i);
    }
    const int64_t step = (total + HASH_SET_MOST - 1) / HASH_SET_MOST;
    int64_t next = 0; /* the run that is hashed next, counted from the first one of the window */
    TRY(hash_set_init(&set));
    for (int64_t i = 0; i < w->count; i++) {
        const int32_t *window = w->ids + window_start(w, i);
        for (; next < runs_of(w, i); next += step) {
            set.hashes[set.count++] = shingle_hash(window + 1 + next * SHINGLE_TOKENS);
        }
        next -= runs_of(w, i);
    }
    hash_set_settle(&set);
    *out = set;
    set = (hash_set){0};
out:
    hash_set_fini(&set);
    return status;
}

int64_t shingles_found(const hash_set *set, const token_windows *w)
{
    bool marked[HASH_SET_MOST] = {false};
    uint64_t highest = 1; /* weight of the id that leaves the run */
    for (int i = 0; i < SHINGLE_TOKENS; i++) {
        highest *= shingle_base;
    }
    int64_t found = 0;
    for (int64_t i = 0; i < w->count && set->count > 0; i++) {
        const int32_t *ids = w->ids + window_start(w, i);
        const int64_t size = window_size(w, i);
        if (size < SHINGLE_TOKENS) {
            continue;
        }
        uint64_t hash = shingle_hash(ids);
        found += hash_set_mark(set, hash, marked);
        for (int64_t end = SHINGLE_TOKENS; end < size; end++) {
            hash = hash * shingle_base + (uint64_t)ids[end] + 1;
            hash -= highest * ((uint64_t)ids[end - SHINGLE_TOKENS] + 1);
            found += hash_set_mark(set, hash, marked);
        }
    }
    return found;
}
