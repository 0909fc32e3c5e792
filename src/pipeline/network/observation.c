#include "pipeline/network/observation.h"

#include "backend/operations.h"
#include "graph/operators.h"
#include "pipeline/network/row_weights.h"
#include "pipeline/network/target.h"
#include "pipeline/request/consumer_tail.h"
#include "pipeline/request/experts.h"

#include <math.h>

/* -- what is observed -------------------------------------------------------------------------- */

void observation_fini(observation *o)
{
    grail_statistics_free(o->fit);
    grail_statistics_free(o->held);
    grail_statistics_free(o->part);
    memory_free(o->weight);
    projection_fini(&o->selection);
    matrix_free(&o->weight_rows);
    matrix_free(&o->target_weight);
    matrix_free(&o->others);
    matrix_free(&o->local_weight);
    matrix_free(&o->local_bias);
    drift_scale_fini(&o->drift_scale);
    matrix_free(&o->gaps);
    matrix_free(&o->part_gaps);
    *o = (observation){0};
}

static bool moves_along(const window_axis *a)
{
    return a->stride > 1 || a->before > 0 || a->behind > 0;
}

/* Whether a window of one tap makes other positions than those of its input. */
static bool moves_positions(const window2d *w)
{
    return moves_along(&w->height) || moves_along(&w->width);
}

/* A convolution that is fitted by channel is observed at all positions of its input. If its output
 * has other positions, or each output is a sum over taps, a dense target is computed for each tap
 * from the dense input. */
static bool is_made_by_tap(const plan *p, const node *n, const consumer_layout *layout)
{
    return node_is_convolution(n) && !map_is_fitted_by_tap(&p->compensation, n) &&
           (layout->tap_rows > 1 || moves_positions(&n->window));
}

/* Remade units have statistics of the reduced input alone, so they must include the target. */
static observed_target target_of(const cutting *cut, int node_index, const consumer_layout *layout,
                                 bool remade)
{
    const plan *p = cut->plan;
    const node *n = &cut->graph->nodes[node_index];
    if (!p->compensation.enabled) {
        return OBSERVES_INPUT_ALONE;
    }
    if (experts_site_at(cut->graph, cut->sites, p, node_index) != GRAPH_NONE) {
        return OBSERVES_DENSE_OUTPUT; /* of the layer that lacks experts, where others do not */
    }
    if (compensation_uses_dense(&p->compensation) && p->loop == LOOP_CLOSED) {
        return is_made_by_tap(p, n, layout) ? OBSERVES_DENSE_PRODUCT : OBSERVES_DENSE_OUTPUT;
    }
    return remade ? OBSERVES_PRODUCT : OBSERVES_INPUT_ALONE;
}

static bool is_mixed(const plan *p, observed_target target)
{
    return p->compensation.target == TARGET_MIXED &&
           (target == OBSERVES_DENSE_OUTPUT || target == OBSERVES_DENSE_PRODUCT);
}

/* Rows are weighted by the sum behind the consumer, or where a norm of rows stands between by the
 * consumer's output. Through a BatchNorm that is on another scale, so its rows count alike. */
static bool is_weighted(const cutting *cut, int consumer, observed_target target)
{
    const consumer_tail tail = consumer_tail_of(cut->graph, consumer);
    return cut->plan->compensation.token_weights == TOKEN_WEIGHTS_STREAM &&
           target == OBSERVES_DENSE_OUTPUT && tail.skip != GRAPH_NONE &&
           tail.batch_norm == GRAPH_NONE;
}

static stream_goal goal_of(const cutting *cut, int consumer, observed_target target)
{
    return target == OBSERVES_DENSE_OUTPUT
               ? dropped_goal_of(cut->graph, cut->sites, cut->plan, consumer)
               : (stream_goal){.value = GRAPH_NONE};
}

