/* Writing statistics of a network: one tensor after another into a file that appears only when it
 * is complete. */
#ifndef GRAIL_STATS_NETWORK_STATISTICS_WRITE_H
#define GRAIL_STATS_NETWORK_STATISTICS_WRITE_H

#include "base/json.h"
#include "base/output_file.h"
#include "stats/network_statistics.h"

#include <grail/gram.h>

/** The tensors of a file, in its order. */
typedef struct statistics_list {
    tensor_view *tensors; /* [count], owned; without data */
    char (*names)[STATISTICS_NAME_SIZE];
    int64_t count;
} statistics_list;
/* Tensors of a weight: vectors, and Gram matrices with what goes with them. */
enum { STATISTICS_VECTORS = 3, STATISTICS_GRAMS = 6 };
void statistics_list_fini(statistics_list *l); /* works on a zeroed one */
/** Adds the vectors of a weight with this many features. */
grail_status statistics_list_vectors(statistics_list *l, const char *name,
                                     int64_t width) GRAIL_MUST_CHECK;
/** Adds the Gram matrices of a weight. */
grail_status statistics_list_grams(statistics_list *l, const char *name,
                                   int64_t width) GRAIL_MUST_CHECK;
grail_status statistics_list_energy(statistics_list *l, int64_t count) GRAIL_MUST_CHECK;

typedef struct statistics_file {
    output_file file; /* of statistics_file_open */
    tensor_writer *writer;
    json_t *checksums; /* {name: CRC-32} of what is written; borrowed, NULL: not wanted */
} statistics_file;

/** Lays a file out at `path`; a full disk shows here. The caller calls statistics_file_fini, also
 * after a failure. */
grail_status statistics_file_lay_out(const char *path, const statistics_origin *origin,
                                     statistics_list *l, layout_start start,
                                     statistics_file *out) GRAIL_MUST_CHECK;
/** The same for a file that appears with the commit. */
grail_status statistics_file_open(const char *path, const statistics_origin *origin,
                                  statistics_list *l, statistics_file *out) GRAIL_MUST_CHECK;
/** Writes the vectors of a weight: squares[width], sums[width]. */
grail_status statistics_file_vectors(const statistics_file *f, const char *name, int64_t width,
                                     const double *squares, const double *sums,
                                     int64_t rows) GRAIL_MUST_CHECK;
/** Writes the Gram matrices of a weight. */
grail_status statistics_file_grams(const statistics_file *f, const char *name,
                                   const grail_statistics *fit,
                                   const grail_statistics *held) GRAIL_MUST_CHECK;
/** Writes the energies behind all blocks. */
grail_status statistics_file_energy(const statistics_file *f, int64_t count,
                                    const double *energies) GRAIL_MUST_CHECK;
/** Gives the file its name when all tensors are written; *bytes is its size. */
grail_status statistics_file_commit(statistics_file *f, int64_t *bytes) GRAIL_MUST_CHECK;
void statistics_file_fini(statistics_file *f); /* works on a zeroed one */

#endif
