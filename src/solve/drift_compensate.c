/* The public fits of maps that read what drifted, and the mixed target of rows. */
#include "base/option_values.h"
#include "solve/drift.h"
#include "solve/given.h"
#include "solve/mixed_target.h"

#include <math.h>
#include <string.h>

/* -- the mixed target of rows ------------------------------------------------------------------ */

/* A copy of the caller's rows as values of the host. */
static grail_status copy_rows(const char *name, int64_t rows, int64_t width, const float *x,
                              int64_t stride, matrix *out)
{
    grail_status status = GRAIL_OK;
    matrix given = no_matrix;
    backend *b = backend_host();
    TRY(matrix_import(b, GRAIL_DTYPE_F32, rows, width, stride, x, &given));
    TRY(statistics_watch_rows(name, given));
    TRY(matrix_new(b, GRAIL_DTYPE_F32, rows, width, out));
    TRY(matrix_copy(given, *out));
out:
    matrix_free(&given);
    return status;
}

grail_status grail_mix_target(int64_t rows, int64_t outputs, const double *roots,
                              const float *local, int64_t local_stride, float *y, int64_t y_stride,
                              double *dense_share)
{
    grail_status status = GRAIL_OK;
    float *mixed = NULL;
    matrix products = no_matrix;
    matrix target = no_matrix;
    matrix root = no_matrix;
    matrix sums = no_matrix;
    target_gap gap = {0};
    if (rows <= 0 || outputs <= 0 || local == NULL || y == NULL || local_stride < outputs ||
        y_stride < outputs) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "mixed target: cannot read %lld rows of %lld outputs with strides of %lld "
                         "and %lld",
                         (long long)rows, (long long)outputs, (long long)local_stride,
                         (long long)y_stride);
    }
    TRY(statistics_check_roots(rows, roots));
    TRY(copy_rows("local target", rows, outputs, local, local_stride, &products));
    TRY(copy_rows("target", rows, outputs, y, y_stride, &target));
    TRY(matrix_new_zero(backend_host(), GRAIL_DTYPE_F64, 1, 2, &sums));
    if (roots != NULL) {
        TRY(matrix_import(backend_host(), GRAIL_DTYPE_F64, 1, rows, rows, roots, &root));
    }
    TRY(target_mix_rows(root, products, target, sums));
    TRY(memory_new_unset(&mixed, (size_t)(rows * outputs), sizeof mixed[0]));
    TRY(matrix_download(target, mixed));
    for (int64_t t = 0; t < rows; t++) {
        memcpy(y + t * y_stride, mixed + t * outputs, (size_t)outputs * sizeof mixed[0]);
    }
    TRY(target_gap_read(sums, &gap));
    if (dense_share != NULL) {
        *dense_share = target_gap_share(&gap);
    }
out:
    memory_free(mixed);
    matrix_free(&root);
    matrix_free(&sums);
    matrix_free(&products);
    matrix_free(&target);
    return status;
}

/* -- drift ------------------------------------------------------------------------------------- */

void grail_drift_free(grail_drift *d)
{
    if (d != NULL) {
        drift_sums_fini(&d->sums);
        memory_free(d);
    }
}

static grail_status make_drift(backend *b, int64_t width, grail_drift **out)
{
    grail_status status = GRAIL_OK;
    grail_drift *d = NULL;
    TRY(memory_new(&d, 1, sizeof *d));
    TRY(drift_sums_create(b, width, &d->sums));
    *out = d;
    d = NULL;
out:
    grail_drift_free(d);
    return status;
}

grail_status grail_drift_create(int64_t width, grail_drift **out)
{
    CHECK(option_given("out", "place for the drift", out));
    return make_drift(backend_host(), width, out);
}

grail_status grail_drift_accumulate(grail_drift *d, int64_t rows, const float *z, int64_t z_stride,
                                    const float *x, int64_t x_stride)
{
    grail_status status = GRAIL_OK;
    matrix narrow = no_matrix;
    matrix dense = no_matrix;
    CHECK(option_given("drift", "object of drift", d));
    const int64_t width = d->sums.input->width;
    if (rows < 0 ||
        (rows > 0 && (z == NULL || x == NULL || z_stride < width || x_stride < width))) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "drift: cannot read %lld rows of %lld features of two streams with strides "
            "of %lld and %lld",
            (long long)rows, (long long)width, (long long)z_stride, (long long)x_stride);
    }
    if (rows == 0) {
        return GRAIL_OK;
    }
    TRY(copy_rows("narrow stream", rows, width, z, z_stride, &narrow));
    TRY(copy_rows("dense stream", rows, width, x, x_stride, &dense));
    TRY(drift_sums_accumulate(&d->sums, narrow, dense));
