/* Where the time of a run goes: a clock for each kind of work, one of which runs at a time. What a
 * thread does counts in the profile that it was given last; without one nothing is counted. */
#ifndef GRAIL_BASE_PROFILE_H
#define GRAIL_BASE_PROFILE_H

#include <stdbool.h>

typedef enum profile_kind {
    PROFILE_REST,
    PROFILE_PRODUCTS, /* Linears and convolutions */
    PROFILE_ATTENTION,
    PROFILE_ELEMENTWISE, /* all other nodes */
    PROFILE_STATISTICS,
    PROFILE_SELECTION,
    PROFILE_FITS,
    PROFILE_WEIGHTS, /* loaded, converted, rounded */
    PROFILE_WAITING, /* for other ranks, and for a device */
    PROFILE_FILES,   /* samples that are read, and what is written */
    PROFILE_KINDS
} profile_kind;

typedef struct profile {
    double seconds[PROFILE_KINDS];
    double operations[PROFILE_KINDS]; /* of products, counted from shapes: 2 for each x * y + z */
    profile_kind now;
    double since; /* clock_seconds when `now` was counted last */
} profile;

const char *profile_name(profile_kind kind);

/** Sets the clocks to zero; that of the rest runs. */
void profile_start(profile *p);

/** Counts this thread's work in *p from now on, or nothing with NULL; gives what it was counted in.
 */
profile *profile_use(profile *p);

/** The clock of `kind` runs instead of another, which is given: entering that one ends this. */
profile_kind profile_enter(profile_kind kind);

/** Whether the thread's work is counted. */
bool profile_is_on(void);
void profile_add_operations(double count);

/** Counts the seconds up to now. */
void profile_read(profile *p);

#endif
