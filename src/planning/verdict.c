#include "planning/verdict.h"

#include "planning/trials.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

grail_status verdict_find(const grail_compress_options *options, const int64_t *chosen,
                          const int64_t *uniform, int sites, verdict *out)
{
    grail_status status = GRAIL_OK;
    divergence own = {0};
    divergence other = {0};
    *out = (verdict){.divergence = (double)NAN, .uniform_divergence = (double)NAN};
    if (memcmp(chosen, uniform, (size_t)sites * sizeof chosen[0]) == 0) {
        return GRAIL_OK;
    }
    TRY(judge_widths(options, uniform, JUDGES_THE_CHOICE, NULL, &other));
    TRY(judge_widths(options, chosen, JUDGES_THE_CHOICE, NULL, &own));
    *out = (verdict){.is_judged = true,
                     .is_ahead = divergence_leads(&own, &other, VERDICT_ERRORS),
                     .divergence = divergence_mean(&own),
                     .uniform_divergence = divergence_mean(&other),
                     .lead = divergence_lead(&own, &other)};
out:
    divergence_fini(&own);
    divergence_fini(&other);
    return status;
}

enum { LEAD_TEXT = 160 };

/* "ahead by 0.01 +- 0.002 (divergence 0.1 against 0.11)" */
static void say_lead(const verdict *v, char out[LEAD_TEXT])
{
    const lead l = v->lead;
    if (isfinite(l.by) && isfinite(l.error)) {
        snprintf(out, LEAD_TEXT,
                 "%s by %.3g +- %.2g (divergence %.4g against %.4g, on samples kept apart)",
                 l.by >= 0.0 ? "ahead" : "behind", fabs(l.by), l.error, v->divergence,
                 v->uniform_divergence);
    } else {
        snprintf(out, LEAD_TEXT,
                 "judged by too few samples to tell chance (divergence %.4g against %.4g)",
                 v->divergence, v->uniform_divergence);
    }
}

void verdict_text(const verdict *v, const char *name, char out[VERDICT_TEXT])
{
    char leads[LEAD_TEXT];
    say_lead(v, leads);
    if (!v->is_judged) {
        snprintf(out, VERDICT_TEXT, "uniform widths, which are those of '%s', too", name);
    } else if (v->is_ahead) {
        snprintf(out, VERDICT_TEXT, "widths of '%s': %s", name, leads);
    } else {
        snprintf(out, VERDICT_TEXT, "uniform widths kept: those of '%s' are %s%s", name, leads,
                 v->lead.by > 0.0 && isfinite(v->lead.error) ? ", which may be chance" : "");
    }
}

void verdict_cost_text(const verdict *v, const char *name, char out[VERDICT_TEXT])
{
    char leads[LEAD_TEXT];
    say_lead(v, leads);
    if (v->is_judged) {
        snprintf(out, VERDICT_TEXT, "widths of '%s' that may differ from layer to layer are %s",
                 name, leads);
    } else {
        snprintf(out, VERDICT_TEXT,
                 "widths of '%s' that may differ from layer to layer are the same", name);
    }
}
