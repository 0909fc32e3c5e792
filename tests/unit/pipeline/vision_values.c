#include "vision_lab.h"

#include "exec/execution.h"

#include <math.h>
#include <string.h>

static int node_reading(const graph *g, const char *name)
{
    const int weight = graph_find_parameter(g, name);
    assert_true(weight != GRAPH_NONE);
    for (int n = 0; n < g->node_count; n++) {
        if (g->nodes[n].weight == weight) {
            return n;
        }
    }
    fail_msg("nothing reads '%s'", name);
    return GRAPH_NONE;
}

/* A network ready to run on `b`, standing before its first node. */
typedef struct vision_run {
    grail_model *model;
    matrix_pool *pool;
    parameter_store *store;
    execution *e;
} vision_run;

static void run_begin(const vision_lab *v, const char *path, backend *b, vision_run *r)
{
    const batch_shape shape = {.samples = VISION_IMAGES, .positions = {VISION_SIDE, VISION_SIDE}};
    *r = (vision_run){.model = vision_model_open(path)};
    assert_ok(matrix_pool_create(b, &r->pool));
    assert_ok(parameter_store_create(r->model, b, NULL, &r->store));
    assert_ok(execution_create(r->model->graph, b, r->pool, &r->e));
    assert_ok(execution_begin(r->e, shape, (batch_input){.pixels = v->pixels}));
}

static void run_end(vision_run *r)
{
    execution_free(r->e);
    parameter_store_free(r->store);
    matrix_pool_free(r->pool);
    grail_model_close(r->model);
}

static vision_values copy_value(const vision_run *r, int value)
{
    const matrix y = execution_value(r->e, value);
    OWNED(host_view) v = {0};
    assert_true(matrix_exists(y));
    vision_values out = {.rows = y.rows, .width = y.columns};
    const size_t count = (size_t)matrix_count(y);
    assert_ok(memory_new(&out.data, count, sizeof out.data[0]));
    assert_ok(host_view_open(y, GRAIL_DTYPE_F64, HOST_READS, &v));
    memcpy(out.data, v.values, count * sizeof out.data[0]);
    return out;
}

vision_values vision_outputs(const vision_lab *v, const char *path, backend *b)
{
    vision_run r;
    run_begin(v, path, b, &r);
    const graph *g = r.model->graph;
    assert_ok(execution_run(r.e, r.store, 0, g->node_count));
    const vision_values out = copy_value(&r, g->output);
    run_end(&r);
    return out;
}

vision_values vision_tap(const vision_lab *v, const char *path, const char *name, int behind)
{
    vision_run r;
    run_begin(v, path, backend_reference(), &r);
    const int n = node_reading(r.model->graph, name) + behind;
    assert_ok(execution_run(r.e, r.store, 0, n + 1));
    const vision_values out = copy_value(&r, r.model->graph->nodes[n].output);
    run_end(&r);
    return out;
}

vision_values vision_tap_input(const vision_lab *v, const char *path, const char *name)
{
    vision_run r;
    run_begin(v, path, backend_reference(), &r);
    const int n = node_reading(r.model->graph, name);
    assert_ok(execution_run(r.e, r.store, 0, n));
    const vision_values out = copy_value(&r, r.model->graph->nodes[n].inputs[0]);
    run_end(&r);
    return out;
}

/* mean and variance of one column; the variance is left alone where nothing varies. */
static void column_moments(const vision_values *x, int64_t column, float *mean, float *variance)
{
    double sum = 0.0;
    double square = 0.0;
    for (int64_t t = 0; t < x->rows; t++) {
        sum += x->data[t * x->width + column];
    }
    const double average = sum / (double)x->rows;
    for (int64_t t = 0; t < x->rows; t++) {
        const double difference = x->data[t * x->width + column] - average;
        square += difference * difference;
    }
    *mean = (float)average;
    if (square > 1e-20) {
        *variance = (float)(square / (double)(x->rows - 1));
    }
}

static void repair_node(vision_run *r, const node *n, vision_model *m)
{
    const graph *g = r->model->graph;
    float *mean = vision_find(m, g->parameters[n->mean].name)->values;
    float *variance = vision_find(m, g->parameters[n->variance].name)->values;
    vision_values x = copy_value(r, n->inputs[0]);
    for (int64_t k = 0; k < x.width; k++) {
        column_moments(&x, k, &mean[k], &variance[k]);
    }
    assert_ok(parameter_store_set(r->store, n->mean, &x.width, mean));
    assert_ok(parameter_store_set(r->store, n->variance, &x.width, variance));
    memory_free(x.data);
}

void vision_repair(const vision_lab *v, const char *path, vision_model *m)
{
    vision_run r;
    run_begin(v, path, backend_reference(), &r);
    for (int i = 0; i < r.model->graph->node_count; i++) {
        if (r.model->graph->nodes[i].kind == NODE_BATCH_NORM) {
            repair_node(&r, &r.model->graph->nodes[i], m);
        }
        assert_ok(execution_run(r.e, r.store, i, i + 1));
    }
    run_end(&r);
}

double vision_distance(const vision_values *a, const vision_values *b)
{
    double largest = 0.0;
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->width, b->width);
    for (int64_t i = 0; i < a->rows * a->width; i++) {
        const double difference = fabs(a->data[i] - b->data[i]);
        largest = difference <= largest ? largest : difference; /* NaN counts */
    }
    return largest;
}

double vision_difference(const vision_lab *v, const char *a, const char *b)
{
    vision_values left = vision_outputs(v, a, backend_host());
    vision_values right = vision_outputs(v, b, backend_host());
    const double difference = vision_distance(&left, &right);
    memory_free(left.data);
    memory_free(right.data);
    return difference;
}
