#include "eval/forward.h"

#include "backend/operations.h"
#include "base/random.h"

enum { FORWARD_BATCH_ROWS = 2048, FORWARD_MEMORY = 1 << 30 };

grail_status random_windows(const grail_model *model, int64_t count, int64_t length,
                            token_windows *out)
{
    random_state random;
    CHECK(memory_new_unset(&out->ids, (size_t)(count * length), sizeof out->ids[0]));
    random_seed(&random, 0, 0);
    for (int64_t i = 0; i < count * length; i++) {
        out->ids[i] = (int32_t)random_below(&random, model->graph->vocabulary);
    }
    out->count = count;
    out->length = length;
    return GRAIL_OK;
}

int64_t forward_chunk(const grail_model *model, const backend *b, int64_t length,
                      forward_limit limit)
{
    const int64_t memory = limit.memory == 0 ? FORWARD_MEMORY : limit.memory;
    const graph *g = model->graph; /* its first node is the embedding, whose table is as wide */
    const int64_t width = g->parameters[g->nodes[0].weight].shape[1];
    const int64_t window = width * length * (int64_t)backend_value_size(b);
    const int64_t fit = memory / window;
    const int64_t most = limit.tokens == 0 ? fit : limit.tokens / length;
    const int64_t count = fit < most ? fit : most;
    return count > 1 ? count : 1;
}

static grail_status plan_batches(forward_pass *f)
{
    CHECK(memory_new(&f->firsts, (size_t)f->count + 1, sizeof f->firsts[0]));
    for (int64_t next = 0; next < f->count; next = f->firsts[f->batch_count]) {
        const int64_t window = f->first + next;
        const int64_t fit = windows_of_one_size(f->windows, window, f->first + f->count);
        const int64_t most = FORWARD_BATCH_ROWS / window_size(f->windows, window);
        const int64_t size = most > 1 ? most : 1;
        f->firsts[++f->batch_count] = next + (size < fit ? size : fit);
    }
    return GRAIL_OK;
}

/* Tells of this batch and those before it. */
static grail_status tell(const forward_pass *f, int begin, int end, int64_t batch)
{
    const double part = (double)(batch + 1) / (double)f->batch_count;
    const double position = begin + part * (end - begin);
    return f->watch == NULL
               ? GRAIL_OK
               : f->watch->tell(f->watch->user, position / f->model->graph->node_count);
}

grail_status forward_advance(forward_pass *f, int end)
{
    const int begin = f->stream.position;
    CHECK(sample_stream_move_begin(&f->stream, end));
    for (int64_t batch = 0; batch < f->batch_count; batch++) {
        const int64_t window = f->first + f->firsts[batch];
        const batch_shape shape = sequence_batch(f->firsts[batch + 1] - f->firsts[batch],
                                                 window_size(f->windows, window));
        const int32_t *ids = f->windows->ids + window_start(f->windows, window);
        CHECK(execution_begin(f->run, shape, (batch_input){.ids = ids}));
        CHECK(sample_stream_read(&f->stream, batch, f->run));
        CHECK(execution_run(f->run, f->store, begin, end));
        CHECK(sample_stream_write(&f->stream, batch, f->run));
        CHECK(tell(f, begin, end, batch));
    }
    sample_stream_move_end(&f->stream);
    for (parameter_store *s = f->store; s != NULL; s = s->parent) {
        if (s->parent == NULL) { /* what can be read again from the checkpoint */
            parameter_store_release_range(s, begin, end);
        }
    }
    return GRAIL_OK;
}

/* The nodes behind the last block of a file may mix rows, so the pass runs them, too, but for the
 * one that scores tokens. */
static bool is_whole(const forward_pass *f)
{
    const graph *g = f->model->graph;
    return g->outputs[0].name != NULL && (g->input_kind != INPUT_TOKENS || graph_gives_features(g));
}

grail_status forward_begin(forward_pass *f, const grail_model *model, parameter_store *store,
                           const token_windows *windows, int64_t first, int64_t count)
{
    *f = (forward_pass){.model = model,
                        .backend = store->backend,
                        .store = store,
                        .windows = windows,
                        .first = first,
                        .count = count,
                        .watch = f->watch};
    CHECK(plan_batches(f));
    CHECK(matrix_pool_create(f->backend, &f->pool));
    CHECK(execution_create(model->graph, f->backend, f->pool, &f->run));
    CHECK(sample_stream_init(&f->stream, model->graph, f->backend, f->batch_count));
    for (int block = GRAPH_NONE; block < model->graph->block_count; block++) {
        int begin = 0;
        int end = 0;
        graph_block_range(model->graph, block, &begin, &end);
        CHECK(forward_advance(f, end));
    }
    return is_whole(f) ? forward_advance(f, model->graph->node_count) : GRAIL_OK;
}

void forward_end(forward_pass *f)
{
    execution_free(f->run);
    sample_stream_fini(&f->stream);
    matrix_pool_free(f->pool);
    memory_free(f->firsts);
    *f = (forward_pass){0};
}

/* The live value that an output is. */
static int live_output(const forward_pass *f, int output)
{
    int i = 0;
    while (f->stream.live[i] != f->model->graph->outputs[output].value) {
        i++;
    }
    return i;
}

int64_t forward_length(const forward_pass *f, int output, int64_t window)
{
    if (!is_whole(f)) {
        return window_size(f->windows, window);
    }
    const int64_t batch = batch_of_sample(f->firsts, f->batch_count, window - f->first);
    const int64_t samples = f->firsts[batch + 1] - f->firsts[batch];
    return f->stream.held[batch * f->stream.live_count + live_output(f, output)].rows / samples;
}

matrix forward_output(const forward_pass *f, int output, int64_t window, int64_t from, int64_t rows)
{
    const int64_t local = window - f->first;
    const int64_t batch = batch_of_sample(f->firsts, f->batch_count, local);
    const int64_t first = (local - f->firsts[batch]) * forward_length(f, output, window);
    return matrix_rows(f->stream.held[batch * f->stream.live_count + live_output(f, output)],
                       first + from, rows);
}

matrix forward_rows(const forward_pass *f, int i, int64_t window, int64_t from, int64_t rows)
{
    const int64_t local = window - f->first;
    const int64_t batch = batch_of_sample(f->firsts, f->batch_count, local);
    const int64_t row = (local - f->firsts[batch]) * window_size(f->windows, window) + from;
    return matrix_rows(f->stream.held[batch * f->stream.live_count + i], row, rows);
}

grail_status forward_logits(forward_pass *f, int64_t window, int64_t from, int64_t rows,
                            matrix *out)
{
    const graph *g = f->model->graph;
    if (is_whole(f)) {
        *out = forward_output(f, 0, window, from, rows);
        return GRAIL_OK;
    }
    /* after the last block no node mixes rows, so a slice of rows can run as one sequence
     */
    CHECK(execution_begin(f->run, sequence_batch(1, rows), (batch_input){0}));
    for (int i = 0; i < f->stream.live_count; i++) {
        const matrix held = forward_rows(f, i, window, from, rows);
        CHECK(execution_put(f->run, f->stream.live[i], held));
    }
    CHECK(execution_run(f->run, f->store, f->stream.position, g->node_count));
    *out = execution_value(f->run, g->output);
    return GRAIL_OK;
}
