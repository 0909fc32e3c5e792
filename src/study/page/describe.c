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

void describe_value(markup *m, quality_kind kind, double value)
{
    if (kind == QUALITY_ACCURACY) {
        markup_percent(m, value);
    } else {
        markup_number(m, value, value < 9.9995 ? 3 : value < 99.995 ? 2 : 1);
    }
}

void describe_quality(markup *m, quality_kind kind, const estimate *quality)
{
    describe_value(m, kind, quality->value);
    markup_raw(m, kind == QUALITY_ACCURACY ? "\xC2\xA0%" : "");
    if (estimate_has_interval(quality)) {
        markup_raw(m, " (");
        describe_value(m, kind, quality->low);
        markup_raw(m, " to ");
        describe_value(m, kind, quality->high);
        markup_raw(m, ")");
    }
}

/* " (0.2 to 2.6)" of a loss, or of the gain that it is with the sign -1. */
static void append_reach(markup *m, const estimate *lost, double sign)
{
    if (estimate_has_interval(lost)) {
        markup_raw(m, " (");
        markup_number(m, sign * (sign < 0.0 ? lost->high : lost->low), 1);
        markup_raw(m, " to ");
        markup_number(m, sign * (sign < 0.0 ? lost->low : lost->high), 1);
        markup_raw(m, ")");
    }
}

void describe_loss(markup *m, quality_kind kind, const estimate *lost)
{
    const bool is_better = lost->value < -0.05; /* what rounds to zero is no gain */
    const double sign = is_better ? -1.0 : 1.0;
    if (kind == QUALITY_ACCURACY) {
        markup_raw(m, is_better ? "gains " : "loses ");
        markup_number(m, sign * lost->value, 1);
        markup_raw(m, " points");
        append_reach(m, lost, sign);
    } else {
        markup_raw(m, "has ");
        markup_number(m, sign * lost->value, 1);
        markup_raw(m, "\xC2\xA0%");
        append_reach(m, lost, sign);
        markup_raw(m, is_better ? " less" : " more");
    }
}

const char *describe_kind(quality_kind kind)
{
    return kind == QUALITY_ACCURACY ? "top-1" : "perplexity";
}

void describe_setting(markup *m, int64_t samples, bool open_loop)
{
    describe_count(m, samples, "sample");
    markup_raw(m, open_loop ? ", open loop" : ", closed loop");
}

static void append_quality(markup *m, quality_kind kind, const cell_group *g)
{
    markup_format(m, "\n%s ", describe_kind(kind));
    describe_quality(m, kind, &g->quality);
    if (g->count > 1) {
        markup_format(m, ", %d runs", g->count);
    }
    if (!isnan(g->top5.mean)) {
        markup_raw(m, ", top-5 ");
        markup_percent(m, g->top5.mean);
        markup_raw(m, " %");
    }
    if (estimate_is_known(&g->lost)) {
        markup_raw(m, "\nagainst the dense network: ");
        describe_loss(m, kind, &g->lost);
    }
}

static void append_share(markup *m, const spread *removed)
{
    if (removed->count > 0) {
        markup_raw(m, " (");
        markup_percent(m, removed->mean);
        markup_raw(m, " % removed)");
    }
}

static void append_size(markup *m, const cell_group *g)
{
    if (!isnan(g->parameters.mean)) {
        markup_raw(m, "\n");
        markup_scaled(m, g->parameters.mean, "");
        markup_raw(m, " parameters");
        append_share(m, &g->removed);
    }
    if (!isnan(g->macs.mean)) {
        markup_raw(m, "\n");
        markup_scaled(m, g->macs.mean, "");
        markup_raw(m, " MACs");
        append_share(m, &g->removed_macs);
    }
    if (!isnan(g->latency.mean)) {
        markup_raw(m, "\n");
        markup_seconds(m, g->latency.mean);
        markup_raw(m, " per sample");
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
    append_quality(m, a->sections[g->key.section].kind, g);
    if (g->gain.count > 0) {
        const double percent = 100.0 * g->gain.mean;
        markup_raw(m, percent < 0.0 ? "\n" : "\n+");
        markup_number(m, percent, 1);
        markup_raw(m, " points on the plain cut, ");
        markup_percent(m, g->plain.mean);
        markup_raw(m, " %");
    }
    if (!isnan(g->seconds[SECONDS_HEAL].mean)) {
        markup_raw(m, "\nhealed in ");
        markup_seconds(m, g->seconds[SECONDS_HEAL].mean);
    }
    append_size(m, g);
}
