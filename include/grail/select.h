#ifndef GRAIL_SELECT_H
#define GRAIL_SELECT_H

#include <grail/ridge.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What makes the units of a site, or has parameters for each: rows of a weight. */
typedef struct grail_unit_rows {
    const float *weight;       /* [n u, columns]; NULL where there are but biases */
    const float *bias;         /* [n u], or NULL */
    int64_t features_per_unit; /* u; 0: 1 */
    int64_t columns;           /* inputs, times kernel positions of a convolution */
    int64_t positions;         /* of the kernel, innermost in the weight; 0: 1 */
    int exchangeable; /* 1: a unit's features are `subunits` blocks that can be reordered */
    GRAIL_ROOM(4);
} grail_unit_rows;

/** What reads the units: columns of a weight. */
typedef struct grail_unit_columns {
    const float *weight;       /* W[outputs, n u, positions] */
    int64_t outputs;           /* O */
    int64_t features_per_unit; /* u; 0: 1 */
    int64_t positions;         /* of the kernel, innermost; 0: 1 */
    int exchangeable;          /* as of rows */
    /* Statistics of its input, [n u], or of unfolded patches, [n u positions]; both parts count.
       NULL where the selector needs none. */
    const grail_statistics *fit, *held;
    const float *gradients; /* [outputs, n u positions] for wanda++: the root mean square over the
                               samples of the gradients of the norm of the block's output */
    GRAIL_ROOM(4);
} grail_unit_columns;

/** A site: the place where width is cut, n units of u features. Fill with grail_site_init first. */
typedef struct grail_site {
    const char *kind; /* "ffn" (neurons), "heads", "conv" (channels), "stream", "latent", "values",
                         "experts" or "groups", as selectors score them; NULL: "ffn" */
    int64_t units;    /* n */
    int64_t groups;   /* equal runs of units that all keep the same number; 1 */
    int64_t subunits; /* blocks of a unit that can be reordered; 1 */
    const grail_unit_rows *producers; /* [producer_count]: all that make the units */
    int producer_count;
    const grail_unit_rows
        *channels; /* [channel_count]: norms and others with parameters for each */
    int channel_count;
    const grail_unit_columns *consumers; /* [consumer_count]: all that read the units */
    int consumer_count;
    int first_scored, scored_count; /* producers whose rows score a unit; 0 of them: all, but of a
                                       stream and with input_norms one */
    const double *input_norms;  /* [inputs] of the first scored producer, for wanda where rows are
                                   scored: the square roots of the sums of squares of its inputs */
    const double *routed_norms; /* [n] of experts: the sum over the rows that the router gave each
                                   of the share of the row times the norm of what it made of it; */
    const int64_t *routed_rows; /* [n] and how many rows these are */
    grail_fit_target target;    /* of the fit that follows (ridge.h), which obs looks at */
    int bias;                   /* 1: it has a bias */
    uint64_t seed, stream;      /* of what is drawn: the run's, and the site's index in it */
    GRAIL_ROOM(8);
} grail_site;

GRAIL_API void grail_site_init(grail_site *site);

/**
 * Chooses `kept` of the units, or merges them into as many clusters, by the selector of that name
 * (grail_selector_at), as a run does. What the selector needs and is missing is
 * GRAIL_ERROR_ARGUMENT, and the message says what it is. Where no row reached the consumers, units
 * are kept by the norms of their weights, as a run does. Statistics are not changed. *out is owned:
 * grail_reducer_free.
 */
GRAIL_API grail_status grail_select(const char *selector, const grail_site *site, int64_t kept,
                                    grail_reducer **out) GRAIL_MUST_CHECK;

/** scores[n]: what a selector keeps the best of. GRAIL_ERROR_UNSUPPORTED for one that decides all
 * units together. */
GRAIL_API grail_status grail_select_scores(const char *selector, const grail_site *site,
                                           double *scores) GRAIL_MUST_CHECK;

/** losses[n + 1]: the squared error that is left with K units, in the units of the consumers'
 * outputs, falling to 0 at n. GRAIL_ERROR_UNSUPPORTED for a selector that knows none. */
GRAIL_API grail_status grail_select_losses(const char *selector, const grail_site *site,
                                           double *losses) GRAIL_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
