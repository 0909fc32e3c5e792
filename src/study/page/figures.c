#include "study/page/figures.h"

#include "study/page/section.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_SLUG = 40 };

/* Whether a group is in a figure of the section, NULL for one of all sections. */
typedef bool (*chooser)(const section *s, const cell_group *g);

static bool in_tradeoff(const section *s, const cell_group *g)
{
    (void)s;
    return estimate_is_known(&g->quality);
}

static bool in_scatter(const section *s, const cell_group *g)
{
    (void)s;
    return g->plain.count > 0 && g->top1.count > 0;
}

static bool in_accuracy(const section *s, const cell_group *g)
{
    return section_shows(s, g) && estimate_is_known(&g->quality);
}

static bool in_gain(const section *s, const cell_group *g)
{
    return section_shows(s, g) && g->gain.count > 0;
}

/* A name as part of a file name: letters, digits, dots and dashes. */
static void slug(const char *name, char *out)
{
    size_t length = 0;
    for (; *name != 0 && length < MOST_SLUG; name++) {
        const char c = *name;
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
        out[length++] = plain ? c : '-';
    }
    out[length] = 0;
}

/* Adds a figure; *rows, which is borrowed, is its list of rows. */
static grail_status begin_figure(json_t *figures, const char *kind, const section *s,
                                 const char *table, json_t **rows)
{
    char part[MOST_SLUG + 1] = "";
    char file[MOST_SLUG + 64];
    if (s != NULL) {
        slug(s->name, part);
    }
    snprintf(file, sizeof file, "%02zu-%s%s%s", json_array_size(figures) + 1, kind,
             part[0] == 0 ? "" : "-", part);
    *rows = json_array();
    return json_push(figures,
                     json_pack("{s:o, s:o, s:o, s:o, s:o}", "kind", json_text(kind), "network",
                               s == NULL ? json_null() : json_text(s->name), "file",
                               json_text(file), "table", json_text(table), "rows", *rows));
}

/* The figure that was added last is left out if it has no rows. */
static void end_figure(json_t *figures, const json_t *rows)
{
    if (json_array_size(rows) == 0) {
        (void)json_array_remove(figures, json_array_size(figures) - 1);
    }
}

/* A figure of the chosen ones among groups[count]. */
static grail_status add_of_groups(const aggregate *a, const section *s, const cell_group *groups,
                                  int count, const char *kind, chooser choose, json_t *figures)
{
    json_t *rows = NULL;
    CHECK(begin_figure(figures, kind, s, "groups", &rows));
    for (int i = 0; i < count; i++) {
        if (choose(&a->sections[groups[i].key.section], &groups[i])) {
            CHECK(json_push(rows, json_integer(&groups[i] - a->groups)));
        }
    }
    end_figure(figures, rows);
    return GRAIL_OK;
}

/* Where the gains of a selector are drawn against the number of samples. */
typedef struct sample_curve {
    int selector, setting;
    double ratio; /* NaN: nowhere are there two numbers of samples */
    int count;    /* of numbers of samples */
} sample_curve;

static bool is_on_curve(const section *s, const cell_group *g, const sample_curve *at)
{
    return g->key.selector == at->selector && g->key.open_loop == s->open_loop &&
           g->key.setting == at->setting && g->key.samples > 0 && g->gain.count > 0 &&
           ratio_compare(g->key.sparsity, at->ratio) == 0;
}

static int count_samples(const section *s, variant v, const sample_curve *at)
{
    int count = 0;
    for (int i = 0; i < s->group_count; i++) {
        const cell_group *g = &s->groups[i];
        count += g->key.variant == v && is_on_curve(s, g, at) ? 1 : 0;
    }
    return count;
}

/* More numbers of samples, then the setting that plots show, then the ratio nearest to a half. */
static bool is_better_curve(const section *s, const sample_curve *a, const sample_curve *b)
{
    const bool a_shown = a->setting == s->setting;
    const bool b_shown = b->setting == s->setting;
    if (a->count != b->count || isnan(b->ratio)) {
        return a->count > b->count;
    }
    return a_shown != b_shown ? a_shown : fabs(a->ratio - 0.5) < fabs(b->ratio - 0.5);
}

/* By the best repair that the section has. */
static sample_curve choose_curve(const section *s, int selector)
{
    const variant best = section_best_variant(s);
    sample_curve chosen = {.ratio = NOT_MEASURED, .count = 1};
    for (int i = 0; i < s->group_count; i++) {
        const group_key *key = &s->groups[i].key;
        if (key->selector == selector && key->variant == best) {
            sample_curve at = {
                .selector = selector, .setting = key->setting, .ratio = key->sparsity};
            at.count = count_samples(s, best, &at);
            chosen = is_better_curve(s, &at, &chosen) ? at : chosen;
        }
    }
    return chosen;
}

/* Gains against the number of samples, where a repair has two of them. */
static grail_status add_samples(const aggregate *a, const section *s, json_t *figures)
{
    json_t *rows = NULL;
    CHECK(begin_figure(figures, "samples", s, "groups", &rows));
    for (int selector = 0; selector < MOST_SELECTORS; selector++) {
        const sample_curve at = choose_curve(s, selector);
        for (int i = 0; !isnan(at.ratio) && i < s->group_count; i++) {
            const cell_group *g = &s->groups[i];
            if (is_on_curve(s, g, &at) && count_samples(s, g->key.variant, &at) > 1) {
                CHECK(json_push(rows, json_integer(g - a->groups)));
            }
        }
    }
    end_figure(figures, rows);
    return GRAIL_OK;
}

static bool has_number(const json_t *row)
{
    for (size_t i = 0; i < json_array_size(row); i++) {
        if (json_is_number(json_array_get(row, i))) {
            return true;
        }
    }
    return false;
}

/* A figure of those rows of another table that belong to the section and hold a number. */
static grail_status add_of_table(const section *s, const char *kind, const json_t *tables,
                                 json_t *figures)
{
    json_t *rows = NULL;
    CHECK(begin_figure(figures, kind, s, kind, &rows));
    const json_t *all = json_object_get(json_object_get(tables, kind), "rows");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *row = json_array_get(all, i);
        if (strcmp(json_string_value(json_array_get(row, 0)), s->name) == 0 && has_number(row)) {
            CHECK(json_push(rows, json_integer((json_int_t)i)));
        }
    }
    end_figure(figures, rows);
    return GRAIL_OK;
}

static grail_status add_section(const aggregate *a, const section *s, const json_t *tables,
                                json_t *figures)
{
    if (s->group_count == 0) {
        return GRAIL_OK;
    }
    CHECK(add_of_groups(a, s, s->groups, s->group_count, "accuracy", in_accuracy, figures));
    CHECK(add_of_groups(a, s, s->groups, s->group_count, "gain", in_gain, figures));
    CHECK(add_samples(a, s, figures));
    CHECK(add_of_table(s, "sites", tables, figures));
    return add_of_table(s, "cost", tables, figures);
}

grail_status figures_add(const aggregate *a, const json_t *tables, json_t *figures)
{
    CHECK(add_of_groups(a, NULL, a->groups, a->group_count, "tradeoff", in_tradeoff, figures));
    CHECK(add_of_groups(a, NULL, a->groups, a->group_count, "scatter", in_scatter, figures));
    for (int i = 0; i < a->section_count; i++) {
        CHECK(add_section(a, &a->sections[i], tables, figures));
    }
    return GRAIL_OK;
}
