/* From statistics to the residual form of a regression, inside the statistics' own memory. */
#include "algebra/products.h"
#include "algebra/projection.h"
#include "solve/ridge.h"
#include "stats/shared_rows.h"

#include <string.h>

/* Statistics of X on their way to the regression of Z = X M. */
typedef struct derivation {
    grail_statistics sums;  /* taken over */
    const projection *map;  /* NULL: the sums are those of Z */
    matrix consumer;        /* W[O, n u] in f32, where the target is X W^T; borrowed */
    matrix prior;           /* W0[O, K u] in f32; borrowed */
    const grail_comm *comm; /* ranks that share out the outputs; NULL: one */
} derivation;

int64_t regression_measured_stride(int64_t outputs)
{
    if (outputs <= 2 * REGRESSION_MEASURED) {
        return 1;
    }
    const int64_t stride = (outputs + REGRESSION_MEASURED - 1) / REGRESSION_MEASURED;
    return stride % 3 == 0 ? stride + 1 : stride;
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
    if (into->width != other->width || into->outputs != other->outputs) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "regression: cannot add %lld x %lld sums to %lld x %lld",
                         (long long)other->outputs, (long long)other->width,
                         (long long)into->outputs, (long long)into->width);
    }
    CHECK(matrix_add_scaled(1.0, other->gram, into->gram));
    CHECK(matrix_add_scaled(1.0, other->cross, into->cross));
    add_values(into->width, into->sum, other->sum);
    add_values(into->outputs, into->residual_sum, other->residual_sum);
    add_values(into->outputs, into->residual_square, other->residual_square);
    add_values(into->outputs, into->target_square, other->target_square);
    into->count += other->count;
    into->full_diagonal += other->full_diagonal;
    into->weight += other->weight;
    return GRAIL_OK;
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

/* A panel of removed features; weights[a panel of outputs, of R] is scratch. */
typedef struct removed_panel {
    const int64_t *removed;
    matrix consumer, weights, gram, cross;
} removed_panel;

static grail_status add_removed_panel(int64_t begin, int64_t end, void *context)
{
    const removed_panel *p = context;
    const int64_t count = end - begin;
    const matrix w = matrix_rows(matrix_columns(p->weights, 0, p->gram.rows), 0, count);
    CHECK(matrix_gather(NULL, p->removed, matrix_rows(p->consumer, begin, count), w));
    return matrix_gemm(false, false, 1.0, w, p->gram, 1.0, matrix_rows(p->cross, begin, count));
}

/* E[O, K] += W_R G[R, P] in the rows of this rank. */
static grail_status add_own_removed(const grail_statistics *s, const projection *p,
                                    const shared_rows *rows, matrix consumer, matrix cross)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix;
    matrix products = no_matrix; /* G[panel of R, P] */
    const int64_t panel = feature_panel(s->owner, p->removed_count);
    TRY(new_matrix(s, rows->panel, panel, &weights));
    TRY(new_matrix(s, panel, p->width, &products));
    for (int64_t begin = 0; begin < p->removed_count; begin += panel) {
        const int64_t left = p->removed_count - begin;
        removed_panel part = {.removed = p->removed + begin,
                              .consumer = consumer,
                              .weights = weights,
                              .gram = matrix_rows(products, 0, left < panel ? left : panel),
                              .cross = cross};
        TRY(matrix_gather(part.removed, p->kept, s->gram, part.gram));
        TRY(shared_rows_each(rows, add_removed_panel, &part));
    }
out:
    matrix_free(&weights);
    matrix_free(&products);
    return status;
}

