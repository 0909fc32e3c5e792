/* What was healed in a run: the results of its trainings. */
#ifndef GRAIL_PIPELINE_NETWORK_HEALING_H
#define GRAIL_PIPELINE_NETWORK_HEALING_H

#include "base/json.h"
#include "graph/graph.h"

#include <grail/compress.h>

typedef struct healing_list {
    grail_healing *made; /* [count], in order; owned */
    int count;
    double seconds; /* of all */
} healing_list;

void healing_list_fini(healing_list *list); /* works on a zeroed one */
grail_status healing_list_add(healing_list *list, const grail_healing *made) GRAIL_MUST_CHECK;

/** Adds the list "healed" of a block (GRAPH_NONE: of the whole network); with `every`, all. Nothing
 * is added for an empty list. */
grail_status healings_to_json(const healing_list *list, int block, bool every,
                              json_t *object) GRAIL_MUST_CHECK;
/** Adds the trainings of a record to the list. */
grail_status healings_restore(const json_t *record, healing_list *list) GRAIL_MUST_CHECK;

#endif
