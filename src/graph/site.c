#include "graph/site.h"

#include "graph/operators.h"

#include <stdio.h>
#include <string.h>

/* A run of channels of a value: values are split wherever another one begins or ends with a part of
 * them. It has a place in a union-find over segments whose channels must be cut together. What
 * follows the parent is of the class, and counts at its root alone. */
typedef struct segment {
    int value;
    int64_t first, length;
    int parent;
    bool pinned;
    bool summed;              /* an Add joins values of this class */
    bool normed;              /* a norm over all channels makes one of them */
    bool is_part;             /* of a value that has others */
    bool of_channels;         /* what requires the number of units takes each channel for one: it
                                 puts patches, or convolves in groups */
    int64_t units;            /* number of units that such a node or attention requires, 0 = none */
    int64_t groups, subunits; /* see site */
    int64_t narrowest;        /* of the lengths of its segments */
    int site;                 /* in the list, or -1 */
} segment;

/* Where segments of a value begin, but the first one, in ascending order. */
typedef struct borders {
    int64_t *at;
    int count;
} borders;

typedef struct axes {
    const graph *g;
    int64_t *widths;   /* [values] */
    borders *borders;  /* [values] */
    int *of;           /* [values + 1]: the first segment of each */
    segment *segments; /* [of[values]] */
} axes;

static void widths_in(const axes *a, const node *n, int64_t in[NODE_MAX_INPUTS])
{
    for (int i = 0; i < n->input_count; i++) {
        in[i] = a->widths[n->inputs[i]];
    }
}

/* -- where values are split -------------------------------------------------------------------- */

static grail_status add_border(axes *a, int value, int64_t at, bool *changed)
{
    borders *b = &a->borders[value];
    int i = 0;
    while (i < b->count && b->at[i] < at) {
        i++;
    }
    if (at <= 0 || at >= a->widths[value] || (i < b->count && b->at[i] == at)) {
        return GRAIL_OK;
    }
    CHECK(memory_reserve(&b->at, (size_t)b->count + 1, sizeof b->at[0]));
    memmove(&b->at[i + 1], &b->at[i], (size_t)(b->count - i) * sizeof b->at[0]);
    b->at[i] = at;
    b->count++;
    *changed = true;
    return GRAIL_OK;
}

/* The borders inside channels [first, first + length) of a value, and both ends, become borders of
 * another one from `to` on. */
static grail_status copy_borders(axes *a, int value, int64_t first, int64_t length, int into,
                                 int64_t to, bool *changed)
{
    CHECK(add_border(a, into, to, changed));
    CHECK(add_border(a, into, to + length, changed));
    for (int i = 0; i < a->borders[value].count; i++) {
        const int64_t at = a->borders[value].at[i];
        if (at > first && at < first + length) {
            CHECK(add_border(a, into, to + at - first, changed));
        }
    }
    return GRAIL_OK;
}

static grail_status split_at(axes *a, const node *n, bool *changed)
{
    int64_t in[NODE_MAX_INPUTS] = {0};
    channel_run runs[NODE_MAX_INPUTS];
    widths_in(a, n, in);
    const int count = node_channel_runs(n, in, runs);
    for (int i = 0; i < count; i++) {
        const channel_run *r = &runs[i];
        const int value = n->inputs[r->input];
        CHECK(copy_borders(a, value, r->from, r->length, n->output, r->to, changed));
        CHECK(copy_borders(a, n->output, r->to, r->length, value, r->from, changed));
    }
    return GRAIL_OK;
}

/* A border of one value is one of all that share its channels, before and behind it. */
static grail_status split_values(axes *a)
{
    bool changed = true;
    CHECK(memory_new(&a->borders, (size_t)a->g->value_count, sizeof a->borders[0]));
    while (changed) {
        changed = false;
        for (int n = 0; n < a->g->node_count; n++) {
            CHECK(split_at(a, &a->g->nodes[n], &changed));
        }
        for (int n = a->g->node_count - 1; changed && n >= 0; n--) {
            CHECK(split_at(a, &a->g->nodes[n], &changed));
        }
    }
    return GRAIL_OK;
}

