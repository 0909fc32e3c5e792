#include "pipeline/network/repair.h"

#include "backend/operations.h"
#include "pipeline/network/column_sums.h"

/* A channel that does not vary on the samples keeps its variance: division by a tiny variance would
 * amplify the channel on other data. The variance is unbiased, as torch stores it. */
static void new_statistics(const column_sums *s, const double *sum, const double *square,
                           int64_t width, float *mean, float *variance)
{
    static const double nothing = 1e-12; /* of the second moment: rounding of the f64 sums */
    const double count = (double)s->rows;
    for (int64_t k = 0; k < width; k++) {
        const double average = sum[k] / count;
        const double second = square[k] / count;
        const double spread = second - average * average;
        mean[k] = (float)average;
        if (s->rows > 1 && spread > nothing * second) {
            variance[k] = (float)(spread * count / (count - 1.0));
        }
    }
}

static grail_status set_statistics(calibration_network *network, const node *n,
                                   const column_sums *s)
{
    grail_status status = GRAIL_OK;
    host_view sum = {0};
    host_view square = {0};
    float *mean = NULL;
    float *variance = NULL;
    int64_t count = 0;
    TRY(host_view_open(s->sums, GRAIL_DTYPE_F64, HOST_READS, &sum));
    TRY(host_view_open(s->squares, GRAIL_DTYPE_F64, HOST_READS, &square));
    TRY(parameter_store_read_f32(network->current.parameters, n->mean, &mean, &count));
    TRY(parameter_store_read_f32(network->current.parameters, n->variance, &variance, &count));
    new_statistics(s, sum.values, square.values, count, mean, variance);
    TRY(parameter_store_set(network->current.parameters, n->mean, &count, mean));
    TRY(parameter_store_set(network->current.parameters, n->variance, &count, variance));
out:
    host_view_drop(&sum);
    host_view_drop(&square);
    memory_free(mean);
    memory_free(variance);
    return status;
}

grail_status repair_batch_norm(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &network->request->graph->nodes[index];
    const parameter_entry *entry = NULL;
    column_sums s = {0};
    TRY(parameter_store_get(network->current.parameters, n->mean, &entry));
    TRY(column_sums_init(network->request->backend, n->inputs[0], entry->shape[0], true, &s));
    TRY(pass_visit(network, index, GRAPH_NONE, column_sums_visitor(&s, index)));
    TRY(set_statistics(network, n, &s));
out:
    column_sums_fini(&s);
    return status;
}
