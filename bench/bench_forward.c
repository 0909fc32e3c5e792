/* The forward pass of a vision network over one batch, on demand:
 *
 *   bench_forward MODEL PIXELS OUTPUTS --side 32 [--batch 128] [--fused 1] [--threads N]
 *
 * PIXELS holds f32 [batch, side, side, 3]. Runs once and writes the outputs, f32 [batch, width], to
 * OUTPUTS; then runs once for every line on standard input and answers with the seconds of
 * wall-clock and of processor time. So another program can alternate its own passes with these
 * (bench_forward_torch.py does). With --fused 0 the network runs node by node, as it does for
 * statistics. */
#include "bench.h"

#include "base/file.h"
#include "base/output_file.h"
#include "exec/execution.h"
#include "exec/fuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct network {
    grail_model *model;
    parameter_store *store;
    fused_network *fused;
    matrix_pool *pool;
    execution *run;
    parameter_store *run_store;
    batch_shape shape;
    const float *pixels;
} network;

static void open_network(network *n, const char *path, bool fused)
{
    const graph *g = NULL;
    bench_check(grail_model_open(path, &n->model));
    bench_check(parameter_store_create(n->model, backend_host(), NULL, &n->store));
    n->run_store = n->store;
    g = n->model->graph;
    if (fused) {
        bench_check(fused_network_create(n->store, &n->fused));
        n->run_store = fused_network_store(n->fused);
        g = fused_network_graph(n->fused);
    }
    bench_check(matrix_pool_create(backend_host(), &n->pool));
    bench_check(execution_create(g, backend_host(), n->pool, &n->run));
}

static void close_network(network *n)
{
    execution_free(n->run);
    matrix_pool_free(n->pool);
    fused_network_free(n->fused);
    parameter_store_free(n->store);
    grail_model_close(n->model);
}

static matrix forward(network *n)
{
    const graph *g = n->run->graph;
    bench_check(execution_begin(n->run, n->shape, (batch_input){.pixels = n->pixels}));
    bench_check(execution_run(n->run, n->run_store, 0, g->node_count));
    return execution_value(n->run, g->output);
}

static void write_outputs(const char *path, matrix y)
{
    host_view v = {0};
    output_file f;
    bench_check(host_view_open(y, GRAIL_DTYPE_F32, HOST_READS, &v));
    bench_check(output_file_open(path, true, &f));
    bench_check(
        file_write_at(f.descriptor, f.path, v.values, (size_t)matrix_count(y) * sizeof(float), 0));
    bench_check(output_file_commit(&f));
    output_file_fini(&f);
    host_view_drop(&v);
}

static double processor_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Answers every line of standard input with the times of one pass. */
static void serve(network *n)
{
    char line[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        const double start = bench_now();
        const double used = processor_seconds();
        forward(n);
        printf("%.6f %.6f\n", bench_now() - start, processor_seconds() - used);
        fflush(stdout);
    }
}

int main(int count, char **arguments)
{
    network n = {0};
    file_map pixels = {0};
    if (count < 4) {
        fprintf(stderr, "usage: bench_forward MODEL PIXELS OUTPUTS --side N ...\n");
        return EXIT_FAILURE;
    }
    bench_set_threads(count, arguments);
    const int64_t side = bench_option(count, arguments, "side", 32);
    n.shape = (batch_shape){.samples = bench_option(count, arguments, "batch", 128),
                            .positions = {.height = side, .width = side}};
    open_network(&n, arguments[1], bench_option(count, arguments, "fused", 1) != 0);
    bench_check(file_map_open(&pixels, arguments[2]));
    if (pixels.size != (size_t)(n.shape.samples * side * side * IMAGE_CHANNELS) * sizeof(float)) {
        fprintf(stderr, "%s does not hold a batch of that shape\n", arguments[2]);
        return EXIT_FAILURE;
    }
    n.pixels = (const float *)(const void *)pixels.data;
    write_outputs(arguments[3], forward(&n));
    serve(&n);
    close_network(&n);
    file_map_close(&pixels);
    return EXIT_SUCCESS;
}
