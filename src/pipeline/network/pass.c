/* Every node runs once per batch. If the inputs of the consumers do not fit in memory for all
 * samples, the sample stream stays at the begin of the block, and every pass starts there and runs
 * through what is already narrowed. */
#include "pipeline/network/pass.h"

#include "backend/operations.h"
#include "base/clock.h"
#include "base/profile.h"
#include "graph/operators.h"

#include <stdio.h>

/* -- the dense network on the rows that the current one's routers chose ------------------------ */

/* The node's shares where it takes rows, GRAPH_NONE elsewhere. */
static int shares_of_taker(const node *n)
{
    return operator_of(n)->rows == ROWS_TAKEN ? n->inputs[1] : GRAPH_NONE;
}

static grail_status put_current(const sample_passes *passes, int value)
{
    return execution_put(passes->dense->execution, value,
                         execution_value(passes->current->execution, value));
}

static grail_status put_current_shares(const sample_passes *passes, int shares)
{
    return execution_put_shares(passes->dense->execution, shares, passes->current->execution);
}

static grail_status copy_value(const sample_passes *passes, int value, matrix *out)
{
    const matrix in = execution_value(passes->dense->execution, value);
    CHECK(matrix_pool_take(passes->pool, in.rows, in.columns, out));
    return matrix_copy(in, *out);
}

static grail_status run_dense(const sample_passes *passes, int begin, int end)
{
    return execution_run(passes->dense->execution, passes->dense->parameters, begin, end);
}

/* What the experts read and add to. */
typedef struct layer_start {
    matrix input, sum; /* of the pool */
} layer_start;

static grail_status begin_layer(const sample_passes *passes, const branch_list *b,
                                const layer_start *start)
{
    execution *e = passes->dense->execution;
    const graph *g = e->graph;
    CHECK(execution_put(e, branches_input(g, b), start->input));
    CHECK(execution_put(e, branches_sum(g, b), start->sum));
    return put_current_shares(passes, g->nodes[b->route].output);
}

/* The sum behind all experts, which goes to the pool's *out. */
static grail_status run_layer(const sample_passes *passes, const branch_list *b, matrix *out)
{
    execution *e = passes->dense->execution;
    const int end = branch_put(b, b->count - 1) + 1;
    CHECK(run_dense(passes, b->begin, end));
    execution_take(e, e->graph->nodes[end - 1].output, out);
    return GRAIL_OK;
}

/* A local target is of what the current network has: there the dense layer begins with it. */
static grail_status begin_locally(const sample_passes *passes, const branch_list *b)
{
    const graph *g = passes->current->graph;
    if (!passes->lacks_locally) {
        return GRAIL_OK;
    }
    CHECK(put_current(passes, branches_input(g, b)));
    CHECK(put_current(passes, branches_sum(g, b)));
    return run_dense(passes, b->router, b->begin);
}

/* sum <- sum + (sum behind all experts by the dense route - the same by the current shares) */
static grail_status add_what_is_missing(const sample_passes *passes, const branch_list *b)
{
    grail_status status = GRAIL_OK;
    const graph *g = passes->current->graph;
    layer_start start = {0};
    matrix whole = {0};
    matrix lacking = {0};
    TRY(begin_locally(passes, b));
    TRY(copy_value(passes, branches_input(g, b), &start.input));
    TRY(copy_value(passes, branches_sum(g, b), &start.sum));
    TRY(run_layer(passes, b, &whole));
    TRY(begin_layer(passes, b, &start));
    TRY(run_layer(passes, b, &lacking));
    TRY(matrix_subtract(whole, lacking, whole));
    TRY(matrix_add(start.sum, whole, start.sum));
    TRY(begin_layer(passes, b, &start));
out:
    matrix_pool_give(passes->pool, &start.input);
    matrix_pool_give(passes->pool, &start.sum);
    matrix_pool_give(passes->pool, &whole);
    matrix_pool_give(passes->pool, &lacking);
    return status;
}

/* At the node that takes the first rows. */
static grail_status take_shares(const sample_passes *passes, int taker, int shares)
{
    for (int i = 0; i < passes->lacking_count; i++) {
        if (passes->lacking[i].begin == taker) {
            return add_what_is_missing(passes, &passes->lacking[i]);
        }
    }
    return put_current_shares(passes, shares);
}

/* Runs nodes [begin, end) of the dense network by the shares of the current one, which has run: an
 * expert's inputs and targets must be of the same rows. Where the plan drops experts of a layer,
 * what the whole layer adds by its own route and these shares do not is added to the sum before its
 * first expert, so that the sum behind the last one is that of the whole layer.
 */