static observation describe(const cutting *cut, int index, int consumer)
{
    const plan *p = cut->plan;
    const bool remade = site_is_remade(p, index) && p->loop == LOOP_CLOSED;
    const consumer_layout layout = consumer_layout_of(cut, index, consumer);
    const int reader = cut_site(cut, index)->consumers[consumer].node;
    const node *n = &cut->graph->nodes[reader];
    const observed_target target = target_of(cut, reader, &layout, remade);
    return (observation){
        .site = index,
        .consumer = consumer,
        .node = reader,
        .remade = remade,
        .of_patches = map_is_fitted_by_tap(&p->compensation, n),
        .target = target,
        .goal = goal_of(cut, reader, target),
        .layout = layout,
        .first = cut_site(cut, index)->is_part && site_is_cut(p, index)
                     ? consumer_first(cut, index, consumer)
                     : 0,
        .unreduced = remade ? layout.features : 0,
        .weighted = is_weighted(cut, reader, target),
        .mixes = is_mixed(p, target),
        .median_square = -1.0,
    };
}

/* Where the columns of a consumer begin among all of its input's, and how many these are. */
typedef struct input_columns {
    int64_t first, all;
} input_columns;

/* The matrix that turns the input's columns into W times the input: W, with zeros for the remade
 * columns behind the others of the same input, and for those of other sites. */
static grail_status make_target_weight(parameter_store *current, const observation *o,
                                       input_columns in, matrix *out)
{
    backend *b = current->backend;
    matrix own = no_matrix;
    const consumer_layout *l = &o->layout;
    const int weight = current->model->graph->nodes[o->node].weight;
    const int64_t width = l->features * l->taps;
    const bool is_all = in.all == width * l->groups;
    const bool is_ordered = is_all && l->groups == 1;
    CHECK(matrix_new_zero(b, is_ordered ? backend_weight_type(b) : backend_type(b),
                          l->rows * l->tap_rows, is_all ? width : in.all, out));
    grail_status status = weight_place(current, weight, l, o->weight, &own);
    if (status == GRAIL_OK) {
        status = matrix_copy(own, is_all ? *out : matrix_columns(*out, in.first, width));
    }
    matrix_free(&own);
    return status;
}

/* A dense output contains the consumer's bias; a product does not. */
static grail_status make_local_bias(const cutting *cut, parameter_store *current, observation *o)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    int64_t count = 0;
    const int parameter = cut->graph->nodes[o->node].bias;
    if (parameter == GRAPH_NONE || o->target != OBSERVES_DENSE_OUTPUT) {
        return GRAIL_OK;
    }
    TRY(parameter_store_read_f32(current, parameter, &bias, &count));
    TRY(matrix_new(current->backend, backend_type(current->backend), 1, count, &o->local_bias));
    TRY(matrix_upload_f32(o->local_bias, bias));
out:
    memory_free(bias);
    return status;
}

static grail_status create_statistics(backend *b, int64_t width, int64_t outputs, observation *o)
{
    const int64_t groups = o->layout.groups;
    CHECK(statistics_create_grouped(b, width, outputs, groups, &o->fit));
    return statistics_create_grouped(b, width, outputs, groups, &o->held);
}

static input_columns columns_in_dense(const cutting *cut, const observation *o, const site_end *end)
{
    const int weight = cut->graph->nodes[o->node].weight;
    return (input_columns){.first = end->first * o->layout.taps,
                           .all = cut->graph->parameters[weight].shape[1] * o->layout.groups *
                                  o->layout.taps};
}

static input_columns columns_in_wide(const cutting *cut, const observation *o)
{
    const int index = cut->graph->nodes[o->node].weight;
    const graph_parameter *weight = &cut->graph->parameters[index];
    const int64_t taps = weight_taps(weight);
    const int64_t all =
        cut_wide_place(cut->plan, &cut->axes[index].columns, weight->shape[1] * taps);
    return (input_columns){.first = o->first * o->layout.taps, .all = all / taps * o->layout.taps};
}

/* What the other columns of a part's consumer add to its output. */
static grail_status make_others(const cutting *cut, parameter_store *current, int64_t all,
                                observation *o)
{
    grail_status status = GRAIL_OK;
    backend *b = current->backend;
    float *others = NULL;
    if (!cut_site(cut, o->site)->is_part || o->target != OBSERVES_DENSE_OUTPUT ||
        o->layout.groups > 1) { /* which read nothing else */
        return GRAIL_OK;
    }
    TRY(consumer_read_others(cut, current, o->site, o->consumer, &others));
    TRY(matrix_new(b, backend_weight_type(b), o->layout.rows, all, &o->others));
    TRY(matrix_upload_f32(o->others, others));
out:
    memory_free(others);
    return status;
}

