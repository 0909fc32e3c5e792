#include "cut_summary.h"

#include "print.h"
#include "shared_options.h"

#include <math.h>
#include <string.h>

/* The part of the cut asked for that may be missed without a word. */
static const double MISSED = 0.1;

/* What is said of the sites of one kind, or of all. Shares are of the parameters that these sites'
 * units hold, so that kinds can be added up. */
typedef struct kind_summary {
    const char *kind; /* NULL: all */
    double parameters, asked, removed;
    int sites;
    double before, after; /* sums over the measured sites */
    int measured, bias_only, kept_plain;
    bool held; /* all were measured on held-out samples */
} kind_summary;

/* The fraction of a site's units that the options ask to remove. */
static double asked_of(const grail_site_report *s)
{
    for (int i = 0; i < asked.compress.amount.site_sparsity_count; i++) {
        if (strcmp(asked.compress.amount.site_sparsities[i].site, s->name) == 0) {
            return asked.compress.amount.site_sparsities[i].sparsity;
        }
    }
    const double *sparsity = grail_compress_sparsity(&asked.compress, s->kind);
    return sparsity == NULL ? 0.0 : *sparsity;
}

/* A plan, and a limit, ask for widths and not for fractions. */
static bool asks_fractions(void)
{
    return asked.compress.amount.plan == NULL && asked.compress.amount.plan_text == NULL;
}

static void add_errors(const grail_fit *fit, kind_summary *k)
{
    const bool held = !isnan(fit->held_after);
    const double before = held ? fit->held_before : fit->fit_before;
    const double after = held ? fit->held_after : fit->fit_after;
    if (isnan(before) || isnan(after)) {
        return;
    }
    k->before += before;
    k->after += after;
    k->held = k->held && held;
    k->bias_only += strcmp(fit->fallback, "bias only") == 0 ? 1 : 0;
    k->kept_plain += strcmp(fit->fallback, "kept plain") == 0 ? 1 : 0;
    k->measured++;
}

/* Sites that nobody asked to cut, and that were not cut, do not count. */
static kind_summary summary_of(const grail_compression *c, const char *kind)
{
    kind_summary k = {.kind = kind, .held = true};
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        const double wanted = asks_fractions() ? asked_of(&s) : 0.0;
        if ((kind != NULL && strcmp(s.kind, kind) != 0) || s.gone != 0 ||
            (wanted == 0.0 && s.kept == s.units)) {
            continue;
        }
        const double unit = (double)s.parameters_per_unit;
        k.parameters += unit * (double)s.units;
        k.asked += wanted * unit * (double)s.units;
        k.removed += unit * (double)(s.units - s.kept);
        k.sites++;
        add_errors(&s.fit, &k);
    }
    return k;
}

static double percent(double part, double all)
{
    return all > 0.0 ? 100.0 * part / all : 0.0;
}

/* -- warnings ---------------------------------------------------------------------------------- */

/* It is not an error to name a kind of site that the model lacks, so that one command serves many
 * networks. */
static void warn_missing(const grail_compression *c)
{
    for (int k = 0; grail_site_kind_at(k) != NULL; k++) {
        const char *kind = grail_site_kind_at(k);
        bool there = *grail_compress_sparsity(&asked.compress, kind) == 0.0;
        for (int i = 0; i < grail_compression_site_count(c); i++) {
            there = there || strcmp(grail_compression_site(c, i).kind, kind) == 0;
        }
        if (!there) {
            print_error("grail: warning: the model has no sites of kind %s, so nothing of that "
                        "kind is cut\n",
                        kind);
        }
    }
}

/* A quarter or a sixteenth of the samples is held out of fits and of healing. */
static void warn_few_samples(const grail_compression *c)
{
    enum { FEW = 8 };
    const grail_compression_totals t = grail_compression_totals_get(c);
    if (t.samples > 0 && t.samples < FEW) {
        print_error("grail: warning: %lld calibration %s of a hundred or more that fits need: they "
                    "will suit these samples and little else; give more (--calib, --samples)\n",
                    (long long)t.samples, t.samples == 1 ? "sample" : "samples");
    }
}

void cut_summary_warn(const grail_compression *c, bool named)
{
    const char *shortfall = grail_compression_totals_get(c).shortfall;
    warn_few_samples(c);
    if (shortfall[0] != 0) {
        print_error("grail: warning: %s: %s\n", asked.compress.output.path, shortfall);
    }
    if (named) {
        warn_missing(c);
    }
}

