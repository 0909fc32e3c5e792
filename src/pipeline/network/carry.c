/* Every node runs once per batch. If the inputs of the consumers do not fit in memory for all
 * samples, the sample stream stays at the begin of the block, and every pass starts there and runs
 * through what is already narrowed. */
#include "pipeline/network/carry.h"

#include "base/clock.h"
#include "pipeline/network/follow.h"

/* The part of a pass that one of the two networks runs. */
typedef struct leg {
    network_run *run;
    int begin, end; /* nodes */
    bool moves;     /* its sample stream is at `end` afterwards */
} leg;

typedef struct carry {
    leg current, dense;
    bool with_dense;
    const sums_visitor *visitor; /* or NULL */
    bool begun;                  /* the visitor's begin was called */
    int64_t done;                /* batches */
} carry;

/* Puts the values that the sample stream holds of a batch before the leg. */
static grail_status begin_leg(const compression_request *request, const leg *l, int64_t batch)
{
    const graph *g = l->run->graph;
    execution *e = l->run->execution;
    batch_input input = {0}; /* token ids or pixels, if a node from `begin` on reads them */
    if (g->last_use[g->input] >= l->begin) {
        input = calibration_input(request->samples, batch);
    }
    CHECK(execution_begin(e, calibration_shape(request->samples, batch), input));
    if (l->moves) {
        CHECK(sample_stream_read(&l->run->stream, batch, e));
    } else {
        CHECK(sample_stream_peek(&l->run->stream, batch, e));
    }
    return GRAIL_OK;
}

static grail_status carry_leg(const compression_request *request, const leg *l, int64_t batch)
{
    const grail_status status = begin_leg(request, l, batch);
    return status == GRAIL_OK
               ? execution_run(l->run->execution, l->run->parameters, l->begin, l->end)
               : status;
}

grail_status run_batch(const calibration_network *network, network_run *run, int64_t batch, int end)
{
    const leg l = {.run = run, .begin = run->stream.position, .end = end};
    return carry_leg(network->request, &l, batch);
}

/* Runs the dense network behind the current one. */
static grail_status carry_dense(const calibration_network *network, const leg *l, int64_t batch)
{
    const grail_status status = begin_leg(network->request, l, batch);
    return status == GRAIL_OK ? dense_follow(network, l->begin, l->end) : status;
}

static grail_status end_leg(const leg *l, int64_t batch)
{
    return l->moves ? sample_stream_write(&l->run->stream, batch, l->run->execution) : GRAIL_OK;
}

static grail_status begin_visit(calibration_network *network, carry *k)
{
    const bool begins = !k->begun && k->visitor->begin != NULL;
    k->begun = true;
    return begins ? k->visitor->begin(network, k->visitor->user) : GRAIL_OK;
}

static grail_status carry_batch(calibration_network *network, carry *k, int64_t batch)
{
    const bool visited = k->visitor != NULL && !request_judges_batch(network->request, batch);
    const bool runs = visited || k->current.moves;
    if (runs) {
        CHECK(carry_leg(network->request, &k->current, batch));
    }
    if (k->with_dense && (visited || k->dense.moves)) {
        const bool follows = runs && !request_judges_batch(network->request, batch) &&
                             network->request->teacher == NULL;
        CHECK(follows ? carry_dense(network, &k->dense, batch)
                      : carry_leg(network->request, &k->dense, batch));
    }
    if (visited) {
        CHECK(begin_visit(network, k));
        CHECK(k->visitor->add(network, batch, k->visitor->user));
    }
    CHECK(end_leg(&k->dense, batch));
    return end_leg(&k->current, batch);
}

static bool is_block_border(const graph *g, int index)
{
    return index == 0 || index == g->node_count ||
           g->nodes[index].block != g->nodes[index - 1].block;
}

static grail_status begin_move(const leg *l)
{
    return l->moves ? sample_stream_move_begin(&l->run->stream, l->end) : GRAIL_OK;
}

/* Frees the execution's values: the sample stream now holds those of every batch. */
static grail_status end_move(const leg *l)
{
    const batch_shape none = {0};
    if (l->moves) {
        sample_stream_move_end(&l->run->stream);
    }
    return execution_begin(l->run->execution, none, (batch_input){0});
}

