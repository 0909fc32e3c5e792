/* From statistics to the residual form of a regression, inside the statistics' own memory. */
#include "algebra/products.h"
#include "solve/ridge.h"

#include <string.h>

/* The features of an input cut into kept and removed ones, both ascending. */
typedef struct feature_split {
    int64_t *kept;    /* [kept_count], owns both */
    int64_t *removed; /* [removed_count] */
    int64_t kept_count;
    int64_t removed_count;
} feature_split;

/* The consumer W[O, width] on the host and, in f32, on the instance of the statistics. */
typedef struct consumer_weights {
    const float *values;
    matrix rows;
} consumer_weights;

int64_t regression_measured_stride(int64_t outputs)
{
    const int64_t stride = (outputs + REGRESSION_MEASURED - 1) / REGRESSION_MEASURED;
    return stride > 0 ? stride : 1;
}

void regression_fini(regression *r)
{
    matrix_free(&r->gram);
    matrix_free(&r->cross);
    memory_free(r->sum);
    memory_free(r->residual_sum);
    memory_free(r->residual_square);
    memory_free(r->target_square);
    *r = (regression){0};
}

static void add_values(int64_t count, double *into, const double *values)
{
    for (int64_t i = 0; i < count; i++) {
        into[i] += values[i];
    }
}

/* Upper triangles of Gram matrices may hold anything, so they are added too. */
grail_status regression_add(regression *into, const regression *other)
{
    grail_status status = GRAIL_OK;
    if (into->width != other->width || into->outputs != other->outputs) {
        FAIL(GRAIL_ERROR_SHAPE, "regression: cannot add %lld x %lld sums to %lld x %lld",
             (long long)other->outputs, (long long)other->width, (long long)into->outputs,
             (long long)into->width);
    }
    TRY(matrix_add_scaled(1.0, other->gram, into->gram));
    TRY(matrix_add_scaled(1.0, other->cross, into->cross));
    add_values(into->width, into->sum, other->sum);
    add_values(into->outputs, into->residual_sum, other->residual_sum);
    add_values(into->outputs, into->residual_square, other->residual_square);
    add_values(into->outputs, into->target_square, other->target_square);
    into->count += other->count;
    into->full_diagonal += other->full_diagonal;
    into->weight += other->weight;
out:
    return status;
}

static matrix measured_rows(matrix rows)
{
    return matrix_every_row(rows, regression_measured_stride(rows.rows));
}

/* out[0], out[step], ... = values[1, m], the results for the measured ones of some outputs. */
static grail_status download_measured(matrix values, int64_t step, double *out)
{
    grail_status status = GRAIL_OK;
    double *packed = NULL;
    TRY(memory_new_unset(&packed, (size_t)values.columns, sizeof *packed));
    TRY(matrix_download(values, packed));
    for (int64_t i = 0; i < values.columns; i++) {
        out[i * step] = packed[i];
    }
out:
    memory_free(packed);
    return status;
}

/* A new array on the host with the values of a row. */
static grail_status download_row(matrix row, double **out)
{
    grail_status status = GRAIL_OK;
    double *values = NULL;
    TRY(memory_new_unset(&values, (size_t)row.columns, sizeof *values));
    TRY(matrix_download(row, values));
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}

static grail_status new_matrix(const grail_statistics *s, int64_t rows, int64_t columns,
                               matrix *out)
{
    return matrix_new(s->owner, GRAIL_DTYPE_F64, rows, columns, out);
}

static int64_t panel_width(int64_t features)
{
    return features < FEATURE_PANEL ? features : FEATURE_PANEL;
}

/* E[O, K] += W_R G[R, P] */
static grail_status add_removed_cross(const grail_statistics *s, const feature_split *f,
                                      matrix consumer, matrix cross)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix;  /* W[:, panel of R] */
    matrix products = no_matrix; /* G[panel of R, P] */
    const int64_t panel = panel_width(f->removed_count);
    TRY(new_matrix(s, consumer.rows, panel, &weights));
    TRY(new_matrix(s, panel, f->kept_count, &products));
    for (int64_t begin = 0; begin < f->removed_count; begin += panel) {
        const int64_t left = f->removed_count - begin;
        const int64_t count = left < panel ? left : panel;
        const int64_t *removed = f->removed + begin;
        const matrix w = matrix_columns(weights, 0, count);
        const matrix g = matrix_rows(products, 0, count);
        TRY(matrix_gather(NULL, removed, consumer, w));
        TRY(matrix_gather(removed, f->kept, s->gram, g));
        TRY(matrix_gemm(false, false, 1.0, w, g, 1.0, cross));
    }
