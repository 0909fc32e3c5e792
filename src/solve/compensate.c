/* The public fit: copies of the statistics, the regression, the solve, and rounding to f32. */
#include "base/option_values.h"
#include "solve/given.h"

#include <math.h>
#include <string.h>

/* One fit. */
typedef struct given_fit {
    const grail_reducer *map; /* of the statistics; NULL: they are of what the consumer reads */
    int64_t features;         /* of a unit of that map */
    int64_t outputs, width;   /* of the narrowed consumer */
    given_sums sums;
    float *prior;                /* [outputs, width], owned, ... */
    matrix consumer, prior_rows; /* ... and both weights where the sums are, owned */
    regression fit, held;
    ridge_options options;
    bool *judged;  /* owned */
    matrix weight; /* owned */
    double *bias;  /* owned; NULL without one */
} given_fit;

static grail_status check_width(int64_t found, int64_t units, int64_t features)
{
    if (features <= 0 || found % features != 0 || found / features != units) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "compensate: the statistics have %lld features, expected %lld units of %lld features",
            (long long)found, (long long)units, (long long)features);
    }
    return GRAIL_OK;
}

/* What the statistics are of, and how wide the result is. */
static grail_status find_shape(const grail_statistics *s, const grail_reducer *reducer,
                               int64_t features, int64_t outputs,
                               const grail_compensate_options *options, given_fit *f)
{
    const bool reduced = reducer == NULL || options->reduced != 0;
    CHECK(option_given("fit", "object of statistics", s));
    CHECK(check_width(s->width,
                      reducer == NULL ? s->width
                      : reduced       ? reducer->kept
                                      : reducer->units,
                      reducer == NULL ? 1 : features));
    CHECK(option_integer("outputs", "the number of outputs", outputs, 1));
    if (reduced && (s->outputs == 0 || options->target == GRAIL_FIT_LOCAL)) {
        return error_about(error_set(GRAIL_ERROR_SHAPE,
                                     "compensate: what %s is fitted to the target of the "
                                     "statistics, and these have %lld outputs, and the consumer "
                                     "%lld",
                                     reducer == NULL ? "was not cut" : "reads a reduced input",
                                     (long long)s->outputs, (long long)outputs),
                           "target");
    }
    if (reducer != NULL && reduced && options->target == GRAIL_FIT_MIXED) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "compensate: the mixed target of a reduced input is made row "
                                     "by row; see grail_mix_target"),
                           "target reduced");
    }
    if (reducer != NULL && options->exchangeable != 0 && features % reducer->subunits != 0) {
        return error_about(
            error_set(GRAIL_ERROR_SHAPE,
                      "compensate: %lld features of a unit are not %lld equal blocks",
                      (long long)features, (long long)reducer->subunits),
            "exchangeable");
    }
    f->map = reduced ? NULL : reducer;
    f->features = f->map == NULL ? 1 : features;
    f->outputs = outputs;
    f->width = reducer == NULL ? s->width : reducer->kept * features;
    return GRAIL_OK;
}

static grail_status make_prior(const grail_reducer *reducer, bool exchangeable, int64_t features,
                               const float *consumer, given_fit *f)
{
    size_t count = 0;
    const int64_t wide = reducer == NULL ? f->width : reducer->units * features;
    if (!size_multiply((size_t)f->outputs, (size_t)wide, &count) ||
        count > INT64_MAX / sizeof(float)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "compensate: %lld outputs of %lld features are too many",
                         (long long)f->outputs, (long long)wide);
    }
    /* Also of what goes: a target of its own is made of it. */
    for (int64_t i = 0; i < f->outputs * wide; i++) {
        if (!isfinite(consumer[i])) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "compensate: the weight of output %lld and feature %lld is not finite",
                             (long long)(i / wide), (long long)(i % wide));
        }
    }
    count = (size_t)(f->outputs * f->width);
    CHECK(memory_new_unset(&f->prior, count, sizeof f->prior[0]));
    if (reducer == NULL) {
        memcpy(f->prior, consumer, count * sizeof f->prior[0]);
    } else {
        reducer_merge_columns(reducer, exchangeable, features, f->outputs, consumer, f->prior);
    }
    return GRAIL_OK;
}

