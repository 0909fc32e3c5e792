#include "pipeline/network/repair.h"

#include "backend/operations.h"
#include "pipeline/network/carry.h"

typedef struct channel_sums {
    int value;
    int64_t width, count;
    matrix sum, square; /* [1, width] */
    int64_t part_count; /* of the chunk whose batches are being added */
    matrix part_sum, part_square;
} channel_sums;

static grail_status add_batch(calibration_network *network, int64_t batch, void *user)
{
    channel_sums *s = user;
    const matrix x = execution_value(network->current.execution, s->value);
    (void)batch;
    s->part_count += x.rows;
    return matrix_column_sums(x, s->part_sum, s->part_square);
}

static chunk_sums sums_of_channels(void *user, bool held_out)
{
    channel_sums *s = user;
    chunk_sums sums = {.part_rows = &s->part_count, .total_rows = &s->count};
    (void)held_out;
    chunk_sums_append_matrix(&sums, &s->part_sum, &s->sum);
    chunk_sums_append_matrix(&sums, &s->part_square, &s->square);
    return sums;
}

/* A channel that does not vary on the samples keeps its variance: division by a tiny variance would
 * amplify the channel on other data. The variance is unbiased, as torch stores it. */
static void new_statistics(const channel_sums *s, const double *sum, const double *square,
                           float *mean, float *variance)
{
    static const double nothing = 1e-12; /* of the second moment: rounding of the f64 sums */
    const double count = (double)s->count;
    for (int64_t k = 0; k < s->width; k++) {
        const double average = sum[k] / count;
        const double second = square[k] / count;
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
    host_view sum = {0};
    host_view square = {0};
    float *mean = NULL;
    float *variance = NULL;
    int64_t count = 0;
    TRY(host_view_open(s->sum, GRAIL_DTYPE_F64, HOST_READS, &sum));
    TRY(host_view_open(s->square, GRAIL_DTYPE_F64, HOST_READS, &square));
    TRY(parameter_store_read_f32(network->current.parameters, n->mean, &mean, &count));
    TRY(parameter_store_read_f32(network->current.parameters, n->variance, &variance, &count));
    new_statistics(s, sum.values, square.values, mean, variance);
    TRY(parameter_store_set(network->current.parameters, n->mean, &count, mean));
    TRY(parameter_store_set(network->current.parameters, n->variance, &count, variance));
out:
    host_view_drop(&sum);
    host_view_drop(&square);
    memory_free(mean);
    memory_free(variance);
    return status;
}

static grail_status channel_sums_init(backend *b, int64_t width, channel_sums *s)
{
    matrix *const sums[] = {&s->sum, &s->square, &s->part_sum, &s->part_square};
    s->width = width;
    for (int i = 0; i < 4; i++) {
        CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, width, sums[i]));
    }
    return GRAIL_OK;
}

static void channel_sums_fini(channel_sums *s)
{
    matrix_free(&s->sum);
    matrix_free(&s->square);
    matrix_free(&s->part_sum);
    matrix_free(&s->part_square);
}

grail_status repair_batch_norm(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const node *n = &network->request->graph->nodes[index];
    const parameter_entry *entry = NULL;
    channel_sums s = {.value = n->inputs[0]};
    const sums_visitor visitor = {.add = add_batch, .sums = sums_of_channels, .user = &s};
    TRY(parameter_store_get(network->current.parameters, n->mean, &entry));
    TRY(channel_sums_init(network->request->backend, entry->shape[0], &s));
    TRY(streams_carry(network, index, GRAPH_NONE, &visitor));
    TRY(set_statistics(network, n, &s));
out:
    channel_sums_fini(&s);
    return status;
}
