/* Aggregated cells: the sections of the report, and in each section groups of cells that differ
 * only in their seed (or checkpoint), as mean and range. */
#ifndef GRAIL_STUDY_PAGE_AGGREGATE_H
#define GRAIL_STUDY_PAGE_AGGREGATE_H

#include "study/page/estimate.h"
#include "study/page/spread.h"
#include "study/results/results.h"

/** With more checkpoints than MOST_CHECKPOINT_SECTIONS a section is an architecture, not a
 * checkpoint. */
enum { MOST_CHECKPOINT_SECTIONS = 8, MOST_GROUPS = 20000, MOST_RATIOS = 1000 };

/** What tells how good a network is: a fraction, or exp of the mean loss of a token. */
typedef enum quality_kind { QUALITY_ACCURACY, QUALITY_PERPLEXITY } quality_kind;

/** What the cells of a group have in common within their section. */
typedef struct group_key {
    int section, selector;
    variant variant;
    int64_t samples;
    bool open_loop;
    int setting; /* of results.settings */
    double sparsity;
} group_key;

typedef struct cell_group {
    group_key key;
    const result_cell *const *cells; /* by checkpoint, then seed */
    int count;
    spread top1, top5, interval;
    /* Against the plain cut of the same checkpoint, selector, ratio and seed, or of its lowest seed
     * where it was not run with that seed: top-1 minus its, or the share of its perplexity that is
     * gone. NaN for the plain cut itself. */
    spread gain, plain;
    estimate quality; /* top-1 or perplexity, as the section's kind says */
    /* How much worse that is than the dense network of the same checkpoint: points of accuracy, or
     * percent of perplexity. */
    estimate lost;
    estimate gained; /* the gain with its interval */
    spread parameters, macs, seconds[SECONDS_KINDS], peak_bytes;
    /* Removed shares of the dense network's parameters and multiply-accumulates; seconds for an
     * image or window. */
    spread removed, removed_macs, latency;
} cell_group;

typedef struct section {
    char *name;                    /* owned */
    const char *base, *evaluation; /* its parts: of a checkpoint the first has both */
    bool is_architecture;          /* it holds many checkpoints */
    int checkpoints;
    quality_kind kind;
    spread dense; /* top-1 */
    estimate dense_quality;
    double dense_latency;
    cell_group *groups;
    int group_count;
    /* The setting that most repaired cells share: plots and tables against the ratio show it. */
    int64_t samples;
    bool open_loop;
    int setting;
    const double *ratios; /* the sparsities that they show, ascending */
    int ratio_count;
    bool selectors[MOST_SELECTORS]; /* those that occur */
    bool variants[VARIANTS];
} section;

typedef struct aggregate {
    const results *results;
    const result_cell **cells; /* measured ones, grouped */
    int cell_count;
    const result_cell **failed;
    int failed_count;
    int superseded; /* cells of which the file has a later line */
    cell_group *groups;
    int group_count;
    section *sections;
    int section_count;
    int *section_of; /* by checkpoint */
    double *ratios;  /* of all sections */
} aggregate;

/** `r` must outlive *out, which aggregate_fini releases. */
grail_status aggregate_results(const results *r, aggregate *out) GRAIL_MUST_CHECK;
void aggregate_fini(aggregate *a);

/** Networks and cells, on however many evaluations they were measured. */
int aggregate_networks(const aggregate *a);
int aggregate_lines(const result_cell *const *cells, int count);

#endif
