/* The search for the best widths: formulas first, then local moves, each judged by a compression in
 * memory. */
#ifndef GRAIL_PLANNING_SEARCH_H
#define GRAIL_PLANNING_SEARCH_H

#include "pipeline/request/calibration.h"
#include "planning/drops.h"
#include "planning/judgement.h"

#include <grail/plan.h>

enum { CANDIDATE_NAME = 48 };

typedef struct width_candidate {
    char name[CANDIDATE_NAME];
    int64_t *kept; /* [sites], owned */
    double cost;   /* in the unit of the limit */
    divergence judged;
} width_candidate;

typedef struct width_search {
    const width_space *space;
    const drop_space *drops; /* NULL: no sublayer may be dropped */
    const calibration *samples;
    const grail_plan_options *options; /* with a session */
    bool stopped;                      /* by the observer, or the time */
    width_candidate best;
    width_candidate trial; /* the one that is made and judged next */
    double uniform_divergence, uniform_cost;
    double *measured;   /* [slot_count], weights of the slots' errors; NULL: not measured */
    double *weights;    /* [slot_count], of the slots' errors in the best widths by them */
    bool *dropped;      /* [sites] that keep nothing there */
    double head_factor; /* of the best opening by errors */
    bool by_measured;   /* that opening weighs errors by `measured` */
    int64_t *judged;    /* [tried, sites], uniform widths first */
    int tried, most;
    double began;
} width_search;

/** How many trials a search makes at most. */
int width_search_most(const grail_plan_options *options);
/** Whether a search of `most` trials weighs errors by trials of single slots that take as long as
 * `alone` of its own: a quarter of them at most. */
bool width_search_weighs(int most, double alone);

/**
 * Judges the widths of several formulas and splits between heads and the rest, then moves units
 * from one slot to another as long as trials remain. With `drops` (NULL: none) whole sublayers are
 * tried without, and taken back. Errors are weighed by what the cut of each slot alone does to the
 * output where that takes at most a quarter of the time of the trials. The uniform widths
 * are the first; others are taken where they are nearer to the dense network than the best so far
 * by more than the standard error. The moves depend on
 * the seed alone, and end early only when the time or the observer says so. width_search_fini
 * frees, even after a failure.
 */
grail_status width_search_run(const width_space *space, const drop_space *drops,
                              const calibration *samples, const grail_plan_options *options,
                              width_search *s) GRAIL_MUST_CHECK;
void width_search_fini(width_search *s);

#endif
