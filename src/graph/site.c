#include "graph/site.h"

#include "graph/axes.h"
#include "graph/operators.h"

#include <stdio.h>
#include <string.h>

/* -- sites ------------------------------------------------------------------------------------- */

static grail_status add_end(site_end **ends, int *count, site_end end)
{
    CHECK(memory_reserve(ends, (size_t)*count + 1, sizeof **ends));
    (*ends)[(*count)++] = end;
    return GRAIL_OK;
}

/* `first` >= 0 is that of channels which have others beside them. */
static grail_status name_site(const graph *g, const node *map, int64_t first, site *s)
{
    static const char suffix[] = ".weight";
    const char *weight = g->parameters[map->weight].name;
    const char *found = strstr(weight, suffix);
    const size_t length =
        found != NULL && found[sizeof suffix - 1] == 0 ? (size_t)(found - weight) : strlen(weight);
    const size_t size = length + 24;
    CHECK(memory_new(&s->name, size, 1));
    if (s->kind == SITE_GROUPS) {
        snprintf(s->name, size, "%.*s[groups]", (int)length, weight);
    } else if (first < 0) {
        memcpy(s->name, weight, length);
    } else {
        snprintf(s->name, size, "%.*s[%lld]", (int)length, weight, (long long)first);
    }
    return GRAIL_OK;
}

static void site_fini(site *s)
{
    memory_free(s->name);
    memory_free(s->producers);
    memory_free(s->consumers);
    memory_free(s->channels);
    memory_free(s->segments);
    *s = (site){0};
}

/* Whether the units of a segment hold query heads that can be reordered. These are the query and
 * output axes of grouped attention, which are longer than the key axis. */
static bool is_exchangeable(const axes *a, const site *s, int index)
{
    return s->subunits > 1 &&
           a->segments[index].length == axes_class_of(a, index)->narrowest * s->subunits;
}

/* Adds to *ends of the site at segment `index` those of a node that has `rows` rows or columns for
 * `width` channels. */
static grail_status add_end_of(const axes *a, const site *s, int node_index, int index,
                               int64_t rows, int64_t width, site_end **ends, int *count)
{
    const segment *own = &a->segments[index];
    return add_end(ends, count,
                   (site_end){.node = node_index,
                              .first = own->first * rows / width,
                              .features_per_unit = own->length * rows / width / s->units,
                              .exchangeable = is_exchangeable(a, s, index)});
}

/* The site of a segment, or NULL. */
static site *site_of(const axes *a, const site_list *list, int index)
{
    const int found = axes_class_of(a, index)->site;
    return found < 0 ? NULL : &list->sites[found];
}

static grail_status add_channels(const axes *a, int index, const site_list *list)
{
    int parameters[NODE_MAX_PARAMETERS];
    const int output = a->g->nodes[index].output;
    if (node_parameters(&a->g->nodes[index], parameters) == 0) {
        return GRAIL_OK;
    }
    const int64_t rows = a->g->parameters[parameters[0]].shape[0];
    for (int k = a->of[output]; k < a->of[output + 1]; k++) {
        site *s = site_of(a, list, k);
        if (s != NULL) {
            CHECK(add_end_of(a, s, index, k, rows, a->widths[output], &s->channels,
                             &s->channel_count));
        }
    }
    return GRAIL_OK;
}

/* Whether a node passes on whole groups, and neither starts nor ends their axis. */
static bool is_hop(const axes *a, const node *n)
{
    return a->hops && node_groups(n) > 1;
}

/* Adds a Linear or Conv2d as a producer to the sites at its output and as a consumer to the sites
 * at its input. */
static grail_status add_ends(const axes *a, int index, const site_list *list)
{
    const node *n = &a->g->nodes[index];
    for (int k = a->of[n->output]; k < a->of[n->output + 1]; k++) {
        site *s = site_of(a, list, k);
        if (s != NULL) {
            CHECK(add_end_of(a, s, index, k, 1, 1, &s->producers, &s->producer_count));
        }
    }
    for (int k = a->of[n->inputs[0]]; k < a->of[n->inputs[0] + 1]; k++) {
        site *s = site_of(a, list, k);
        if (s != NULL) {
            CHECK(add_end_of(a, s, index, k, 1, 1, &s->consumers, &s->consumer_count));
        }
    }
    return GRAIL_OK;
}

