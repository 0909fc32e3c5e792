#include "solve/given_sums.h"

#include "base/option_values.h"
#include "stats/constant_features.h"

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
        CHECK(statistics_mix_targets(out->fit, out->held, consumer, &gap));
        out->dense_share = target_gap_share(&gap);
    }
    return GRAIL_OK;
}
