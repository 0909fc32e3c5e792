#ifndef GRAIL_QUANTIZE_H
#define GRAIL_QUANTIZE_H

#include <grail/compress.h>
#include <grail/gguf.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Rounding of language models to quantised types by what their matrices read. */
typedef struct grail_quantize_options {
    const char *path; /* must not exist: a GGUF file, or for w4a16 and w8a16 a directory */
    const char *type; /* of matrices in a GGUF file: q8_0, q6_k, q5_0, q4_0 or q4_k, with exceptions
                         as grail_gguf_write makes them. Those in a directory of
                         compressed-tensors: w4a16 or w8a16, 4 or 8 bits in groups */
    const char *table_type; /* as of grail_gguf_options; NULL for a directory */
    int resume;             /* 1: continue an interrupted run */
    GRAIL_ROOM(4);
} grail_quantize_options;

/**
 * Writes the model of `run`, each matrix rounded with error feedback on the samples of `run`, of
 * which what is read and with which means it runs count. Each matrix is rounded by what it reads in
 * the network that is rounded so far. A GGUF file is as grail_gguf_write makes it; a directory as a
 * run with output.quantize that cuts nothing. It appears only when it is complete; one that already
 * exists is GRAIL_ERROR_EXISTS. An interrupted run stays in PATH.partial, and `resume` goes on with
 * it to the same bytes. facts may be NULL; of a directory `tensors` are those rounded.
 */
GRAIL_API grail_status grail_quantize(const grail_compress_options *run,
                                      const grail_quantize_options *options,
                                      grail_gguf_facts *facts) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
