#ifndef GRAIL_GGUF_H
#define GRAIL_GGUF_H

#include <grail/model.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct grail_gguf_options {
    const char *type;       /* of matrices: f32, f16, bf16, q8_0, q6_k, q5_0, q4_0 or q4_k; NULL: as
                               most weights are stored, f16 where that is quantised */
    const char *table_type; /* likewise of the table of embeddings and the head; NULL: as llama.cpp
                               has it, see below */
    GRAIL_ROOM(4);
} grail_gguf_options;

typedef struct grail_gguf_facts {
    const char *architecture; /* as the file names it; static */
    const char *type;         /* of matrices; static */
    const char *table;        /* of the head, or the table of embeddings that it shares; static;
                                 NULL of a directory */
    int64_t group; /* weights that share a scale, of types that have a choice; otherwise 0 */
    int64_t tensors;
    int64_t bytes; /* of the file */
    int others;    /* matrices beside the head whose rows do not fill the blocks of their type: they
                      are F16, or where they fill its blocks Q5_0 for Q4_K, Q8_0 for Q6_K */
    char shortfall[256]; /* how many matrices have which type where some do not fill the blocks, why
                            and the remedy; "": all fill them */
    GRAIL_ROOM(4);
} grail_gguf_facts;

/**
 * Writes a decoder, dense or narrowed, as a GGUF file with its tokenizer, as llama.cpp's converter
 * names things: vectors in F32, matrices in the type. As in llama.cpp's files of that type the
 * head, or the table of embeddings that it shares, is Q6_K in quantised ones, Q8_0 where its rows
 * do not fill the blocks of either or the type is q8_0; with q4_k half of the values' and down
 * projections are Q6_K (Q4_K_M). A table_type whose blocks the rows do not fill is
 * GRAIL_ERROR_SHAPE, and so is a type whose blocks no matrix fills. Layers of different widths
 * become the architecture deci, which llama.cpp runs. The file appears only when it is complete;
 * one that already exists is GRAIL_ERROR_EXISTS. options and facts may be NULL.
 */
GRAIL_API grail_status grail_gguf_write(const grail_model *model, const char *path,
                                        const grail_gguf_options *options,
                                        grail_gguf_facts *facts) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
