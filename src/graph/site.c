#include "graph/site.h"

#include "graph/operators.h"

#include <string.h>

/* A value's place in a union-find over values whose channels must be cut together. All but the
 * parent is of the class, and counts at its root alone. */
typedef struct axis {
    int parent;
    bool pinned;
    bool summed;              /* an Add joins values of this class */
    bool normed;              /* a norm over all channels makes one of them */
    int64_t units;            /* number of units that an attention node requires, 0 = none */
    int64_t groups, subunits; /* see site */
    int64_t narrowest;        /* of the widths of its values */
    int site;                 /* in the list, or -1 */
} axis;

typedef struct axes {
    const graph *g;
    int64_t *widths; /* [values] */
    axis *of;        /* [values] */
} axes;

static int axis_root(const axes *a, int value)
{
    while (a->of[value].parent != value) {
        a->of[value].parent = a->of[a->of[value].parent].parent; /* path halving */
        value = a->of[value].parent;
    }
    return value;
}

static axis *class_of(const axes *a, int value)
{
    return &a->of[axis_root(a, value)];
}

static void axis_cut_into(axis *class, int64_t units, int64_t groups, int64_t subunits)
{
    if (class->units == 0) {
        class->units = units;
        class->groups = groups;
        class->subunits = subunits;
    } else if (units != 0 && (class->units != units || class->groups != groups)) {
        class->pinned = true; /* two attentions that cut the axis differently */
    }
}

static void axis_join(axes *a, int left, int right)
{
    axis *from = class_of(a, right);
    axis *to = class_of(a, left);
    if (from != to) {
        from->parent = to->parent;
        to->pinned = to->pinned || from->pinned;
        to->summed = to->summed || from->summed;
        to->normed = to->normed || from->normed;
        axis_cut_into(to, from->units, from->groups, from->subunits);
    }
}

static void axis_pin(axes *a, int value)
{
    class_of(a, value)->pinned = true;
}

static void follow_attention(axes *a, const node *n, gqa_mode mode)
{
    const int q = n->inputs[0];
    const int k = n->inputs[1];
    const int v = n->inputs[2];
    const int64_t query_heads = a->widths[q] / n->attention.head_dim;
    const int64_t kv_heads = a->widths[k] / n->attention.head_dim;
    axis_join(a, n->output, q);
    if (mode == GQA_QUERY_PER_GROUP) {
        axis_pin(a, k);
        axis_pin(a, v);
        axis_cut_into(class_of(a, n->output), query_heads, kv_heads, 1);
        return;
    }
    axis_join(a, n->output, k);
    axis_join(a, n->output, v);
    axis_cut_into(class_of(a, n->output), kv_heads, 1, query_heads / kv_heads);
}

/* An input of one channel that is repeated for all channels cannot be cut. */
static void join_inputs(axes *a, const node *n)
{
    for (int i = 0; i < n->input_count; i++) {
        if (i > 0 && n->repeats_second && a->widths[n->inputs[i]] == 1) {
            axis_pin(a, n->inputs[i]);
        } else {
            axis_join(a, n->output, n->inputs[i]);
        }
    }
}

static void follow_route(axes *a, const node *n)
{
    axis_join(a, n->output, n->inputs[0]);
    axis_pin(a, n->inputs[1]);
    if (n->input_count > 2) {
        axis_join(a, n->output, n->inputs[2]);
        class_of(a, n->output)->summed = true;
    }
}

static void follow_node(axes *a, const node *n, gqa_mode mode)
{
    const operator_rules *rules = operator_of(n);
    switch (rules->axis) {
    case AXIS_STARTS:
        break;
    case AXIS_ENDS:
        axis_pin(a, n->output);
        axis_pin(a, n->inputs[0]);
        break;
    case AXIS_CARRIES:
    case AXIS_JOINS:
    case AXIS_SUMS:
        join_inputs(a, n);
        class_of(a, n->output)->summed |= rules->axis == AXIS_SUMS;
        break;
    case AXIS_ROUTED:
        follow_route(a, n);
        break;
    case AXIS_BESIDE:
        axis_join(a, n->output, n->inputs[0]);
        if (n->join.shared) {
            axis_pin(a, n->inputs[1]);
        } else {
            axis_join(a, n->output, n->inputs[1]);
        }
        break;
    case AXIS_HEADS:
        follow_attention(a, n, mode);
        break;
    }
    if (rules->pins != NULL && rules->pins(n)) {
        axis_pin(a, n->output);
    }
    class_of(a, n->output)->normed |= node_norms_width(n);
}

