#include "planning/widths.h"

#include "reduce/budget.h"

#include <math.h>
#include <string.h>

grail_status widths_plan(const plan *uncut, const int64_t *kept, plan *out)
{
    plan p = *uncut;
    CHECK(memory_new(&p.sites, (size_t)p.count, sizeof p.sites[0]));
    for (int i = 0; i < p.count; i++) {
        p.sites[i] = uncut->sites[i];
        p.sites[i].kept = kept[i];
    }
    *out = p;
    return GRAIL_OK;
}

void width_space_fini(width_space *s)
{
    for (int i = 0; s->slots != NULL && i < s->slot_count; i++) {
        memory_free((double *)(uintptr_t)s->slots[i].errors);
        memory_free((double *)(uintptr_t)s->slots[i].scores);
    }
    memory_free(s->slot_of);
    memory_free(s->slots);
    memory_free(s->first);
    *s = (width_space){0};
}

/* -- slots ------------------------------------------------------------------------------------- */

static bool is_twin(const site *a, const site *b)
{
    return a->kind == b->kind && a->units == b->units && a->groups == b->groups;
}

/* The slot that a site shares with earlier ones, or GRAPH_NONE. */
static int shared_slot(const width_space *s, int index)
{
    const site *own = &s->sites->sites[index];
    const bool shares =
        s->sharing == SHARE_ALL || (s->sharing == SHARE_HEADS && own->kind == SITE_HEADS);
    if (own->measure != NULL) {
        return s->slot_of[own->measure - s->sites->sites];
    }
    for (int i = 0; shares && i < index; i++) {
        const site *other = &s->sites->sites[i];
        if (s->slot_of[i] != GRAPH_NONE && is_twin(other, own) && site_times(other) == 1) {
            return s->slot_of[i];
        }
    }
    return GRAPH_NONE;
}

/* Widths of a slot are multiples of one number, `wanted` is ANY_WIDTH, until what is left of a
 * limit is taken by the steps of FINEST_WIDTH. */
static int64_t step_of(const site *s, alignment align, int64_t wanted)
{
    if (s->kind == SITE_HEADS || s->kind == SITE_VALUES) {
        return s->groups;
    }
    const int64_t step = aligned_step(s, align, wanted);
    return step < s->units ? step : s->groups;
}

static grail_status add_slot(width_space *s, int index)
{
    const site *own = &s->sites->sites[index];
    double *errors = NULL;
    const int slot = s->slot_count;
    const int64_t step = step_of(own, s->align, ANY_WIDTH);
    CHECK(memory_new(&errors, (size_t)own->units + 1, sizeof errors[0]));
    s->slots[slot] = (allocation_site){.name = own->name,
                                       .units = own->units,
                                       .step = step,
                                       .least = step < own->groups ? own->groups : step,
                                       .weight = 1.0,
                                       .errors = errors};
    s->first[slot] = own;
    s->slot_of[index] = slot;
    s->slot_count++;
    return GRAIL_OK;
}

/* Sites that share a slot are ranked by the first one's scores. */
static grail_status add_curve(const loss_curve *curve, int64_t times, allocation_site *slot)
{
    double *errors = (double *)(uintptr_t)slot->errors;
    for (int64_t k = 0; k <= slot->units; k++) {
        errors[k] += curve->errors[k * times];
    }
    if (curve->scores != NULL && slot->scores == NULL) {
        double *scores = NULL;
        CHECK(memory_new_unset(&scores, (size_t)slot->units, sizeof scores[0]));
        memcpy(scores, curve->scores, (size_t)slot->units * sizeof scores[0]);
        slot->scores = scores;
    }
    return GRAIL_OK;
}

