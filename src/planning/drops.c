#include "planning/drops.h"

#include "graph/sublayer.h"

#include <stdio.h>

void drop_space_fini(drop_space *d)
{
    memory_free(d->can_go);
    memory_free(d->choices);
    *d = (drop_space){0};
}

static int site_count(const drop_space *d)
{
    return d->widths->sites->count;
}

/* Whether dropping the sublayers of the block's sites that may be cut leaves it without nodes. */
static bool can_leave_block(const drop_space *d, int block)
{
    const graph *g = d->widths->graph;
    int begin = 0;
    int end = 0;
    sublayer found;
    graph_block_range(g, block, &begin, &end);
    int nodes = end - begin;
    for (int i = 0; i < site_count(d); i++) {
        const site *s = &d->widths->sites->sites[i];
        if (s->block == block && d->widths->slot_of[i] != GRAPH_NONE && sublayer_of(g, s, &found)) {
            nodes -= found.add + 1 - found.begin;
        }
    }
    return nodes == 0;
}

static bool is_uniform(const drop_space *d)
{
    return d->widths->sharing == SHARE_ALL;
}

static int block_of(const drop_space *d, int index)
{
    return d->widths->sites->sites[index].block;
}

static bool is_of(const drop_space *d, const drop_choice *c, int index)
{
    return d->can_go[index] &&
           (c->site == GRAPH_NONE ? c->block == block_of(d, index) : c->site == index);
}

/* What all units of a site cost, in the unit of the limit: its part of what those of its slot cost.
 */
static double cost_of(const drop_space *d, int index)
{
    const allocation_site *slot = &d->widths->slots[d->widths->slot_of[index]];
    int sites = 0;
    for (int i = 0; i < site_count(d); i++) {
        sites += d->widths->slot_of[i] == d->widths->slot_of[index] ? 1 : 0;
    }
    return slot->cost * (double)slot->units / sites;
}

/* Adds a choice to those from `first` on, unless it costs nothing or has fewer sites than that. */
static void add_choice(drop_space *d, int first, drop_choice c, int fewest)
{
    double error = 0.0;
    double cost = 0.0;
    int sites = 0;
    for (int i = 0; i < site_count(d); i++) {
        if (is_of(d, &c, i)) {
            error += d->curves[i].errors[0];
            cost += cost_of(d, i);
            sites++;
        }
    }
    if (sites < fewest || cost <= 0.0) {
        return;
    }
    c.loss = error / cost;
    int at = d->count++;
    while (at > first && d->choices[at - 1].loss > c.loss) {
        d->choices[at] = d->choices[at - 1];
        at--;
    }
    d->choices[at] = c;
}

static bool is_first_of_block(const drop_space *d, int index)
{
    for (int i = 0; i < index; i++) {
        if (d->can_go[i] && block_of(d, i) == block_of(d, index)) {
            return false;
        }
    }
    return d->can_go[index];
}

/* A block with one sublayer that may go is that sublayer, unless it has to be the block. */
static void add_choices(drop_space *d)
{
    for (int i = 0; i < site_count(d); i++) {
        drop_choice block = {.site = GRAPH_NONE, .block = block_of(d, i)};
        snprintf(block.name, sizeof block.name, "block %d", block.block);
        if (is_first_of_block(d, i)) {
            add_choice(d, 0, block, is_uniform(d) ? 1 : 2);
        }
    }
    d->blocks = d->count;
    for (int i = 0; i < site_count(d) && !is_uniform(d); i++) {
        drop_choice one = {.site = i, .block = block_of(d, i)};
        snprintf(one.name, sizeof one.name, "%s", d->widths->sites->sites[i].name);
        add_choice(d, d->blocks, one, 1);
    }
}

static void find_sublayers(drop_space *d)
{
    const graph *g = d->widths->graph;
    sublayer found;
    for (int i = 0; i < site_count(d); i++) {
        const bool is_one = sublayer_of(g, &d->widths->sites->sites[i], &found);
        d->sublayers += is_one ? 1 : 0;
        d->can_go[i] = is_one && d->widths->slot_of[i] != GRAPH_NONE &&
                       (is_uniform(d) ? can_leave_block(d, block_of(d, i)) : cost_of(d, i) > 0.0);
    }
}

