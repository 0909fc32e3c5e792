/* Results files for tests, line by line. */
#ifndef GRAIL_TESTS_STUDY_SWEEP_H
#define GRAIL_TESTS_STUDY_SWEEP_H

#include "base/buffer.h"

typedef struct sweep_cell {
    const char *checkpoint, *selector; /* as they stand in JSON, without quotes */
    const char *compensate;
    bool repair;
    const char *heal; /* NULL: nothing is said of it */
    double sparsity, top1;
    int samples, seed;
} sweep_cell;

/** The header; *text starts empty. */
void sweep_begin(buffer *text);
void sweep_add(buffer *text, const char *line);
void sweep_add_dense(buffer *text, const char *checkpoint, const char *architecture, double top1);
/** With two sites where something compensates, and the trainings of a block and of the network
 * where something is healed. */
void sweep_add_cell(buffer *text, const sweep_cell *cell);
void sweep_add_failure(buffer *text, const sweep_cell *cell, const char *error);

/** Two checkpoints, two selectors, three ratios, all variants, several samples and seeds. */
void sweep_fill(buffer *text);

#endif
