#include "graph/operators.h"

#include <math.h>

static const char *node_name(const graph *g, const node *n)
{
    if (n->weight != GRAPH_NONE) {
        return g->parameters[n->weight].name;
    }
    return n->kind == NODE_ATTENTION ? "attention" : "an elementwise node";
}

static const int64_t *shape_of(const graph *g, int parameter)
{
    return parameter == GRAPH_NONE ? NULL : g->parameters[parameter].shape;
}

/* -- widths ------------------------------------------------------------------------------------ */

static grail_status width_mismatch(const graph *g, const node *n, const char *name,
                                   int64_t expected, int64_t found)
{
    return error_set(GRAIL_ERROR_SHAPE,
                     "block %d: %s expects %lld features, but its input has %lld", n->block,
                     name == NULL ? node_name(g, n) : name, (long long)expected, (long long)found);
}

static grail_status input_fits_weight(const graph *g, const node *n, const int64_t *in)
{
    const int64_t groups = node_groups(n);
    const int64_t *weight = shape_of(g, n->weight);
    const int64_t expected = weight[1] * groups;
    if (weight[0] % groups != 0) {
        return error_set(GRAIL_ERROR_SHAPE, "block %d: the %lld outputs of %s are no %lld groups",
                         n->block, (long long)weight[0], node_name(g, n), (long long)groups);
    }
    return in[0] == expected ? GRAIL_OK : width_mismatch(g, n, NULL, expected, in[0]);
}

static grail_status inputs_agree(const graph *g, const node *n, const int64_t *in)
{
    const bool fit = in[0] == in[1] || (n->repeats_second && in[1] == 1);
    return fit ? GRAIL_OK : width_mismatch(g, n, NULL, in[0], in[1]);
}

static grail_status heads_fit(const graph *g, const node *n, const int64_t *in)
{
    const int64_t query_heads = in[0] / n->attention.head_dim;
    const int64_t kv_heads = in[1] / n->attention.head_dim;
    for (int i = 0; i < 2; i++) {
        if (in[i] <= 0 || in[i] % n->attention.head_dim != 0) {
            return width_mismatch(
                g, n, NULL, (in[i] / n->attention.head_dim + 1) * n->attention.head_dim, in[i]);
        }
    }
    if (in[2] <= 0 || in[2] % kv_heads != 0) {
        return width_mismatch(g, n, NULL, (in[2] / kv_heads + 1) * kv_heads, in[2]);
    }
    if (n->weight != GRAPH_NONE && shape_of(g, n->weight)[0] != query_heads) {
        return width_mismatch(g, n, NULL, shape_of(g, n->weight)[0], query_heads);
    }
    if (n->bias != GRAPH_NONE && shape_of(g, n->bias)[0] != query_heads) {
        return width_mismatch(g, n, NULL, shape_of(g, n->bias)[0], query_heads);
    }
    if (query_heads % kv_heads != 0) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "block %d: %lld query heads are not a multiple of %lld key/value heads",
                         n->block, (long long)query_heads, (long long)kv_heads);
    }
    return GRAIL_OK;
}

static grail_status sides_agree(const graph *g, const node *n, const int64_t *in)
{
    const join_attributes *j = &n->join;
    const int64_t heads = in[0] / j->first;
    const int64_t second = j->second * (j->shared ? 1 : heads);
    return in[0] % j->first != 0 ? width_mismatch(g, n, NULL, (heads + 1) * j->first, in[0])
           : in[1] != second     ? width_mismatch(g, n, NULL, second, in[1])
                                 : GRAIL_OK;
}

static grail_status run_fits(const graph *g, const node *n, const int64_t *in)
{
    const slice_attributes *s = &n->slice;
    (void)g;
    return s->first >= 0 && s->length > 0 && s->length <= in[0] && s->first <= in[0] - s->length
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "block %d: %lld channels from %lld on are taken from an input of %lld",
                           n->block, (long long)s->length, (long long)s->first, (long long)in[0]);
}

