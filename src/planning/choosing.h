/* What an effort or a time chooses, beside what was given. */
#ifndef GRAIL_PLANNING_CHOOSING_H
#define GRAIL_PLANNING_CHOOSING_H

#include "base/json.h"
#include "graph/graph.h"

#include <grail/schedule.h>

typedef enum effort_kind { EFFORT_QUICK, EFFORT_USUAL, EFFORT_BEST, EFFORT_NONE } effort_kind;

enum { MOST_PHASES = 4, CHOICES_SIZE = 400 };

struct grail_schedule {
    double began; /* by clock_seconds */
    effort_kind effort;
    grail_schedule_facts facts;
    char choices[CHOICES_SIZE];
    grail_schedule_phase phases[MOST_PHASES];
    int phase_count;
    char *path;   /* of what is kept, or NULL; owned */
    json_t *kept; /* what was chosen; owned */
};

/** What an effort or a time sets, beside what was given. */
typedef struct choosing {
    grail_schedule *schedule;
    grail_plan_options *options;
    grail_compress_options *run; /* of these */
    const char *given;
    grail_schedule_subject subject;
    const graph *graph;
    int64_t length;      /* tokens of a window; 1: images */
    int64_t most_healed; /* windows that healing may read, where some are drawn; 0: any */
} choosing;

bool choosing_is_given(const choosing *c, const char *field);
bool choosing_heals(const choosing *c);
/** A plan that was given says itself what recipe it wants. */
bool choosing_leaves_recipe(const choosing *c);

/** Each unless it is given. */
void choosing_set_recipe(choosing *c, bool is_quick);
void choosing_set_budget(choosing *c, const char *budget);
/** Steps of more samples for more tokens: 2,048 tokens a step to 150 k, 8,192 from 800 k on.
 * Windows are new ones as far as the text goes. */
void choosing_set_tokens(choosing *c, double tokens);
/** All that the effort sets. */
grail_status choosing_apply_effort(choosing *c) GRAIL_MUST_CHECK;

/** One line of what is done, given or chosen. */
void choosing_tell(choosing *c);

#endif
