/* The results of a sweep as read from its file: one JSON document per line, the first a header,
 * then dense checkpoints and cells in any order (docs/formats.md). */
#ifndef GRAIL_STUDY_RESULTS_RESULTS_H
#define GRAIL_STUDY_RESULTS_RESULTS_H

#include "study/results/line.h"

enum {
    MOST_CHECKPOINTS = 1024,
    MOST_SELECTORS = 32, /* the known ones come first, in their own order */
    MOST_CELLS = 200000,
};

typedef struct result_checkpoint {
    char *name;
    char *architecture; /* NULL when the file tells nothing of the dense network */
    char *path;         /* "" when it does not say where that lies; NULL as architecture */
    line_measures measures;
} result_checkpoint;

typedef struct result_cell {
    int checkpoint; /* index into results.checkpoints */
    int selector;   /* index into results.selectors */
    line_settings settings;
    size_t line;
    char *error; /* NULL: the cell was measured */
    line_measures measures;
    line_site *sites;
    int site_count;
    line_healing *healings;
    int healing_count;
} result_cell;

typedef struct results {
    json_t *document;   /* the first line, an object */
    line_header header; /* what it says */
    result_checkpoint *checkpoints;
    int checkpoint_count;
    char *selectors[MOST_SELECTORS];
    int selector_count;
    result_cell *cells;
    int cell_count;
    size_t cut_line; /* number of a last line that was cut short and is left out; 0: none */
} results;

/** Parses the bytes of a complete file; `name` is used in messages. *out is released with
 * results_fini. */
grail_status results_parse(const char *name, const void *bytes, size_t size,
                           results *out) GRAIL_MUST_CHECK;
grail_status results_read(const char *path, results *out) GRAIL_MUST_CHECK;
void results_fini(results *r);

#endif
