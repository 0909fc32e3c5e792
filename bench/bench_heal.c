/* One step of healing a block beside a forward pass of the same samples through it, and the memory
 * that it takes: on a synthetic Llama-shaped model, or on a checkpoint of an image network.
 *
 *   bench_heal [--layers 2] [--hidden 4096] [--ffn 11008] [--heads 32] [--vocabulary 1000]
 *              [--samples 1] [--context 2048] [--threads N] [--repeats 3] [--block 0]
 *   bench_heal CHECKPOINT [--samples 64] [--side 32] ...
 *
 * A step is: forward, distance to a target and its gradient, backward, Adam on all parameters. */
#include "bench.h"
#include "synthetic.h"

#include "backend/operations.h"
#include "exec/tape.h"
#include "heal/loss.h"
#include "heal/optimizer.h"

#include <sys/resource.h>

typedef struct heal_bench {
    grail_model *model;
    parameter_store *dense, *store;
    matrix_pool *pool;
    tape *tape;
    optimizer *optimizer;
    batch_shape shape;
    int begin, end, input, output; /* nodes of the block, the values before and behind it */
    matrix x, target;
} heal_bench;

static int only_live(const graph *g, int position)
{
    int live[4096];
    if (g->value_count > 4096 || graph_live_values(g, position, live) != 1) {
        bench_check(GRAIL_ERROR_UNSUPPORTED);
    }
    return live[0];
}

static void open_bench(const char *path, int block, batch_shape shape, heal_bench *h)
{
    backend *b = backend_host();
    bool *trained = NULL;
    int64_t *widths = NULL;
    *h = (heal_bench){.shape = shape};
    bench_check(grail_model_open(path, &h->model));
    const graph *g = h->model->graph;
    bench_check(parameter_store_create(h->model, b, NULL, &h->dense));
    bench_check(parameter_store_create(h->model, b, h->dense, &h->store));
    bench_check(matrix_pool_create(b, &h->pool));
    bench_check(tape_create(g, b, h->pool, &h->tape));
    graph_block_range(g, block, &h->begin, &h->end);
    h->input = only_live(g, h->begin);
    h->output = only_live(g, h->end);
    bench_check(memory_new(&widths, (size_t)g->value_count, sizeof widths[0]));
    bench_check(graph_widths(g, widths));
    bench_check(execution_begin(h->tape->execution, shape, (batch_input){0}));
    h->x = bench_normal_matrix(execution_rows(h->tape->execution, h->input), widths[h->input], 1);
    h->target =
        bench_normal_matrix(execution_rows(h->tape->execution, h->output), widths[h->output], 2);
    bench_check(memory_new(&trained, (size_t)g->parameter_count, sizeof trained[0]));
    optimizer_mark_trainable(g, h->begin, h->end, trained);
    bench_check(optimizer_create(g, h->store, trained, &h->optimizer));
    memory_free(trained);
    memory_free(widths);
}

static void close_bench(heal_bench *h)
{
    matrix_free(&h->x);
    matrix_free(&h->target);
    optimizer_free(h->optimizer);
    tape_free(h->tape);
    matrix_pool_free(h->pool);
    parameter_store_free(h->store);
    parameter_store_free(h->dense);
    grail_model_close(h->model);
}

static void place(heal_bench *h)
{
    matrix to = {0};
    execution *e = h->tape->execution;
    bench_check(execution_begin(e, h->shape, (batch_input){0}));
    bench_check(execution_make(e, h->input, h->x.columns, &to));
    bench_check(matrix_copy(h->x, to));
}

/* An execution of its own, whose values are dropped as in any pass. */
static double forward_seconds(heal_bench *h)
{
    execution *e = NULL;
    matrix to = {0};
    bench_check(execution_create(h->model->graph, h->x.owner, h->pool, &e));
    bench_check(execution_begin(e, h->shape, (batch_input){0}));
    bench_check(execution_make(e, h->input, h->x.columns, &to));
    bench_check(matrix_copy(h->x, to));
    const double begun = bench_now();
    bench_check(execution_run(e, h->store, h->begin, h->end));
    const double seconds = bench_now() - begun;
    execution_free(e);
    return seconds;
}

static double step_seconds(heal_bench *h)
{
    matrix gradient = {0};
    place(h);
    const double begun = bench_now();
    bench_check(tape_forward(h->tape, h->store, h->optimizer->gradients, false, h->begin, h->end));
    const matrix y = execution_value(h->tape->execution, h->output);
    bench_check(matrix_pool_take(h->pool, y.rows, y.columns, &gradient));
    bench_check(distance_add(y, h->target, 1.0 / (double)y.rows, gradient, no_matrix));
    bench_check(tape_seed(h->tape, h->output, gradient));
    bench_check(tape_backward(h->tape, h->store, h->optimizer->gradients));
    bench_check(optimizer_step(h->optimizer, 1e-6));
    const double seconds = bench_now() - begun;
    matrix_pool_give(h->pool, &gradient);
    return seconds;
}

static double least(heal_bench *h, int64_t repeats, double (*measure)(heal_bench *h))
{
    double best = measure(h);
    for (int64_t i = 0; i < repeats; i++) {
        const double seconds = measure(h);
        best = seconds < best ? seconds : best;
    }
    return best;
}

static int64_t trained_bytes(const heal_bench *h)
{
    int64_t bytes = 0;
    for (int i = 0; i < h->optimizer->count; i++) {
        const matrix m = h->optimizer->of[i].best;
        bytes += matrix_count(m) * (int64_t)element_size(m.type);
    }
    return bytes;
}

static void measure(heal_bench *h, int64_t repeats, json_t *report)
{
    struct rusage usage;
    const double forward = least(h, repeats, forward_seconds);
    const double step = least(h, repeats, step_seconds);
    getrusage(RUSAGE_SELF, &usage);
    bench_check(json_put(report, "forward_seconds", json_real(forward)));
    bench_check(json_put(report, "step_seconds", json_real(step)));
    bench_check(json_put(report, "ratio_to_forward", json_real(step / forward)));
    bench_check(json_put(report, "block_bytes", json_integer(trained_bytes(h))));
    bench_check(json_put(report, "matrix_bytes", json_integer(backend_bytes(h->x.owner))));
    bench_check(
        json_put(report, "peak_resident_bytes", json_real(1024.0 * (double)usage.ru_maxrss)));
}

int main(int count, char **arguments)
{
    char directory[] = SYNTHETIC_DIRECTORY;
    const char *model = count > 1 && arguments[1][0] != '-' ? arguments[1] : NULL;
    const int64_t repeats = bench_option(count, arguments, "repeats", 3);
    const int block = (int)bench_option(count, arguments, "block", 0);
    const int64_t side = bench_option(count, arguments, "side", 32);
    json_t *report = json_object();
    heal_bench h;
    batch_shape shape = {.samples =
                             bench_option(count, arguments, "samples", model == NULL ? 1 : 64),
                         .positions = {.height = side, .width = side}};
    bench_set_threads(count, arguments);
    if (model == NULL) {
        synthetic_shape s = synthetic_options(count, arguments);
        s.samples = shape.samples;
        shape.positions = (extent){.height = s.context, .width = 1};
        synthetic_make(directory, &s);
    }
    open_bench(model == NULL ? directory : model, block, shape, &h);
    measure(&h, repeats, report);
    close_bench(&h);
    if (model == NULL) {
        synthetic_remove(directory);
    }
    bench_print(report);
    return 0;
}
