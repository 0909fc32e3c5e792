#ifndef GRAIL_SCHEDULE_H
#define GRAIL_SCHEDULE_H

#include <grail/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Efforts and times: what a user asks for in place of single options. An effort chooses the repair,
 * the way to widths and the healing. A time is divided among them by what they take here, which is
 * measured before.
 *
 *             closed form              widths for a limit  healing
 *     quick   the paper's, by wanda    uniform             none
 *             on few samples
 *     usual   the usual one            by divergence       none
 *     best    the usual one            by divergence       text: the network on 300,000 tokens;
 *                                                          images: blocks and the network
 *
 * Plans alone have the budgets error, divergence and search.
 */
typedef struct grail_effort_options {
    const char
        *effort; /* "quick", "usual", "best"; NULL: "best" with a time, else nothing is chosen */
    double time_limit; /* in seconds, from grail_schedule_make on; 0 = no limit */
    GRAIL_ROOM(6);
} grail_effort_options;

GRAIL_API void grail_effort_options_init(grail_effort_options *options);
/** i-th description of a field, NULL beyond the last. */
GRAIL_API const grail_option *grail_effort_option_at(int i);

/** What a schedule is for. */
typedef enum grail_schedule_subject {
    GRAIL_SCHEDULE_RUN,     /* a run whose widths are given */
    GRAIL_SCHEDULE_LIMITED, /* widths are chosen for a limit, and a run takes them */
    GRAIL_SCHEDULE_PLAN     /* widths are chosen for a limit */
} grail_schedule_subject;

/**
 * Sets the fields of *options that the effort or the time decides, but those that `given` names
 * ("read.samples heal.what budget" for example; NULL: none): those of its run, and for a limit the
 * budget and its seconds. A run towards a teacher is healed, so its time goes to that. *options
 * borrows the schedule and its texts.
 *
 * With a time and an output, what was chosen is kept beside the output in OUTPUT.schedule until
 * grail_schedule_finish. A run that resumes takes it from there, whatever its own time, and does
 * not measure again; one that was begun without a time keeps its options, and the time only ends
 * its healing. With a limit and an output, what plans measure is kept there, too, and a run that
 * resumes goes on with what is left. An output that cannot be written, since its place is taken, is
 * refused before anything is measured, but for a plan. A time that does not suffice for anything is
 * GRAIL_ERROR_ARGUMENT, and the message says what the least is. *out is owned: grail_schedule_free.
 */
GRAIL_API grail_status grail_schedule_make(const grail_effort_options *effort,
                                           grail_schedule_subject subject, const char *given,
                                           grail_plan_options *options,
                                           grail_schedule **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_schedule_free(grail_schedule *schedule); /* NULL is allowed */

/** What was chosen, in words. Borrowed. */
typedef struct grail_schedule_facts {
    const char *effort;  /* "" where nothing was chosen */
    const char *choices; /* one line, such as "selector wanda, compensation grail"; "" likewise */
    double time;         /* that was given; 0: none */
    double measured;     /* seconds that measuring the machine took */
    double expected;     /* seconds of all, with these */
    int resumed;         /* 1: the choices are those of an interrupted run */
    GRAIL_ROOM(6);
} grail_schedule_facts;
GRAIL_API grail_schedule_facts grail_schedule_facts_get(const grail_schedule *schedule);

/** A part of the time. Numbers that do not apply are 0. */
typedef struct grail_schedule_phase {
    const char *name; /* "drawing text", "measured widths", "statistics and fits" or "healing";
                         borrowed */
    double seconds;   /* expected; 0: it is left out */
    int64_t samples;  /* windows or images; of widths: of each trial; of drawing: that are drawn */
    int64_t tokens, steps, step_samples; /* of widths and healing; of healing: the samples of a
                                            step */
    int trials;                          /* of widths */
    double would_take; /* seconds of what is left out for want of time, at the least; 0: nothing */
    GRAIL_ROOM(3);
} grail_schedule_phase;
/** The i-th part of a time; returns 0 when i is beyond the last, and where no time was divided. */
GRAIL_API int grail_schedule_phase_at(const grail_schedule *schedule, int i,
                                      grail_schedule_phase *out);

/** What is left of the time, above 0 even where it is over, for `time` of grail_run_options; 0
 * without a limit. */
GRAIL_API double grail_schedule_left(const grail_schedule *schedule);

/** The plan that the interrupted run had chosen, or NULL. Borrowed. */
GRAIL_API const char *grail_schedule_plan(const grail_schedule *schedule);
/** Keeps a plan with what was chosen, for a run that resumes. */
GRAIL_API grail_status grail_schedule_keep_plan(grail_schedule *schedule,
                                                const char *text) GRAIL_MUST_CHECK;
/** The result has its name: forgets what was kept. */
GRAIL_API grail_status grail_schedule_finish(grail_schedule *schedule) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