out:
    matrix_free(&weights);
    matrix_free(&products);
    return status;
}

/* residual_sum = W_R s_R, a panel of outputs at a time, so that every sum runs over all of R. */
static grail_status sum_removed(const grail_statistics *s, const feature_split *f, matrix consumer,
                                double *residual_sum)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* [panel of outputs, R] */
    matrix sums = no_matrix;
    matrix products = no_matrix;
    const int64_t panel = panel_width(consumer.rows);
    TRY(new_matrix(s, panel, f->removed_count, &weights));
    TRY(new_matrix(s, 1, f->removed_count, &sums));
    TRY(new_matrix(s, 1, consumer.rows, &products));
    TRY(matrix_gather(NULL, f->removed, s->sum, sums));
    for (int64_t begin = 0; begin < consumer.rows; begin += panel) {
        const int64_t left = consumer.rows - begin;
        const int64_t count = left < panel ? left : panel;
        const matrix w = matrix_rows(weights, 0, count);
        TRY(matrix_gather(NULL, f->removed, matrix_rows(consumer, begin, count), w));
        TRY(matrix_row_dots(w, matrix_repeat_row(sums, count),
                            matrix_columns(products, begin, count)));
    }
    TRY(matrix_download(products, residual_sum));
out:
    matrix_free(&weights);
    matrix_free(&sums);
    matrix_free(&products);
    return status;
}

/* squares[1, m]: w_R G[R, R] w_R^T for the rows of `weights` W_R[m, R], a panel of R at a time. */
static grail_status removed_squares(const grail_statistics *s, const feature_split *f,
                                    matrix weights, matrix squares)
{
    grail_status status = GRAIL_OK;
    matrix products = no_matrix; /* G[panel of R, R] */
    matrix images = no_matrix;   /* w_R G[R, panel of R] */
    matrix scratch = no_matrix;
    const int64_t all = f->removed_count;
    const int64_t panel = panel_width(all);
    TRY(new_matrix(s, panel, all, &products));
    TRY(new_matrix(s, weights.rows, panel, &images));
    TRY(new_matrix(s, 1, weights.rows, &scratch));
    for (int64_t begin = 0; begin < all; begin += panel) {
        const int64_t count = begin + panel < all ? panel : all - begin;
        const matrix g = matrix_rows(products, 0, count);
        const matrix image = matrix_columns(images, 0, count);
        TRY(matrix_gather(f->removed + begin, f->removed, s->gram, g));
        TRY(matrix_gemm(false, true, 1.0, weights, g, 0.0, image));
        TRY(add_row_products(image, matrix_columns(weights, begin, count), scratch, squares));
    }
out:
    matrix_free(&products);
    matrix_free(&images);
    matrix_free(&scratch);
    return status;
}

/* residual_square_o = w_R G[R, R] w_R^T for the measured outputs. */
static grail_status measure_removed(const grail_statistics *s, const feature_split *f,
                                    matrix consumer, double *residual_square)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* [m, R] */
    matrix squares = no_matrix;
    const matrix measured = measured_rows(consumer);
    TRY(new_matrix(s, measured.rows, f->removed_count, &weights));
    TRY(matrix_new_zero(s->owner, GRAIL_DTYPE_F64, 1, measured.rows, &squares));
    TRY(matrix_gather(NULL, f->removed, measured, weights));
    TRY(removed_squares(s, f, weights, squares));
    TRY(download_measured(squares, regression_measured_stride(consumer.rows), residual_square));
out:
    matrix_free(&weights);
    matrix_free(&squares);
    return status;
}

/* target_square_o = w G w^T = w_R G_RR w_R^T + 2 E_o w_P^T + w_P A w_P^T for measured outputs. */
static grail_status measure_own_output(const feature_split *f, matrix consumer, regression *r)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* [m, K] */
    double *forms = NULL;       /* [m] */
    double *mixed = NULL;       /* [m] */
    const matrix measured = measured_rows(consumer);
    const int64_t step = regression_measured_stride(consumer.rows);
    TRY(matrix_new(consumer.owner, GRAIL_DTYPE_F64, measured.rows, r->width, &weights));
    TRY(memory_new_unset(&forms, (size_t)measured.rows, sizeof *forms));
    TRY(memory_new_unset(&mixed, (size_t)measured.rows, sizeof *mixed));
    TRY(matrix_gather(NULL, f->kept, measured, weights));
    TRY(quadratic_forms(r->gram, weights, forms));
    TRY(row_products(measured_rows(r->cross), weights, mixed));
    for (int64_t i = 0; i < measured.rows; i++) {
        const int64_t o = i * step;
        r->target_square[o] = r->residual_square[o] + 2.0 * mixed[i] + forms[i];
    }
