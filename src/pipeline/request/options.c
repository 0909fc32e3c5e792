#include "pipeline/request/options.h"

#include "base/option_values.h"
#include "graph/site.h"
#include "reduce/budget.h"
#include "reduce/selector.h"

#include <math.h>
#include <string.h>

void grail_compress_options_init(grail_compress_options *options)
{
    *options = (grail_compress_options){
        .selector = "obs",
        .compensate = "full",
        .alpha = (double)NAN,
        .backend = "cpu",
    };
}

const char *grail_selector_at(int i)
{
    const selector *s = selector_at(i);
    return s == NULL ? NULL : s->name;
}

const char *grail_site_kind_at(int i)
{
    return i >= 0 && i < SITE_KINDS ? site_kind_name((site_kind)i) : NULL;
}

double *grail_compress_sparsity(grail_compress_options *options, const char *kind)
{
    double *const sparsities[SITE_KINDS] = {
        [SITE_FFN] = &options->sparsity_ffn,
        [SITE_HEADS] = &options->sparsity_heads,
        [SITE_CONV] = &options->sparsity_conv,
        [SITE_STREAM] = &options->sparsity_stream,
    };
    for (int k = 0; k < SITE_KINDS; k++) {
        if (strcmp(site_kind_name((site_kind)k), kind) == 0) {
            return sparsities[k];
        }
    }
    return NULL;
}

grail_status grail_selector_describe(const char *name, grail_selector_facts *out)
{
    const selector *s = NULL;
    const grail_status status = selector_from_name(name, &s);
    if (status == GRAIL_OK) {
        *out = (grail_selector_facts){
            .index = selector_index(s),
            .summary = s->summary,
            .folds = s->folds ? 1 : 0,
            .draws = s->draws ? 1 : 0,
            .needs_statistics = s->uses_data ? 1 : 0,
        };
    }
    return status;
}

static grail_status check_counts(const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    TRY(option_integer("samples", "the number of samples", o->samples, 0));
    TRY(option_integer("align", "the alignment", o->align, 0));
    TRY(option_integer("heal_steps", "the number of steps of healing", o->heal_steps, 0));
    TRY(option_integer("memory", "the memory for activations", o->memory, 0));
    TRY(option_integer("context", "the number of tokens per window", o->calibration.context, 0));
    TRY(option_flag("gqa", "query heads of every group are cut (grail_gqa_mode)", (int)o->gqa));
out:
    return status;
}

static grail_status check_numbers(const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    TRY(option_about("sparsity_ffn", budget_check_sparsity(o->sparsity_ffn)));
    TRY(option_about("sparsity_heads", budget_check_sparsity(o->sparsity_heads)));
    TRY(option_about("sparsity_conv", budget_check_sparsity(o->sparsity_conv)));
    TRY(option_about("sparsity_stream", budget_check_sparsity(o->sparsity_stream)));
    TRY(option_number("alpha", "alpha", o->alpha, isnan(o->alpha) || o->alpha >= 0.0, "0 or more"));
    TRY(option_number("heal_rate", "the rate of healing", o->heal_rate,
                      o->heal_rate >= 0.0 && o->heal_rate < 1.0, "above 0 and below 1"));
    TRY(option_number("heal_seconds", "the time for healing in seconds", o->heal_seconds,
                      o->heal_seconds >= 0.0, "0 or more"));
out:
    return status;
}

static grail_status check_flags(const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    TRY(option_flag("window_bos", "every window begins with BOS", o->calibration.window_bos));
    TRY(option_flag("repair", "BatchNorm is recomputed", o->repair));
    TRY(option_flag("open_loop", "the loop is open", o->open_loop));
    TRY(option_flag("keep_non_finite", "tensors that are not finite are kept", o->keep_non_finite));
    TRY(option_flag("resume", "an interrupted run continues", o->resume));
    TRY(option_flag("dry_run", "the run is only described", o->dry_run));
out:
    return status;
}

static grail_status check_site_sparsities(const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    TRY(option_integer("site_sparsity_count", "the number of single sites", o->site_sparsity_count,
                       0));
    if (o->site_sparsity_count > 0) {
        TRY(option_given("site_sparsities", "list of single sites", o->site_sparsities));
    }
    for (int i = 0; i < o->site_sparsity_count; i++) {
        TRY(option_given("site", "name of a single site", o->site_sparsities[i].site));
        TRY(option_about("sparsity", budget_check_sparsity(o->site_sparsities[i].sparsity)));
    }
out:
    return status;
}

grail_status compress_options_check(const grail_compress_options *o)
{
    grail_status status = GRAIL_OK;
    if (o->session == NULL) {
        TRY(option_given("model", "model", o->model));
    }
    TRY(option_given("selector", "selector", o->selector));
    TRY(option_given("compensate", "compensation", o->compensate));
    TRY(check_counts(o));
    TRY(check_numbers(o));
    TRY(check_flags(o));
    TRY(check_site_sparsities(o));
out:
    return status;
}

grail_status compensation_from_options(const grail_compress_options *o, const selector *rule,
                                       compensation *out)
{
    grail_status status = GRAIL_OK;
    compensation c = {0};
    TRY(option_about("compensate", compensation_from_name(o->compensate, rule, &c)));
    if (o->target != NULL) {
        TRY(option_about("target", target_from_name(o->target, &c.target)));
    }
    if (o->bias != NULL) {
        TRY(option_about("bias", bias_from_name(o->bias, &c.bias)));
    }
    if (o->conv_fit != NULL) {
        TRY(option_about("conv_fit", conv_fit_from_name(o->conv_fit, &c.conv)));
    }
    if (o->refit != NULL) {
        TRY(option_about("refit", refit_from_name(o->refit, &c.refit)));
    }
    if (o->ridge != NULL) {
        TRY(option_about("ridge", shrink_from_name(o->ridge, &c.shrink)));
    }
    if (o->ridge_scale != NULL) {
        TRY(option_about("ridge_scale", ridge_scale_from_name(o->ridge_scale, &c.scale)));
    }
    if (o->token_weights != NULL) {
        TRY(option_about("token_weights", token_weights_from_name(o->token_weights, &c.weights)));
    }
    if (isinf(o->alpha)) {
        c.alpha = (double)NAN;
    } else if (!isnan(o->alpha)) {
        c.alpha = o->alpha;
    }
    *out = c;
out:
    return status;
}