/* Whether a selection that is decided is observed by what it keeps, with what it removes as the
 * target, K^2 + 2 O H products for each row: where that is less than the H^2 of the Gram matrix of
 * all features, and no part of it is asked for otherwise. */
static bool observes_remainder(const cutting *cut, const grail_reducer *reducer,
                               const observation *o)
{
    const plan *p = cut->plan;
    const consumer_layout *l = &o->layout;
    if (reducer == NULL || reducer->folds || !p->compensation.enabled || p->loop != LOOP_CLOSED ||
        o->target != OBSERVES_INPUT_ALONE || p->compensation.ridge_of == RIDGE_OF_ALL ||
        cut_site(cut, o->site)->is_part || l->groups > 1 || l->taps > 1 || o->of_patches) {
        return false;
    }
    const double all = (double)l->features;
    const double kept = all / (double)reducer->units * (double)reducer->kept;
    const double outputs = (double)(l->rows * l->tap_rows);
    return kept * kept + 2.0 * outputs * all < all * all;
}

/* Statistics of the kept columns, and W_R[O, R] for the target. */
static grail_status create_remainder(parameter_store *current, const grail_reducer *reducer,
                                     observation *o)
{
    grail_status status = GRAIL_OK;
    backend *b = current->backend;
    matrix all = no_matrix;
    matrix removed = no_matrix;
    projection *s = &o->selection;
    const int64_t outputs = o->layout.rows * o->layout.tap_rows;
    o->target = OBSERVES_REMAINDER;
    TRY(reducer_projection(reducer, o->layout.features / reducer->units, s));
    TRY(weight_place(current, current->model->graph->nodes[o->node].weight, &o->layout, o->weight,
                     &all));
    TRY(matrix_new(b, GRAIL_DTYPE_F32, outputs, s->removed_count, &removed));
    TRY(matrix_gather(NULL, s->removed, all, removed));
    TRY(matrix_new(b, backend_weight_type(b), outputs, s->removed_count, &o->target_weight));
    TRY(matrix_copy(removed, o->target_weight));
    TRY(create_statistics(b, s->width, outputs, o));
out:
    matrix_free(&all);
    matrix_free(&removed);
    return status;
}

static grail_status make_drift_scale(const cutting *cut, parameter_store *current, observation *o)
{
    return o->target == OBSERVES_DENSE_OUTPUT
               ? drift_scale_init(cut->graph, current, o->node, &o->drift_scale)
               : GRAIL_OK;
}

grail_status observation_init(const cutting *cut, const grail_reducer *reducer,
                              parameter_store *current, int index, int consumer, observation *o)
{
    *o = describe(cut, index, consumer);
    const site_end *end = &cut_site(cut, index)->consumers[consumer];
    const input_columns dense = columns_in_dense(cut, o, end);
    const input_columns wide = columns_in_wide(cut, o);
    const int64_t width =
        o->layout.taps * (o->remade ? cut->plan->sites[index].kept * end->features_per_unit
                                    : o->layout.features * o->layout.groups);
    const int64_t outputs =
        o->target == OBSERVES_INPUT_ALONE ? 0 : o->layout.rows * o->layout.tap_rows;
    CHECK(consumer_read(cut, current, index, consumer, &o->weight));
    if (observes_remainder(cut, reducer, o)) {
        return create_remainder(current, reducer, o);
    }
    if (o->target == OBSERVES_DENSE_PRODUCT || o->target == OBSERVES_PRODUCT) {
        CHECK(make_target_weight(current, o, o->target == OBSERVES_PRODUCT ? wide : dense,
                                 &o->target_weight));
    }
    if (o->mixes && o->remade) {
        CHECK(make_target_weight(current, o, wide, &o->local_weight));
        CHECK(make_local_bias(cut, current, o));
    }
    CHECK(make_others(cut, current, wide.all, o));
    CHECK(make_drift_scale(cut, current, o));
    return create_statistics(current->backend, width, outputs, o);
}

