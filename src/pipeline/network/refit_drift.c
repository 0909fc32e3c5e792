#include "pipeline/network/refit_drift.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/network/compensate.h"
#include "pipeline/network/observation.h"
#include "pipeline/network/pass.h"
#include "pipeline/request/consumer_tail.h"
#include "solve/drift.h"

#include <string.h>

/* The sums of the value that maps read. */
typedef struct drifted_value {
    int node; /* the first map */
    drift_sums fit, held;
    drift_sums part; /* of the chunk whose batches are being added */
} drifted_value;

/* -- which maps ---------------------------------------------------------------------------------
 */

static grail_status has_dense_weight(const calibration_network *network, const observation *o,
                                     bool *out)
{
    grail_status status = GRAIL_OK;
    float *dense = NULL;
    int64_t count = 0;
    const int weight = network->request->graph->nodes[o->node].weight;
    TRY(parameter_store_read_f32(network->dense.parameters, weight, &dense, &count));
    *out = count == o->layout.rows * o->layout.features &&
           memcmp(dense, o->weight, (size_t)count * sizeof dense[0]) == 0;
out:
    memory_free(dense);
    return status;
}

/* Rows of its weight are those of the dense network, too: nothing was merged. *outputs grows. */
static grail_status map_serves(const calibration_network *network, int node_index, int64_t *outputs,
                               int64_t *width, bool *out)
{
    grail_status status = GRAIL_OK;
    observation o = {0};
    const graph *g = network->request->graph;
    *out = false;
    if (!node_is_linear(&g->nodes[node_index]) ||
        consumer_tail_of(g, node_index).skip != GRAPH_NONE) {
        return GRAIL_OK;
    }
    TRY(observation_read_map(network, node_index, &o));
    *outputs += o.layout.rows;
    *width = o.layout.features;
    if (o.target == OBSERVES_DENSE_OUTPUT && o.goal.value == GRAPH_NONE) {
        TRY(has_dense_weight(network, &o, out));
    }
out:
    observation_fini(&o);
    return status;
}

/* Sums over rows take O H products for a target of O outputs, and 1.5 H^2 for the drift, of whose
 * squares one triangle is added. */
grail_status refit_drift_serves(const calibration_network *network, int first, int count, bool *out)
{
    int64_t outputs = 0;
    int64_t width = 0;
    *out = true;
    for (int i = 0; *out && i < count; i++) {
        CHECK(map_serves(network, first + i, &outputs, &width, out));
    }
    *out = *out && 2 * outputs > 3 * width;
    return GRAIL_OK;
}

/* -- sums ----------------------------------------------------------------------------------------
 */

static grail_status add_rows(calibration_network *network, const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    drifted_value *v = user;
    matrix x = {0};
    const graph *g = network->request->graph;
    const int value = g->nodes[v->node].inputs[0];
    const matrix dense = execution_value(network->dense.execution, value);
    TRY(matrix_pool_take(network->pool, dense.rows, dense.columns, &x));
    TRY(matrix_copy(dense, x));
    TRY(drift_sums_accumulate(&v->part, execution_value(e, value), x));
out:
    matrix_pool_give(network->pool, &x);
    return status;
}

static chunk_sums sums_of(void *user, bool held_out)
{
    drifted_value *v = user;
    return drift_chunk_sums(&v->part, held_out ? &v->held : &v->fit);
}

static grail_status create_sums(calibration_network *network, drifted_value *v)
{
    backend *b = network->request->backend;
    const int64_t width = map_layout_of(network->request, v->node).features;
    CHECK(drift_sums_create(b, width, &v->fit));
    CHECK(drift_sums_create(b, width, &v->held));
    return drift_sums_create(b, width, &v->part);
}

static grail_status take_sums(calibration_network *network, drifted_value *v)
{
    const visitor adds = {.add = add_rows, .sums = sums_of, .user = v};
    CHECK(create_sums(network, v));
    CHECK(pass_visit(network, v->node, v->node, adds));
    matrix_pool_clear(network->pool);
    drift_sums_fini(&v->part);
    CHECK(drift_sums_settle(&v->fit));
    return drift_sums_settle(&v->held);
}

static void drifted_value_fini(drifted_value *v)
{
    drift_sums_fini(&v->fit);
    drift_sums_fini(&v->held);
    drift_sums_fini(&v->part);
}

grail_status refit_drift(calibration_network *network, int first, int count)
{
    grail_status status = GRAIL_OK;
    drifted_value v = {.node = first};
    TRY(take_sums(network, &v));
    for (int i = first; i < first + count; i++) {
        TRY(compensate_drifted_map(network, i, &v.fit, &v.held));
    }
out:
    drifted_value_fini(&v);
    return status;
}
