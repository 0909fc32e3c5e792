#include "oracle.h"

#include <math.h>
#include <string.h>

enum { T = ORACLE_ROWS, H = ORACLE_WIDTH, K = ORACLE_KEPT, O = ORACLE_OUTPUTS };

const int64_t oracle_kept[K] = {0, 2, 3, 5, 8, 9, 11};

void oracle_fill(oracle *o, uint64_t seed)
{
    support_fill_normal(o->x, T * H, seed);
    support_fill_normal(o->consumer, O * H, seed + 1);
    support_fill_normal(o->given, T * O, seed + 2);
    for (int64_t i = 0; i < T * H; i++) {
        o->x[i] += 0.5F * (float)(i % H % 4) + 0.8F * o->x[i / H * H];
    }
    oracle_derive(o);
}

void oracle_derive(oracle *o)
{
    for (int64_t t = 0; t < T; t++) {
        for (int64_t k = 0; k < K; k++) {
            o->z[t * K + k] = o->x[t * H + oracle_kept[k]];
        }
        for (int64_t i = 0; i < O; i++) {
            double sum = 0.0;
            for (int64_t h = 0; h < H; h++) {
                sum += (double)o->x[t * H + h] * (double)o->consumer[i * H + h];
            }
            o->own[t * O + i] = sum;
            o->other[t * O + i] = (double)o->given[t * O + i];
        }
    }
    for (int64_t i = 0; i < O * K; i++) {
        o->prior[i] = o->consumer[i / K * H + oracle_kept[i % K]];
    }
}

grail_reducer *oracle_reducer(void)
{
    grail_reducer *r = NULL;
    assert_ok(grail_reducer_from_selection(H, K, oracle_kept, &r));
    return r;
}

grail_statistics *oracle_statistics(backend *b, const oracle *o, int64_t begin, int64_t end,
                                    bool target)
{
    const int64_t rows = end - begin;
    grail_statistics *s = NULL;
    OWNED(matrix) x = support_rows(b, rows, H, H, o->x + begin * H);
    OWNED(matrix) y = support_rows(b, rows, O, O, o->given + begin * O);
    assert_ok(statistics_create(b, H, target ? O : 0, &s));
    assert_ok(statistics_accumulate(s, x, target ? y : no_matrix));
    return s;
}

grail_status oracle_regress(const grail_comm *comm, grail_statistics *s,
                            const grail_reducer *reducer, int64_t features_per_unit,
                            int64_t outputs, const float *consumer, const float *prior,
                            regression *out)
{
    OWNED(matrix) wide = no_matrix;
    OWNED(matrix) narrow = no_matrix;
    const int64_t width = reducer == NULL ? s->width : reducer->kept * features_per_unit;
    CHECK(matrix_import(s->owner, GRAIL_DTYPE_F32, outputs, width, width, prior, &narrow));
    if (consumer != NULL) {
        CHECK(
            matrix_import(s->owner, GRAIL_DTYPE_F32, outputs, s->width, s->width, consumer, &wide));
    }
    return regression_derive(comm, s, reducer, features_per_unit, wide, narrow, out);
}

grail_status oracle_select(grail_statistics *s, const grail_reducer *reducer,
                           int64_t features_per_unit, int64_t outputs, const float *consumer,
                           regression *out)
{
    OWNED(float) *prior = NULL;
    CHECK(memory_new_unset(&prior, (size_t)(outputs * reducer->kept * features_per_unit),
                           sizeof *prior));
    assert_ok(grail_reducer_merge_columns(reducer, 0, features_per_unit, outputs, consumer, prior));
    return oracle_regress(NULL, s, reducer, features_per_unit, outputs, consumer, prior, out);
}

regression oracle_regression(backend *b, const oracle *o, int64_t begin, int64_t end, bool target)
{
    regression r = {0};
    OWNED(grail_statistics) *s = oracle_statistics(b, o, begin, end, target);
    OWNED(grail_reducer) *reducer = oracle_reducer();
    assert_ok(oracle_regress(NULL, s, reducer, 1, O, o->consumer, o->prior, &r));
    return r;
}

