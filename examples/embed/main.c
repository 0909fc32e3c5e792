/* Narrowing one hidden layer of a program's own network with grail's numeric core alone: no
 * checkpoint, no model, only buffers.
 *
 * The layer is y = W h with h = relu(V x): HIDDEN neurons of which KEPT stay. The program shows the
 * activations h to the statistics, keeps the neurons that matter most, lets grail fit the narrowed
 * W', and compares both narrowed layers with the dense one on inputs that the fit has not seen. */
#include <grail/machine.h>
#include <grail/reducer.h>
#include <grail/ridge.h>
#include <grail/statistics.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 24, HIDDEN = 96, KEPT = 48, OUTPUTS = 16, BATCH = 256, BATCHES = 8 };

typedef struct layer {
    float producer[HIDDEN * INPUTS];  /* V */
    float consumer[OUTPUTS * HIDDEN]; /* W */
} layer;

/* Uniform in [-1, 1), from a 64-bit linear congruence (Knuth's MMIX constants). */
static float random_value(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (float)(*state >> 40) * 0x1p-23F - 1.0F;
}

static void fill(size_t count, float *values, uint64_t *state)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = random_value(state);
    }
}

/* out[rows, outputs] = in[rows, inputs] weight[outputs, inputs]^T */
static void multiply(size_t rows, size_t inputs, size_t outputs, const float *in,
                     const float *weight, float *out)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t o = 0; o < outputs; o++) {
            float sum = 0.0F;
            for (size_t i = 0; i < inputs; i++) {
                sum += in[r * inputs + i] * weight[o * inputs + i];
            }
            out[r * outputs + o] = sum;
        }
    }
}

/* h[BATCH, hidden] = relu(x V^T) for a fresh batch of inputs */
static void hidden_batch(const float *producer, size_t hidden, const float *x, float *h)
{
    multiply(BATCH, INPUTS, hidden, x, producer, h);
    for (size_t i = 0; i < BATCH * hidden; i++) {
        h[i] = h[i] > 0.0F ? h[i] : 0.0F;
    }
}

static grail_status observe(const layer *dense, uint64_t *state, grail_statistics *statistics)
{
    static float x[BATCH * INPUTS];
    static float h[BATCH * HIDDEN];
    grail_status status = GRAIL_OK;
    for (int b = 0; status == GRAIL_OK && b < BATCHES; b++) {
        fill(BATCH * INPUTS, x, state);
        hidden_batch(dense->producer, HIDDEN, x, h);
        status = grail_statistics_accumulate(statistics, BATCH, h, HIDDEN, NULL, 0);
    }
    return status;
}

typedef struct scored_unit {
    double score;
    int64_t unit;
} scored_unit;

static int by_score(const void *left, const void *right)
{
    const double a = ((const scored_unit *)left)->score;
    const double b = ((const scored_unit *)right)->score;
    return (a < b) - (a > b);
}

static int by_unit(const void *left, const void *right)
{
    const int64_t a = ((const scored_unit *)left)->unit;
    const int64_t b = ((const scored_unit *)right)->unit;
    return (a > b) - (a < b);
}

/* Any rule of the program's own will do. Here: the energy that a neuron sends on,
 * G_jj sum_o W_oj^2. */
static grail_status choose(const layer *dense, const grail_statistics *statistics,
                           grail_reducer **out)
{
    scored_unit units[HIDDEN];
    int64_t kept[KEPT];
    for (int64_t j = 0; j < HIDDEN; j++) {
        double weight = 0.0;
        for (int64_t o = 0; o < OUTPUTS; o++) {
            const double w = (double)dense->consumer[o * HIDDEN + j];
            weight += w * w;
        }
        units[j] = (scored_unit){weight * grail_statistics_gram(statistics, j, j), j};
    }
    qsort(units, HIDDEN, sizeof units[0], by_score);
    qsort(units, KEPT, sizeof units[0], by_unit);
    for (int64_t k = 0; k < KEPT; k++) {
        kept[k] = units[k].unit;
    }
    return grail_reducer_from_selection(HIDDEN, KEPT, kept, out);
}