static grail_status packed_fits(const graph *g, const node *n, const int64_t *in)
{
    const unpack_attributes *u = &n->unpack;
    const int64_t size = u->channels * u->positions.height * u->positions.width;
    (void)g;
    return u->first >= 0 && size > 0 && u->first <= in[0] - size
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "block %d: %lld values from %lld on are an input of the network, which "
                           "reads %lld for each sample",
                           n->block, (long long)size, (long long)u->first, (long long)in[0]);
}

/* Nothing in it changes, so neither does what it reads. */
static grail_status region_fits(const graph *g, const node *n, const int64_t *in)
{
    (void)g;
    for (int i = 0; i < n->input_count; i++) {
        const int64_t expected = region_input_width(n->region, i);
        if (in[i] != expected) {
            return width_mismatch(g, n, region_name(n->region), expected, in[i]);
        }
    }
    return GRAIL_OK;
}

static grail_status runs_fit(const graph *g, const node *n, const int64_t *in)
{
    (void)g;
    return n->runs > 0 && in[0] % n->runs == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE, "block %d: %lld channels are no %lld runs", n->block,
                           (long long)in[0], (long long)n->runs);
}

static grail_status patches_fit(const graph *g, const node *n, const int64_t *in)
{
    const int64_t taps = window_taps(&n->window);
    if (in[0] % taps != 0 || in[0] == 0) {
        return width_mismatch(g, n, "what puts patches", (in[0] / taps + 1) * taps, in[0]);
    }
    return n->bias == GRAPH_NONE || shape_of(g, n->bias)[0] == in[0] / taps
               ? GRAIL_OK
               : width_mismatch(g, n, NULL, shape_of(g, n->bias)[0], in[0] / taps);
}

static bool groups_are_even(const route_attributes *r, int64_t outputs)
{
    return r->groups == 0 ||
           (outputs % r->groups == 0 && r->chosen_groups > 0 && r->chosen_groups <= r->groups &&
            r->chosen <= outputs / r->groups * r->chosen_groups);
}

static grail_status choice_fits(const graph *g, const node *n, const int64_t *in)
{
    const route_attributes *r = &n->route;
    if (n->weight != GRAPH_NONE && shape_of(g, n->weight)[0] != in[0]) {
        return width_mismatch(g, n, NULL, shape_of(g, n->weight)[0], in[0]);
    }
    if (r->chosen > 0 && r->chosen <= in[0] && groups_are_even(r, in[0])) {
        return GRAIL_OK;
    }
    error_set(GRAIL_ERROR_SHAPE,
              "block %d: a choice of %lld in each row does not fit a router of %lld outputs",
              n->block, (long long)r->chosen, (long long)in[0]);
    if (r->groups > 0) {
        error_append(" in %lld groups, of which %lld count", (long long)r->groups,
                     (long long)r->chosen_groups);
    }
    return GRAIL_ERROR_SHAPE;
}

/* Rows that are put back are as wide as the sum. */
static grail_status share_fits(const graph *g, const node *n, const int64_t *in)
{
    if (n->share < 0 || n->share >= in[1]) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "block %d: rows of output %lld do not fit a router of %lld outputs",
                         n->block, (long long)n->share, (long long)in[1]);
    }
    return n->input_count < 3 || in[0] == in[2] ? GRAIL_OK
                                                : width_mismatch(g, n, NULL, in[2], in[0]);
}

/* Every parameter must have a row for each channel. */
static grail_status rows_fit(const graph *g, const node *n, const int64_t *in)
{
    int parameters[NODE_MAX_PARAMETERS];
    const int count = node_parameters(n, parameters);
    for (int i = 0; i < count; i++) {
        const graph_parameter *p = &g->parameters[parameters[i]];
        if (p->shape[0] != in[0]) {
            return width_mismatch(g, n, p->name, p->shape[0], in[0]);
        }
    }
    return GRAIL_OK;
}