static grail_status make_slots(width_space *s, const loss_curve *curves, const bool *may_cut)
{
    const size_t sites = (size_t)s->sites->count;
    CHECK(memory_new(&s->slot_of, sites, sizeof s->slot_of[0]));
    CHECK(memory_new(&s->slots, sites, sizeof s->slots[0]));
    CHECK(memory_new(&s->first, sites, sizeof s->first[0]));
    for (int i = 0; i < s->sites->count; i++) {
        const site *own = &s->sites->sites[i];
        const bool may = site_may_be_cut(own, may_cut);
        s->slot_of[i] = may ? shared_slot(s, i) : GRAPH_NONE;
        if (may && s->slot_of[i] == GRAPH_NONE) {
            CHECK(add_slot(s, i));
        }
        if (may && curves != NULL) {
            CHECK(add_curve(&curves[i], site_times(own), &s->slots[s->slot_of[i]]));
        }
    }
    return GRAIL_OK;
}

bool width_space_of_heads(const width_space *s, int slot)
{
    return s->first[slot]->kind == SITE_HEADS;
}

bool width_space_has_scores(const width_space *s)
{
    bool all = true;
    for (int i = 0; i < s->slot_count; i++) {
        all = all && s->slots[i].scores != NULL;
    }
    return all;
}

int64_t width_space_slot(const width_space *s, int slot, const int64_t *kept)
{
    int64_t width = 0;
    for (int i = 0; i < s->sites->count; i++) {
        width = s->slot_of[i] == slot && kept[i] > 0 ? kept[i] / site_times(&s->sites->sites[i])
                                                     : width;
    }
    return width;
}

void width_space_set_slot(const width_space *s, int slot, int64_t width, int64_t *kept)
{
    for (int i = 0; i < s->sites->count; i++) {
        kept[i] = s->slot_of[i] == slot && kept[i] > 0 ? site_times(&s->sites->sites[i]) * width
                                                       : kept[i];
    }
}

void width_space_widen(const width_space *s, int64_t *kept)
{
    for (int i = 0; i < s->sites->count; i++) {
        kept[i] = s->sites->sites[i].units;
    }
}

/* The cost of a unit of each slot: what the network loses when that slot alone becomes as narrow as
 * it can be. */
static void measure_costs(width_space *s, int64_t *kept)
{
    width_space_widen(s, kept);
    s->dense_cost = cost_table_read(s->costs, kept);
    for (int i = 0; i < s->slot_count; i++) {
        allocation_site *slot = &s->slots[i];
        if (slot->least < slot->units) {
            width_space_set_slot(s, i, slot->least, kept);
            slot->cost = (s->dense_cost - cost_table_read(s->costs, kept)) /
                         (double)(slot->units - slot->least);
            width_space_set_slot(s, i, slot->units, kept);
        }
    }
}

grail_status width_space_init(width_space *s, const loss_curve *curves, const bool *may_cut)
{
    grail_status status = GRAIL_OK;
    int64_t *kept = NULL;
    TRY(make_slots(s, curves, may_cut));
    if (s->slot_count == 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the model has no site of the kinds that may be cut");
    }
    TRY(memory_new(&kept, (size_t)s->sites->count, sizeof kept[0]));
    measure_costs(s, kept);
    for (int i = 0; i < s->slot_count; i++) {
        width_space_set_slot(s, i, s->slots[i].least, kept);
    }
    const double least = cost_table_read(s->costs, kept);
    if (!(s->limit >= least)) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "the limit of %.10g cannot be met: with the least widths of all sites that may be cut "
             "the network still has %.10g (dense %.10g); raise the limit, or let more kinds of "
             "sites be cut",
             s->limit, least, s->dense_cost);
    }
out:
    memory_free(kept);
    return status;
}

/* -- what is left of the limit ----------------------------------------------------------------- */

/* What is widened together: the slots of one kind and size of sites, or each slot by itself. Heads
 * may be fixed. */
typedef struct filling {
    bool by_size, fixes_heads;
    bool finest; /* by the finest steps */
} filling;

/* The slot that keeps the smallest share of its units, among those that may be wider; GRAPH_NONE:
 * there is none. */
