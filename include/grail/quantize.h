#ifndef GRAIL_QUANTIZE_H
#define GRAIL_QUANTIZE_H

#include <grail/compress.h>
#include <grail/gguf.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Rounding of language models to quantised types by what their matrices read. */
typedef struct grail_quantize_options {
    const char *path; /* GGUF file to write; must not exist */
    const char *type; /* of matrices: q8_0, q4_0 or q4_k; those that do not fill its blocks are as
                         grail_gguf_facts says */
} grail_quantize_options;

/**
 * Writes the model of `run` as grail_gguf_write does, but rounds each matrix with error feedback on
 * the samples of `run`, of which what is read and with which means it runs count. Each matrix is
 * rounded by what it reads in the network that is rounded so far. The file appears only when it is
 * complete; one that already exists is GRAIL_ERROR_EXISTS. facts may be NULL.
 */
GRAIL_API grail_status grail_quantize(const grail_compress_options *run,
                                      const grail_quantize_options *options,
                                      grail_gguf_facts *facts) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
