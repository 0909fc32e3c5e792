/* The work of a run, counted before it runs. */
#ifndef GRAIL_PIPELINE_FORECAST_H
#define GRAIL_PIPELINE_FORECAST_H

#include "pipeline/compression.h"

/** By the kinds of a profile: products, attention, statistics, selection and fits in operations, of
 * other nodes the values that they make, of weights those that are loaded. */
typedef struct run_work {
    double closed[PROFILE_KINDS];
    double refits[PROFILE_KINDS];  /* of these: of what is not cut */
    double curves[PROFILE_KINDS];  /* the errors of every width, which measured widths begin with */
    double healing[PROFILE_KINDS]; /* of all trainings */
    double sample[PROFILE_KINDS];  /* of one, through the dense network */
    bool uses_data;                /* the closed form reads samples */
    int blocks;
    int64_t samples;
    int64_t drawn;           /* of these, that the network draws itself */
    double tokens_of_sample; /* 1: images */
    double bytes;            /* of memory */
} run_work;

/** For the samples of an open run, or where it has none the number that `options` ask for; of the
 * closed form up to the end of block `end` alone, block_count for all. */
grail_status run_work_count(const grail_compression *c, const grail_compress_options *options,
                            int end, run_work *out) GRAIL_MUST_CHECK;

/** What work[PROFILE_KINDS] takes at these rates. */
double run_work_seconds(const double *work, const grail_rates *rates);

/** What drawing so many samples takes. */
double run_work_drawing(const run_work *work, int64_t drawn, const grail_rates *rates);

/** What a number of samples takes: `fixed` and `each` seconds. */
typedef struct sample_cost {
    double fixed, each;
} sample_cost;

/** The same for work that was counted for `samples`. */
sample_cost run_work_cost(const double *work, int64_t samples, const grail_rates *rates);

/** Trials that measure widths: of sites alone, and of all that share a width together, each on so
 * many samples, and comparisons of what they found. */
typedef struct width_trials {
    int64_t samples;
    int alone, together, verdicts;
} width_trials;

/** What they and the errors before them take. */
double run_work_of_trials(const run_work *work, width_trials trials, const grail_rates *rates);

#endif
