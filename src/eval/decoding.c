#include "eval/decoding.h"

#include "backend/operations.h"
#include "graph/operators.h"

#include <string.h>

grail_status decoding_begin(decoding *d, parameter_store *store, int64_t most)
{
    const graph *g = store->model->graph;
    const size_t inputs = (size_t)g->node_count * NODE_MAX_INPUTS;
    *d = (decoding){.model = store->model, .store = store, .most = most};
    CHECK(memory_new(&d->kept, inputs, sizeof d->kept[0]));
    CHECK(memory_new(&d->ids, (size_t)most, sizeof d->ids[0]));
    CHECK(matrix_pool_create(store->backend, &d->pool));
    CHECK(execution_create(g, store->backend, d->pool, &d->tokens));
    return execution_create(g, store->backend, d->pool, &d->all);
}

void decoding_end(decoding *d)
{
    const int nodes = d->kept == NULL ? 0 : d->model->graph->node_count;
    for (int i = 0; i < nodes * NODE_MAX_INPUTS; i++) {
        matrix_free(&d->kept[i]);
    }
    memory_free(d->kept);
    memory_free(d->ids);
    execution_free(d->tokens);
    execution_free(d->all);
    matrix_pool_free(d->pool);
    *d = (decoding){0};
}

/* -- operators that look at positions ---------------------------------------------------------- */

/* Keys and values of all positions: those kept, and x [count, columns] behind them. */
static grail_status keep(decoding *d, int index, int input, matrix x, matrix *out)
{
    matrix *kept = &d->kept[index * NODE_MAX_INPUTS + input];
    if (!matrix_exists(*kept)) {
        CHECK(matrix_new(d->store->backend, backend_type(d->store->backend), d->most, x.columns,
                         kept));
    }
    *out = matrix_rows(*kept, 0, d->count + x.rows);
    return matrix_copy(x, matrix_rows(*kept, d->count, x.rows));
}

/* x in the places of its positions; zeros stand for earlier ones, which nothing later looks at. */
static grail_status place(decoding *d, matrix x, matrix *out)
{
    CHECK(matrix_pool_take(d->pool, d->count + x.rows, x.columns, out));
    CHECK(d->count == 0 ? GRAIL_OK : matrix_zero(matrix_rows(*out, 0, d->count)));
    return matrix_copy(x, matrix_rows(*out, d->count, x.rows));
}

static grail_status put_input(decoding *d, int index, int input)
{
    grail_status status = GRAIL_OK;
    const node *n = &d->model->graph->nodes[index];
    const matrix x = execution_value(d->tokens, n->inputs[input]);
    matrix placed = {0};
    matrix whole = {0};
    if (n->kind == NODE_ATTENTION && input > 0) {
        TRY(keep(d, index, input, x, &whole));
    } else {
        TRY(place(d, x, &placed));
        whole = placed;
    }
    TRY(execution_put(d->all, n->inputs[input], whole));
out:
    matrix_pool_give(d->pool, &placed);
    return status;
}

/* Runs a node over all positions; the new ones have its output. */
static grail_status run_by_position(decoding *d, int index, int64_t count)
{
    const node *n = &d->model->graph->nodes[index];
    CHECK(execution_begin(d->all, sequence_batch(1, d->count + count), (batch_input){0}));
    for (int i = 0; i < n->input_count; i++) {
        CHECK(put_input(d, index, i));
    }
    CHECK(execution_run(d->all, d->store, index, index + 1));
    const matrix y = execution_value(d->all, n->output);
    return execution_put(d->tokens, n->output, matrix_rows(y, d->count, count));
}

static bool looks_at_positions(const node *n)
{
    const operator_rules *rules = operator_of(n);
    return rules->rows == ROWS_BY_POSITION && !rules->gathers;
}

/* Nodes [begin, end) in runs of those that do not. */
static grail_status run_nodes(decoding *d, int begin, int end, int64_t count)
{
    const graph *g = d->model->graph;
    for (int i = begin; i < end; i++) {
        int next = i;
        while (next < end && !looks_at_positions(&g->nodes[next])) {
            next++;
        }
        if (next > i) {
            CHECK(execution_run(d->tokens, d->store, i, next));
        }
        if (next < end) {
            CHECK(run_by_position(d, next, count));
        }
        i = next;
    }
    return GRAIL_OK;
}

/* -- a network --------------------------------------------------------------------------------- */

/* Behind the last block no node mixes rows: only the last token goes on. */
static grail_status run_head(decoding *d, int begin, matrix *logits)
{
    grail_status status = GRAIL_OK;
    const graph *g = d->model->graph;
    int *live = NULL;
    TRY(memory_new(&live, (size_t)g->value_count, sizeof live[0]));
    const int count = graph_live_values(g, begin, live);
    TRY(execution_begin(d->all, sequence_batch(1, 1), (batch_input){0}));
    for (int i = 0; i < count; i++) {
        const matrix x = execution_value(d->tokens, live[i]);
        TRY(execution_put(d->all, live[i], matrix_rows(x, x.rows - 1, 1)));
    }
    TRY(execution_run(d->all, d->store, begin, g->node_count));
    *logits = execution_value(d->all, g->output);
out:
    memory_free(live);
    return status;
}

/* Rotations that are others in a longer text turn the kept keys, too: then all tokens run again. */
static bool changes_rotation(const decoding *d, int64_t count)
{
    const graph *g = d->model->graph;
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
    const graph *g = d->model->graph;
    int begin = 0;
    int end = 0;
    if (d->count + count > d->most) {
        return error_set(GRAIL_ERROR_ARGUMENT, "more than %lld tokens", (long long)d->most);
    }
    memcpy(d->ids + d->count, ids, (size_t)count * sizeof ids[0]);
    if (changes_rotation(d, count)) {
        count += d->count;
        d->count = 0;
    }
    const batch_input input = {.ids = d->ids + d->count};
    graph_block_range(g, g->block_count, &begin, &end);
    CHECK(execution_begin(d->tokens, sequence_batch(1, count), input));
    CHECK(run_nodes(d, 0, begin, count));
    d->count += count;
    return run_head(d, begin, logits);
}
