/* One block: a pass over the stream per site. A pass carries the stream from the last consumer up
 * to the next one, observes there, and leaves the consumer's input in the stream; the site is then
 * decided, and the next pass begins by multiplying with the new consumer. So every node runs once.
 *
 * When the kept inputs would not fit in memory, the stream stays at the block's begin instead and
 * every pass runs from there with what is narrow already. */
#include "pipeline/compression.h"

#include "base/parallel.h"

#include <math.h>
#include <string.h>

typedef struct pass {
    int begin, end; /* nodes */
    int site;       /* observed at `end`, or GRAPH_NONE for the last pass of a block */
    int gather;     /* site whose consumer input is cut to the kept features first, or GRAPH_NONE */
    bool moves;     /* the stream moves to `end` */
} pass;

typedef struct gather_rows {
    const unsigned char *in;
    unsigned char *out;
    const int64_t *kept;
    int64_t kept_count;
    size_t in_row, out_row, element; /* bytes */
} gather_rows;

static void gather_body(int64_t begin, int64_t end, void *context)
{
    const gather_rows *g = context;
    for (int64_t r = begin; r < end; r++) {
        const unsigned char *in = g->in + (size_t)r * g->in_row;
        unsigned char *out = g->out + (size_t)r * g->out_row;
        for (int64_t k = 0; k < g->kept_count; k++) {
            memcpy(out, in + (size_t)g->kept[k] * g->element, g->element);
            out += g->element;
        }
    }
}

/* Replaces a value X[rows, n u] by X[:, P]. Runs of u elements move at once. */
static grail_status gather_value(execution *e, int value, const grail_reducer *reducer)
{
    enum { ROWS_PER_PIECE = 64 };
    grail_status status = GRAIL_OK;
    const matrix *x = execution_value(e, value);
    const size_t element =
        (size_t)(x->width / reducer->units) * e->backend->element_size; /* of one unit */
    const size_t out_row = (size_t)reducer->kept * element;
    int64_t *kept = NULL;
    void *out = NULL;
    TRY(memory_new(&kept, (size_t)reducer->kept, sizeof kept[0]));
    reducer_kept_features(reducer, 1, kept);
    TRY(buffer_pool_take(e->pool, (size_t)x->rows * out_row, &out));
    gather_rows g = {.in = x->data,
                     .out = out,
                     .kept = kept,
                     .kept_count = reducer->kept,
                     .in_row = (size_t)reducer->units * element,
                     .out_row = out_row,
                     .element = element};
    parallel_for(x->rows, ROWS_PER_PIECE, gather_body, &g);
    execution_replace(e, value, x->width / reducer->units * reducer->kept, out);
out:
    memory_free(kept);
    return status;
}

static batch_shape shape_of_batch(const grail_compression *c, int64_t batch)
{
    const int64_t first = batch * c->batch_sequences;
    const int64_t left = c->windows.count - first;
    return (batch_shape){
        .sequences = left < c->batch_sequences ? left : c->batch_sequences,
        .length = c->windows.length,
    };
}

static const int32_t *ids_of_batch(const grail_compression *c, int64_t batch)
{
    return c->windows.ids + batch * c->batch_sequences * c->windows.length;
}

grail_status begin_streams(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    int begin = 0;
    int end = 0;
    graph_block_range(c->model->graph, GRAPH_NONE, &begin, &end);
    TRY(stream_move_begin(&c->stream, end));
    if (c->has_dense_stream) {
        TRY(stream_move_begin(&c->dense_stream, end));
    }
    for (int64_t batch = 0; batch < c->batch_count; batch++) {
        execution_begin(c->run, shape_of_batch(c, batch), ids_of_batch(c, batch));
        TRY(execution_run(c->run, c->dense, begin, end));
        TRY(stream_write(&c->stream, batch, c->run));
        if (c->has_dense_stream) {
            TRY(stream_write(&c->dense_stream, batch, c->run));
        }
    }
    stream_move_end(&c->stream);
    if (c->has_dense_stream) {
        stream_move_end(&c->dense_stream);
    }
    parameter_store_release_range(c->dense, begin, end);
out:
    return status;
}

/* Carries the dense stream to behind the consumer that pass `p` ends at. */
static grail_status advance_dense(grail_compression *c, int64_t batch, int begin, int end)
{
    grail_status status = GRAIL_OK;
    execution_begin(c->dense_run, shape_of_batch(c, batch), NULL);
    TRY(stream_read(&c->dense_stream, batch, c->dense_run));
    TRY(execution_run(c->dense_run, c->dense, begin, end));
    TRY(stream_write(&c->dense_stream, batch, c->dense_run));
out:
    return status;
}

