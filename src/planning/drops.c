#include "planning/drops.h"

#include "graph/sublayer.h"

#include <math.h>

void drop_space_fini(drop_space *d)
{
    memory_free(d->choice_of);
    memory_free(d->losses);
    memory_free(d->order);
    memory_free((void *)(uintptr_t)d->names);
    *d = (drop_space){0};
}

static int site_count(const drop_space *d)
{
    return d->widths->request->sites->list.count;
}

/* Whether dropping the sublayers of the block's sites that may be cut leaves it without nodes. */
static bool can_leave_block(const drop_space *d, int block)
{
    const compression_request *request = d->widths->request;
    int begin = 0;
    int end = 0;
    sublayer found;
    graph_block_range(request->graph, block, &begin, &end);
    int nodes = end - begin;
    for (int i = 0; i < site_count(d); i++) {
        const site *s = site_at(request, i);
        if (s->block == block && d->widths->slot_of[i] != GRAPH_NONE &&
            sublayer_of(request->graph, s, &found)) {
            nodes -= found.add + 1 - found.begin;
        }
    }
    return nodes == 0;
}

/* The choice of an earlier site of the same block, or a new one. */
static int choice_of_block(const drop_space *d, int index)
{
    for (int i = 0; i < index; i++) {
        if (d->choice_of[i] != GRAPH_NONE &&
            site_at(d->widths->request, i)->block == site_at(d->widths->request, index)->block) {
            return d->choice_of[i];
        }
    }
    return d->count;
}

/* What all units of a choice cost, in the unit of the limit. */
static double cost_of(const drop_space *d, int choice)
{
    double cost = 0.0;
    for (int i = 0; i < site_count(d); i++) {
        if (d->choice_of[i] == choice) {
            const allocation_site *slot = &d->widths->slots[d->widths->slot_of[i]];
            cost += slot->cost * (double)slot->units;
        }
    }
    return cost;
}

static void find_choices(drop_space *d)
{
    const compression_request *request = d->widths->request;
    sublayer found;
    for (int i = 0; i < site_count(d); i++) {
        const site *s = site_at(request, i);
        const bool is_one = sublayer_of(request->graph, s, &found);
        const bool uniform = d->widths->sharing == SHARE_ALL;
        d->sublayers += is_one ? 1 : 0;
        d->choice_of[i] = GRAPH_NONE;
        if (!is_one || d->widths->slot_of[i] == GRAPH_NONE ||
            (uniform && !can_leave_block(d, s->block))) {
            continue;
        }
        const int choice = uniform ? choice_of_block(d, i) : d->count;
        if (choice == d->count) {
            d->names[d->count++] = s->name;
        }
        d->choice_of[i] = choice;
        d->losses[choice] += d->curves[i].errors[0];
    }
    for (int choice = 0; choice < d->count; choice++) {
        const double cost = cost_of(d, choice);
        d->losses[choice] = cost > 0.0 ? d->losses[choice] / cost : (double)INFINITY;
    }
}

static void sort_choices(drop_space *d)
{
    for (int i = 0; i < d->count; i++) {
        int at = i;
        while (at > 0 && d->losses[d->order[at - 1]] > d->losses[i]) {
            d->order[at] = d->order[at - 1];
            at--;
        }
        d->order[at] = i;
    }
}

grail_status drop_space_init(const width_space *widths, const loss_curve *curves, drop_space *d)
{
    *d = (drop_space){.widths = widths, .curves = curves};
    const size_t sites = (size_t)site_count(d);
    const architecture *a = widths->request->model->architecture;
    if (a->rename_tensor == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "a checkpoint of a %s network cannot say that a block lacks a sublayer, so none can "
            "be dropped",
            a->name);
    }
    CHECK(memory_new(&d->choice_of, sites, sizeof d->choice_of[0]));
    CHECK(memory_new(&d->losses, sites, sizeof d->losses[0]));
    CHECK(memory_new(&d->order, sites, sizeof d->order[0]));
    CHECK(memory_new(&d->names, sites, sizeof(char *)));
    find_choices(d);
    if (d->count == 0) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "none of the sites that may be cut is alone in a sublayer%s",
                                     widths->sharing == SHARE_ALL
                                         ? " of a block that can go with all of them; let more "
                                           "kinds of sites be cut, or widths differ"
                                         : ""),
                           widths->sharing == SHARE_ALL ? "kinds uniform_widths" : "kinds");
    }
    sort_choices(d);
    return GRAIL_OK;
}