observation observation_of_map(const cutting *cut, int node_index)
{
    const node *n = &cut->graph->nodes[node_index];
    const consumer_layout layout = map_layout_of(cut, node_index);
    observation o = {
        .site = GRAPH_NONE,
        .consumer = GRAPH_NONE,
        .node = node_index,
        .of_patches = map_is_fitted_by_tap(&cut->plan->compensation, n),
        .target = target_of(cut, node_index, &layout, false),
        .layout = layout,
    };
    o.goal = goal_of(cut, node_index, o.target);
    o.mixes = is_mixed(cut->plan, o.target);
    return o;
}

grail_status observation_read_map(const cutting *cut, parameter_store *current, int node_index,
                                  observation *o)
{
    *o = observation_of_map(cut, node_index);
    const input_columns all = {.all = o->layout.features * o->layout.groups * o->layout.taps};
    CHECK(map_read(cut, current, node_index, &o->weight));
    CHECK(make_drift_scale(cut, current, o));
    return o->target == OBSERVES_DENSE_PRODUCT
               ? make_target_weight(current, o, all, &o->target_weight)
               : GRAIL_OK;
}

grail_status observation_init_map(const cutting *cut, parameter_store *current, int node_index,
                                  observation *o)
{
    CHECK(observation_read_map(cut, current, node_index, o));
    const consumer_layout *l = &o->layout;
    return create_statistics(current->backend, l->features * l->groups * l->taps,
                             l->rows * l->tap_rows, o);
}

grail_status observation_init_input(const cutting *cut, backend *b, int index, int consumer,
                                    observation *o)
{
    *o = describe(cut, index, consumer);
    const node *n = &cut->graph->nodes[o->node];
    o->remade = false; /* the dense network has no merged units */
    o->unreduced = 0;
    o->first = 0; /* all of the input, of which each part takes its own (open_loop.h) */
    o->layout.features = cut->graph->parameters[n->weight].shape[1]; /* of a group */
    return create_statistics(b, o->layout.features * o->layout.groups * o->layout.taps, 0, o);
}

int observation_dense_end(const observation *o)
{
    switch (o->target) {
    case OBSERVES_DENSE_OUTPUT:
        return o->goal.value == GRAPH_NONE ? o->node + 1 : o->goal.end;
    case OBSERVES_DENSE_PRODUCT:
        return o->node;
    case OBSERVES_INPUT_ALONE:
    case OBSERVES_PRODUCT:
    case OBSERVES_REMAINDER:
        break;
    }
    return GRAPH_NONE;
}

/* -- mixed targets ----------------------------------------------------------------------------- */

grail_status mix_target_rows(observation *o, matrix_pool *pool, matrix root, matrix in, matrix y)
{
    grail_status status = GRAIL_OK;
    matrix local = {0};
    TRY(matrix_pool_take(pool, y.rows, y.columns, &local));
    TRY(matrix_linear(in, o->local_weight, o->local_bias, local));
    TRY(target_mix_rows(root, local, y, o->part_gaps));
out:
    matrix_pool_give(pool, &local);
    return status;
}

/* -- adding batches ---------------------------------------------------------------------------- */

/* Patches are made and added in pieces of about this many elements. */
enum { PIECE_ELEMENTS = 8 << 20 };

/* The columns of `in` that the statistics are of. */
static matrix observed_columns(const observation *o, const grail_statistics *into, matrix in)
{
    return matrix_columns(in, (o->first + o->unreduced) * o->layout.taps, into->width);
}

static bool mixes_rows(const observation *o)
{
    return o->mixes && o->remade;
}

/* Adds rows; y is overwritten where they are weighted. */
static grail_status accumulate(const execution *e, grail_statistics *into, matrix root, matrix z,
                               matrix y)
{
    grail_status status = GRAIL_OK;
    matrix room = {0};
    if (!matrix_exists(root)) {
        return statistics_accumulate(into, z, y);
    }
    TRY(matrix_pool_take(e->pool, z.rows, z.columns, &room));
    TRY(statistics_accumulate_weighted(into, root, z, y, room));
out:
    matrix_pool_give(e->pool, &room);
    return status;
}

/* The roots of some rows. */
static matrix some_roots(matrix root, int64_t begin, int64_t rows)
{
    return matrix_exists(root) ? matrix_columns(root, begin, rows) : no_matrix;
}

