#include "study/page/decision_page.h"

#include "study/page/command.h"
#include "study/page/decision.h"
#include "study/page/describe.h"
#include "study/page/series.h"

#include <math.h>
#include <string.h>

enum { MOST_COMMAND = 1 << 20, MOST_TOGETHER = 30 };

static void write_limit(markup *m, quality_kind kind, double limit)
{
    markup_number(m, limit, 0);
    markup_raw(m, kind == QUALITY_PERPLEXITY ? "\xC2\xA0%" : limit < 1.5 ? " point" : " points");
}

/* "52.3 % of the parameters" */
static void write_share(markup *m, double share, const char *of)
{
    markup_percent(m, share);
    markup_format(m, "\xC2\xA0%% of the %s", of);
}

static void write_size(markup *m, const cell_group *g)
{
    markup_raw(m, "<p class=\"cut\">");
    if (g->removed.count > 0) {
        write_share(m, g->removed.mean, "parameters removed");
    } else {
        write_share(m, g->key.sparsity, "units removed");
    }
    markup_raw(m, "</p>\n<p>");
    markup_ratio(m, g->key.sparsity);
    markup_raw(m, "\xC2\xA0% of the units asked for");
    if (g->removed_macs.count > 0) {
        markup_raw(m, ", ");
        write_share(m, g->removed_macs.mean, "MACs removed");
    }
    markup_raw(m, "</p>\n");
}

static void write_quality(markup *m, const section *s, const cell_group *g)
{
    markup_format(m, "<p>%s ", describe_kind(s->kind));
    describe_quality(m, s->kind, &g->quality);
    markup_raw(m, ": ");
    describe_loss(m, s->kind, &g->lost);
    markup_raw(m, "</p>\n");
}

/* Selector and repair, and how many others of this size cannot be told from it. */
static void write_setting(markup *m, const aggregate *a, const section *s, const cell_group *g)
{
    int alike = 0;
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *other = &s->groups[i];
        alike += other != g && decision_is_alike(s, g, other) ? 1 : 0;
    }
    markup_raw(m, "<p>selector ");
    markup_start_of(m, a->results->selectors[g->key.selector], 60);
    markup_format(m, ", repair %s, ", variant_label(g->key.variant));
    describe_setting(m, g->key.samples, g->key.open_loop);
    if (alike > 0) {
        markup_raw(m, "; ");
        describe_count(m, alike, "other setting");
        markup_raw(m, " of this size cannot be told from it");
    }
    markup_raw(m, "</p>\n");
}

/* Options and their short values stay on one line. A browser breaks lines behind hyphens, so an
 * option with a long value stays whole itself. */
static void write_words(markup *m, const char *command)
{
    const char *at = strstr(command, " -");
    markup_part(m, command, at == NULL ? strlen(command) : (size_t)(at - command));
    while (at != NULL && *at != 0) {
        const char *next = strstr(at + 1, " -");
        const size_t length = next == NULL ? strlen(at) : (size_t)(next - at);
        const size_t word = 1 + strcspn(at + 1, " ");
        const size_t kept = length <= MOST_TOGETHER ? length : word;
        markup_raw(m, " <span>");
        markup_part(m, at + 1, kept - 1);
        markup_raw(m, "</span>");
        markup_part(m, at + kept, length - kept);
        at += length;
    }
}

static grail_status write_command(markup *m, const aggregate *a, const cell_group *g)
{
    grail_status status = GRAIL_OK;
    buffer text = {0};
    buffer_init(&text, MOST_COMMAND);
    TRY(command_write(a, g, &text));
    markup_raw(m, "<pre class=\"command\"><code>");
    write_words(m, (const char *)text.bytes);
    markup_raw(m, "</code></pre>\n");
out:
    buffer_fini(&text);
    return status;
}

/* What there is instead of a cut. */
static void write_nothing(markup *m, const section *s)
{
    const cell_group *least = decision_least_loss(s);
    markup_raw(m, "<p class=\"cut\">none of the measured cuts</p>\n");
    if (least != NULL) {
        markup_raw(m, "<p>The one that comes nearest removes ");
        write_share(m, decision_cut(least), least->removed.count > 0 ? "parameters" : "units");
        markup_raw(m, " and ");
        describe_loss(m, s->kind, &least->lost);
        markup_raw(m, ".</p>\n");
    }
}

