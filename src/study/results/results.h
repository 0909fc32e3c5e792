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

/** A network on one evaluation: those that were measured on several texts are as many. */
typedef struct result_checkpoint {
    char *name;        /* "smollm2 on PTB"; that of the network where its evaluation has no name */
    char *network;     /* as the recipe calls it */
    char *evaluation;  /* NULL: it has no name */
    bool is_further;   /* its network has an earlier one */
    size_t line;       /* that first told of its data; 0: none */
    char *data_sha256; /* of the data; NULL: not said */
    double windows, context; /* of a text */
    double *outcomes;        /* [outcome_count] of the dense network; owned */
    int outcome_count;
    char *architecture; /* NULL when the file tells nothing of the dense network */
    char *path;         /* "" when it does not say where that lies; NULL as architecture */
    line_measures measures;
} result_checkpoint;

/** What cells have in common beside what line_settings has numbers for. */
typedef struct result_setting {
    char *text;                  /* "of half-PTB, target=local"; "" */
    char *calibration, *choices; /* as line_settings */
} result_setting;

typedef struct result_cell {
    int checkpoint;  /* index into results.checkpoints */
    int selector;    /* index into results.selectors */
    int setting;     /* index into results.settings */
    bool is_further; /* of the same line as an earlier cell, on another evaluation: it has the
                        sizes, but no sites, trainings, times and memory */
    line_settings settings;
    size_t line;
    char *error; /* NULL: the cell was measured */
    line_measures measures;
    line_site *sites;
    int site_count;
    line_healing *healings;
    int healing_count;
    double *outcomes; /* [outcome_count] of each image or window; owned */
    int outcome_count;
} result_cell;

typedef struct results {
    json_t *document;   /* the first line, an object */
    line_header header; /* what it says */
    result_checkpoint *checkpoints;
    int checkpoint_count;
    result_setting *settings; /* the first is that of cells without any */
    int setting_count;
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