/* y <- x W^T; of a convolution in groups, those of its taps at the positions of the rows. */
static grail_status multiply_target(const observation *o, matrix x, matrix y)
{
    const extent rows = {x.rows, 1};
    const conv_shape shape = {.samples = 1,
                              .in = rows,
                              .out = rows,
                              .channels_in = x.columns,
                              .channels_out = y.columns,
                              .groups = o->layout.groups,
                              .window = WINDOW2D(1, 1, 1, 0, 1)};
    return shape.groups > 1
               ? matrix_conv2d(&shape, false, x, o->target_weight, no_matrix, no_matrix, y)
               : matrix_linear(x, o->target_weight, no_matrix, y);
}

/* Adds rows and computes their target, in pieces: the target has taps times as many columns as the
 * consumer has outputs. */
static grail_status add_rows_with_target(observation *o, const execution *e, grail_statistics *into,
                                         matrix in, matrix source, matrix root)
{
    grail_status status = GRAIL_OK;
    matrix room = {0};
    const matrix z = observed_columns(o, into, in);
    int64_t step = PIECE_ELEMENTS / into->outputs;
    step = step < 1 ? 1 : step;
    step = step > in.rows ? in.rows : step;
    TRY(matrix_pool_take(e->pool, step, into->outputs, &room));
    for (int64_t begin = 0; begin < in.rows; begin += step) {
        const int64_t rows = begin + step < in.rows ? step : in.rows - begin;
        const matrix y = matrix_rows(room, 0, rows);
        TRY(multiply_target(o, matrix_rows(source, begin, rows), y));
        const matrix own = some_roots(root, begin, rows);
        if (mixes_rows(o)) {
            TRY(mix_target_rows(o, e->pool, own, matrix_rows(in, begin, rows), y));
        }
        TRY(accumulate(e, into, own, matrix_rows(z, begin, rows), y));
    }
out:
    matrix_pool_give(e->pool, &room);
    return status;
}

static grail_status subtract_others(const observation *o, const execution *e, matrix in, matrix y)
{
    grail_status status = GRAIL_OK;
    matrix made = {0};
    TRY(matrix_pool_take(e->pool, y.rows, y.columns, &made));
    TRY(matrix_linear(in, o->others, no_matrix, made));
    TRY(matrix_subtract(y, made, y));
out:
    matrix_pool_give(e->pool, &made);
    return status;
}

/* Adds the kept columns of rows, and what the removed ones give as their target, in pieces. */
static grail_status add_remainder(const observation *o, const execution *e, grail_statistics *into,
                                  matrix in, matrix root)
{
    grail_status status = GRAIL_OK;
    matrix kept = {0};
    matrix removed = {0};
    matrix target = {0};
    const projection *s = &o->selection;
    const int64_t most = PIECE_ELEMENTS / in.columns + 1;
    const int64_t step = in.rows < most ? in.rows : most;
    TRY(matrix_pool_take(e->pool, step, s->width, &kept));
    TRY(matrix_pool_take(e->pool, step, s->removed_count, &removed));
    TRY(matrix_pool_take(e->pool, step, into->outputs, &target));
    for (int64_t begin = 0; begin < in.rows; begin += step) {
        const int64_t rows = begin + step < in.rows ? step : in.rows - begin;
        const matrix x = matrix_rows(in, begin, rows);
        const matrix z = matrix_rows(kept, 0, rows);
        const matrix rest = matrix_rows(removed, 0, rows);
        const matrix y = matrix_rows(target, 0, rows);
        TRY(matrix_gather(NULL, s->kept, x, z));
        TRY(matrix_gather(NULL, s->removed, x, rest));
        TRY(matrix_linear(rest, o->target_weight, no_matrix, y));
        TRY(accumulate(e, into, some_roots(root, begin, rows), z, y));
    }
out:
    matrix_pool_give(e->pool, &kept);
    matrix_pool_give(e->pool, &removed);
    matrix_pool_give(e->pool, &target);
    return status;
}

/* Adds rows to the statistics: the reduced columns of `in`, and the target. The target is y[rows,
 * outputs], or if that is missing computed from the columns of `source`. root[1, rows], unless
 * missing, has the roots of the weights of rows. */
