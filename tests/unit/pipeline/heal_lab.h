/* What the tests of healed runs share: runs that remember their trainings, runs that are stopped or
 * die and go on, and what their reports say. */
#ifndef GRAIL_TESTS_PIPELINE_HEAL_LAB_H
#define GRAIL_TESTS_PIPELINE_HEAL_LAB_H

#include "lab.h"

enum { HEAL_TRAININGS = 16 };

/** What a run told its observers, and where it is stopped. */
typedef struct heal_watch {
    int calls;     /* of both observers */
    int cancel_at; /* call that cancels the run; 0: none */
    int copy_at;   /* call at which OUTPUT.partial is copied to `copy`.partial; 0: none */
    const char *output, *copy;
    grail_healing made[HEAL_TRAININGS]; /* [count] trainings that have ended */
    int count;
    int told; /* calls of the observer of trainings */
} heal_watch;

/** A run of few samples and steps. */
void heal_briefly(grail_compress_options *options, const char *what);

/** A run that cuts half of the FFN of a decoder and heals `what`. */
grail_compress_options heal_run_options(const lab *l, const char *model, const char *output,
                                        const char *what);
/** That with heal_briefly. */
grail_compress_options heal_brief(const lab *l, const char *model, const char *output,
                                  const char *what);
/** A run that heals `narrow` alone, which was narrowed earlier. */
grail_compress_options heal_taught(const lab *l, const char *narrow, const char *teacher,
                                   const char *output, const char *what);

/** Opens, runs, finishes and closes; `w` keeps its wishes and is filled. */
grail_status heal_run(grail_compress_options options, heal_watch *w);

/** The i-th training of the last run. It has not made its held-out loss worse. */
const grail_healing *heal_made(const heal_watch *w, int i);

/** Stops the run at every call of its observers, by a cancellation and as if it had died there, and
 * goes on each time: to the same bytes and the same losses. `places` is how many calls there are at
 * least. */
void assert_heals_on(grail_compress_options options, int places);

/** As if the run in OUT.partial (LAB/out) had died before it wrote its last record, which holds
 * `expected`. */
void heal_forget_last_record(const lab *l, const char *expected);

/** Both reports tell of the same trainings, but for the seconds. */
void assert_same_trainings(const char *left, const char *right);

#endif
