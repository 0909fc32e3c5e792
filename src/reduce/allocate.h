/* Allocation: the widths of all sites of a network are chosen together, under a limit on what they
 * cost (parameters, multiply-accumulates, bytes). Costs are taken as linear in the kept units. */
#ifndef GRAIL_REDUCE_ALLOCATE_H
#define GRAIL_REDUCE_ALLOCATE_H

#include "base/status.h"

#include <stdint.h>

/** One site, or several that get the same width. It keeps all its units, or a multiple of `step` of
 * at least `least`. */
typedef struct allocation_site {
    const char *name; /* for messages */
    int64_t units;
    int64_t step;         /* divides `units` or not; at least 1 */
    int64_t least;        /* 0: the site may lose everything */
    double cost;          /* of one unit; at least 0 */
    double weight;        /* of the errors */
    const double *errors; /* [units + 1]: the error with K units, falling to 0 at `units` */
    const double *scores; /* [units]: of units of all sites on one scale; large means keep */
} allocation_site;

/** The smallest cost that the sites can have together, and their cost with all units. */
double allocation_least(const allocation_site *sites, int count);
double allocation_full(const allocation_site *sites, int count);

/** The next width above `kept` that the site can have; `kept` itself when it has all units. */
int64_t allocation_next_width(const allocation_site *s, int64_t kept);

/**
 * kept[count] with the least sum of errors among those that cost at most `limit`. Exact on a grid
 * of costs and widths (dynamic programming over ALLOCATION_GRID costs, at most ALLOCATION_WIDTHS
 * widths for each site); what the grid leaves of the limit goes to the units that lower the error
 * most for their cost. GRAIL_ERROR_ARGUMENT when the limit is below allocation_least; the message
 * names that. GRAIL_ERROR_NUMERIC when an error is NaN, negative, or larger with more units.
 */
enum { ALLOCATION_GRID = 8192, ALLOCATION_WIDTHS = 512 };
grail_status allocate_by_errors(const allocation_site *sites, int count, double limit,
                                int64_t *kept) GRAIL_MUST_CHECK;

/** kept[count] when units are kept in the order of their scores, the best of all sites first, as
 * long as they cost at most `limit` (FLAP's AL-AM; An et al., arXiv 2312.11983). Errors as above.
 */
grail_status allocate_by_scores(const allocation_site *sites, int count, double limit,
                                int64_t *kept) GRAIL_MUST_CHECK;

/** ratios[layers]: removed fractions that grow with the logarithm of depth, with mean r:
 * r_i = r_0 + (r_last - r_0) ln(i + 1) / ln(layers) (SlimGPT; Ling et al., arXiv 2412.18110, eq.
 * 6). r_0 is 0.0625, or r where that is less; it is raised where r_last would exceed 0.95. */
void allocate_by_depth(int layers, double r, double *ratios);

#endif
