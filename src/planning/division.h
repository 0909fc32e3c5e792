/* How a time is divided among the closed form, the measurement of widths, and healing. */
#ifndef GRAIL_PLANNING_DIVISION_H
#define GRAIL_PLANNING_DIVISION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/** What a number of samples takes: `fixed` and `each` seconds. */
typedef struct sample_cost {
    double fixed, each;
} sample_cost;

/** What there is to choose from. */
typedef struct division_costs {
    double time;         /* that may be used, of which nothing is spent yet */
    sample_cost closed;  /* the closed form as it is wanted */
    sample_cost quick;   /* the one that needs the least */
    bool may_be_quick;   /* it may take the place of the other */
    sample_cost widths;  /* measuring the widths */
    bool has_widths;     /* they may be measured */
    double token;        /* of healing */
    double least_tokens; /* below which healing is not begun */
    bool heals;
    int64_t least, most; /* samples of the closed form */
} division_costs;

/** Seconds of each part, and what they suffice for. */
typedef struct division {
    bool is_quick;
    int64_t samples;
    double closed, widths, healing; /* 0: left out */
    double tokens;                  /* of healing */
} division;

/**
 * Gives the closed form a quarter of the time where healing follows it, but up to half for a third
 * of the samples; half where widths are measured before it, else what leaves a sixth for what a
 * forecast misses; and as many samples as that suffices for, but the least number where it does
 * not. Then widths are measured if that leaves a quarter of the rest to healing, or a sixth of the
 * time without one. Healing has what is left; where that is less than its least, the time is
 * divided without it. A time that does not suffice for the least is GRAIL_ERROR_ARGUMENT;
 * *least_time is what does.
 */
grail_status division_make(const division_costs *costs, division *out,
                           double *least_time) GRAIL_MUST_CHECK;

#endif
