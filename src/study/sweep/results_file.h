/* The results file of a sweep: JSON lines, the first a header with the recipe, then one line for
 * every dense checkpoint and every cell, written as a complete line and flushed when it is known.
 */
#ifndef GRAIL_STUDY_SWEEP_RESULTS_FILE_H
#define GRAIL_STUDY_SWEEP_RESULTS_FILE_H

#include "base/line_log.h"
#include "study/recipe/cells.h"
#include "study/results/line.h"

/** The contents of the header besides the recipe. */
typedef struct sweep_origin {
    const char *cpu, *version;
    int threads;
} sweep_origin;

typedef struct sweep_results {
    line_log log;
} sweep_results;

/**
 * Opens `path` for appending, and locks it. An empty or absent file is begun with a header; one
 * that holds results of this recipe is continued: dense_found[checkpoints] and cell_found[count]
 * tell what it has (not the cells that failed), and an unfinished last line is cut. A file of
 * another recipe, or of anything else, is refused and left as it is. sweep_results_close frees.
 */
grail_status sweep_results_open(const char *path, const sweep_recipe *recipe,
                                const sweep_origin *origin, const sweep_cell *cells, int64_t count,
                                bool *dense_found, bool *cell_found,
                                sweep_results *out) GRAIL_MUST_CHECK;

/** The same without writing, creating or locking: only tells what is there. */
grail_status sweep_results_look(const char *path, const sweep_recipe *recipe,
                                const sweep_cell *cells, int64_t count, bool *dense_found,
                                bool *cell_found) GRAIL_MUST_CHECK;

/** Appends one line; it is on disk when this returns. After a failure, a part of the line may
 * remain; it is cut off when the file is continued. */
grail_status sweep_results_append(sweep_results *results, const result_line *line) GRAIL_MUST_CHECK;
/** The same in two steps: the text of a line, which another rank may have made. */
grail_status sweep_results_text(const result_line *line, buffer *out) GRAIL_MUST_CHECK;
grail_status sweep_results_append_text(sweep_results *results, const buffer *text) GRAIL_MUST_CHECK;

void sweep_results_close(sweep_results *results); /* works on a zeroed one */

#endif