/* The unfolded producers on the compressed stream, for a folding's local target. */
static grail_status run_unfolded(grail_compression *c, const pass *p, int64_t batch)
{
    grail_status status = GRAIL_OK;
    execution_begin(c->dense_run, shape_of_batch(c, batch), NULL);
    TRY(stream_peek(&c->stream, batch, c->dense_run));
    if (p->gather != GRAPH_NONE) {
        const site *before = &c->sites->list.sites[p->gather];
        TRY(gather_value(c->dense_run, c->model->graph->nodes[before->consumers[0].node].inputs[0],
                         c->results[p->gather].reducer));
    }
    TRY(execution_run(c->dense_run, c->current, p->begin, p->end));
out:
    return status;
}

static grail_status run_batch(grail_compression *c, const pass *p, observation *o, int64_t batch)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->model->graph;
    if (o != NULL && o->folds && c->plan.compensation.target == TARGET_LOCAL) {
        TRY(run_unfolded(c, p, batch));
    }
    execution_begin(c->run, shape_of_batch(c, batch), NULL);
    if (p->moves) {
        TRY(stream_read(&c->stream, batch, c->run));
    } else {
        TRY(stream_peek(&c->stream, batch, c->run));
    }
    if (p->gather != GRAPH_NONE) {
        const site *before = &c->sites->list.sites[p->gather];
        TRY(gather_value(c->run, g->nodes[before->consumers[0].node].inputs[0],
                         c->results[p->gather].reducer));
    }
    parameter_store *store = o != NULL && o->folds ? o->trial : c->current;
    TRY(execution_run(c->run, store, p->begin, p->end));
    if (o != NULL) {
        TRY(observation_add(c, o, batch));
    }
    if (p->moves) {
        TRY(stream_write(&c->stream, batch, c->run));
    }
out:
    return status;
}

/* All batches of one pass; both streams move together so that a target finds its dense output. */
static grail_status run_pass(grail_compression *c, const pass *p, observation *o, int dense_begin,
                             int dense_end)
{
    grail_status status = GRAIL_OK;
    const bool dense = c->has_dense_stream && dense_end > dense_begin;
    if (p->moves) {
        TRY(stream_move_begin(&c->stream, p->end));
    }
    if (dense) {
        TRY(stream_move_begin(&c->dense_stream, dense_end));
    }
    for (int64_t batch = 0; batch < c->batch_count; batch++) {
        if (dense) {
            TRY(advance_dense(c, batch, dense_begin, dense_end));
        }
        TRY(run_batch(c, p, o, batch));
    }
    if (p->moves) {
        stream_move_end(&c->stream);
    }
    if (dense) {
        stream_move_end(&c->dense_stream);
    }
    execution_begin(c->run, (batch_shape){0}, NULL);
    execution_begin(c->dense_run, (batch_shape){0}, NULL);
out:
    return status;
}

/* Installs what an earlier run decided: the narrow tensors of one site's nodes. */
static grail_status install_parameter(grail_compression *c, int parameter,
                                      const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    int64_t count = 0;
    if (parameter == GRAPH_NONE) {
        return GRAIL_OK;
    }
    const graph_parameter *p = &c->narrowed->parameters[parameter];
    const tensor_view *tensor = checkpoint_find(recorded, p->name);
    if (tensor == NULL || !shape_elements(tensor->rank, tensor->shape, &count)) {
        FAIL(GRAIL_ERROR_FORMAT, "%s: tensor '%s' is missing; delete the directory and start anew",
             c->partial, p->name);
    }
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(convert_to_f32(tensor->dtype, tensor->data, count, values));
    TRY(parameter_store_set(c->current, parameter, p->shape, values));
out:
    memory_free(values);
    return status;
}

static grail_status install_ends(grail_compression *c, const site_end *ends, int count,
                                 const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; i < count; i++) {
        const node *n = &c->model->graph->nodes[ends[i].node];
        TRY(install_parameter(c, n->weight, recorded));
        TRY(install_parameter(c, n->bias, recorded));
    }
out:
    return status;
}

static grail_status install_site(grail_compression *c, int index, const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    const site *s = &c->sites->list.sites[index];
    TRY(install_ends(c, s->producers, s->producer_count, recorded));
    TRY(install_ends(c, s->consumers, s->consumer_count, recorded));
out:
    return status;
}

/* A folding's producers must be in place before its pass, a selection's only after: the pass runs
 * the dense ones and gathers, and the same operations give the same bits. */
static bool folds_before_pass(const grail_compression *c, int index)
{
    return selector_folds(c->plan.sites[index].selector);
}

