/* Time that only goes forward. */
#ifndef GRAIL_BASE_CLOCK_H
#define GRAIL_BASE_CLOCK_H

/** Seconds since some moment that stays the same while the machine runs. */
double clock_seconds(void);

#endif
