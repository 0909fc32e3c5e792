#include "pipeline/request/experts.h"

#include "graph/operators.h"

static bool drops_experts(const site_list *sites, const plan *p, int index)
{
    return sites->sites[index].kind == SITE_EXPERTS && site_is_cut(p, index);
}

bool plan_drops_experts(const site_list *sites, const plan *p)
{
    bool found = false;
    for (int i = 0; i < sites->count; i++) {
        found = found || drops_experts(sites, p, i);
    }
    return found;
}

static grail_status check_choice(const graph *g, const site *s, int64_t kept)
{
    const branch_list branches = site_branches(g, s);
    const int64_t chosen = g->nodes[branches.route].route.chosen;
    return kept >= chosen
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_ARGUMENT,
                           "site '%s' keeps %lld experts, but its router chooses %lld for "
                           "each token; keep as many or more",
                           s->name, (long long)kept, (long long)chosen);
}

/* Sites at the same place of two experts have the same width. */
static grail_status check_width(const site_list *sites, const branch_list *branches, const plan *p,
                                int index)
{
    const int own = sites->sites[index].consumers[0].node;
    const int first = branches->begin + (own - branches->begin) % branches->length;
    for (int i = 0; i < index; i++) {
        const site *other = &sites->sites[i];
        if (other->kind != SITE_EXPERTS && other->consumers[0].node == first &&
            p->sites[i].kept != p->sites[index].kept) {
            return error_set(GRAIL_ERROR_UNSUPPORTED,
                             "site '%s' keeps %lld units and '%s' %lld, but experts of this layer "
                             "are dropped, so those that stay must have one width",
                             sites->sites[index].name, (long long)p->sites[index].kept, other->name,
                             (long long)p->sites[i].kept);
        }
    }
    return GRAIL_OK;
}

static grail_status settle_site(const graph *g, const site_list *sites, int dropping, int index,
                                plan *p)
{
    const branch_list branches = site_branches(g, &sites->sites[dropping]);
    const site *s = &sites->sites[index];
    plan_site *own = &p->sites[index];
    const int64_t branch =
        s->consumer_count == 0 ? GRAPH_NONE : branch_at(&branches, s->consumers[0].node);
    if (branch == GRAPH_NONE) {
        return GRAIL_OK;
    }
    if (branch >= p->sites[dropping].kept) {
        plan_site_leave(own);
        return GRAIL_OK;
    }
    if (own->kept_units != NULL && p->sites[dropping].kept_units == NULL) {
        return error_set(
            GRAIL_ERROR_UNSUPPORTED,
            "site '%s': \"kept_units\" names units of an expert, but which experts stay "
            "is decided in the run; name those of site '%s', too",
            s->name, sites->sites[dropping].name);
    }
    return check_width(sites, &branches, p, index);
}

grail_status experts_settle(const graph *g, const site_list *sites, plan *p)
{
    for (int d = 0; d < sites->count; d++) {
        if (!drops_experts(sites, p, d)) {
            continue;
        }
        CHECK(check_choice(g, &sites->sites[d], p->sites[d].kept));
        for (int i = d + 1; i < sites->count && sites->sites[i].block == sites->sites[d].block;
             i++) {
            CHECK(settle_site(g, sites, d, i, p));
        }
    }
    return GRAIL_OK;
}

static void mark_site(const graph *g, const branch_list *branches, int64_t kept, expert_part *parts)
{
    for (int64_t b = 0; b < branches->count; b++) {
        const int put = branch_put(branches, b);
        const int last = branch_last(g, branches, b);
        for (int n = put - branches->length + 1; n <= put; n++) {
            parts[n] = b >= kept ? EXPERT_GOES : EXPERT_STAYS;
        }
        if (b < kept) {
            parts[put] = EXPERT_PUTS;
            parts[last] = node_is_map(&g->nodes[last]) ? EXPERT_MAKES_UP : EXPERT_STAYS;
        }
    }
}

void experts_mark(const graph *g, const site_list *sites, const plan *p, expert_part *parts)
{
    for (int i = 0; i < sites->count; i++) {
        if (drops_experts(sites, p, i)) {
            const branch_list branches = site_branches(g, &sites->sites[i]);
            mark_site(g, &branches, p->sites[i].kept, parts);
        }
    }
}

int experts_site_at(const graph *g, const site_list *sites, const plan *p, int node_index)
{
    for (int i = 0; i < sites->count; i++) {
        const bool may =
            drops_experts(sites, p, i) && sites->sites[i].block == g->nodes[node_index].block;
        const branch_list branches = may ? site_branches(g, &sites->sites[i]) : (branch_list){0};
        if (may && branch_at(&branches, node_index) != GRAPH_NONE) {
            return i;
        }
    }
    return GRAPH_NONE;
}
