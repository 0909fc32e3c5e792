/* The outputs of a network that reads images, and the gradients of its parameters, for
 * onnx_gradients.py:
 *
 *   bench_gradients MODEL PIXELS.safetensors
 *
 * PIXELS.safetensors holds "pixels", f32 [samples, height, width, channels]. The gradients are
 * those of the sum over all outputs o and elements i of o[i] cos(0.9 i + 0.1), i row-major in
 * [samples, height, width, channels]. Prints a line for each output, "output NAME COUNT VALUES",
 * and one for each tensor of the file that can be trained, "gradient TENSOR COUNT VALUES", with 0
 * where an element of the tensor is of no parameter. */
#include "bench.h"

#include "exec/tape.h"
#include "format/weights/safetensors.h"
#include "heal/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_values(const char *what, const char *name, int64_t count, const double *values)
{
    printf("%s %s %lld", what, name, (long long)count);
    for (int64_t i = 0; i < count; i++) {
        printf(" %.9g", values[i]);
    }
    printf("\n");
}

static void print_and_seed(tape *t, const graph_output *o)
{
    const matrix y = execution_value(tape_execution(t), o->value);
    matrix seed = {0};
    host_view v = {0};
    bench_check(host_view_open(y, GRAIL_DTYPE_F64, HOST_READS, &v));
    print_values("output", o->name == NULL ? "" : o->name, matrix_count(y), v.values);
    bench_check(host_view_close(&v));
    bench_check(matrix_new(y.owner, y.type, y.rows, y.columns, &seed));
    bench_check(host_view_open(seed, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    for (int64_t i = 0; i < matrix_count(y); i++) {
        ((double *)v.values)[i] = cos(0.9 * (double)i + 0.1);
    }
    bench_check(host_view_close(&v));
    bench_check(tape_seed(t, o->value, seed));
    matrix_free(&seed);
}

static int64_t element_count(const tensor_view *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        count *= tensor->shape[i];
    }
    return count;
}

/* Adds what parameter `p` is of its tensor, which may hold several. The tensor of one that inverts
 * divides: its slope is -scale / number^2. */
static void add_part(const grail_model *m, int p, matrix gradient, double *sums)
{
    const stored_matrix place = graph_stored(&m->graph->parameters[p]);
    const double scale = place.map.scale == 0.0 ? 1.0 : place.map.scale;
    float *values = NULL;
    host_view v = {0};
    bench_check(memory_new(&values, (size_t)matrix_count(gradient), sizeof values[0]));
    bench_check(storage_read(&place, m->tensors[p], values));
    bench_check(host_view_open(gradient, GRAIL_DTYPE_F64, HOST_READS, &v));
    for (int64_t i = 0; i < matrix_count(gradient); i++) {
        const double term = (double)values[i] - place.map.offset;
        const double slope = place.map.inverts ? -term * term / scale : scale;
        sums[storage_element(&place, m->tensors[p], i)] += slope * ((const double *)v.values)[i];
    }
    bench_check(host_view_close(&v));
    memory_free(values);
}

/* Once for each tensor, at the first of its parameters. */
static void print_gradients(const grail_model *m, const gradient_store *gradients)
{
    const int count = m->graph->parameter_count;
    for (int p = 0; p < count; p++) {
        double *sums = NULL;
        bool is_first = true;
        bench_check(memory_new(&sums, (size_t)element_count(m->tensors[p]), sizeof sums[0]));
        bool has_gradient = false;
        for (int q = 0; q < count; q++) {
            if (m->tensors[q] == m->tensors[p]) {
                is_first = is_first && q >= p;
                if (matrix_exists(gradient_of(gradients, q))) {
                    add_part(m, q, gradient_of(gradients, q), sums);
                    has_gradient = true;
                }
            }
        }
        if (is_first && has_gradient) {
            print_values("gradient", m->tensors[p]->name, element_count(m->tensors[p]), sums);
        }
        memory_free(sums);
    }
}

static void run_both_ways(const grail_model *m, batch_shape shape, const float *pixels)
{
    const graph *g = m->graph;
    backend *b = backend_host();
    parameter_store *store = NULL;
    gradient_store *gradients = NULL;
    matrix_pool *pool = NULL;
    tape *t = NULL;
    bool *trained = NULL;
    bench_check(memory_new(&trained, (size_t)g->parameter_count, sizeof trained[0]));
    bench_check(parameter_store_create(m, b, NULL, &store));
    bench_check(gradient_store_create(g, b, &gradients));
    optimizer_mark_trainable(g, 0, g->node_count, trained);
    for (int p = 0; p < g->parameter_count; p++) {
        if (trained[p]) {
            bench_check(gradient_store_want(gradients, store, p));
        }
    }
    bench_check(matrix_pool_create(b, &pool));
    bench_check(tape_create(g, b, pool, &t));
    bench_check(execution_begin(tape_execution(t), shape, (batch_input){.pixels = pixels}));
    bench_check(tape_forward(t, store, gradients, false, 0, g->node_count));
    for (int k = 0; k < g->output_count; k++) {
        print_and_seed(t, &g->outputs[k]);
    }
    bench_check(tape_backward(t, store, gradients));
    print_gradients(m, gradients);
    tape_free(t);
    matrix_pool_free(pool);
    gradient_store_free(gradients);
    parameter_store_free(store);
    memory_free(trained);
}

int main(int count, char **arguments)
{
    tensor_file *file = NULL;
    grail_model *m = NULL;
    float *pixels = NULL; /* a mapped tensor may lie anywhere */
    if (count != 3) {
        fprintf(stderr, "usage: bench_gradients MODEL PIXELS.safetensors\n");
        return EXIT_FAILURE;
    }
    bench_check(safetensors_open(arguments[2], &file));
    const tensor_view *v = tensor_file_find(file, "pixels");
    if (v == NULL || v->rank != 4 || v->dtype != GRAIL_DTYPE_F32) {
        fprintf(stderr, "%s: expected 'pixels', f32 of four dimensions\n", arguments[2]);
        return EXIT_FAILURE;
    }
    bench_check(memory_new(&pixels, v->bytes, 1));
    memcpy(pixels, v->data, v->bytes);
    bench_check(grail_model_open(arguments[1], &m));
    const batch_shape shape = {.samples = v->shape[0],
                               .positions = {.height = v->shape[1], .width = v->shape[2]}};
    run_both_ways(m, shape, pixels);
    grail_model_close(m);
    memory_free(pixels);
    tensor_file_close(file);
    return EXIT_SUCCESS;
}