static carry plan_carry(calibration_network *network, int end, int dense_end)
{
    const bool border = is_block_border(network->request->graph, end);
    const bool ahead = dense_end < network->dense.stream.position; /* behind a dropped sublayer */
    carry k = {
        .current = {.run = &network->current,
                    .begin = network->current.stream.position,
                    .end = end},
        .dense = {.run = &network->dense,
                  .begin = network->dense.stream.position,
                  .end = dense_end},
        .with_dense = network->has_dense_stream && dense_end != GRAPH_NONE && !ahead,
    };
    k.current.moves = end > k.current.begin && (network->keep_activations || border);
    k.dense.moves = k.with_dense && dense_end > k.dense.begin;
    return k;
}

/* Batches of this rank as a part of those of all. */
static grail_status tell_progress(calibration_network *network, carry *k)
{
    const compression_request *request = network->request;
    const int64_t last = request->samples->batch_count - 1;
    const int64_t passed = k->done++ * comm_size(request->comm);
    return progress_step(&network->progress, request, k->current.begin, k->current.end,
                         passed < last ? passed : last);
}

/* The chunks that the ranks take at once, one each. */
typedef struct turn {
    int ranks; /* that have a chunk */
    calibration_chunk own;
} turn;

static turn turn_at(const compression_request *request, int64_t first)
{
    const int64_t left = calibration_chunk_count(request->samples) - first;
    const int rank = comm_rank(request->comm);
    turn t = {.ranks = comm_size(request->comm)};
    t.ranks = left < t.ranks ? (int)left : t.ranks;
    if (rank < t.ranks) {
        t.own = calibration_chunk_at(request->samples, first + rank);
    }
    return t;
}

grail_status streams_holders(const compression_request *request, int **out)
{
    const calibration *c = request->samples;
    CHECK(memory_new(out, (size_t)c->batch_count, sizeof **out));
    for (int64_t i = 0; i < calibration_chunk_count(c); i++) {
        const calibration_chunk chunk = calibration_chunk_at(c, i);
        for (int64_t batch = chunk.first; batch < chunk.end; batch++) {
            (*out)[batch] = (int)(i % comm_size(request->comm));
        }
    }
    return GRAIL_OK;
}

grail_status stream_widths(const grail_comm *comm, const sample_stream *s, int64_t **out)
{
    const size_t count = (size_t)s->live_count;
    CHECK(memory_new(out, count, sizeof **out));
    for (int i = 0; comm_rank(comm) == 0 && i < s->live_count; i++) {
        (*out)[i] = s->held[i].columns; /* of the first batch */
    }
    return comm_broadcast(comm, 0, *out, count * sizeof **out);
}

/* The batches of a turn that are held out, or the others. */
static grail_status carry_part(calibration_network *network, carry *k, turn t, bool held_out)
{
    const compression_request *request = network->request;
    for (int64_t batch = t.own.first; batch < t.own.end; batch++) {
        if (calibration_holds_out(request->samples, batch) == held_out) {
            CHECK(carry_batch(network, k, batch));
            CHECK(tell_progress(network, k));
        }
    }
    if (k->visitor == NULL) {
        return GRAIL_OK;
    }
    const chunk_sums sums = k->visitor->sums(k->visitor->user, held_out);
    CHECK(begin_visit(network, k));
    return chunk_sums_fold_ranks(request->comm, t.ranks, &sums);
}

/* Sums that do not tell held-out batches apart are shared once. */
static grail_status share_both(const grail_comm *comm, const chunk_sums *fitted,
                               const chunk_sums *held)
{
    CHECK(chunk_sums_share(comm, fitted));
    return held->total_rows == fitted->total_rows ? GRAIL_OK : chunk_sums_share(comm, held);
}

static grail_status carry_all(calibration_network *network, carry *k)
{
    const compression_request *request = network->request;
    const int64_t count = calibration_chunk_count(request->samples);
    for (int64_t first = 0; first < count; first += comm_size(request->comm)) {
        const turn t = turn_at(request, first);
        CHECK(carry_part(network, k, t, false));
        CHECK(carry_part(network, k, t, true));
    }
    if (k->visitor == NULL) {
        return GRAIL_OK;
    }
    const chunk_sums fitted = k->visitor->sums(k->visitor->user, false);
    const chunk_sums held = k->visitor->sums(k->visitor->user, true);
    return share_both(request->comm, &fitted, &held);
}

