#include "pipeline/network/drift_scale.h"

#include "backend/operations.h"
#include "base/memory.h"
#include "pipeline/request/consumer_tail.h"
#include "stats/row_squares.h"

#include <math.h>

void drift_scale_fini(drift_scale *s)
{
    matrix_free(&s->of);
    matrix_free(&s->forward);
    memory_free(s->gains);
    *s = (drift_scale){0};
}

static grail_status upload_row(backend *b, int64_t width, const float *values, matrix *out)
{
    CHECK(matrix_new(b, backend_master_type(b), 1, width, out));
    return matrix_upload_f32(*out, values);
}

/* sqrt(variance + epsilon) / weight of each channel of a BatchNorm: the change before it that
 * changes its output by 1. Channels with a weight near zero get 0, because their input hardly
 * affects the output. */
static grail_status invert_batch_norm(parameter_store *parameters, const node *norm,
                                      drift_scale *out)
{
    grail_status status = GRAIL_OK;
    static const double smallest = 1e-4; /* of the largest weight */
    float *weight = NULL;
    float *variance = NULL;
    int64_t width = 0;
    double largest = 0.0;
    TRY(parameter_store_read_f32(parameters, norm->weight, &weight, &width));
    TRY(parameter_store_read_f32(parameters, norm->variance, &variance, &width));
    for (int64_t k = 0; k < width; k++) {
        largest = fmax(largest, fabs((double)weight[k]));
    }
    for (int64_t k = 0; k < width; k++) {
        const bool off = fabs((double)weight[k]) <= smallest * largest;
        const double deviation = sqrt((double)variance[k] + norm->norm.epsilon);
        weight[k] = off ? 0.0F : (float)(deviation / (double)weight[k]);
    }
    TRY(upload_row(parameters->backend, width, weight, &out->of));
out:
    memory_free(weight);
    memory_free(variance);
    return status;
}

/* For the scale s of each channel 1 / s. Small scales are those below a tenth of their root mean
 * square r: there s / (r / 10)^2, so that channels which the sum hardly sees ask for no large
 * outputs. */
static grail_status invert_scales(parameter_store *parameters, const node *affine, int64_t width,
                                  drift_scale *out)
{
    grail_status status = GRAIL_OK;
    float *weight = NULL;
    float *scales = NULL;
    int64_t count = 0;
    double squares = 0.0;
    TRY(memory_new(&scales, (size_t)width, sizeof scales[0]));
    if (affine->weight != GRAPH_NONE) {
        TRY(parameter_store_read_f32(parameters, affine->weight, &weight, &count));
        if (count != width) {
            FAIL(GRAIL_ERROR_INTERNAL, "%lld channels are scaled by %lld", (long long)width,
                 (long long)count);
        }
    }
    for (int64_t k = 0; k < width; k++) {
        const double s = affine->affine.scale * (weight == NULL ? 1.0 : (double)weight[k]);
        squares += s * s / (double)width;
        scales[k] = (float)s;
    }
    TRY(upload_row(parameters->backend, width, scales, &out->forward));
    for (int64_t k = 0; k < width; k++) {
        const double s = (double)scales[k];
        scales[k] = (float)(squares == 0.0 ? 0.0 : s / fmax(s * s, 0.01 * squares));
    }
    TRY(upload_row(parameters->backend, width, scales, &out->of));
out:
    memory_free(weight);
    memory_free(scales);
    return status;
}

grail_status drift_scale_init(const graph *g, parameter_store *current, int consumer,
                              drift_scale *out)
{
    const consumer_tail tail = consumer_tail_of(g, consumer);
    *out = (drift_scale){.damping = -1.0};
    if (tail.skip == GRAPH_NONE) {
        return GRAIL_OK;
    }
    if (tail.batch_norm != GRAPH_NONE) {
        return invert_batch_norm(current, &g->nodes[tail.batch_norm], out);
    }
    if (tail.scale != GRAPH_NONE) {
        return invert_scales(current, &g->nodes[tail.scale],
                             parameter_store_shape(current, g->nodes[consumer].weight)[0], out);
    }
    if (tail.row_norm == GRAPH_NONE) {
        return GRAIL_OK;
    }
    out->norm = &g->nodes[tail.row_norm];
    return parameter_store_read_f32(current, out->norm->weight, &out->gains, &out->width);
}

bool drift_scale_is_open(const drift_scale *s)
{
    return s->norm != NULL && s->damping < 0.0;
}

/* row[1, width] <- gains / (gains^2 + damping mean(gains^2)) */
static grail_status make_factors(const drift_scale *s, double damping, matrix row)
{
    grail_status status = GRAIL_OK;
    float *factors = NULL;
    double mean = 0.0;
    TRY(memory_new(&factors, (size_t)s->width, sizeof factors[0]));
    for (int64_t k = 0; k < s->width; k++) {
        mean += (double)s->gains[k] * (double)s->gains[k] / (double)s->width;
    }
    for (int64_t k = 0; k < s->width; k++) {
        const double gain = (double)s->gains[k];
        const double square = gain * gain + damping * mean;
        factors[k] = square > 0.0 && isfinite(damping) ? (float)(gain / square) : 0.0F;
    }
    TRY(matrix_upload_f32(row, factors));
out:
    memory_free(factors);
    return status;
}

