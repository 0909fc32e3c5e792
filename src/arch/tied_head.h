/* A decoder's configuration may say that the head is the table of embeddings, and the checkpoint
 * store a head beside it. */
#ifndef GRAIL_ARCH_TIED_HEAD_H
#define GRAIL_ARCH_TIED_HEAD_H

#include "arch/model.h"

/** Looks for such a head of m->graph, once the checkpoint's names are known. *copy: the number of a
 * tensor that has the bytes of the table, so that nothing needs to read it; -1 for none. Another
 * head is one of its own, as it is for transformers 5 and vLLM: *differs, and m->config says so
 * now; the graph has to be built again. */
grail_status tied_head_compare(grail_model *m, const char *source, int64_t *copy,
                               bool *differs) GRAIL_MUST_CHECK;

#endif