static grail_status import_weights(const float *consumer, given_fit *f)
{
    const grail_statistics *s = f->sums.fit;
    if (s->outputs == 0) {
        CHECK(matrix_import(s->owner, GRAIL_DTYPE_F32, f->outputs, s->width, s->width, consumer,
                            &f->consumer));
    }
    return matrix_import(s->owner, GRAIL_DTYPE_F32, f->outputs, f->width, f->width, f->prior,
                         &f->prior_rows);
}

static grail_status derive(grail_statistics *s, const given_fit *f, regression *out)
{
    return regression_derive(NULL, s, f->map, f->features, f->consumer, f->prior_rows, out);
}

grail_status grail_compensate(const grail_statistics *fit, const grail_statistics *held,
                              const grail_reducer *reducer, int64_t features_per_unit,
                              int64_t outputs, const float *consumer,
                              const grail_compensate_options *options, float *weight,
                              double *bias_change, grail_compensate_result *result)
{
    grail_status status = GRAIL_OK;
    host_view view = {.values = NULL};
    given_fit f = {0};
    ridge_result found = {0};
    TRY(given_options_check(options, consumer, weight, bias_change, result));
    TRY(find_shape(fit, reducer, features_per_unit, outputs, options, &f));
    TRY(given_sums_check(fit, held, outputs)); /* before the consumer is read */
    TRY(make_prior(reducer, options->exchangeable != 0, features_per_unit, consumer, &f));
    TRY(given_sums_take(fit, held, options->target, true, outputs, consumer, &f.sums));
    TRY(given_options_solve(options, outputs, &f.judged, &f.options));
    f.options.moves_prior = reducer != NULL; /* a map that was not cut lacks nothing of its own */
    if (f.map != NULL && f.sums.fit->outputs == 0 && reducer_is_identity(reducer)) {
        f.options.ridge = RIDGE_PRIOR; /* it has no error that a ridge could lower */
    }
    TRY(import_weights(consumer, &f));
    TRY(derive(f.sums.fit, &f, &f.fit));
    TRY(derive(f.sums.held, &f, &f.held));
    TRY(matrix_new(f.fit.gram.owner, GRAIL_DTYPE_F64, f.outputs, f.width, &f.weight));
    if (f.options.bias) {
        TRY(memory_new(&f.bias, (size_t)f.outputs, sizeof f.bias[0]));
    }
    TRY(ridge_solve(&f.fit, &f.held, f.prior_rows, &f.options, f.weight, f.bias, &found));
    TRY(host_view_open(f.weight, GRAIL_DTYPE_F64, HOST_READS, &view));
    const double *values = view.values;
    for (int64_t i = 0; i < matrix_count(f.weight); i++) {
        if (!isfinite((float)values[i])) {
            FAIL(GRAIL_ERROR_NUMERIC,
                 "compensate: weight %g of output %lld is outside the range of f32", values[i],
                 (long long)(i / f.weight.columns));
        }
    }
    for (int64_t i = 0; i < matrix_count(f.weight); i++) {
        weight[i] = (float)values[i];
    }
    if (f.bias != NULL) {
        memcpy(bias_change, f.bias, (size_t)outputs * sizeof bias_change[0]);
    }
    *result = given_options_result(&found, f.sums.dense_share);
out:
    host_view_drop(&view);
    given_sums_fini(&f.sums);
    memory_free(f.prior);
    matrix_free(&f.consumer);
    matrix_free(&f.prior_rows);
    regression_fini(&f.fit);
    regression_fini(&f.held);
    memory_free(f.judged);
    matrix_free(&f.weight);
    memory_free(f.bias);
    return status;
}