/* Every parameter must have as many elements per position as `expected`. */
static grail_status parameters_fit(const graph *g, const node *n, int64_t expected, int64_t in)
{
    int parameters[NODE_MAX_PARAMETERS];
    const int count = node_parameters(n, parameters);
    for (int i = 0; i < count; i++) {
        const graph_parameter *p = &g->parameters[parameters[i]];
        if (p->shape[p->rank - 1] != expected) {
            return width_mismatch(g, n, p->name, p->shape[p->rank - 1], in);
        }
    }
    return GRAIL_OK;
}

static grail_status channels_fit(const graph *g, const node *n, const int64_t *in)
{
    return parameters_fit(g, n, in[0], in[0]);
}

static grail_status groups_fit(const graph *g, const node *n, const int64_t *in)
{
    return parameters_fit(g, n, n->norm.group == 0 ? in[0] : n->norm.group, in[0]);
}

static grail_status channel_groups_fit(const graph *g, const node *n, const int64_t *in)
{
    CHECK(rows_fit(g, n, in));
    return n->norm.group == 0 || in[0] % n->norm.group == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE, "block %d: %lld channels are no groups of %lld",
                           n->block, (long long)in[0], (long long)n->norm.group);
}

/* -- positions --------------------------------------------------------------------------------- */

static grail_status windows(const graph *g, const node *n, const extent *in, extent *out)
{
    *out = window_positions(&n->window, *in);
    if (out->height < 1 || out->width < 1) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "block %d: the window of %s does not fit into an input of %lld x %lld",
                         n->block, node_name(g, n), (long long)in->height, (long long)in->width);
    }
    if (n->is_whole && (out->height > 1 || out->width > 1)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "block %d: %s reads %lld x %lld positions at once, but there are %lld x "
                         "%lld; use images of the size that the network was made for",
                         n->block, node_name(g, n), (long long)n->window.height.kernel,
                         (long long)n->window.width.kernel, (long long)in->height,
                         (long long)in->width);
    }
    return GRAIL_OK;
}

static grail_status unpacked(const graph *g, const node *n, const extent *in, extent *out)
{
    *out = n->unpack.positions;
    return in->height == 1 && in->width == 1
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "the network has %d inputs, which a sample holds side by side in one "
                           "position, not in %lld x %lld",
                           g->input_count, (long long)in->height, (long long)in->width);
}

static grail_status windows_in_a_row(const graph *g, const node *n, const extent *in, extent *out)
{
    const grail_status status = windows(g, n, in, out);
    *out = (extent){.height = out->height * out->width, .width = 1};
    return status;
}

/* Positions of which a window makes `in`. */
static int64_t length_back(const window_axis *a, int64_t in, int64_t more)
{
    return (in - 1) * a->stride + a->dilation * (a->kernel - 1) + 1 - a->before - a->behind + more;
}

static grail_status windows_back(const graph *g, const node *n, const extent *in, extent *out)
{
    *out = (extent){length_back(&n->window.height, in->height, n->more.height),
                    length_back(&n->window.width, in->width, n->more.width)};
    return out->height > 0 && out->width > 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "block %d: patches of %lld x %lld positions leave none within the "
                           "padding of %s",
                           n->block, (long long)in->height, (long long)in->width, node_name(g, n));
}

static grail_status resized(const graph *g, const node *n, const extent *in, extent *out)
{
    const resize_attributes *r = &n->resize;
    (void)g;
    *out = r->scale_height == 0.0 ? r->size
                                  : (extent){(int64_t)((double)in->height * r->scale_height),
                                             (int64_t)((double)in->width * r->scale_width)};
    return out->height > 0 && out->width > 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE, "block %d: %lld x %lld positions are scaled to none",
                           n->block, (long long)in->height, (long long)in->width);
}