grail_status drop_space_init(const architecture *a, const width_space *widths,
                             const loss_curve *curves, drop_space *d)
{
    *d = (drop_space){.widths = widths, .curves = curves};
    const size_t sites = (size_t)site_count(d);
    if (a->rename_tensor == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "a checkpoint of a %s network cannot say that a block lacks a sublayer, so none can "
            "be dropped",
            a->name);
    }
    CHECK(memory_new(&d->can_go, sites, sizeof d->can_go[0]));
    CHECK(memory_new(&d->choices, 2 * sites, sizeof d->choices[0]));
    find_sublayers(d);
    add_choices(d);
    if (d->count == 0) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "none of the sites that may be cut is alone in a sublayer%s",
                                     is_uniform(d)
                                         ? " of a block that can go with all of them; let more "
                                           "kinds of sites be cut, or widths differ"
                                         : ""),
                           is_uniform(d) ? "kinds uniform_widths" : "kinds");
    }
    return GRAIL_OK;
}

bool drop_space_lacks(const drop_space *d, int choice, const int64_t *kept)
{
    bool lacks = true;
    for (int i = 0; i < site_count(d); i++) {
        lacks = lacks && (!is_of(d, &d->choices[choice], i) || kept[i] == 0);
    }
    return lacks;
}

grail_status drop_space_switch(const drop_space *d, int choice, int64_t *kept, bool *possible)
{
    const width_space *s = d->widths;
    const bool lacks = drop_space_lacks(d, choice, kept);
    int left = d->sublayers;
    double shares = 0.0; /* of their units that the slots keep which are there */
    int slots = 0;
    for (int i = 0; i < s->slot_count; i++) {
        const int64_t width = width_space_slot(s, i, kept);
        shares += (double)width / (double)s->slots[i].units;
        slots += width > 0 ? 1 : 0;
    }
    const double share = slots > 0 ? shares / slots : 1.0;
    for (int i = 0; i < site_count(d); i++) {
        if (is_of(d, &d->choices[choice], i) && lacks) {
            /* taken back: as wide as the others of its slot, or with the mean share */
            const allocation_site *slot = &s->slots[s->slot_of[i]];
            const int64_t others = width_space_slot(s, s->slot_of[i], kept);
            const int64_t width = (int64_t)(share * (double)slot->units) / slot->step * slot->step;
            kept[i] = others > 0 ? others : width > slot->least ? width : slot->least;
        } else if (is_of(d, &d->choices[choice], i)) {
            kept[i] = 0;
        }
        left -= kept[i] == 0 ? 1 : 0;
    }
    *possible = left > 0;
    return left > 0 ? width_space_rescale(s, kept, possible) : GRAIL_OK;
}

/* The sum of the errors; *fits is false when the formula cannot meet the limit. */
static grail_status error_of(const drop_space *d, formula_choice choice, const bool *dropped,
                             int64_t *kept, bool *fits, double *error)
{
    choice.dropped = dropped;
    const grail_status status = widths_by_formula(d->widths, choice, kept);
    *fits = status == GRAIL_OK;
    *error = 0.0;
    for (int i = 0; i < site_count(d) && *fits; i++) {
        *error += d->widths->slot_of[i] == GRAPH_NONE ? 0.0 : d->curves[i].errors[kept[i]];
    }
    return status == GRAIL_ERROR_ARGUMENT ? GRAIL_OK : status;
}

/* The number of sublayers that stay. */
static int set_dropped(const drop_space *d, int choice, bool value, bool *dropped)
{
    int left = d->sublayers;
    for (int i = 0; i < site_count(d); i++) {
        dropped[i] = is_of(d, &d->choices[choice], i) ? value : dropped[i];
        left -= dropped[i] ? 1 : 0;
    }
    return left;
}

grail_status drops_by_errors(const drop_space *d, formula_choice choice, bool *dropped)
{
    grail_status status = GRAIL_OK;
    int64_t *kept = NULL;
    double least = 0.0;
    bool any = false;
    int failures = 0;
    TRY(memory_new(&kept, (size_t)site_count(d), sizeof kept[0]));
    TRY(error_of(d, choice, dropped, kept, &any, &least));
    for (int k = is_uniform(d) ? 0 : d->blocks; k < d->count && failures < DROP_FAILURES; k++) {
        double error = 0.0;
        bool fits = false;
        if (set_dropped(d, k, true, dropped) > 0) {
            TRY(error_of(d, choice, dropped, kept, &fits, &error));
        }
        if (fits && (!any || error < least)) {
            least = error;
            any = true;
            failures = 0;
        } else {
            failures++;
            (void)set_dropped(d, k, false, dropped);
        }
    }
out:
    memory_free(kept);
    return status;
}
