/* Whole sublayers that a plan may drop. */
#ifndef GRAIL_PLANNING_DROPS_H
#define GRAIL_PLANNING_DROPS_H

#include "planning/widths.h"

/** What can be dropped: a sublayer; or, where sites of one kind must have the same width, a block
 * with all its sublayers, so that the layers that are left stay equal. Sets of dropped sites are
 * arrays bool dropped[sites]. */
typedef struct drop_space {
    const width_space *widths; /* borrowed, and so are the curves and names */
    const loss_curve *curves;
    int *choice_of; /* [sites]; GRAPH_NONE: must stay; owned */
    double *losses; /* [count]: the error of losing it, relative to what it costs; INFINITY when it
                       costs nothing in the unit of the limit; owned */
    int *order;     /* [count]: the choices, that with the least loss first; owned */
    const char **names; /* [count]: of the first site; owned */
    int count;
    int sublayers; /* of the network, of which one must stay */
} drop_space;

enum { DROP_FAILURES = 4 /* in a row that end a walk through the choices */ };

/** GRAIL_ERROR_UNSUPPORTED for a network whose checkpoints cannot describe the result;
 * GRAIL_ERROR_ARGUMENT when nothing can be dropped. drop_space_fini frees,
 * even after a failure. */
grail_status drop_space_init(const width_space *widths, const loss_curve *curves,
                             drop_space *d) GRAIL_MUST_CHECK;
void drop_space_fini(drop_space *d); /* works on a zeroed one */

/** Drops a choice that is there, or takes it back. False, and nothing changes, when no sublayer
 * would stay. */
bool drop_space_toggle(const drop_space *d, int choice, bool *dropped);

/** Whether the widths kept[sites] lack a choice. */
bool drop_space_lacks(const drop_space *d, int choice, const int64_t *kept);

/** Drops a choice from the widths kept[sites], or takes it back with the share of its units that
 * the others keep; then all widths are scaled to the limit. *possible is false, and kept is of no
 * use, when no sublayer would stay or the limit cannot be met. */
grail_status drop_space_switch(const drop_space *d, int choice, int64_t *kept,
                               bool *possible) GRAIL_MUST_CHECK;

/** Adds choices to the set, from the least loss on, as long as the sum of the errors falls with
 * which `choice` chooses the other widths. Its own set is not used. */
grail_status drops_by_errors(const drop_space *d, formula_choice choice,
                             bool *dropped) GRAIL_MUST_CHECK;

#endif