static void axes_fini(axes *a)
{
    memory_free(a->widths);
    memory_free(a->of);
    *a = (axes){0};
}

static grail_status axes_init(axes *a, const graph *g, gqa_mode mode)
{
    grail_status status = GRAIL_OK;
    const size_t values = (size_t)g->value_count;
    *a = (axes){.g = g};
    TRY(memory_new(&a->widths, values, sizeof a->widths[0]));
    TRY(memory_new(&a->of, values, sizeof a->of[0]));
    TRY(graph_widths(g, a->widths));
    for (int v = 0; v < g->value_count; v++) {
        a->of[v].parent = v;
    }
    axis_pin(a, g->input);
    axis_pin(a, g->output);
    for (int n = 0; n < g->node_count; n++) {
        follow_node(a, &g->nodes[n], mode);
    }
out:
    if (status != GRAIL_OK) {
        axes_fini(a);
    }
    return status;
}

/* Summarises the values of every class, after every node was followed. The widths in a class differ
 * only if Attention joined its values, and Attention sets a number of units that divides all
 * widths. Where units have subunits, values are as wide as k or as q. */
static void summarise(axes *a)
{
    for (int v = 0; v < a->g->value_count; v++) {
        axis *own = class_of(a, v);
        const int64_t width = a->widths[v];
        own->narrowest = own->narrowest == 0 || width < own->narrowest ? width : own->narrowest;
        own->site = -1;
    }
}

static grail_status add_end(site_end **ends, int *count, site_end end)
{
    CHECK(memory_reserve(ends, (size_t)*count + 1, sizeof **ends));
    (*ends)[(*count)++] = end;
    return GRAIL_OK;
}

static grail_status name_site(const graph *g, const node *map, site *s)
{
    static const char suffix[] = ".weight";
    const char *weight = g->parameters[map->weight].name;
    CHECK(memory_copy_string(&s->name, weight));
    char *dot = strstr(s->name, suffix);
    if (dot != NULL && dot[sizeof suffix - 1] == 0) {
        *dot = 0;
    }
    return GRAIL_OK;
}

static void site_fini(site *s)
{
    memory_free(s->name);
    memory_free(s->producers);
    memory_free(s->consumers);
    memory_free(s->channels);
    *s = (site){0};
}

/* Whether the units of a value hold query heads that can be reordered. These are the query and
 * output axes of grouped attention, which are wider than the key axis. */
static bool end_is_exchangeable(const axes *a, int value, int64_t subunits, int64_t narrowest)
{
    return subunits > 1 && a->widths[value] == narrowest * subunits;
}

static site_end end_of(const axes *a, const site *s, int index, int value)
{
    const int64_t narrowest = class_of(a, value)->narrowest;
    return (site_end){.node = index,
                      .features_per_unit = a->widths[value] / s->units,
                      .exchangeable = end_is_exchangeable(a, value, s->subunits, narrowest)};
}

static grail_status add_channels(const axes *a, int index, site_list *list)
{
    int parameters[NODE_MAX_PARAMETERS];
    const int output = a->g->nodes[index].output;
    const axis *class = class_of(a, output);
    if (class->site >= 0 && node_parameters(&a->g->nodes[index], parameters) > 0) {
        site *s = &list->sites[class->site];
        const int64_t rows = a->g->parameters[parameters[0]].shape[0];
        return add_end(&s->channels, &s->channel_count,
                       (site_end){.node = index,
                                  .features_per_unit = rows / s->units,
                                  .exchangeable = end_is_exchangeable(a, output, s->subunits,
                                                                      class->narrowest)});
    }
    return GRAIL_OK;
}

/* Adds a Linear or Conv2d as a producer to the site at its output and as a consumer to the site at
 * its input. */
static grail_status add_ends(const axes *a, int index, site_list *list)
{
    const node *n = &a->g->nodes[index];
    const int made = class_of(a, n->output)->site;
    const int read = class_of(a, n->inputs[0])->site;
    if (made >= 0) {
        site *s = &list->sites[made];
        CHECK(add_end(&s->producers, &s->producer_count, end_of(a, s, index, n->output)));
    }
    if (read >= 0) {
        site *s = &list->sites[read];
        CHECK(add_end(&s->consumers, &s->consumer_count, end_of(a, s, index, n->inputs[0])));
    }
    return GRAIL_OK;
}

