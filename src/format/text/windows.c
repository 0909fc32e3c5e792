#include "format/text/windows.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/name_list.h"
#include "base/random.h"
#include "format/text/corpus.h"
#include "format/text/text_encode.h"

#include <string.h>

const char *const text_protocol_names[] = {"plain", "lines", "wikitext2", "ptb", "c4", NULL};

static int64_t window_length(const window_options *options, const corpus *c)
{
    if (options->length != 0) {
        return options->length;
    }
    return corpus_row(c) > 0 ? corpus_row(c) : options->default_length;
}

/* What stands around the text in each window. */
typedef struct window_frame {
    token_list before, after; /* borrowed */
} window_frame;

static window_frame frame_of(const window_options *options, const tokenizer *t)
{
    window_frame frame = {0};
    if (t != NULL && options->framed) {
        frame = (window_frame){.before = *tokenizer_before(t), .after = *tokenizer_after(t)};
    } else if (t != NULL && options->window_bos) {
        frame.before = *tokenizer_before(t);
        frame.before.count = frame.before.count > 0 ? 1 : 0;
    }
    return frame;
}

/* The number of ids of the text in a window. */
static int64_t window_step(const window_frame *frame, const token_windows *w)
{
    return w->length - frame->before.count - frame->after.count;
}

static void put_ids(int64_t count, const int32_t *ids, int32_t *to)
{
    if (count > 0) {
        memcpy(to, ids, (size_t)count * sizeof to[0]);
    }
}

/* Without a frame the list already holds the windows one after another, and they take it over. */
static grail_status fill_windows(const window_frame *frame, token_list *list, token_windows *w)
{
    const size_t size = (size_t)(w->count * w->length);
    const int64_t step = window_step(frame, w);
    if (step == w->length) {
        CHECK(memory_resize(&list->ids, size, sizeof list->ids[0]));
        w->ids = list->ids;
        *list = (token_list){0};
        return GRAIL_OK;
    }
    CHECK(memory_new_unset(&w->ids, size, sizeof w->ids[0]));
    for (int64_t i = 0; i < w->count; i++) {
        int32_t *row = w->ids + i * w->length;
        put_ids(frame->before.count, frame->before.ids, row);
        put_ids(step, list->ids + i * step, row + frame->before.count);
        put_ids(frame->after.count, frame->after.ids, row + frame->before.count + step);
    }
    return GRAIL_OK;
}

static grail_status cut_windows(const window_options *options, token_list *list,
                                const window_frame *frame, token_windows *w)
{
    enum { C4_WINDOWS = 256 };
    w->count = list->count / window_step(frame, w);
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
    return fill_windows(frame, list, w);
}

static grail_status check_length(const window_options *options, const window_frame *frame,
                                 const token_windows *w)
{
    if (w->length < 2 || window_step(frame, w) < 1) {
        const int64_t around = w->length - window_step(frame, w);
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "a context of %lld tokens is too short; it must be at least %lld",
                         (long long)w->length, (long long)(around > 1 ? around + 1 : 2));
    }
    if (options->window_bos && frame->before.count == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "the windows cannot begin with a BOS token: this tokenizer has none");
    }
    return GRAIL_OK;
}

/* The number of ids that the windows need; 0 for all. */
static int64_t wanted_ids(const window_options *options, const window_frame *frame,
                          const token_windows *w)
{
    int64_t wanted = 0;
    const int64_t step = window_step(frame, w);
    return options->windows > 0 && !__builtin_mul_overflow(options->windows, step, &wanted) ? wanted
                                                                                            : 0;
}

/* Appends the ids of one file, and hashes it. */
static grail_status read_file(const window_options *options, const tokenizer *t,
                              const window_frame *frame, token_list *list, token_windows *w)
{
    grail_status status = GRAIL_OK;
    corpus *c = NULL;
    bool complete = true;
    TRY(corpus_open(options->path, options->field, &c));
    corpus_take_conversations(c, options->chats);
    w->length = window_length(options, c);
    TRY(check_length(options, frame, w));
    TRY(text_encode(c, options, t, wanted_ids(options, frame, w), list, &complete));
    TRY(corpus_finish(c, w->text_hash));
    w->has_conversations = w->has_conversations || corpus_has_conversations(c);
    w->stream_tokens = complete ? list->count : corpus_ids(c); /* -1: a text of unknown length */
out:
    corpus_close(c);
    return status;
}

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
                                       "the folder '%s' holds no text: no .txt, .jsonl, .jsonl.gz "
                                       "or .parquet file",
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
static grail_status read_folder(const window_options *options, const tokenizer *t,
                                const window_frame *frame, token_list *list, token_windows *w)
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
        TRY(read_file(&of_file, t, frame, list, w));
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
    const window_frame frame = frame_of(options, t);
    TRY(file_is_directory(options->path) ? read_folder(options, t, &frame, &list, &w)
                                         : read_file(options, t, &frame, &list, &w));
    TRY(error_in(token_list_check(&list, 0, vocabulary), "%s", options->path));
    TRY(cut_windows(options, &list, &frame, &w));
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
    *w = (token_windows){0};
}

grail_status windows_sample(token_windows *w, int64_t samples, uint64_t seed)
{
    grail_status status = GRAIL_OK;
    int64_t *order = NULL;
    if (samples < 1 || samples > w->count) {
        FAIL_ABOUT("path samples context", GRAIL_ERROR_ARGUMENT,
                   "%lld samples were requested, but the text holds only %lld windows of %lld "
                   "tokens; give more text, fewer samples or a smaller context",
                   (long long)samples, (long long)w->count, (long long)w->length);
    }
    TRY(random_sample(seed, w->count, samples, &order));
    for (int64_t i = 0; i < samples; i++) {
        memmove(w->ids + i * w->length, w->ids + order[i] * w->length,
                (size_t)w->length * sizeof w->ids[0]);
    }
    w->count = samples;
    TRY(memory_resize(&w->ids, (size_t)(samples * w->length), sizeof w->ids[0]));
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

grail_status shingles_of_windows(const token_windows *w, hash_set *out)
{
    grail_status status = GRAIL_OK;
    hash_set set = {0};
    const int64_t per_window = (w->length - 1) / SHINGLE_TOKENS; /* the first token may be a BOS */
    const int64_t total = per_window * w->count;
    const int64_t step = (total + HASH_SET_MOST - 1) / HASH_SET_MOST;
    TRY(hash_set_init(&set));
    for (int64_t i = 0; i < total && per_window > 0; i += step) {
        const int32_t *window = w->ids + i / per_window * w->length;
        set.hashes[set.count++] = shingle_hash(window + 1 + i % per_window * SHINGLE_TOKENS);
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
        const int32_t *ids = w->ids + i * w->length;
        if (w->length < SHINGLE_TOKENS) {
            break;
        }
        uint64_t hash = shingle_hash(ids);
        found += hash_set_mark(set, hash, marked);
        for (int64_t end = SHINGLE_TOKENS; end < w->length; end++) {
            hash = hash * shingle_base + (uint64_t)ids[end] + 1;
            hash -= highest * ((uint64_t)ids[end - SHINGLE_TOKENS] + 1);
            found += hash_set_mark(set, hash, marked);
        }
    }
    return found;
}
