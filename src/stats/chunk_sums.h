/* Sums over chunks of samples: those of a chunk are taken by themselves and then added to the sums
 * of the chunks before it, in f64. So the bits follow from the chunks, not from who takes which. */
#ifndef GRAIL_STATS_CHUNK_SUMS_H
#define GRAIL_STATS_CHUNK_SUMS_H

#include "comm/comm.h"
#include "stats/statistics.h"

enum { CHUNK_MATRICES = 8, CHUNK_NUMBERS = 3 };

/** What is summed of one chunk, and of all before it; everything is borrowed. */
typedef struct chunk_sums {
    matrix *part[CHUNK_MATRICES], *total[CHUNK_MATRICES]; /* f64; of square ones named `lower` only
                                                             that triangle is added */
    bool lower[CHUNK_MATRICES];
    int matrices;
    double *part_number[CHUNK_NUMBERS], *total_number[CHUNK_NUMBERS];
    int numbers;
    int64_t *part_rows, *total_rows; /* 0: nothing was added, and all sums are 0 */
    grail_statistics *statistics;    /* whose totals are among them; NULL: none */
} chunk_sums;

/** The sums of statistics; more may be appended. */
chunk_sums chunk_sums_of_statistics(grail_statistics *part, grail_statistics *total);
void chunk_sums_append_matrix(chunk_sums *s, matrix *part, matrix *total);
/** Adds the lower triangles of square matrices. */
void chunk_sums_append_triangle(chunk_sums *s, matrix *part, matrix *total);
void chunk_sums_append_number(chunk_sums *s, double *part, double *total);

/** part = 0 */
grail_status chunk_sums_clear(const chunk_sums *s) GRAIL_MUST_CHECK;

/** total += part, part = 0 */
grail_status chunk_sums_fold(const chunk_sums *s) GRAIL_MUST_CHECK;

/** Does that for one chunk of each rank below `ranks`, in the order of ranks. Called by all ranks:
 * each has the sums of some rows of the total then, and nothing is left in the parts. `c` NULL
 * stands for one rank, which has all. */
grail_status chunk_sums_fold_ranks(const grail_comm *c, int ranks,
                                   const chunk_sums *s) GRAIL_MUST_CHECK;

/** backend_settle, which by the same reading does statistics_read_weight of `count` statistics. */
grail_status chunk_sums_settle(backend *b, grail_status so_far, int count,
                               grail_statistics *const *of) GRAIL_MUST_CHECK;

/** Gives all ranks the rows of the total that each has, after the last chunk. */
grail_status chunk_sums_share(const grail_comm *c, const chunk_sums *s) GRAIL_MUST_CHECK;

#endif
