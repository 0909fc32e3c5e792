/* Calibration and evaluation text: .txt, .jsonl, .jsonl.gz (a string field per line), or token ids
 * as .npy (integers, one or two dimensions). Files are read from the beginning to the end, piece by
 * piece, so a file of any size needs memory for one piece or line only. */
#ifndef GRAIL_FORMAT_TEXT_CORPUS_H
#define GRAIL_FORMAT_TEXT_CORPUS_H

#include "format/text/chat.h"

#include <stddef.h>
#include <stdint.h>

typedef struct corpus corpus;

/** A part of a .txt file, which is one document; or a complete document of JSON lines; or some ids
 * of an .npy file. */
typedef struct corpus_piece {
    const char *text; /* UTF-8, cut between characters, not terminated; NULL for ids */
    size_t size;
    const int32_t *ids; /* NULL for text */
    int64_t count;
    bool ends_document;
    bool is_written; /* by a chat template: its special tokens are all that it has */
} corpus_piece;

/** Opens a file. `field` names the JSON field ("text" when NULL). An unknown ending, or that of
 * Parquet, is GRAIL_ERROR_UNSUPPORTED. *out is owned: corpus_close. */
grail_status corpus_open(const char *path, const char *field, corpus **out) GRAIL_MUST_CHECK;

/** As corpus_open, for bytes in memory, which must outlive *out. `name` is for messages; its ending
 * chooses the kind (.txt, .jsonl, .npy). */
grail_status corpus_open_bytes(const char *name, const char *field, const void *bytes, size_t size,
                               corpus **out) GRAIL_MUST_CHECK;
void corpus_close(corpus *c); /* NULL is allowed */

/** Conversations of JSON lines are written by `writer`, which is borrowed; without one they are
 * refused. */
void corpus_set_chat(corpus *c, const chat_writer *writer);

/** Number of ids when the file holds ids; -1 when it holds text. */
int64_t corpus_ids(const corpus *c);
/** Ids per row if they are a two-dimensional array; otherwise 0. */
int64_t corpus_row(const corpus *c);

/** The next piece, valid until the next call; *found is false at the end. Text that is not UTF-8, a
 * line without the field (named by its number), an id below 0: GRAIL_ERROR_FORMAT. Messages name
 * the file. */
grail_status corpus_next(corpus *c, corpus_piece *out, bool *found) GRAIL_MUST_CHECK;

/** Reads the rest, so that the entire file is checked. Call it once. `hash` gets the SHA-256 of all
 * the text or ids, as they are used. A file without text: GRAIL_ERROR_FORMAT. */
grail_status corpus_finish(corpus *c, char hash[65]) GRAIL_MUST_CHECK;

#endif
