#include "planning/widths.h"

#include "reduce/budget.h"

#include <math.h>
#include <string.h>

grail_status widths_plan(const compression_request *request, const int64_t *kept, plan *out)
{
    plan p = request->plan;
    CHECK(memory_new(&p.sites, (size_t)p.count, sizeof p.sites[0]));
    for (int i = 0; i < p.count; i++) {
        p.sites[i] = request->plan.sites[i];
        p.sites[i].kept = kept[i];
    }
    *out = p;
    return GRAIL_OK;
}

grail_status widths_cost(const compression_request *request, limit_kind limited,
                         const int64_t *kept, double *out)
{
    grail_status status = GRAIL_OK;
    plan p = {0};
    parameter_cut *cuts = NULL;
    narrowed_model narrowed = {0};
    grail_model_facts facts = {0};
    TRY(widths_plan(request, kept, &p));
    TRY(cuts_map(request->graph, &request->sites->list, &p, &cuts));
    TRY(narrowed_describe(request->model, &request->sites->list, &p, cuts, NULL, &narrowed));
    TRY(model_describe_graph(request->model, narrowed.graph, &facts));
    const int64_t costs[LIMIT_KINDS] = {
        [LIMIT_PARAMETERS] = facts.parameters,
        [LIMIT_MACS] = facts.macs_per_token,
        [LIMIT_KV_BYTES] = facts.kv_bytes_per_token,
        [LIMIT_BYTES] = facts.bytes,
    };
    *out = (double)costs[limited];
out:
    narrowed_fini(&narrowed);
    memory_free(cuts);
    memory_free(p.sites);
    return status;
}

void width_space_fini(width_space *s)
{
    for (int i = 0; s->slots != NULL && i < s->slot_count; i++) {
        memory_free((double *)(uintptr_t)s->slots[i].errors);
        memory_free((double *)(uintptr_t)s->slots[i].scores);
    }
    memory_free(s->slot_of);
    memory_free(s->slots);
    memory_free(s->of_heads);
    *s = (width_space){0};
}

/* -- slots ------------------------------------------------------------------------------------- */

