#include "study/page/decision_page.h"

#include "study/page/command.h"
#include "study/page/decision.h"
#include "study/page/describe.h"
#include "study/page/series.h"

#include <math.h>
#include <string.h>

enum { MOST_COMMAND = 1 << 20, MOST_TOGETHER = 30 };

static short_text limit_text(quality_kind kind, double limit)
{
    return text_format("%s%s", number_text(limit, 0).text,
                       kind == QUALITY_PERPLEXITY ? "\xC2\xA0%"
                       : limit < 1.5              ? " point"
                                                  : " points");
}

/* "52.3 % of the parameters" */
static short_text share_text(double share, const char *of)
{
    return text_format("%s\xC2\xA0%% of the %s", percent_text(share).text, of);
}

static void write_size(markup *m, const cell_group *g)
{
    const bool counted = g->removed.count > 0;
    markup_format(
        m, "<p class=\"cut\">%s removed</p>\n<p>%s\xC2\xA0%% of the units asked for",
        share_text(counted ? g->removed.mean : g->key.sparsity, counted ? "parameters" : "units")
            .text,
        ratio_text(g->key.sparsity).text);
    if (g->removed_macs.count > 0) {
        markup_format(m, ", %s removed", share_text(g->removed_macs.mean, "MACs").text);
    }
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
    markup_format(m, "<p>selector %s, repair %s, %s",
                  start_of(a->results->selectors[g->key.selector], 60).text,
                  variant_label(g->key.variant),
                  setting_text(g->key.samples, g->key.open_loop).text);
    if (alike > 0) {
        markup_format(m, "; %s of this size cannot be told from it",
                      count_text(alike, "other setting").text);
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
        const char *of = least->removed.count > 0 ? "parameters" : "units";
        markup_format(m, "<p>The one that comes nearest removes %s and %s.</p>\n",
                      share_text(decision_cut(least), of).text,
                      loss_text(s->kind, &least->lost).text);
    }
}

static grail_status write_cut(markup *m, const aggregate *a, const section *s, double limit,
                              const cell_group *g, bool is_repeated)
{
    write_size(m, g);
    markup_format(m, "<p>%s %s: %s</p>\n", describe_kind(s->kind),
                  quality_text(s->kind, &g->quality).text, loss_text(s->kind, &g->lost).text);
    if (g->lost.high > limit) {
        markup_format(m, "<p class=\"doubt\">Within its interval it may %s %s.</p>\n",
                      s->kind == QUALITY_ACCURACY ? "lose more than" : "exceed",
                      limit_text(s->kind, limit).text);
    }
    write_setting(m, a, s, g);
    if (is_repeated) {
        markup_raw(m, "<p>The same cut as before.</p>\n");
        return GRAIL_OK;
    }
    return write_command(m, a, g);
}

static grail_status write_card(markup *m, const aggregate *a, const section *s, double limit,
                               const cell_group *g, bool is_repeated)
{
    grail_status status = GRAIL_OK;
    markup_format(m, "<div class=\"card\">\n<h4>at most %s %s</h4>\n",
                  limit_text(s->kind, limit).text,
                  s->kind == QUALITY_ACCURACY ? "lost" : "more perplexity");
    if (g == NULL) {
        write_nothing(m, s);
    } else {
        status = write_cut(m, a, s, limit, g, is_repeated);
    }
    markup_raw(m, "</div>\n");
    return status;
}

static void write_dense(markup *m, const aggregate *a, const section *s)
{
    markup_format(m, "<p>Dense: %s %s", describe_kind(s->kind),
                  quality_text(s->kind, &s->dense_quality).text);
    for (int i = 0; !s->is_architecture && i < a->results->checkpoint_count; i++) {
        const line_measures *dense = &a->results->checkpoints[i].measures;
        if (&a->sections[a->section_of[i]] == s && !isnan(dense->parameters)) {
            markup_format(m, ", %s parameters, %s MACs", scaled_text(dense->parameters, "").text,
                          scaled_text(dense->macs, "").text);
        }
    }
    if (!isnan(s->dense_latency)) {
        markup_format(m, ", %s per %s", seconds_text(s->dense_latency).text,
                      s->kind == QUALITY_ACCURACY ? "image" : "window");
    }
    markup_raw(m, ".</p>\n");
}

static grail_status write_section(markup *m, const aggregate *a, const section *s)
{
    const cell_group *before = NULL;
    markup_format(m, "<h3>%s</h3>\n", start_of(s->name, 60).text);
    if (!estimate_is_known(&s->dense_quality)) {
        markup_raw(m, "<p>The dense network was not measured, so losses are not known.</p>\n");
        return GRAIL_OK;
    }
    write_dense(m, a, s);
    markup_raw(m, "<div class=\"cards\">\n");
    for (int i = 0; i < DECISION_LIMITS; i++) {
        const double limit = decision_limits(s->kind)[i];
        const cell_group *g = decision_largest(a, s, limit);
        CHECK(write_card(m, a, s, limit, g, g != NULL && g == before));
        before = g;
    }
    markup_raw(m, "</div>\n");
    return GRAIL_OK;
}

grail_status decision_page_write(const aggregate *a, markup *page)
{
    if (a->group_count == 0) {
        return GRAIL_OK;
    }
    markup_raw(page,
               "<section class=\"decision\">\n<h2 id=\"decision\">How far can it be cut?</h2>\n"
               "<p>The largest measured cut within each loss, with the command that makes it. "
               "Numbers in brackets are 95 % intervals.</p>\n");
    for (int i = 0; i < a->section_count; i++) {
        if (a->sections[i].group_count > 0) {
            CHECK(write_section(page, a, &a->sections[i]));
        }
    }
    markup_raw(page, "</section>\n");
    return GRAIL_OK;
}