bool drop_space_toggle(const drop_space *d, int choice, bool *dropped)
{
    int left = d->sublayers;
    for (int i = 0; i < site_count(d); i++) {
        left -= dropped[i] != (d->choice_of[i] == choice) ? 1 : 0;
    }
    for (int i = 0; i < site_count(d) && left > 0; i++) {
        dropped[i] = dropped[i] != (d->choice_of[i] == choice);
    }
    return left > 0;
}

bool drop_space_lacks(const drop_space *d, int choice, const int64_t *kept)
{
    bool found = false;
    for (int i = 0; i < site_count(d); i++) {
        found = found || (d->choice_of[i] == choice && kept[i] == 0);
    }
    return found;
}

/* Of the units of all slots that are there. */
static double mean_share(const width_space *s, const int64_t *kept)
{
    double sum = 0.0;
    int slots = 0;
    for (int i = 0; i < s->slot_count; i++) {
        const int64_t width = width_space_slot(s, i, kept);
        sum += (double)width / (double)s->slots[i].units;
        slots += width > 0 ? 1 : 0;
    }
    return slots > 0 ? sum / slots : 1.0;
}

/* The width of a site that is taken back: that of the others of its slot, or the mean share. */
static int64_t width_again(const width_space *s, int index, double share, const int64_t *kept)
{
    const allocation_site *slot = &s->slots[s->slot_of[index]];
    const int64_t others = width_space_slot(s, s->slot_of[index], kept);
    const int64_t width = (int64_t)(share * (double)slot->units) / slot->step * slot->step;
    return others > 0 ? others : width > slot->least ? width : slot->least;
}

grail_status drop_space_switch(const drop_space *d, int choice, int64_t *kept, bool *possible)
{
    const bool lacks = drop_space_lacks(d, choice, kept);
    const double share = mean_share(d->widths, kept);
    int left = d->sublayers;
    for (int i = 0; i < site_count(d); i++) {
        if (d->choice_of[i] == choice) {
            kept[i] = lacks ? width_again(d->widths, i, share, kept) : 0;
        }
        left -= kept[i] == 0 ? 1 : 0;
    }
    *possible = left > 0;
    return left > 0 ? width_space_rescale(d->widths, kept, possible) : GRAIL_OK;
}

static double sum_errors(const drop_space *d, const int64_t *kept)
{
    double sum = 0.0;
    for (int i = 0; i < site_count(d); i++) {
        sum += d->widths->slot_of[i] == GRAPH_NONE ? 0.0 : d->curves[i].errors[kept[i]];
    }
    return sum;
}

/* *fits is false when the formula cannot meet the limit. */
static grail_status error_of(const drop_space *d, formula_choice choice, const bool *dropped,
                             int64_t *kept, bool *fits, double *error)
{
    choice.dropped = dropped;
    const grail_status status = widths_by_formula(d->widths, choice, kept);
    *fits = status == GRAIL_OK;
    *error = *fits ? sum_errors(d, kept) : 0.0;
    return status == GRAIL_ERROR_ARGUMENT ? GRAIL_OK : status;
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
    for (int k = 0; k < d->count && failures < DROP_FAILURES; k++) {
        double error = 0.0;
        bool fits = false;
        if (!drop_space_toggle(d, d->order[k], dropped)) {
            break;
        }
        TRY(error_of(d, choice, dropped, kept, &fits, &error));
        if (fits && (!any || error < least)) {
            least = error;
            any = true;
            failures = 0;
        } else {
            failures++;
            (void)drop_space_toggle(d, d->order[k], dropped);
        }
    }
out:
    memory_free(kept);
    return status;
}