static grail_status add_rows(observation *o, const execution *e, grail_statistics *into, matrix in,
                             matrix y, matrix source, matrix root)
{
    if (o->target == OBSERVES_REMAINDER) {
        return add_remainder(o, e, into, in, root);
    }
    if (into->outputs > 0 && !matrix_exists(y)) {
        return add_rows_with_target(o, e, into, in, source, root);
    }
    const matrix z = observed_columns(o, into, in);
    if (matrix_exists(o->others) && matrix_exists(y)) {
        CHECK(subtract_others(o, e, in, y));
    }
    if (mixes_rows(o) && matrix_exists(y)) {
        CHECK(mix_target_rows(o, e->pool, root, in, y));
    }
    return accumulate(e, into, root, z, y);
}

static conv_shape shape_of_conv(const observation *o, const execution *e)
{
    const node *n = &e->graph->nodes[o->node];
    const graph_parameter *weight = &e->graph->parameters[n->weight];
    window2d window = n->window;
    window.height.kernel = weight->shape[2];
    window.width.kernel = weight->shape[3];
    return (conv_shape){
        .samples = e->shape.samples,
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .channels_in = execution_value(e, n->inputs[0]).columns,
        .channels_out = o->layout.rows,
        .window = window,
    };
}

/* Adds patches in pieces, since all together have kernel^2 times the size of the input; those of
 * one tap at each position are the input itself. y and root cover the entire batch. */
static grail_status add_patches(observation *o, const execution *e, grail_statistics *into,
                                matrix in, matrix y, matrix root)
{
    grail_status status = GRAIL_OK;
    matrix room = {0};
    const conv_shape shape = shape_of_conv(o, e);
    if (o->layout.taps == 1 && !moves_positions(&shape.window)) {
        return add_rows(o, e, into, in, y, in, root);
    }
    const int64_t width = shape.channels_in * o->layout.taps;
    const int64_t all = shape.samples * shape.out.height;
    int64_t step = PIECE_ELEMENTS / (width * shape.out.width);
    step = step < 1 ? 1 : step;
    step = step > all ? all : step;
    TRY(matrix_pool_take(e->pool, step * shape.out.width, width, &room));
    for (int64_t begin = 0; begin < all; begin += step) {
        const int64_t end = begin + step < all ? begin + step : all;
        const int64_t rows = (end - begin) * shape.out.width;
        const matrix patches = matrix_rows(room, 0, rows);
        const matrix target =
            matrix_exists(y) ? matrix_rows(y, begin * shape.out.width, rows) : no_matrix;
        TRY(matrix_patches(&shape, begin, end, in, patches));
        TRY(add_rows(o, e, into, patches, target, patches,
                     some_roots(root, begin * shape.out.width, rows)));
    }
out:
    matrix_pool_give(e->pool, &room);
    return status;
}

/* The square roots of the weights of the current batch, one for each row of the consumer: factors,
 * and 1 / |x_t| where the observation asks for it. Both networks have run up to the consumer, the
 * dense one through it where its sums count. *out is owned even after a failure; no matrix where
 * rows count alike. */
static grail_status row_weight_roots(const execution *dense, const execution *current,
                                     observation *o, matrix *out)
{
    CHECK(o->weighted ? row_weights_of_stream(dense, o->node, o->goal.value, &o->drift_scale,
                                              &o->median_square, out)
                      : GRAIL_OK);
    return row_weights_put_factors(current, o->node, out);
}

/* An observation while the samples pass. */
typedef struct observing {
    observation *o;
    target_source from;
    const grail_comm *comm;
} observing;

static grail_status add_batch(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    const observing *k = user;
    observation *o = k->o;
    const int value = e->graph->nodes[o->node].inputs[0];
    const matrix in = execution_value(e, value);
    grail_statistics *into = o->part;
    matrix y = {0};
    matrix root = {0};
    if (o->target == OBSERVES_DENSE_OUTPUT) {
        TRY(dense_target(&k->from, o->node, o->goal.value, &o->drift_scale, &y));
    }
    TRY(row_weight_roots(k->from.dense->execution, k->from.current->execution, o, &root));
    if (o->of_patches) {
        TRY(add_patches(o, e, into, in, y, root));
    } else if (o->target == OBSERVES_DENSE_PRODUCT) {
        TRY(add_rows(o, e, into, in, y, execution_value(k->from.dense->execution, value), root));
    } else {
        TRY(add_rows(o, e, into, in, y, in, root));
    }
out:
    matrix_free(&root);
    matrix_pool_give(e->pool, &y);
    return status;
}

