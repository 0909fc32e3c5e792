/* Selectors: rules that choose the units of a site that stay, or merge them into clusters. A
 * selector is one line of selector_list.h, and a file or part of one. */
#ifndef GRAIL_REDUCE_SELECTOR_H
#define GRAIL_REDUCE_SELECTOR_H

#include "reduce/reducer.h"
#include "reduce/site_view.h"

struct compensation;

typedef struct selector {
    const char *name;
    const char *summary; /* what it does, for help: "keeps units at random" */
    bool folds;          /* merges units into clusters */
    bool draws;          /* the result depends on the seed */
    bool uses_data;      /* needs statistics of some sites */
    /** Kinds of sites that it has no rule for, a set of 1 << site_kind. A plan that cuts one is
     * refused. */
    unsigned excluded_kinds;
    /** It measures errors at a consumer's output by a metric where there is one. */
    bool takes_metric;
    bool decides_experts; /* it has a rule for sites of kind experts */
    /** The update that its authors make themselves (plan.h); NULL: none. */
    const struct compensation *own;
    /** The statistics needed at every site; at this one besides, unless NULL. */
    unsigned always_needs;
    unsigned (*needs)(const site *s);
    /** Scores units, of which the best are kept: select_by_scores. NULL where `decide` is set. */
    grail_status (*score)(const site_view *view, double *scores);
    /** Decides the site; *out is owned. */
    grail_status (*decide)(const site_view *view, grail_reducer **out);
    /** losses[n + 1]: the squared error that is left with K units, in the units of the consumers'
     * outputs, falling to 0 at n. NULL: the selector knows none. */
    grail_status (*losses)(const site_view *view, double *losses);
} selector;

/** For methods that say nothing of convolutions, nor of channels that several maps read. */
enum { NOT_FOR_CHANNELS = 1 << SITE_CONV | 1 << SITE_STREAM | 1 << SITE_LATENT | 1 << SITE_GROUPS };

#define SELECTOR(name) extern const selector selector_##name;
#include "reduce/selector_list.h"
#undef SELECTOR

/** i-th selector, NULL beyond the last. */
const selector *selector_at(int i);
/** Its place in the table. */
int selector_index(const selector *s);
/** Finds a selector by name; GRAIL_ERROR_ARGUMENT lists the known ones. */
grail_status selector_from_name(const char *name, const selector **out) GRAIL_MUST_CHECK;

/** Whether it has a rule for sites of this kind. */
bool selector_decides(const selector *rule, site_kind kind);
/** The rule that decides sites of this kind where `rule` was asked for: of experts `reap` in the
 * place of one that has none for them. */
const selector *selector_for(const selector *rule, site_kind kind);

/** A set of selector_need. */
unsigned selector_needs(const selector *rule, const site *s);
/** `needs` of a rule that looks at Gram matrices alone: of all consumers of a residual stream. */
unsigned selector_needs_gram(const site *s);

/** Decides a site by the rule; *out is owned. */
grail_status selector_decide(const selector *rule, const site_view *view,
                             grail_reducer **out) GRAIL_MUST_CHECK;

/** The same, but by the norms of weights where no row of the samples reached what a rule that keeps
 * units looks at. */
grail_status selector_choose(const selector *rule, const site_view *view,
                             grail_reducer **out) GRAIL_MUST_CHECK;

#endif