static grail_status add_segments(const axes *a, const site_list *list)
{
    for (int k = 0; k < a->of[a->g->value_count]; k++) {
        site *s = site_of(a, list, k);
        if (s != NULL) {
            const segment *own = &a->segments[k];
            CHECK(
                memory_reserve(&s->segments, (size_t)s->segment_count + 1, sizeof s->segments[0]));
            s->segments[s->segment_count++] =
                (site_segment){.value = own->value,
                               .first = own->first,
                               .features_per_unit = own->length / s->units};
        }
    }
    return GRAIL_OK;
}

static site_kind kind_of(const segment *class, const node *consumer)
{
    if (class->units != 0 && !class->of_channels) {
        return SITE_HEADS;
    }
    if (class->summed) {
        return SITE_STREAM;
    }
    if (class->latent) {
        return SITE_LATENT;
    }
    return node_is_convolution(consumer) || class->groups > 1 ? SITE_CONV : SITE_FFN;
}

/* The first map whose rows are channels of a class, and the first of these rows in *first: -1 where
 * it has no others. */
static const node *maker_of(const axes *a, const segment *class, int64_t *first)
{
    for (int s = 0; s < a->of[a->g->value_count]; s++) {
        const int source = a->g->value_source[a->segments[s].value];
        if (source != GRAPH_NONE && node_is_map(&a->g->nodes[source]) &&
            axes_class_of(a, s) == class) {
            *first =
                axes_class_of_value(a, a->segments[s].value) == NULL ? a->segments[s].first : -1;
            return &a->g->nodes[source];
        }
    }
    return NULL;
}

/* A site for a segment that a Linear or Conv2d reads, if it can be cut and is not listed yet. */
static grail_status list_segment(const axes *a, const node *consumer, int index, site_list *list)
{
    segment *own = axes_class_of(a, index);
    if (own->pinned || own->site >= 0) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&list->sites, (size_t)list->count + 1, sizeof list->sites[0]));
    site *s = &list->sites[list->count];
    *s = (site){
        .kind = kind_of(own, consumer),
        .block = consumer->block,
        .units = own->units != 0 ? own->units : a->segments[index].length,
        .groups = own->units != 0 ? own->groups : 1,
        .subunits = own->units != 0 ? own->subunits : 1,
        .normed = own->normed,
        .is_part = own->is_part,
    };
    own->site = list->count++;
    int64_t first =
        axes_class_of_value(a, consumer->inputs[0]) == NULL ? a->segments[index].first : -1;
    const node *named = s->kind == SITE_LATENT ? maker_of(a, own, &first) : consumer;
    return name_site(a->g, named, first, s);
}

/* A site for whole groups, as list_segment. */
static grail_status list_groups(const axes *a, const node *consumer, int index, site_list *list)
{
    segment *own = axes_class_of(a, index);
    if (own->pinned || own->site >= 0 || own->hop == GRAPH_NONE) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&list->sites, (size_t)list->count + 1, sizeof list->sites[0]));
    site *s = &list->sites[list->count];
    *s = (site){
        .kind = SITE_GROUPS,
        .block = consumer->block,
        .units = own->units,
        .groups = 1,
        .subunits = 1,
        .normed = own->normed,
        .is_part = own->is_part,
    };
    own->site = list->count++;
    return name_site(a->g, &a->g->nodes[own->hop], -1, s);
}

