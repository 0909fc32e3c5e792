/* The results of a sweep as read from its file: one JSON document per line, the first a header,
 * then dense checkpoints and cells in any order (docs/formats.md). */
#ifndef GRAIL_STUDY_RESULTS_RESULTS_H
#define GRAIL_STUDY_RESULTS_RESULTS_H

#include "base/json.h"

#include <math.h>

/** What was done after the cut: the compensation, with REPAIR or without. */
typedef enum variant {
    VARIANT_NONE,
    VARIANT_REPAIR,
    VARIANT_GRAIL,
    VARIANT_GRAIL_REPAIR,
    VARIANT_FULL,
    VARIANT_FULL_REPAIR,
    VARIANTS
} variant;

enum {
    MOST_CHECKPOINTS = 1024,
    MOST_SELECTORS = 32, /* the known ones come first, in their own order */
    MOST_CELLS = 200000,
    MOST_NAME_BYTES = 1000,
    SECONDS_CALIBRATE = 0,
    SECONDS_COMPENSATE,
    SECONDS_EVALUATE,
    SECONDS_TOTAL,
    SECONDS_KINDS
};

/* In all structures where the file has null or nothing. Accuracies are fractions. */
#define NOT_MEASURED ((double)NAN)

typedef struct result_checkpoint {
    char *name;
    char *architecture; /* NULL when the file tells nothing of the dense network */
    double parameters, macs;
    double top1, top5, interval, images;
} result_checkpoint;

typedef struct result_site {
    char *name;
    double units, kept;
    double fit_before, fit_after, held_before, held_after; /* relative error of the output */
} result_site;

typedef struct result_cell {
    int checkpoint; /* index into results.checkpoints */
    int selector;   /* index into results.selectors */
    variant variant;
    double sparsity; /* [0, 1) */
    int64_t samples, seed;
    bool open_loop;
    size_t line;
    char *error; /* NULL: the cell was measured */
    double top1, top5, interval, images;
    double parameters, macs;
    double seconds[SECONDS_KINDS];
    double peak_bytes;
    result_site *sites;
    int site_count;
} result_cell;

typedef struct results {
    json_t *header; /* an object */
    result_checkpoint *checkpoints;
    int checkpoint_count, checkpoint_capacity;
    char *selectors[MOST_SELECTORS];
    int selector_count;
    result_cell *cells;
    int cell_count, cell_capacity;
    size_t cut_line; /* number of a last line that was cut short and is left out; 0: none */
} results;

/** Parses a whole file's bytes; `name` is used in messages. *out is released with results_fini. */
grail_status results_parse(const char *name, const void *bytes, size_t size,
                           results *out) GRAIL_MUST_CHECK;
grail_status results_read(const char *path, results *out) GRAIL_MUST_CHECK;
void results_fini(results *r);

/** Adds what one line after the header holds; `where` is used in messages. */
grail_status results_add_line(results *r, const json_t *document, const char *where,
                              size_t line) GRAIL_MUST_CHECK;

#endif
