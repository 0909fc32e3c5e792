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

bool gradients_choose_better(const graph *g)
{
    bool routes = false;
    for (int i = 0; i < g->node_count; i++) {
        routes = routes || node_is_route(&g->nodes[i]);
    }
    return g->vocabulary > 0 && !graph_gives_features(g) && !routes;
}

bool metric_measures(metric_kind metric, bool auto_is_fisher, const selector *rule, site_kind kind)
{
    const bool is_fisher =
        metric == METRIC_AUTO ? auto_is_fisher && kind == SITE_FFN : metric == METRIC_FISHER;
    return is_fisher && rule->takes_metric && !site_kind_is_shared(kind) && kind != SITE_EXPERTS;
}

bool site_has_metric(const plan *p, int index, const site *s)
{
    return metric_measures(p->metric, p->auto_is_fisher, p->sites[index].selector, s->kind);
}

bool site_takes_metric(const plan *p, int index, const site *s)
{
    return site_has_metric(p, index, s) && site_is_cut(p, index) &&
           p->sites[index].kept_units == NULL;
}

bool site_is_chosen_openly(const plan *p, int index, const site *s)
{
    const unsigned needs = site_decision_needs(p, index, s);
    return site_is_cut(p, index) && needs != 0 &&
           (plan_selects_openly(p) || (needs & NEEDS_ALL_CONSUMERS) != 0 ||
            (p->sites[index].normed && (needs & NEEDS_OF_CONSUMERS) != 0));
}

/* The map that is being made: of parameters, of values, and the segments behind the first one of
 * each axis. */
typedef struct cut_map {
    parameter_cut *parameters;
    cut_axis *more; /* the next one to take */
} cut_map;

/* Adds a segment in its place, or instead of one that begins there, too. */
static void add_segment(cut_map *m, cut_axis *axis, cut_axis added)
{
    cut_axis **at = &axis->next;
    if (axis->site == GRAPH_NONE || axis->first == added.first) {
        added.next = axis->next;
        *axis = added;
        return;
    }
    if (added.first < axis->first) {
        *m->more = *axis;
        added.next = m->more++;
        *axis = added;
        return;
    }
    while (*at != NULL && (*at)->first < added.first) {
        at = &(*at)->next;
    }
    if (*at != NULL && (*at)->first == added.first) {
        added.next = (*at)->next;
        **at = added;
        return;
    }
    added.next = *at;
    *m->more = added;
    *at = m->more++;
}

static cut_axis segment_of(int index, const site_end *end, int64_t taps, int64_t groups)
{
    return (cut_axis){.site = index,
                      .first = end->first * taps,
                      .features = end->features_per_unit * taps,
                      .groups = groups};
}

static void map_rows(cut_map *m, int index, const site_end *end, int parameter)
{
    if (parameter != GRAPH_NONE) {
        add_segment(m, &m->parameters[parameter].rows, segment_of(index, end, 1, 1));
    }
}

static void map_site(const graph *g, int index, const site *s, cut_map *m)
{
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = &g->nodes[s->producers[p].node];
        map_rows(m, index, &s->producers[p], n->weight);
        map_rows(m, index, &s->producers[p], n->bias);
    }
    for (int k = 0; k < s->channel_count; k++) {
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[s->channels[k].node], parameters);
        for (int i = 0; i < count; i++) {
            map_rows(m, index, &s->channels[k], parameters[i]);
        }
    }
    for (int k = 0; k < s->consumer_count; k++) {
        const node *n = &g->nodes[s->consumers[k].node];
        const int64_t taps = weight_taps(&g->parameters[n->weight]);
        add_segment(m, &m->parameters[n->weight].columns,
                    segment_of(index, &s->consumers[k], taps, node_groups(n)));
    }
    for (int k = 0; k < s->segment_count; k++) {
        const site_segment *own = &s->segments[k];
        add_segment(
            m, &m->parameters[g->parameter_count + own->value].rows,
            (cut_axis){.site = index, .first = own->first, .features = own->features_per_unit});
    }
}

static size_t count_segments(const site *s)
{
    return 2 * (size_t)s->producer_count + NODE_MAX_PARAMETERS * (size_t)s->channel_count +
           (size_t)s->consumer_count + (size_t)s->segment_count;
}

