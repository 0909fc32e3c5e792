/* Sums of values, taken by visitors of a pass: of the columns of a value and their squares, and the
 * energy of what leaves a block. */
#ifndef GRAIL_PIPELINE_NETWORK_COLUMN_SUMS_H
#define GRAIL_PIPELINE_NETWORK_COLUMN_SUMS_H

#include "pipeline/network/pass.h"

typedef struct column_sums {
    int value;
    matrix squares, sums; /* [1, width] f64, owned; without `sums` of squares alone */
    int64_t rows;
    matrix part_squares, part_sums; /* of the chunk whose batches are being added; owned */
    int64_t part_rows;
} column_sums;

/** Columns behind those that a batch has stay 0. column_sums_fini frees, also after a failure. */
grail_status column_sums_init(backend *b, int value, int64_t width, bool with_sums,
                              column_sums *out) GRAIL_MUST_CHECK;
void column_sums_fini(column_sums *s); /* works on a zeroed one */

/** What adds to them before that node runs; `s` is borrowed. */
visitor column_sums_visitor(column_sums *s, int before);

/** The energy of what leaves a block, which errors of cuts in it are relative to: the squares of
 * all values that later nodes read, or of the network's output. */
typedef struct block_energy {
    int end;     /* the node behind the block */
    matrix sum;  /* [1, 1], owned, as is the part */
    matrix part; /* of the chunk whose batches are being added */
    int64_t batches;
    int64_t part_batches;
} block_energy;

/** block_energy_fini frees, also after a failure. */
grail_status block_energy_init(backend *b, int end, block_energy *out) GRAIL_MUST_CHECK;
void block_energy_fini(block_energy *e); /* works on a zeroed one */

/** What adds to it at the end of a pass to e->end; `e` is borrowed. */
visitor block_energy_visitor(block_energy *e);

#endif
