/* One pass of the samples through the networks. Statistics of samples are taken by visitors of
 * passes alone. These never see the samples that judge the result (calibration_judges), which are
 * carried on without them; a judgement sees no others.
 *
 * The sums of a chunk of batches are taken by themselves, its held-out batches behind the others,
 * and then added to those of the chunks before it (stats/chunk_sums.h). Several ranks take the
 * chunks in turns. Each holds the sample streams of its own alone, and has the sums of all after
 * the pass. */
#ifndef GRAIL_PIPELINE_NETWORK_PASS_H
#define GRAIL_PIPELINE_NETWORK_PASS_H

#include "comm/comm.h"
#include "exec/sample_stream.h"
#include "graph/branches.h"
#include "pipeline/network/progress.h"
#include "pipeline/request/calibration.h"
#include "stats/chunk_sums.h"

/** One of the two networks: its parameters, its execution and its sample stream. */
typedef struct network_run {
    const graph *graph; /* borrowed, or `sliced`; of both the same, unless there is a teacher */
    graph sliced;       /* of the current network where there are slices, which take other channels
                           than in the dense one: a copy with nodes of its own */
    parameter_store *parameters;
    execution *execution;
    sample_stream stream;
} network_run;

/** Some samples of a batch that the networks run at once. */
typedef struct portion {
    int64_t batch;
    batch_slice slice;
} portion;

/** What passes run: the two networks on the samples, shared out over the ranks. All that it points
 * to is borrowed. */
typedef struct sample_passes {
    network_run *dense, *current;
    matrix_pool *pool; /* of both executions */
    const calibration *samples;
    const grail_comm *comm;
    const branch_list *lacking; /* [lacking_count] layers of experts of which some go: there the
                                   dense network makes up for what is missing */
    int lacking_count;
    bool lacks_locally; /* and begins with what the current one has */
    bool has_teacher;   /* the dense network is another one, whose routers choose themselves */
    judging judges;     /* which samples are kept apart to judge the result */
    portion at;         /* what runs now, for visitors */
    bool has_dense_stream;
    int64_t samples_at_once; /* 0: those of a batch; else at most so many of them, since more have
                                filled a device once */
    bool keep_activations; /* whether the stream of `current` advances with every pass, not only at
                              the borders of blocks; a continued run uses the value of the
                              interrupted one */
    progress progress;
    double calibrate_seconds, compensate_seconds; /* so far */
} sample_passes;

/** What is taken of each batch of a pass. */
typedef struct visitor {
    int node; /* before which `add` is called; the pass's end: when both networks have run */
    /* `e` runs the pass's network; adds to the sums of the chunk */
    grail_status (*add)(const execution *e, void *user);
    /* those sums, for held-out batches or for the others; NULL: nothing is summed */
    chunk_sums (*sums)(void *user, bool held_out);
    /* NULL, or called once on every rank before all else, on rank 0 when the networks have run for
     * the first batch; of visitors at the end alone */
    grail_status (*begin)(void *user);
    bool by_batch; /* what a row adds depends on the others of its batch, which is not divided */
    void *user;
    const char *map; /* whose input it sees, for messages of errors; or NULL */
} visitor;

typedef struct pass {
    network_run *run; /* NULL: the current network, whose sample stream moves inside a block only
                         where activations are kept */
    int end;          /* the node before which the run's sample stream waits afterwards */
    bool stays;       /* it waits where it was */
    bool in_order;    /* held-out batches are not behind the others: sums have one part */
    bool judges;      /* visitors see the samples that judge, and no others */
    bool
        judged_alone; /* no others go through the networks: where sample streams move, theirs end */
    bool with_dense;  /* the dense network runs beside the current one, up to `dense_end`; where its
                         sample stream is there or further on, behind a target beyond dropped
                         sublayers, it stays */
    int dense_end;
    const visitor *visitors; /* [visitor_count], borrowed */
    int visitor_count;
} pass;

/** Runs a pass; one that moves no sample stream and has no visitors does nothing. */
grail_status pass_run(sample_passes *passes, const pass *p) GRAIL_MUST_CHECK;

/** Moves the current network's sample stream to node `end`, and unless dense_end is GRAPH_NONE the
 * dense network's to dense_end. */
grail_status pass_to(sample_passes *passes, int end, int dense_end) GRAIL_MUST_CHECK;

/** One visitor at the end of such a pass. */
grail_status pass_visit(sample_passes *passes, int end, int dense_end, visitor v) GRAIL_MUST_CHECK;

/** *out[*count], owned even after a failure: the samples that do not judge the result, which may be
 * trained on, ascending. */
grail_status passes_trained_samples(const sample_passes *passes, int64_t *count,
                                    int64_t **out) GRAIL_MUST_CHECK;

/** *out[batch_count], owned, becomes the rank that holds the sample streams of each batch. */
grail_status streams_holders(const calibration *c, const grail_comm *comm,
                             int **out) GRAIL_MUST_CHECK;
/** *out[live_count], owned, becomes the columns of the values of a sample stream, which rank 0
 * tells to ranks without samples. */
grail_status stream_widths(const grail_comm *comm, const sample_stream *s,
                           int64_t **out) GRAIL_MUST_CHECK;

#endif