static grail_status dense_follow(const sample_passes *passes, int begin, int end)
{
    const execution *current = passes->current->execution;
    const graph *g = passes->dense->graph;
    int from = begin;
    int known = GRAPH_NONE;
    for (int n = begin; n < end; n++) {
        const int shares = shares_of_taker(&g->nodes[n]);
        if (shares != GRAPH_NONE && shares != known &&
            matrix_exists(execution_value(current, shares))) {
            CHECK(run_dense(passes, from, n));
            CHECK(take_shares(passes, n, shares));
            from = n;
            known = shares;
        }
    }
    return run_dense(passes, from, end);
}

/* -- passes ------------------------------------------------------------------------------------ */

/* The part of a pass that one of the two networks runs. */
typedef struct leg {
    network_run *run;
    int begin, end; /* nodes */
    bool moves;     /* its sample stream is at `end` afterwards */
} leg;

typedef struct passing {
    const pass *p;
    sample_passes *passes;
    leg own, dense;
    bool runs_dense;
    bool begun;   /* the visitors' begin was called */
    int64_t near; /* so many images at once, whose values are small enough; 0: all of a batch */
    grail_statistics **statistics; /* [statistics_count] that were summed, owned */
    int statistics_count;
    int64_t done; /* batches */
} passing;

/* Puts the values that the sample stream holds of the samples before the leg. */
static grail_status begin_leg(const calibration *samples, const leg *l, portion p)
{
    const graph *g = l->run->graph;
    execution *e = l->run->execution;
    batch_shape shape = calibration_shape(samples, p.batch);
    batch_input input = {0}; /* token ids or pixels, if a node from `begin` on reads them */
    if (g->last_use[g->input] >= l->begin) {
        const int64_t before = p.slice.first * shape.positions.height * shape.positions.width;
        input = calibration_input(samples, p.batch);
        input.ids = input.ids == NULL ? NULL : input.ids + before;
        input.pixels = input.pixels == NULL ? NULL : input.pixels + before * g->channels;
    }
    shape.samples = p.slice.count;
    CHECK(execution_begin(e, shape, input));
    /* On the host no part is taken again, so that what the stream leaves behind can be moved. */
    return l->moves && p.slice.count == p.slice.all && backend_is_host(e->backend)
               ? sample_stream_read(&l->run->stream, p.batch, e)
               : sample_stream_peek_slice(&l->run->stream, p.batch, p.slice, e);
}

/* Calls the visitors of node `index`, the last time behind all nodes. */
static grail_status visit(passing *k, int index)
{
    for (int i = 0; i < k->p->visitor_count; i++) {
        const visitor *v = &k->p->visitors[i];
        if (v->node == index) {
            const execution *e = k->own.run->execution;
            char about[WATCH_TEXT] = "";
            snprintf(about, sizeof about, "input of '%s'", v->map == NULL ? "" : v->map);
            watch_in(v->map == NULL ? NULL : about);
            const profile_kind before = profile_enter(PROFILE_STATISTICS);
            const grail_status status = v->add(e, v->user);
            profile_enter(before);
            watch_in(NULL);
            CHECK(v->map == NULL ? status : error_in(status, "%s", about));
        }
    }
    return GRAIL_OK;
}

/* The first node behind `index` that visitors stand before, or the end: nodes up to there may run
 * as one. */
static int next_visit(const passing *k, int index)
{
    int next = k->own.end;
    for (int i = 0; i < k->p->visitor_count; i++) {
        const int at = k->p->visitors[i].node;
        next = at > index && at < next ? at : next;
    }
    return next;
}

/* Visitors at the end see both networks, and are called later. */
static grail_status run_own(passing *k, portion p, bool visited)
{
    const leg *l = &k->own;
    CHECK(begin_leg(k->passes->samples, l, p));
    for (int n = l->begin, next = 0; n < l->end; n = next) {
        next = visited ? next_visit(k, n) : l->end;
        CHECK(visited ? visit(k, n) : GRAIL_OK);
        CHECK(execution_run(l->run->execution, l->run->parameters, n, next));
    }
    return GRAIL_OK;
}

/* Behind the current network, where that has run for the same samples. */
static grail_status run_dense_leg(const passing *k, portion p, bool follows)
{
    const leg *l = &k->dense;
    CHECK(begin_leg(k->passes->samples, l, p));
    return follows ? dense_follow(k->passes, l->begin, l->end)
                   : execution_run(l->run->execution, l->run->parameters, l->begin, l->end);
}