static int narrowest(const width_space *s, filling f, const bool *refused, const int64_t *kept)
{
    int found = GRAPH_NONE;
    double least = 1.0;
    for (int i = 0; i < s->slot_count; i++) {
        const int64_t width = width_space_slot(s, i, kept);
        const double share = (double)width / (double)s->slots[i].units;
        const bool fixed = f.fixes_heads && width_space_of_heads(s, i);
        if (width > 0 && share < least && !refused[i] && !fixed && s->slots[i].cost > 0.0) {
            least = share;
            found = i;
        }
    }
    return found;
}

/* Widens a slot, and those that are widened with it, by a step. */
static void widen_by_step(const width_space *s, filling f, int slot, int64_t *kept)
{
    for (int i = 0; i < s->slot_count; i++) {
        if (i == slot || (f.by_size && is_twin(s->first[i], s->first[slot]))) {
            allocation_site steps = s->slots[i];
            steps.step = f.finest ? step_of(s->first[i], s->align, FINEST_WIDTH) : steps.step;
            const int64_t width = width_space_slot(s, i, kept);
            width_space_set_slot(s, i, allocation_next_width(&steps, width), kept);
        }
    }
}

static grail_status fill_limit(const width_space *s, filling f, int64_t *kept)
{
    grail_status status = GRAIL_OK;
    const size_t sites = (size_t)s->sites->count;
    int64_t *wider = NULL;
    bool *refused = NULL;
    TRY(memory_new(&wider, sites, sizeof wider[0]));
    TRY(memory_new(&refused, (size_t)s->slot_count, sizeof refused[0]));
    for (int round = 0; round < 2; round++) {
        f.finest = round == 1;
        memset(refused, 0, (size_t)s->slot_count * sizeof refused[0]);
        for (int slot = narrowest(s, f, refused, kept); slot != GRAPH_NONE;
             slot = narrowest(s, f, refused, kept)) {
            memcpy(wider, kept, sites * sizeof wider[0]);
            widen_by_step(s, f, slot, wider);
            refused[slot] = cost_table_read(s->costs, wider) > s->limit;
            if (!refused[slot]) {
                memcpy(kept, wider, sites * sizeof wider[0]);
            }
        }
    }
out:
    memory_free(wider);
    memory_free(refused);
    return status;
}

grail_status width_space_fill(const width_space *s, int64_t *kept)
{
    return fill_limit(s, (filling){0}, kept);
}

/* -- formulas ---------------------------------------------------------------------------------- */

/* Each formula narrows kept[sites], all units, by a parameter t between 0 and 1: a larger one gives
 * smaller widths. */

static grail_status narrow_uniformly(const width_space *s, formula_choice choice, double t,
                                     int64_t *kept)
{
    static const double most = 0.95; /* of heads */
    grail_status status = GRAIL_OK;
    plan p = {0};
    budget b = {.align = s->align};
    const double of_heads =
        choice.fixes_heads ? choice.heads_removed : fmin(choice.head_factor * t, most);
    for (int i = 0; i < s->slot_count; i++) {
        b.sparsity[s->first[i]->kind] = width_space_of_heads(s, i) ? of_heads : t;
    }
    TRY(widths_plan(s->plan, kept, &p));
    TRY(budget_apply(&b, s->sites, &p));
    for (int i = 0; i < p.count; i++) {
        kept[i] = s->slot_of[i] != GRAPH_NONE ? p.sites[i].kept : kept[i];
    }
out:
    memory_free(p.sites);
    return status;
}

/* The nearest width of a slot to a number of units. */
static int64_t nearest_width(const allocation_site *slot, double units)
{
    const int64_t steps = llround(units / (double)slot->step);
    const int64_t width = steps * slot->step;
    return width < slot->least ? slot->least : width > slot->units ? slot->units : width;
}