static grail_status one_position(const graph *g, const node *n, const extent *in, extent *out)
{
    (void)g;
    (void)n;
    (void)in;
    *out = (extent){.height = 1, .width = 1};
    return GRAIL_OK;
}

static grail_status one_position_more(const graph *g, const node *n, const extent *in, extent *out)
{
    (void)g;
    (void)n;
    *out = (extent){.height = in->height * in->width + 1, .width = 1};
    return GRAIL_OK;
}

static grail_status positions_mixed(const graph *g, const node *n, const extent *in, extent *out)
{
    const int64_t *weight = shape_of(g, n->weight);
    const int64_t positions = in->height * in->width;
    *out = (extent){.height = weight[0], .width = 1};
    if (n->bias != GRAPH_NONE && shape_of(g, n->bias)[0] != weight[0]) {
        return width_mismatch(g, n, NULL, shape_of(g, n->bias)[0], weight[0]);
    }
    return positions == weight[1]
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "block %d: %s mixes %lld positions, but there are %lld; use images of "
                           "the size that the network was made for",
                           n->block, node_name(g, n), (long long)weight[1], (long long)positions);
}

static grail_status positions_taken(const graph *g, const node *n, const extent *in, extent *out)
{
    const token_attributes *t = &n->tokens;
    const int64_t left = in->height * in->width - t->left_out;
    (void)g;
    *out = t->size.height > 0 ? t->size : (extent){.height = left, .width = 1};
    return t->left_out >= 0 && left > 0 && out->height * out->width == left
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "block %d: %lld x %lld positions are taken behind the first %lld of "
                           "%lld, expected all that there are",
                           n->block, (long long)out->height, (long long)out->width,
                           (long long)t->left_out, (long long)(in->height * in->width));
}

static grail_status merged(const graph *g, const node *n, const extent *in, extent *out)
{
    const merge_attributes *m = &n->merge;
    (void)g;
    *out = (extent){in->height / m->height, in->width / m->width};
    return in->height % m->height == 0 && in->width % m->width == 0
               ? GRAIL_OK
               : error_set(GRAIL_ERROR_SHAPE,
                           "block %d: squares of %lld x %lld do not cover %lld x %lld positions",
                           n->block, (long long)m->height, (long long)m->width,
                           (long long)in->height, (long long)in->width);
}

static grail_status stored_positions(const graph *g, const node *n, const extent *in, extent *out)
{
    const int64_t positions = in->height * in->width;
    if (n->positions.one_for_all) {
        *out = *in;
        return GRAIL_OK;
    }
    const int64_t stored = n->weight == GRAPH_NONE ? n->positions.count
                                                   : shape_of(g, n->weight)[0] - n->positions.first;
    const char *name = n->weight == GRAPH_NONE ? "the position table" : node_name(g, n);
    *out = *in;
    if (positions == stored || (n->positions.may_be_fewer && positions < stored)) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_SHAPE, "%s has %lld positions, but the input makes %lld; use %s",
                     name, (long long)stored, (long long)positions,
                     n->positions.may_be_fewer
                         ? "shorter samples"
                         : "images of the size that the network was trained on");
}

/* Whether tokens in a row are those of an image, row by row. */
static bool is_row_of(extent tokens, extent image)
{
    return tokens.width == 1 && image.width > 1 && image.height > 1 &&
           tokens.height == image.height * image.width;
}

