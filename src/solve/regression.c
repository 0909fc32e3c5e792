/* From statistics to the residual form of a regression, inside the statistics' own memory. */
#include "solve/quadratic.h"
#include "solve/ridge.h"
#include "stats/sums.h"

#include <string.h>

/* The features of an input cut into kept and removed ones, both ascending. */
typedef struct feature_split {
    int64_t *kept;    /* [kept_count], owns both */
    int64_t *removed; /* [removed_count] */
    int64_t kept_count;
    int64_t removed_count;
} feature_split;

/* The consumer W[O, width]: every row, or every step-th one. */
typedef struct weight_rows {
    const float *weights;
    int64_t width;
    int64_t rows;
    int64_t step;
} weight_rows;

int64_t regression_measured_stride(int64_t outputs)
{
    const int64_t stride = (outputs + REGRESSION_MEASURED - 1) / REGRESSION_MEASURED;
    return stride > 0 ? stride : 1;
}

void regression_fini(regression *r)
{
    memory_free(r->gram);
    memory_free(r->sum);
    memory_free(r->cross);
    memory_free(r->residual_sum);
    memory_free(r->residual_square);
    memory_free(r->target_square);
    *r = (regression){0};
}

grail_status regression_add(regression *into, const regression *other)
{
    if (into->width != other->width || into->outputs != other->outputs) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "regression: cannot add %lld x %lld sums to %lld x %lld",
                         (long long)other->outputs, (long long)other->width,
                         (long long)into->outputs, (long long)into->width);
    }
    symmetric_add_lower(into->width, into->gram, other->gram);
    sums_add(into->width, into->sum, other->sum);
    sums_add(into->outputs * into->width, into->cross, other->cross);
    sums_add(into->outputs, into->residual_sum, other->residual_sum);
    sums_add(into->outputs, into->residual_square, other->residual_square);
    sums_add(into->outputs, into->target_square, other->target_square);
    into->count += other->count;
    return GRAIL_OK;
}

static weight_rows all_rows(const float *weights, int64_t width, int64_t outputs)
{
    return (weight_rows){weights, width, outputs, 1};
}

static weight_rows measured_rows(const float *weights, int64_t width, int64_t outputs)
{
    const int64_t step = regression_measured_stride(outputs);
    return (weight_rows){weights, width, (outputs + step - 1) / step, step};
}

/* out[rows, count] = W[rows, columns] in f64 */
static void gather_weights(const weight_rows *w, const int64_t *columns, int64_t count, double *out)
{
    for (int64_t i = 0; i < w->rows; i++) {
        const float *row = w->weights + i * w->step * w->width;
        for (int64_t c = 0; c < count; c++) {
            out[i * count + c] = (double)row[columns[c]];
        }
    }
}

/* out[row_count, column_count] = G[rows, columns] */
static void gather_gram(const grail_statistics *s, const int64_t *rows, int64_t row_count,
                        const int64_t *columns, int64_t column_count, double *out)
{
    for (int64_t i = 0; i < row_count; i++) {
        const double *row = s->gram + rows[i] * s->width;
        for (int64_t c = 0; c < column_count; c++) {
            out[i * column_count + c] = row[columns[c]];
        }
    }
}

static int64_t panel_width(int64_t features)
{
    return features < SOLVE_PANEL ? features : SOLVE_PANEL;
}

/* E[O, K] += W_R G[R, P], and residual_sum += W_R s_R */
static grail_status add_removed_cross(const backend *b, const grail_statistics *s,
                                      const feature_split *f, const float *consumer, regression *r)
{
    grail_status status = GRAIL_OK;
    double *weights = NULL;  /* W[:, panel of R] */
    double *products = NULL; /* G[panel of R, P] */
    const int64_t panel = panel_width(f->removed_count);
    const weight_rows rows = all_rows(consumer, s->width, r->outputs);
    TRY(memory_new_unset(&weights, (size_t)(r->outputs * panel), sizeof *weights));
    TRY(memory_new_unset(&products, (size_t)(panel * r->width), sizeof *products));
    for (int64_t begin = 0; begin < f->removed_count; begin += panel) {
        const int64_t left = f->removed_count - begin;
        const int64_t count = left < panel ? left : panel;
        const int64_t *removed = f->removed + begin;
        gather_weights(&rows, removed, count, weights);
        gather_gram(s, removed, count, f->kept, f->kept_count, products);
        b->gemm(false, false, r->outputs, r->width, count, 1.0, weights, count, products, r->width,
                1.0, r->cross, r->width);
        for (int64_t o = 0; o < r->outputs; o++) {
            for (int64_t c = 0; c < count; c++) {
                r->residual_sum[o] += weights[o * count + c] * s->sum[removed[c]];
            }
        }
    }
out:
    memory_free(weights);
    memory_free(products);
    return status;
}

