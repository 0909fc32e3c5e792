#include "exec/ops/operator_code.h"

#include <math.h>
#include <string.h>

/* -- choosing ---------------------------------------------------------------------------------- */

/* What a router makes of a row, with room for all rows. */
typedef struct choice {
    const route_attributes *how;
    host_view added; /* [outputs] to what is chosen by; without values nothing */
    int64_t outputs;
    double *rank;   /* [outputs]: what is chosen by, -infinity outside of the chosen groups */
    double *part;   /* [outputs] */
    double *sum;    /* [groups] */
    int64_t *order; /* [outputs]: of the largest so far */
    bool *taken;    /* [outputs]: the chosen ones */
    bool *group;    /* [groups]: the chosen ones */
} choice;

static void choice_fini(choice *c)
{
    memory_free(c->rank);
    memory_free(c->order);
    memory_free(c->taken);
    host_view_drop(&c->added);
}

static grail_status choice_init(const node_run *run, choice *c)
{
    const route_attributes *how = &run->node->route;
    *c = (choice){.how = how, .outputs = run->x[0].columns};
    CHECK(memory_new(&c->rank, (size_t)(2 * c->outputs + how->groups), sizeof c->rank[0]));
    c->part = c->rank + c->outputs;
    c->sum = c->part + c->outputs;
    CHECK(memory_new(&c->order, (size_t)c->outputs, sizeof c->order[0]));
    CHECK(memory_new(&c->taken, (size_t)(c->outputs + how->groups), sizeof c->taken[0]));
    c->group = c->taken + c->outputs;
    return matrix_exists(run->weight)
               ? host_view_open(run->weight, GRAIL_DTYPE_F64, HOST_READS, &c->added)
               : GRAIL_OK;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* taken[n] <- whether each value is among the `most` largest, of equal ones the first. order[n] is
 * room for the indices of the largest so far, in their order. */
static void take_largest(int64_t n, const double *values, int64_t most, int64_t *order, bool *taken)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = count;
        taken[i] = false;
        if (count == most && !(values[i] > values[order[most - 1]])) {
            continue;
        }
        while (at > 0 && values[i] > values[order[at - 1]]) {
            at--;
        }
        if (count == most) {
            taken[order[--count]] = false;
        }
        memmove(order + at + 1, order + at, (size_t)(count - at) * sizeof order[0]);
        order[at] = i;
        taken[i] = true;
        count++;
    }
}

static void leave_groups(const choice *c)
{
    const int64_t size = c->outputs / c->how->groups;
    for (int64_t g = 0; g < c->how->groups; g++) {
        const double *own = c->rank + g * size;
        take_largest(size, own, c->how->best, c->order, c->taken);
        c->sum[g] = 0.0;
        for (int64_t i = 0; i < size; i++) {
            c->sum[g] += c->taken[i] ? own[i] : 0.0;
        }
    }
    take_largest(c->how->groups, c->sum, c->how->chosen_groups, c->order, c->group);
    for (int64_t o = 0; o < c->outputs; o++) {
        if (!c->group[o / size]) {
            c->rank[o] = -HUGE_VAL;
        }
    }
}

/* taken[outputs] <- the chosen ones; part[outputs] <- each output's part of what the row's shares
 * are parts of, 0 elsewhere */
static void find_parts(choice *c, const double *scores)
{
    double sum = 0.0;
    double largest = scores[0];
    const double *added = c->added.values;
    for (int64_t o = 0; o < c->outputs; o++) {
        largest = fmax(largest, scores[o]);
        c->rank[o] = c->how->sigmoid ? sigmoid(scores[o]) : scores[o];
        c->rank[o] += added == NULL ? 0.0 : added[o];
    }
    if (c->how->groups > 0) {
        leave_groups(c);
    }
    take_largest(c->outputs, c->rank, c->how->chosen, c->order, c->taken);
    for (int64_t o = 0; o < c->outputs; o++) {
        const bool counts = c->how->over_all || c->taken[o];
        const double size = c->how->sigmoid ? sigmoid(scores[o]) : exp(scores[o] - largest);
        c->part[o] = counts ? size : 0.0;
        sum += c->part[o];
    }
    const double divisor = c->how->sigmoid && c->how->over_all ? 1.0 : sum;
    for (int64_t o = 0; o < c->outputs; o++) {
        c->part[o] /= divisor;
    }
}

static double scale_of(const choice *c)
{
    return c->how->scale == 0.0 ? 1.0 : c->how->scale;
}

static grail_status check_scores(int64_t row, int64_t outputs, const double *scores)
{
    for (int64_t o = 0; o < outputs; o++) {
        if (!isfinite(scores[o])) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "the score of a router is NaN or infinite at row %lld, output %lld",
                             (long long)row, (long long)o);
        }
    }
    return GRAIL_OK;
}

static grail_status choose(const node_run *run, choice *c, const double *scores, double *shares)
{
    for (int64_t r = 0; r < run->y.rows; r++) {
        const double *from = scores + r * c->outputs;
        CHECK(check_scores(r, c->outputs, from));
        find_parts(c, from);
        for (int64_t i = 0; i < c->outputs; i++) {
            const int64_t o = run->order == NULL ? i : run->order[i];
            shares[r * c->outputs + i] = c->taken[o] ? scale_of(c) * c->part[o] : 0.0;
        }
    }
    return GRAIL_OK;
}