/* The slot of an earlier site with the same kind and size, or GRAPH_NONE. */
static int slot_of_twin(const width_space *s, int index)
{
    const site *own = site_at(s->request, index);
    for (int i = 0; i < index; i++) {
        const site *other = site_at(s->request, i);
        if (s->slot_of[i] != GRAPH_NONE && other->kind == own->kind && other->units == own->units &&
            other->groups == own->groups && site_times(other) == 1) {
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
    return step < s->units ? step : 1;
}

static grail_status add_slot(width_space *s, int index)
{
    const site *own = site_at(s->request, index);
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
    s->of_heads[slot] = own->kind == SITE_HEADS;
    s->slot_of[index] = slot;
    s->slot_count++;
    return GRAIL_OK;
}

/* Sites that share a slot are ranked by the first one's scores. */
static grail_status copy_scores(int64_t units, const double *from, allocation_site *slot)
{
    double *scores = NULL;
    if (from == NULL || slot->scores != NULL) {
        return GRAIL_OK;
    }
    CHECK(memory_new_unset(&scores, (size_t)units, sizeof scores[0]));
    memcpy(scores, from, (size_t)units * sizeof scores[0]);
    slot->scores = scores;
    return GRAIL_OK;
}

/* The slot that a site shares with others, or GRAPH_NONE. */
static int shared_slot(const width_space *s, int index)
{
    const site *own = site_at(s->request, index);
    if (own->measure != NULL) {
        return s->slot_of[own->measure - s->request->sites->list.sites];
    }
    return s->sharing == SHARE_ALL || (s->sharing == SHARE_HEADS && own->kind == SITE_HEADS)
               ? slot_of_twin(s, index)
               : GRAPH_NONE;
}

static grail_status make_slots(width_space *s, const loss_curve *curves, const bool *may_cut)
{
    const int sites = s->request->sites->list.count;
    CHECK(memory_new(&s->slot_of, (size_t)sites, sizeof s->slot_of[0]));
    CHECK(memory_new(&s->slots, (size_t)sites, sizeof s->slots[0]));
    CHECK(memory_new(&s->of_heads, (size_t)sites, sizeof s->of_heads[0]));
    for (int i = 0; i < sites; i++) {
        const site *own = site_at(s->request, i);
        s->slot_of[i] = GRAPH_NONE;
        if (!may_cut[own->kind]) {
            continue;
        }
        s->slot_of[i] = shared_slot(s, i);
        if (s->slot_of[i] == GRAPH_NONE) {
            CHECK(add_slot(s, i));
        }
        allocation_site *slot = &s->slots[s->slot_of[i]];
        CHECK(copy_scores(slot->units, curves == NULL ? NULL : curves[i].scores, slot));
        double *errors = (double *)(uintptr_t)slot->errors;
        for (int64_t k = 0; curves != NULL && k <= slot->units; k++) {
            errors[k] += curves[i].errors[k * site_times(own)];
        }
    }
    return GRAIL_OK;
}

/* -- costs ------------------------------------------------------------------------------------- */

static void expand(const width_space *s, const int64_t *widths, int64_t *kept)
{
    for (int i = 0; i < s->request->sites->list.count; i++) {
        const site *own = site_at(s->request, i);
        kept[i] =
            s->slot_of[i] == GRAPH_NONE ? own->units : site_times(own) * widths[s->slot_of[i]];
    }
}

static grail_status cost_of_widths(const width_space *s, const int64_t *widths, int64_t *kept,
                                   double *out)
{
    expand(s, widths, kept);
    return widths_cost(s->request, s->limited, kept, out);
}

/* The cost of a unit of each slot: what the network loses when that slot alone becomes as narrow as
 * it can be. */
static grail_status measure_costs(width_space *s, int64_t *widths, int64_t *kept)
{
    for (int i = 0; i < s->slot_count; i++) {
        widths[i] = s->slots[i].units;
    }
    CHECK(cost_of_widths(s, widths, kept, &s->dense_cost));
    s->fixed = s->dense_cost;
    for (int i = 0; i < s->slot_count; i++) {
        allocation_site *slot = &s->slots[i];
        double cost = 0.0;
        if (slot->least < slot->units) {
            widths[i] = slot->least;
            CHECK(cost_of_widths(s, widths, kept, &cost));
            slot->cost = (s->dense_cost - cost) / (double)(slot->units - slot->least);
            widths[i] = slot->units;
        }
        s->fixed -= slot->cost * (double)slot->units;
    }
    return GRAIL_OK;
}

static grail_status check_limit(const width_space *s, int64_t *widths, int64_t *kept)
{
    double least = 0.0;
    for (int i = 0; i < s->slot_count; i++) {
        widths[i] = s->slots[i].least;
    }
    CHECK(cost_of_widths(s, widths, kept, &least));
    if (!(s->limit >= least)) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "the limit of %.10g cannot be met: with the least widths of all sites that may be cut "
            "the network still has %.10g (dense %.10g); raise the limit, or let more kinds of "
            "sites be cut",
            s->limit, least, s->dense_cost);
    }
    return GRAIL_OK;
}

grail_status width_space_init(const compression_request *request, const loss_curve *curves,
                              limit_kind limited, double limit, const bool *may_cut,
                              width_sharing sharing, alignment align, width_space *s)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    int64_t *kept = NULL;
    const size_t sites = (size_t)request->sites->list.count;
    *s = (width_space){
        .request = request, .limited = limited, .limit = limit, .align = align, .sharing = sharing};
    TRY(make_slots(s, curves, may_cut));
    if (s->slot_count == 0) {
        FAIL(GRAIL_ERROR_ARGUMENT, "the model has no site of the kinds that may be cut");
    }
    TRY(memory_new(&widths, sites, sizeof widths[0]));
    TRY(memory_new(&kept, sites, sizeof kept[0]));
    TRY(measure_costs(s, widths, kept));
    TRY(check_limit(s, widths, kept));