/* residual_square_o = w_R G[R, R] w_R^T for the measured outputs, a panel of R at a time. */
static grail_status measure_removed(const backend *b, const grail_statistics *s,
                                    const feature_split *f, const float *consumer, regression *r)
{
    grail_status status = GRAIL_OK;
    double *weights = NULL;  /* [m, R] */
    double *products = NULL; /* G[panel of R, R] */
    double *images = NULL;   /* w_R G[R, panel of R] */
    const int64_t all = f->removed_count;
    const int64_t panel = panel_width(all);
    const weight_rows rows = measured_rows(consumer, s->width, r->outputs);
    TRY(memory_new_unset(&weights, (size_t)(rows.rows * all), sizeof *weights));
    TRY(memory_new_unset(&products, (size_t)(panel * all), sizeof *products));
    TRY(memory_new_unset(&images, (size_t)(rows.rows * panel), sizeof *images));
    gather_weights(&rows, f->removed, all, weights);
    for (int64_t begin = 0; begin < all; begin += panel) {
        const int64_t count = begin + panel < all ? panel : all - begin;
        gather_gram(s, f->removed + begin, count, f->removed, all, products);
        b->gemm(false, true, rows.rows, count, all, 1.0, weights, all, products, all, 0.0, images,
                panel);
        for (int64_t i = 0; i < rows.rows; i++) {
            r->residual_square[i * rows.step] +=
                dot_product(count, images + i * panel, weights + i * all + begin);
        }
    }
out:
    memory_free(weights);
    memory_free(products);
    memory_free(images);
    return status;
}

/* target_square_o = w G w^T = w_R G_RR w_R^T + 2 E_o w_P^T + w_P A w_P^T for measured outputs. */
static grail_status measure_own_output(const backend *b, const feature_split *f,
                                       const float *consumer, int64_t consumer_width, regression *r)
{
    grail_status status = GRAIL_OK;
    double *weights = NULL; /* [m, K] */
    double *forms = NULL;   /* [m] */
    const weight_rows rows = measured_rows(consumer, consumer_width, r->outputs);
    TRY(memory_new_unset(&weights, (size_t)(rows.rows * r->width), sizeof *weights));
    TRY(memory_new_unset(&forms, (size_t)rows.rows, sizeof *forms));
    gather_weights(&rows, f->kept, f->kept_count, weights);
    TRY(quadratic_forms(b, r->width, r->gram, rows.rows, weights, forms));
    for (int64_t i = 0; i < rows.rows; i++) {
        const int64_t o = i * rows.step;
        const double mixed = dot_product(r->width, r->cross + o * r->width, weights + i * r->width);
        r->target_square[o] = r->residual_square[o] + 2.0 * mixed + forms[i];
    }
out:
    memory_free(weights);
    memory_free(forms);
    return status;
}

/* Moves A[row i of `rows`, kept] to row i of a matrix of kept_count columns in the same memory.
 * NULL rows means all. Both lists ascend, so every element is read before it is overwritten. */
static void compact(const int64_t *rows, int64_t row_count, int64_t width, const feature_split *f,
                    double *a)
{
    for (int64_t i = 0; i < row_count; i++) {
        const double *from = a + (rows == NULL ? i : rows[i]) * width;
        double *to = a + i * f->kept_count;
        for (int64_t c = 0; c < f->kept_count; c++) {
            to[c] = from[f->kept[c]];
        }
    }
}

/* Moves G[P, P] and s_P into the regression and frees the memory that they no longer need. */
static grail_status take_kept_sums(grail_statistics *s, const feature_split *f, regression *r)
{
    grail_status status = GRAIL_OK;
    compact(f->kept, f->kept_count, s->width, f, s->gram);
    compact(NULL, 1, s->width, f, s->sum);
    r->gram = s->gram;
    r->sum = s->sum;
    s->gram = NULL;
    s->sum = NULL;
    if (f->removed_count > 0) {
        const size_t width = (size_t)r->width;
        TRY(memory_resize(&r->gram, width * width, sizeof *r->gram));
        TRY(memory_resize(&r->sum, width, sizeof *r->sum));
    }
out:
    return status;
}

