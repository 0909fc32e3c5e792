/* Statistics of a dense network in a file: sums over what its maps read. The file is a GGUF file of
 * the kind that llama.cpp calls an importance matrix: its tools read what grail writes, and grail
 * reads theirs, whose sums of squares are the diagonals of Gram matrices. Source: llama.cpp,
 * common/imatrix-loader.cpp and tools/imatrix. NAME is that of a weight X W^T with X[T, n]:
 *
 *   NAME.in_sum2     F32 [1, n]  sum_t x_tj^2
 *   NAME.in_sum      F32 [1, n]  sum_t x_tj, which files of llama.cpp may lack
 *   NAME.counts      F32 [1, 1]  T
 *
 * With whole Gram matrices, of each weight that reads a site's units; `held` is the part of the
 * rows that was held out (docs/numerics.md), and in_gram of all rows:
 *
 *   NAME.in_gram     F64 [n, n]  G = X^T X, symmetric
 *   NAME.gram_sum    F64 [1, n]  X^T 1
 *   NAME.gram_count  I64 [1, 1]  T, of a convolution that is fitted by kernel position its patches
 *   NAME.held_gram, NAME.held_sum, NAME.held_count
 *   grail.energy     F64 [1, blocks + 2]  squares of what leaves the nodes before the blocks, each
 *                                         block, and the nodes behind them
 */
#ifndef GRAIL_STATS_NETWORK_STATISTICS_H
#define GRAIL_STATS_NETWORK_STATISTICS_H

#include "base/file.h"
#include "stats/statistics.h"
#include "stats/statistics_origin.h"

#define STATISTICS_ENERGY_NAME "grail.energy"

enum { STATISTICS_NAME_SIZE = 160 }; /* of a tensor's name, with its ending */

typedef struct network_statistics {
    char *path; /* owned */
    tensor_file *file;
    bool has_origin;          /* false: written by another program */
    statistics_origin origin; /* zeroed without one */
    file_identity identity;   /* of the file when it was opened; zeroed for bytes */
} network_statistics;

/** Opens a file and checks names, types and shapes of its tensors; their values are checked when
 * they are read. *out is owned: network_statistics_close. Messages name the file. */
grail_status network_statistics_open(const char *path, network_statistics **out) GRAIL_MUST_CHECK;
/** Checks bytes in memory (for fuzzing and tests); `bytes` must outlive *out. */
grail_status network_statistics_open_bytes(const char *name, const void *bytes, size_t size,
                                           network_statistics **out) GRAIL_MUST_CHECK;
void network_statistics_close(network_statistics *s); /* NULL is allowed */

/** GRAIL_ERROR_ARGUMENT where the statistics are of another model, or were taken in another
 * precision than that of `b`. Files without an origin are taken for those of any model. */
grail_status network_statistics_check(const network_statistics *s, const grail_model *model,
                                      const backend *b) GRAIL_MUST_CHECK;

/** Backend and precision, "cpu f32". */
void statistics_precision(const backend *b, char text[STATISTICS_NAME_SIZE]);

/** NAME of a parameter of the graph: as llama.cpp calls it, otherwise its own. */
void statistics_name(const grail_model *model, int parameter, char name[STATISTICS_NAME_SIZE]);

/** Whether there are whole Gram matrices. */
bool network_statistics_has_grams(const network_statistics *s);

/** Reads the vectors of a weight with `width` features into squares[width] and, unless NULL,
 * sums[width], and its count. GRAIL_ERROR_ARGUMENT where the file has none of that name or width;
 * GRAIL_ERROR_NUMERIC where they are not finite or below 0. */
grail_status network_statistics_vectors(const network_statistics *s, const char *name,
                                        int64_t width, double *squares, double *sums,
                                        double *count) GRAIL_MUST_CHECK;

/** The share of a sum of squares that rounding may leave of a constant feature in these vectors:
 * that of f32, whose sums llama.cpp adds row by row. */
double network_statistics_rounding(double count);

/** Adds the whole Gram matrices of a weight, without and with the rows that were held out, to
 * statistics of its width without a target. */
grail_status network_statistics_grams(const network_statistics *s, const char *name,
                                      grail_statistics *fit,
                                      grail_statistics *held) GRAIL_MUST_CHECK;

/** Reads the energies; energy[count]. */
grail_status network_statistics_energy(const network_statistics *s, int64_t count,
                                       double *energy) GRAIL_MUST_CHECK;

#endif