static grail_status begin_visits(passing *k)
{
    for (int i = 0; !k->begun && i < k->p->visitor_count; i++) {
        const visitor *v = &k->p->visitors[i];
        CHECK(v->begin == NULL ? GRAIL_OK : v->begin(v->user));
    }
    k->begun = true;
    return GRAIL_OK;
}

static grail_status end_leg(const leg *l, portion p)
{
    return l->moves
               ? sample_stream_write_slice(&l->run->stream, p.batch, p.slice, l->run->execution)
               : GRAIL_OK;
}

/* Batches of this rank as a part of those of all. */
static grail_status tell_progress(passing *k)
{
    const int64_t last = k->passes->samples->batch_count - 1;
    const int64_t passed = k->done++ * comm_size(k->passes->comm);
    return progress_step(&k->passes->progress, k->own.begin, k->own.end,
                         passed < last ? passed : last);
}

static grail_status pass_portion(passing *k, portion p)
{
    sample_passes *s = k->passes;
    const bool judges = calibration_judges(s->samples, s->judges, p.batch);
    const bool visited = k->p->visitor_count > 0 && judges == k->p->judges;
    const bool runs = visited || k->own.moves;
    if (k->p->judged_alone && !judges) {
        return GRAIL_OK;
    }
    s->at = p;
    if (runs) {
        CHECK(run_own(k, p, visited));
    }
    if (k->runs_dense && (visited || k->dense.moves)) {
        CHECK(run_dense_leg(k, p, runs && !judges && !s->has_teacher));
    }
    if (visited) {
        CHECK(begin_visits(k));
        CHECK(visit(k, k->own.end));
    }
    CHECK(end_leg(&k->dense, p));
    return end_leg(&k->own, p);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool takes_batches(const passing *k)
{
    bool takes = false;
    for (int i = 0; i < k->p->visitor_count; i++) {
        takes = takes || k->p->visitors[i].by_batch;
    }
    return takes;
}

/* How many of a batch's samples run at once. */
static int64_t samples_of_portion(const passing *k, int64_t all)
{
    const int64_t limits[] = {k->passes->samples_at_once, k->near};
    int64_t most = all;
    for (int i = 0; i < 2 && !takes_batches(k); i++) {
        most = limits[i] > 0 ? smaller(most, limits[i]) : most;
    }
    return most;
}

/* The sample streams have moved: what they held of a batch before goes. */
static void drop_batch(const passing *k, int64_t batch)
{
    if (k->own.moves) {
        sample_stream_drop(&k->own.run->stream, batch);
    }
    if (k->dense.moves) {
        sample_stream_drop(&k->dense.run->stream, batch);
    }
}

static grail_status pass_batch(passing *k, int64_t batch)
{
    const int64_t all = calibration_shape(k->passes->samples, batch).samples;
    const int64_t step = samples_of_portion(k, all);
    for (int64_t first = 0; first < all; first += step) {
        const batch_slice slice = {first, smaller(step, all - first), all};
        CHECK(pass_portion(k, (portion){batch, slice}));
    }
    if (backend_is_host(k->own.run->execution->backend)) { /* no part is taken again */
        drop_batch(k, batch);
    }
    return k->p->judges ? GRAIL_OK : tell_progress(k);
}

/* The chunks that the ranks take at once, one each. */
typedef struct turn {
    int ranks; /* that have a chunk */
    calibration_chunk own;
} turn;

static turn turn_at(const sample_passes *passes, int64_t first)
{
    const int64_t left = calibration_chunk_count(passes->samples) - first;
    const int rank = comm_rank(passes->comm);
    turn t = {.ranks = comm_size(passes->comm)};
    t.ranks = left < t.ranks ? (int)left : t.ranks;
    if (rank < t.ranks) {
        t.own = calibration_chunk_at(passes->samples, first + rank);
    }
    return t;
}

/* Whether a batch is in that part of its turn; in order all are among those that are not held out.
 */
static bool is_in_part(const passing *k, int64_t batch, bool held_out)
{
    return held_out == (!k->p->in_order && calibration_holds_out(k->passes->samples, batch));
}

static grail_status pass_batches(passing *k, turn t, bool held_out)
{
    for (int64_t batch = t.own.first; batch < t.own.end; batch++) {
        CHECK(is_in_part(k, batch, held_out) ? pass_batch(k, batch) : GRAIL_OK);
    }
    return GRAIL_OK;
}

static void drop_batches(const passing *k, turn t, bool held_out)
{
    for (int64_t batch = t.own.first; batch < t.own.end; batch++) {
        if (is_in_part(k, batch, held_out)) {
            drop_batch(k, batch);
        }
    }
}

/* Whether a part that has filled the device can be taken again: by samples, and without counting
 * any twice. */
static bool can_go_again(const passing *k)
{
    bool can = !backend_is_host(k->own.run->execution->backend) && !takes_batches(k) &&
               sample_stream_has_slices(&k->own.run->stream) &&
               (!k->runs_dense || sample_stream_has_slices(&k->dense.run->stream));
    for (int i = 0; i < k->p->visitor_count; i++) {
        can = can && k->p->visitors[i].sums != NULL;
    }
    return can;
}

/* Takes back what a part that failed has added, and gives its memory back. */
static grail_status take_back(passing *k, bool held_out)
{
    const batch_shape none = {0};
    CHECK(execution_begin(k->own.run->execution, none, (batch_input){0}));
    CHECK(execution_begin(k->dense.run->execution, none, (batch_input){0}));
    matrix_pool_clear(k->passes->pool);
    for (int i = 0; i < k->p->visitor_count; i++) {
        const chunk_sums sums = k->p->visitors[i].sums(k->p->visitors[i].user, held_out);
        CHECK(chunk_sums_clear(&sums));
    }
    return GRAIL_OK;
}

/* Halves the samples that run at once after a part has failed with them; false for single ones. */
static bool halve_samples(passing *k, turn t)
{
    sample_passes *s = k->passes;
    int64_t most = 0;
    for (int64_t batch = t.own.first; batch < t.own.end; batch++) {
        const int64_t own = calibration_shape(s->samples, batch).samples;
        most = own > most ? own : most;
    }
    most = s->samples_at_once == 0 ? most : smaller(s->samples_at_once, most);
    s->samples_at_once = most > 1 ? (most + 1) / 2 : s->samples_at_once;
    return most > 1;
}

/* Adds the sums of a part to those of the parts before it. */
static grail_status fold_sums(passing *k, turn t, bool held_out)
{
    CHECK(begin_visits(k));
    for (int i = 0; i < k->p->visitor_count; i++) {
        const visitor *v = &k->p->visitors[i];
        if (v->sums != NULL) {
            const chunk_sums sums = v->sums(v->user, held_out);
            CHECK(chunk_sums_fold_ranks(k->passes->comm, t.ranks, &sums));
        }
    }
    return GRAIL_OK;
}

/* The batches of a turn that are held out, or the others: where the device is full with fewer
 * samples at once, which all passes then take. */
static grail_status pass_part(passing *k, turn t, bool held_out)
{
    const int64_t done = k->done;
    grail_status status = pass_batches(k, t, held_out);
    while (status == GRAIL_ERROR_MEMORY && can_go_again(k)) {
        if (!halve_samples(k, t)) {
            error_append("; a single sample at once was tried, too");
            return status;
        }
        CHECK(take_back(k, held_out));
        k->done = done;
        status = pass_batches(k, t, held_out);
    }
    CHECK(status);
    drop_batches(k, t, held_out);
    const profile_kind before = profile_enter(PROFILE_STATISTICS);
    status = fold_sums(k, t, held_out);
    profile_enter(before);
    return status;
}

/* Notes sums of which the weight is to be read. */
static void note_sums(passing *k, const chunk_sums *s)
{
    if (s->statistics != NULL) {
        k->statistics[k->statistics_count++] = s->statistics;
    }
}

/* Sums that do not tell held-out batches apart are shared once. */
static grail_status share_sums(passing *k)
{
    const grail_comm *comm = k->passes->comm;
    CHECK(memory_new(&k->statistics, 2 * (size_t)k->p->visitor_count + 1, sizeof k->statistics[0]));
    for (int i = 0; i < k->p->visitor_count; i++) {
        const visitor *v = &k->p->visitors[i];
        if (v->sums == NULL) {
            continue;
        }
        const chunk_sums fitted = v->sums(v->user, false);
        const chunk_sums held = v->sums(v->user, true);
        CHECK(chunk_sums_share(comm, &fitted));
        note_sums(k, &fitted);
        if (held.total_rows != fitted.total_rows) {
            CHECK(chunk_sums_share(comm, &held));
            note_sums(k, &held);
        }
    }
    return GRAIL_OK;
}

static bool is_block_border(const graph *g, int index)
{
    return index == 0 || index == g->node_count ||
           g->nodes[index].block != g->nodes[index - 1].block;
}

static passing plan_passing(sample_passes *passes, const pass *p)
{
    network_run *run = p->run == NULL ? passes->current : p->run;
    const bool may_wait = p->run != NULL || passes->keep_activations ||
                          is_block_border(passes->current->graph, p->end);
    passing k = {
        .p = p,
        .passes = passes,
        .own = {.run = run, .begin = run->stream.position, .end = p->end},
        .dense = {.run = passes->dense,
                  .begin = passes->dense->stream.position,
                  .end = p->dense_end},
    };
    k.runs_dense =
        p->with_dense && (passes->has_dense_stream || p->judges) && p->dense_end >= k.dense.begin;
    k.own.moves = !p->stays && p->end > k.own.begin && may_wait;
    k.dense.moves = !p->stays && k.runs_dense && p->dense_end > k.dense.begin;
    return k;
}

/* Samples of text are few rows. What is narrow already counts as in the dense network. */
static grail_status find_near(passing *k)
{
    const backend *b = k->own.run->execution->backend;
    const graph *g = k->passes->progress.graph;
    int64_t largest = 0;
    if (g->input_kind != INPUT_IMAGES || backend_near_bytes(b) == 0) {
        return GRAIL_OK;
    }
    CHECK(
        graph_largest_value(g, k->passes->samples->positions, k->own.begin, k->own.end, &largest));
    const int64_t fit = backend_near_bytes(b) / (int64_t)backend_value_size(b) / largest;
    k->near = fit > 1 ? fit : 1;
    return GRAIL_OK;
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

static grail_status run_legs(passing *k)
{
    const sample_passes *s = k->passes;
    const int64_t count = calibration_chunk_count(s->samples);
    CHECK(find_near(k));
    CHECK(begin_move(&k->own));
    CHECK(begin_move(&k->dense));
    for (int64_t first = 0; first < count; first += comm_size(s->comm)) {
        const turn t = turn_at(s, first);
        CHECK(pass_part(k, t, false));
        CHECK(k->p->in_order ? GRAIL_OK : pass_part(k, t, true));
    }
    CHECK(share_sums(k));
    CHECK(end_move(&k->own));
    return k->p->run == NULL ? end_move(&k->dense) : GRAIL_OK;
}

/* The device is read once, for all batches. */
static void settle_later(const passing *k, bool later)
{
    k->own.run->execution->settles_later = later;
    k->dense.run->execution->settles_later = later;
}

grail_status pass_run(sample_passes *passes, const pass *p)
{
    const double begun = clock_seconds();
    passing k = plan_passing(passes, p);
    if (!k.own.moves && !k.dense.moves && p->visitor_count == 0) {
        return GRAIL_OK;
    }
    settle_later(&k, true);
    grail_status status = run_legs(&k);
    settle_later(&k, false);
    status =
        chunk_sums_settle(k.own.run->execution->backend, status, k.statistics_count, k.statistics);
    memory_free(k.statistics);
    CHECK(status);
    passes->calibrate_seconds += clock_seconds() - begun;
    return GRAIL_OK;
}

static pass pass_up_to(int end, int dense_end)
{
    return (pass){.end = end, .with_dense = dense_end != GRAPH_NONE, .dense_end = dense_end};
}

grail_status pass_to(sample_passes *passes, int end, int dense_end)
{
    const pass p = pass_up_to(end, dense_end);
    return pass_run(passes, &p);
}

grail_status pass_visit(sample_passes *passes, int end, int dense_end, visitor v)
{
    pass p = pass_up_to(end, dense_end);
    v.node = end;
    p.visitors = &v;
    p.visitor_count = 1;
    return pass_run(passes, &p);
}

grail_status passes_trained_samples(const sample_passes *passes, int64_t *count, int64_t **out)
{
    const calibration *c = passes->samples;
    CHECK(memory_new_unset(out, (size_t)c->count, sizeof **out));
    *count = 0;
    for (int64_t i = 0; i < c->count; i++) {
        if (!calibration_judges(c, passes->judges, calibration_batch_of(c, i))) {
            (*out)[(*count)++] = i;
        }
    }
    return GRAIL_OK;
}

grail_status streams_holders(const calibration *c, const grail_comm *comm, int **out)
{
    CHECK(memory_new(out, (size_t)c->batch_count, sizeof **out));
    for (int64_t i = 0; i < calibration_chunk_count(c); i++) {
        const calibration_chunk chunk = calibration_chunk_at(c, i);
        for (int64_t batch = chunk.first; batch < chunk.end; batch++) {
            (*out)[batch] = (int)(i % comm_size(comm));
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