static grail_status begin_weights(const observing *k)
{
    grail_status status = GRAIL_OK;
    observation *o = k->o;
    matrix roots = {0};
    if (!o->weighted) {
        return GRAIL_OK;
    }
    if (comm_rank(k->comm) == 0) {
        TRY(row_weight_roots(k->from.dense->execution, k->from.current->execution, o, &roots));
    }
    TRY(comm_broadcast(k->comm, 0, &o->median_square, sizeof o->median_square));
out:
    matrix_free(&roots);
    return status;
}

static grail_status begin_scale(const observing *k)
{
    grail_status status = GRAIL_OK;
    observation *o = k->o;
    drift_scale *scale = &o->drift_scale;
    double damping = 0.0;
    matrix y = {0};
    if (!drift_scale_is_open(scale) || o->goal.value != GRAPH_NONE) {
        return GRAIL_OK;
    }
    if (comm_rank(k->comm) == 0) {
        TRY(dense_target(&k->from, o->node, GRAPH_NONE, scale, &y));
        damping = scale->damping;
    }
    TRY(comm_broadcast(k->comm, 0, &damping, sizeof damping));
    if (comm_rank(k->comm) != 0) {
        TRY(drift_scale_set(scale, k->from.current->parameters->backend, damping));
    }
out:
    matrix_pool_give(k->from.current->execution->pool, &y);
    return status;
}

/* Takes the median that weights follow, and the damping of a drift, on all ranks at once; rank 0
 * has run the networks for the first batch. A rank without others takes them when it first needs
 * them.
 */
static grail_status begin(void *user)
{
    const observing *k = user;
    if (!comm_is_shared(k->comm)) {
        return GRAIL_OK;
    }
    CHECK(begin_weights(k));
    return begin_scale(k);
}

static chunk_sums sums_of(void *user, bool held_out)
{
    observation *o = ((const observing *)user)->o;
    chunk_sums sums = chunk_sums_of_statistics(o->part, held_out ? o->held : o->fit);
    if (mixes_rows(o)) {
        chunk_sums_append_matrix(&sums, &o->part_gaps, &o->gaps);
    }
    return sums;
}

grail_status observation_create_part(observation *o)
{
    backend *b = o->fit->owner;
    if (mixes_rows(o)) {
        CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 2, &o->gaps));
        CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 2, &o->part_gaps));
    }
    return statistics_create_grouped(b, o->fit->width, o->fit->outputs, o->fit->groups, &o->part);
}

grail_status observation_take(sample_passes *passes, const cutting *cut, const site_result *results,
                              observation *o)
{
    observing k = {.o = o,
                   .from = {.cut = cut,
                            .results = results,
                            .dense = passes->dense,
                            .current = passes->current},
                   .comm = passes->comm};
    const visitor v = {.begin = begin,
                       .add = add_batch,
                       .sums = sums_of,
                       .by_batch = mixes_rows(o), /* by how far both targets agree in it */
                       .user = &k};
    CHECK(observation_create_part(o));
    CHECK(pass_visit(passes, o->node, observation_dense_end(o), v));
    matrix_pool_clear(passes->pool);
    grail_statistics_free(o->part);
    o->part = NULL;
    return mixes_rows(o) ? target_gap_read(o->gaps, &o->gap) : GRAIL_OK;
}

static grail_status add_input(const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    observation *o = user;
    grail_statistics *into = o->part == NULL ? o->held : o->part;
    matrix root = {0};
    const node *n = &e->graph->nodes[o->node];
    const matrix in = execution_value(e, n->inputs[0]);
    TRY(row_weights_put_factors(e, o->node, &root));
    TRY(o->of_patches ? add_patches(o, e, into, in, no_matrix, root)
                      : add_rows(o, e, into, in, no_matrix, no_matrix, root));
out:
    matrix_free(&root);
    return status;
}

static chunk_sums sums_of_input(void *user, bool held_out)
{
    const observation *o = user;
    return o->part == NULL ? chunk_sums_of_statistics(o->held, o->fit)
                           : chunk_sums_of_statistics(o->part, held_out ? o->held : o->fit);
}

visitor observation_input_visitor(observation *o)
{
    return (visitor){.node = o->node, .add = add_input, .sums = sums_of_input, .user = o};
}
