/* Windows of tokens: text brought into the form that an evaluation protocol prescribes, encoded,
 * and cut into windows of equal length; or documents, each a window. Source of the protocols: the
 * data loaders of GPTQ, SparseGPT and Wanda. */
#ifndef GRAIL_FORMAT_TEXT_WINDOWS_H
#define GRAIL_FORMAT_TEXT_WINDOWS_H

#include "base/hash.h"
#include "format/text/chat.h"

typedef enum text_protocol {
    TEXT_PLAIN,     /* every document unchanged, with the tokenizer's special tokens */
    TEXT_LINES,     /* every non-blank line by itself, without special tokens */
    TEXT_WIKITEXT2, /* rows of the raw file joined by a blank line, as in GPTQ, SparseGPT, Wanda */
    TEXT_PTB,       /* stripped rows joined by a space, as in SparseGPT and GPTQ's ptb-new */
    TEXT_C4         /* first 1100 documents joined by a space, first 256 windows */
} text_protocol;

/** In the order of text_protocol, up to NULL. */
extern const char *const text_protocol_names[];

typedef struct window_options {
    const char *path;
    const char *field;       /* of JSON lines; NULL = "text" */
    const chat_writer *chat; /* what writes conversations, or NULL */
    text_protocol protocol;
    int64_t length; /* tokens per window; 0: the row length of two-dimensional ids, otherwise
                       default_length */
    int64_t default_length;
    bool window_bos; /* every window begins with the tokenizer's BOS, then length - 1 tokens */
    bool documents;  /* every window is a document: a line of a .txt file (of every text with
                        TEXT_LINES), or what a line of JSON or a row holds; with what the tokenizer
                        puts around a text, and cut to `length`. One without a token is left out.
                        Ids are cut as they are; other protocols must not be given */
    int64_t windows; /* number of windows needed, from the start; 0: all */
} window_options;

typedef struct token_windows {
    int32_t *ids;    /* of one window after the other, owned */
    int64_t *starts; /* [count + 1] where each window of documents begins in ids, owned; NULL where
                        all have `length` ids */
    int64_t count;
    int64_t length;        /* of documents the most that one may have */
    int64_t stream_tokens; /* tokens of the entire text; -1 if not all of it was encoded */
    bool is_written;       /* some of it by a chat template */
    char text_hash[65];    /* SHA-256 of the text (or ids) that was read */
} token_windows;

/**
 * Reads, encodes and cuts a file, or the texts of a folder, in the order of their names and without
 * those of its folders, behind each other; the incomplete last window is dropped. `t` may be NULL
 * for .npy ids. A text of more than TEXT_ENCODED_WHOLE bytes is read and checked completely, but
 * only as much of it is encoded as options->windows windows need. A text shorter than one window,
 * or an id outside `vocabulary`, is GRAIL_ERROR_ARGUMENT with the remedy. token_windows_fini frees
 * *out.
 */
grail_status windows_read(const window_options *options, const tokenizer *t, int64_t vocabulary,
                          token_windows *out) GRAIL_MUST_CHECK;
/** GRAIL_ERROR_ARGUMENT about "path" for a folder without texts, before anything is read. */
grail_status windows_check_path(const char *path) GRAIL_MUST_CHECK;
void token_windows_fini(token_windows *w); /* works on a zeroed one */

/** Where window i begins in ids; that of i = count is the number of all tokens. */
int64_t window_start(const token_windows *w, int64_t i);
/** Tokens of window i. */
int64_t window_size(const token_windows *w, int64_t i);
/** Tokens of a window in the mean, rounded up; 0 where there is none. */
int64_t windows_mean_size(const token_windows *w);
/** Documents that have as many tokens as one may have, so that their rest may be cut off; else 0.
 */
int64_t windows_full(const token_windows *w);
/** How many windows from `first` on, up to `end`, have as many tokens as that one. */
int64_t windows_of_one_size(const token_windows *w, int64_t first, int64_t end);
/** Whether both have the same tokens in the same windows. */
bool windows_equal(const token_windows *a, const token_windows *b);
/** Puts the shortest first, and those of one size in the order of the text, so that they can be
 * run together. Windows of equal length stay as they are. */
grail_status windows_sort(token_windows *w) GRAIL_MUST_CHECK;

/** Keeps `samples` windows, drawn without replacement, in the order of the text. Fewer windows than
 * `samples` is GRAIL_ERROR_ARGUMENT. */
grail_status windows_sample(token_windows *w, int64_t samples, uint64_t seed) GRAIL_MUST_CHECK;

/** Hashes of short runs of tokens, which show whether two texts overlap. */
enum { SHINGLE_TOKENS = 24 };

/** Hashes evenly spread runs of the windows. hash_set_fini frees *out. */
grail_status shingles_of_windows(const token_windows *w, hash_set *out) GRAIL_MUST_CHECK;
/** How many hashes of `set` occur somewhere in the windows. */
int64_t shingles_found(const hash_set *set, const token_windows *w);

#endif
