/* What a selector sees of a site: its shape, the dense weights at its ends, and the statistics that
 * the selector asked for. */
#ifndef GRAIL_REDUCE_SITE_VIEW_H
#define GRAIL_REDUCE_SITE_VIEW_H

#include "backend/backend.h"
#include "comm/comm.h"
#include "graph/site.h"
#include "reduce/reducer.h"
#include "stats/statistics.h"

/** Reads dense parameters as f32: *out is borrowed, or lies in *owned, which the reader frees. */
typedef struct weight_source {
    grail_status (*borrow)(void *context, int parameter, const float **out, float **owned);
    /* Copies one to a packed matrix of F32, without the host where a device has it; or NULL. */
    grail_status (*copy)(void *context, int parameter, matrix out);
    void *context;
} weight_source;

/** Statistics that a selector needs. Dense weights can be read at any time. The decision is taken
 * at the first node of the walk where all that is needed is there. Where the plan selects openly,
 * statistics are those of the dense network, and all there before the walk. */
typedef enum selector_need {
    NEEDS_INPUT_NORMS = 1 << 0, /* of the first scored producer's input: there at that producer */
    /* These describe the first consumer's input in the network as narrowed so far: there at that
     * consumer. */
    NEEDS_DIAGONAL = 1 << 1,
    NEEDS_GRAM = 1 << 2,
    NEEDS_MEANS = 1 << 3,
    NEEDS_TARGET = 1 << 4, /* of the consumer's fit; missing where its target needs no statistics */
    /* The first three of these of every consumer's input, of the dense network: there from the
       beginning. */
    NEEDS_ALL_CONSUMERS = 1 << 5,
    /* These are of the weights that read the site, in a closed loop; the site lies within one
       block. */
    NEEDS_GRADIENTS = 1 << 6,
    /* These are of what experts make, in the network as narrowed so far: there at the router. */
    NEEDS_ROUTED = 1 << 7,
    NEEDS_OF_CONSUMERS = NEEDS_DIAGONAL | NEEDS_GRAM | NEEDS_MEANS | NEEDS_TARGET | NEEDS_GRADIENTS
} selector_need;

/** Statistics of one consumer's input; what the selector does not need is missing. Features are the
 * site's, unit by unit; where a convolution is fitted by kernel position, each with all positions.
 */
typedef struct input_statistics {
    int64_t width;          /* H, a multiple of n */
    int64_t groups;         /* of a convolution in groups, whose sums are blocks of these
                               (stats/statistics.h); else 1, or 0 */
    double weight;          /* T: the number of rows, or the sum of their weights */
    double rows;            /* their number */
    double rounding;        /* share of G_jj that rounding leaves (stats/constant_features.h) */
    const double *diagonal; /* [H] of the Gram matrix */
    matrix gram;            /* [H, H], f64, lower triangle; a selector may take it over */
    const double *means;    /* [H] */
    /* These describe the target that the consumer will be fitted to, where there is one. */
    matrix cross;               /* C[O, H] = Y^T X, f64; a row for each row of the regression */
    const double *target_means; /* [O] */
    matrix metric;          /* F[outputs, outputs] by which errors at the output count, f64, both
                               triangles; borrowed, no matrix: all alike */
    const float *gradients; /* G[outputs, H] of the consumer's weight: the root mean square over
                               the samples of the gradients of the norm of the block's output */
} input_statistics;

/** What `needs`, a set of selector_need, asks for of one consumer's statistics, both parts added.
 * input_statistics_free frees, even after a failure. */
grail_status input_statistics_take(unsigned needs, const grail_statistics *fit,
                                   const grail_statistics *held,
                                   input_statistics *out) GRAIL_MUST_CHECK;
/** Frees inputs[count] and the array; NULL is allowed. */
void input_statistics_free(int count, input_statistics *inputs);

/** What an expert made of the rows that the router gave it. */
typedef struct routed_sum {
    double norms; /* sum over these rows of their share times the norm of what it made */
    int64_t rows;
} routed_sum;

typedef struct site_view {
    const graph *graph; /* dense */
    const site *site;
    int64_t kept;           /* K */
    backend *backend;       /* for the products of a decision */
    const grail_comm *comm; /* ranks that make this decision together; NULL: one */
    weight_source weights;
    uint64_t seed;
    uint64_t stream;      /* random stream: differs between the sites of one run */
    int first_scored;     /* producers whose rows score a unit: the first of them, */
    int scored_producers; /* and how many */
    /* Statistics, NULL where the selector does not need them. */
    const double *input_norms; /* norms of the features of the first scored producer's input; 0
                                  where an earlier site removed them */
    input_statistics *inputs;  /* [input_count]: of the first consumer, or of all */
    int input_count;
    int64_t group, group_count; /* the site's units are one of so many runs, which the rows of that
                                   group of the first consumer read alone; 0 of 0: all of them */
    const routed_sum *routed;   /* [units] of experts */
    bool fits_bias;             /* the fit of the first consumer has a bias */
} site_view;

/** A matrix whose rows (or columns) are cut by the site, `features` for each unit. */
typedef struct unit_matrix {
    const float *values; /* rows: [n * features, others]; columns: [others, n * features] */
    float *owned;
    int64_t features, others;
    bool exchangeable; /* a unit's features form `subunits` blocks that can be reordered */
} unit_matrix;

/** Rows of producer p's weight. Frees with unit_matrix_fini. */
grail_status site_view_producer(const site_view *v, int p, unit_matrix *out) GRAIL_MUST_CHECK;
/** Columns of consumer k; features include the taps of a convolution. One in groups has zeros where
 * a row belongs to another group. */
grail_status site_view_consumer(const site_view *v, int k, unit_matrix *out) GRAIL_MUST_CHECK;
/** Rows of the weight and the bias (others = 1) of a producer or a channel node; values is NULL for
 * one that is missing. unit_matrix_fini frees both, even after a failure. */
grail_status site_view_end(const site_view *v, const site_end *end, unit_matrix *weight,
                           unit_matrix *bias) GRAIL_MUST_CHECK;
void unit_matrix_fini(unit_matrix *m); /* works on a zeroed one */

/** W[O, H] of consumer k for statistics of `width` features: a convolution whose kernel positions
 * are not features of their own has a row for each output and position. */
typedef struct consumer_rows {
    unit_matrix weight;
    int64_t count;     /* O, or O times positions */
    int64_t width;     /* H */
    int64_t positions; /* rows for each output */
    backend *backend;
    matrix placed; /* [count, H] on a device, or none; owned */
} consumer_rows;

/** consumer_rows_fini frees, even after a failure. */
grail_status consumer_rows_open(const site_view *v, int consumer, int64_t width,
                                consumer_rows *out) GRAIL_MUST_CHECK;
void consumer_rows_fini(consumer_rows *r); /* works on a zeroed one */

/** Makes consumer_rows_read take them from where a device has the weight, if they are all of it. */
grail_status consumer_rows_place(const site_view *v, int consumer,
                                 consumer_rows *r) GRAIL_MUST_CHECK;

/** out[count, H] <- all rows. */
void consumer_rows_copy(const consumer_rows *r, float *out);

/** rows[count, H], f64 <- the rows from `begin` on. */
grail_status consumer_rows_read(const consumer_rows *r, int64_t begin,
                                matrix rows) GRAIL_MUST_CHECK;

#endif
