#ifndef GRAIL_STUDY_SWEEP_H
#define GRAIL_STUDY_SWEEP_H

#include <grail/comm.h>
#include <grail/status.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Many narrowings of a few checkpoints, each evaluated on images or texts: checkpoints x selectors
 * x ratios x repairs x what is healed x calibrations x sample counts x seeds x further choices, as
 * a recipe says (grail-recipe(5)). Every finished cell is one JSON line of the results file. An
 * interrupted sweep continues that file.
 */

/** How far a sweep has come. */
typedef struct grail_sweep_progress {
    int64_t cells;       /* of the recipe, of the checkpoints that were asked for */
    int64_t found;       /* of these, in the results file before this sweep */
    int64_t done;        /* of these, finished by this sweep, failed ones included */
    int64_t failed;      /* of these, failed in this sweep */
    double seconds_left; /* NaN before the first cell is done */
    const char *cell;    /* the cell that has just finished, in words; NULL otherwise. Borrowed */
    const char *error;   /* why it failed, or NULL. Borrowed */
    const char *result;  /* what it measured, in words: "top-1 81.20 %"; NULL when it failed.
                            Borrowed */
} grail_sweep_progress;

/** Called when a cell is finished, and often while cells run. Return non-zero to cancel; finished
 * cells stay in the results. Several threads call it, but only one at a time. */
typedef int (*grail_sweep_observer)(void *user, const grail_sweep_progress *progress);

/** Options; call grail_sweep_options_init first. Strings are borrowed. */
typedef struct grail_sweep_options {
    const char *recipe;  /* file */
    const char *results; /* file; continued when it holds results of this recipe */
    int jobs;            /* cells that run at the same time; the threads are shared among them */
    int64_t memory; /* limit on the estimated bytes of the running cells; 0 = half of the available
                       memory */
    const char *precision; /* as in grail_compute, but "f64"; NULL: as the recipe says, "f32" where
                              it says nothing */
    const char *checkpoints; /* names of checkpoints of the recipe, separated by commas: only these
                                are opened, and their cells run; NULL: all */
    const grail_comm *comm;  /* ranks that take cells in rounds, one each, or NULL; rank 0 alone
                                reads and writes the results. All make the same call. */
    int dry_run;             /* 1: check and count everything, run and write nothing */
    grail_sweep_observer observer; /* may be NULL */
    /** Called before the first cell runs, for everything that had to be assumed of a checkpoint:
     * how its images are prepared, or an operator. May be NULL. */
    void (*on_notice)(void *user, const char *checkpoint, const char *notice);
    void *observer_user;
} grail_sweep_options;

GRAIL_API void grail_sweep_options_init(grail_sweep_options *options);

/** The result of a sweep. */
typedef struct grail_sweep_summary {
    int64_t cells, found, done, failed; /* as above */
    int64_t bytes;                      /* estimated for the largest cell */
    double seconds;
} grail_sweep_summary;

/**
 * Runs the cells that the results file lacks. A cell that fails is recorded with its message, and
 * the sweep goes on; summary->failed counts them. `summary` may be NULL, and is also filled when
 * the sweep is cancelled (GRAIL_ERROR_CANCELLED).
 */
GRAIL_API grail_status grail_sweep_run(const grail_sweep_options *options,
                                       grail_sweep_summary *summary) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