/* residual_sum = W_R s_R, a panel of outputs at a time, so that every sum runs over all of R. */
static grail_status sum_removed(const grail_statistics *s, const projection *p, matrix consumer,
                                double *residual_sum)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* [panel of outputs, R] */
    matrix sums = no_matrix;
    matrix products = no_matrix;
    const int64_t panel = feature_panel(s->owner, consumer.rows);
    TRY(new_matrix(s, panel, p->removed_count, &weights));
    TRY(new_matrix(s, 1, p->removed_count, &sums));
    TRY(new_matrix(s, 1, consumer.rows, &products));
    TRY(matrix_gather(NULL, p->removed, s->sum, sums));
    for (int64_t begin = 0; begin < consumer.rows; begin += panel) {
        const int64_t left = consumer.rows - begin;
        const int64_t count = left < panel ? left : panel;
        const matrix w = matrix_rows(weights, 0, count);
        TRY(matrix_gather(NULL, p->removed, matrix_rows(consumer, begin, count), w));
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
static grail_status removed_squares(const grail_statistics *s, const projection *p, matrix weights,
                                    matrix squares)
{
    grail_status status = GRAIL_OK;
    matrix products = no_matrix; /* G[panel of R, R] */
    matrix images = no_matrix;   /* w_R G[R, panel of R] */
    matrix scratch = no_matrix;
    const int64_t all = p->removed_count;
    const int64_t panel = feature_panel(s->owner, all);
    TRY(new_matrix(s, panel, all, &products));
    TRY(new_matrix(s, weights.rows, panel, &images));
    TRY(new_matrix(s, 1, weights.rows, &scratch));
    for (int64_t begin = 0; begin < all; begin += panel) {
        const int64_t count = begin + panel < all ? panel : all - begin;
        const matrix g = matrix_rows(products, 0, count);
        const matrix image = matrix_columns(images, 0, count);
        TRY(matrix_gather(p->removed + begin, p->removed, s->gram, g));
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
static grail_status measure_removed(const grail_statistics *s, const projection *p, matrix consumer,
                                    double *residual_square)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* [m, R] */
    matrix squares = no_matrix;
    const matrix measured = measured_rows(consumer);
    TRY(new_matrix(s, measured.rows, p->removed_count, &weights));
    TRY(matrix_new_zero(s->owner, GRAIL_DTYPE_F64, 1, measured.rows, &squares));
    TRY(matrix_gather(NULL, p->removed, measured, weights));
    TRY(removed_squares(s, p, weights, squares));
    TRY(download_measured(squares, regression_measured_stride(consumer.rows), residual_square));
out:
    matrix_free(&weights);
    matrix_free(&squares);
    return status;
}

/* Moves the projected sums of the features to the regression; s stays in the statistics too. */
static grail_status take_sums(derivation *d, regression *r)
{
    if (d->map != NULL) {
        CHECK(project_statistics(d->map, &d->sums));
    }
    r->gram = d->sums.gram;
    d->sums.gram = no_matrix;
    return download_row(d->sums.sum, &r->sum);
}

/* target_square_o = |y - z w0|^2 + 2 E_o w0^T + w0 A w0^T for measured outputs. A has both
 * triangles. */
static grail_status measure_target(matrix prior, regression *r)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* [m, K] */
    double *forms = NULL;       /* [m] */
    double *mixed = NULL;       /* [m] */
    const matrix measured = measured_rows(prior);
    const int64_t step = regression_measured_stride(prior.rows);
    TRY(matrix_new(prior.owner, GRAIL_DTYPE_F64, measured.rows, r->width, &weights));
    TRY(memory_new_unset(&forms, (size_t)measured.rows, sizeof *forms));
    TRY(memory_new_unset(&mixed, (size_t)measured.rows, sizeof *mixed));
    TRY(matrix_copy(measured, weights));
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

/* A selection and the consumer's own output Y = X W^T: Y - Z W0^T = X_R W_R^T, with the removed
 * features R, so only their columns are multiplied. */
static grail_status residual_of_removed(derivation *d, regression *r)
{
    const grail_statistics *s = &d->sums;
    const size_t outputs = (size_t)r->outputs;
    CHECK(matrix_new_zero(s->owner, GRAIL_DTYPE_F64, r->outputs, r->width, &r->cross));
    CHECK(memory_new(&r->residual_sum, outputs, sizeof *r->residual_sum));
    CHECK(memory_new(&r->target_square, outputs, sizeof *r->target_square));
    const shared_rows rows = shared_rows_of(d->comm, s->owner, d->consumer.rows);
    CHECK(shared_rows_gather(&rows, add_own_removed(&d->sums, d->map, &rows, d->consumer, r->cross),
                             r->cross));
    CHECK(sum_removed(s, d->map, d->consumer, r->residual_sum));
    CHECK(measure_removed(s, d->map, d->consumer, r->residual_square));
    CHECK(take_sums(d, r));
    return measure_target(d->prior, r);
}

/* q_o = w_o G w_o^T of the measured outputs, 0 of the others. */
static grail_status own_squares(matrix gram, matrix weights, matrix out)
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

/* Sets the sums of the target Y = X W^T: t = W s, q_o = w_o G w_o^T, and over Z already C = W G M.
 */
static grail_status set_own_target(derivation *d, int64_t outputs)
{
    grail_status status = GRAIL_OK;
    grail_statistics *s = &d->sums;
    matrix half = no_matrix;    /* G M */
    matrix weights = no_matrix; /* W in f64 */
    TRY(new_matrix(s, s->width, d->map->width, &half));
    TRY(new_matrix(s, outputs, s->width, &weights));
    TRY(new_matrix(s, outputs, d->map->width, &s->cross));
    TRY(new_matrix(s, 1, outputs, &s->target_sum));
    TRY(new_matrix(s, 1, outputs, &s->target_square));
    TRY(project(d->map, s->gram, half));
    TRY(matrix_copy(d->consumer, weights));
    TRY(matrix_gemm(false, false, 1.0, weights, half, 0.0, s->cross));
    TRY(matrix_row_dots(weights, matrix_repeat_row(s->sum, outputs), s->target_sum));
    TRY(own_squares(s->gram, weights, s->target_square));
out:
    matrix_free(&half);
    matrix_free(&weights);
    return status;
}

/* What subtract_measured does, on the host: one weight after the other. */
static grail_status subtract_in_order(matrix prior, regression *r)
{
    grail_status status = GRAIL_OK;
    host_view weights = {.values = NULL};
    host_view cross = {.values = NULL};
    TRY(host_view_open(prior, GRAIL_DTYPE_F32, HOST_READS, &weights));
    TRY(host_view_open(r->cross, GRAIL_DTYPE_F64, HOST_READS, &cross));
    for (int64_t o = 0; o < r->outputs; o += regression_measured_stride(r->outputs)) {
        const float *w0 = (const float *)weights.values + o * r->width;
        const double *sums = (const double *)cross.values + o * r->width;
        for (int64_t c = 0; c < r->width; c++) {
            r->residual_square[o] -= (double)w0[c] * sums[c];
        }
    }
out:
    host_view_drop(&weights);
    host_view_drop(&cross);
    return status;
}

/* residual_square_o -= w0_o cross_o for measured outputs: with cross = C before and E = C - W0 A
 * after the subtraction this is q_o - w0 C - w0 E = q_o - 2 w0 C + w0 A w0^T. */
static grail_status subtract_measured(matrix prior, regression *r)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix;
    double *products = NULL;
    const matrix measured = measured_rows(prior);
    if (backend_is_host(prior.owner)) {
        return subtract_in_order(prior, r);
    }
    TRY(matrix_new(prior.owner, GRAIL_DTYPE_F64, measured.rows, r->width, &weights));
    TRY(memory_new_unset(&products, (size_t)measured.rows, sizeof *products));
    TRY(matrix_copy(measured, weights));
    TRY(row_products(measured_rows(r->cross), weights, products));
    for (int64_t i = 0; i < measured.rows; i++) {
        r->residual_square[i * regression_measured_stride(r->outputs)] -= products[i];
    }
out:
    matrix_free(&weights);
    memory_free(products);
    return status;
}

/* A panel of outputs of the residual; weights[a panel, K] and products[a panel] are scratch. */
typedef struct residual_panel {
    matrix prior, weights;
    double *products;
    regression *r;
} residual_panel;

/* cross = C - W0 A and residual_sum = t - W0 s of outputs begin .. end - 1. */
static grail_status subtract_panel(int64_t begin, int64_t end, void *context)
{
    const residual_panel *p = context;
    const int64_t count = end - begin;
    const matrix w = matrix_rows(p->weights, 0, count);
    CHECK(matrix_copy(matrix_rows(p->prior, begin, count), w));
    CHECK(matrix_gemm(false, false, -1.0, w, p->r->gram, 1.0,
                      matrix_rows(p->r->cross, begin, count)));
    CHECK(vector_products(w, p->r->sum, p->products));
    for (int64_t i = 0; i < count; i++) {
        p->r->residual_sum[begin + i] -= p->products[i];
    }
    return GRAIL_OK;
}

/* The residual of a target in the sums: of one that was given, or of the consumer's own output. */
static grail_status residual_of_target(derivation *d, regression *r)
{
    grail_statistics *s = &d->sums;
    if (s->outputs == 0) {
        CHECK(set_own_target(d, r->outputs));
    }
    CHECK(take_sums(d, r));
    r->cross = s->cross;
    s->cross = no_matrix;
    CHECK(download_row(s->target_square, &r->target_square));
    CHECK(download_row(s->target_sum, &r->residual_sum));
    memcpy(r->residual_square, r->target_square, (size_t)r->outputs * sizeof *r->target_square);
    CHECK(subtract_measured(d->prior, r));
    /* cross holds C and residual_sum t before; A has both triangles. */
    residual_panel panel = {.prior = d->prior, .r = r};
    const shared_rows rows = shared_rows_of(d->comm, r->gram.owner, r->outputs);
    grail_status status =
        matrix_new(r->gram.owner, GRAIL_DTYPE_F64, rows.panel, r->width, &panel.weights);
    if (status == GRAIL_OK) {
        status = memory_new_unset(&panel.products, (size_t)rows.panel, sizeof panel.products[0]);
    }
    if (status == GRAIL_OK) {
        status = shared_rows_each(&rows, subtract_panel, &panel);
    }
    matrix_free(&panel.weights);
    memory_free(panel.products);
    CHECK(shared_rows_gather(&rows, status, r->cross));
    CHECK(shared_rows_gather_bytes(&rows, GRAIL_OK, r->residual_sum, sizeof r->residual_sum[0]));
    return subtract_measured(d->prior, r);
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

static grail_status check_statistics(const grail_statistics *s, const grail_reducer *reducer,
                                     int64_t features_per_unit, int64_t outputs)
{
    if (reducer == NULL && s->outputs == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "regression: statistics of a reduced input need a target");
    }
    if (reducer != NULL &&
        (features_per_unit <= 0 || s->width != reducer->units * features_per_unit)) {
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

grail_status regression_derive(const grail_comm *comm, grail_statistics *s,
                               const grail_reducer *reducer, int64_t features_per_unit,
                               matrix consumer, matrix prior, regression *out)
{
    const int64_t outputs = prior.rows;
    grail_status status = check_statistics(s, reducer, features_per_unit, outputs);
    if (status != GRAIL_OK) {
        return status;
    }
    projection map = {0};
    regression r = {0};
    derivation d = {.sums = *s, .consumer = consumer, .prior = prior, .comm = comm};
    *s = (grail_statistics){0};
    r = (regression){
        .width = d.sums.width, .outputs = outputs, .count = d.sums.count, .weight = d.sums.weight};
    if (reducer != NULL) {
        TRY(reducer_projection(reducer, features_per_unit, &map));
        d.map = &map;
        r.width = map.width;
    }
    /* A folding has only its merged features: its `full_diagonal` is that of A. */
    const bool folds = d.map != NULL && d.map->shares != NULL;
    TRY(memory_new(&r.residual_square, (size_t)r.outputs, sizeof *r.residual_square));
    TRY(mean_diagonal(d.sums.gram, &r.full_diagonal));
    TRY(matrix_fill_upper(d.sums.gram));
    if (d.sums.outputs == 0 && !folds) {
        TRY(residual_of_removed(&d, &r));
    } else {
        TRY(residual_of_target(&d, &r));
    }
    if (folds) {
        TRY(mean_diagonal(r.gram, &r.full_diagonal));
    }
    *out = r;
    r = (regression){0};
out:
    regression_fini(&r);
    statistics_free_sums(&d.sums);
    projection_fini(&map);
    return status;
}

grail_status regression_of_residual(grail_statistics *s, matrix prior, regression *out)
{
    if (s->outputs != prior.rows || s->width != prior.columns) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "regression: the sums are %lld x %lld, but the consumer is %lld x %lld",
                         (long long)s->outputs, (long long)s->width, (long long)prior.rows,
                         (long long)prior.columns);
    }
    grail_status status = GRAIL_OK;
    derivation d = {.sums = *s, .prior = prior};
    regression r = {
        .width = s->width, .outputs = s->outputs, .count = s->count, .weight = s->weight};
    *s = (grail_statistics){0};
    TRY(matrix_fill_upper(d.sums.gram));
    TRY(mean_diagonal(d.sums.gram, &r.full_diagonal));
    TRY(take_sums(&d, &r));
    r.cross = d.sums.cross;
    d.sums.cross = no_matrix;
    TRY(download_row(d.sums.target_sum, &r.residual_sum));
    TRY(download_row(d.sums.target_square, &r.residual_square));
    TRY(memory_new(&r.target_square, (size_t)r.outputs, sizeof *r.target_square));
    TRY(measure_target(prior, &r));
    *out = r;
    r = (regression){0};
out:
    regression_fini(&r);
    statistics_free_sums(&d.sums);
    return status;
}
