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
 * Runs a model's chat template on `messages`, a JSON list of objects with "role" and "content";
 * with `answers` the beginning of the network's answer follows. *text is UTF-8, borrowed until the
 * next call. Return 1 where the template refuses them; *text is then the reason, or NULL. Return 2
 * where templates of this model cannot be run: then those of known kinds are written without it.
 */
typedef int (*grail_chat_renderer)(void *user, const char *messages, int answers,
                                   const char **text);

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
    grail_chat_renderer renderer; /* of conversations, for a model with a chat template; NULL: those
                                     of known kinds are written without one */
    void *renderer_user;
    GRAIL_ROOM(2);
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
