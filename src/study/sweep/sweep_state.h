/* What a running sweep has, and what its parts give one another. Functions that change it from
 * several threads say so. */
#ifndef GRAIL_STUDY_SWEEP_SWEEP_STATE_H
#define GRAIL_STUDY_SWEEP_SWEEP_STATE_H

#include "study/recipe/recipe.h"
#include "study/sweep/cell_run.h"
#include "study/sweep/results_file.h"

#include <grail-study/sweep.h>

#include <pthread.h>

enum { LONGEST_MESSAGE = 1000, LONGEST_LINE = 1 << 30 };

typedef enum cell_state { CELL_PENDING, CELL_STARTED, CELL_DONE } cell_state;

/* A thread or rank that runs cells, with what it shares between those of one checkpoint. */
typedef struct worker {
    struct sweep *sweep;
    int threads; /* for its loops */
    grail_session *session;
    int checkpoint; /* of the session */
    int64_t last;   /* cell that it runs or ran last, or -1 */
    pthread_t thread;
    bool started;
} worker;

typedef struct sweep {
    const grail_sweep_options *options;
    sweep_recipe recipe;
    sweep_checkpoint_data *data; /* [checkpoints] */
    bool *wanted;                /* [checkpoints] */
    bool *dense_found;           /* [checkpoints] */
    sweep_cell *cells;
    bool *found;       /* [count] in the results file before */
    int64_t *bytes;    /* [count] estimated */
    cell_state *state; /* [count] */
    int64_t count;
    sweep_results results;
    worker *workers;  /* [worker_count] */
    int worker_count; /* jobs or ranks */
    double begun;

    pthread_mutex_t mutex;  /* of what follows, of state and of results */
    pthread_cond_t changed; /* a cell ended */
    int64_t budget, used;   /* bytes */
    int running;
    int64_t done, failed;
    double variant_seconds[VARIANTS]; /* of the cells done, for the time left */
    int64_t variant_done[VARIANTS];
    grail_status status; /* why no further cell is started */
    char message[LONGEST_MESSAGE];
} sweep;

/* -- progress.c -------------------------------------------------------------------------------- */

/** Whether its checkpoint was asked for, and is open. */
bool sweep_is_asked_for(const sweep *s, int64_t cell);
/** Counts those that are asked for; with `found` only those that the results file had before. */
int64_t sweep_count_cells(const sweep *s, bool found);
/** No further cell is started, with the first message that is given. With the mutex held. */
void sweep_stop(sweep *s, grail_status status, const char *message);
/** Asked for often while a cell runs, from its thread: whether it should end. user: the sweep. */
int sweep_should_stop(void *user);
/** Counts a cell whose line is in the file, and tells of it. With the mutex held. */
void sweep_count_cell(sweep *s, const sweep_outcome *outcome, const result_line *line);

/* -- workers.c --------------------------------------------------------------------------------- */

/** The best pending cell that fits into the budget, or -1; *waiting tells whether any is pending.
 * With the mutex held. */
int64_t sweep_choose_cell(const worker *w, bool *waiting);
/** Runs outcome->cell in the session of the worker; its status is in *outcome. */
void sweep_measure_cell(worker *w, sweep_outcome *outcome);
/** Runs all cells in threads. */
grail_status sweep_run_workers(sweep *s) GRAIL_MUST_CHECK;

/* -- rounds.c ---------------------------------------------------------------------------------- */

/** Rank 0 writes what all have measured: lines of the cells chosen[ranks], or where that is NULL of
 * dense networks. A rank that was cancelled has none, and ends all. */
grail_status sweep_write_round(sweep *s, const int64_t *chosen, const buffer *own) GRAIL_MUST_CHECK;
/** Runs all cells, one for each rank in a round. */
grail_status sweep_run_rounds(sweep *s) GRAIL_MUST_CHECK;

#endif