static bool merges_units(void)
{
    grail_selector_facts facts;
    return grail_selector_describe(asked.compress.cut.selector, &facts) == GRAIL_OK &&
           facts.folds != 0;
}

/* Why the cut of a kind is not the one asked for, and what is. */
static const char *reason_of_missed(const char *kind, bool whole)
{
    const bool is_heads = strcmp(kind, "heads") == 0;
    if (whole && merges_units() && (strcmp(kind, "conv") == 0 || strcmp(kind, "stream") == 0)) {
        return "folding leaves channels of convolutions in groups, and others go as whole units; "
               "choose a selector that keeps units (--selector), or another share";
    }
    if (is_heads && asked.compress.cut.gqa == GRAIL_GQA_KV_GROUPS) {
        return "groups of heads go as whole units; ask for another share (heads=R), or cut the "
               "heads of groups with --gqa query-per-group";
    }
    if (is_heads || strcmp(kind, "experts") == 0 || strcmp(kind, "values") == 0 ||
        strcmp(kind, "groups") == 0 || asked.compress.cut.align == 1) {
        return "these go as whole units; ask for another share";
    }
    return asked.compress.cut.align > 1
               ? "widths are multiples of --align; lower it, or ask for another share"
               : "widths are multiples of 8 at least, and of a quantised type's blocks; --align 1 "
                 "does not round them";
}

/* Whether the site misses its share by more than a tenth, or keeps all of its units. */
static bool is_missed(const grail_site_report *s)
{
    const double wanted = asked_of(s) * (double)s->units;
    const double removed = (double)(s->units - s->kept);
    return s->gone == 0 && wanted > 0.0 &&
           (fabs(removed - wanted) > MISSED * wanted || s->kept == s->units);
}

void cut_summary_warn_missed(const grail_compression *c)
{
    for (int k = 0; asks_fractions() && grail_site_kind_at(k) != NULL; k++) {
        const kind_summary all = summary_of(c, grail_site_kind_at(k));
        grail_site_report first = {0};
        bool uncut = false;
        int missed = 0;
        for (int i = 0; i < grail_compression_site_count(c); i++) {
            const grail_site_report s = grail_compression_site(c, i);
            if (strcmp(s.kind, all.kind) == 0 && is_missed(&s)) {
                uncut = uncut || s.kept == s.units;
                first = missed++ == 0 ? s : first;
            }
        }
        if (missed > 0 && (uncut || fabs(all.removed - all.asked) > MISSED * all.asked)) {
            print_error("grail: warning: %s: %.1f %% of the parameters are removed where %.1f %% "
                        "were asked for, such as %lld of %lld units in %s: %s\n",
                        all.kind, percent(all.removed, all.parameters),
                        percent(all.asked, all.parameters), (long long)(first.units - first.kept),
                        (long long)first.units, first.name,
                        reason_of_missed(all.kind, first.kept == first.units));
        }
    }
}

/* How many narrowed sites have something, and the one to name: the first, or the worst. */
typedef struct tally {
    int count;
    grail_site_report named;
} tally;

static void note_site(bool has, const grail_site_report *s, bool is_worse, tally *t)
{
    if (has) {
        t->named = t->count == 0 || is_worse ? *s : t->named;
        t->count++;
    }
}

void cut_summary_note_memory(const grail_compression *c)
{
    const int64_t at_once = grail_compression_totals_get(c).samples_at_once;
    if (at_once > 0) {
        print_error("grail: note: the memory of the device was full, so batches of samples went "
                    "through it in parts of at most %lld\n",
                    (long long)at_once);
    }
}