static grail_status list_site(const axes *a, const node *consumer, site_list *list)
{
    for (int k = a->of[consumer->inputs[0]]; k < a->of[consumer->inputs[0] + 1]; k++) {
        CHECK(a->hops ? list_groups(a, consumer, k, list) : list_segment(a, consumer, k, list));
    }
    return GRAIL_OK;
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
    return name_site(g, &g->nodes[maker], -1, s);
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
    return name_site(g, &g->nodes[index], -1, s);
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

static bool has_groups(const graph *g)
{
    bool found = false;
    for (int i = 0; i < g->node_count && !found; i++) {
        found = node_groups(&g->nodes[i]) > 1;
    }
    return found;
}

/* The axes of channels, and where a convolution has groups those of whole groups; axes_fini frees
 * both, even after a failure. */
static grail_status both_axes(const graph *g, gqa_mode mode, axes *channels, axes *groups)
{
    CHECK(axes_init(channels, g, mode, false));
    return has_groups(g) ? axes_init(groups, g, mode, true) : GRAIL_OK;
}

/* Whether a segment is one of whole groups that can be cut. */
static bool goes_by_groups(const axes *groups, int index)
{
    const segment *class = groups->g == NULL ? NULL : axes_class_of(groups, index);
    return class != NULL && class->hop != GRAPH_NONE && class->pinned == NOT_PINNED;
}

grail_status sites_pinned(const graph *g, int *maps, pinned_maps out[PINS])
{
    grail_status status = GRAIL_OK;
    axes a = {0};
    axes groups = {0};
    *maps = 0;
    for (int cause = 0; cause < PINS; cause++) {
        out[cause] = (pinned_maps){.first = GRAPH_NONE, .at = GRAPH_NONE};
    }
    TRY(both_axes(g, GQA_KV_GROUPS, &a, &groups));
    for (int i = 0; i < g->node_count; i++) {
        const int value = g->nodes[i].output;
        bool is_counted[PINS] = {false};
        for (int k = a.of[value]; node_is_map(&g->nodes[i]) && k < a.of[value + 1]; k++) {
            const segment *class = axes_class_of(&a, k);
            const pin cause = goes_by_groups(&groups, k) ? NOT_PINNED : class->pinned;
            pinned_maps *p = &out[cause];
            if (p->count == 0) {
                p->first = i;
                p->at = class->pinned_at;
            }
            p->count += is_counted[cause] ? 0 : 1;
            is_counted[cause] = true;
        }
        *maps += node_is_map(&g->nodes[i]) ? 1 : 0;
    }
out:
    axes_fini(&a);
    axes_fini(&groups);
    return status;
}

/* Adds what nodes and values are to the sites of these axes. */
static grail_status add_all_ends(const axes *a, const site_list *list)
{
    for (int i = 0; i < a->g->node_count; i++) {
        const node *n = &a->g->nodes[i];
        if (node_is_map(n) && !is_hop(a, n)) {
            CHECK(add_ends(a, i, list));
        } else if (node_has_channels(n) || is_hop(a, n)) {
            CHECK(add_channels(a, i, list));
        }
    }
    return add_segments(a, list);
}

/* Both kinds of axes have the same segments. */
static void find_whole(const axes *channels, const axes *groups, site_list *list)
{
    for (int k = 0; k < channels->of[channels->g->value_count]; k++) {
        site *own = site_of(channels, list, k);
        if (own != NULL) {
            own->whole = site_of(groups, list, k);
        }
    }
}

grail_status sites_derive(const graph *g, gqa_mode mode, site_list *out)
{
    grail_status status = GRAIL_OK;
    axes a = {0};
    axes groups = {0};
    site_list list = {0};
    TRY(both_axes(g, mode, &a, &groups));
    const bool has_whole = groups.g != NULL;
    /* Walking the consumers in order lists the sites in the order they are compressed. */
    for (int i = 0; i < g->node_count; i++) {
        if (node_is_map(&g->nodes[i])) {
            TRY(list_site(&a, &g->nodes[i], &list));
            TRY(list_values(&a, i, &list));
            TRY(list_experts(g, i, &list));
        }
        if (has_whole && node_is_map(&g->nodes[i]) && !is_hop(&groups, &g->nodes[i])) {
            TRY(list_site(&groups, &g->nodes[i], &list));
        }
    }
    TRY(add_all_ends(&a, &list));
    if (has_whole) {
        TRY(add_all_ends(&groups, &list));
        find_whole(&a, &groups, &list);
    }
    if (g->one_width) {
        find_measures(&list);
    }
    *out = list;
    list = (site_list){0};
out:
    site_list_fini(&list);
    axes_fini(&a);
    axes_fini(&groups);
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
        [SITE_EXPERTS] = "experts", [SITE_GROUPS] = "groups",
    };
    return names[kind];
}

bool site_kind_is_shared(site_kind kind)
{
    return kind == SITE_STREAM || kind == SITE_LATENT;
}

bool site_may_be_cut(const site *s, const bool *kinds)
{
    return kinds[s->kind] && (s->whole == NULL || !kinds[SITE_GROUPS]);
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

bool site_waits_for_network(const graph *g, const site *s)
{
    return s->is_part || site_spans_blocks(g, s);
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
        total += s->consumers[c].features_per_unit * elements_along(&g->parameters[n->weight], 1) /
                 node_groups(n);
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
