#ifndef GRAIL_PLAN_H
#define GRAIL_PLAN_H

#include <grail/compress.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Plans: the widths of all sites are chosen together, so that the narrowed network stays below a
 * limit. The result is a plan document that grail_compression_open takes (`plan` of its options).
 */
typedef struct grail_plan grail_plan;

/** One trial of a search, or of the budget "divergence". */
typedef struct grail_plan_trial {
    const char *name;  /* of the formula or move that made the widths, or of the only site that is
                          narrow; borrowed */
    int is_alone;      /* 1: a site alone is narrow, so that its errors can be weighed; a search
                          counts these apart from its trials */
    double cost;       /* of the narrowed network, in the unit of the limit */
    double divergence; /* from the dense network on samples kept apart: KL(dense || narrow), or for
                          features the relative squared distance; NaN when it was not tried */
    int is_best;       /* 1: the best so far */
    int tried, most;   /* trials of this kind so far, and at most */
    double seconds_left; /* of these trials, at the pace so far */
    GRAIL_ROOM(4);
} grail_plan_trial;

/** Return non-zero to stop with the best widths so far; of "divergence" with what is known of the
 * sites so far. */
typedef int (*grail_plan_observer)(void *user, const grail_plan_trial *trial);

typedef struct grail_schedule grail_schedule; /* <grail/schedule.h> */

typedef struct grail_plan_options {
    /* The run that the plan is for: model or session, calibration, selector, compensation,
     * alignment, seed. Its output, plan and sparsities are not used, nor are its observers but that
     * of steps, which is told of each pass through the blocks. With its `dry_run` nothing is
     * measured: uniform widths below the limit stand for those of the budgets "search",
     * "divergence", "error" and "flap" (`stands_in` of the facts), and no samples are needed. */
    grail_compress_options compress;
    const char
        *limit;   /* what is limited: "params", "macs", "kv-bytes", "size" (bytes of weights) */
    double most;  /* the limit in that unit; 0: `ratio` */
    double ratio; /* the limit as a share of the dense network's */
    const char *budget; /* "uniform", "flap", "slimgpt", "error", "divergence", "search" */
    const char
        *kinds; /* kinds of sites that may be cut, such as "ffn,heads"; NULL: the usual ones */
    grail_number heads_removed;   /* share of all heads to remove, 0 to below 1, with the rest of
                                     the cut on other sites; usual: the budget chooses it */
    int uniform_widths;           /* 1: sites of one kind and size get the same width */
    int uniform_heads;            /* 1: all sites of heads of one size get the same width, whatever
                                     those of other kinds get */
    int drop_sublayers;           /* 1: sublayers and blocks may go (with uniform_widths: blocks),
                                     in a search or by errors */
    int tries;                    /* of a search; 0 = 48 */
    double seconds;               /* a search begins no trial after this time; 0 = no limit */
    grail_plan_observer observer; /* may be NULL */
    void *observer_user;
    int64_t trial_tokens; /* at least so many are read to weigh a site alone; 0 = 32768. Images: all
                             are */
    grail_schedule *schedule; /* keeps what is measured beside the output, so that a plan that is
                                 made again after an interruption takes it from there;
                                 grail_schedule_make sets it. NULL: nothing is kept */
    GRAIL_ROOM(6);
} grail_plan_options;

GRAIL_API void grail_plan_options_init(grail_plan_options *options);

/** i-th description of a field, without those of `compress`; NULL beyond the last. */
GRAIL_API const grail_option *grail_plan_option_at(int i);

/** *out is owned: grail_plan_free. A limit that cannot be met is GRAIL_ERROR_ARGUMENT, and the
 * message says what the least is. What an earlier plan of the session measured under the same
 * choices is not measured again; the plan is the same, but for `seconds`. */
GRAIL_API grail_status grail_plan_make(const grail_plan_options *options,
                                       grail_plan **out) GRAIL_MUST_CHECK;
GRAIL_API void grail_plan_free(grail_plan *plan); /* NULL is allowed */

/** The plan document as JSON text. Borrowed. */
GRAIL_API const char *grail_plan_text(const grail_plan *plan);
/** Whether a plan may be written there, asked before one is made: nothing has the path, and its
 * ending is not that of another kind of file. */
GRAIL_API grail_status grail_plan_check_place(const char *path) GRAIL_MUST_CHECK;
/** Writes the document to such a place. */
GRAIL_API grail_status grail_plan_write(const grail_plan *plan, const char *path) GRAIL_MUST_CHECK;

/** What was chosen. */
typedef struct grail_plan_facts {
    const char *budget, *limit, *formula; /* `formula` made the widths: a name of a trial */
    double dense_cost, cost, most;
    double divergence, uniform_divergence; /* of the chosen widths and of uniform ones, on the
                                              samples that a search tries by, or of "divergence" on
                                              others; NaN where they were not judged */
    double uniform_cost; /* of the uniform widths, as near to `most` as they come; NaN likewise */
    int tried;
    int trials;    /* of the budget's search, at most; 0: it has none */
    int stands_in; /* 1: the widths are uniform ones, since a dry run does not measure */
    double seconds;
    double pass_seconds;  /* of these: the dense network's pass with its Gram matrices; 0 where an
                             earlier plan of the session has its loss curves */
    double curve_seconds; /* and taking the loss curves from them; 0 likewise */
    const char *reason;   /* of the budgets "divergence" and "search", in words: by how much the
                             widths that they found are ahead of uniform ones on samples that the
                             choice has not seen, or why uniform ones were kept, and what uniform ones
                             cost that were asked for; "" elsewhere. Borrowed from the plan */
    double ahead; /* of these widths: KL(dense || narrow) that uniform ones lose more; below 0:
                     behind; NaN where they were not judged */
    double ahead_error; /* its standard error, paired by sample; widths that are ahead by less than
                           twice this were not taken */
    GRAIL_ROOM(5);
} grail_plan_facts;
GRAIL_API grail_plan_facts grail_plan_facts_get(const grail_plan *plan);

/** *seconds = what it takes to choose the widths which those of a dry run stand for, before the run
 * that `compression` opened with these, and `options` and `rates` as for
 * grail_compression_forecast_at: a pass of the dense network, and trials. 0 for widths that are
 * chosen already; NaN where the run reads no samples. */
GRAIL_API grail_status grail_plan_forecast(const grail_plan *plan,
                                           const grail_compression *compression,
                                           const grail_compress_options *options,
                                           const grail_rates *rates,
                                           double *seconds) GRAIL_MUST_CHECK;

/** i-th budget or limit name, NULL beyond the last. */
GRAIL_API const char *grail_budget_at(int i);
GRAIL_API const char *grail_limit_at(int i);

#ifdef __cplusplus
}
#endif
#endif