out:
    memory_free(widths);
    memory_free(kept);
    return status;
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
    for (int i = 0; i < s->request->sites->list.count; i++) {
        width = s->slot_of[i] == slot && kept[i] > 0 ? kept[i] / site_times(site_at(s->request, i))
                                                     : width;
    }
    return width;
}

void width_space_set_slot(const width_space *s, int slot, int64_t width, int64_t *kept)
{
    for (int i = 0; i < s->request->sites->list.count; i++) {
        kept[i] = s->slot_of[i] == slot && kept[i] > 0 ? site_times(site_at(s->request, i)) * width
                                                       : kept[i];
    }
}

/* -- what is left of the limit ----------------------------------------------------------------- */

static const site *site_of_slot(const width_space *s, int slot)
{
    int first = 0;
    while (s->slot_of[first] != slot) {
        first++;
    }
    return site_at(s->request, first);
}

/* What is widened together: the slots of one kind and size of sites, or each slot by itself. Heads
 * may be fixed. */
typedef struct filling {
    bool by_size, fixes_heads;
    bool finest; /* by the finest steps */
} filling;

static bool widens_with(const width_space *s, filling f, int slot, int other)
{
    const site *a = site_of_slot(s, slot);
    const site *b = site_of_slot(s, other);
    return slot == other ||
           (f.by_size && a->kind == b->kind && a->units == b->units && a->groups == b->groups);
}

/* The slot that keeps the smallest share of its units, among those that may be wider; GRAPH_NONE:
 * there is none. */
static int narrowest(const width_space *s, filling f, const bool *refused, const int64_t *kept)
{
    int found = GRAPH_NONE;
    double least = 1.0;
    for (int i = 0; i < s->slot_count; i++) {
        const int64_t width = width_space_slot(s, i, kept);
        const double share = (double)width / (double)s->slots[i].units;
        const bool fixed = f.fixes_heads && s->of_heads[i];
        if (width > 0 && share < least && !refused[i] && !fixed && s->slots[i].cost > 0.0) {
            least = share;
            found = i;
        }
    }
    return found;
}

static int64_t next_width(const width_space *s, filling f, int slot, int64_t width)
{
    allocation_site steps = s->slots[slot];
    if (f.finest) {
        steps.step = step_of(site_of_slot(s, slot), s->align, FINEST_WIDTH);
    }
    return allocation_next_width(&steps, width);
}

static grail_status fill_by_steps(const width_space *s, filling f, int64_t *kept)
{
    grail_status status = GRAIL_OK;
    const size_t sites = (size_t)s->request->sites->list.count;
    int64_t *wider = NULL;
    bool *refused = NULL;
    TRY(memory_new(&wider, sites, sizeof wider[0]));
    TRY(memory_new(&refused, (size_t)s->slot_count, sizeof refused[0]));
    for (int slot = narrowest(s, f, refused, kept); slot != GRAPH_NONE;
         slot = narrowest(s, f, refused, kept)) {
        double cost = 0.0;
        memcpy(wider, kept, sites * sizeof wider[0]);
        for (int i = 0; i < s->slot_count; i++) {
            if (widens_with(s, f, slot, i)) {
                const int64_t width = width_space_slot(s, i, kept);
                width_space_set_slot(s, i, next_width(s, f, i, width), wider);
            }
        }
        TRY(widths_cost(s->request, s->limited, wider, &cost));
        if (cost <= s->limit) {
            memcpy(kept, wider, sites * sizeof wider[0]);
        }
        refused[slot] = cost > s->limit;
    }
out:
    memory_free(wider);
    memory_free(refused);
    return status;
}

static grail_status fill_limit(const width_space *s, filling f, int64_t *kept)
{
    CHECK(fill_by_steps(s, f, kept));
    f.finest = true;
    return fill_by_steps(s, f, kept);
}

grail_status width_space_fill(const width_space *s, int64_t *kept)
{
    return fill_limit(s, (filling){0}, kept);
}

/* -- formulas ---------------------------------------------------------------------------------- */