grail_status streams_carry(calibration_network *network, int end, int dense_end,
                           const sums_visitor *visitor)
{
    const double begun = clock_seconds();
    carry k = plan_carry(network, end, dense_end);
    k.visitor = visitor;
    if (!k.current.moves && !k.dense.moves && visitor == NULL) {
        return GRAIL_OK;
    }
    CHECK(begin_move(&k.current));
    CHECK(begin_move(&k.dense));
    CHECK(carry_all(network, &k));
    CHECK(end_move(&k.current));
    CHECK(end_move(&k.dense));
    network->calibrate_seconds += clock_seconds() - begun;
    return GRAIL_OK;
}

static grail_status visit_nodes(const leg *l, int64_t batch, node_visitor visit, void *user)
{
    execution *e = l->run->execution;
    for (int n = l->begin; n < l->end; n++) {
        CHECK(visit(e, batch, n, user));
        CHECK(execution_run(e, l->run->parameters, n, n + 1));
    }
    return visit(e, batch, l->end, user);
}

/* Nothing is taken from a batch that judges. */
static grail_status pass_batch(const compression_request *request, const leg *l, int64_t batch,
                               node_visitor visit, void *user)
{
    if (!request_judges_batch(request, batch)) {
        CHECK(begin_leg(request, l, batch));
        CHECK(visit_nodes(l, batch, visit, user));
    } else if (l->moves) {
        CHECK(carry_leg(request, l, batch));
    }
    return end_leg(l, batch);
}

grail_status run_carry(const calibration_network *network, network_run *run, int end, bool moves,
                       node_visitor visit, void *user)
{
    const compression_request *request = network->request;
    const leg l = {.run = run, .begin = run->stream.position, .end = end, .moves = moves};
    CHECK(begin_move(&l));
    for (int64_t batch = 0; batch < request->samples->batch_count; batch++) {
        CHECK(pass_batch(request, &l, batch, visit, user));
    }
    return end_move(&l);
}

/* What visitors of a pass through one network take. */
typedef struct visited_sums {
    node_visitor visit;
    node_sums sums;
    void *user;
} visited_sums;

/* The batches of a turn that are held out, or the others. */
static grail_status pass_part(const compression_request *request, const leg *l, turn t,
                              const visited_sums *v, bool held_out)
{
    for (int64_t batch = t.own.first; batch < t.own.end; batch++) {
        if (calibration_holds_out(request->samples, batch) == held_out) {
            CHECK(pass_batch(request, l, batch, v->visit, v->user));
        }
    }
    for (int i = 0; i < v->sums.count; i++) {
        const chunk_sums own = v->sums.at(v->user, i, held_out);
        CHECK(chunk_sums_fold_ranks(request->comm, t.ranks, &own));
    }
    return GRAIL_OK;
}

static grail_status share_sums(const grail_comm *comm, const visited_sums *v)
{
    for (int i = 0; i < v->sums.count; i++) {
        const chunk_sums fitted = v->sums.at(v->user, i, false);
        const chunk_sums held = v->sums.at(v->user, i, true);
        CHECK(share_both(comm, &fitted, &held));
    }
    return GRAIL_OK;
}

grail_status run_carry_sums(const calibration_network *network, network_run *run, int end,
                            bool moves, node_visitor visit, node_sums sums, void *user)
{
    const compression_request *request = network->request;
    const int64_t count = calibration_chunk_count(request->samples);
    const leg l = {.run = run, .begin = run->stream.position, .end = end, .moves = moves};
    const visited_sums v = {.visit = visit, .sums = sums, .user = user};
    CHECK(begin_move(&l));
    for (int64_t first = 0; first < count; first += comm_size(request->comm)) {
        const turn t = turn_at(request, first);
        CHECK(pass_part(request, &l, t, &v, false));
        CHECK(pass_part(request, &l, t, &v, true));
    }
    CHECK(share_sums(request->comm, &v));
    return end_move(&l);
}
