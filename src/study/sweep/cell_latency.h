/* How long the network of a cell takes for one sample, in turns with the dense one. It is measured
 * as it would be used: written, and opened again. */
#ifndef GRAIL_STUDY_SWEEP_CELL_LATENCY_H
#define GRAIL_STUDY_SWEEP_CELL_LATENCY_H

#include "study/sweep/cell_run.h"

/** The written result of a cell; all zero where its recipe asks for no latency. */
typedef struct cell_written {
    char *directory, *output; /* owned */
    grail_model *model;       /* owned */
} cell_written;

/** Where the recipe asks for a latency: makes a directory below TMPDIR, and gives the options an
 * output in it, which they borrow. */
grail_status cell_written_begin(const sweep_recipe *recipe, grail_compress_options *options,
                                cell_written *out) GRAIL_MUST_CHECK;
/** Opens what the run has written, if it has. */
grail_status cell_written_open(grail_compression *run, cell_written *written) GRAIL_MUST_CHECK;
/** Removes it all; works on a zeroed one. */
void cell_written_fini(cell_written *written);

/** Where the recipe asks for it: the median of a sample in seconds. `narrow` NULL: of the dense
 * network alone. */
grail_status cell_latency_measure(const sweep_context *context, const grail_model *narrow,
                                  double *out) GRAIL_MUST_CHECK;

#endif