static grail_status copy_array(int64_t count, const double *values, double **out)
{
    const grail_status status = memory_new_unset(out, (size_t)count, sizeof **out);
    if (status == GRAIL_OK) {
        memcpy(*out, values, (size_t)count * sizeof **out);
    }
    return status;
}

grail_status oracle_load(backend *b, const regression_sums *sums, regression *out)
{
    grail_status status = GRAIL_OK;
    const int64_t width = sums->width;
    const int64_t outputs = sums->outputs;
    regression r = {.width = width, .outputs = outputs, .weight = sums->weight};
    TRY(matrix_new(b, GRAIL_DTYPE_F64, width, width, &r.gram));
    TRY(matrix_new(b, GRAIL_DTYPE_F64, outputs, width, &r.cross));
    TRY(matrix_upload(r.gram, sums->gram));
    TRY(matrix_fill_upper(r.gram));
    TRY(matrix_upload(r.cross, sums->cross));
    TRY(copy_array(width, sums->sum, &r.sum));
    TRY(copy_array(outputs, sums->residual_sum, &r.residual_sum));
    TRY(copy_array(outputs, sums->residual_square, &r.residual_square));
    TRY(copy_array(outputs, sums->target_square, &r.target_square));
    *out = r;
    r = (regression){0};
out:
    regression_fini(&r);
    return status;
}

grail_status oracle_ridge(regression *fit, regression *held, const float *prior,
                          const ridge_options *options, matrix weight, double *bias,
                          ridge_result *result)
{
    OWNED(matrix) rows = no_matrix;
    CHECK(matrix_import(weight.owner, GRAIL_DTYPE_F32, fit->outputs, fit->width, fit->width, prior,
                        &rows));
    return ridge_solve(fit, held, rows, options, weight, bias, result);
}

grail_status oracle_fit(regression *fit, regression *held, const float *prior,
                        const ridge_options *options, double *weight, double *bias,
                        ridge_result *result)
{
    OWNED(matrix) w = no_matrix;
    CHECK(matrix_new(fit->gram.owner, GRAIL_DTYPE_F64, fit->outputs, fit->width, &w));
    CHECK(oracle_ridge(fit, held, prior, options, w, bias, result));
    return matrix_download(w, weight);
}

void oracle_widen(int64_t count, const float *in, double *out)
{
    for (int64_t i = 0; i < count; i++) {
        out[i] = (double)in[i];
    }
}

static void eliminate(int64_t n, double *a, int64_t m, double *x, int64_t pivot)
{
    int64_t best = pivot;
    for (int64_t c = pivot; c < n; c++) {
        best = fabs(a[pivot * n + c]) > fabs(a[pivot * n + best]) ? c : best;
    }
    for (int64_t r = 0; r < n + m; r++) { /* columns of A and of X below it */
        double *row = r < n ? a + r * n : x + (r - n) * n;
        const double swap = row[pivot];
        row[pivot] = row[best];
        row[best] = swap;
    }
    for (int64_t c = 0; c < n; c++) {
        const double factor = c == pivot ? 0.0 : a[pivot * n + c] / a[pivot * n + pivot];
        for (int64_t r = 0; r < n + m; r++) {
            double *row = r < n ? a + r * n : x + (r - n) * n;
            row[c] -= factor * row[pivot];
        }
    }
}

void assert_all_near(int64_t count, const double *a, const double *b, double tolerance)
{
    for (int64_t i = 0; i < count; i++) {
        assert_near(a[i], b[i], tolerance);
    }
}

