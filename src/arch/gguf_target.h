/* What a language model becomes as a GGUF file: its keys, and the name, the type and the rows of
 * each parameter. */
#ifndef GRAIL_ARCH_GGUF_TARGET_H
#define GRAIL_ARCH_GGUF_TARGET_H

#include "arch/gguf_family.h"
#include "arch/gguf_mixture.h"

typedef struct gguf_target {
    const gguf_family *family;
    gguf_mixture mixture;
    grail_dtype *dtypes;   /* [parameters] */
    tensor_view *tensors;  /* [count]: the parameters in the order of the graph, then the table of
                              divisors; name, dtype, rank and shape */
    decoder_place *places; /* [count], which own the names */
    int64_t count;
    int parameters;
    float *divisors; /* [head_dim / 2], of rotary frequencies; NULL: none */
    int others;      /* see grail_gguf_facts */
    char shortfall[GGUF_SHORTFALL_SIZE];
} gguf_target;

/** `g` is the graph of the model, or a narrowed one; `options` may be NULL; the keys go to `pairs`,
 * which is empty. *out is released with gguf_target_fini, even after a failure. */
grail_status gguf_target_init(const grail_model *model, const graph *g,
                              const grail_gguf_options *options, gguf_pairs *pairs,
                              gguf_target *out) GRAIL_MUST_CHECK;
void gguf_target_fini(gguf_target *t); /* works on a zeroed one */

/** The table of divisors, complete with its values, which has no parameter; NULL: there is none. */
const tensor_view *gguf_target_table(const gguf_target *t);

/** to[rows * bytes] <- rows of a parameter that lie in a file along `axis`, of so many bytes each,
 * from the graph's order to that of the file, or back. */
void gguf_move_rows(const storage_axis *axis, int64_t rows, size_t bytes, bool back,
                    const void *from, void *to);

/** What is told of a file of so many bytes; `g` is the graph that it holds. */
grail_gguf_facts gguf_target_facts(const gguf_target *t, const graph *g, int64_t bytes);

#endif
