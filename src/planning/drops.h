/* Whole sublayers that a plan may drop. */
#ifndef GRAIL_PLANNING_DROPS_H
#define GRAIL_PLANNING_DROPS_H

#include "planning/widths.h"

enum { DROP_NAME = 36 };

/** A sublayer, or a block with all its sublayers that may go. */
typedef struct drop_choice {
    char name[DROP_NAME];
    int site;    /* GRAPH_NONE: all of the block that may go */
    int block;   /* of the site, or the whole one */
    double loss; /* the error of losing it, relative to what it costs in the unit of the limit */
} drop_choice;

/** What can be dropped, where it costs something: blocks, and sublayers alone; where sites of one
 * kind must have the same width blocks only, so that the layers that are left stay equal. Sets of
 * dropped sites are arrays bool dropped[sites]. */
typedef struct drop_space {
    const width_space *widths; /* borrowed, and so are the curves */
    const loss_curve *curves;
    bool *can_go;         /* [sites], owned */
    drop_choice *choices; /* [count]: blocks, then sublayers, each from the least loss on; owned */
    int blocks, count;
    int sublayers; /* of the network, of which one must stay */
} drop_space;

enum { DROP_FAILURES = 4 /* in a row that end a walk through the choices */ };

/** GRAIL_ERROR_UNSUPPORTED for a network whose checkpoints cannot describe the result;
 * GRAIL_ERROR_ARGUMENT when nothing can be dropped. drop_space_fini frees,
 * even after a failure. */
grail_status drop_space_init(const architecture *a, const width_space *widths,
                             const loss_curve *curves, drop_space *d) GRAIL_MUST_CHECK;
void drop_space_fini(drop_space *d); /* works on a zeroed one */

/** Whether the widths kept[sites] lack a choice, all of it. */
bool drop_space_lacks(const drop_space *d, int choice, const int64_t *kept);

/** Drops a choice from the widths kept[sites], or takes it back with the share of its units that
 * the others keep; then all widths are scaled to the limit. *possible is false, and kept is of no
 * use, when no sublayer would stay or the limit cannot be met. */
grail_status drop_space_switch(const drop_space *d, int choice, int64_t *kept,
                               bool *possible) GRAIL_MUST_CHECK;

/** Adds sublayers, or where blocks alone can go these, to the set, from the least loss on, as long
 * as the sum of the errors falls with which `choice` chooses the other widths. Its own set is not
 * used. */
grail_status drops_by_errors(const drop_space *d, formula_choice choice,
                             bool *dropped) GRAIL_MUST_CHECK;

#endif