out:
    matrix_free(&weights);
    memory_free(forms);
    memory_free(mixed);
    return status;
}

/* Reduces the statistics to G[P, P] and s_P, frees the memory that they no longer need, and moves
 * them into the regression; s_P stays in the statistics too. */
static grail_status take_kept_sums(grail_statistics *s, const feature_split *f, regression *r)
{
    grail_status status = GRAIL_OK;
    TRY(keep_elements(f->kept, f->kept_count, f->kept, f->kept_count, &s->gram));
    TRY(keep_elements(NULL, 1, f->kept, f->kept_count, &s->sum));
    r->gram = s->gram;
    s->gram = no_matrix;
    TRY(download_row(s->sum, &r->sum));
out:
    return status;
}

static grail_status take_kept_cross(grail_statistics *s, const feature_split *f, regression *r)
{
    grail_status status = GRAIL_OK;
    TRY(keep_elements(NULL, s->outputs, f->kept, f->kept_count, &s->cross));
    r->cross = s->cross;
    s->cross = no_matrix;
    TRY(download_row(s->target_square, &r->target_square));
out:
    return status;
}

/* residual_square_o -= w0_o cross_o for `count` measured outputs from the first-th on. */
static void subtract_rows(const consumer_weights *w, const int64_t *columns, int64_t first,
                          int64_t count, const double *cross, regression *r)
{
    const int64_t step = regression_measured_stride(r->outputs);
    for (int64_t i = 0; i < count; i++) {
        const int64_t o = (first + i) * step;
        const float *weights = w->values + o * w->rows.columns;
        for (int64_t c = 0; c < r->width; c++) {
            r->residual_square[o] -= (double)weights[columns[c]] * cross[i * r->width + c];
        }
    }
}

/* residual_square_o -= w0_o cross_o for measured outputs: with cross = C before and E = C - W0 A
 * after the subtraction this is q_o - w0 C - w0 E = q_o - 2 w0 C + w0 A w0^T. */
static grail_status subtract_measured(const consumer_weights *w, const int64_t *columns,
                                      regression *r)
{
    enum { ROWS = 64 };
    grail_status status = GRAIL_OK;
    host_view view = {.values = NULL};
    const matrix cross = measured_rows(r->cross);
    for (int64_t begin = 0; begin < cross.rows; begin += ROWS) {
        const int64_t count = begin + ROWS < cross.rows ? ROWS : cross.rows - begin;
        TRY(host_view_open(matrix_rows(cross, begin, count), GRAIL_DTYPE_F64, HOST_READS, &view));
        subtract_rows(w, columns, begin, count, view.values, r);
        TRY(host_view_close(&view));
    }
out:
    host_view_drop(&view);
    return status;
}

/* cross = C - W0 A and residual_sum = t - W0 s, with W0 = W[:, columns] and A in both triangles. */
static grail_status subtract_prior(const grail_statistics *s, matrix consumer,
                                   const int64_t *columns, regression *r)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* W0[:, panel] */
    matrix products = no_matrix;
    const int64_t panel = panel_width(r->width);
    TRY(new_matrix(s, r->outputs, panel, &weights));
    TRY(new_matrix(s, 1, r->outputs, &products));
    for (int64_t begin = 0; begin < r->width; begin += panel) {
        const int64_t count = begin + panel < r->width ? panel : r->width - begin;
        const matrix w = matrix_columns(weights, 0, count);
        const matrix sums = matrix_columns(s->sum, begin, count);
        TRY(matrix_gather(NULL, columns + begin, consumer, w));
        TRY(matrix_gemm(false, false, -1.0, w, matrix_rows(r->gram, begin, count), 1.0, r->cross));
        TRY(matrix_row_dots(w, matrix_repeat_row(sums, r->outputs), products));
        TRY(matrix_add_scaled(-1.0, products, s->target_sum));
    }
    TRY(download_row(s->target_sum, &r->residual_sum));
out:
    matrix_free(&weights);
    matrix_free(&products);
    return status;
}