void oracle_divide(int64_t n, const double *a, int64_t m, double *x)
{
    OWNED(double) *copy = NULL;
    assert_ok(memory_new(&copy, (size_t)(n * n), sizeof *copy));
    memcpy(copy, a, (size_t)(n * n) * sizeof *copy);
    for (int64_t pivot = 0; pivot < n; pivot++) {
        eliminate(n, copy, m, x, pivot);
    }
    for (int64_t i = 0; i < m * n; i++) {
        x[i] /= copy[i % n * n + i % n];
    }
}

void oracle_diagonal(const oracle *o, int64_t begin, int64_t end, bool centred, double *out)
{
    for (int64_t k = 0; k < K; k++) {
        double sum = 0.0;
        double squares = 0.0;
        for (int64_t t = begin; t < end; t++) {
            const double z = (double)o->z[t * K + k];
            sum += z;
            squares += z * z;
        }
        out[k] = centred ? squares - sum * sum / (double)(end - begin) : squares;
    }
}

double oracle_lambda(const oracle *o, int64_t begin, int64_t end, double alpha, bool centred)
{
    double diagonal[K];
    double total = 0.0;
    oracle_diagonal(o, begin, end, centred, diagonal);
    for (int64_t k = 0; k < K; k++) {
        total += diagonal[k];
    }
    return alpha * total / K;
}

void oracle_solve(const oracle *o, int64_t begin, int64_t end, const double *target, double lambda,
                  ridge_kind kind, double *weight, double *bias)
{
    double penalty[K];
    for (int64_t k = 0; k < K; k++) {
        penalty[k] = lambda;
    }
    oracle_solve_penalised(o, begin, end, target, penalty, kind, weight, bias);
}

void oracle_solve_penalised(const oracle *o, int64_t begin, int64_t end, const double *target,
                            const double penalty[K], ridge_kind kind, double *weight, double *bias)
{
    enum { N = K + 1 };
    double a[N * N] = {0};
    double x[O * N] = {0};
    const int64_t n = bias == NULL ? K : N;
    for (int64_t t = begin; t < end; t++) {
        double row[N];
        for (int64_t k = 0; k < n; k++) {
            row[k] = k < K ? (double)o->z[t * K + k] : 1.0;
        }
        for (int64_t i = 0; i < n * n; i++) {
            a[i] += row[i / n] * row[i % n];
        }
        for (int64_t i = 0; i < O * n; i++) {
            x[i] += target[t * O + i / n] * row[i % n];
        }
    }
    for (int64_t k = 0; k < K; k++) {
        a[k * n + k] += penalty[k];
        for (int64_t i = 0; i < O; i++) {
            x[i * n + k] += kind == RIDGE_PRIOR ? penalty[k] * (double)o->prior[i * K + k] : 0.0;
        }
    }
    oracle_divide(n, a, O, x);
    for (int64_t i = 0; i < O; i++) {
        memcpy(weight + i * K, x + i * n, K * sizeof *weight);
        if (bias != NULL) {
            bias[i] = x[i * n + K];
        }
    }
}

double oracle_error(const oracle *o, int64_t begin, int64_t end, const double *target,
                    const double *weight, const double *bias)
{
    double error = 0.0;
    double square = 0.0;
    for (int64_t t = begin; t < end; t++) {
        for (int64_t i = 0; i < O; i++) {
            const double y = target[t * O + i];
            double left = y - (bias == NULL ? 0.0 : bias[i]);
            for (int64_t k = 0; k < K; k++) {
                left -= (double)o->z[t * K + k] * weight[i * K + k];
            }
            error += left * left;
            square += y * y;
        }
    }
    return error / square;
}

ridge_result oracle_run(backend *b, const oracle *o, int64_t split, bool target,
                        const ridge_options *options, double *weight, double *bias)
{
    ridge_result result;
    regression fit = oracle_regression(b, o, 0, split, target);
    regression held = {0};
    if (split < T) {
        held = oracle_regression(b, o, split, T, target);
    }
    assert_ok(oracle_fit(&fit, &held, o->prior, options, weight, bias, &result));
    regression_fini(&fit);
    regression_fini(&held);
    return result;
}
