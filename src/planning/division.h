/* How a time is divided among the closed form, the measurement of widths, and healing. */
#ifndef GRAIL_PLANNING_DIVISION_H
#define GRAIL_PLANNING_DIVISION_H

#include "pipeline/forecast.h"

enum { TRIAL_SIZES = 5 };

/** A way to measure widths, by trials of so many samples at most. */
typedef struct width_cost {
    sample_cost seconds;
    int64_t most;
    bool is_long; /* more than is needed */
} width_cost;

/** What there is to choose from. */
typedef struct division_costs {
    double time;                    /* that may be used, of which nothing is spent yet */
    sample_cost closed;             /* the closed form as it is wanted */
    sample_cost quick;              /* the one that needs the least */
    bool may_be_quick;              /* it may take the place of the other */
    width_cost widths[TRIAL_SIZES]; /* measuring the widths, the longest trials first */
    int width_count;                /* 0: they may not be measured */
    double token;                   /* of healing */
    double least_tokens;            /* below which healing is not begun */
    bool heals;
    int64_t least, most; /* samples of the closed form */
} division_costs;

/** Seconds of each part, and what they suffice for. */
typedef struct division {
    bool is_quick;
    int64_t samples;
    double closed, widths, healing; /* 0: left out */
    int way;                        /* of widths that are measured */
    double shortest_widths;         /* what the shortest trials take, or would take */
    double tokens;                  /* of healing */
} division;

/**
 * Gives the closed form a quarter of the time where healing follows it, but up to half for a third
 * of the samples; half where widths are measured before it, else what leaves a sixth for what a
 * forecast misses; and as many samples as that suffices for, but the least number where it does
 * not. Then widths are measured, in the first way that leaves a quarter of the rest to healing (a
 * long one three quarters), or a sixth of the time without one, and in the first that leaves
 * healing its least if there is such a way. Healing has what is left; where that is less than its
 * least, the time is divided without it, and without widths where no way fits then. A time that
 * does not suffice for the least is GRAIL_ERROR_ARGUMENT; *least_time is what does.
 */
grail_status division_make(const division_costs *costs, division *out,
                           double *least_time) GRAIL_MUST_CHECK;

#endif
