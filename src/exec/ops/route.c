#include "exec/ops/operator_code.h"

#include <math.h>

/* -- choosing ---------------------------------------------------------------------------------- */

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

/* part[outputs] = softmax of the scores over what the row's shares sum to 1 over, 0 elsewhere */
static void find_parts(const route_attributes *a, int64_t outputs, const double *scores,
                       double *part)
{
    double sum = 0.0;
    double largest = scores[0];
    for (int64_t o = 1; o < outputs; o++) {
        largest = fmax(largest, scores[o]);
    }
    for (int64_t o = 0; o < outputs; o++) {
        const bool counts = a->over_all || is_chosen(a, outputs, scores, o);
        part[o] = counts ? exp(scores[o] - largest) : 0.0;
        sum += part[o];
    }
    for (int64_t o = 0; o < outputs; o++) {
        part[o] /= sum;
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

/* part[outputs] is scratch. */
static grail_status choose(const node_run *run, const double *scores, double *part, double *shares)
{
    const route_attributes *a = &run->node->route;
    const int64_t outputs = run->y.columns;
    for (int64_t r = 0; r < run->y.rows; r++) {
        const double *from = scores + r * outputs;
        CHECK(check_scores(r, outputs, from));
        find_parts(a, outputs, from, part);
        for (int64_t c = 0; c < outputs; c++) {
            const int64_t o = run->order == NULL ? c : run->order[c];
            shares[r * outputs + c] = is_chosen(a, outputs, from, o) ? part[o] : 0.0;
        }
    }
    return GRAIL_OK;
}

static grail_status run_route(const node_run *r)
{
    grail_status status = GRAIL_OK;
    double *part = NULL;
    host_view scores = {0};
    host_view shares = {0};
    TRY(memory_new(&part, (size_t)r->y.columns, sizeof part[0]));
    TRY(host_view_open(r->x[0], GRAIL_DTYPE_F64, HOST_READS, &scores));
    TRY(host_view_open(r->y, GRAIL_DTYPE_F64, HOST_WRITES, &shares));
    TRY(choose(r, scores.values, part, shares.values));
    TRY(host_view_close(&shares));
out:
    memory_free(part);
    host_view_drop(&scores);
    host_view_drop(&shares);
    return status;
}

/* gradient_o = p_o (dy_o [where o is chosen] - sum over the chosen of p dy), with the parts p. The
 * gradient takes the place of dy[outputs], which is 0 where nothing is chosen. */
static void turn_gradient(const route_attributes *a, int64_t outputs, const double *scores,
                          double *part, double *dy)
{
    double sum = 0.0;
    find_parts(a, outputs, scores, part);
    for (int64_t o = 0; o < outputs; o++) {
        sum += part[o] * dy[o];
    }
    for (int64_t o = 0; o < outputs; o++) {
        dy[o] = part[o] * (dy[o] - sum);
    }
}

static grail_status back_route(node_back *b)
{
    grail_status status = GRAIL_OK;
    const matrix x = b->run.x[0];
    double *part = NULL;
    host_view scores = {0};
    host_view gradient = {0};
    TRY(memory_new(&part, (size_t)x.columns, sizeof part[0]));
    TRY(host_view_open(x, GRAIL_DTYPE_F64, HOST_READS, &scores));
    TRY(host_view_open(b->dy, GRAIL_DTYPE_F64, HOST_UPDATES, &gradient));
    for (int64_t r = 0; r < x.rows; r++) {
        turn_gradient(&b->run.node->route, x.columns, (const double *)scores.values + r * x.columns,
                      part, (double *)gradient.values + r * x.columns);
    }
    TRY(host_view_close(&gradient));
    back_pass(b, 0);
out:
    host_view_drop(&scores);
    host_view_drop(&gradient);
    memory_free(part);
    return status;
}

const operator_code operator_route = {run_route, back_route};

/* -- taking rows ------------------------------------------------------------------------------- */

static grail_status find_rows(const node_run *r, routed_rows *out)
{
    return routed_rows_find(r->x[1], r->node->share, out);
}

static grail_status run_take_rows(const node_run *r)
{
    routed_rows t = {0};
    grail_status status = find_rows(r, &t);
    if (status == GRAIL_OK) {
        status = matrix_gather(t.rows, NULL, r->x[0], r->y);
    }
    routed_rows_fini(&t);
    return status;
}

/* y[rows[i], :] += factor[rows[i]] x[i, :] */
static grail_status add_rows(const routed_rows *t, const double *factor, matrix x, matrix y)
{
    return t->count > 0 ? matrix_fold_rows(t->count, t->rows, factor, x, y) : GRAIL_OK;
}

/* Every row goes back to its place. Which rows are chosen has no gradient. */
static grail_status back_take_rows(node_back *b)
{
    grail_status status = GRAIL_OK;
    routed_rows t = {0};
    double *ones = NULL;
    if (!b->reaches[0]) {
        return GRAIL_OK;
    }
    TRY(find_rows(&b->run, &t));
    TRY(memory_new(&ones, (size_t)b->run.rows[0], sizeof ones[0]));
    for (int64_t i = 0; i < t.count; i++) {
        ones[t.rows[i]] = 1.0;
    }
    TRY(back_new(b, 0));
    TRY(matrix_zero(b->dx[0]));
    TRY(add_rows(&t, ones, b->dy, b->dx[0]));
out:
    memory_free(ones);
    routed_rows_fini(&t);
    return status;
}

const operator_code operator_take_rows = {run_take_rows, back_take_rows};

/* -- putting them back ------------------------------------------------------------------------- */

static grail_status run_put_rows(const node_run *r)
{
    grail_status status = GRAIL_OK;
    const matrix sum = r->x[2];
    routed_rows t = {0};
    double *share = NULL;
    TRY(find_rows(r, &t));
    TRY(memory_new(&share, (size_t)r->y.rows, sizeof share[0]));
    for (int64_t i = 0; i < t.count; i++) {
        share[t.rows[i]] = t.shares[i];
    }
    if (r->y.allocation != sum.allocation) {
        TRY(matrix_copy(sum, r->y));
    }
    TRY(add_rows(&t, share, r->x[0], r->y));
out:
    memory_free(share);
    routed_rows_fini(&t);
    return status;
}

/* dx[1] <- in the column of the node's output the products of each row with its gradient. */
static grail_status make_share_gradient(node_back *b, const routed_rows *t, matrix routed)
{
    grail_status status = GRAIL_OK;
    matrix dots = {0};
    double *found = NULL;
    host_view v = {0};
    TRY(back_new(b, 1));
    TRY(matrix_zero(b->dx[1]));
    TRY(memory_new(&found, (size_t)t->count, sizeof found[0]));
    TRY(matrix_new(routed.owner, GRAIL_DTYPE_F64, 1, t->count, &dots));
    TRY(matrix_row_dots(routed, b->run.x[0], dots));
    TRY(matrix_download(dots, found));
    TRY(host_view_open(matrix_columns(b->dx[1], b->run.node->share, 1), GRAIL_DTYPE_F64,
                       HOST_UPDATES, &v));
    for (int64_t i = 0; i < t->count; i++) {
        ((double *)v.values)[t->rows[i]] = found[i];
    }
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    memory_free(found);
    matrix_free(&dots);
    return status;
}

/* rows[i, :] *= share of row i */
static grail_status weigh_rows(const routed_rows *t, matrix rows)
{
    matrix factors = {0};
    grail_status status =
        matrix_import(rows.owner, GRAIL_DTYPE_F64, 1, t->count, t->count, t->shares, &factors);
    if (status == GRAIL_OK) {
        status = matrix_scale_rows(factors, rows, rows);
    }
    matrix_free(&factors);
    return status;
}

static grail_status back_put_rows(node_back *b)
{
    grail_status status = GRAIL_OK;
    routed_rows t = {0};
    matrix routed = {0};
    TRY(find_rows(&b->run, &t));
    TRY(matrix_pool_take(b->run.pool, t.count, b->dy.columns, &routed));
    TRY(matrix_gather(t.rows, NULL, b->dy, routed));
    if (b->reaches[1]) {
        TRY(make_share_gradient(b, &t, routed));
    }
    if (b->reaches[0]) {
        TRY(weigh_rows(&t, routed));
        b->dx[0] = routed;
        routed = no_matrix;
    }
    if (b->reaches[2]) {
        back_pass(b, 2);
    }
out:
    matrix_pool_give(b->run.pool, &routed);
    routed_rows_fini(&t);
    return status;
}

const operator_code operator_put_rows = {run_put_rows, back_put_rows};
