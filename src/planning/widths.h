/* Widths of all sites at once: what they cost, and the formulas that choose them. */
#ifndef GRAIL_PLANNING_WIDTHS_H
#define GRAIL_PLANNING_WIDTHS_H

#include "planning/cost_table.h"
#include "planning/loss_curves.h"
#include "reduce/alignment.h"
#include "reduce/allocate.h"
#include "reduce/plan.h"

/** Which sites of one kind and size must get the same width. */
typedef enum width_sharing { SHARE_NONE, SHARE_HEADS, SHARE_ALL } width_sharing;

/* What the sites of a network may become. A slot is a site with those that it measures, or all
 * sites of one kind and size where these must get the same width. The caller gives all up to
 * `align`, borrowed. */
typedef struct width_space {
    const graph *graph;
    const site_list *sites;
    const plan *plan; /* which cuts nothing */
    const cost_table *costs;
    double limit;
    width_sharing sharing;
    alignment align;
    double dense_cost;
    int *slot_of;           /* [sites]; GRAPH_NONE: the site keeps everything */
    allocation_site *slots; /* [slot_count]; errors and scores belong to the space */
    const site **first;     /* [slot_count]: of each slot */
    int slot_count;
} width_space;

/** A plan with other widths, kept[sites]. It borrows all but its sites: memory_free. */
grail_status widths_plan(const plan *uncut, const int64_t *kept, plan *out) GRAIL_MUST_CHECK;

/** Sites of the kinds in may_cut [SITE_KINDS] get slots. The curves are copied; NULL: none.
 * GRAIL_ERROR_ARGUMENT when the limit is below what the sites can reach. width_space_fini frees,
 * even after a failure. */
grail_status width_space_init(width_space *s, const loss_curve *curves,
                              const bool *may_cut) GRAIL_MUST_CHECK;
/** Whether the sites of a slot are heads. */
bool width_space_of_heads(const width_space *s, int slot);
/** Whether FLAP's scores are known for all slots: they are not for channels. */
bool width_space_has_scores(const width_space *s);
void width_space_fini(width_space *s); /* works on a zeroed one */

/** The width that the sites of a slot have in kept[sites], those that are multiples of it aside; 0
 * when all of them are dropped. */
int64_t width_space_slot(const width_space *s, int slot, const int64_t *kept);
/** Gives a width to the sites of a slot; sites that are dropped stay so. */
void width_space_set_slot(const width_space *s, int slot, int64_t width, int64_t *kept);
/** kept[sites] <- all units. */
void width_space_widen(const width_space *s, int64_t *kept);
/** Widens slots by one step, those that keep the smallest share first, as long as the network stays
 * below the limit, and then by the finest steps that the alignment allows. After this no slot that
 * costs something could be such a step wider. */
grail_status width_space_fill(const width_space *s, int64_t *kept) GRAIL_MUST_CHECK;
/** Scales all widths by the way that they are short of the whole, or all by one factor, so that the
 * network just stays below the limit; what sites with large steps leave, the others take. Sites
 * that are dropped stay so. *fits is false when the limit cannot be met. */
grail_status width_space_rescale(const width_space *s, int64_t *kept, bool *fits) GRAIL_MUST_CHECK;

/** A way to choose widths. */
typedef enum width_formula {
    FORMULA_UNIFORM, /* the same removed fraction everywhere, of heads `head_factor` times as much
                      */
    FORMULA_DEPTH,   /* fractions that grow with depth (SlimGPT) */
    FORMULA_SCORES,  /* units by standardised scores over the network (FLAP) */
    FORMULA_ERRORS   /* least sum of errors, those of heads times `head_factor` */
} width_formula;

typedef struct formula_choice {
    width_formula formula;
    double head_factor;
    const double *weights; /* [slot_count] of the slots' errors besides; NULL: 1 */
    bool fixes_heads;      /* `heads_removed` of all heads go, the rest of the cut falls on the
                              other sites; not for FORMULA_DEPTH */
    double heads_removed;  /* 0 to below 1 */
    const bool *dropped;   /* [sites]: sites that keep nothing; NULL: none */
} formula_choice;

/** kept[sites] by a formula, such that the network just stays below the limit: none of the slots
 * (for FORMULA_UNIFORM: none of the kinds and sizes of sites) could be a step wider, unless the
 * choice fixes it or it costs nothing. */
grail_status widths_by_formula(const width_space *s, formula_choice choice,
                               int64_t *kept) GRAIL_MUST_CHECK;

#endif
