#include "pipeline/network/observe.h"

#include "backend/operations.h"
#include "pipeline/network/mixed_rows.h"
#include "pipeline/network/row_weights.h"
#include "pipeline/network/target.h"

/* Patches are made and added in pieces of about this many elements. */
enum { PIECE_ELEMENTS = 8 << 20 };

/* The columns of `in` that the statistics are of. */
static matrix observed_columns(const observation *o, const grail_statistics *into, matrix in)
{
    return matrix_columns(in, o->unreduced * o->layout.taps, into->width);
}

static bool mixes_rows(const observation *o)
{
    return o->mixes && o->remade;
}

/* Adds weighted rows, in a copy of the columns; y is overwritten. */
static grail_status add_weighted_rows(const execution *e, grail_statistics *into,
                                      const double *root, matrix in, matrix y)
{
    grail_status status = GRAIL_OK;
    matrix z = {0};
    TRY(matrix_pool_take(e->pool, in.rows, in.columns, &z));
    TRY(matrix_copy(in, z));
    TRY(statistics_accumulate_weighted(into, root, z, y));
out:
    matrix_pool_give(e->pool, &z);
    return status;
}

static grail_status accumulate(const execution *e, grail_statistics *into, const double *root,
                               matrix z, matrix y)
{
    return root == NULL ? statistics_accumulate(into, z, y)
                        : add_weighted_rows(e, into, root, z, y);
}

/* Adds rows and computes their target, in pieces: the target has taps times as many columns as the
 * consumer has outputs. */
static grail_status add_rows_with_target(observation *o, const execution *e, grail_statistics *into,
                                         matrix in, matrix source, const double *root)
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
        TRY(matrix_linear(matrix_rows(source, begin, rows), o->target_weight, no_matrix, y));
        const double *own = root == NULL ? NULL : root + begin;
        if (mixes_rows(o)) {
            TRY(mix_target_rows(o, e->pool, own, matrix_rows(in, begin, rows), y));
        }
        TRY(accumulate(e, into, own, matrix_rows(z, begin, rows), y));
    }
out:
    matrix_pool_give(e->pool, &room);
    return status;
}

/* Adds rows to the statistics: the reduced columns of `in`, and the target. The target is y[rows,
 * outputs], or if that is missing computed from the columns of `source`. root[rows], unless NULL,
 * are the roots of the weights of rows. */
static grail_status add_rows(observation *o, const execution *e, grail_statistics *into, matrix in,
                             matrix y, matrix source, const double *root)
{
    if (into->outputs > 0 && !matrix_exists(y)) {
        return add_rows_with_target(o, e, into, in, source, root);
    }
    const matrix z = observed_columns(o, into, in);
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
    window.kernel_height = weight->shape[2];
    window.kernel_width = weight->shape[3];
    return (conv_shape){
        .samples = e->shape.samples,
        .in = e->extents[n->inputs[0]],
        .out = e->extents[n->output],
        .channels_in = execution_value(e, n->inputs[0]).columns,
        .channels_out = o->layout.rows,
        .window = window,
    };
}

/* Adds patches in pieces, since all together have kernel^2 times the size of the input. y and root
 * cover the entire batch. */
static grail_status add_patches(observation *o, const execution *e, grail_statistics *into,
                                matrix in, matrix y, const double *root)
{
    grail_status status = GRAIL_OK;
    matrix room = {0};
    const conv_shape shape = shape_of_conv(o, e);
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
                     root == NULL ? NULL : root + begin * shape.out.width));
    }
out:
    matrix_pool_give(e->pool, &room);
    return status;
}

static grail_status add_batch(calibration_network *network, const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    observation *o = user;
    const int value = e->graph->nodes[o->node].inputs[0];
    const matrix in = execution_value(e, value);
    grail_statistics *into = o->part;
    matrix y = {0};
    double *root = NULL;
    if (o->target == OBSERVES_DENSE_OUTPUT) {
        TRY(dense_target(network, o->node, o->goal.value, &y));
    }
    TRY(row_weight_roots(network, o, &root));
    if (o->of_patches) {
        TRY(add_patches(o, e, into, in, y, root));
    } else if (o->target == OBSERVES_DENSE_PRODUCT) {
        TRY(add_rows(o, e, into, in, y, execution_value(network->dense.execution, value), root));
    } else {
        TRY(add_rows(o, e, into, in, y, in, root));
    }
out:
    memory_free(root);
    matrix_pool_give(network->pool, &y);
    return status;
}

static grail_status begin(calibration_network *network, void *user)
{
    return row_weights_begin(network, user);
}

static chunk_sums sums_of(void *user, bool held_out)
{
    observation *o = user;
    chunk_sums sums = chunk_sums_of_statistics(o->part, held_out ? o->held : o->fit);
    chunk_sums_append_number(&sums, &o->part_gap.gap, &o->gap.gap);
    chunk_sums_append_number(&sums, &o->part_gap.target, &o->gap.target);
    return sums;
}

grail_status observation_create_part(observation *o)
{
    return statistics_create(o->fit->owner, o->fit->width, o->fit->outputs, &o->part);
}

grail_status observation_take(calibration_network *network, observation *o)
{
    const visitor v = {.begin = begin, .add = add_batch, .sums = sums_of, .user = o};
    CHECK(observation_create_part(o));
    CHECK(pass_visit(network, o->node, observation_dense_end(o), v));
    matrix_pool_clear(network->pool);
    grail_statistics_free(o->part);
    o->part = NULL;
    return GRAIL_OK;
}

static grail_status add_input(calibration_network *network, const execution *e, void *user)
{
    grail_status status = GRAIL_OK;
    observation *o = user;
    grail_statistics *into = o->part == NULL ? o->held : o->part;
    double *root = NULL;
    const matrix in = execution_value(e, e->graph->nodes[o->node].inputs[0]);
    (void)network;
    TRY(row_factor_roots(e, o->node, &root));
    TRY(o->of_patches ? add_patches(o, e, into, in, no_matrix, root)
                      : add_rows(o, e, into, in, no_matrix, no_matrix, root));
out:
    memory_free(root);
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
