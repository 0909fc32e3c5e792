#ifndef GRAIL_TEXT_H
#define GRAIL_TEXT_H

#include <grail/options.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Windows of token ids in memory. Borrowed for the duration of a call. */
typedef struct grail_tokens {
    const int32_t *ids; /* [windows, length] */
    int64_t windows, length;
    const int64_t *lengths; /* [windows] how many ids of each row count, 1 to `length`; NULL: all */
    GRAIL_ROOM(4);
} grail_tokens;

/**
 * Text for calibration or evaluation: token ids in memory, .txt, .jsonl, .jsonl.gz, a folder of
 * these, or token ids as .npy; of a network with several inputs (grail_model_input) an .npy file
 * for each of them, "NAME=FILE,NAME=FILE". All strings are borrowed for the duration of a call.
 */
typedef struct grail_text_source {
    const char *path;
    const grail_tokens *tokens; /* in place of a file, or NULL */
    const char *field;          /* of JSON lines; NULL = "text" */
    const char *protocol;       /* "plain" (NULL), "lines", "wikitext2", "ptb", "c4" */
    int64_t context; /* tokens per window; 0 = 2048, or less where the model promises less */
    int window_bos;  /* 1: every window begins with BOS */
    GRAIL_ROOM(4);
} grail_text_source;

/** One of several texts that calibration windows are drawn from. */
typedef struct grail_text_part {
    const char *path;
    double share; /* of all windows; 0: an equal part of what the others leave */
    GRAIL_ROOM(4);
} grail_text_part;

/** i-th description of a field, NULL beyond the last. */
GRAIL_API const grail_option *grail_text_option_at(int i);

#ifdef __cplusplus
}
#endif
#endif