out:
    matrix_free(&narrow);
    matrix_free(&dense);
    return status;
}

grail_status grail_drift_add(grail_drift *d, const grail_drift *other)
{
    CHECK(option_given("drift", "object of drift", d));
    CHECK(option_given("other", "object of drift to add", other));
    CHECK(grail_statistics_add(d->sums.input, other->sums.input));
    return matrix_add_scaled(1.0, other->sums.square, d->sums.square);
}

int64_t grail_drift_width(const grail_drift *d)
{
    return d->sums.input->width;
}

int64_t grail_drift_count(const grail_drift *d)
{
    return d->sums.input->count;
}

/* A settled copy; of none an empty one. */
static grail_status settled_copy(const grail_drift *like, const grail_drift *d, grail_drift **out)
{
    CHECK(make_drift(like->sums.input->owner, like->sums.input->width, out));
    if (d != NULL) {
        CHECK(grail_drift_add(*out, d));
    }
    return drift_sums_settle(&(*out)->sums);
}

static grail_status check_drift(const grail_drift *fit, const grail_drift *held, int64_t outputs,
                                const float *consumer, const grail_compensate_options *options)
{
    CHECK(option_given("fit", "object of drift", fit));
    CHECK(option_integer("outputs", "the number of outputs", outputs, 1));
    const int64_t width = grail_drift_width(fit);
    if (held != NULL && grail_drift_width(held) != width) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "drift: the held-out part has %lld features, the other %lld",
                         (long long)grail_drift_width(held), (long long)width);
    }
    if (options->target == GRAIL_FIT_LOCAL || options->reduced != 0) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "drift: the target is the dense network's output, or mixed "
                                     "with it, and the input is not reduced"),
                           "target reduced");
    }
    for (int64_t i = 0; i < outputs * width; i++) {
        if (!isfinite(consumer[i])) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "drift: the weights of output %lld are not finite",
                             (long long)(i / width));
        }
    }
    return GRAIL_OK;
}

grail_status grail_drift_compensate(const grail_drift *fit, const grail_drift *held,
                                    int64_t outputs, const float *consumer,
                                    const grail_compensate_options *options, float *weight,
                                    double *bias_change, grail_compensate_result *result)
{
    grail_status status = GRAIL_OK;
    grail_drift *parts[2] = {NULL, NULL};
    bool *judged = NULL;
    matrix given = {0};
    matrix fitted = {0};
    backend *b = NULL;
    double *bias = NULL;
    double share = 1.0;
    ridge_options how = {0};
    ridge_result found = {0};
    TRY(given_options_check(options, consumer, weight, bias_change, result));
    TRY(check_drift(fit, held, outputs, consumer, options));
    TRY(given_options_solve(options, outputs, &judged, &how));
    TRY(settled_copy(fit, fit, &parts[0]));
    TRY(settled_copy(fit, held, &parts[1]));
    const int64_t width = grail_drift_width(fit);
    b = parts[0]->sums.square.owner;
    TRY(matrix_import(b, GRAIL_DTYPE_F32, outputs, width, width, consumer, &given));
    TRY(matrix_new(b, GRAIL_DTYPE_F32, outputs, width, &fitted));
    if (how.bias) {
        TRY(memory_new(&bias, (size_t)outputs, sizeof bias[0]));
    }
    TRY(drift_solve(&parts[0]->sums, &parts[1]->sums, given, options->target == GRAIL_FIT_MIXED,
                    &how, fitted, bias, &share, &found));
    TRY(matrix_download(fitted, weight));
    if (bias != NULL) {
        memcpy(bias_change, bias, (size_t)outputs * sizeof bias_change[0]);
    }
    *result = given_options_result(&found, share);
out:
    grail_drift_free(parts[0]);
    grail_drift_free(parts[1]);
    memory_free(judged);
    matrix_free(&given);
    matrix_free(&fitted);
    memory_free(bias);
    return status;
}
