/* The best of many networks: those that no other beats in both size and quality. */
#ifndef GRAIL_STUDY_PAGE_PARETO_H
#define GRAIL_STUDY_PAGE_PARETO_H

#include <stdbool.h>

typedef struct pareto_point {
    double x, y;
} pareto_point;

/** Moves those points to the front that no other point equals or beats in both coordinates, sorted
 * by x; of equal points one stays. Tells how many. Points with a NaN are left out. */
int pareto_front(pareto_point *points, int count, bool less_x_is_better, bool less_y_is_better);

#endif