void cut_summary_warn_after(const grail_compression *c)
{
    const double tolerance = 1.05; /* held-out errors of few samples vary by some percent */
    tally tied = {0};
    tally unreached = {0};
    tally harmed = {0};
    int cut = 0;
    double most = 1.0;
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        const double factor = s.fit.held_after / s.fit.held_before; /* none is NaN */
        const bool is_harmed = s.fit.held_after > tolerance * s.fit.held_before;
        cut += s.kept < s.units ? 1 : 0;
        note_site(s.tied != 0, &s, false, &tied);
        note_site(strcmp(s.fit.fallback, "not reached") == 0, &s, false, &unreached);
        note_site(is_harmed, &s, factor > most, &harmed);
        most = is_harmed ? fmax(most, factor) : most;
    }
    if (tied.count > 0) {
        print_error("grail: warning: in %d of %d narrowed sites, such as %s, all units score equal "
                    "under selector %s, so the first ones were kept; choose another --selector, or "
                    "calibrate on more samples\n",
                    tied.count, cut, tied.named.name, tied.named.selector);
    }
    if (unreached.count > 0) {
        print_error("grail: warning: no calibration token reached %d of %d narrowed sites, such as "
                    "%s: they were cut by their weights alone, without a fit; calibrate on more or "
                    "other text\n",
                    unreached.count, cut, unreached.named.name);
    }
    if (harmed.count > 0) {
        print_error("grail: warning: in %d of %d narrowed sites, such as %s (error %.4f, %.4f "
                    "before), the repair is worse than the plain cut on samples that it was not "
                    "fitted to; too few reach its %lld units; calibrate on more (--calib, "
                    "--samples), or use --compensate full, which keeps the plain cut where no fit "
                    "is better\n",
                    harmed.count, cut, harmed.named.name, harmed.named.fit.held_after,
                    harmed.named.fit.held_before, (long long)harmed.named.kept);
    }
}

/* -- text -------------------------------------------------------------------------------------- */

void cut_summary_note_width(const char *site, int64_t width, width_note *note)
{
    enum { LEAST = 256, STEP = 8 }; /* narrower products take no time */
    if (width >= LEAST && width % STEP != 0) {
        note->site = note->count == 0 ? site : note->site;
        note->width = note->count == 0 ? width : note->width;
        note->count++;
    }
}

void cut_summary_print_note(const width_note *note, const char *remedy)
{
    if (note->count > 0) {
        print_out(
            "  no multiple of 8: width %lld of %s%s; a GPU multiplies such matrices up to seven "
            "times slower%s\n",
            (long long)note->width, note->site, note->count > 1 ? ", and others" : "", remedy);
    }
}

/* Sites of equal widths share a line, so that a uniform cut takes one line per kind. Kinds of which
 * nothing was to be cut, and nothing was, have none. */
static void print_widths(const grail_compression *c)
{
    width_note note = {0};
    print_out("widths:%s\n", summary_of(c, NULL).sites > 0 ? "" : " nothing is cut");
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        int same = 0;
        bool first = true;
        for (int k = 0; k < grail_compression_site_count(c); k++) {
            const grail_site_report other = grail_compression_site(c, k);
            if (strcmp(other.kind, s.kind) == 0 && other.units == s.units && other.kept == s.kept &&
                other.gone == s.gone) {
                first = first && k >= i;
                same++;
            }
        }
        if (first && s.gone == 0 && summary_of(c, s.kind).sites > 0) {
            print_out("  %-5s %lld of %lld units kept, width %lld -> %lld, in %d %s\n", s.kind,
                      (long long)s.kept, (long long)s.units, (long long)s.width,
                      (long long)s.narrow, same, same == 1 ? "site" : "sites");
        }
        if (s.kept < s.units) {
            cut_summary_note_width(s.name, s.narrow, &note);
        }
    }
    cut_summary_print_note(&note, "; --align auto, or 8, rounds them");
}

static void print_numbers(const char *what, int count, const int64_t *numbers)
{
    for (int i = 0; i < count; i++) {
        print_out("%s%lld", i == 0 ? what : ", ", (long long)numbers[i]);
    }
}

/* Known after a run. */
static void print_dropped_experts(const grail_compression *c)
{
    bool begun = false;
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        if (s.removed_count > 0) {
            print_out("%s  %s: ", begun ? "" : "experts that go, by their numbers before:\n",
                      s.name);
            print_numbers("", s.removed_count, s.removed);
            print_numbers("; no calibration token reached ", s.unreached_count, s.unreached);
            print_out("\n");
            begun = true;
        }
    }
}

static void print_cut(const kind_summary *k, bool wanted)
{
    if (k->sites == 0) {
        return;
    }
    print_out("  %-6s", k->kind == NULL ? "sites" : k->kind);
    if (wanted) {
        print_out(" %5.1f %% asked,", percent(k->asked, k->parameters));
    }
    print_out(" %5.1f %% removed\n", percent(k->removed, k->parameters));
}