/* Widths for a parameter t between 0 and 1: a larger one gives smaller widths. */
typedef grail_status (*width_family)(const width_space *s, formula_choice choice, double t,
                                     int64_t *kept);

static double fraction_of_heads(formula_choice choice, double t)
{
    static const double most = 0.95;
    if (choice.fixes_heads) {
        return choice.heads_removed;
    }
    const double r = choice.head_factor * t;
    return r < most ? r : most;
}

static grail_status uniform_widths_of(const width_space *s, formula_choice choice, double t,
                                      int64_t *kept)
{
    grail_status status = GRAIL_OK;
    plan p = {0};
    budget b = {.align = s->align};
    for (int i = 0; i < s->request->plan.count; i++) {
        const site *own = site_at(s->request, i);
        if (s->slot_of[i] != GRAPH_NONE) {
            b.sparsity[own->kind] = own->kind == SITE_HEADS ? fraction_of_heads(choice, t) : t;
        }
        kept[i] = own->units;
    }
    TRY(widths_plan(s->request, kept, &p));
    TRY(budget_apply(&b, &s->request->sites->list, &p));
    for (int i = 0; i < p.count; i++) {
        kept[i] = p.sites[i].kept;
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

static grail_status depth_widths_of(const width_space *s, formula_choice choice, double t,
                                    int64_t *kept)
{
    grail_status status = GRAIL_OK;
    double *ratios = NULL;
    const int blocks = s->request->graph->block_count + 1;
    (void)choice;
    TRY(memory_new(&ratios, (size_t)blocks, sizeof ratios[0]));
    allocate_by_depth(blocks - 1, t, ratios);
    ratios[blocks - 1] = ratios[blocks > 1 ? blocks - 2 : 0]; /* what is behind the last block */
    for (int i = 0; i < s->request->plan.count; i++) {
        const site *own = site_at(s->request, i);
        const int block = own->block < 0 ? 0 : own->block;
        const allocation_site *slot = s->slot_of[i] == GRAPH_NONE ? NULL : &s->slots[s->slot_of[i]];
        kept[i] = slot == NULL ? own->units
                               : site_times(own) * nearest_width(slot, (double)slot->units *
                                                                           (1.0 - ratios[block]));
    }
out:
    memory_free(ratios);
    return status;
}

typedef grail_status (*allocation)(const allocation_site *sites, int count, double limit,
                                   int64_t *kept);

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

/* Widths of the slots that are of heads, or of those that are not. */
static grail_status allocate_part(const width_space *s, const allocation_site *slots, bool heads,
                                  formula_choice choice, double t, allocation allocate,
                                  int64_t *widths)
{
    grail_status status = GRAIL_OK;
    allocation_site *part = NULL;
    int64_t *kept = NULL;
    int count = 0;
    TRY(memory_new(&part, (size_t)s->slot_count, sizeof part[0]));
    TRY(memory_new(&kept, (size_t)s->slot_count, sizeof kept[0]));
    for (int i = 0; i < s->slot_count; i++) {
        if (s->of_heads[i] == heads) {
            part[count++] = slots[i];
        }
    }
    if (count > 0) {
        TRY(allocate(part, count, limit_of_part(part, count, heads, choice, t), kept));
    }
    for (int i = 0, next = 0; i < s->slot_count; i++) {
        if (s->of_heads[i] == heads) {
            widths[i] = kept[next++];
        }
    }
out:
    memory_free(part);
    memory_free(kept);
    return status;
}

static grail_status allocate_slots(const width_space *s, const allocation_site *slots,
                                   formula_choice choice, double t, allocation allocate,
                                   int64_t *widths)
{
    if (!choice.fixes_heads) {
        return allocate(slots, s->slot_count, limit_of_part(slots, s->slot_count, false, choice, t),
                        widths);
    }
    CHECK(allocate_part(s, slots, true, choice, t, allocate, widths));
    return allocate_part(s, slots, false, choice, t, allocate, widths);
}

static grail_status scored_widths_of(const width_space *s, formula_choice choice, double t,
                                     int64_t *kept)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    if (!width_space_has_scores(s)) {
        FAIL_ABOUT("budget kinds", GRAIL_ERROR_ARGUMENT,
                   "the budget 'flap' ranks neurons and heads; for channels use another budget, or "
                   "cut ffn alone");
    }
    TRY(memory_new(&widths, (size_t)s->slot_count, sizeof widths[0]));
    TRY(allocate_slots(s, s->slots, choice, t, allocate_by_scores, widths));
    expand(s, widths, kept);
out:
    memory_free(widths);
    return status;
}

/* Whether all sites of a slot are dropped. */
static bool slot_is_dropped(const width_space *s, const bool *dropped, int slot)
{
    bool all = dropped != NULL;
    for (int i = 0; all && i < s->request->sites->list.count; i++) {
        all = s->slot_of[i] != slot || dropped[i];
    }
    return all;
}

/* A slot that is dropped wants nothing. */
static grail_status least_error_widths_of(const width_space *s, formula_choice choice, double t,
                                          int64_t *kept)
{
    grail_status status = GRAIL_OK;
    int64_t *widths = NULL;
    allocation_site *slots = NULL;
    TRY(memory_new(&widths, (size_t)s->slot_count, sizeof widths[0]));
    TRY(memory_new(&slots, (size_t)s->slot_count, sizeof slots[0]));
    for (int i = 0; i < s->slot_count; i++) {
        const double weight = choice.weights == NULL ? 1.0 : choice.weights[i];
        const double factor = s->of_heads[i] ? choice.head_factor : 1.0;
        slots[i] = s->slots[i];
        slots[i].weight = slot_is_dropped(s, choice.dropped, i) ? 0.0 : factor * weight;
    }
    TRY(allocate_slots(s, slots, choice, t, allocate_by_errors, widths));
    expand(s, widths, kept);
out:
    memory_free(slots);
    memory_free(widths);
    return status;
}

static const width_family families[] = {
    [FORMULA_UNIFORM] = uniform_widths_of,
    [FORMULA_DEPTH] = depth_widths_of,
    [FORMULA_SCORES] = scored_widths_of,
    [FORMULA_ERRORS] = least_error_widths_of,
};

/* Whether the widths for t stay below the limit; kept[sites] holds them. */
static grail_status try_parameter(const width_space *s, formula_choice choice, double t,
                                  int64_t *kept, bool *fits)
{
    double cost = 0.0;
    CHECK(families[choice.formula](s, choice, t, kept));
    for (int i = 0; choice.dropped != NULL && i < s->request->sites->list.count; i++) {
        kept[i] = choice.dropped[i] ? 0 : kept[i];
    }
    CHECK(widths_cost(s->request, s->limited, kept, &cost));
    *fits = cost <= s->limit;
    return GRAIL_OK;
}

grail_status widths_by_formula(const width_space *s, formula_choice choice, int64_t *kept)
{
    enum { HALVINGS = 24 };
    static const double most = 0.99;
    double low = 0.0;
    double high = choice.formula == FORMULA_UNIFORM || choice.formula == FORMULA_DEPTH ? most : 1.0;
    bool fits = false;
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
    memcpy(scaled, kept, (size_t)s->request->sites->list.count * sizeof scaled[0]);
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
    grail_status status = GRAIL_OK;
    int64_t *scaled = NULL;
    double low = 0.0;
    double high = most;
    TRY(memory_new(&scaled, (size_t)s->request->sites->list.count, sizeof scaled[0]));
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = 0.5 * (low + high);
        scale_widths(s, middle, room, kept, scaled);
        TRY(widths_cost(s->request, s->limited, scaled, cost));
        *(*cost <= s->limit ? &high : &low) = middle;
    }
    scale_widths(s, high, room, kept, scaled);
    TRY(widths_cost(s->request, s->limited, scaled, cost));
    memcpy(kept, scaled, (size_t)s->request->sites->list.count * sizeof kept[0]);
out:
    memory_free(scaled);
    return status;
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
