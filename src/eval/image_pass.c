#include "eval/image_pass.h"

enum {
    MOST_IN_BATCH = 128,
    BATCH_BYTES = 128 << 20 /* that the widest activation of a batch may take */
};

static int64_t choose_batch(const backend *b, int64_t widest)
{
    const int64_t fit = BATCH_BYTES / (int64_t)backend_value_size(b) / widest;
    return fit < 1 ? 1 : fit > MOST_IN_BATCH ? MOST_IN_BATCH : fit;
}

grail_status image_pass_begin(image_pass *p, parameter_store *store, int64_t side)
{
    grail_status status = GRAIL_OK;
    int64_t widest = 0;
    *p = (image_pass){.side = side};
    TRY(graph_largest_value(store->model->graph, (extent){.height = side, .width = side}, &widest));
    p->batch = choose_batch(store->backend, widest);
    TRY(matrix_pool_create(store->backend, &p->pool));
    TRY(fused_network_create(store, &p->fused));
    TRY(execution_create(fused_network_graph(p->fused), store->backend, p->pool, &p->run));
out:
    if (status != GRAIL_OK) {
        image_pass_end(p);
    }
    return status;
}

void image_pass_end(image_pass *p)
{
    execution_free(p->run);
    fused_network_free(p->fused);
    matrix_pool_free(p->pool);
    *p = (image_pass){0};
}

grail_status image_pass_run(image_pass *p, int64_t images, const float *pixels, matrix *out)
{
    const graph *g = p->run->graph;
    const batch_shape shape = {.samples = images,
                               .positions = {.height = p->side, .width = p->side}};
    CHECK(execution_begin(p->run, shape, (batch_input){.pixels = pixels}));
    CHECK(execution_run(p->run, fused_network_store(p->fused), 0, g->node_count));
    *out = execution_value(p->run, g->output);
    return GRAIL_OK;
}