grail_status cuts_map(const graph *g, const site_list *sites, const plan *p, parameter_cut **out)
{
    const cut_axis none = {.site = GRAPH_NONE};
    const size_t axes = (size_t)g->parameter_count + (size_t)g->value_count;
    size_t count = axes;
    cut_map m = {0};
    for (int i = 0; i < sites->count; i++) {
        count +=
            site_is_cut(p, i) && sites->sites[i].is_part ? count_segments(&sites->sites[i]) : 0;
    }
    CHECK(memory_new(&m.parameters, count, sizeof m.parameters[0]));
    for (size_t i = 0; i < axes; i++) {
        m.parameters[i] = (parameter_cut){.rows = none, .columns = none};
    }
    m.more = &m.parameters[axes].rows;
    for (int i = 0; i < sites->count; i++) {
        if (site_is_cut(p, i)) {
            map_site(g, i, &sites->sites[i], &m);
        }
    }
    *out = m.parameters;
    return GRAIL_OK;
}

const site *cut_site(const cutting *cut, int index)
{
    return &cut->sites->sites[index];
}

bool cuts_take_metric(const cutting *cut)
{
    bool any = false;
    for (int i = 0; i < cut->plan->count && !any; i++) {
        any = site_takes_metric(cut->plan, i, cut_site(cut, i));
    }
    return any;
}

bool site_narrows_in_walk(const cutting *cut, int index)
{
    return cut->plan->loop == LOOP_CLOSED &&
           !site_waits_for_network(cut->graph, cut_site(cut, index));
}

const cut_axis *cut_of_value(const graph *g, const parameter_cut *cuts, int value)
{
    return &cuts[g->parameter_count + value].rows;
}

int64_t axis_groups(const cut_axis *axis)
{
    return axis->groups > 1 ? axis->groups : 1;
}

const cut_axis *cut_by_site(const cut_axis *axis, int index)
{
    while (axis != NULL && axis->site != index) {
        axis = axis->next;
    }
    return axis;
}

static int64_t kept_units(const plan *p, int index)
{
    return p->sites[index].kept;
}

static int64_t place(const plan *p, const cut_axis *axis, int64_t at,
                     int64_t (*units)(const plan *p, int index))
{
    int64_t moved = at;
    for (; axis != NULL && axis->site != GRAPH_NONE; axis = axis->next) {
        const int64_t groups = axis_groups(axis);
        const int64_t dense = p->sites[axis->site].units / groups;
        moved += axis->first + dense * axis->features <= at
                     ? (units(p, axis->site) / groups - dense) * axis->features
                     : 0;
    }
    return moved;
}

int64_t cut_wide_place(const plan *p, const cut_axis *axis, int64_t at)
{
    return place(p, axis, at, site_wide_units);
}

int64_t cut_narrow_place(const plan *p, const cut_axis *axis, int64_t at)
{
    return place(p, axis, at, kept_units);
}

bool node_passes_groups(const graph *dense, const parameter_cut *cuts, const node *n)
{
    return node_groups(n) > 1 && cuts[n->weight].columns.site == GRAPH_NONE &&
           cuts[n->weight].rows.site != GRAPH_NONE &&
           cut_of_value(dense, cuts, n->inputs[0])->site == cuts[n->weight].rows.site;
}

void cuts_place_nodes(const graph *dense, const parameter_cut *cuts, const plan *p, bool narrow,
                      node *nodes)
{
    int64_t (*const units)(const plan *p, int index) = narrow ? kept_units : site_wide_units;
    for (int i = 0; i < dense->node_count; i++) {
        const node *n = &dense->nodes[i];
        if (operator_of(n)->axis == AXIS_SLICE) {
            const cut_axis *axis = cut_of_value(dense, cuts, n->inputs[0]);
            const int64_t end = n->slice.first + n->slice.length;
            slice_attributes *s = &nodes[i].slice;
            s->first = place(p, axis, n->slice.first, units);
            s->length = place(p, axis, end, units) - s->first;
        } else if (operator_of(n)->axis == AXIS_FRESH) {
            nodes[i].zeros = place(p, cut_of_value(dense, cuts, n->output), n->zeros, units);
        } else if (node_passes_groups(dense, cuts, n)) {
            nodes[i].groups = units(p, cuts[n->weight].rows.site);
        }
    }
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
