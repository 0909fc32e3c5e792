/* What is observed at a consumer: statistics of its input, and of the target for its output.
 *
 * Rows are tokens or positions; for a convolution whose taps are fitted separately they are its
 * unfolded patches. How much each counts is told in row_weights.h. */
#ifndef GRAIL_PIPELINE_NETWORK_OBSERVATION_H
#define GRAIL_PIPELINE_NETWORK_OBSERVATION_H

#include "algebra/projection.h"
#include "exec/pool.h"
#include "pipeline/network/consumer.h"
#include "pipeline/network/target.h"
#include "pipeline/request/dropped.h"
#include "solve/mixed_target.h"
#include "stats/statistics.h"

typedef enum observed_target {
    OBSERVES_INPUT_ALONE,
    OBSERVES_DENSE_OUTPUT, /* the dense network's output at this node, plus the drift (target.h) */
    OBSERVES_PRODUCT,      /* W times the observed rows before their reduction */
    OBSERVES_REMAINDER,    /* what a selection takes from that: W times its removed columns; the
                              statistics are of the kept ones alone */
    OBSERVES_DENSE_PRODUCT /* W times the dense network's input, tap by tap */
} observed_target;

typedef struct observation {
    int site, consumer; /* GRAPH_NONE for a map whose input is not cut */
    int node;
    bool remade;     /* statistics of the reduced columns alone, which are behind the `unreduced`
                        features */
    bool of_patches; /* a convolution whose taps are fitted separately: rows are unfolded patches */
    observed_target target;
    stream_goal goal; /* of a dense output, where dropped sublayers follow */
    consumer_layout layout;
    int64_t first;                /* of the input's features, where the site's begin; with */
    int64_t unreduced;            /* this many features in front of the remade ones */
    projection selection;         /* of a remainder: which columns; owned */
    float *weight;                /* W in the form of `layout`, owned */
    matrix weight_rows;           /* the same in F32 on the backend, while it is fitted; owned */
    matrix target_weight;         /* the matrix for the target of a product; owned */
    matrix others;                /* of a part, whose target is what the others leave of the dense
                                     output: W with zeros for the part; owned */
    bool weighted;                /* rows count by the dense residual stream */
    bool mixes;                   /* the target is mixed with W times the observed rows */
    matrix local_weight;          /* with `mixes` and `remade`: the matrix for that product, */
    matrix local_bias;            /* and the bias that a dense output contains; both owned */
    drift_scale drift_scale;      /* of a dense output; owned */
    target_gap gap;               /* with `mixes`: of the rows observed */
    double median_square;         /* usual squared norm that weights follow; below 0 until the
                                     first batch was met */
    grail_statistics *fit, *held; /* owned */
    grail_statistics *part;       /* while batches are added: of their chunk; owned */
    matrix gaps, part_gaps; /* with `mixes` and `remade`: [1, 2] of `gap`, and the part's; owned */
} observation;

/** Allocates the statistics. `reducer` is that of the site, which outlives *o, or NULL where it is
 * not decided; that of a folding must be. The caller calls observation_fini, after this function
 * and the next ones, even after a failure. */
grail_status observation_init(const cutting *cut, const grail_reducer *reducer,
                              parameter_store *current, int site, int consumer,
                              observation *o) GRAIL_MUST_CHECK;
/** Describes a node whose input is not cut, for the dense network's output as the target; without
 * its weight and statistics. */
observation observation_of_map(const cutting *cut, int node_index);
/** The same with its weight. */
grail_status observation_read_map(const cutting *cut, parameter_store *current, int node_index,
                                  observation *o) GRAIL_MUST_CHECK;
/** The same with statistics. */
grail_status observation_init_map(const cutting *cut, parameter_store *current, int node_index,
                                  observation *o) GRAIL_MUST_CHECK;
/** As observation_init, for the dense network's statistics in an open loop: input alone, without W.
 */
grail_status observation_init_input(const cutting *cut, backend *b, int site, int consumer,
                                    observation *o) GRAIL_MUST_CHECK;
void observation_fini(observation *o); /* works on a zeroed one */

/** The node that the dense network must have run up to for the target; GRAPH_NONE if it is not
 * needed. */
int observation_dense_end(const observation *o);

/** The mixed target of a folding (solve/mixed_target.h). The statistics of a folding are of the
 * merged columns alone, from which W Z^T of the unfolded ones cannot be had, so its targets are
 * mixed row by row: beta is that of the rows of one batch, or of one piece of it.
 * y[rows, outputs] <- l + beta (y - l) with l = in W^T + 1 bias^T, for `in` with all its columns.
 * root[1, rows], unless missing, has the roots of the weights of rows. Adds to the part's gap. */
grail_status mix_target_rows(observation *o, matrix_pool *pool, matrix root, matrix in,
                             matrix y) GRAIL_MUST_CHECK;

/** Carries the sample streams to the consumer and, for a dense target, the dense one to
 * observation_dense_end, and adds all batches that give statistics. */
grail_status observation_take(sample_passes *passes, const cutting *cut, const site_result *results,
                              observation *o) GRAIL_MUST_CHECK;

/** The sums of a chunk, which observation_take makes itself. */
grail_status observation_create_part(observation *o) GRAIL_MUST_CHECK;
/** What adds to an observation made by observation_init_input, which is borrowed. Without a part
 * nothing is held out, and o->held has the room for a chunk. */
visitor observation_input_visitor(observation *o);

#endif
