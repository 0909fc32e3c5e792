/* The language model of a larger network, whose config.json has that of the language model under
 * "text_config". It is read as the plain language model, which its results are; and heads of
 * language models that may be their tables of embeddings. */
#ifndef GRAIL_ARCH_TEXT_TOWER_H
#define GRAIL_ARCH_TEXT_TOWER_H

#include "arch/model.h"

/** *out, owned, is the configuration of the language model where `config` is of no known family and
 * its "text_config" of one; NULL elsewhere. */
grail_status text_tower_config(const json_t *config, json_t **out) GRAIL_MUST_CHECK;

/** Says of the configuration that the head is the table of embeddings, where `weights` have no
 * other head: what is stated of that beside "text_config" differs by release and class. */
grail_status text_tower_tie(const architecture *a, const checkpoint *weights,
                            json_t *config) GRAIL_MUST_CHECK;

/** A configuration may say that the head is the table of embeddings, and the checkpoint store a
 * head beside it. Looks for such a one of m->graph, once the checkpoint's names are known. *copy:
 * the number of a tensor that has the bytes of the table, so that nothing needs to read it; -1 for
 * none. Another head is one of its own, as it is for transformers 5 and vLLM: *differs, and
 * m->config says so now; the graph has to be built again. */
grail_status tied_head_compare(grail_model *m, const char *source, int64_t *copy,
                               bool *differs) GRAIL_MUST_CHECK;

#endif
