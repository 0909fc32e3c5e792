#include "solve/given.h"

#include "base/option_values.h"
#include "reduce/plan.h"
#include "stats/constant_features.h"

#include <math.h>
#include <string.h>

void grail_compensate_options_init(grail_compensate_options *options)
{
    *options = (grail_compensate_options){.alpha = 1e-3};
}

grail_status grail_compensate_options_named(const char *compensate, const char *selector_name,
                                            int has_bias_slot, grail_compensate_options *options)
{
    static const grail_fit_target targets[] = {[TARGET_LOCAL] = GRAIL_FIT_LOCAL,
                                               [TARGET_DENSE] = GRAIL_FIT_DENSE,
                                               [TARGET_MIXED] = GRAIL_FIT_MIXED};
    compensation how = {0};
    const selector *rule = NULL;
    CHECK(option_given("compensate", "name of a compensation", compensate));
    CHECK(option_given("options", "struct of options", options));
    if (selector_name != NULL) {
        CHECK(option_about("selector", selector_from_name(selector_name, &rule)));
    } else if (strcmp(compensate, "own") == 0) {
        return option_given("selector", "selector whose own update is meant", NULL);
    }
    CHECK(option_about("compensate", compensation_from_name(compensate, rule, &how)));
    if (!how.enabled) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "compensation '%s' makes no fit of consumers here; leave "
                                     "grail_compensate out",
                                     compensate),
                           "compensate");
    }
    *options = (grail_compensate_options){
        .target = targets[how.target],
        .prior = how.ridge == RIDGE_PRIOR,
        .diagonal = how.ridge_scale == RIDGE_SCALE_DIAGONAL,
        .of_all = how.ridge_of == RIDGE_OF_ALL,
        .bias = how.bias != BIAS_OFF && has_bias_slot != 0,
        .bias_only = how.fit == FIT_BIAS_ONLY,
        .alpha = how.alpha.choice == GRAIL_NUMBER_GIVEN ? how.alpha.value : 1e-3,
        .cross_validate = how.alpha.choice == GRAIL_NUMBER_CROSS_VALIDATED,
    };
    return GRAIL_OK;
}

grail_status given_options_check(const grail_compensate_options *o, const float *consumer,
                                 const float *weight, const double *bias_change,
                                 const grail_compensate_result *result)
{
    CHECK(option_given("options", "struct of options", o));
    CHECK(OPTION_ROOM_OF(grail_compensate_options, o));
    CHECK(option_given("consumer", "array with the dense consumer", consumer));
    CHECK(option_given("weight", "array for the fitted consumer", weight));
    CHECK(option_given("result", "place for the result", result));
    if ((o->bias != 0) != (bias_change != NULL)) {
        return error_about(
            error_set(
                GRAIL_ERROR_ARGUMENT,
                "compensate: give bias_change when the option bias is set, and NULL otherwise"),
            "bias");
    }
    CHECK(option_flag("prior", "the fit shrinks to the plain cut", o->prior));
    CHECK(option_flag("bias", "a bias is fitted", o->bias));
    CHECK(option_flag("diagonal", "the penalty follows the diagonal", o->diagonal));
    CHECK(option_flag("of_all", "alpha is relative to all features", o->of_all));
    CHECK(option_flag("bias_only", "only the bias is fitted", o->bias_only));
    CHECK(option_flag("reduced", "the statistics are of the reduced input", o->reduced));
    CHECK(option_flag("exchangeable", "blocks of units are reordered", o->exchangeable));
    if (o->bias_only != 0 && o->bias == 0) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT, "compensate: bias_only fits nothing without bias"),
            "bias_only bias");
    }
    CHECK(option_number("alpha", "alpha", o->alpha, isfinite(o->alpha) && o->alpha >= 0.0,
                        "0 or more"));
    CHECK(option_flag("cross_validate", "alpha is cross-validated", o->cross_validate));
    if ((o->alphas == NULL) != (o->alpha_count == 0) || o->alpha_count < 0) {
        return error_about(
            error_set(GRAIL_ERROR_ARGUMENT,
                      "there are %d candidates for alpha at %s; give both or neither",
                      o->alpha_count, o->alphas == NULL ? "NULL" : "an array"),
            "alphas");
    }
    for (int i = 0; i < o->alpha_count; i++) {
        CHECK(option_number("alphas", "a candidate for alpha", o->alphas[i],
                            isfinite(o->alphas[i]) && o->alphas[i] >= 0.0, "0 or more"));
    }
    return GRAIL_OK;
}

