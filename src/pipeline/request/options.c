#include "pipeline/request/options.h"

#include "graph/site.h"
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

grail_status compensation_from_options(const grail_compress_options *o, const selector *rule,
                                       compensation *out)
{
    grail_status status = GRAIL_OK;
    compensation c = {0};
    TRY(compensation_from_name(o->compensate, rule, &c));
    if (o->target != NULL) {
        TRY(target_from_name(o->target, &c.target));
    }
    if (o->bias != NULL) {
        TRY(bias_from_name(o->bias, &c.bias));
    }
    if (o->conv_fit != NULL) {
        TRY(conv_fit_from_name(o->conv_fit, &c.conv));
    }
    if (o->refit != NULL) {
        TRY(refit_from_name(o->refit, &c.refit));
    }
    if (o->ridge != NULL) {
        TRY(shrink_from_name(o->ridge, &c.shrink));
    }
    if (o->ridge_scale != NULL) {
        TRY(ridge_scale_from_name(o->ridge_scale, &c.scale));
    }
    if (o->token_weights != NULL) {
        TRY(token_weights_from_name(o->token_weights, &c.weights));
    }
    if (isinf(o->alpha)) {
        c.alpha = (double)NAN;
    } else if (!isnan(o->alpha)) {
        c.alpha = o->alpha;
    }
    if (c.alpha < 0.0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "alpha is %g, expected 0 or more", c.alpha);
    }
    *out = c;
out:
    return status;
}
