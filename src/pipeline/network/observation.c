#include "pipeline/network/observation.h"

#include "graph/operators.h"
#include "pipeline/request/consumer_tail.h"
#include "pipeline/request/experts.h"

void observation_fini(observation *o)
{
    grail_statistics_free(o->fit);
    grail_statistics_free(o->held);
    grail_statistics_free(o->part);
    memory_free(o->weight);
    matrix_free(&o->target_weight);
    matrix_free(&o->local_weight);
    matrix_free(&o->local_bias);
    *o = (observation){0};
}

/* A convolution that is fitted by channel is observed at all positions of its input. If its output
 * has other positions, or each output is a sum over taps, a dense target is computed for each tap
 * from the dense input. */
static bool is_made_by_tap(const plan *p, const node *n, const consumer_layout *layout)
{
    return node_is_convolution(n) && p->compensation.conv_fit == CONV_FIT_CHANNEL &&
           (layout->tap_rows > 1 || n->window.stride > 1);
}

/* Remade units have statistics of the reduced input alone, so they must include the target. */
static observed_target target_of(const compression_request *request, int node_index,
                                 const consumer_layout *layout, bool remade)
{
    const plan *p = &request->plan;
    const node *n = &request->graph->nodes[node_index];
    if (!p->compensation.enabled) {
        return OBSERVES_INPUT_ALONE;
    }
    if (experts_site_at(request->graph, &request->sites->list, p, node_index) != GRAPH_NONE) {
        return OBSERVES_DENSE_OUTPUT; /* of the layer that lacks experts, where others do not */
    }
    if (compensation_uses_dense(&p->compensation) && p->loop == LOOP_CLOSED) {
        return is_made_by_tap(p, n, layout) ? OBSERVES_DENSE_PRODUCT : OBSERVES_DENSE_OUTPUT;
    }
    return remade ? OBSERVES_PRODUCT : OBSERVES_INPUT_ALONE;
}

static bool is_mixed(const plan *p, observed_target target)
{
    return p->compensation.target == TARGET_MIXED &&
           (target == OBSERVES_DENSE_OUTPUT || target == OBSERVES_DENSE_PRODUCT);
}

/* Rows are weighted by the sum behind the consumer, or where a norm of rows stands between by the
 * consumer's output. Through a BatchNorm that is on another scale, so its rows count alike. */
static bool is_weighted(const compression_request *request, int consumer, observed_target target)
{
    const consumer_tail tail = consumer_tail_of(request->graph, consumer);
    return request->plan.compensation.token_weights == TOKEN_WEIGHTS_STREAM &&
           target == OBSERVES_DENSE_OUTPUT && tail.skip != GRAPH_NONE &&
           tail.batch_norm == GRAPH_NONE;
}

static stream_goal goal_of(const compression_request *request, int consumer, observed_target target)
{
    return target == OBSERVES_DENSE_OUTPUT
               ? dropped_goal_of(request->graph, &request->sites->list, &request->plan, consumer)
               : (stream_goal){.value = GRAPH_NONE};
}

static observation describe(const compression_request *request, int index, int consumer)
{
    const plan *p = &request->plan;
    const bool remade = site_is_remade(p, index) && p->loop == LOOP_CLOSED;
    const consumer_layout layout = consumer_layout_of(request, index, consumer);
    const int reader = site_at(request, index)->consumers[consumer].node;
    const node *n = &request->graph->nodes[reader];
    const observed_target target = target_of(request, reader, &layout, remade);
    return (observation){
        .site = index,
        .consumer = consumer,
        .node = reader,
        .remade = remade,
        .of_patches = node_is_convolution(n) && p->compensation.conv_fit == CONV_FIT_KERNEL,
        .target = target,
        .goal = goal_of(request, reader, target),
        .layout = layout,
        .unreduced = remade ? layout.features : 0,
        .weighted = is_weighted(request, reader, target),
        .mixes = is_mixed(p, target),
        .median_square = -1.0,
    };
}

/* The matrix that turns the input's columns into W times the input: W, with zeros for the remade
 * columns behind the others of the same input. */
static grail_status make_target_weight(backend *b, const observation *o, int64_t wide, matrix *out)
{
    const int64_t rows = o->layout.rows * o->layout.tap_rows;
    const int64_t width = o->layout.features * o->layout.taps;
    if (wide == width) {
        CHECK(matrix_new(b, backend_weight_type(b), rows, width, out));
        CHECK(matrix_upload_f32(*out, o->weight));
        return GRAIL_OK;
    }
    CHECK(matrix_new_zero(b, backend_type(b), rows, wide, out));
    return matrix_upload_f32(matrix_columns(*out, 0, width), o->weight);
}

