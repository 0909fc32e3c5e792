#include "pipeline/network/target.h"

#include "pipeline/request/consumer_tail.h"

#include <math.h>
#include <string.h>

/* Copies a dense value [rows, n u]. If the calibration network has merged channels on this axis,
 * their means are appended: [X | X M]. *out belongs to the pool. */
static grail_status copy_with_means(const calibration_network *network, const cut_axis *axis,
                                    const matrix *in, void **out)
{
    grail_status status = GRAIL_OK;
    float *narrow = NULL;
    float *wide = NULL;
    const backend *b = network->request->backend;
    const int64_t width =
        axis->site == GRAPH_NONE ? in->width : cut_wide_features(&network->request->plan, axis);
    TRY(buffer_pool_take(network->pool, (size_t)(in->rows * width) * b->element_size, out));
    if (width == in->width) {
        memcpy(*out, in->data, (size_t)(in->rows * width) * b->element_size);
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&narrow, (size_t)(in->rows * in->width), sizeof narrow[0]));
    TRY(memory_new_unset(&wide, (size_t)(in->rows * width), sizeof wide[0]));
    b->to_f32(in->rows * in->width, in->data, narrow);
    reducer_append_means(network->results[axis->site].reducer, axis->features, in->rows, narrow,
                         wide);
    b->from_f32(in->rows * width, wide, *out);
out:
    memory_free(narrow);
    memory_free(wide);
    return status;
}

/* For each channel sqrt(variance + epsilon) / weight: the change before a BatchNorm that changes
 * its output by 1. Channels with a weight near zero get 0, because their input hardly affects the
 * output. */
static grail_status inverse_scale(parameter_store *parameters, const node *norm, int64_t width,
                                  float *out)
{
    grail_status status = GRAIL_OK;
    static const double smallest = 1e-4; /* of the largest weight */
    float *weight = NULL;
    float *variance = NULL;
    int64_t count = 0;
    double largest = 0.0;
    TRY(parameter_store_read_f32(parameters, norm->weight, &weight, &count));
    TRY(parameter_store_read_f32(parameters, norm->variance, &variance, &count));
    for (int64_t k = 0; k < width; k++) {
        largest = fmax(largest, fabs((double)weight[k]));
    }
    for (int64_t k = 0; k < width; k++) {
        const bool off = fabs((double)weight[k]) <= smallest * largest;
        out[k] =
            off ? 0.0F : (float)(sqrt((double)variance[k] + norm->epsilon) / (double)weight[k]);
    }
out:
    memory_free(weight);
    memory_free(variance);
    return status;
}

/* X[rows, width] *= 1 scale^T, computed as a BatchNorm of mean 0 and variance 1. May take over
 * *scale. */
static grail_status scale_columns(const backend *b, int64_t rows, int64_t width, float **scale,
                                  void *x)
{
    grail_status status = GRAIL_OK;
    float *plain = NULL;
    void *zeros = NULL;
    void *ones = NULL;
    void *weight = NULL;
    TRY(memory_new(&plain, (size_t)width, sizeof plain[0]));
    for (int64_t k = 0; k < width; k++) {
        plain[k] = 1.0F;
    }
    TRY(memory_new(&zeros, (size_t)width, b->element_size));
    TRY(elements_from_f32(b, width, &plain, &ones));
    TRY(elements_from_f32(b, width, scale, &weight));
    b->batch_norm(rows, width, 0.0, x, zeros, ones, weight, NULL, x);
out:
    memory_free(plain);
    memory_free(zeros);
    memory_free(ones);
    memory_free(weight);
    return status;
}

/* Y += (dense skip - compressed skip), converted to the input of the BatchNorm if one stands
 * between. With this target the sum after the Add is that of the dense network. `rows` is the axis
 * of the consumer's outputs. */
static grail_status add_drift(const calibration_network *network, const cut_axis *rows,
                              const consumer_tail *tail, void *y)
{
    grail_status status = GRAIL_OK;
    void *drift = NULL;
    float *scale = NULL;
    const backend *b = network->request->backend;
    const matrix *compressed = execution_value(network->current.execution, tail->skip);
    const int64_t count = compressed->rows * compressed->width;
    TRY(copy_with_means(network, rows, execution_value(network->dense.execution, tail->skip),
                        &drift));
    b->subtract(count, drift, compressed->data, drift);
    if (tail->batch_norm != GRAPH_NONE) {
        TRY(memory_new(&scale, (size_t)compressed->width, sizeof scale[0]));
        TRY(inverse_scale(network->current.parameters,
                          &network->request->graph->nodes[tail->batch_norm], compressed->width,
                          scale));
        TRY(scale_columns(b, compressed->rows, compressed->width, &scale, drift));
    }
    b->add(count, y, drift, y);
out:
    buffer_pool_give(network->pool, drift);
    memory_free(scale);
    return status;
}

grail_status dense_target(const calibration_network *network, int consumer, void **out)
{
    grail_status status = GRAIL_OK;
    const graph *g = network->request->graph;
    const node *n = &g->nodes[consumer];
    const cut_axis *rows = &network->request->cuts[n->weight].rows;
    const consumer_tail tail = consumer_tail_of(g, consumer);
    void *y = NULL;
    TRY(copy_with_means(network, rows, execution_value(network->dense.execution, n->output), &y));
    if (tail.skip != GRAPH_NONE) {
        TRY(add_drift(network, rows, &tail, y));
    }
    *out = y;
    y = NULL;
out:
    buffer_pool_give(network->pool, y);
    return status;
}