static grail_status same_positions(const graph *g, const node *n, const extent *in, extent *out)
{
    const bool is_open = g->input_kind == INPUT_IMAGES && g->image.height == 0;
    *out = in[0];
    for (int i = 1; i < n->input_count; i++) {
        const bool same = in[0].height == in[i].height && in[0].width == in[i].width;
        const bool one = !same && in[i].height == 1 && in[i].width == 1 && n->repeats_second;
        const bool in_row = is_row_of(in[0], in[i]) || is_row_of(in[i], in[0]);
        *out = is_row_of(*out, in[i]) ? in[i] : *out;
        if (!same && !one && !in_row) {
            return error_set(
                GRAIL_ERROR_SHAPE,
                "block %d: the two inputs of a %s have %lld x %lld and "
                "%lld x %lld positions, expected the same%s",
                n->block, operator_of(n)->axis == AXIS_CONCAT ? "concatenation" : "sum or product",
                (long long)in[0].height, (long long)in[0].width, (long long)in[i].height,
                (long long)in[i].width,
                is_open ? "; images of this size do not go through the network, whose file leaves "
                          "it open: the settings height=N and width=N say another, such as a "
                          "multiple of 32"
                        : "");
        }
    }
    return GRAIL_OK;
}

static grail_status routed_positions(const graph *g, const node *n, const extent *in, extent *out)
{
    (void)g;
    *out = in[0];
    if (in[0].height * in[0].width == in[1].height * in[1].width) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_SHAPE,
                     "block %d: rows are routed at %lld x %lld positions by shares of %lld x %lld, "
                     "expected the same",
                     n->block, (long long)in[0].height, (long long)in[0].width,
                     (long long)in[1].height, (long long)in[1].width);
}

static grail_status region_positions_of(const graph *g, const node *n, const extent *in,
                                        extent *out)
{
    region_positions from[NODE_MAX_INPUTS + 1];
    region_positions to = {0};
    (void)g;
    from[n->input_count] =
        (region_positions){in[NODE_MAX_INPUTS].height, in[NODE_MAX_INPUTS].width};
    for (int i = 0; i < n->input_count; i++) {
        from[i] = (region_positions){in[i].height, in[i].width};
    }
    CHECK(region_measure(n->region, from, &to));
    *out = (extent){to.height, to.width};
    return GRAIL_OK;
}

/* -- the channel axis -------------------------------------------------------------------------- */

static bool always(const node *n)
{
    (void)n;
    return true;
}

static bool has_no_groups(const node *n)
{
    return n->norm.group == 0;
}

static bool mixes_channels(const node *n)
{
    return n->norm.group != 1;
}

/* Then nothing could be rescaled. */
static bool norms_without_weight(const node *n)
{
    return has_no_groups(n) && n->weight == GRAPH_NONE;
}

static bool run_stays(const node *n)
{
    return n->slice.stays;
}

static bool has_padding(const node *n)
{
    return n->pad > 0;
}

/* -- the rows ---------------------------------------------------------------------------------- */

static const operator_rules operators[] = {
#define OPERATOR(kind, word, ...) [NODE_##kind] = {.name = #word, __VA_ARGS__},
#include "graph/operator_list.h"
#undef OPERATOR
};

const operator_rules *operator_of(const node *n)
{
    return &operators[n->kind];
}

int64_t node_groups(const node *n)
{
    return operator_of(n)->moves_window && n->groups > 1 ? n->groups : 1;
}

bool node_is_map(const node *n)
{
    return operator_of(n)->axis == AXIS_STARTS;
}

bool node_is_linear(const node *n)
{
    return node_is_map(n) && !operator_of(n)->moves_window;
}

bool node_is_convolution(const node *n)
{
    return node_is_map(n) && operator_of(n)->moves_window;
}

bool node_fits_taps(const node *n)
{
    return node_is_convolution(n) && !n->is_whole;
}

bool node_is_sum(const node *n)
{
    return operator_of(n)->axis == AXIS_SUMS && !n->repeats_second;
}

bool node_scales_channels(const node *n)
{
    return n->kind == NODE_AFFINE;
}

bool node_is_route(const node *n)
{
    return n->kind == NODE_ROUTE;
}

bool node_routes_freely(const node *n)
{
    return node_is_route(n) && n->route.groups <= 1;
}

bool node_has_moments(const node *n)
{
    return n->mean != GRAPH_NONE;
}

