#include "exec/decoding.h"

#include "backend/operations.h"

#include <string.h>

grail_status decoding_begin(decoding *d, parameter_store *store, int64_t sequences, int64_t most)
{
    const graph *g = store->model->graph;
    size_t ids = 0;
    *d = (decoding){.store = store, .sequences = sequences, .most = most, .past.room = most};
    if (!size_multiply((size_t)sequences, (size_t)most, &ids)) {
        return error_set(GRAIL_ERROR_MEMORY, "%lld sequences of %lld tokens are too large",
                         (long long)sequences, (long long)most);
    }
    CHECK(memory_new(&d->past.keys, (size_t)g->node_count, sizeof d->past.keys[0]));
    CHECK(memory_new(&d->ids, ids, sizeof d->ids[0]));
    CHECK(memory_new(&d->appended, ids, sizeof d->appended[0]));
    CHECK(matrix_pool_create(store->backend, &d->pool));
    CHECK(execution_create(g, store->backend, d->pool, &d->tokens));
    return execution_create(g, store->backend, d->pool, &d->last);
}

void decoding_end(decoding *d)
{
    const int nodes = d->past.keys == NULL ? 0 : d->store->model->graph->node_count;
    for (int i = 0; i < nodes; i++) {
        matrix_free(&d->past.keys[i].k);
        matrix_free(&d->past.keys[i].v);
    }
    memory_free(d->past.keys);
    memory_free(d->ids);
    memory_free(d->appended);
    execution_free(d->tokens);
    execution_free(d->last);
    matrix_pool_free(d->pool);
    *d = (decoding){0};
}

/* Behind the last block no node mixes rows: only the last tokens go on. */
static grail_status run_head(decoding *d, int begin, int64_t count, matrix *logits)
{
    grail_status status = GRAIL_OK;
    const graph *g = d->store->model->graph;
    int *live = NULL;
    int64_t *rows = NULL;
    TRY(memory_new(&live, (size_t)g->value_count, sizeof live[0]));
    TRY(memory_new(&rows, (size_t)d->sequences, sizeof rows[0]));
    for (int64_t s = 0; s < d->sequences; s++) {
        rows[s] = (s + 1) * count - 1;
    }
    const int live_count = graph_live_values(g, begin, live);
    TRY(execution_begin(d->last, sequence_batch(d->sequences, 1), (batch_input){0}));
    for (int i = 0; i < live_count; i++) {
        const matrix x = execution_value(d->tokens, live[i]);
        matrix place = {0};
        TRY(execution_make(d->last, live[i], x.columns, &place));
        TRY(matrix_gather(rows, NULL, x, place));
    }
    TRY(execution_run(d->last, d->store, begin, g->node_count));
    *logits = execution_value(d->last, g->output);
out:
    memory_free(live);
    memory_free(rows);
    return status;
}

/* Columns [0, tokens * columns) of kept rows, over and over up to `count` tokens. */
static grail_status repeat_kept(const decoding *d, matrix kept, int64_t count)
{
    const matrix rows = matrix_reshape(kept, d->sequences, d->most * kept.columns);
    for (int64_t done = d->count; done < count;) {
        const int64_t more = done < count - done ? done : count - done;
        CHECK(matrix_copy(matrix_columns(rows, 0, more * kept.columns),
                          matrix_columns(rows, done * kept.columns, more * kept.columns)));
        done += more;
    }
    return GRAIL_OK;
}

grail_status decoding_pretend(decoding *d, int64_t count)
{
    for (int i = 0; i < d->store->model->graph->node_count; i++) {
        const kept_keys *kept = &d->past.keys[i];
        CHECK(matrix_exists(kept->k) ? repeat_kept(d, kept->k, count) : GRAIL_OK);
        CHECK(matrix_exists(kept->v) ? repeat_kept(d, kept->v, count) : GRAIL_OK);
    }
    d->count = count > d->count ? count : d->count;
    return GRAIL_OK;
}

/* Rotations that are others in a longer text turn the kept keys, too: then all tokens run again. */
static bool changes_rotation(const decoding *d, int64_t count)
{
    const graph *g = d->store->model->graph;
    bool changes = false;
    for (int i = 0; i < g->node_count; i++) {
        const node *n = &g->nodes[i];
        changes = changes || (n->kind == NODE_ROPE && n->rope.long_frequency != NULL &&
                              d->count <= n->rope.longest && d->count + count > n->rope.longest);
    }
    return changes && d->count > 0;
}

grail_status decoding_append(decoding *d, const int32_t *ids, int64_t count, matrix *logits)
{
    const graph *g = d->store->model->graph;
    const bool again = changes_rotation(d, count);
    int begin = 0;
    int end = 0;
    if (d->count + count > d->most) {
        return error_set(GRAIL_ERROR_ARGUMENT, "more than %lld tokens", (long long)d->most);
    }
    d->past.earlier = again ? 0 : d->count;
    for (int64_t s = 0; s < d->sequences; s++) {
        int32_t *all = d->ids + s * d->most;
        memcpy(all + d->count, ids + s * count, (size_t)count * sizeof ids[0]);
        const int64_t run = d->count + count - d->past.earlier;
        memcpy(d->appended + s * run, all + d->past.earlier, (size_t)run * sizeof ids[0]);
    }
    d->count += count;
    const int64_t run = d->count - d->past.earlier;
    const batch_shape shape = sequence_batch(d->sequences, run);
    graph_block_range(g, g->block_count, &begin, &end);
    CHECK(execution_begin(d->tokens, shape, (batch_input){.ids = d->appended}));
    d->tokens->past = &d->past;
    CHECK(execution_run(d->tokens, d->store, 0, begin));
    return run_head(d, begin, run, logits);
}