/* The residual of a given target; the statistics are taken over. */
static grail_status residual_of_target(grail_statistics *s, const feature_split *f,
                                       const consumer_weights *w, regression *r)
{
    grail_status status = GRAIL_OK;
    TRY(take_kept_sums(s, f, r));
    TRY(take_kept_cross(s, f, r));
    memcpy(r->residual_square, r->target_square, (size_t)r->outputs * sizeof *r->target_square);
    TRY(subtract_measured(w, f->kept, r));
    TRY(subtract_prior(s, w->rows, f->kept, r));
    TRY(subtract_measured(w, f->kept, r));
out:
    return status;
}

/* The residual of the consumer's own output on the full-width input. */
static grail_status residual_of_own_output(grail_statistics *s, const feature_split *f,
                                           matrix consumer, regression *r)
{
    grail_status status = GRAIL_OK;
    const size_t outputs = (size_t)r->outputs;
    TRY(matrix_new_zero(s->owner, GRAIL_DTYPE_F64, r->outputs, r->width, &r->cross));
    TRY(memory_new(&r->residual_sum, outputs, sizeof *r->residual_sum));
    TRY(memory_new(&r->target_square, outputs, sizeof *r->target_square));
    TRY(add_removed_cross(s, f, consumer, r->cross));
    TRY(sum_removed(s, f, consumer, r->residual_sum));
    TRY(measure_removed(s, f, consumer, r->residual_square));
    TRY(take_kept_sums(s, f, r));
    TRY(measure_own_output(f, consumer, r));
out:
    return status;
}

static grail_status residual_of_selection(grail_statistics *s, const feature_split *f,
                                          const consumer_weights *w, regression *r)
{
    grail_status status = GRAIL_OK;
    TRY(memory_new(&r->residual_square, (size_t)r->outputs, sizeof *r->residual_square));
    TRY(matrix_fill_upper(s->gram));
    status =
        s->outputs == 0 ? residual_of_own_output(s, f, w->rows, r) : residual_of_target(s, f, w, r);
out:
    return status;
}

static void free_sums(grail_statistics *s)
{
    matrix_free(&s->gram);
    matrix_free(&s->sum);
    matrix_free(&s->cross);
    matrix_free(&s->target_sum);
    matrix_free(&s->target_square);
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

static grail_status mean_diagonal(matrix gram, double *out)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    TRY(memory_new_unset(&diagonal, (size_t)gram.rows, sizeof *diagonal));
    TRY(matrix_download_diagonal(gram, diagonal));
    *out = mean_of(gram.rows, diagonal);
out:
    memory_free(diagonal);
    return status;
}

/* `reducer` NULL: the statistics are those of the narrow input and every feature is kept. */
static grail_status take_statistics(grail_statistics *s, const grail_reducer *reducer,
                                    int64_t features_per_unit, int64_t outputs,
                                    const float *consumer, regression *out)
{
    grail_status status = GRAIL_OK;
    feature_split f = {0};
    consumer_weights w = {.values = consumer};
    grail_statistics taken = *s;
    regression r = {0};
    const int64_t width = s->width;
    *s = (grail_statistics){0};
    TRY(split_features(width, reducer, features_per_unit, &f));
    TRY(matrix_import(taken.owner, GRAIL_DTYPE_F32, outputs, width, width, consumer, &w.rows));
    r = (regression){
        .width = f.kept_count, .outputs = outputs, .count = taken.count, .weight = taken.weight};
    TRY(mean_diagonal(taken.gram, &r.full_diagonal));
    TRY(residual_of_selection(&taken, &f, &w, &r));
    *out = r;
    r = (regression){0};
out:
    regression_fini(&r);
    free_sums(&taken);
    matrix_free(&w.rows);
    memory_free(f.kept);
    return status;
}

grail_status regression_from_selection(grail_statistics *s, const grail_reducer *reducer,
                                       int64_t features_per_unit, int64_t outputs,
                                       const float *consumer, regression *out)
{
    const grail_status status = check_selection(s, reducer, features_per_unit, outputs);
    return status == GRAIL_OK
               ? take_statistics(s, reducer, features_per_unit, outputs, consumer, out)
               : status;
}

grail_status regression_from_measured(grail_statistics *s, const float *prior, regression *out)
{
    if (s->outputs == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "regression: statistics of a folded input need a target");
    }
    return take_statistics(s, NULL, 1, s->outputs, prior, out);
}

/* The mean map M: the features of a cluster are the means over its units. */
typedef struct mean_map {
    const grail_reducer *reducer;
    double *share; /* [K] 1 / members */
} mean_map;