double node_ceiling(const node *n)
{
    if (n->kind != NODE_ACTIVATION) {
        return 0.0;
    }
    return n->activation == ACTIVATION_RELU    ? (double)INFINITY
           : n->activation == ACTIVATION_RELU6 ? 6.0
                                               : 0.0;
}

bool node_norms_width(const node *n)
{
    const operator_rules *rules = operator_of(n);
    return rules->norms_width != NULL && rules->norms_width(n);
}

bool node_norms_rows(const node *n)
{
    return n->kind == NODE_RMS_NORM || n->kind == NODE_LAYER_NORM;
}

bool node_has_channels(const node *n)
{
    return operator_of(n)->per_channel || node_norms_width(n);
}

bool node_has_kernels(const graph *g, const node *n)
{
    return (operator_of(n)->moves_window || operator_of(n)->per_channel) &&
           n->weight != GRAPH_NONE && g->parameters[n->weight].rank > 1;
}

const node *node_router(const graph *g, const node *n, int64_t *outputs)
{
    const int route = g->routes[n->inputs[0]];
    const int shares =
        route == GRAPH_NONE ? GRAPH_NONE : g->nodes[g->value_source[route]].inputs[1];
    const int maker = shares == GRAPH_NONE ? GRAPH_NONE : g->value_source[shares];
    if (maker == GRAPH_NONE || g->nodes[maker].kind != NODE_ROUTE) {
        return NULL;
    }
    const int scores = g->value_source[g->nodes[maker].inputs[0]];
    if (scores == GRAPH_NONE || !node_is_map(&g->nodes[scores])) {
        return NULL;
    }
    *outputs = g->parameters[g->nodes[scores].weight].shape[0];
    return &g->nodes[maker];
}

double node_row_share(const graph *g, const node *n)
{
    int64_t outputs = 1;
    const node *router = node_router(g, n, &outputs);
    return router == NULL ? 1.0 : (double)router->route.chosen / (double)outputs;
}

int64_t node_products(const graph *g, const node *n, extent output)
{
    int64_t outputs = 1;
    int64_t products = node_is_map(n) || node_has_kernels(g, n) ? output.height * output.width : 0;
    for (int d = 0; products > 0 && d < g->parameters[n->weight].rank; d++) {
        products *= g->parameters[n->weight].shape[d];
    }
    const node *router = products > 0 ? node_router(g, n, &outputs) : NULL;
    return router == NULL ? products : products / outputs * router->route.chosen;
}

/* Keys narrower than a head, which node_check refuses, have no heads. */
static int64_t width_of_heads(const attention_attributes *a, const int64_t in[NODE_MAX_INPUTS])
{
    const int64_t kv_heads = in[1] / a->head_dim;
    return kv_heads <= 0 ? in[0] : in[0] / a->head_dim * (in[2] / kv_heads);
}

int64_t node_width(const node *n, const int64_t *weight, const int64_t in[NODE_MAX_INPUTS])
{
    switch (operator_of(n)->width) {
    case WIDTH_ROWS:
        return weight[0];
    case WIDTH_COLUMNS:
        return weight[1];
    case WIDTH_PADDED:
        return in[0] + 2 * n->pad;
    case WIDTH_MERGED:
        return in[0] * n->merge.height * n->merge.width;
    case WIDTH_WINDOWS:
        return in[0] * window_taps(&n->window);
    case WIDTH_PATCHES:
        return in[0] / window_taps(&n->window);
    case WIDTH_BESIDE:
        return in[0] / n->join.first * (n->join.first + n->join.second);
    case WIDTH_HEADS:
        return width_of_heads(&n->attention, in);
    case WIDTH_SUM:
        return in[0] + in[1] + (n->input_count > 2 ? in[2] : 0);
    case WIDTH_SLICE:
        return n->slice.length;
    case WIDTH_FRESH:
        return n->zeros;
    case WIDTH_UNPACKED:
        return n->unpack.channels;
    case WIDTH_REGION:
        return region_width(n->region);
    case WIDTH_KEPT:
        break;
    }
    return in[0];
}