static site_kind kind_of(const axis *class, const node *consumer)
{
    if (class->units != 0) {
        return SITE_HEADS;
    }
    if (class->summed) {
        return SITE_STREAM;
    }
    if (class->normed) {
        return SITE_LATENT;
    }
    return node_is_convolution(consumer) ? SITE_CONV : SITE_FFN;
}

/* The map whose rows are the channels of a value that maps read. */
static const node *maker_of(const graph *g, int value)
{
    const node *n = &g->nodes[g->value_source[value]];
    while (!node_is_map(n)) {
        n = &g->nodes[g->value_source[n->inputs[0]]];
    }
    return n;
}

/* A site for the axis that a Linear or Conv2d reads, if it can be cut and is not listed yet. */
static grail_status list_site(const axes *a, const node *consumer, site_list *list)
{
    axis *own = class_of(a, consumer->inputs[0]);
    if (own->pinned || own->site >= 0) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&list->sites, (size_t)list->count + 1, sizeof list->sites[0]));
    site *s = &list->sites[list->count];
    *s = (site){
        .kind = kind_of(own, consumer),
        .block = consumer->block,
        .units = own->units != 0 ? own->units : a->widths[axis_root(a, consumer->inputs[0])],
        .groups = own->units != 0 ? own->groups : 1,
        .subunits = own->units != 0 ? own->subunits : 1,
        .normed = own->normed,
    };
    own->site = list->count++;
    return name_site(a->g, s->kind == SITE_LATENT ? maker_of(a->g, consumer->inputs[0]) : consumer,
                     s);
}

/* The map that makes a value which node `reader` alone reads, or GRAPH_NONE. */
static int sole_maker(const graph *g, int value, int reader)
{
    const int source = g->value_source[value];
    return source != GRAPH_NONE && node_is_map(&g->nodes[source]) &&
                   graph_sole_reader(g, value) == reader
               ? source
               : GRAPH_NONE;
}

/* A site for the channels of values behind which this consumer stands, where there are as many
 * heads of values as of queries. */
static grail_status list_values(const axes *a, int index, site_list *list)
{
    const graph *g = a->g;
    const int source = g->value_source[g->nodes[index].inputs[0]];
    const node *n = source == GRAPH_NONE ? NULL : &g->nodes[source];
    if (n == NULL || operator_of(n)->axis != AXIS_HEADS || !n->attention.narrows_values ||
        a->widths[n->inputs[0]] != a->widths[n->inputs[1]] ||
        graph_sole_reader(g, n->output) != index) {
        return GRAIL_OK;
    }
    const int maker = sole_maker(g, n->inputs[2], source);
    if (maker == GRAPH_NONE) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&list->sites, (size_t)list->count + 1, sizeof list->sites[0]));
    site *s = &list->sites[list->count++];
    *s = (site){.kind = SITE_VALUES,
                .block = g->nodes[index].block,
                .units = a->widths[n->inputs[2]],
                .groups = a->widths[n->inputs[1]] / n->attention.head_dim,
                .subunits = 1};
    CHECK(add_end(&s->producers, &s->producer_count,
                  (site_end){.node = maker, .features_per_unit = 1}));
    CHECK(add_end(&s->consumers, &s->consumer_count,
                  (site_end){.node = index, .features_per_unit = 1}));
    return name_site(g, &g->nodes[maker], s);
}

/* A site for the branches of a router, if the node is one. */
static grail_status list_experts(const graph *g, int index, site_list *list)
{
    branch_list branches = {0};
    if (!branches_of_router(g, index, &branches)) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&list->sites, (size_t)list->count + 1, sizeof list->sites[0]));
    site *s = &list->sites[list->count++];
    *s = (site){.kind = SITE_EXPERTS,
                .block = g->nodes[index].block,
                .units = branches.count,
                .groups = 1,
                .subunits = 1};
    CHECK(add_end(&s->producers, &s->producer_count,
                  (site_end){.node = index, .features_per_unit = 1}));
    if (g->nodes[branches.route].weight != GRAPH_NONE) {
        CHECK(add_end(&s->channels, &s->channel_count,
                      (site_end){.node = branches.route, .features_per_unit = 1}));
    }
    return name_site(g, &g->nodes[index], s);
}

