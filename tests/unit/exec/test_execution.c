/* Running nodes: buffers that change hands only after their last reader, and failures that name the
 * place. */
#include "unit/pipeline/lab_model.h"

#include "exec/execution.h"

#include <grail/machine.h>

#include <stdio.h>
#include <string.h>

/* -- elementwise nodes of a graph by hand ------------------------------------------------------ */

enum { ROWS = 3, WIDTH = 4, COUNT = ROWS * WIDTH };

static int add_node(graph *g, node_kind kind, int left, int right)
{
    node n = node_of(kind, 0, left, right);
    n.activation = ACTIVATION_RELU;
    int value = 0;
    assert_ok(graph_add_node(g, &n, &value));
    return value;
}

/* r = relu(x), s = x + r, p = s * s, q = s + p, y = q * r: x and r outlive their first reader. */
static graph *elementwise_graph(void)
{
    graph *g = NULL;
    assert_ok(graph_create(&g));
    const int r = add_node(g, NODE_ACTIVATION, g->input, GRAPH_NONE);
    const int s = add_node(g, NODE_ADD, g->input, r);
    const int p = add_node(g, NODE_MULTIPLY, s, s);
    const int q = add_node(g, NODE_ADD, s, p);
    assert_ok(graph_finish(g, add_node(g, NODE_MULTIPLY, q, r)));
    return g;
}

static double expected_output(double x)
{
    const double r = x > 0.0 ? x : 0.0;
    const double s = x + r;
    return (s + s * s) * r;
}

typedef struct machine {
    matrix_pool *pool;
    execution *e;
} machine;

static void start(machine *m, const graph *g)
{
    assert_ok(matrix_pool_create(backend_reference(), &m->pool));
    assert_ok(execution_create(g, backend_reference(), m->pool, &m->e));
}

static void stop(machine *m)
{
    execution_free(m->e);
    matrix_pool_free(m->pool);
}

OWNS(machine, stop)

static void place_input(machine *m, double *x)
{
    matrix place = {0};
    for (int i = 0; i < COUNT; i++) {
        x[i] = 0.5 * i - 2.0;
    }
    assert_ok(execution_begin(m->e, sequence_batch(1, ROWS), (batch_input){0}));
    assert_ok(execution_make(m->e, 0, WIDTH, &place));
    assert_ok(matrix_upload(place, x));
}

TEST(a_buffer_is_taken_over_only_by_its_last_reader)
{
    OWNED(graph) *g = elementwise_graph();
    OWNED(machine) m;
    double x[COUNT];
    double y[COUNT];
    start(&m, g);
    place_input(&m, x);
    const void *first = execution_value(m.e, 0).memory;
    assert_ok(execution_run(m.e, NULL, 0, 1));
    assert_ptr_equal(execution_value(m.e, 0).memory, first); /* the Add still reads x */
    const void *relu = execution_value(m.e, 1).memory;
    assert_ptr_not_equal(relu, first);
    assert_ok(execution_run(m.e, NULL, 1, 2));
    assert_false(matrix_exists(execution_value(m.e, 0)));
    assert_ptr_equal(execution_value(m.e, 2).memory, first); /* s lies where x was */
    assert_ok(execution_run(m.e, NULL, 2, 5));
    assert_ok(matrix_download(execution_value(m.e, g->output), y));
    for (int i = 0; i < COUNT; i++) {
        assert_near(y[i], expected_output(x[i]), 1e-12);
    }
    for (int v = 0; v < g->output; v++) {
        assert_false(matrix_exists(execution_value(m.e, v))); /* nothing else is left */
    }
}

TEST(one_range_and_single_nodes_give_the_same)
{
    OWNED(graph) *g = elementwise_graph();
    OWNED(machine) m;
    double x[COUNT];
    double whole[COUNT];
    double singly[COUNT];
    start(&m, g);
    place_input(&m, x);
    assert_ok(execution_run(m.e, NULL, 0, g->node_count));
    assert_ok(matrix_download(execution_value(m.e, g->output), whole));
    place_input(&m, x);
    for (int n = 0; n < g->node_count; n++) {
        assert_ok(execution_run(m.e, NULL, n, n + 1));
    }
    assert_ok(matrix_download(execution_value(m.e, g->output), singly));
    assert_memory_equal(whole, singly, sizeof whole);
}

/* y = (x * m) + m with m = mean(x) of each sample: m stands for all positions of its sample. */
TEST(one_position_stands_for_all_of_its_sample)
{
    enum { SAMPLES = 2 };
    matrix place = {0};
    double x[SAMPLES * COUNT];
    double y[SAMPLES * COUNT];
    OPENED(graph, g, graph_create(&g));
    const int mean = add_node(g, NODE_MEAN, g->input, GRAPH_NONE);
    node product = node_of(NODE_MULTIPLY, 0, g->input, mean);
    node sum = node_of(NODE_ADD, 0, GRAPH_NONE, mean);
    product.repeats_second = true;
    sum.repeats_second = true;
    sum.input_count = 2;
    assert_ok(graph_add_node(g, &product, &sum.inputs[0]));
    assert_ok(graph_add_node(g, &sum, &sum.output));
    assert_ok(graph_finish(g, sum.output));
    OWNED(machine) m;
    start(&m, g);
    for (int i = 0; i < SAMPLES * COUNT; i++) {
        x[i] = 0.25 * i * i - 3.0;
    }
    assert_ok(execution_begin(m.e, sequence_batch(SAMPLES, ROWS), (batch_input){0}));
    assert_ok(execution_make(m.e, 0, WIDTH, &place));
    assert_ok(matrix_upload(place, x));
    assert_ok(execution_run(m.e, NULL, 0, g->node_count));
    assert_ok(matrix_download(execution_value(m.e, g->output), y));
    for (int i = 0; i < SAMPLES * COUNT; i++) {
        const double *first = x + i / COUNT * COUNT + i % WIDTH;
        const double by = (first[0] + first[WIDTH] + first[2 * WIDTH]) / ROWS;
        assert_near(y[i], x[i] * by + by, 1e-12);
    }
}