static grail_status run_route(const node_run *r)
{
    grail_status status = GRAIL_OK;
    choice c = {0};
    host_view scores = {0};
    host_view shares = {0};
    TRY(choice_init(r, &c));
    TRY(host_view_open(r->x[0], GRAIL_DTYPE_F64, HOST_READS, &scores));
    TRY(host_view_open(r->y, GRAIL_DTYPE_F64, HOST_WRITES, &shares));
    TRY(choose(r, &c, scores.values, shares.values));
    TRY(host_view_close(&shares));
out:
    choice_fini(&c);
    host_view_drop(&scores);
    host_view_drop(&shares);
    return status;
}

/* With the parts p, which are s exp(score) or s sigmoid(score) and sum to 1 over what counts:
 * gradient_o = p_o (dy_o - sum p dy), for a sigmoid times 1 - sigmoid(score_o); where its share is
 * the sigmoid itself, nothing is subtracted. The gradient takes the place of dy[outputs], which is
 * 0 where nothing is chosen. */
static void turn_gradient(choice *c, const double *scores, double *dy)
{
    double sum = 0.0;
    find_parts(c, scores);
    for (int64_t o = 0; o < c->outputs && !(c->how->sigmoid && c->how->over_all); o++) {
        sum += c->part[o] * dy[o];
    }
    for (int64_t o = 0; o < c->outputs; o++) {
        const double inner = c->how->sigmoid ? 1.0 - sigmoid(scores[o]) : 1.0;
        dy[o] = scale_of(c) * c->part[o] * (dy[o] - sum) * inner;
    }
}

static grail_status back_route(node_back *b)
{
    grail_status status = GRAIL_OK;
    const matrix x = b->run.x[0];
    choice c = {0};
    host_view scores = {0};
    host_view gradient = {0};
    TRY(choice_init(&b->run, &c));
    TRY(host_view_open(x, GRAIL_DTYPE_F64, HOST_READS, &scores));
    TRY(host_view_open(b->dy, GRAIL_DTYPE_F64, HOST_UPDATES, &gradient));
    for (int64_t r = 0; r < x.rows; r++) {
        turn_gradient(&c, (const double *)scores.values + r * x.columns,
                      (double *)gradient.values + r * x.columns);
    }
    TRY(host_view_close(&gradient));
    back_pass(b, 0);
out:
    host_view_drop(&scores);
    host_view_drop(&gradient);
    choice_fini(&c);
    return status;
}

const operator_code operator_route = {run_route, back_route};

/* -- taking rows ------------------------------------------------------------------------------- */

static grail_status run_take_rows(const node_run *r)
{
    return matrix_take_rows(r->routed.rows, r->x[0], r->y);
}

/* Every row goes back to its place. Which rows are chosen has no gradient. */
static grail_status back_take_rows(node_back *b)
{
    if (!b->reaches[0]) {
        return GRAIL_OK;
    }
    CHECK(back_new(b, 0));
    CHECK(matrix_zero(b->dx[0]));
    return matrix_add_rows(b->run.routed.rows, no_matrix, b->dy, b->dx[0]);
}

const operator_code operator_take_rows = {run_take_rows, back_take_rows};

/* -- putting them back ------------------------------------------------------------------------- */

static grail_status run_put_rows(const node_run *r)
{
    const matrix sum = r->x[2];
    CHECK(r->y.allocation == sum.allocation ? GRAIL_OK : matrix_copy(sum, r->y));
    return matrix_add_rows(r->routed.rows, r->routed.shares, r->x[0], r->y);
}

/* dx[1] <- in the column of the node's output the products of each row with its gradient. */
static grail_status make_share_gradient(node_back *b, matrix taken)
{
    grail_status status = GRAIL_OK;
    matrix dots = {0};
    matrix values = {0};
    const routed_rows *r = &b->run.routed;
    TRY(back_new(b, 1));
    TRY(matrix_zero(b->dx[1]));
    TRY(matrix_new(taken.owner, GRAIL_DTYPE_F64, 1, r->count, &dots));
    TRY(matrix_row_dots(taken, b->run.x[0], dots));
    TRY(matrix_pool_take(b->run.pool, r->count, 1, &values));
    TRY(matrix_copy(matrix_reshape(dots, r->count, 1), values));
    TRY(r->count == 0 ? GRAIL_OK
                      : matrix_add_rows(r->rows, no_matrix, values,
                                        matrix_columns(b->dx[1], b->run.node->share, 1)));
out:
    matrix_pool_give(b->run.pool, &values);
    matrix_free(&dots);
    return status;
}

static grail_status back_put_rows(node_back *b)
{
    grail_status status = GRAIL_OK;
    const routed_rows *r = &b->run.routed;
    matrix taken = {0};
    TRY(matrix_pool_take(b->run.pool, r->count, b->dy.columns, &taken));
    TRY(matrix_take_rows(r->rows, b->dy, taken));
    if (b->reaches[1]) {
        TRY(make_share_gradient(b, taken));
    }
    if (b->reaches[0]) {
        TRY(matrix_scale_rows(r->shares, taken, taken));
        b->dx[0] = taken;
        taken = no_matrix;
    }
    if (b->reaches[2]) {
        back_pass(b, 2);
    }
out:
    matrix_pool_give(b->run.pool, &taken);
    return status;
}

const operator_code operator_put_rows = {run_put_rows, back_put_rows};
