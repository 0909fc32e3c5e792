/* A line of the results of a sweep: the header, a dense checkpoint, a cell, or a cell that failed.
 * Only line.c knows the keys of a line and how their values are written; grail-recipe(5) describes
 * them. */
#ifndef GRAIL_STUDY_RESULTS_LINE_H
#define GRAIL_STUDY_RESULTS_LINE_H

#include "base/json.h"
#include "study/results/variant.h"

#include <math.h>

/* Stands in the structures for a value that is null or missing in the file. */
#define NOT_MEASURED ((double)NAN)

enum {
    SECONDS_CALIBRATE,
    SECONDS_COMPENSATE,
    SECONDS_HEAL, /* of a healed cell */
    SECONDS_EVALUATE,
    SECONDS_TOTAL,
    SECONDS_KINDS
};

/** The first line. Texts and the recipe are borrowed. */
typedef struct line_header {
    json_t *recipe;                      /* NULL: none */
    const char *started, *cpu, *version; /* NULL: not said */
    int64_t threads;                     /* 0: not said */
} line_header;

/** The settings of a cell; its texts are borrowed. */
typedef struct line_settings {
    const char *checkpoint, *selector;
    double sparsity; /* [0, 1) */
    variant variant;
    int64_t samples, seed;
    bool open_loop;
    const char *calibration; /* name of the data; NULL: the recipe has one without a name */
    const char *choices;     /* that vary in the recipe, "align=32 target=local"; NULL: none */
} line_settings;

/** The measurements of a network. A dense one has no memory, and of the times that of its
 * evaluation. Accuracy and perplexity are those of one evaluation. */
typedef struct line_measures {
    double top1, top5, interval; /* fractions */
    double images;
    double perplexity, perplexity_error; /* of text; its standard error */
    double windows, context;             /* of text: how many, and of how many tokens */
    double latency; /* seconds for an image or window, where another program measured it */
    double parameters, macs;
    double seconds[SECONDS_KINDS];
    double peak_bytes;
} line_measures;

/** The cut and the fits of one site. `kind` is written, not read. */
typedef struct line_site {
    char *name, *kind; /* owned; kind may be NULL */
    double units, kept;
    double fit_before, fit_after, held_before, held_after; /* relative error of the output */
} line_site;

/** One training of a healed cell. */
typedef struct line_healing {
    double block;                   /* from 0; NOT_MEASURED: the whole network */
    double steps;                   /* taken */
    double held_before, held_after; /* loss of the samples that no step saw */
    double seconds;
} line_healing;

/** What a network was measured on, and its accuracy or perplexity there. */
typedef struct line_evaluation {
    const char *name;        /* borrowed; NULL: the only one, which has no name */
    const char *data_sha256; /* of the text or images; borrowed; NULL: not said */
    line_measures measures;  /* of these the accuracy or perplexity */
    double *outcomes;        /* [outcome_count] of each image, 1 where it was right, else 0, or of
                                each window, its mean loss; owned */
    int outcome_count;       /* 0: they were not kept */
} line_evaluation;

typedef enum line_kind { LINE_DENSE, LINE_CELL, LINE_FAILURE } line_kind;

/** A line after the first. All texts are borrowed; those of a line that was read belong to its
 * document. */
typedef struct result_line {
    line_kind kind;
    line_settings settings;       /* a dense network has the checkpoint alone */
    const char *path;             /* of a dense one; "": not said */
    const char *architecture;     /* of a dense one */
    const char *error;            /* of a failure */
    line_measures measures;       /* of a dense network and a cell: sizes, times and memory */
    line_evaluation *evaluations; /* [evaluation_count] of both; owned */
    int evaluation_count;
    line_site *sites; /* [site_count] of a cell; owned */
    int site_count;
    line_healing *healings; /* [healing_count] of a healed cell; owned */
    int healing_count;
} result_line;

/** The document of the first line; *out is owned. */
grail_status line_header_to_json(const line_header *header, json_t **out) GRAIL_MUST_CHECK;
/** Anything but a header is GRAIL_ERROR_FORMAT, a header of another version
 * GRAIL_ERROR_UNSUPPORTED. */
grail_status line_header_read(json_t *document, line_header *out) GRAIL_MUST_CHECK;
/** Whether the bytes begin as a results file does; they may end before its header ends. */
bool line_header_begins(const void *bytes, size_t size);

/** The document of another line; *out is owned. */
grail_status line_to_json(const result_line *line, json_t **out) GRAIL_MUST_CHECK;
/** Every value is checked; `where` is used in messages. Unknown keys are ignored. *out is released
 * with line_fini. */
grail_status line_read(const char *where, const json_t *document,
                       result_line *out) GRAIL_MUST_CHECK;
/** Refuses a cell that has unknown settings. */
grail_status line_check_settings(const char *where, const json_t *document) GRAIL_MUST_CHECK;

/** Both work on zeroed structures. */
void line_fini(result_line *line);
void line_sites_free(line_site *sites, int count);

#endif
