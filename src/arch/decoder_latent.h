/* Attention whose keys and values are made of a vector that is narrower than they are, and whose
 * queries may be, too (MLA). A head has, from the block's input n:
 *
 *   k = (k_proj(c), rope(k_rope_proj(n))),  v = v_proj(c),     c = norm(kv_a_proj(n))
 *   q = (q_proj(m), rope(q_rope_proj(m))),                     m = norm(q_a_proj(n)), or n
 *
 * Source: DeepSeek-V2 (arXiv 2405.04434), modeling_deepseek_v3.py of Hugging Face transformers. */
#ifndef GRAIL_ARCH_DECODER_LATENT_H
#define GRAIL_ARCH_DECODER_LATENT_H

#include "arch/decoder.h"

#define DECODER_QUERY_RANK_KEY "q_lora_rank"
#define DECODER_RANK_KEY "kv_lora_rank"
#define DECODER_VALUE_KEY "v_head_dim"

/** What all layers have in common, and c->head_dim; into `common` what single layers override. */
grail_status decoder_latent_read(const char *source, const json_t *json, decoder_config *c,
                                 decoder_layer *common) GRAIL_MUST_CHECK;
/** The widths of one layer: those of `own`, which may be NULL, or the common ones. */
grail_status decoder_latent_read_layer(const char *source, const json_t *own,
                                       const decoder_layer *common,
                                       decoder_layer *layer) GRAIL_MUST_CHECK;
/** Refuses layers with fewer keys than queries, and makes scores what yarn makes them. */
grail_status decoder_latent_complete(const char *source, const json_t *json,
                                     decoder_config *c) GRAIL_MUST_CHECK;
/** The place of a parameter, whose tensors have rows of several parts for each head. */
decoder_place decoder_latent_place(const decoder_config *c, int layer, const char *part,
                                   const char *kind);

#endif