grail_status given_options_solve(const grail_compensate_options *o, int64_t outputs, bool **judged,
                                 ridge_options *out)
{
    if (o->judged != NULL) {
        bool any = false;
        CHECK(memory_new(judged, (size_t)outputs, sizeof **judged));
        for (int64_t i = 0; i < outputs; i++) {
            (*judged)[i] = o->judged[i] != 0;
            any = any || (*judged)[i];
        }
        if (!any) {
            return error_about(error_set(GRAIL_ERROR_ARGUMENT, "compensate: no output is judged"),
                               "judged");
        }
    }
    *out = (ridge_options){
        .ridge = o->prior != 0 ? RIDGE_PRIOR : RIDGE_ZERO,
        .scale = o->diagonal != 0 ? RIDGE_SCALE_DIAGONAL : RIDGE_SCALE_MEAN,
        .bias = o->bias != 0,
        .keeps_weights = o->bias_only != 0,
        .of_all = o->of_all != 0,
        .alpha = o->alpha,
        .alphas = o->alphas != NULL ? o->alphas : ridge_alphas,
        .alpha_count = o->cross_validate == 0 ? 0
                       : o->alphas != NULL    ? o->alpha_count
                                              : RIDGE_ALPHAS,
        .judged = *judged,
    };
    return GRAIL_OK;
}

grail_compensate_result given_options_result(const ridge_result *found, double dense_share)
{
    return (grail_compensate_result){
        .alpha = found->alpha,
        .lambda = found->lambda,
        .condition = found->condition,
        .error_before = found->fit_before,
        .error_after = found->fit_after,
        .held_before = found->held_before,
        .held_after = found->held_after,
        .dense_share = dense_share,
        .fallback = (int)found->fallback,
    };
}

void given_sums_fini(given_sums *s)
{
    grail_statistics_free(s->fit);
    grail_statistics_free(s->held);
    *s = (given_sums){0};
}

grail_status given_sums_check(const grail_statistics *fit, const grail_statistics *held,
                              int64_t outputs)
{
    CHECK(option_given("fit", "object of statistics", fit));
    if (fit->outputs != 0 && fit->outputs != outputs) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "the target of the statistics has %lld outputs, but the consumer has %lld",
                         (long long)fit->outputs, (long long)outputs);
    }
    if (held != NULL && (held->width != fit->width || held->outputs != fit->outputs)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "the held-out statistics have %lld features and %lld outputs, the others "
                         "%lld and %lld",
                         (long long)held->width, (long long)held->outputs, (long long)fit->width,
                         (long long)fit->outputs);
    }
    return GRAIL_OK;
}

static grail_status copy_part(const grail_statistics *like, const grail_statistics *part,
                              bool keeps_target, grail_statistics **out)
{
    CHECK(part != NULL ? statistics_copy(part, out)
                       : statistics_create(like->owner, like->width, like->outputs, out));
    if (!keeps_target) {
        grail_statistics *s = *out;
        matrix_free(&s->cross);
        matrix_free(&s->target_sum);
        matrix_free(&s->target_square);
        s->outputs = 0;
    }
    return statistics_settle(*out);
}

grail_status given_sums_take(const grail_statistics *fit, const grail_statistics *held,
                             grail_fit_target target, bool needs_target, int64_t outputs,
                             const float *consumer, given_sums *out)
{
    target_gap gap = {0};
    const bool has = fit != NULL && fit->outputs > 0;
    CHECK(given_sums_check(fit, held, outputs));
    if (target < GRAIL_FIT_USUAL || target > GRAIL_FIT_MIXED) {
        return option_integer("target", "the target of the fit", -1, 0);
    }
    if (!has && (target == GRAIL_FIT_DENSE || target == GRAIL_FIT_MIXED)) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "a %s target needs statistics with a target, and these have "
                                     "none",
                                     target == GRAIL_FIT_DENSE ? "dense" : "mixed"),
                           "target");
    }
    const bool keeps = has && needs_target && target != GRAIL_FIT_LOCAL;
    CHECK(copy_part(fit, fit, keeps, &out->fit));
    CHECK(copy_part(fit, held, keeps, &out->held));
    out->dense_share = keeps ? 1.0 : 0.0;
    if (keeps && target == GRAIL_FIT_MIXED) {
        matrix weights = {0};
        CHECK(matrix_import(out->fit->owner, GRAIL_DTYPE_F32, outputs, out->fit->width,
                            out->fit->width, consumer, &weights));
        const grail_status status = statistics_mix_targets(out->fit, out->held, weights, &gap);
        matrix_free(&weights);
        CHECK(status);
        out->dense_share = target_gap_share(&gap);
    }
    return GRAIL_OK;
}
