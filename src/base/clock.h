/* A clock that never goes backward. */
#ifndef GRAIL_BASE_CLOCK_H
#define GRAIL_BASE_CLOCK_H

/** Seconds since a moment that is fixed while the machine runs. */
double clock_seconds(void);

#endif