static grail_status mean_map_init(mean_map *m, const grail_reducer *reducer)
{
    const grail_status status =
        memory_new_unset(&m->share, (size_t)reducer->kept, sizeof *m->share);
    if (status != GRAIL_OK) {
        return status;
    }
    m->reducer = reducer;
    for (int64_t k = 0; k < reducer->kept; k++) {
        m->share[k] = 1.0 / (double)reducer->members[k];
    }
    return GRAIL_OK;
}

/* OUT[., K u] += IN[., n u] M */
static grail_status map_columns(const mean_map *m, matrix in, matrix out)
{
    return matrix_fold_columns(m->reducer->units, m->reducer->labels, m->share, in, out);
}

/* OUT[K u, .] += M^T IN[n u, .] */
static grail_status map_rows(const mean_map *m, matrix in, matrix out)
{
    return matrix_fold_rows(m->reducer->units, m->reducer->labels, m->share, in, out);
}

/* q_o = w_o G w_o^T of the measured outputs, 0 of the others. */
static grail_status fold_target_squares(matrix gram, matrix weights, matrix out)
{
    grail_status status = GRAIL_OK;
    double *forms = NULL;
    double *squares = NULL;
    const matrix measured = measured_rows(weights);
    const int64_t step = regression_measured_stride(weights.rows);
    TRY(memory_new_unset(&forms, (size_t)measured.rows, sizeof *forms));
    TRY(memory_new(&squares, (size_t)weights.rows, sizeof *squares));
    TRY(quadratic_forms(gram, measured, forms));
    for (int64_t i = 0; i < measured.rows; i++) {
        squares[i * step] = forms[i];
    }
    TRY(matrix_upload(out, squares));
out:
    memory_free(forms);
    memory_free(squares);
    return status;
}

/* The target Y = X W^T in the sums: C = W G M, t = W s, q_o = w_o G w_o^T. `half` is G M. */
static grail_status fold_target(const grail_statistics *s, matrix gram, matrix half,
                                const float *consumer, grail_statistics *out)
{
    grail_status status = GRAIL_OK;
    matrix given = no_matrix;
    matrix weights = no_matrix; /* W in f64 */
    const int64_t outputs = out->outputs;
    TRY(matrix_import(s->owner, GRAIL_DTYPE_F32, outputs, s->width, s->width, consumer, &given));
    TRY(new_matrix(s, outputs, s->width, &weights));
    TRY(matrix_copy(given, weights));
    TRY(matrix_gemm(false, false, 1.0, weights, half, 0.0, out->cross));
    TRY(matrix_row_dots(weights, matrix_repeat_row(s->sum, outputs), out->target_sum));
    TRY(fold_target_squares(gram, weights, out->target_square));
out:
    matrix_free(&given);
    matrix_free(&weights);
    return status;
}

static grail_status fold_statistics(const grail_statistics *s, const mean_map *m,
                                    const float *consumer, grail_statistics *out)
{
    grail_status status = GRAIL_OK;
    matrix gram = no_matrix; /* G in both triangles */
    matrix half = no_matrix; /* G M */
    TRY(new_matrix(s, s->width, s->width, &gram));
    TRY(matrix_new_zero(s->owner, GRAIL_DTYPE_F64, s->width, out->width, &half));
    TRY(matrix_copy(s->gram, gram));
    TRY(matrix_fill_upper(gram));
    TRY(map_columns(m, gram, half));
    TRY(map_rows(m, half, out->gram));
    TRY(map_columns(m, s->sum, out->sum));
    out->count = s->count;
    out->weight = s->weight;
    TRY(fold_target(s, gram, half, consumer, out));
out:
    matrix_free(&gram);
    matrix_free(&half);
    return status;
}

grail_status regression_from_folding(const grail_statistics *s, const grail_reducer *reducer,
                                     int64_t features_per_unit, int64_t outputs,
                                     const float *consumer, const float *prior, regression *out)
{
    grail_status status = GRAIL_OK;
    grail_statistics *folded = NULL;
    mean_map m = {0};
    TRY(mean_map_init(&m, reducer));
    TRY(statistics_create(s->owner, reducer->kept * features_per_unit, outputs, &folded));
    TRY(fold_statistics(s, &m, consumer, folded));
    TRY(regression_from_measured(folded, prior, out));
out:
    grail_statistics_free(folded);
    memory_free(m.share);
    return status;
}
