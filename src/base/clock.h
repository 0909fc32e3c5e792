/* A clock that never goes backward. */
#ifndef GRAIL_BASE_CLOCK_H
#define GRAIL_BASE_CLOCK_H

/** Seconds since a moment that is fixed while the machine runs. */
double clock_seconds(void);

/** Takes another clock in its place for the calling thread, so that what time decides can be
 * repeated; NULL: the machine's. */
void clock_replace(double (*clock)(void));

#endif
