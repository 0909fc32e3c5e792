#include "pipeline/network/consumer.h"

#include "graph/operators.h"
#include "pipeline/request/consumer_tail.h"

#include <string.h>

static const node *consumer_node(const compression_request *request, int index, int consumer)
{
    return &request->graph->nodes[site_at(request, index)->consumers[consumer].node];
}

static consumer_layout layout_of(const compression_request *request, const node *n,
                                 int64_t features)
{
    const graph_parameter *weight = &request->graph->parameters[n->weight];
    const cut_axis *rows = &request->cuts[n->weight].rows;
    const int64_t taps = node_is_convolution(n) ? weight->shape[2] * weight->shape[3] : 1;
    const bool by_tap =
        node_is_convolution(n) && request->plan.compensation.conv_fit == CONV_FIT_KERNEL;
    return (consumer_layout){
        .rows =
            rows->site == GRAPH_NONE ? weight->shape[0] : cut_wide_features(&request->plan, rows),
        .features = features,
        .taps = by_tap ? taps : 1,
        .tap_rows = by_tap ? 1 : taps,
    };
}

consumer_layout consumer_layout_of(const compression_request *request, int index, int consumer)
{
    const site *s = site_at(request, index);
    return layout_of(request, consumer_node(request, index, consumer),
                     s->units * s->consumers[consumer].features_per_unit);
}

consumer_layout map_layout_of(const compression_request *request, int node_index)
{
    const node *n = &request->graph->nodes[node_index];
    return layout_of(request, n, request->graph->parameters[n->weight].shape[1]);
}

/* out[rows, inner, outer] <- in[rows, outer, inner] */
static void swap_inner(int64_t rows, int64_t outer, int64_t inner, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t i = 0; i < inner; i++) {
                out[(r * inner + i) * outer + o] = in[(r * outer + o) * inner + i];
            }
        }
    }
}

static grail_status read_weight(const calibration_network *network, int weight, consumer_layout l,
                                float **out)
{
    float *turned = NULL;
    int64_t count = 0;
    CHECK(parameter_store_read_f32(network->current.parameters, weight, out, &count));
    if (count != l.rows * l.tap_rows * l.features * l.taps) {
        return error_set(GRAIL_ERROR_INTERNAL, "a consumer has %lld weights, expected %lld x %lld",
                         (long long)count, (long long)(l.rows * l.tap_rows),
                         (long long)(l.features * l.taps));
    }
    if (l.tap_rows > 1) {
        CHECK(memory_new_unset(&turned, (size_t)count, sizeof turned[0]));
        swap_inner(l.rows, l.features, l.tap_rows, *out, turned);
        memory_free(*out);
        *out = turned;
    }
    return GRAIL_OK;
}

grail_status consumer_read(const calibration_network *network, int index, int consumer, float **out)
{
    const compression_request *request = network->request;
    return read_weight(network, consumer_node(request, index, consumer)->weight,
                       consumer_layout_of(request, index, consumer), out);
}

grail_status map_read(const calibration_network *network, int node_index, float **out)
{
    const compression_request *request = network->request;
    return read_weight(network, request->graph->nodes[node_index].weight,
                       map_layout_of(request, node_index), out);
}

grail_status consumer_merge(const calibration_network *network, const grail_reducer *reducer,
                            int index, int consumer, const float *weight, float **out)
{
    const consumer_layout l = consumer_layout_of(network->request, index, consumer);
    const site_end *end = &site_at(network->request, index)->consumers[consumer];
    const int64_t u = end->features_per_unit * l.taps;
    const int64_t rows = l.rows * l.tap_rows;
    CHECK(memory_new_unset(out, (size_t)(rows * reducer->kept * u), sizeof **out));
    reducer_merge_columns(reducer, end->exchangeable, u, rows, weight, *out);
    return GRAIL_OK;
}

/* wide[rows, W] <- narrow[rows, K u] in the columns that the reduced units have there: those of the
 * dense ones, or `behind` them. */
static void scatter_columns(const grail_reducer *r, bool behind, int64_t u, int64_t rows,
                            int64_t wide_width, const float *narrow, float *wide)
{
    const int64_t width = r->kept * u;
    for (int64_t row = 0; row < rows; row++) {
        const float *from = narrow + row * width;
        float *to = wide + row * wide_width;
        if (behind) {
            memcpy(to + r->units * u, from, (size_t)width * sizeof *to);
            continue;
        }
        for (int64_t j = 0; j < r->units; j++) {
            if (r->labels[j] >= 0) {
                memcpy(to + j * u, from + r->labels[j] * u, (size_t)u * sizeof *to);
            }
        }
    }
}