/* A dense output contains the consumer's bias; a product does not. */
static grail_status make_local_bias(const calibration_network *network, observation *o)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    int64_t count = 0;
    const int parameter = network->request->graph->nodes[o->node].bias;
    if (parameter == GRAPH_NONE || o->target != OBSERVES_DENSE_OUTPUT) {
        return GRAIL_OK;
    }
    TRY(parameter_store_read_f32(network->current.parameters, parameter, &bias, &count));
    TRY(matrix_new(network->request->backend, backend_type(network->request->backend), 1, count,
                   &o->local_bias));
    TRY(matrix_upload_f32(o->local_bias, bias));
out:
    memory_free(bias);
    return status;
}

static grail_status create_statistics(backend *b, int64_t width, int64_t outputs, observation *o)
{
    CHECK(statistics_create(b, width, outputs, &o->fit));
    return statistics_create(b, width, outputs, &o->held);
}

grail_status observation_init(const calibration_network *network, int index, int consumer,
                              observation *o)
{
    const compression_request *request = network->request;
    *o = describe(request, index, consumer);
    const site_end *end = &site_at(request, index)->consumers[consumer];
    const int64_t reduced = request->plan.sites[index].kept * end->features_per_unit;
    const int64_t dense_width = o->layout.features * o->layout.taps;
    const int64_t reduced_width = reduced * o->layout.taps;
    const int64_t outputs =
        o->target == OBSERVES_INPUT_ALONE ? 0 : o->layout.rows * o->layout.tap_rows;
    CHECK(consumer_read(network, index, consumer, &o->weight));
    if (o->target == OBSERVES_DENSE_PRODUCT) {
        CHECK(make_target_weight(request->backend, o, dense_width, &o->target_weight));
    } else if (o->target == OBSERVES_PRODUCT) {
        CHECK(make_target_weight(request->backend, o, dense_width + reduced_width,
                                 &o->target_weight));
    }
    if (o->mixes && o->remade) {
        CHECK(
            make_target_weight(request->backend, o, dense_width + reduced_width, &o->local_weight));
        CHECK(make_local_bias(network, o));
    }
    return create_statistics(request->backend, o->remade ? reduced_width : dense_width, outputs, o);
}

grail_status observation_read_map(const calibration_network *network, int node_index,
                                  observation *o)
{
    const compression_request *request = network->request;
    const node *n = &request->graph->nodes[node_index];
    const consumer_layout layout = map_layout_of(request, node_index);
    const int64_t width = layout.features * layout.taps;
    *o = (observation){
        .site = GRAPH_NONE,
        .consumer = GRAPH_NONE,
        .node = node_index,
        .of_patches =
            node_is_convolution(n) && request->plan.compensation.conv_fit == CONV_FIT_KERNEL,
        .target = target_of(request, node_index, &layout, false),
        .layout = layout,
    };
    o->goal = goal_of(request, node_index, o->target);
    o->mixes = is_mixed(&request->plan, o->target);
    CHECK(map_read(network, node_index, &o->weight));
    return o->target == OBSERVES_DENSE_PRODUCT
               ? make_target_weight(request->backend, o, width, &o->target_weight)
               : GRAIL_OK;
}

grail_status observation_init_map(const calibration_network *network, int node_index,
                                  observation *o)
{
    CHECK(observation_read_map(network, node_index, o));
    const consumer_layout *l = &o->layout;
    return create_statistics(network->request->backend, l->features * l->taps,
                             l->rows * l->tap_rows, o);
}

grail_status observation_init_input(const compression_request *request, int index, int consumer,
                                    observation *o)
{
    *o = describe(request, index, consumer);
    o->remade = false; /* the dense network has no merged units */
    o->unreduced = 0;
    return create_statistics(request->backend, o->layout.features * o->layout.taps, 0, o);
}

int observation_dense_end(const observation *o)
{
    switch (o->target) {
    case OBSERVES_DENSE_OUTPUT:
        return o->goal.value == GRAPH_NONE ? o->node + 1 : o->goal.end;
    case OBSERVES_DENSE_PRODUCT:
        return o->node;
    case OBSERVES_INPUT_ALONE:
    case OBSERVES_PRODUCT:
        break;
    }
    return GRAPH_NONE;
}
