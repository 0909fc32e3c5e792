#include "graph/axes.h"

#include "graph/operators.h"

#include <string.h>

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
                          .pinned_at = GRAPH_NONE,
                          .hop = GRAPH_NONE,
                          .is_part = b->count > 0};
        }
    }
    return GRAIL_OK;
}

/* -- classes of segments ----------------------------------------------------------------------- */

segment *axes_class_of(const axes *a, int index)
{
    while (a->segments[index].parent != index) {
        const int parent = a->segments[index].parent;
        a->segments[index].parent = a->segments[parent].parent; /* path halving */
        index = a->segments[index].parent;
    }
    return &a->segments[index];
}

/* The only segment of a value, NULL where it has several. */
segment *axes_class_of_value(const axes *a, int value)
{
    return a->of[value + 1] - a->of[value] > 1 ? NULL : axes_class_of(a, a->of[value]);
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

/* The first cause is told. */
static void pin_class(segment *class, pin cause, int at)
{
    if (class->pinned == NOT_PINNED) {
        class->pinned = cause;
        class->pinned_at = at;
    }
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
        pin_class(class, PINNED_IN_PARTS, GRAPH_NONE); /* two attentions that cut it differently */
    } else { /* as many of each of the finer runs are as many of each of the coarser ones */
        class->groups = least_common_multiple(class->groups, groups);
    }
    if (class->groups > 1 && class->of_channels &&
        (class->units % class->groups != 0 || class->units == class->groups)) {
        pin_class(class, PINNED_IN_PARTS, GRAPH_NONE);
    }
}

static void segments_join(axes *a, int left, int right)
{
    segment *from = axes_class_of(a, right);
    segment *to = axes_class_of(a, left);
    if (from != to) {
        from->parent = to->parent;
        pin_class(to, from->pinned, from->pinned_at);
        to->summed = to->summed || from->summed;
        to->made = to->made || from->made;
        to->normed = to->normed || from->normed;
        to->latent = to->latent || from->latent;
        to->is_part = to->is_part || from->is_part;
        to->hop = to->hop == GRAPH_NONE || (from->hop != GRAPH_NONE && from->hop < to->hop)
                      ? from->hop
                      : to->hop;
        axis_cut_into(to, from->units, from->groups, from->subunits, from->of_channels);
    }
}

static void axis_pin_by(axes *a, int value, pin cause, int at)
{
    for (int s = a->of[value]; s < a->of[value + 1]; s++) {
        pin_class(axes_class_of(a, s), cause, at);
    }
}

static void axis_pin(axes *a, int value)
{
    axis_pin_by(a, value, PINNED_AT_ENDS, GRAPH_NONE);
}