/* out_o = sum over the taps of output o: what they add together where the patch lies inside the
 * image. */
static void sum_taps(int64_t rows, int64_t taps, const double *in, double *out)
{
    for (int64_t r = 0; r < rows; r++) {
        out[r] = 0.0;
        for (int64_t t = 0; t < taps; t++) {
            out[r] += in[r * taps + t];
        }
    }
}

static grail_status change_bias(calibration_network *network, int node_index,
                                const consumer_layout *l, const double *change)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    double *sums = NULL;
    int64_t count = 0;
    const bias_slot slot = consumer_bias_slot(network->request->graph, node_index);
    TRY(memory_new(&sums, (size_t)l->rows, sizeof sums[0]));
    sum_taps(l->rows, l->tap_rows, change, sums);
    TRY(parameter_store_read_f32(network->current.parameters, slot.parameter, &bias, &count));
    for (int64_t o = 0; o < count; o++) {
        bias[o] = (float)((double)bias[o] + slot.sign * sums[o]);
    }
    TRY(parameter_store_set(network->current.parameters, slot.parameter, &count, bias));
out:
    memory_free(bias);
    memory_free(sums);
    return status;
}

/* Whether a consumer that is set runs on the wide axis: other consumers of its site follow, or the
 * site spans blocks. In an open loop it does not run before all sites are narrow. */
static bool runs_wide(const compression_request *request, int index, int consumer)
{
    const bool is_last = consumer == site_at(request, index)->consumer_count - 1;
    return request->plan.loop == LOOP_CLOSED && !(is_last && site_narrows_in_walk(request, index));
}

grail_status consumer_set_stored(calibration_network *network, int index, int consumer,
                                 const float *narrow)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const grail_reducer *reducer = network->results[index].reducer;
    const node *n = consumer_node(request, index, consumer);
    const consumer_layout l = consumer_layout_of(request, index, consumer);
    const cut_axis *axis = &request->cuts[n->weight].columns;
    const bool is_wide = runs_wide(request, index, consumer);
    const int64_t width =
        is_wide ? cut_wide_features(&request->plan, axis) : reducer->kept * axis->features;
    float *wide = NULL;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    if (is_wide) {
        TRY(memory_new(&wide, (size_t)(l.rows * width), sizeof wide[0]));
        scatter_columns(reducer, site_is_remade(&request->plan, index), axis->features, l.rows,
                        width, narrow, wide);
    }
    memcpy(shape, request->graph->parameters[n->weight].shape, sizeof shape);
    shape[0] = l.rows;
    shape[1] = width / (l.taps * l.tap_rows);
    TRY(parameter_store_set(network->current.parameters, n->weight, shape,
                            is_wide ? wide : narrow));
out:
    memory_free(wide);
    return status;
}

grail_status consumer_set(calibration_network *network, int index, int consumer,
                          const float *narrow, const double *bias_change)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const node *n = consumer_node(request, index, consumer);
    const consumer_layout l = consumer_layout_of(request, index, consumer);
    const int64_t taps = l.taps * l.tap_rows;
    const int64_t kept =
        network->results[index].reducer->kept * (request->cuts[n->weight].columns.features / taps);
    const float *natural = narrow;
    float *turned = NULL;
    if (l.tap_rows > 1) {
        TRY(memory_new_unset(&turned, (size_t)(l.rows * kept * taps), sizeof turned[0]));
        swap_inner(l.rows, taps, kept, narrow, turned);
        natural = turned;
    }
    TRY(consumer_set_stored(network, index, consumer, natural));
    if (bias_change != NULL) {
        TRY(change_bias(network, site_at(request, index)->consumers[consumer].node, &l,
                        bias_change));
    }
out:
    memory_free(turned);
    return status;
}

grail_status map_set(calibration_network *network, int node_index, const float *weight,
                     const double *bias_change)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const int parameter = request->graph->nodes[node_index].weight;
    const consumer_layout l = map_layout_of(request, node_index);
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    float *turned = NULL;
    memcpy(shape, request->graph->parameters[parameter].shape, sizeof shape);
    shape[0] = l.rows;
    if (l.tap_rows > 1) {
        TRY(memory_new_unset(&turned, (size_t)(l.rows * l.tap_rows * l.features),
                             sizeof turned[0]));
        swap_inner(l.rows, l.tap_rows, l.features, weight, turned);
    }
    TRY(parameter_store_set(network->current.parameters, parameter, shape,
                            turned == NULL ? weight : turned));
    if (bias_change != NULL) {
        TRY(change_bias(network, node_index, &l, bias_change));
    }
out:
    memory_free(turned);
    return status;
}