static grail_status narrow_by_depth(const width_space *s, double t, int64_t *kept)
{
    grail_status status = GRAIL_OK;
    double *ratios = NULL;
    const int blocks = s->graph->block_count + 1;
    TRY(memory_new(&ratios, (size_t)blocks, sizeof ratios[0]));
    allocate_by_depth(blocks - 1, t, ratios);
    ratios[blocks - 1] = ratios[blocks > 1 ? blocks - 2 : 0]; /* what is behind the last block */
    for (int i = 0; i < s->sites->count; i++) {
        const site *own = &s->sites->sites[i];
        if (s->slot_of[i] != GRAPH_NONE) {
            const allocation_site *slot = &s->slots[s->slot_of[i]];
            const double removed = ratios[own->block < 0 ? 0 : own->block];
            kept[i] = site_times(own) * nearest_width(slot, (double)slot->units * (1.0 - removed));
        }
    }
out:
    memory_free(ratios);
    return status;
}

/* Whether all sites of a slot are dropped. */
static bool slot_is_dropped(const width_space *s, const bool *dropped, int slot)
{
    bool all = dropped != NULL;
    for (int i = 0; all && i < s->sites->count; i++) {
        all = s->slot_of[i] != slot || dropped[i];
    }
    return all;
}

/* A slot of which the errors are weighed; one that is dropped wants nothing. */
static allocation_site weighed_slot(const width_space *s, formula_choice choice, int i)
{
    allocation_site slot = s->slots[i];
    const double weight = choice.weights == NULL ? 1.0 : choice.weights[i];
    const double factor = width_space_of_heads(s, i) ? choice.head_factor : 1.0;
    slot.weight = slot_is_dropped(s, choice.dropped, i) ? 0.0 : factor * weight;
    return slot;
}

/* The limit of heads whose removed share is fixed, or of slots for a parameter t: linear costs of
 * 1 - t of the way from the least to all. */
static double limit_of_part(const allocation_site *part, int count, bool heads,
                            formula_choice choice, double t)
{
    const double least = allocation_least(part, count);
    const double full = allocation_full(part, count);
    return heads ? fmax(least, (1.0 - choice.heads_removed) * full)
                 : least + (1.0 - t) * (full - least);
}

/* Under one limit all slots, or those of heads and then the others. */
static grail_status narrow_by_allocation(const width_space *s, formula_choice choice, double t,
                                         int64_t *kept)
{
    grail_status status = GRAIL_OK;
    allocation_site *part = NULL;
    int64_t *widths = NULL;
    TRY(memory_new(&part, (size_t)s->slot_count, sizeof part[0]));
    TRY(memory_new(&widths, (size_t)s->slot_count, sizeof widths[0]));
    for (int heads = choice.fixes_heads ? 1 : 0; heads >= 0; heads--) {
        int count = 0;
        for (int i = 0; i < s->slot_count; i++) {
            if (!choice.fixes_heads || width_space_of_heads(s, i) == (heads == 1)) {
                part[count++] = weighed_slot(s, choice, i);
            }
        }
        if (count > 0) {
            const double limit = limit_of_part(part, count, heads == 1, choice, t);
            TRY(choice.formula == FORMULA_SCORES ? allocate_by_scores(part, count, limit, widths)
                                                 : allocate_by_errors(part, count, limit, widths));
        }
        for (int i = 0, next = 0; i < s->slot_count; i++) {
            if (!choice.fixes_heads || width_space_of_heads(s, i) == (heads == 1)) {
                width_space_set_slot(s, i, widths[next++], kept);
            }
        }
    }
out:
    memory_free(part);
    memory_free(widths);
    return status;
}

/* Whether the widths for t stay below the limit; kept[sites] holds them. */
static grail_status try_parameter(const width_space *s, formula_choice choice, double t,
                                  int64_t *kept, bool *fits)
{
    width_space_widen(s, kept);
    if (choice.formula == FORMULA_UNIFORM) {
        CHECK(narrow_uniformly(s, choice, t, kept));
    } else if (choice.formula == FORMULA_DEPTH) {
        CHECK(narrow_by_depth(s, t, kept));
    } else {
        CHECK(narrow_by_allocation(s, choice, t, kept));
    }
    for (int i = 0; choice.dropped != NULL && i < s->sites->count; i++) {
        kept[i] = choice.dropped[i] ? 0 : kept[i];
    }
    *fits = cost_table_read(s->costs, kept) <= s->limit;
    return GRAIL_OK;
}

