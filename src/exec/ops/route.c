#include "exec/ops/operator_code.h"

#include <math.h>

/* The rows that a router chose for one of its outputs. */
typedef struct route {
    int64_t count;
    int64_t *rows;   /* [count] ascending */
    double *weights; /* [rows of the scores] 0 where not chosen */
} route;

static void route_fini(route *t)
{
    memory_free(t->rows);
    memory_free(t->weights);
    *t = (route){0};
}

/* Whether an output is among those of the largest scores of a row, of equal ones the first. */
static bool is_chosen(const route_attributes *a, int64_t outputs, const double *scores,
                      int64_t output)
{
    int64_t before = 0;
    for (int64_t o = 0; o < outputs; o++) {
        before += scores[o] > scores[output] || (scores[o] == scores[output] && o < output);
    }
    return before < a->chosen;
}

/* shares[outputs] = softmax of the scores over what the row's weights sum to 1 over, 0 elsewhere */
static void find_shares(const route_attributes *a, int64_t outputs, const double *scores,
                        double *shares)
{
    double sum = 0.0;
    double largest = scores[0];
    for (int64_t o = 1; o < outputs; o++) {
        largest = fmax(largest, scores[o]);
    }
    for (int64_t o = 0; o < outputs; o++) {
        const bool counts = a->over_all || is_chosen(a, outputs, scores, o);
        shares[o] = counts ? exp(scores[o] - largest) : 0.0;
        sum += shares[o];
    }
    for (int64_t o = 0; o < outputs; o++) {
        shares[o] /= sum;
    }
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

static grail_status choose_rows(const route_attributes *a, matrix m, const double *scores,
                                double *shares, route *t)
{
    for (int64_t r = 0; r < m.rows; r++) {
        const double *row = scores + r * m.columns;
        CHECK(check_scores(r, m.columns, row));
        if (is_chosen(a, m.columns, row, a->output)) {
            find_shares(a, m.columns, row, shares);
            t->rows[t->count++] = r;
            t->weights[r] = shares[a->output];
        }
    }
    return GRAIL_OK;
}

/* Downloads the scores and finds the route; route_fini frees, even after a failure. */
static grail_status route_open(const node_run *r, route *out)
{
    grail_status status = GRAIL_OK;
    const matrix scores = r->x[1];
    double *shares = NULL;
    host_view view = {0};
    TRY(memory_new(&out->rows, (size_t)scores.rows, sizeof out->rows[0]));
    TRY(memory_new(&out->weights, (size_t)scores.rows, sizeof out->weights[0]));
    TRY(memory_new(&shares, (size_t)scores.columns, sizeof shares[0]));
    TRY(host_view_open(scores, GRAIL_DTYPE_F64, HOST_READS, &view));
    TRY(choose_rows(&r->node->route, scores, view.values, shares, out));
    TRY(host_view_close(&view));
out:
    host_view_drop(&view);
    memory_free(shares);
    return status;
}

grail_status routed_rows(const node_run *r, int64_t *count)
{
    route t = {0};
    const grail_status status = route_open(r, &t);
    *count = t.count;
    route_fini(&t);
    return status;
}

/* y[rows, :] += share[row] x[i, :] for the i-th of the route's rows; the others are 0. */
static grail_status put_rows(const route *t, const double *share, matrix x, matrix y)
{
    const grail_status status = matrix_zero(y);
    return status == GRAIL_OK && t->count > 0 ? matrix_fold_rows(t->count, t->rows, share, x, y)
                                              : status;
}

/* -- taking rows ------------------------------------------------------------------------------- */

static grail_status run_take_rows(const node_run *r)
{
    route t = {0};
    grail_status status = route_open(r, &t);
    if (status == GRAIL_OK) {
        status = matrix_gather(t.rows, NULL, r->x[0], r->y);
    }
    route_fini(&t);
    return status;
}

/* Every row goes back to its place. Which rows are chosen has no gradient. */
static grail_status back_take_rows(node_back *b)
{
    grail_status status = GRAIL_OK;
    route t = {0};
    if (!b->reaches[0]) {
        return GRAIL_OK;
    }
    TRY(route_open(&b->run, &t));
    for (int64_t i = 0; i < t.count; i++) {
        t.weights[t.rows[i]] = 1.0;
    }
    TRY(back_new(b, 0));
    TRY(put_rows(&t, t.weights, b->dy, b->dx[0]));
out:
    route_fini(&t);
    return status;
}

const operator_code operator_take_rows = {run_take_rows, back_take_rows};

/* -- putting them back ------------------------------------------------------------------------- */

static grail_status run_put_rows(const node_run *r)
{
    route t = {0};
    grail_status status = route_open(r, &t);
    if (status == GRAIL_OK) {
        status = put_rows(&t, t.weights, r->x[0], r->y);
    }
    route_fini(&t);
    return status;
}

/* gradient[row, o] = dot w (delta_eo - share_o), where w = share_e is the weight of output e and
 * dot[i] the product of the i-th routed row with its gradient. */
static void write_score_gradient(const route *t, const route_attributes *a, int64_t outputs,
                                 const double *dots, const double *scores, double *shares,
                                 double *gradient)
{
    for (int64_t i = 0; i < t->count; i++) {
        const int64_t first = t->rows[i] * outputs;
        const double scale = dots[i] * t->weights[t->rows[i]];
        find_shares(a, outputs, scores + first, shares);
        for (int64_t o = 0; o < outputs; o++) {
            gradient[first + o] = scale * ((o == a->output ? 1.0 : 0.0) - shares[o]);
        }
    }
}

/* dx[1] <- the gradient of the scores, with dy of the routed rows. */
static grail_status make_score_gradient(node_back *b, const route *t, matrix routed)
{
    grail_status status = GRAIL_OK;
    const matrix scores = b->run.x[1];
    matrix dots = {0};
    double *shares = NULL;
    host_view dot = {0};
    host_view score = {0};
    host_view gradient = {0};
    TRY(back_new(b, 1));
    TRY(matrix_zero(b->dx[1]));
    TRY(memory_new(&shares, (size_t)scores.columns, sizeof shares[0]));
    TRY(matrix_new_zero(scores.owner, GRAIL_DTYPE_F64, 1, t->count, &dots));
    TRY(matrix_row_dots(routed, b->run.x[0], dots));
    TRY(host_view_open(dots, GRAIL_DTYPE_F64, HOST_READS, &dot));
    TRY(host_view_open(scores, GRAIL_DTYPE_F64, HOST_READS, &score));
    TRY(host_view_open(b->dx[1], GRAIL_DTYPE_F64, HOST_UPDATES, &gradient));
    write_score_gradient(t, &b->run.node->route, scores.columns, dot.values, score.values, shares,
                         gradient.values);
    TRY(host_view_close(&gradient));
out:
    host_view_drop(&dot);
    host_view_drop(&score);
    host_view_drop(&gradient);
    memory_free(shares);
    matrix_free(&dots);
    return status;
}

/* rows <- weight row */
static grail_status weigh_rows(const route *t, matrix rows)
{
    grail_status status = GRAIL_OK;
    matrix factors = {0};
    host_view v = {0};
    TRY(matrix_new(rows.owner, GRAIL_DTYPE_F64, 1, t->count, &factors));
    TRY(host_view_open(factors, GRAIL_DTYPE_F64, HOST_WRITES, &v));
    for (int64_t i = 0; i < t->count; i++) {
        ((double *)v.values)[i] = t->weights[t->rows[i]];
    }
    TRY(host_view_close(&v));
    TRY(matrix_scale_rows(factors, rows, rows));
out:
    host_view_drop(&v);
    matrix_free(&factors);
    return status;
}

static grail_status back_put_rows(node_back *b)
{
    grail_status status = GRAIL_OK;
    route t = {0};
    matrix routed = {0};
    TRY(route_open(&b->run, &t));
    TRY(matrix_pool_take(b->run.pool, t.count, b->dy.columns, &routed));
    TRY(matrix_gather(t.rows, NULL, b->dy, routed));
    if (b->reaches[1]) {
        TRY(make_score_gradient(b, &t, routed));
    }
    if (b->reaches[0]) {
        TRY(weigh_rows(&t, routed));
        b->dx[0] = routed;
        routed = no_matrix;
    }
out:
    matrix_pool_give(b->run.pool, &routed);
    route_fini(&t);
    return status;
}

const operator_code operator_put_rows = {run_put_rows, back_put_rows};
