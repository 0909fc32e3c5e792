#include "pipeline/request/cuts.h"

#include "graph/operators.h"

bool site_is_cut(const plan *p, int index)
{
    return p->sites[index].kept > 0 && p->sites[index].kept < p->sites[index].units;
}

bool site_is_dropped(const plan *p, int index)
{
    return p->sites[index].kept == 0;
}

bool anything_is_cut(const plan *p)
{
    for (int i = 0; i < p->count; i++) {
        if (site_is_cut(p, i) || site_is_dropped(p, i)) {
            return true;
        }
    }
    return false;
}

unsigned site_decision_needs(const plan *p, int index, const site *s)
{
    const unsigned needs = selector_needs(p->sites[index].selector, s);
    const unsigned trains = p->compensation.regional_training ? NEEDS_GRADIENTS : 0;
    return p->sites[index].kept_units == NULL ? needs : needs & trains;
}

bool site_is_chosen_openly(const plan *p, int index, const site *s)
{
    const unsigned needs = site_decision_needs(p, index, s);
    return site_is_cut(p, index) && needs != 0 &&
           (plan_selects_openly(p) || (needs & NEEDS_ALL_CONSUMERS) != 0 ||
            (p->sites[index].normed && (needs & NEEDS_OF_CONSUMERS) != 0));
}

static int64_t weight_taps(const graph_parameter *weight)
{
    return weight->rank == 4 ? weight->shape[2] * weight->shape[3] : 1;
}

static void map_rows(int index, const site_end *end, int parameter, parameter_cut *cuts)
{
    if (parameter != GRAPH_NONE) {
        cuts[parameter].rows = (cut_axis){
            .site = index, .features = end->features_per_unit, .exchangeable = end->exchangeable};
    }
}

static void map_site(const graph *g, int index, const site *s, parameter_cut *cuts)
{
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = &g->nodes[s->producers[p].node];
        map_rows(index, &s->producers[p], n->weight, cuts);
        map_rows(index, &s->producers[p], n->bias, cuts);
    }
    for (int k = 0; k < s->channel_count; k++) {
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[s->channels[k].node], parameters);
        for (int i = 0; i < count; i++) {
            map_rows(index, &s->channels[k], parameters[i], cuts);
        }
    }
    for (int k = 0; k < s->consumer_count; k++) {
        const int weight = g->nodes[s->consumers[k].node].weight;
        const int64_t taps = weight_taps(&g->parameters[weight]);
        cuts[weight].columns = (cut_axis){.site = index,
                                          .features = s->consumers[k].features_per_unit * taps,
                                          .exchangeable = s->consumers[k].exchangeable};
    }
}

grail_status cuts_map(const graph *g, const site_list *sites, const plan *p, parameter_cut **out)
{
    const cut_axis none = {.site = GRAPH_NONE};
    parameter_cut *cuts = NULL;
    CHECK(memory_new(&cuts, (size_t)g->parameter_count, sizeof cuts[0]));
    for (int i = 0; i < g->parameter_count; i++) {
        cuts[i] = (parameter_cut){.rows = none, .columns = none};
    }
    for (int i = 0; i < sites->count; i++) {
        if (site_is_cut(p, i)) {
            map_site(g, i, &sites->sites[i], cuts);
        }
    }
    *out = cuts;
    return GRAIL_OK;
}

const site *cut_site(const cutting *cut, int index)
{
    return &cut->sites->sites[index];
}

bool site_narrows_in_walk(const cutting *cut, int index)
{
    return cut->plan->loop == LOOP_CLOSED && !site_spans_blocks(cut->graph, cut_site(cut, index));
}

bool plan_refits(const plan *p)
{
    const compensation *how = &p->compensation;
    return compensation_uses_dense(how) && p->loop == LOOP_CLOSED && how->refit != REFIT_NONE;
}

bool site_is_remade(const plan *p, int index)
{
    return p->sites[index].selector->folds || p->sites[index].normed;
}

bool node_is_rescaled(const parameter_cut *cuts, const node *n)
{
    return node_norms_width(n) && cuts[n->weight].rows.site != GRAPH_NONE;
}

int64_t site_wide_units(const plan *p, int index)
{
    const plan_site *planned = &p->sites[index];
    return planned->units + (site_is_remade(p, index) ? planned->kept : 0);
}

int64_t cut_wide_features(const plan *p, const cut_axis *axis)
{
    return site_wide_units(p, axis->site) * axis->features;
}