grail_status drift_scale_set(drift_scale *s, backend *b, double damping)
{
    s->damping = damping;
    CHECK(matrix_new(b, backend_master_type(b), 1, s->width, &s->of));
    return make_factors(s, damping, s->of);
}

/* *out[1, rows] = sqrt(mean(y^2) + epsilon), by which the norm divides; owned even after a failure.
 */
static grail_status norm_lengths(const node *norm, matrix y, matrix *out)
{
    CHECK(row_squares_make(y, y.rows, out));
    return matrix_roots((double)y.columns, norm->norm.epsilon, *out, *out);
}

/* x <- what the norm makes of it. */
static grail_status apply_norm(const drift_scale *s, matrix gains, matrix x)
{
    grail_status status = GRAIL_OK;
    matrix lengths = {0};
    TRY(norm_lengths(s->norm, x, &lengths));
    TRY(matrix_inverses(lengths, lengths));
    TRY(matrix_scale_rows(lengths, x, x));
    TRY(matrix_multiply(x, gains, x));
out:
    matrix_free(&lengths);
    return status;
}

/* Rows of X *= sqrt(mean(y^2) + epsilon) of the rows of Y. */
static grail_status scale_rows_by_norm(const node *norm, matrix y, matrix x)
{
    grail_status status = GRAIL_OK;
    matrix lengths = {0};
    TRY(norm_lengths(norm, y, &lengths));
    TRY(matrix_scale_rows(lengths, x, x));
out:
    matrix_free(&lengths);
    return status;
}

static grail_status scale_by(const drift_scale *s, matrix factors, matrix y, matrix drift)
{
    CHECK(matrix_multiply(drift, factors, drift));
    return s->norm == NULL ? GRAIL_OK : scale_rows_by_norm(s->norm, y, drift);
}

grail_status drift_scale_apply(const drift_scale *s, matrix y, matrix drift)
{
    return matrix_exists(s->of) ? scale_by(s, s->of, y, drift) : GRAIL_OK;
}

/* What a choice is made from. */
typedef struct choice {
    const drift_scale *scale;
    matrix y, drift;
    matrix goal;    /* norm(y) + drift */
    matrix weights; /* [1, rows] 1 / |stream|^2 */
    matrix gains, factors;
    matrix room;
} choice;

/* sum[1, 1] += sum_t w_t |norm(y + converted drift) - goal|^2 */
static grail_status add_error(const choice *c, double damping, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix squares = {0};
    TRY(make_factors(c->scale, damping, c->factors));
    TRY(matrix_copy(c->drift, c->room));
    TRY(scale_by(c->scale, c->factors, c->y, c->room));
    TRY(matrix_add(c->y, c->room, c->room));
    TRY(apply_norm(c->scale, c->gains, c->room));
    TRY(matrix_subtract(c->room, c->goal, c->room));
    TRY(row_squares_make(c->room, c->room.rows, &squares));
    TRY(matrix_add_products(c->weights, squares, sum));
out:
    matrix_free(&squares);
    return status;
}

enum { DAMPINGS = 8 };

/* A device is read once, behind all of them. */
static grail_status choose(const choice *c, double *out)
{
    static const double dampings[DAMPINGS] = {1e-6, 1e-5, 1e-4, 1e-3,
                                              1e-2, 1e-1, 1.0,  (double)INFINITY};
    grail_status status = GRAIL_OK;
    double errors[DAMPINGS];
    matrix sums = {0};
    int best = DAMPINGS - 1;
    TRY(matrix_new_zero(c->y.owner, GRAIL_DTYPE_F64, 1, DAMPINGS, &sums));
    for (int i = 0; i < DAMPINGS; i++) {
        TRY(add_error(c, dampings[i], matrix_columns(sums, i, 1)));
    }
    TRY(matrix_download(sums, errors));
    for (int i = DAMPINGS - 1; i >= 0; i--) {
        best = errors[i] <= errors[best] ? i : best;
    }
    *out = dampings[best];
out:
    matrix_free(&sums);
    return status;
}

grail_status drift_scale_choose(drift_scale *s, matrix_pool *pool, matrix y, matrix drift,
                                matrix stream)
{
    grail_status status = GRAIL_OK;
    backend *b = y.owner;
    double damping = 0.0;
    choice c = {.scale = s, .y = y, .drift = drift};
    TRY(matrix_pool_take(pool, y.rows, y.columns, &c.goal));
    TRY(matrix_pool_take(pool, y.rows, y.columns, &c.room));
    TRY(matrix_new(b, backend_master_type(b), 1, s->width, &c.gains));
    TRY(matrix_new(b, backend_master_type(b), 1, s->width, &c.factors));
    TRY(matrix_upload_f32(c.gains, s->gains));
    TRY(row_squares_make(stream, y.rows, &c.weights));
    TRY(inverses_of_squares(c.weights));
    TRY(matrix_copy(y, c.goal));
    TRY(apply_norm(s, c.gains, c.goal));
    TRY(matrix_add(c.goal, drift, c.goal));
    TRY(choose(&c, &damping));
    TRY(drift_scale_set(s, b, damping));
out:
    matrix_pool_give(pool, &c.goal);
    matrix_pool_give(pool, &c.room);
    matrix_free(&c.gains);
    matrix_free(&c.factors);
    matrix_free(&c.weights);
    return status;
}