/* Joins two values whose channels come in heads. */
static void axis_join_heads(axes *a, int left, int right)
{
    if (axes_class_of_value(a, left) == NULL || axes_class_of_value(a, right) == NULL) {
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
        axes_class_of(a, a->of[n->output])->is_part = true;
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
    if (n->attention.biases != NULL && n->attention.bias_heads > 1) { /* which no tensor holds */
        axis_pin_by(a, n->output, PINNED_BY_TABLE, (int)(n - a->g->nodes));
    }
    class = axes_class_of_value(a, n->output);
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
    segment *class = axes_class_of_value(a, n->output);
    if (class != NULL) {
        axis_cut_into(class, a->widths[n->output], 1, 1, true);
    }
}

/* Whole groups: what one reads goes with what it makes. */
static void hop_over(axes *a, const node *n)
{
    axis_join_heads(a, n->output, n->inputs[0]);
    segment *class = axes_class_of_value(a, n->output);
    if (class != NULL) {
        axis_cut_into(class, node_groups(n), 1, 1, true);
        class->hop = class->hop == GRAPH_NONE ? (int)(n - a->g->nodes) : class->hop;
    }
}

/* A convolution in groups reads as many channels of each group, and makes as many in each. Those of
 * several segments could only go together. */
static void follow_groups(axes *a, const node *n)
{
    const int values[] = {n->inputs[0], n->output};
    if (node_groups(n) > 1 && a->hops) {
        hop_over(a, n);
        return;
    }
    for (int i = 0; i < 2 && node_groups(n) > 1; i++) {
        segment *class = axes_class_of_value(a, values[i]);
        if (class == NULL) {
            axis_pin_by(a, values[i], PINNED_IN_PARTS, (int)(n - a->g->nodes));
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
        axes_class_of(a, s)->summed |= sums;
        axes_class_of(a, s)->made |= node_is_map(n);
        axes_class_of(a, s)->normed |= node_norms_width(n);
        axes_class_of(a, s)->latent |= node_norms_width(n) && rules->rows == ROWS_ALONE;
    }
    if ((rules->pins != NULL && rules->pins(n)) ||
        (node_norms_width(n) && axes_class_of_value(a, n->output) == NULL)) {
        axis_pin(a, n->output);
    }
}

static void follow_node(axes *a, const node *n, gqa_mode mode)
{
    const int index = (int)(n - a->g->nodes);
    const pin cause = n->kind == NODE_OPAQUE    ? PINNED_BY_REGION
                      : n->kind == NODE_SHUFFLE ? PINNED_BY_SHUFFLE
                                                : PINNED_AT_ENDS;
    switch (operator_of(n)->axis) {
    case AXIS_STARTS:
        follow_groups(a, n);
        break;
    case AXIS_ENDS:
        axis_pin_by(a, n->output, cause, index);
        for (int i = 0; i < n->input_count; i++) {
            axis_pin_by(a, n->inputs[i], cause, index);
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
    case AXIS_FRESH:
        break;
    }
    mark_output(a, n);
}

/* Channels that nothing is added to are no units, as no row of a weight makes them. */
static void pin_unmade(axes *a, int value)
{
    for (int s = a->of[value]; s < a->of[value + 1]; s++) {
        if (!axes_class_of(a, s)->made) {
            pin_class(axes_class_of(a, s), PINNED_AT_ENDS, GRAPH_NONE);
        }
    }
}

/* The columns of a consumer have each channel once. */
static void pin_repeated(axes *a, int value)
{
    for (int s = a->of[value]; s < a->of[value + 1]; s++) {
        for (int r = a->of[value]; r < s; r++) {
            if (axes_class_of(a, r) == axes_class_of(a, s)) {
                pin_class(axes_class_of(a, s), PINNED_IN_PARTS, GRAPH_NONE);
            }
        }
    }
}

/* Summarises the segments of every class, after every node was followed. The lengths in a class
 * differ only if Attention or patches joined its values, which set a number of units that divides
 * all widths. Where units have subunits, values are as wide as k or as q. What a norm over all
 * channels leaves cannot be had where each of several groups keeps its own. */
static void summarise(axes *a)
{
    for (int s = 0; s < a->of[a->g->value_count]; s++) {
        segment *own = axes_class_of(a, s);
        const int64_t length = a->segments[s].length;
        own->narrowest = own->narrowest == 0 || length < own->narrowest ? length : own->narrowest;
        if (own->normed && own->of_channels && own->groups > 1) {
            pin_class(own, PINNED_IN_PARTS, GRAPH_NONE);
        }
        own->site = -1;
    }
}

void axes_fini(axes *a)
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

grail_status axes_init(axes *a, const graph *g, gqa_mode mode, bool hops)
{
    grail_status status = GRAIL_OK;
    *a = (axes){.g = g, .hops = hops};
    TRY(memory_new(&a->widths, (size_t)g->value_count, sizeof a->widths[0]));
    TRY(graph_widths(g, a->widths));
    TRY(split_values(a));
    TRY(list_segments(a));
    axis_pin(a, g->input);
    for (int i = 0; i < g->output_count; i++) {
        axis_pin(a, g->outputs[i].value);
    }
    for (int i = 0; i < g->pinned_count; i++) {
        axis_pin_by(a, g->pinned[i], PINNED_BY_NUMBERS, GRAPH_NONE);
    }
    for (int n = 0; n < g->node_count; n++) {
        follow_node(a, &g->nodes[n], mode);
    }
    for (int n = 0; n < g->node_count; n++) {
        if (node_is_map(&g->nodes[n]) && !(hops && node_groups(&g->nodes[n]) > 1)) {
            pin_repeated(a, g->nodes[n].inputs[0]);
        }
    }
    for (int n = 0; n < g->node_count; n++) {
        if (operator_of(&g->nodes[n])->axis == AXIS_FRESH) {
            pin_unmade(a, g->nodes[n].output);
        }
    }
    summarise(a);
out:
    if (status != GRAIL_OK) {
        axes_fini(a);
    }
    return status;
}