static grail_status write_card(markup *m, const aggregate *a, const section *s, double limit,
                               const cell_group *g, bool is_repeated)
{
    grail_status status = GRAIL_OK;
    markup_raw(m, "<div class=\"card\">\n<h4>at most ");
    write_limit(m, s->kind, limit);
    markup_raw(m, s->kind == QUALITY_ACCURACY ? " lost</h4>\n" : " more perplexity</h4>\n");
    if (g == NULL) {
        write_nothing(m, s);
    } else {
        write_size(m, g);
        write_quality(m, s, g);
        if (g->lost.high > limit) {
            markup_raw(m, s->kind == QUALITY_ACCURACY
                              ? "<p class=\"doubt\">Within its interval it may lose more than "
                              : "<p class=\"doubt\">Within its interval it may exceed ");
            write_limit(m, s->kind, limit);
            markup_raw(m, ".</p>\n");
        }
        write_setting(m, a, s, g);
        if (is_repeated) {
            markup_raw(m, "<p>The same cut as before.</p>\n");
        } else {
            TRY(write_command(m, a, g));
        }
    }
    markup_raw(m, "</div>\n");
out:
    return status;
}

static void write_dense(markup *m, const aggregate *a, const section *s)
{
    markup_raw(m, "<p>Dense: ");
    markup_format(m, "%s ", describe_kind(s->kind));
    describe_quality(m, s->kind, &s->dense_quality);
    for (int i = 0; !s->is_architecture && i < a->results->checkpoint_count; i++) {
        const line_measures *dense = &a->results->checkpoints[i].measures;
        if (&a->sections[a->section_of[i]] == s && !isnan(dense->parameters)) {
            markup_raw(m, ", ");
            markup_scaled(m, dense->parameters, "");
            markup_raw(m, " parameters, ");
            markup_scaled(m, dense->macs, "");
            markup_raw(m, " MACs");
        }
    }
    if (!isnan(s->dense_latency)) {
        markup_raw(m, ", ");
        markup_seconds(m, s->dense_latency);
        markup_raw(m, s->kind == QUALITY_ACCURACY ? " per image" : " per window");
    }
    markup_raw(m, ".</p>\n");
}

static grail_status write_section(markup *m, const aggregate *a, const section *s)
{
    grail_status status = GRAIL_OK;
    const cell_group *before = NULL;
    markup_raw(m, "<h3>");
    markup_start_of(m, s->name, 60);
    markup_raw(m, "</h3>\n");
    if (!estimate_is_known(&s->dense_quality)) {
        markup_raw(m, "<p>The dense network was not measured, so losses are not known.</p>\n");
        return GRAIL_OK;
    }
    write_dense(m, a, s);
    markup_raw(m, "<div class=\"cards\">\n");
    for (int i = 0; i < DECISION_LIMITS; i++) {
        const double limit = decision_limits(s->kind)[i];
        const cell_group *g = decision_largest(a, s, limit);
        TRY(write_card(m, a, s, limit, g, g != NULL && g == before));
        before = g;
    }
    markup_raw(m, "</div>\n");
out:
    return status;
}

grail_status decision_page_write(const aggregate *a, markup *page)
{
    grail_status status = GRAIL_OK;
    if (a->group_count == 0) {
        return GRAIL_OK;
    }
    markup_raw(page,
               "<section class=\"decision\">\n<h2 id=\"decision\">How far can it be cut?</h2>\n"
               "<p>The largest measured cut within each loss, with the command that makes it. "
               "Numbers in brackets are 95 % intervals.</p>\n");
    for (int i = 0; i < a->section_count; i++) {
        if (a->sections[i].group_count > 0) {
            TRY(write_section(page, a, &a->sections[i]));
        }
    }
    markup_raw(page, "</section>\n");
out:
    return status;
}
