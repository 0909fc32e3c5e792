/* A measured value with its 95 % interval (docs/numerics.md, Intervals of the report). */
#ifndef GRAIL_STUDY_PAGE_ESTIMATE_H
#define GRAIL_STUDY_PAGE_ESTIMATE_H

#include <stdbool.h>

/** All NaN where nothing was measured; low and high are NaN where the interval is unknown. */
typedef struct estimate {
    double value, low, high;
} estimate;

estimate estimate_none(void);
bool estimate_is_known(const estimate *e); /* whether there is a value */
bool estimate_has_interval(const estimate *e);

/** A share of `count` samples; Wilson 1927. Without a count the interval is that of a half width,
 * which may be NaN. */
estimate estimate_of_share(double share, double count, double half);

/** value +- the 95 % reach of a standard error, which may be NaN. */
estimate estimate_of_error(double value, double error);

/** The mean of runs[count], known ones, that were measured on the same samples: their intervals do
 * not shrink by averaging, and how far the runs lie apart is added (Student 1908). */
estimate estimate_of_runs(const estimate *runs, int count);

/** a - b, where both were measured on the same samples or on independent ones: a bound, since
 * outcomes on the same samples agree more than independent ones do. Newcombe 1998, method 10. */
estimate estimate_difference(const estimate *a, const estimate *b);

/** The mean of a[count] - b[count], outcomes of the same samples: Student's interval (1908) of the
 * differences, or where they are 0 and 1 (`are_hits`) that of Agresti and Min (2005). */
estimate estimate_of_pairs(const double *a, const double *b, int count, bool are_hits);

/** value, low and high times `factor` > 0. */
estimate estimate_scaled(const estimate *e, double factor);

/** Whether both have intervals and all of a's lies above all of b's. */
bool estimate_is_above(const estimate *a, const estimate *b);

#endif
