#include "study/page/describe.h"

#include "study/page/series.h"

#include <math.h>

short_text count_text(int64_t count, const char *singular)
{
    return text_format("%lld %s%s", (long long)count, singular, count == 1 ? "" : "s");
}

const char *describe_members(const section *s)
{
    return s->is_architecture ? "checkpoints and seeds" : "seeds";
}

short_text value_text(quality_kind kind, double value)
{
    return kind == QUALITY_ACCURACY ? percent_text(value)
                                    : number_text(value, value < 9.9995   ? 3
                                                         : value < 99.995 ? 2
                                                                          : 1);
}

short_text quality_text(quality_kind kind, const estimate *quality)
{
    const short_text value = value_text(kind, quality->value);
    const char *unit = kind == QUALITY_ACCURACY ? "\xC2\xA0%" : "";
    return !estimate_has_interval(quality) ? text_format("%s%s", value.text, unit)
                                           : text_format("%s%s (%s to %s)", value.text, unit,
                                                         value_text(kind, quality->low).text,
                                                         value_text(kind, quality->high).text);
}

short_text loss_text(quality_kind kind, const estimate *lost)
{
    const bool is_better = lost->value < -0.05; /* what rounds to zero is no gain */
    const double sign = is_better ? -1.0 : 1.0;
    const short_text value = number_text(sign * lost->value, 1);
    const short_text low = number_text(sign * (is_better ? lost->high : lost->low), 1);
    const short_text high = number_text(sign * (is_better ? lost->low : lost->high), 1);
    const short_text reach = estimate_has_interval(lost)
                                 ? text_format(" (%s to %s)", low.text, high.text)
                                 : text_format("%s", "");
    return kind == QUALITY_ACCURACY ? text_format("%s %s points%s", is_better ? "gains" : "loses",
                                                  value.text, reach.text)
                                    : text_format("has %s\xC2\xA0%%%s %s", value.text, reach.text,
                                                  is_better ? "less" : "more");
}

const char *describe_kind(quality_kind kind)
{
    return kind == QUALITY_ACCURACY ? "top-1" : "perplexity";
}

short_text setting_text(int64_t samples, bool open_loop)
{
    return text_format("%s, %s loop", count_text(samples, "sample").text,
                       open_loop ? "open" : "closed");
}

static void append_quality(markup *m, quality_kind kind, const cell_group *g)
{
    markup_format(m, "\n%s %s", describe_kind(kind), quality_text(kind, &g->quality).text);
    if (g->count > 1) {
        markup_format(m, ", %d runs", g->count);
    }
    if (!isnan(g->top5.mean)) {
        markup_format(m, ", top-5 %s %%", percent_text(g->top5.mean).text);
    }
    if (estimate_is_known(&g->lost)) {
        markup_format(m, "\nagainst the dense network: %s", loss_text(kind, &g->lost).text);
    }
}

static void append_size(markup *m, double count, const char *what, const spread *removed)
{
    if (!isnan(count)) {
        markup_format(m, "\n%s %s", scaled_text(count, "").text, what);
    }
    if (!isnan(count) && removed->count > 0) {
        markup_format(m, " (%s %% removed)", percent_text(removed->mean).text);
    }
}

void describe_group(markup *m, const aggregate *a, const cell_group *g)
{
    const section *s = &a->sections[g->key.section];
    markup_format(m, "%s, %s, %s %%\n%s, %s", start_of(s->name, 60).text,
                  start_of(a->results->selectors[g->key.selector], 60).text,
                  ratio_text(g->key.sparsity).text, variant_label(g->key.variant),
                  setting_text(g->key.samples, g->key.open_loop).text);
    append_quality(m, s->kind, g);
    if (g->gain.count > 0) {
        markup_format(m, "\n%s%s points on the plain cut, %s %%", g->gain.mean < 0.0 ? "" : "+",
                      percent_text(g->gain.mean).text, percent_text(g->plain.mean).text);
    }
    if (!isnan(g->seconds[SECONDS_HEAL].mean)) {
        markup_format(m, "\nhealed in %s", seconds_text(g->seconds[SECONDS_HEAL].mean).text);
    }
    append_size(m, g->parameters.mean, "parameters", &g->removed);
    append_size(m, g->macs.mean, "MACs", &g->removed_macs);
    if (!isnan(g->latency.mean)) {
        markup_format(m, "\n%s per sample", seconds_text(g->latency.mean).text);
    }
}
