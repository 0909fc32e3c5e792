/* A consumer's weight: as the regression sees it, and as the calibration network holds it. */
#include "pipeline/compression.h"
#include "pipeline/request/consumer_tail.h"

#include <string.h>

static const node *consumer_node(const grail_compression *c, int index, int consumer)
{
    return &c->request->graph->nodes[site_at(c->request, index)->consumers[consumer].node];
}

consumer_layout consumer_layout_of(const grail_compression *c, int index, int consumer)
{
    const site *s = site_at(c->request, index);
    const node *n = consumer_node(c, index, consumer);
    const graph_parameter *weight = &c->request->graph->parameters[n->weight];
    const cut_axis *rows = &c->request->cuts[n->weight].rows;
    const int64_t taps = n->kind == NODE_CONV2D ? weight->shape[2] * weight->shape[3] : 1;
    const bool by_tap =
        n->kind == NODE_CONV2D && c->request->plan.compensation.conv == CONV_FIT_KERNEL;
    return (consumer_layout){
        .rows = rows->site == GRAPH_NONE ? weight->shape[0]
                                         : cut_wide_features(&c->request->plan, rows),
        .features = s->units * s->consumers[consumer].features_per_unit,
        .taps = by_tap ? taps : 1,
        .tap_rows = by_tap ? 1 : taps,
    };
}

/* out[rows * taps, features] <- in[rows, features, taps] */
static void taps_to_rows(int64_t rows, int64_t features, int64_t taps, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t f = 0; f < features; f++) {
            for (int64_t t = 0; t < taps; t++) {
                out[(r * taps + t) * features + f] = in[(r * features + f) * taps + t];
            }
        }
    }
}

/* out[rows, features, taps] <- in[rows * taps, features] */
static void rows_to_taps(int64_t rows, int64_t features, int64_t taps, const float *in, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t f = 0; f < features; f++) {
            for (int64_t t = 0; t < taps; t++) {
                out[(r * features + f) * taps + t] = in[(r * taps + t) * features + f];
            }
        }
    }
}

grail_status consumer_read(grail_compression *c, int index, int consumer, float **out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    float *turned = NULL;
    int64_t count = 0;
    const consumer_layout l = consumer_layout_of(c, index, consumer);
    TRY(parameter_store_read_f32(c->network->current.parameters,
                                 consumer_node(c, index, consumer)->weight, &values, &count));
    if (count != l.rows * l.tap_rows * l.features * l.taps) {
        FAIL(GRAIL_ERROR_INTERNAL, "a consumer has %lld weights, expected %lld x %lld",
             (long long)count, (long long)(l.rows * l.tap_rows), (long long)(l.features * l.taps));
    }
    if (l.tap_rows > 1) {
        TRY(memory_new_unset(&turned, (size_t)count, sizeof turned[0]));
        taps_to_rows(l.rows, l.features, l.tap_rows, values, turned);
        memory_free(values);
        values = turned;
        turned = NULL;
    }
    *out = values;
    values = NULL;
out:
    memory_free(values);
    memory_free(turned);
    return status;
}

grail_status consumer_merge(const grail_compression *c, int index, int consumer,
                            const float *weight, float **out)
{
    grail_status status = GRAIL_OK;
    const consumer_layout l = consumer_layout_of(c, index, consumer);
    const site_end *end = &site_at(c->request, index)->consumers[consumer];
    const grail_reducer *reducer = c->network->results[index].reducer;
    const int64_t u = end->features_per_unit * l.taps;
    const int64_t rows = l.rows * l.tap_rows;
    float *narrow = NULL;
    TRY(memory_new_unset(&narrow, (size_t)(rows * reducer->kept * u), sizeof narrow[0]));
    reducer_merge_columns(reducer, end->exchangeable, u, rows, weight, narrow);
    *out = narrow;
    narrow = NULL;
out:
    memory_free(narrow);
    return status;
}

/* wide[rows, W] <- narrow[rows, K u] in the columns that the reduced units have there. */
static void scatter_columns(const grail_reducer *r, int64_t u, int64_t rows, int64_t wide_width,
                            const float *narrow, float *wide)
{
    const int64_t width = r->kept * u;
    for (int64_t row = 0; row < rows; row++) {
        const float *from = narrow + row * width;
        float *to = wide + row * wide_width;
        if (r->folds) {
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

/* out_o = sum over a row's taps: what all of them add to an output whose patch lies inside. */
static void sum_taps(int64_t rows, int64_t taps, const double *in, double *out)
{
    for (int64_t r = 0; r < rows; r++) {
        out[r] = 0.0;
        for (int64_t t = 0; t < taps; t++) {
            out[r] += in[r * taps + t];
        }
    }
}

static grail_status change_bias(grail_compression *c, const node *n, const consumer_layout *l,
                                const double *change)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    double *sums = NULL;
    int64_t count = 0;
    const bias_slot slot =
        consumer_bias_slot(c->request->graph, (int)(n - c->request->graph->nodes));
    TRY(memory_new(&sums, (size_t)l->rows, sizeof sums[0]));
    sum_taps(l->rows, l->tap_rows, change, sums);
    TRY(parameter_store_read_f32(c->network->current.parameters, slot.parameter, &bias, &count));
    for (int64_t o = 0; o < count; o++) {
        bias[o] = (float)((double)bias[o] + slot.sign * sums[o]);
    }
    TRY(parameter_store_set(c->network->current.parameters, slot.parameter, &count, bias));
out:
    memory_free(bias);
    memory_free(sums);
    return status;
}

grail_status consumer_restore(grail_compression *c, int index, int consumer, const float *narrow)
{
    grail_status status = GRAIL_OK;
    const node *n = consumer_node(c, index, consumer);
    const consumer_layout l = consumer_layout_of(c, index, consumer);
    const cut_axis *axis = &c->request->cuts[n->weight].columns;
    const int64_t taps = l.taps * l.tap_rows;
    const int64_t width = cut_wide_features(&c->request->plan, axis);
    float *wide = NULL;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    TRY(memory_new(&wide, (size_t)(l.rows * width), sizeof wide[0]));
    scatter_columns(c->network->results[index].reducer, axis->features, l.rows, width, narrow,
                    wide);
    memcpy(shape, c->request->graph->parameters[n->weight].shape, sizeof shape);
    shape[0] = l.rows;
    shape[1] = width / taps;
    TRY(parameter_store_set(c->network->current.parameters, n->weight, shape, wide));
out:
    memory_free(wide);
    return status;
}

grail_status consumer_set(grail_compression *c, int index, int consumer, const float *narrow,
                          const double *bias_change)
{
    grail_status status = GRAIL_OK;
    const node *n = consumer_node(c, index, consumer);
    const consumer_layout l = consumer_layout_of(c, index, consumer);
    const int64_t taps = l.taps * l.tap_rows;
    const int64_t kept = c->network->results[index].reducer->kept *
                         (c->request->cuts[n->weight].columns.features / taps);
    const float *natural = narrow;
    float *turned = NULL;
    if (l.tap_rows > 1) {
        TRY(memory_new_unset(&turned, (size_t)(l.rows * kept * taps), sizeof turned[0]));
        rows_to_taps(l.rows, kept, taps, narrow, turned);
        natural = turned;
    }
    TRY(consumer_restore(c, index, consumer, natural));
    if (bias_change != NULL) {
        TRY(change_bias(c, n, &l, bias_change));
    }
out:
    memory_free(turned);
    return status;
}