/* Beside the shares of sites, whose units may share parameters and are not all of the network. */
static void print_whole(const grail_compression *c)
{
    const grail_compression_totals t = grail_compression_totals_get(c);
    const double all = (double)t.dense.parameters;
    print_out("of the parameters of the whole network %.1f %% are removed, %.1f %% stay\n",
              percent(all - (double)t.parameters, all), percent((double)t.parameters, all));
}

static void print_errors(const kind_summary *k)
{
    if (k->measured == 0) {
        return;
    }
    print_out("  %-6s %.4f -> %.4f, mean of %d %s", k->kind, k->before / k->measured,
              k->after / k->measured, k->measured, k->measured == 1 ? "site" : "sites");
    if (k->bias_only > 0) {
        print_out("; %d with a new bias only", k->bias_only);
    }
    if (k->kept_plain > 0) {
        print_out("; %d kept plain", k->kept_plain);
    }
    print_out("\n");
}

void cut_summary_print(const grail_compression *c)
{
    const kind_summary all = summary_of(c, NULL);
    print_widths(c);
    if (all.sites > 0) {
        print_out("cut, of the parameters that these units hold:\n");
    }
    for (int i = 0; grail_site_kind_at(i) != NULL; i++) {
        const kind_summary k = summary_of(c, grail_site_kind_at(i));
        print_cut(&k, asks_fractions());
    }
    print_cut(&all, asks_fractions());
    print_whole(c);
    print_dropped_experts(c);
    if (all.measured > 0) {
        print_out("error behind the cuts, before and after the repair%s:\n",
                  all.held ? ", on held-out samples" : "");
    }
    for (int i = 0; grail_site_kind_at(i) != NULL; i++) {
        const kind_summary k = summary_of(c, grail_site_kind_at(i));
        print_errors(&k);
    }
}

/* Whether sites of one kind and size keep different numbers of units. */
static bool widths_differ(const grail_compression *c)
{
    for (int i = 0; i < grail_compression_site_count(c); i++) {
        const grail_site_report s = grail_compression_site(c, i);
        for (int k = 0; k < i; k++) {
            const grail_site_report other = grail_compression_site(c, k);
            if (strcmp(other.kind, s.kind) == 0 && other.units == s.units && other.kept != s.kept) {
                return true;
            }
        }
    }
    return false;
}

/* Where some loader takes widths that differ, others take those of FFNs. */
static void print_remedy(bool some_load)
{
    print_out("  %sthe same width in all layers would load: one number for --sparsity, or a limit "
              "with --uniform-widths\n",
              some_load ? "more of them load FFNs that alone differ: a limit with --uniform-heads; "
                        : "");
}

void cut_summary_print_loaders(const grail_compression *c)
{
    const char *loader = NULL;
    const char *reason = NULL;
    int loads = 0;
    bool all = true;
    bool some = false;
    print_out("who loads this:\n");
    for (int i = 0; grail_compression_loader(c, i, &loader, &loads, &reason) != 0; i++) {
        print_out("  %-13s %-4s %s\n", loader, loads ? "yes" : "no", reason);
        all = all && loads != 0;
        some = some || loads != 0;
    }
    if (!all && widths_differ(c) && grail_compression_totals_get(c).dense.reads_images == 0) {
        print_remedy(some);
    }
}

/* -- JSON -------------------------------------------------------------------------------------- */

static json_t *kind_json(const kind_summary *k, bool wanted)
{
    const double none = (double)NAN;
    return json_of("kind", J(k->kind), "asked", J(wanted ? k->asked / k->parameters : none),
                   "reached", J(k->removed / k->parameters), "error_before",
                   J(k->measured > 0 ? k->before / k->measured : none), "error_after",
                   J(k->measured > 0 ? k->after / k->measured : none), "sites", J(k->sites),
                   "bias_only", J(k->bias_only), "kept_plain", J(k->kept_plain), NULL);
}

json_t *cut_summary_json(const grail_compression *c)
{
    json_t *kinds = json_array();
    for (int i = 0; grail_site_kind_at(i) != NULL; i++) {
        const kind_summary k = summary_of(c, grail_site_kind_at(i));
        if (k.sites > 0 && k.parameters > 0.0) {
            json_array_append_new(kinds, kind_json(&k, asks_fractions()));
        }
    }
    return kinds;
}