static grail_status take_kept_cross(grail_statistics *s, const feature_split *f, regression *r)
{
    compact(NULL, s->outputs, s->width, f, s->cross);
    r->cross = s->cross;
    r->target_square = s->target_square;
    r->residual_sum = s->target_sum;
    s->cross = NULL;
    s->target_square = NULL;
    s->target_sum = NULL;
    if (f->removed_count == 0) {
        return GRAIL_OK;
    }
    return memory_resize(&r->cross, (size_t)(r->outputs * r->width), sizeof *r->cross);
}

/* residual_square_o -= w0_o cross_o for measured outputs: with cross = C before and E = C - W0 A
 * after the subtraction this is q_o - w0 C - w0 E = q_o - 2 w0 C + w0 A w0^T. */
static void subtract_measured(const weight_rows *w0, const int64_t *columns, regression *r)
{
    for (int64_t i = 0; i < w0->rows; i++) {
        const int64_t o = i * w0->step;
        const float *weights = w0->weights + o * w0->width;
        const double *cross = r->cross + o * r->width;
        for (int64_t c = 0; c < r->width; c++) {
            r->residual_square[o] -= (double)weights[columns[c]] * cross[c];
        }
    }
}

/* cross = C - W0 A and residual_sum = t - W0 s, with W0 = W[:, columns] and A in both triangles. */
static grail_status subtract_prior(const backend *b, const float *consumer, int64_t consumer_width,
                                   const int64_t *columns, regression *r)
{
    grail_status status = GRAIL_OK;
    double *weights = NULL; /* W0[:, panel] */
    const int64_t panel = panel_width(r->width);
    const weight_rows rows = all_rows(consumer, consumer_width, r->outputs);
    TRY(memory_new_unset(&weights, (size_t)(r->outputs * panel), sizeof *weights));
    for (int64_t begin = 0; begin < r->width; begin += panel) {
        const int64_t count = begin + panel < r->width ? panel : r->width - begin;
        gather_weights(&rows, columns + begin, count, weights);
        b->gemm(false, false, r->outputs, r->width, count, -1.0, weights, count,
                r->gram + begin * r->width, r->width, 1.0, r->cross, r->width);
        for (int64_t o = 0; o < r->outputs; o++) {
            r->residual_sum[o] -= dot_product(count, weights + o * count, r->sum + begin);
        }
    }
out:
    memory_free(weights);
    return status;
}

/* The residual of a given target: r->cross holds C, r->residual_sum t and r->target_square q. */
static grail_status residual_of_target(const backend *b, const float *consumer,
                                       int64_t consumer_width, const int64_t *columns,
                                       regression *r)
{
    grail_status status = GRAIL_OK;
    const weight_rows measured = measured_rows(consumer, consumer_width, r->outputs);
    memcpy(r->residual_square, r->target_square, (size_t)r->outputs * sizeof *r->target_square);
    subtract_measured(&measured, columns, r);
    TRY(subtract_prior(b, consumer, consumer_width, columns, r));
    subtract_measured(&measured, columns, r);
out:
    return status;
}

/* The residual of the consumer's own output on the full-width input. */
static grail_status residual_of_own_output(const backend *b, grail_statistics *s,
                                           const feature_split *f, const float *consumer,
                                           regression *r)
{
    grail_status status = GRAIL_OK;
    const int64_t width = s->width;
    const size_t outputs = (size_t)r->outputs;
    TRY(memory_new(&r->cross, outputs * (size_t)r->width, sizeof *r->cross));
    TRY(memory_new(&r->residual_sum, outputs, sizeof *r->residual_sum));
    TRY(memory_new(&r->target_square, outputs, sizeof *r->target_square));
    TRY(add_removed_cross(b, s, f, consumer, r));
    TRY(measure_removed(b, s, f, consumer, r));
    TRY(take_kept_sums(s, f, r));
    TRY(measure_own_output(b, f, consumer, width, r));
out:
    return status;
}

