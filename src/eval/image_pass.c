#include "eval/image_pass.h"

#include "base/random.h"

enum {
    MOST_IN_BATCH = 128,
    BATCH_BYTES = 128 << 20 /* that the widest activation of a batch may take */
};

/* Rows that a sample chooses from tables, or ones. */
static void set_integers(const graph_input *in, random_state *random, float *sample)
{
    const int64_t count = in->channels * in->positions.height * in->positions.width;
    for (int64_t k = 0; k < count; k++) {
        const int64_t row = in->rows > 0 ? random_below(random, in->rows) : 1;
        sample[in->first + k] =
            (float)(in->rows > 0 && row == in->padding ? (row + 1) % in->rows : row);
    }
}

grail_status random_pixels(const graph *g, int64_t images, extent positions, float **out)
{
    random_state random;
    const int64_t count = images * positions.height * positions.width * g->channels;
    CHECK(memory_new_unset(out, (size_t)count, sizeof **out));
    random_seed(&random, 0, 0);
    for (int64_t i = 0; i < count; i++) {
        (*out)[i] = (float)random_normal(&random);
    }
    for (int64_t i = 0; i < images * g->input_count; i++) {
        const graph_input *in = &g->inputs[i % g->input_count];
        if (in->are_integers) {
            set_integers(in, &random, *out + i / g->input_count * (count / images));
        }
    }
    return GRAIL_OK;
}

grail_status image_pass_begin(image_pass *p, parameter_store *store, extent positions)
{
    int64_t widest = 0;
    *p = (image_pass){.positions = positions};
    const graph *g = store->model->graph;
    CHECK(graph_largest_value(g, positions, 0, g->node_count, &widest));
    const int64_t fit = BATCH_BYTES / (int64_t)backend_value_size(store->backend) / widest;
    p->batch = fit < 1 ? 1 : fit > MOST_IN_BATCH ? MOST_IN_BATCH : fit;
    CHECK(matrix_pool_create(store->backend, &p->pool));
    CHECK(fused_network_create(store, &p->fused));
    return execution_create(fused_network_graph(p->fused), store->backend, p->pool, &p->run);
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
    const batch_shape shape = {.samples = images, .positions = p->positions};
    CHECK(execution_begin(p->run, shape, (batch_input){.pixels = pixels}));
    CHECK(execution_run(p->run, fused_network_store(p->fused), 0, g->node_count));
    *out = execution_value(p->run, g->output);
    return GRAIL_OK;
}
