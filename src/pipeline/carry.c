/* Carrying the streams: every node runs once per batch. Where the activations that a consumer reads
 * would not fit in memory for all samples, the stream stays at the block's begin instead and every
 * pass runs from there with what is reduced already. */
#include "pipeline/compression.h"

typedef struct carry {
    int begin, end;             /* nodes */
    int dense_begin, dense_end; /* GRAPH_NONE: the dense stream is not wanted */
    bool moves, dense_moves;
    batch_visitor visit;
    void *user;
} carry;

/* Token ids or pixels, where a pass from `begin` still reads them. */
static batch_input input_from(const grail_compression *c, int64_t batch, int begin)
{
    const graph *g = c->request->graph;
    return g->last_use[g->input] >= begin ? calibration_input(c->request->samples, batch)
                                          : (batch_input){0};
}

static grail_status carry_one(grail_compression *c, stream *s, execution *e, parameter_store *store,
                              int64_t batch, int begin, int end, bool moves)
{
    grail_status status = GRAIL_OK;
    TRY(execution_begin(e, calibration_shape(c->request->samples, batch),
                        input_from(c, batch, begin)));
    if (moves) {
        TRY(stream_read(s, batch, e));
    } else {
        TRY(stream_peek(s, batch, e));
    }
    TRY(execution_run(e, store, begin, end));
out:
    return status;
}

static grail_status carry_batch(grail_compression *c, const carry *k, int64_t batch)
{
    grail_status status = GRAIL_OK;
    if (k->dense_end != GRAPH_NONE) {
        TRY(carry_one(c, &c->network->dense.stream, c->network->dense.execution,
                      c->network->dense.parameters, batch, k->dense_begin, k->dense_end,
                      k->dense_moves));
    }
    TRY(carry_one(c, &c->network->current.stream, c->network->current.execution,
                  c->network->current.parameters, batch, k->begin, k->end, k->moves));
    if (k->visit != NULL) {
        TRY(k->visit(c, batch, k->user));
    }
    if (k->dense_end != GRAPH_NONE && k->dense_moves) {
        TRY(stream_write(&c->network->dense.stream, batch, c->network->dense.execution));
    }
    if (k->moves) {
        TRY(stream_write(&c->network->current.stream, batch, c->network->current.execution));
    }
out:
    return status;
}

static bool is_block_border(const graph *g, int index)
{
    return index == 0 || index == g->node_count ||
           g->nodes[index].block != g->nodes[index - 1].block;
}

static grail_status begin_moves(grail_compression *c, const carry *k)
{
    grail_status status = GRAIL_OK;
    if (k->moves) {
        TRY(stream_move_begin(&c->network->current.stream, k->end));
    }
    if (k->dense_moves) {
        TRY(stream_move_begin(&c->network->dense.stream, k->dense_end));
    }
out:
    return status;
}

/* The last batch's values are in the streams now; the executions forget theirs. */
static grail_status end_moves(grail_compression *c, const carry *k)
{
    grail_status status = GRAIL_OK;
    const batch_shape none = {0};
    if (k->moves) {
        stream_move_end(&c->network->current.stream);
    }
    if (k->dense_moves) {
        stream_move_end(&c->network->dense.stream);
    }
    TRY(execution_begin(c->network->current.execution, none, (batch_input){0}));
    TRY(execution_begin(c->network->dense.execution, none, (batch_input){0}));
out:
    return status;
}

grail_status streams_carry(grail_compression *c, int end, int dense_end, batch_visitor visit,
                           void *user)
{
    grail_status status = GRAIL_OK;
    const bool border = is_block_border(c->request->graph, end);
    const double begun = clock_seconds();
    carry k = {
        .begin = c->network->current.stream.position,
        .end = end,
        .dense_begin = c->network->dense.stream.position,
        .dense_end = c->network->has_dense_stream ? dense_end : GRAPH_NONE,
        .moves =
            end > c->network->current.stream.position && (c->network->keep_activations || border),
        .visit = visit,
        .user = user,
    };
    k.dense_moves = k.dense_end > k.dense_begin;
    if (!k.moves && !k.dense_moves && visit == NULL) {
        return GRAIL_OK;
    }
    TRY(begin_moves(c, &k));
    for (int64_t batch = 0; batch < c->request->samples->batch_count; batch++) {
        TRY(carry_batch(c, &k, batch));
    }
    TRY(end_moves(c, &k));
    c->network->calibrate_seconds += clock_seconds() - begun;
out:
    return status;
}