/* Whether input i of a node that joins its inputs has the channels of the output: one of one
 * channel that is repeated for all of them has not, and shares by which rows are routed have not.
 */
static bool is_joined(const node *n, int i, const int64_t *in)
{
    return operator_of(n)->axis == AXIS_ROUTED ? i != 1
                                               : i == 0 || !n->repeats_second || in[i] != 1;
}

int node_channel_runs(const node *n, const int64_t in[NODE_MAX_INPUTS],
                      channel_run out[NODE_MAX_INPUTS])
{
    int count = 0;
    int64_t to = 0;
    for (int i = 0; i < n->input_count; i++) {
        switch (operator_of(n)->axis) {
        case AXIS_CARRIES:
        case AXIS_JOINS:
        case AXIS_SUMS:
        case AXIS_ROUTED:
            if (is_joined(n, i, in)) {
                out[count++] = (channel_run){.input = i, .length = in[i]};
            }
            break;
        case AXIS_CONCAT:
            out[count++] = (channel_run){.input = i, .to = to, .length = in[i]};
            to += in[i];
            break;
        case AXIS_SLICE:
            out[count++] = (channel_run){.from = n->slice.first, .length = n->slice.length};
            break;
        case AXIS_STARTS:
        case AXIS_ENDS:
        case AXIS_BESIDE:
        case AXIS_HEADS:
        case AXIS_PATCHES:
        case AXIS_FRESH:
            break;
        }
    }
    return count;
}

grail_status node_check(const graph *g, const node *n, const int64_t in[NODE_MAX_INPUTS])
{
    const operator_rules *rules = operator_of(n);
    return rules->check == NULL ? GRAIL_OK : rules->check(g, n, in);
}

int node_route(const graph *g, const node *n)
{
    switch (operator_of(n)->rows) {
    case ROWS_ALONE:
        return g->routes[n->inputs[0]];
    case ROWS_TAKEN:
        return n->output;
    case ROWS_BY_POSITION:
    case ROWS_PUT:
        break;
    }
    return GRAPH_NONE;
}

/* Whether rows are put back by what they were taken by. */
static bool ends_route(const graph *g, const node *n)
{
    const int route = g->routes[n->inputs[0]];
    if (route == GRAPH_NONE || g->routes[n->inputs[1]] != GRAPH_NONE) {
        return false;
    }
    const node *taker = &g->nodes[g->value_source[route]];
    return taker->inputs[1] == n->inputs[1] && taker->share == n->share &&
           g->routes[n->inputs[2]] == GRAPH_NONE;
}

grail_status node_check_rows(const graph *g, const node *n)
{
    const row_rule rule = operator_of(n)->rows;
    bool fits = rule != ROWS_PUT || ends_route(g, n);
    for (int i = 0; i < n->input_count && rule != ROWS_PUT; i++) {
        const int route = g->routes[n->inputs[i]];
        fits =
            fits && (route == GRAPH_NONE || rule == ROWS_ALONE) && route == g->routes[n->inputs[0]];
    }
    if (fits) {
        return GRAIL_OK;
    }
    return error_set(GRAIL_ERROR_INTERNAL,
                     "block %d: %s (kind %s) cannot read the rows that it is given; rows that a "
                     "router chose go through nodes that work on each row alone, with others of "
                     "the same route, until they are put back",
                     n->block, node_name(g, n), operator_of(n)->name);
}

grail_status node_extent(const graph *g, const node *n, const extent in[NODE_MAX_INPUTS + 1],
                         extent *out)
{
    const operator_rules *rules = operator_of(n);
    *out = in[0];
    return rules->extent == NULL ? GRAIL_OK : rules->extent(g, n, in, out);
}