static grail_status list_segments(axes *a)
{
    const int values = a->g->value_count;
    int count = 0;
    CHECK(memory_new(&a->of, (size_t)values + 1, sizeof a->of[0]));
    for (int v = 0; v < values; v++) {
        a->of[v] = count;
        count += a->borders[v].count + 1;
    }
    a->of[values] = count;
    CHECK(memory_new(&a->segments, (size_t)count, sizeof a->segments[0]));
    for (int v = 0; v < values; v++) {
        const borders *b = &a->borders[v];
        for (int i = 0; i <= b->count; i++) {
            const int64_t first = i == 0 ? 0 : b->at[i - 1];
            a->segments[a->of[v] + i] =
                (segment){.value = v,
                          .first = first,
                          .length = (i == b->count ? a->widths[v] : b->at[i]) - first,
                          .parent = a->of[v] + i,
                          .is_part = b->count > 0};
        }
    }
    return GRAIL_OK;
}

/* -- classes of segments ----------------------------------------------------------------------- */

static segment *class_of(const axes *a, int index)
{
    while (a->segments[index].parent != index) {
        const int parent = a->segments[index].parent;
        a->segments[index].parent = a->segments[parent].parent; /* path halving */
        index = a->segments[index].parent;
    }
    return &a->segments[index];
}

/* The only segment of a value, NULL where it has several. */
static segment *class_of_value(const axes *a, int value)
{
    return a->of[value + 1] - a->of[value] > 1 ? NULL : class_of(a, a->of[value]);
}