/* The first FFN of a block measures the others. */
static void find_measures(site_list *list)
{
    const site *first = NULL;
    for (int i = 0; i < list->count; i++) {
        site *s = &list->sites[i];
        if (s->kind != SITE_FFN) {
            continue;
        }
        if (first == NULL || first->block != s->block) {
            first = s;
        } else if (s->units % first->units == 0) {
            s->measure = first;
        }
    }
}

int64_t site_times(const site *s)
{
    return s->measure == NULL ? 1 : s->units / s->measure->units;
}

branch_list site_branches(const graph *g, const site *s)
{
    branch_list branches = {0};
    (void)branches_of_router(g, s->producers[0].node, &branches);
    return branches;
}

grail_status sites_derive(const graph *g, gqa_mode mode, site_list *out)
{
    grail_status status = GRAIL_OK;
    axes a = {0};
    site_list list = {0};
    TRY(axes_init(&a, g, mode));
    summarise(&a);
    /* Walking the consumers in order lists the sites in the order they are compressed. */
    for (int i = 0; i < g->node_count; i++) {
        if (node_is_map(&g->nodes[i])) {
            TRY(list_site(&a, &g->nodes[i], &list));
            TRY(list_values(&a, i, &list));
            TRY(list_experts(g, i, &list));
        }
    }
    for (int i = 0; i < g->node_count; i++) {
        if (node_is_map(&g->nodes[i])) {
            TRY(add_ends(&a, i, &list));
        } else if (node_has_channels(&g->nodes[i])) {
            TRY(add_channels(&a, i, &list));
        }
    }
    if (g->one_width) {
        find_measures(&list);
    }
    *out = list;
    list = (site_list){0};
out:
    site_list_fini(&list);
    axes_fini(&a);
    return status;
}

void site_list_fini(site_list *list)
{
    for (int i = 0; i < list->count; i++) {
        site_fini(&list->sites[i]);
    }
    memory_free(list->sites);
    *list = (site_list){0};
}

int site_list_find(const site_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++) {
        if (strcmp(list->sites[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *site_kind_name(site_kind kind)
{
    static const char *const names[SITE_KINDS] = {
        [SITE_FFN] = "ffn",         [SITE_HEADS] = "heads",   [SITE_CONV] = "conv",
        [SITE_STREAM] = "stream",   [SITE_LATENT] = "latent", [SITE_VALUES] = "values",
        [SITE_EXPERTS] = "experts",
    };
    return names[kind];
}

bool site_kind_is_shared(site_kind kind)
{
    return kind == SITE_STREAM || kind == SITE_LATENT;
}

bool site_spans_blocks(const graph *g, const site *s)
{
    for (int p = 0; p < s->producer_count; p++) {
        if (g->nodes[s->producers[p].node].block != s->block) {
            return true;
        }
    }
    for (int c = 0; c < s->consumer_count; c++) {
        if (g->nodes[s->consumers[c].node].block != s->block) {
            return true;
        }
    }
    return false;
}

int site_branch_producer(const graph *g, const site *s)
{
    const int block = g->nodes[s->producers[0].node].block;
    int last = 0;
    while (last + 1 < s->producer_count && g->nodes[s->producers[last + 1].node].block == block) {
        last++;
    }
    return last;
}

/* Number of elements in one row or one column of a weight. */
static int64_t elements_along(const graph_parameter *weight, int along)
{
    int64_t elements = 1;
    for (int d = 0; d < weight->rank; d++) {
        elements *= d == along ? 1 : weight->shape[d];
    }
    return elements;
}

int64_t site_parameters_per_unit(const graph *g, const site *s)
{
    int64_t total = 0;
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = &g->nodes[s->producers[p].node];
        const int64_t row = elements_along(&g->parameters[n->weight], 0);
        total += s->producers[p].features_per_unit * (row + (n->bias != GRAPH_NONE ? 1 : 0));
    }
    for (int c = 0; c < s->consumer_count; c++) {
        const node *n = &g->nodes[s->consumers[c].node];
        total += s->consumers[c].features_per_unit * elements_along(&g->parameters[n->weight], 1);
    }
    for (int k = 0; k < s->channel_count; k++) {
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[s->channels[k].node], parameters);
        for (int i = 0; i < count; i++) {
            total +=
                s->channels[k].features_per_unit * elements_along(&g->parameters[parameters[i]], 0);
        }
    }
    if (s->kind == SITE_EXPERTS) {
        const branch_list branches = site_branches(g, s);
        total += branch_elements(g, &branches);
    }
    return total;
}
