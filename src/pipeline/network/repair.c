#include "pipeline/network/repair.h"

#include "pipeline/network/carry.h"

typedef struct channel_sums {
    int value;
    int64_t width, count;
    double *sum, *square; /* [width] */
} channel_sums;

static grail_status add_batch(calibration_network *network, int64_t batch, void *user)
{
    channel_sums *s = user;
    const matrix *x = execution_value(network->current.execution, s->value);
    (void)batch;
    network->request->backend->column_sums(x->rows, x->width, x->data, x->width, s->sum, s->square);
    s->count += x->rows;
    return GRAIL_OK;
}

/* A channel that does not vary on the samples keeps its variance: division by a tiny variance would
 * amplify the channel on other data. The variance is unbiased, as torch stores it. */
static void new_statistics(const channel_sums *s, float *mean, float *variance)
{
    static const double nothing = 1e-12; /* of the second moment: rounding of the f64 sums */
    const double count = (double)s->count;
    for (int64_t k = 0; k < s->width; k++) {
        const double average = s->sum[k] / count;
        const double second = s->square[k] / count;
        const double spread = second - average * average;
        mean[k] = (float)average;
        if (s->count > 1 && spread > nothing * second) {
            variance[k] = (float)(spread * count / (count - 1.0));
        }
    }
}

static grail_status set_statistics(calibration_network *network, const node *n,
                                   const channel_sums *s)
{
    grail_status status = GRAIL_OK;
    float *mean = NULL;
    float *variance = NULL;
    int64_t count = 0;
    TRY(parameter_store_read_f32(network->current.parameters, n->mean, &mean, &count));
    TRY(parameter_store_read_f32(network->current.parameters, n->variance, &variance, &count));
    new_statistics(s, mean, variance);
    TRY(parameter_store_set(network->current.parameters, n->mean, &count, mean));
    TRY(parameter_store_set(network->current.parameters, n->variance, &count, variance));
out:
    memory_free(mean);
    memory_free(variance);
    return status;
}

grail_status repair_batch_norm(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &network->request->graph->nodes[index];
    const parameter_entry *entry = NULL;
    channel_sums s = {.value = n->inputs[0]};
    TRY(parameter_store_get(network->current.parameters, n->mean, &entry));
    s.width = entry->shape[0];
    TRY(memory_new(&s.sum, (size_t)s.width, sizeof s.sum[0]));
    TRY(memory_new(&s.square, (size_t)s.width, sizeof s.square[0]));
    TRY(streams_carry(network, index, GRAPH_NONE, add_batch, &s));
    TRY(set_statistics(network, n, &s));
out:
    memory_free(s.sum);
    memory_free(s.square);
    return status;
}
