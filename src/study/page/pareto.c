#include "study/page/pareto.h"

#include <math.h>
#include <stdlib.h>

/* By x, then y, both ascending. */
static int compare_points(const void *a, const void *b)
{
    const pareto_point *const left = a;
    const pareto_point *const right = b;
    const int order = (left->x > right->x) - (left->x < right->x);
    return order != 0 ? order : (left->y > right->y) - (left->y < right->y);
}

static int drop_unknown(pareto_point *points, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!isnan(points[i].x) && !isnan(points[i].y)) {
            points[kept++] = points[i];
        }
    }
    return kept;
}

static void mirror(pareto_point *points, int count, bool x, bool y)
{
    for (int i = 0; i < count; i++) {
        points[i].x = x ? -points[i].x : points[i].x;
        points[i].y = y ? -points[i].y : points[i].y;
    }
}

int pareto_front(pareto_point *points, int count, bool less_x_is_better, bool less_y_is_better)
{
    int kept = 0;
    count = drop_unknown(points, count);
    mirror(points, count, !less_x_is_better, !less_y_is_better);
    qsort(points, (size_t)count, sizeof points[0], compare_points);
    for (int i = 0; i < count; i++) {
        if (kept == 0 || points[i].y < points[kept - 1].y) {
            points[kept++] = points[i];
        }
    }
    mirror(points, kept, !less_x_is_better, !less_y_is_better);
    qsort(points, (size_t)kept, sizeof points[0], compare_points);
    return kept;
}