grail_status widths_by_formula(const width_space *s, formula_choice choice, int64_t *kept)
{
    enum { HALVINGS = 24 };
    static const double most = 0.99;
    double low = 0.0;
    double high = choice.formula == FORMULA_UNIFORM || choice.formula == FORMULA_DEPTH ? most : 1.0;
    bool fits = false;
    if (choice.formula == FORMULA_SCORES && !width_space_has_scores(s)) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "the budget 'flap' ranks neurons and heads; for channels use "
                                     "another budget, or cut ffn alone"),
                           "budget kinds");
    }
    CHECK(try_parameter(s, choice, low, kept, &fits));
    if (fits) {
        return GRAIL_OK;
    }
    CHECK(try_parameter(s, choice, high, kept, &fits));
    if (!fits) {
        return error_about(
            error_set(
                GRAIL_ERROR_ARGUMENT,
                "this formula cannot meet the limit of %.10g even when it removes %g of every "
                "site; raise the limit, or use the budget 'error'",
                s->limit, high),
            "budget");
    }
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = 0.5 * (low + high);
        CHECK(try_parameter(s, choice, middle, kept, &fits));
        *(fits ? &high : &low) = middle;
    }
    CHECK(try_parameter(s, choice, high, kept, &fits));
    return fill_limit(
        s,
        (filling){.by_size = choice.formula == FORMULA_UNIFORM, .fixes_heads = choice.fixes_heads},
        kept);
}

/* -- scaling ----------------------------------------------------------------------------------- */

/* scaled[sites]: for t in [0, 1] from all units to `kept`, for t in [1, 2] on to nothing; slots of
 * which one step costs more than `room` stay as they are. */
static void scale_widths(const width_space *s, double t, double room, const int64_t *kept,
                         int64_t *scaled)
{
    memcpy(scaled, kept, (size_t)s->sites->count * sizeof scaled[0]);
    for (int i = 0; i < s->slot_count; i++) {
        const allocation_site *slot = &s->slots[i];
        const double now = (double)width_space_slot(s, i, kept);
        const double missing = (double)slot->units - now;
        const double wanted = t < 1.0 ? now + (1.0 - t) * missing : (2.0 - t) * now;
        if (slot->cost * (double)slot->step <= room) {
            width_space_set_slot(s, i, nearest_width(slot, wanted), scaled);
        }
    }
}

/* Scales kept[sites] by the least t up to `most` with which the network stays below the limit;
 * *cost is what it costs then. */
static grail_status scale_to_limit(const width_space *s, double most, double room, int64_t *kept,
                                   double *cost)
{
    enum { HALVINGS = 24 };
    int64_t *scaled = NULL;
    double low = 0.0;
    double high = most;
    CHECK(memory_new(&scaled, (size_t)s->sites->count, sizeof scaled[0]));
    for (int i = 0; i <= HALVINGS; i++) {
        const double t = i < HALVINGS ? 0.5 * (low + high) : high;
        scale_widths(s, t, room, kept, scaled);
        *cost = cost_table_read(s->costs, scaled);
        *(*cost <= s->limit ? &high : &low) = t;
    }
    memcpy(kept, scaled, (size_t)s->sites->count * sizeof kept[0]);
    memory_free(scaled);
    return GRAIL_OK;
}

/* Sites with large steps jump together and may leave much of the limit; those with small steps then
 * take it. */
grail_status width_space_rescale(const width_space *s, int64_t *kept, bool *fits)
{
    double cost = 0.0;
    CHECK(scale_to_limit(s, 2.0, (double)INFINITY, kept, &cost));
    *fits = cost <= s->limit;
    if (*fits) {
        CHECK(scale_to_limit(s, 1.0, s->limit - cost, kept, &cost));
        CHECK(width_space_fill(s, kept));
    }
    return GRAIL_OK;
}
