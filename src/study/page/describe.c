#include "study/page/describe.h"

#include "study/page/series.h"

#include <math.h>

void describe_count(markup *m, int64_t count, const char *singular)
{
    markup_format(m, "%lld %s%s", (long long)count, singular, count == 1 ? "" : "s");
}

const char *describe_members(const section *s)
{
    return s->is_architecture ? "checkpoints and seeds" : "seeds";
}

/* " (84.1 to 85.3)", in percent; nothing for a single value. */
static void append_range(markup *m, const spread *s)
{
    if (s->count > 1) {
        markup_raw(m, " (");
        markup_percent(m, s->least);
        markup_raw(m, " to ");
        markup_percent(m, s->most);
        markup_raw(m, ")");
    }
}

void describe_setting(markup *m, int64_t samples, bool open_loop)
{
    describe_count(m, samples, "sample");
    markup_raw(m, open_loop ? ", open loop" : ", closed loop");
}

static void append_accuracy(markup *m, const cell_group *g)
{
    markup_raw(m, "\ntop-1 ");
    markup_percent(m, g->top1.mean);
    markup_raw(m, " %");
    if (g->count == 1 && !isnan(g->interval.mean)) {
        markup_raw(m, " \xC2\xB1 ");
        markup_percent(m, g->interval.mean);
    } else if (g->top1.count > 1) {
        append_range(m, &g->top1);
        markup_format(m, ", %d runs", g->top1.count);
    }
    if (!isnan(g->top5.mean)) {
        markup_raw(m, ", top-5 ");
        markup_percent(m, g->top5.mean);
        markup_raw(m, " %");
    }
}

void describe_group(markup *m, const aggregate *a, const cell_group *g)
{
    markup_start_of(m, a->sections[g->key.section].name, 60);
    markup_raw(m, ", ");
    markup_start_of(m, a->results->selectors[g->key.selector], 60);
    markup_raw(m, ", ");
    markup_ratio(m, g->key.sparsity);
    markup_format(m, " %%\n%s, ", variant_label(g->key.variant));
    describe_setting(m, g->key.samples, g->key.open_loop);
    append_accuracy(m, g);
    if (g->gain.count > 0) {
        markup_raw(m, g->gain.mean < 0.0 ? "\nloss " : "\ngain ");
        markup_percent(m, fabs(g->gain.mean));
        markup_raw(m, " points on ");
        markup_percent(m, g->plain.mean);
        markup_raw(m, " %");
    }
    if (!isnan(g->seconds[SECONDS_HEAL].mean)) {
        markup_raw(m, "\nhealed in ");
        markup_number(m, g->seconds[SECONDS_HEAL].mean, 1);
        markup_raw(m, " s");
    }
    if (!isnan(g->parameters.mean)) {
        markup_raw(m, "\n");
        markup_scaled(m, g->parameters.mean, "");
        markup_raw(m, " parameters");
    }
    if (!isnan(g->macs.mean)) {
        markup_raw(m, ", ");
        markup_scaled(m, g->macs.mean, "");
        markup_raw(m, " MACs");
    }
}
