/* Configurations as text, and what is built from them. */
#ifndef GRAIL_TESTS_ARCH_CONFIG_H
#define GRAIL_TESTS_ARCH_CONFIG_H

#include "support/support.h"

#include "arch/decoder.h"

/** {"model_type": TYPE, sizes of a small network, CHANGES}. `changes` are further members such as
 * "\"head_dim\": 4", which replace those of the small network; NULL for none. The caller releases.
 */
json_t *small_config(const char *type, const char *changes);

/** Builds it as "config.json". */
grail_status build_config(const json_t *config, graph **out);
/** Builds small_config(type, changes) and frees it again. */
grail_status try_config(const char *type, const char *changes);
/** The graph of small_config(type, changes); the caller frees it. */
graph *built(const char *type, const char *changes);

/** Shape of a parameter; the test fails without it. */
const int64_t *shape_of(const graph *g, const char *name);
/** First node of that kind in a block. */
const node *find_node(const graph *g, node_kind kind, int block);

#endif
