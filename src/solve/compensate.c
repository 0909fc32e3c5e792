/* The public fit: a copy of the statistics, the regression, the solve, and rounding to f32. */
#include <grail/ridge.h>

#include "base/option_values.h"
#include "solve/ridge.h"
#include "stats/constant_features.h"

#include <math.h>

void grail_compensate_options_init(grail_compensate_options *options)
{
    *options = (grail_compensate_options){.prior = 0, .bias = 0, .alpha = 1e-3};
}

static grail_status check_compensate(const grail_statistics *s, const grail_reducer *reducer,
                                     int64_t features_per_unit, int64_t outputs,
                                     const grail_compensate_options *options,
                                     const double *bias_change)
{
    const int64_t units = reducer->folds ? reducer->kept : reducer->units;
    if (features_per_unit <= 0 || s->width != units * features_per_unit) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "compensate: the statistics have %lld features, expected %lld units of %lld features",
            (long long)s->width, (long long)units, (long long)features_per_unit);
    }
    if (outputs <= 0 || (s->outputs != outputs && (s->outputs != 0 || reducer->folds))) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "compensate: the target has %lld outputs, but the consumer has %lld",
                         (long long)s->outputs, (long long)outputs);
    }
    if ((options->bias != 0) != (bias_change != NULL)) {
        return error_about(
            error_set(
                GRAIL_ERROR_ARGUMENT,
                "compensate: give bias_change when the option bias is set, and NULL otherwise"),
            "bias");
    }
    CHECK(option_flag("prior", "the fit shrinks to the plain cut", options->prior));
    CHECK(option_flag("bias", "a bias is fitted", options->bias));
    CHECK(option_flag("diagonal", "the penalty follows the diagonal", options->diagonal));
    return option_number("alpha", "alpha", options->alpha,
                         isfinite(options->alpha) && options->alpha >= 0.0, "0 or more");
}

/* The narrowed consumer W0[O, K*u] and its regression. */
static grail_status prepare(const grail_statistics *statistics, const grail_reducer *reducer,
                            int64_t features_per_unit, int64_t outputs, const float *consumer,
                            float *prior, regression *out)
{
    grail_status status = GRAIL_OK;
    grail_statistics *copy = NULL;
    TRY(statistics_copy(statistics, &copy));
    TRY(statistics_settle_constants(copy));
    grail_reducer_merge_columns(reducer, features_per_unit, outputs, consumer, prior);
    if (reducer->folds) {
        TRY(regression_derive(NULL, copy, NULL, 1, outputs, NULL, prior, out));
    } else {
        TRY(regression_derive(NULL, copy, reducer, features_per_unit, outputs, consumer, prior,
                              out));
    }
out:
    grail_statistics_free(copy);
    return status;
}

/* A selection that keeps every unit has no error on its own output; a ridge would only add one. */
static ridge_options solve_options(const grail_statistics *s, const grail_reducer *reducer,
                                   const grail_compensate_options *options)
{
    const bool lossless = s->outputs == 0 && reducer_is_identity(reducer);
    return (ridge_options){
        .ridge = options->prior != 0 || lossless ? RIDGE_PRIOR : RIDGE_ZERO,
        .scale = options->diagonal != 0 ? RIDGE_SCALE_DIAGONAL : RIDGE_SCALE_MEAN,
        .bias = options->bias != 0,
        .alpha = options->alpha,
    };
}

static grail_status round_weights(matrix fitted, float *out)
{
    grail_status status = GRAIL_OK;
    host_view view = {.values = NULL};
    TRY(host_view_open(fitted, GRAIL_DTYPE_F64, HOST_READS, &view));
    const double *values = view.values;
    for (int64_t i = 0; i < matrix_count(fitted); i++) {
        const float rounded = (float)values[i];
        if (!isfinite(rounded)) {
            FAIL(GRAIL_ERROR_NUMERIC,
                 "compensate: weight %g of output %lld is outside the range of f32", values[i],
                 (long long)(i / fitted.columns));
        }
        out[i] = rounded;
    }
out:
    host_view_drop(&view);
    return status;
}

grail_status grail_compensate(const grail_statistics *statistics, const grail_reducer *reducer,
                              int64_t features_per_unit, int64_t outputs, const float *consumer,
                              const grail_compensate_options *options, float *weight,
                              double *bias_change, grail_compensate_result *result)
{
    grail_status status = GRAIL_OK;
    regression fit = {0};
    float *prior = NULL;
    matrix fitted = no_matrix;
    ridge_result found = {0};
    TRY(check_compensate(statistics, reducer, features_per_unit, outputs, options, bias_change));
    const int64_t width = reducer->kept * features_per_unit;
    TRY(memory_new_unset(&prior, (size_t)(outputs * width), sizeof *prior));
    TRY(matrix_new(backend_host(), GRAIL_DTYPE_F64, outputs, width, &fitted));
    TRY(prepare(statistics, reducer, features_per_unit, outputs, consumer, prior, &fit));
    const ridge_options solve = solve_options(statistics, reducer, options);
    TRY(ridge_solve(&fit, NULL, prior, &solve, fitted, bias_change, &found));
    TRY(round_weights(fitted, weight));
    *result = (grail_compensate_result){.lambda = found.lambda,
                                        .condition = found.condition,
                                        .error_before = found.fit_before,
                                        .error_after = found.fit_after,
                                        .fallback = (int)found.fallback};
out:
    regression_fini(&fit);
    memory_free(prior);
    matrix_free(&fitted);
    return status;
}