static grail_status residual_of_selection(const backend *b, grail_statistics *s,
                                          const feature_split *f, const float *consumer,
                                          regression *r)
{
    grail_status status = GRAIL_OK;
    const int64_t width = s->width;
    TRY(memory_new(&r->residual_square, (size_t)r->outputs, sizeof *r->residual_square));
    symmetric_fill_upper(width, s->gram);
    if (s->outputs == 0) {
        return residual_of_own_output(b, s, f, consumer, r);
    }
    TRY(take_kept_sums(s, f, r));
    TRY(take_kept_cross(s, f, r));
    TRY(residual_of_target(b, consumer, width, f->kept, r));
out:
    return status;
}

static void free_sums(grail_statistics *s)
{
    memory_free(s->gram);
    memory_free(s->sum);
    memory_free(s->cross);
    memory_free(s->target_sum);
    memory_free(s->target_square);
}

/* Without a reducer every feature is kept. */
static grail_status split_features(int64_t width, const grail_reducer *reducer,
                                   int64_t features_per_unit, feature_split *f)
{
    int64_t *indices = NULL;
    const grail_status status = memory_new_unset(&indices, (size_t)width, sizeof *indices);
    if (status != GRAIL_OK) {
        return status;
    }
    const int64_t kept = reducer == NULL ? width : reducer->kept * features_per_unit;
    *f = (feature_split){indices, indices + kept, kept, width - kept};
    int64_t kept_so_far = 0;
    for (int64_t i = 0; i < width; i++) {
        if (reducer == NULL || reducer->labels[i / features_per_unit] >= 0) {
            f->kept[kept_so_far++] = i;
        } else {
            f->removed[i - kept_so_far] = i;
        }
    }
    return status;
}

static grail_status check_selection(const grail_statistics *s, const grail_reducer *reducer,
                                    int64_t features_per_unit, int64_t outputs)
{
    if (reducer->folds) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "regression: a folding needs statistics of the folded input");
    }
    if (features_per_unit <= 0 || s->width != reducer->units * features_per_unit) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "regression: the statistics have %lld features, but the reducer has %lld "
                         "units of %lld features",
                         (long long)s->width, (long long)reducer->units,
                         (long long)features_per_unit);
    }
    if (outputs <= 0 || (s->outputs != 0 && s->outputs != outputs)) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "regression: the consumer has %lld outputs, but the target has %lld",
                         (long long)outputs, (long long)s->outputs);
    }
    return GRAIL_OK;
}

/* `reducer` NULL: the statistics are those of the narrow input and every feature is kept. */
static grail_status take_statistics(const backend *b, grail_statistics *s,
                                    const grail_reducer *reducer, int64_t features_per_unit,
                                    int64_t outputs, const float *consumer, regression *out)
{
    grail_status status = GRAIL_OK;
    feature_split f = {0};
    grail_statistics taken = *s;
    regression r = {0};
    *s = (grail_statistics){0};
    TRY(split_features(taken.width, reducer, features_per_unit, &f));
    r = (regression){.width = f.kept_count, .outputs = outputs, .count = taken.count};
    TRY(residual_of_selection(b, &taken, &f, consumer, &r));
    *out = r;
    r = (regression){0};
out:
    regression_fini(&r);
    free_sums(&taken);
    memory_free(f.kept);
    return status;
}

grail_status regression_from_selection(const backend *b, grail_statistics *s,
                                       const grail_reducer *reducer, int64_t features_per_unit,
                                       int64_t outputs, const float *consumer, regression *out)
{
    const grail_status status = check_selection(s, reducer, features_per_unit, outputs);
    return status == GRAIL_OK
               ? take_statistics(b, s, reducer, features_per_unit, outputs, consumer, out)
               : status;
}

grail_status regression_from_measured(const backend *b, grail_statistics *s, const float *prior,
                                      regression *out)
{
    if (s->outputs == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "regression: statistics of a folded input need a target");
    }
    return take_statistics(b, s, NULL, 1, s->outputs, prior, out);
}

/* The mean map: the features of a cluster are the means over its units. */
typedef struct mean_map {
    const grail_reducer *r;
    int64_t u;
} mean_map;

