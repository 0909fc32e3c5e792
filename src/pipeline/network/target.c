#include "pipeline/network/target.h"

#include "backend/operations.h"
#include "graph/operators.h"

#include <math.h>
#include <string.h>

/* -- factors of rows --------------------------------------------------------------------------- */

void row_factors_fini(row_factors *f)
{
    matrix_free(&f->of);
    *f = (row_factors){0};
}

static grail_status find_shares(const execution *e, const node *put, row_factors *out)
{
    routed_rows found = {0};
    CHECK(execution_routed(e, put->inputs[1], put->share, &found));
    out->places = found.rows;
    out->of = found.shares;
    return GRAIL_OK;
}

static grail_status copy_factors(matrix column, row_factors *out)
{
    CHECK(matrix_new(column.owner, GRAIL_DTYPE_F64, 1, column.rows, &out->of));
    return matrix_copy(column, matrix_reshape(out->of, column.rows, 1));
}

grail_status row_factors_find(const execution *e, const consumer_tail *tail, row_factors *out)
{
    *out = (row_factors){.exist = tail->put != GRAPH_NONE || tail->factor != GRAPH_NONE};
    if (tail->put != GRAPH_NONE) {
        return find_shares(e, &e->graph->nodes[tail->put], out);
    }
    return tail->factor == GRAPH_NONE ? GRAIL_OK
                                      : copy_factors(execution_value(e, tail->factor), out);
}

grail_status row_factors_multiply(const row_factors *f, matrix x)
{
    return f->exist ? matrix_scale_rows(f->of, x, x) : GRAIL_OK;
}

static grail_status row_factors_divide(const row_factors *f, matrix x)
{
    grail_status status = GRAIL_OK;
    matrix inverses = {0};
    if (!f->exist) {
        return GRAIL_OK;
    }
    TRY(matrix_new(x.owner, GRAIL_DTYPE_F64, 1, x.rows, &inverses));
    TRY(matrix_inverses(f->of, inverses));
    TRY(matrix_scale_rows(inverses, x, x));
out:
    matrix_free(&inverses);
    return status;
}

grail_status row_factors_gather(const row_factors *f, matrix_pool *pool, matrix *x)
{
    matrix rows = {0};
    if (!matrix_exists(f->places)) {
        return GRAIL_OK;
    }
    grail_status status = matrix_pool_take(pool, f->of.columns, x->columns, &rows);
    if (status == GRAIL_OK) {
        status = matrix_take_rows(f->places, *x, rows);
    }
    matrix_pool_give(pool, x);
    *x = rows;
    return status;
}

/* -- targets ----------------------------------------------------------------------------------- */

grail_status reduce_value(const grail_reducer *r, int64_t features, matrix in, matrix out)
{
    projection p = {0};
    grail_status status = reducer_projection(r, features, &p);
    if (status == GRAIL_OK) {
        status = project(&p, in, out);
    }
    projection_fini(&p);
    return status;
}

/* Copies a dense value [rows, n u]. If the calibration network has merged channels on this axis,
 * their means are appended to each segment: [X | X M]. *out belongs to the pool. */
static grail_status copy_with_means(const target_source *source, const cut_axis *axis, matrix in,
                                    matrix *out)
{
    const plan *p = source->cut->plan;
    int64_t from = 0;
    int64_t to = 0;
    CHECK(matrix_pool_take(source->dense->execution->pool, in.rows,
                           cut_wide_place(p, axis, in.columns), out));
    for (; axis != NULL && axis->site != GRAPH_NONE; axis = axis->next) {
        const int64_t count = p->sites[axis->site].units * axis->features;
        const int64_t more = site_wide_units(p, axis->site) * axis->features - count;
        const int64_t before = axis->first + count - from;
        if (more > 0) {
            CHECK(matrix_copy(matrix_columns(in, from, before), matrix_columns(*out, to, before)));
            CHECK(reduce_value(source->results[axis->site].reducer, axis->features,
                               matrix_columns(in, axis->first, count),
                               matrix_columns(*out, to + before, more)));
            from += before;
            to += before + more;
        }
    }
    const int64_t left = in.columns - from;
    return left == 0 ? GRAIL_OK
                     : matrix_copy(matrix_columns(in, from, left), matrix_columns(*out, to, left));
}

/* Y += (dense skip - compressed skip) in the rows of the factors, converted to the input of the
 * norm or scale if one stands between: to first order, where it norms rows. With this target the
 * sum after the Add is that of the dense network. `rows` is the axis of the consumer's outputs. */
static grail_status add_drift(const target_source *from, const cut_axis *rows,
                              const consumer_tail *tail, const row_factors *factors,
                              drift_scale *scale, matrix y)
{
    grail_status status = GRAIL_OK;
    matrix drift = {0};
    const matrix compressed = execution_value(from->current->execution, tail->skip);
    TRY(copy_with_means(from, rows, execution_value(from->dense->execution, tail->skip), &drift));
    TRY(matrix_subtract(drift, compressed, drift));
    TRY(row_factors_gather(factors, from->current->execution->pool, &drift));
    if (drift_scale_is_open(scale)) {
        TRY(drift_scale_choose(scale, from->current->execution->pool, y, drift,
                               execution_value(from->dense->execution, tail->skip)));
    }
    TRY(drift_scale_apply(scale, y, drift));
    TRY(matrix_add(y, drift, y));
out:
    matrix_pool_give(from->current->execution->pool, &drift);
    return status;
}

/* From the dense output to what makes the sum that of the dense network. */
static grail_status aim_at_sum(const target_source *from, const cut_axis *rows,
                               const consumer_tail *tail, drift_scale *scale, matrix y)
{
    grail_status status = GRAIL_OK;
    row_factors dense = {0};
    row_factors current = {0};
    TRY(row_factors_find(from->dense->execution, tail, &dense));
    TRY(row_factors_find(from->current->execution, tail, &current));
    TRY(row_factors_multiply(&dense, y));
    TRY(add_drift(from, rows, tail, &current, scale, y));
    TRY(row_factors_divide(&current, y));
out:
    row_factors_fini(&dense);
    row_factors_fini(&current);
    return status;
}

/* Y = dense goal - compressed skip. */
static grail_status missing_to_goal(const target_source *from, const cut_axis *rows, int skip,
                                    int goal, matrix *out)
{
    CHECK(copy_with_means(from, rows, execution_value(from->dense->execution, goal), out));
    return matrix_subtract(*out, execution_value(from->current->execution, skip), *out);
}

grail_status dense_target(const target_source *from, int consumer, int goal, drift_scale *scale,
                          matrix *out)
{
    const graph *g = from->cut->graph;
    const node *n = &g->nodes[consumer];
    const cut_axis *rows = &from->cut->axes[n->weight].rows;
    const consumer_tail tail = consumer_tail_of(g, consumer);
    if (goal != GRAPH_NONE) {
        return missing_to_goal(from, rows, tail.skip, goal, out);
    }
    CHECK(copy_with_means(from, rows, execution_value(from->dense->execution, n->output), out));
    return tail.skip == GRAPH_NONE ? GRAIL_OK : aim_at_sum(from, rows, &tail, scale, *out);
}