static int64_t least_common_multiple(int64_t a, int64_t b)
{
    int64_t divisor = a;
    for (int64_t rest = b; rest != 0;) {
        const int64_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    return a / divisor * b;
}

static void axis_cut_into(segment *class, int64_t units, int64_t groups, int64_t subunits,
                          bool of_channels)
{
    if (class->units == 0) {
        class->units = units;
        class->groups = groups;
        class->subunits = subunits;
        class->of_channels = of_channels;
    } else if (units == 0) {
        return;
    } else if (class->units != units || class->of_channels != of_channels ||
               (class->groups != groups && !of_channels)) {
        class->pinned = true; /* two attentions that cut the axis differently */
    } else { /* as many of each of the finer runs are as many of each of the coarser ones */
        class->groups = least_common_multiple(class->groups, groups);
    }
    class->pinned =
        class->pinned || (class->groups > 1 && class->of_channels &&
                          (class->units % class->groups != 0 || class->units == class->groups));
}

static void segments_join(axes *a, int left, int right)
{
    segment *from = class_of(a, right);
    segment *to = class_of(a, left);
    if (from != to) {
        from->parent = to->parent;
        to->pinned = to->pinned || from->pinned;
        to->summed = to->summed || from->summed;
        to->normed = to->normed || from->normed;
        to->is_part = to->is_part || from->is_part;
        axis_cut_into(to, from->units, from->groups, from->subunits, from->of_channels);
    }
}

static void axis_pin(axes *a, int value)
{
    for (int s = a->of[value]; s < a->of[value + 1]; s++) {
        class_of(a, s)->pinned = true;
    }
}

/* Joins two values whose channels come in heads. */
static void axis_join_heads(axes *a, int left, int right)
{
    if (class_of_value(a, left) == NULL || class_of_value(a, right) == NULL) {
        axis_pin(a, left);
        axis_pin(a, right);
    } else {
        segments_join(a, a->of[left], a->of[right]);
    }
}

static int segment_at(const axes *a, int value, int64_t first)
{
    int s = a->of[value];
    while (a->segments[s].first < first) {
        s++;
    }
    return s;
}

static void join_run(axes *a, int left, int64_t from, int right, int64_t to, int64_t length)
{
    const int l = segment_at(a, left, from);
    const int r = segment_at(a, right, to);
    for (int i = 0; r + i < a->of[right + 1] && a->segments[r + i].first < to + length; i++) {
        segments_join(a, l + i, r + i);
    }
}

static void follow_runs(axes *a, const node *n)
{
    int64_t in[NODE_MAX_INPUTS] = {0};
    channel_run runs[NODE_MAX_INPUTS];
    bool passed[NODE_MAX_INPUTS] = {false};
    widths_in(a, n, in);
    const int count = node_channel_runs(n, in, runs);
    for (int i = 0; i < count; i++) {
        const channel_run *r = &runs[i];
        join_run(a, n->output, r->to, n->inputs[r->input], r->from, r->length);
        passed[r->input] = true;
    }
    if (operator_of(n)->axis ==
        AXIS_SLICE) { /* its run is told beside the widths, even if it is all */
        class_of(a, a->of[n->output])->is_part = true;
    }
    for (int i = 0; i < n->input_count; i++) {
        if (!passed[i]) {
            axis_pin(a, n->inputs[i]);
        }
    }
}

static void follow_attention(axes *a, const node *n, gqa_mode mode)
{
    const int k = n->inputs[1];
    const int v = n->inputs[2];
    const int64_t query_heads = a->widths[n->inputs[0]] / n->attention.head_dim;
    const int64_t kv_heads = a->widths[k] / n->attention.head_dim;
    segment *class = NULL;
    axis_join_heads(a, n->output, n->inputs[0]);
    if (mode == GQA_QUERY_PER_GROUP) {
        axis_pin(a, k);
        axis_pin(a, v);
    } else {
        axis_join_heads(a, n->output, k);
        axis_join_heads(a, n->output, v);
    }
    class = class_of_value(a, n->output);
    if (class != NULL && mode == GQA_QUERY_PER_GROUP) {
        axis_cut_into(class, query_heads, kv_heads, 1, false);
    } else if (class != NULL) {
        axis_cut_into(class, kv_heads, 1, query_heads / kv_heads, false);
    }
}

/* Each channel is a unit, of as many features as a patch has positions before. */
static void follow_patches(axes *a, const node *n)
{
    axis_join_heads(a, n->output, n->inputs[0]);
    segment *class = class_of_value(a, n->output);
    if (class != NULL) {
        axis_cut_into(class, a->widths[n->output], 1, 1, true);
    }
}

/* A convolution in groups reads as many channels of each group, and makes as many in each. Those of
 * several segments could only go together. */
static void follow_groups(axes *a, const node *n)
{
    const int values[] = {n->inputs[0], n->output};
    for (int i = 0; i < 2 && node_groups(n) > 1; i++) {
        segment *class = class_of_value(a, values[i]);
        if (class == NULL) {
            axis_pin(a, values[i]);
        } else {
            axis_cut_into(class, a->widths[values[i]], node_groups(n), 1, true);
        }
    }
}

static void mark_output(axes *a, const node *n)
{
    const operator_rules *rules = operator_of(n);
    const bool sums =
        rules->axis == AXIS_SUMS || (rules->axis == AXIS_ROUTED && n->input_count > 2);
    for (int s = a->of[n->output]; s < a->of[n->output + 1]; s++) {
        class_of(a, s)->summed |= sums;
        class_of(a, s)->normed |= node_norms_width(n);
    }
    if ((rules->pins != NULL && rules->pins(n)) ||
        (node_norms_width(n) && class_of_value(a, n->output) == NULL)) {
        axis_pin(a, n->output);
    }
}

static void follow_node(axes *a, const node *n, gqa_mode mode)
{
    switch (operator_of(n)->axis) {
    case AXIS_STARTS:
        follow_groups(a, n);
        break;
    case AXIS_ENDS:
        axis_pin(a, n->output);
        for (int i = 0; i < n->input_count; i++) {
            axis_pin(a, n->inputs[i]);
        }
        break;
    case AXIS_BESIDE:
        axis_join_heads(a, n->output, n->inputs[0]);
        if (n->join.shared) {
            axis_pin(a, n->inputs[1]);
        } else {
            axis_join_heads(a, n->output, n->inputs[1]);
        }
        break;
    case AXIS_HEADS:
        follow_attention(a, n, mode);
        break;
    case AXIS_PATCHES:
        follow_patches(a, n);
        break;
    case AXIS_CARRIES:
    case AXIS_JOINS:
    case AXIS_SUMS:
    case AXIS_ROUTED:
    case AXIS_CONCAT:
    case AXIS_SLICE:
        follow_runs(a, n);
        break;
    }
    mark_output(a, n);
}

/* The columns of a consumer have each channel once. */
static void pin_repeated(axes *a, int value)
{
    for (int s = a->of[value]; s < a->of[value + 1]; s++) {
        for (int r = a->of[value]; r < s; r++) {
            if (class_of(a, r) == class_of(a, s)) {
                class_of(a, s)->pinned = true;
            }
        }
    }
}

static void axes_fini(axes *a)
{
    for (int v = 0; a->borders != NULL && v < a->g->value_count; v++) {
        memory_free(a->borders[v].at);
    }
    memory_free(a->widths);
    memory_free(a->borders);
    memory_free(a->of);
    memory_free(a->segments);
    *a = (axes){0};
}

static grail_status axes_init(axes *a, const graph *g, gqa_mode mode)
{
    grail_status status = GRAIL_OK;
    *a = (axes){.g = g};
    TRY(memory_new(&a->widths, (size_t)g->value_count, sizeof a->widths[0]));
    TRY(graph_widths(g, a->widths));
    TRY(split_values(a));
    TRY(list_segments(a));
    axis_pin(a, g->input);
    for (int i = 0; i < g->output_count; i++) {
        axis_pin(a, g->outputs[i].value);
    }
    for (int i = 0; i < g->pinned_count; i++) {
        axis_pin(a, g->pinned[i]);
    }
    for (int n = 0; n < g->node_count; n++) {
        follow_node(a, &g->nodes[n], mode);
    }
    for (int n = 0; n < g->node_count; n++) {
        if (node_is_map(&g->nodes[n])) {
            pin_repeated(a, g->nodes[n].inputs[0]);
        }
    }
out:
    if (status != GRAIL_OK) {
        axes_fini(a);
    }
    return status;
}

/* Summarises the segments of every class, after every node was followed. The lengths in a class
 * differ only if Attention or patches joined its values, which set a number of units that divides
 * all widths. Where units have subunits, values are as wide as k or as q. What a norm over all
 * channels leaves cannot be had where each of several groups keeps its own. */
static void summarise(axes *a)
{
    for (int s = 0; s < a->of[a->g->value_count]; s++) {
        segment *own = class_of(a, s);
        const int64_t length = a->segments[s].length;
        own->narrowest = own->narrowest == 0 || length < own->narrowest ? length : own->narrowest;
        own->pinned = own->pinned || (own->normed && own->of_channels && own->groups > 1);
        own->site = -1;
    }
}

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
    if (first < 0) {
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
           a->segments[index].length == class_of(a, index)->narrowest * s->subunits;
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
    const int found = class_of(a, index)->site;
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
    if (class->normed) {
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
        if (source != GRAPH_NONE && node_is_map(&a->g->nodes[source]) && class_of(a, s) == class) {
            *first = class_of_value(a, a->segments[s].value) == NULL ? a->segments[s].first : -1;
            return &a->g->nodes[source];
        }
    }
    return NULL;
}

/* A site for a segment that a Linear or Conv2d reads, if it can be cut and is not listed yet. */
static grail_status list_segment(const axes *a, const node *consumer, int index, site_list *list)
{
    segment *own = class_of(a, index);
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
    int64_t first = class_of_value(a, consumer->inputs[0]) == NULL ? a->segments[index].first : -1;
    const node *named = s->kind == SITE_LATENT ? maker_of(a, own, &first) : consumer;
    return name_site(a->g, named, first, s);
}

static grail_status list_site(const axes *a, const node *consumer, site_list *list)
{
    for (int k = a->of[consumer->inputs[0]]; k < a->of[consumer->inputs[0] + 1]; k++) {
        CHECK(list_segment(a, consumer, k, list));
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
    TRY(add_segments(&a, &list));
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