static grail_status replay_site(grail_compression *c, const pass *p, int dense_begin, int dense_end,
                                const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    const bool before = folds_before_pass(c, p->site);
    if (before) {
        TRY(install_site(c, p->site, recorded));
    }
    TRY(run_pass(c, p, NULL, dense_begin, dense_end));
    if (!before) {
        TRY(install_site(c, p->site, recorded));
    }
out:
    return status;
}

static grail_status observe_site(grail_compression *c, const pass *p, int dense_begin,
                                 int dense_end)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    TRY(observation_init(c, p->site, &o));
    TRY(run_pass(c, p, &o, dense_begin, dense_end));
    buffer_pool_clear(c->pool);
    parameter_store_release_range(c->dense, p->begin, p->end);
    const double begun = clock_seconds();
    TRY(compensate_site(c, &o));
    c->results[p->site].report.solve_seconds = clock_seconds() - begun;
out:
    observation_fini(&o);
    return status;
}

static grail_status process_site(grail_compression *c, const pass *p, int dense_begin,
                                 int dense_end, const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    const double begun = clock_seconds();
    site_result *result = &c->results[p->site];
    if (recorded != NULL) {
        return replay_site(c, p, dense_begin, dense_end, recorded);
    }
    if (site_needs_statistics(c, p->site)) {
        TRY(observe_site(c, p, dense_begin, dense_end));
    } else if (folds_before_pass(c, p->site)) {
        TRY(narrow_site_plainly(c, p->site));
        TRY(run_pass(c, p, NULL, dense_begin, dense_end));
    } else {
        TRY(run_pass(c, p, NULL, dense_begin, dense_end));
        TRY(narrow_site_plainly(c, p->site));
    }
    result->report.seconds = clock_seconds() - begun;
out:
    return status;
}

grail_status tell_observer(grail_compression *c, int block, const grail_site_report *report)
{
    if (c->observer == NULL) {
        return GRAIL_OK;
    }
    const int blocks = c->model->graph->block_count;
    const int done = block + (report == NULL ? 1 : 0) - c->blocks_replayed;
    const double elapsed = clock_seconds() - c->started;
    const double left =
        done > 0 ? elapsed / done * (blocks - c->blocks_replayed - done) : (double)NAN;
    if (c->observer(c->observer_user, report, block, blocks, left) != 0) {
        return error_set(GRAIL_ERROR_CANCELLED, "cancelled in block %d of %d", block, blocks);
    }
    return GRAIL_OK;
}

/* Next cut site of `block` whose index is at least `from`, or GRAPH_NONE. */
static int next_cut_site(const grail_compression *c, int block, int from)
{
    for (int i = from; i < c->sites->list.count; i++) {
        if (c->sites->list.sites[i].block == block && site_is_cut(c, i)) {
            return i;
        }
    }
    return GRAPH_NONE;
}

static bool gathers_after(const grail_compression *c, int index)
{
    return c->keep_activations && !folds_before_pass(c, index);
}

/* Passes of a block with data. */
static grail_status stream_block(grail_compression *c, int block, const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    const graph *g = c->model->graph;
    int begin = 0;
    int block_end = 0;
    graph_block_range(g, block, &begin, &block_end);
    int dense_begin = begin;
    pass p = {.begin = begin, .gather = GRAPH_NONE};
    int index = next_cut_site(c, block, 0);
    for (; index != GRAPH_NONE; index = next_cut_site(c, block, index + 1)) {
        const int consumer = c->sites->list.sites[index].consumers[0].node;
        const int dense_end = consumer_end(g, consumer);
        p.site = index;
        p.end = consumer;
        p.moves = c->keep_activations;
        TRY(process_site(c, &p, dense_begin, dense_end, recorded));
        if (recorded == NULL) {
            TRY(tell_observer(c, block, &c->results[index].report));
        }
        dense_begin = dense_end;
        p.begin = c->keep_activations ? consumer : begin;
        p.gather = gathers_after(c, index) ? index : GRAPH_NONE;
    }
    p.site = GRAPH_NONE;
    p.end = block_end;
    p.moves = true;
    TRY(run_pass(c, &p, NULL, dense_begin, block_end));
out:
    return status;
}

static grail_status plain_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    int index = next_cut_site(c, block, 0);
    for (; index != GRAPH_NONE; index = next_cut_site(c, block, index + 1)) {
        TRY(narrow_site_plainly(c, index));
        TRY(tell_observer(c, block, &c->results[index].report));
    }
out:
    return status;
}

grail_status compress_block(grail_compression *c, int block, const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    if (c->batch_count > 0) {
        TRY(stream_block(c, block, recorded));
    } else if (recorded == NULL) {
        TRY(plain_block(c, block));
    }
out:
    return status;
}