/* out[rows, K u] += in[rows, n u] M */
static void map_columns(const mean_map *m, int64_t rows, const double *in, double *out)
{
    const int64_t wide = m->r->units * m->u;
    const int64_t narrow = m->r->kept * m->u;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < m->r->units; j++) {
            const int64_t k = m->r->labels[j];
            const double share = 1.0 / (double)m->r->members[k];
            for (int64_t f = 0; f < m->u; f++) {
                out[i * narrow + k * m->u + f] += share * in[i * wide + j * m->u + f];
            }
        }
    }
}

/* out[K u, columns] += M^T in[n u, columns] */
static void map_rows(const mean_map *m, int64_t columns, const double *in, double *out)
{
    for (int64_t j = 0; j < m->r->units; j++) {
        const int64_t k = m->r->labels[j];
        const double share = 1.0 / (double)m->r->members[k];
        for (int64_t f = 0; f < m->u; f++) {
            const double *from = in + (j * m->u + f) * columns;
            double *to = out + (k * m->u + f) * columns;
            for (int64_t c = 0; c < columns; c++) {
                to[c] += share * from[c];
            }
        }
    }
}

/* The target Y = X W^T in the sums: C = W G M, t = W s, q_o = w_o G w_o^T. `half` is G M. */
static grail_status fold_target(const backend *b, const grail_statistics *s, const double *gram,
                                const double *half, const float *consumer, grail_statistics *out)
{
    grail_status status = GRAIL_OK;
    double *weights = NULL;
    double *measured = NULL;
    double *forms = NULL;
    const int64_t step = regression_measured_stride(out->outputs);
    const int64_t count = (out->outputs + step - 1) / step;
    const int64_t all = out->outputs * s->width;
    TRY(memory_new_unset(&weights, (size_t)all, sizeof *weights));
    TRY(memory_new_unset(&measured, (size_t)(count * s->width), sizeof *measured));
    TRY(memory_new_unset(&forms, (size_t)count, sizeof *forms));
    for (int64_t i = 0; i < all; i++) {
        weights[i] = (double)consumer[i];
    }
    for (int64_t i = 0; i < count; i++) {
        memcpy(measured + i * s->width, weights + i * step * s->width,
               (size_t)s->width * sizeof *measured);
    }
    b->gemm(false, false, out->outputs, out->width, s->width, 1.0, weights, s->width, half,
            out->width, 0.0, out->cross, out->width);
    for (int64_t o = 0; o < out->outputs; o++) {
        out->target_sum[o] = dot_product(s->width, weights + o * s->width, s->sum);
    }
    TRY(quadratic_forms(b, s->width, gram, count, measured, forms));
    for (int64_t i = 0; i < count; i++) {
        out->target_square[i * step] = forms[i];
    }
out:
    memory_free(weights);
    memory_free(measured);
    memory_free(forms);
    return status;
}

static grail_status fold_statistics(const backend *b, const grail_statistics *s, const mean_map *m,
                                    const float *consumer, grail_statistics *out)
{
    grail_status status = GRAIL_OK;
    double *gram = NULL; /* G in both triangles */
    double *half = NULL; /* G M */
    const size_t width = (size_t)s->width;
    TRY(memory_new_unset(&gram, width * width, sizeof *gram));
    TRY(memory_new(&half, width * (size_t)out->width, sizeof *half));
    memcpy(gram, s->gram, width * width * sizeof *gram);
    symmetric_fill_upper(s->width, gram);
    map_columns(m, s->width, gram, half);
    map_rows(m, out->width, half, out->gram);
    map_rows(m, 1, s->sum, out->sum);
    out->count = s->count;
    TRY(fold_target(b, s, gram, half, consumer, out));
out:
    memory_free(gram);
    memory_free(half);
    return status;
}

grail_status regression_from_folding(const backend *b, const grail_statistics *s,
                                     const grail_reducer *reducer, int64_t features_per_unit,
                                     int64_t outputs, const float *consumer, const float *prior,
                                     regression *out)
{
    grail_status status = GRAIL_OK;
    grail_statistics *folded = NULL;
    const mean_map m = {.r = reducer, .u = features_per_unit};
    TRY(grail_statistics_create(reducer->kept * features_per_unit, outputs, &folded));
    TRY(fold_statistics(b, s, &m, consumer, folded));
    TRY(regression_from_measured(b, folded, prior, out));
out:
    grail_statistics_free(folded);
    return status;
}