TEST(an_activation_too_large_to_address_is_refused)
{
    OWNED(graph) *g = elementwise_graph();
    OWNED(machine) m;
    matrix place = {0};
    start(&m, g);
    assert_ok(execution_begin(m.e, sequence_batch(1 << 20, 1 << 20), (batch_input){0}));
    assert_fails(execution_make(m.e, 0, (int64_t)1 << 40, &place), GRAIL_ERROR_MEMORY,
                 "is too large");
}

static grail_status run_elementwise(void *context)
{
    const graph *g = context;
    OWNED(matrix_pool) *pool = NULL;
    OWNED(execution) *e = NULL;
    const double zeros[COUNT] = {0.0};
    matrix place = {0};
    CHECK(matrix_pool_create(backend_reference(), &pool));
    CHECK(execution_create(g, backend_reference(), pool, &e));
    CHECK(execution_begin(e, sequence_batch(1, ROWS), (batch_input){0}));
    CHECK(execution_make(e, 0, WIDTH, &place));
    CHECK(matrix_upload(place, zeros));
    return execution_run(e, NULL, 0, g->node_count);
}

TEST(every_failing_allocation_is_survived)
{
    OWNED(graph) *g = elementwise_graph();
    support_fail_each_allocation(run_elementwise, g);
}

/* -- complete networks ------------------------------------------------------------------------- */

static grail_status run_model(const char *directory, const int32_t *ids, int64_t length)
{
    OWNED(grail_model) *model = NULL;
    OWNED(parameter_store) *store = NULL;
    OWNED(machine) m = {0};
    CHECK(grail_model_open(directory, &model));
    CHECK(parameter_store_create(model, backend_host(), NULL, &store));
    CHECK(matrix_pool_create(backend_host(), &m.pool));
    CHECK(execution_create(model->graph, backend_host(), m.pool, &m.e));
    CHECK(execution_begin(m.e, sequence_batch(1, length), (batch_input){.ids = ids}));
    return execution_run(m.e, store, 0, model->graph->node_count);
}

TEST(ids_must_be_there_and_in_the_vocabulary)
{
    const int32_t beyond[] = {1, 2, 96};
    const int32_t negative[] = {1, -1};
    assert_ok(run_model(lab_golden("llama3"), beyond, 2));
    assert_fails(run_model(lab_golden("llama3"), beyond, 3), GRAIL_ERROR_ARGUMENT,
                 "token id 96 at position 2 is outside the vocabulary of 96");
    assert_fails(run_model(lab_golden("llama3"), negative, 2), GRAIL_ERROR_ARGUMENT,
                 "token id -1 at position 1");
    assert_fails(run_model(lab_golden("llama3"), NULL, 2), GRAIL_ERROR_INTERNAL,
                 "without token ids");
}

/* Runs a model whose weights of one tensor are all `value`. */
static void assert_overflow(const char *part, float value, const char *text)
{
    const int32_t ids[] = {1, 2, 3};
    lab_model m;
    char path[LAB_PATH];
    OWNED(temporary) directory = support_temporary_directory();
    snprintf(path, sizeof path, "%s/model", directory);
    lab_read(&m, lab_golden("llama3"));
    lab_tensor *t = lab_find(&m, 1, part);
    for (int64_t i = 0; i < lab_elements(t); i++) {
        t->values[i] = value;
    }
    lab_write(&m, path, GRAIL_DTYPE_F32);
    lab_fini(&m);
    assert_fails(run_model(path, ids, 3), GRAIL_ERROR_NUMERIC, text);
}

TEST(an_overflow_names_the_block_and_the_parameter)
{
    assert_overflow("mlp.up_proj.weight", 3e38F,
                    "block 1: the output of 'model.layers.1.mlp.up_proj.weight' is NaN or "
                    "infinite at row 0, feature 0");
    /* gate * up overflows between the two, and shows in the product that reads it */
    assert_overflow("mlp.gate_proj.weight", 4e37F, "block 1: the output of 'model.layers.1.mlp.");
    assert_overflow("self_attn.o_proj.weight", 3e38F,
                    "block 1: the output of 'model.layers.1.self_attn.o_proj.weight' is NaN");
}

static int count_down(void *user)
{
    int *left = user;
    return --*left < 0;
}

/* The observer is asked before the first operation, however short the time since. */
TEST(a_call_stops_where_its_thread_is_told_to)
{
    OWNED(graph) *g = elementwise_graph();
    OWNED(machine) m;
    double x[COUNT];
    int left = 1;
    start(&m, g);
    place_input(&m, x);
    grail_set_stop(count_down, &left);
    assert_ok(execution_run(m.e, NULL, 0, 1));
    grail_set_stop(count_down, &left);
    assert_fails(execution_run(m.e, NULL, 1, g->node_count), GRAIL_ERROR_CANCELLED, "cancelled");
    grail_set_stop(NULL, NULL);
    assert_ok(execution_run(m.e, NULL, 1, g->node_count));
}
