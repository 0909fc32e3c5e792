/* How often a long command says how far it is, and how long it still takes. */
#ifndef GRAIL_CLI_PACE_H
#define GRAIL_CLI_PACE_H

#include <stdbool.h>

typedef struct pace {
    double said;   /* seconds: when a line was printed, or the program began */
    double begun;  /* when the part that is at work was first told of */
    double before; /* its share then */
    double share;  /* the share that was told last; infinite where no part is at work */
} pace;

pace pace_start(double now);

/** A line was printed. */
void pace_note(pace *p, double now);

/** Whether a line is due in a log, where one is printed each `interval` seconds; notes it. */
bool pace_is_due(pace *p, double now, double interval);

/** How many seconds a part of the command still takes, of which `share` (0 to 1) is done, at the
 * pace since it was first told of. NaN where that is not known: at first, at the end, and for a
 * share that is NaN. A share that falls begins another part. */
double pace_left(pace *p, double now, double share);

#endif