/* || y - y' ||^2 / || y ||^2 of a narrowed layer (V', W', d) on fresh inputs; d may be NULL. */
static double relative_error(const layer *dense, const float *producer, const float *consumer,
                             const double *bias, uint64_t state)
{
    static float x[BATCH * INPUTS];
    static float h[BATCH * HIDDEN];
    static float wanted[BATCH * OUTPUTS];
    static float got[BATCH * OUTPUTS];
    fill(BATCH * INPUTS, x, &state);
    hidden_batch(dense->producer, HIDDEN, x, h);
    multiply(BATCH, HIDDEN, OUTPUTS, h, dense->consumer, wanted);
    hidden_batch(producer, KEPT, x, h);
    multiply(BATCH, KEPT, OUTPUTS, h, consumer, got);
    double error = 0.0;
    double square = 0.0;
    for (size_t i = 0; i < BATCH * OUTPUTS; i++) {
        const double shift = bias == NULL ? 0.0 : bias[i % OUTPUTS];
        const double left = (double)wanted[i] - (double)got[i] - shift;
        error += left * left;
        square += (double)wanted[i] * (double)wanted[i];
    }
    return error / square;
}

/* Whether the fit lowered the error on inputs it has not seen. */
static grail_status compare(const layer *dense, const grail_statistics *statistics,
                            const grail_reducer *reducer, uint64_t state, int *better)
{
    static float producer[KEPT * INPUTS];
    static float plain[OUTPUTS * KEPT];
    static float fitted[OUTPUTS * KEPT];
    double bias[OUTPUTS];
    grail_compensate_result result;
    grail_compensate_options options;
    grail_compensate_options_init(&options);
    options.prior = 1;
    options.bias = 1;
    grail_status status =
        grail_reducer_narrow_rows(reducer, 0, 1, INPUTS, dense->producer, producer);
    if (status == GRAIL_OK) {
        status = grail_reducer_merge_columns(reducer, 0, 1, OUTPUTS, dense->consumer, plain);
    }
    if (status == GRAIL_OK) {
        status = grail_compensate(statistics, NULL, reducer, 1, OUTPUTS, dense->consumer, &options,
                                  fitted, bias, &result);
    }
    if (status != GRAIL_OK) {
        return status;
    }
    const double before = relative_error(dense, producer, plain, NULL, state);
    const double after = relative_error(dense, producer, fitted, bias, state);
    printf("%d of %d neurons kept\n", KEPT, HIDDEN);
    printf("calibration: relative error %.4f pruned, %.4f compensated (lambda %.3g)\n",
           result.error_before, result.error_after, result.lambda);
    printf("new inputs:  relative error %.4f pruned, %.4f compensated\n", before, after);
    *better = after < 0.5 * before && result.error_after < 0.5 * result.error_before;
    return GRAIL_OK;
}

int main(void)
{
    static layer dense;
    uint64_t state = 1;
    int better = 0;
    grail_statistics *statistics = NULL;
    grail_reducer *reducer = NULL;
    fill(HIDDEN * INPUTS, dense.producer, &state);
    fill(OUTPUTS * HIDDEN, dense.consumer, &state);
    grail_status status = grail_statistics_create(HIDDEN, 0, &statistics);
    if (status == GRAIL_OK) {
        status = observe(&dense, &state, statistics);
    }
    if (status == GRAIL_OK) {
        status = choose(&dense, statistics, &reducer);
    }
    if (status == GRAIL_OK) {
        status = compare(&dense, statistics, reducer, state, &better);
    }
    if (status != GRAIL_OK) {
        fprintf(stderr, "embed: %s\n", grail_error_message());
    }
    grail_statistics_free(statistics);
    grail_reducer_free(reducer);
    return status == GRAIL_OK && better ? EXIT_SUCCESS : EXIT_FAILURE;
}
