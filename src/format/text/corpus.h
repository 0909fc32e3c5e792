/* Calibration and evaluation text: .txt, .jsonl, .jsonl.gz (a string field per line), or token ids
 * as .npy (integers, one or two dimensions). */
#ifndef GRAIL_FORMAT_TEXT_CORPUS_H
#define GRAIL_FORMAT_TEXT_CORPUS_H

#include "base/buffer.h"

typedef struct corpus {
    char *path;
    /* documents[i] is text[starts[i] .. starts[i+1]); a .txt file is one document. All UTF-8. */
    buffer text;
    size_t *starts; /* count + 1 */
    int64_t documents;
    /* Instead of text, ids of an .npy file; NULL otherwise. Rows of a 2-D array are documents. */
    int32_t *ids;
    int64_t id_count;
    int64_t id_row; /* ids per row of a 2-D array, 0 for 1-D */
    char hash[65];  /* SHA-256 of the text or ids as used */
} corpus;

/* Largest text, after decompression: beyond it the file is refused. */
#define CORPUS_LARGEST_TEXT ((size_t)4 << 30)

/** Reads a file. `field` names the JSON field ("text" when NULL). Empty or non-UTF-8 text, a line
 * without the field (named by line number), ids below 0: GRAIL_ERROR_FORMAT. */
grail_status corpus_open(const char *path, const char *field, corpus *out) GRAIL_MUST_CHECK;

/** As corpus_open for bytes in memory; `name` is for messages and its ending tells the kind (.txt,
 * .jsonl, .npy). */
grail_status corpus_open_bytes(const char *name, const char *field, const void *bytes, size_t size,
                               corpus *out) GRAIL_MUST_CHECK;
void corpus_close(corpus *c); /* works on a zeroed one */

#endif
