/* The run: streams begin, blocks one after the other, companions last. */
#include "pipeline/compression.h"

#include <string.h>

static void release_block(grail_compression *c, int block)
{
    int begin = 0;
    int end = 0;
    graph_block_range(c->model->graph, block, &begin, &end);
    parameter_store_release_range(c->current, begin, end);
    parameter_store_release_range(c->dense, begin, end);
    buffer_pool_clear(c->pool);
}

/* Without data a finished block needs no replay: nothing later depends on a stream. */
static grail_status replay_blocks(grail_compression *c, int finished)
{
    grail_status status = GRAIL_OK;
    checkpoint *recorded = NULL;
    if (finished == 0) {
        return GRAIL_OK;
    }
    TRY(checkpoint_open(c->partial, &recorded));
    for (int block = 0; block < finished; block++) {
        TRY(state_restore_block(c, block));
        TRY(compress_block(c, block, recorded));
        release_block(c, block);
    }
    c->blocks_replayed = finished;
out:
    checkpoint_close(recorded);
    return status;
}

static grail_status fresh_block(grail_compression *c, int block)
{
    grail_status status = GRAIL_OK;
    TRY(compress_block(c, block, NULL));
    TRY(write_block(c, block));
    TRY(state_record_block(c, block));
    release_block(c, block);
    TRY(tell_observer(c, block, NULL)); /* a run cancelled here has lost nothing */
out:
    return status;
}

grail_status grail_compression_run(grail_compression *c)
{
    grail_status status = GRAIL_OK;
    const int finished = (int)json_array_size(c->state);
    c->started = clock_seconds();
    TRY(write_block(c, GRAPH_NONE));
    if (c->batch_count > 0) {
        TRY(begin_streams(c));
    }
    TRY(replay_blocks(c, finished));
    c->started = clock_seconds();
    for (int block = finished; block < c->model->graph->block_count; block++) {
        TRY(fresh_block(c, block));
    }
    TRY(write_companions(c));
out:
    if (status != GRAIL_OK && status != GRAIL_ERROR_CANCELLED) {
        state_after_failure(c, status);
    }
    return status;
}

int grail_compression_site_count(const grail_compression *c)
{
    return c->sites->list.count;
}

grail_site_report grail_compression_site(const grail_compression *c, int i)
{
    return c->results[i].report;
}

static int64_t elements_of(const graph_parameter *p)
{
    int64_t elements = 0;
    return shape_elements(p->rank, p->shape, &elements) ? elements : 0;
}

grail_compression_totals grail_compression_totals_get(const grail_compression *c)
{
    grail_compression_totals t = {
        .samples = c->windows.count,
        .context = c->windows.length,
        .calibration_tokens = c->windows.count * c->windows.length,
    };
    if (grail_model_describe(c->model, &t.dense) != GRAIL_OK) {
        return t;
    }
    const graph *g = c->narrowed;
    for (int p = 0; p < g->parameter_count; p++) {
        const int64_t elements = elements_of(&g->parameters[p]);
        t.parameters += elements;
        t.bytes += elements * (int64_t)dtype_bits(c->model->tensors[p]->dtype) / 8;
    }
    int64_t kv_dense = 0;
    int64_t kv_narrow = 0;
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].kind == NODE_LINEAR) {
            t.macs_per_token += elements_of(&g->parameters[g->nodes[n].weight]);
        }
        if (g->nodes[n].kind == NODE_ATTENTION) {
            /* the value input's width, through the node that makes it */
            const int source = g->value_source[g->nodes[n].inputs[2]];
            kv_narrow += g->parameters[g->nodes[source].weight].shape[0];
            kv_dense += c->model->graph->parameters[g->nodes[source].weight].shape[0];
        }
    }
    t.kv_bytes_per_token = kv_dense > 0 ? t.dense.kv_bytes_per_token / kv_dense * kv_narrow : 0;
    return t;
}

int grail_compression_loader(const grail_compression *c, int i, const char **loader, int *loads,
                             const char **reason)
{
    if (i < 0 || i >= LOADER_COUNT) {
        return 0;
    }
    *loader = c->verdicts[i].loader;
    *loads = c->verdicts[i].loads ? 1 : 0;
    *reason = c->verdicts[i].reason;
    return 1;
}
