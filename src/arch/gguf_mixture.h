/* Which type each matrix has in a GGUF file: that of the file, but for some that llama.cpp gives
 * more bits, and for rows that do not fill its blocks. */
#ifndef GRAIL_ARCH_GGUF_MIXTURE_H
#define GRAIL_ARCH_GGUF_MIXTURE_H

#include "arch/model.h"

#include <grail/gguf.h>

typedef struct gguf_mixture {
    grail_dtype type;  /* of matrices */
    grail_dtype table; /* of the table of embeddings and of the head; GRAIL_DTYPE_COUNT: as the type
                          of the file has it */
} gguf_mixture;

/** Reads the words of the options, which may be NULL; without a word matrices have `usual`. */
grail_status gguf_mixture_read(const grail_gguf_options *options, grail_dtype usual,
                               gguf_mixture *out) GRAIL_MUST_CHECK;

/** The parameter that makes logits: the head, or the table of embeddings that it shares. */
int gguf_head(const graph *g);

/** dtypes[parameter_count] <- that of each parameter; *others <- how many matrices beside
 * the head do not fill the blocks of theirs and have another. A table that does not fill those that
 * were asked for is GRAIL_ERROR_SHAPE. */
grail_status gguf_mixture_choose(const gguf_mixture *m, const graph *g, grail_dtype dtypes[],
                                 int *others) GRAIL_MUST_CHECK;

enum { GGUF_SHORTFALL_SIZE = sizeof((grail_gguf_facts *)NULL)->shortfall };

/** What types[] that gguf_mixture_choose gave say of the type that was asked for; `dense` is the
 * graph before the cuts. text <- how many matrices have which type, why, and the remedy; "" where
 * the rows of each fill the blocks. A type of blocks that no matrix has is GRAIL_ERROR_SHAPE. */
grail_status gguf_mixture_judge(const gguf_mixture *m, const graph *dense, const graph *g,
                                const grail_dtype dtypes[],
                                char text[GGUF_SHORTFALL_SIZE]) GRAIL_MUST_CHECK;

/** "general.file_type" of files whose matrices have this type. */
int64_t gguf_file_type(grail_dtype dtype);

#endif
