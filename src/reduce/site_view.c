#include "reduce/site_view.h"

#include "backend/operations.h"
#include "base/memory.h"
#include "graph/operators.h"
#include "stats/constant_features.h"

#include <string.h>

/* m[others, count] <- its columns from `first` on, of `width`. */
static grail_status take_columns(unit_matrix *m, int64_t first, int64_t count, int64_t width)
{
    float *taken = NULL;
    CHECK(memory_new_unset(&taken, (size_t)m->others, (size_t)count * sizeof taken[0]));
    for (int64_t r = 0; r < m->others; r++) {
        memcpy(taken + r * count, m->values + r * width + first, (size_t)count * sizeof taken[0]);
    }
    memory_free(m->owned);
    m->owned = taken;
    m->values = taken;
    return GRAIL_OK;
}

/* m[others, groups * width] <- its rows[others, width], each among the columns of its group. */
static grail_status spread_rows(unit_matrix *m, int64_t groups, int64_t width)
{
    float *spread = NULL;
    CHECK(memory_new(&spread, (size_t)m->others, (size_t)(groups * width) * sizeof spread[0]));
    for (int64_t r = 0; r < m->others; r++) {
        memcpy(spread + r * groups * width + r * groups / m->others * width, m->values + r * width,
               (size_t)width * sizeof spread[0]);
    }
    memory_free(m->owned);
    m->owned = spread;
    m->values = spread;
    return GRAIL_OK;
}

/* Nothing where there is no parameter. */
static grail_status read_rows(const site_view *v, const site_end *end, int parameter,
                              unit_matrix *out)
{
    *out = (unit_matrix){0};
    if (parameter == GRAPH_NONE) {
        return GRAIL_OK;
    }
    out->features = end->features_per_unit;
    const graph_parameter *p = &v->graph->parameters[parameter];
    out->others = row_elements(p->rank, p->shape);
    out->exchangeable = end->exchangeable;
    CHECK(v->weights.borrow(v->weights.context, parameter, &out->values, &out->owned));
    out->values += end->first * out->others;
    return GRAIL_OK;
}

static const node *node_of_end(const site_view *v, const site_end *end)
{
    return &v->graph->nodes[end->node];
}

/* A site of a graph has all its ends; one of a caller's buffers may lack some. */
static grail_status check_end(const char *what, int index, int count)
{
    return index < count ? GRAIL_OK
                         : error_set(GRAIL_ERROR_ARGUMENT,
                                     "the weights of %s %d of the site are needed, but there are "
                                     "those of %d",
                                     what, index, count);
}

grail_status site_view_producer(const site_view *v, int p, unit_matrix *out)
{
    CHECK(check_end("producer", p, v->site->producer_count));
    const site_end *end = &v->site->producers[p];
    return read_rows(v, end, node_of_end(v, end)->weight, out);
}

grail_status site_view_consumer(const site_view *v, int k, unit_matrix *out)
{
    CHECK(check_end("consumer", k, v->site->consumer_count));
    const site_end *end = &v->site->consumers[k];
    const int weight = node_of_end(v, end)->weight;
    const int64_t groups = node_groups(node_of_end(v, end));
    const graph_parameter *p = &v->graph->parameters[weight];
    const int64_t width = row_elements(p->rank, p->shape);
    const int64_t taps = weight_taps(p);
    const int64_t count = v->site->units * end->features_per_unit * taps;
    *out = (unit_matrix){.features = end->features_per_unit * taps,
                         .others = p->shape[0],
                         .exchangeable = end->exchangeable};
    CHECK(v->weights.borrow(v->weights.context, weight, &out->values, &out->owned));
    if (v->group_count > 1) {
        out->others /= v->group_count;
        out->values += v->group * out->others * width;
    } else if (groups > 1) {
        return spread_rows(out, groups, width);
    }
    return count == width ? GRAIL_OK : take_columns(out, end->first * taps, count, width);
}

grail_status site_view_end(const site_view *v, const site_end *end, unit_matrix *weight,
                           unit_matrix *bias)
{
    CHECK(read_rows(v, end, node_of_end(v, end)->weight, weight));
    return read_rows(v, end, node_of_end(v, end)->bias, bias);
}

void unit_matrix_fini(unit_matrix *m)
{
    memory_free(m->owned);
    *m = (unit_matrix){0};
}

/* -- the weights of a consumer as rows over its statistics ------------------------------------- */

grail_status consumer_rows_open(const site_view *v, int consumer, int64_t width, consumer_rows *out)
{
    CHECK(site_view_consumer(v, consumer, &out->weight));
    const int64_t all = v->site->units * out->weight.features;
    if (width <= 0 || all % width != 0) {
        return error_set(GRAIL_ERROR_INTERNAL, "statistics of %lld features for a consumer of %lld",
                         (long long)width, (long long)all);
    }
    out->positions = all / width;
    out->count = out->weight.others * out->positions;
    out->width = width;
    out->backend = v->backend;
    return GRAIL_OK;
}

void consumer_rows_fini(consumer_rows *r)
{
    unit_matrix_fini(&r->weight);
    matrix_free(&r->placed);
    *r = (consumer_rows){0};
}

grail_status consumer_rows_place(const site_view *v, int consumer, consumer_rows *r)
{
    const int weight = node_of_end(v, &v->site->consumers[consumer])->weight;
    const graph_parameter *p = &v->graph->parameters[weight];
    if (backend_is_host(v->backend) || v->weights.copy == NULL || r->positions > 1 ||
        v->group_count > 1 || row_elements(p->rank, p->shape) != r->width) {
        return GRAIL_OK;
    }
    CHECK(matrix_new(v->backend, GRAIL_DTYPE_F32, r->count, r->width, &r->placed));
    return v->weights.copy(v->weights.context, weight, r->placed);
}

/* Row o * positions + p is W[o, :, p]. */
static void take_row(const consumer_rows *r, int64_t row, float *out)
{
    const float *weight =
        r->weight.values + row / r->positions * r->width * r->positions + row % r->positions;
    for (int64_t j = 0; j < r->width; j++) {
        out[j] = weight[j * r->positions];
    }
}

void consumer_rows_copy(const consumer_rows *r, float *out)
{
    for (int64_t i = 0; i < r->count; i++) {
        take_row(r, i, out + i * r->width);
    }
}

grail_status consumer_rows_read(const consumer_rows *r, int64_t begin, matrix rows)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    matrix narrow = no_matrix;
    if (matrix_exists(r->placed)) {
        return matrix_copy(matrix_rows(r->placed, begin, rows.rows), rows);
    }
    TRY(memory_new_unset(&values, (size_t)rows.rows, (size_t)r->width * sizeof values[0]));
    for (int64_t i = 0; i < rows.rows; i++) {
        take_row(r, begin + i, values + i * r->width);
    }
    TRY(matrix_import(r->backend, GRAIL_DTYPE_F32, rows.rows, r->width, r->width, values, &narrow));
    TRY(matrix_copy(narrow, rows));
out:
    matrix_free(&narrow);
    memory_free(values);
    return status;
}

/* -- statistics -------------------------------------------------------------------------------- */

void input_statistics_free(int count, input_statistics *inputs)
{
    for (int i = 0; inputs != NULL && i < count; i++) {
        memory_free((double *)(uintptr_t)inputs[i].diagonal);
        memory_free((double *)(uintptr_t)inputs[i].means);
        matrix_free(&inputs[i].gram);
        matrix_free(&inputs[i].cross);
        memory_free((double *)(uintptr_t)inputs[i].target_means);
    }
    memory_free(inputs);
}

/* The diagonals of the blocks of groups come one after the other. */
static grail_status download(matrix m, bool diagonal, double *out)
{
    for (int64_t row = 0; diagonal && row < m.rows; row += m.columns) {
        CHECK(matrix_download_diagonal(matrix_rows(m, row, m.columns), out + row));
    }
    return diagonal ? GRAIL_OK : matrix_download(m, out);
}

/* *out[columns] = (fit + held) / divisor, of rows or of diagonals. */
static grail_status add_parts(matrix fit, matrix held, bool diagonals, double divisor,
                              const double **out)
{
    grail_status status = GRAIL_OK;
    double *sums = NULL;
    double *more = NULL;
    const int64_t count = diagonals ? fit.rows : fit.columns;
    TRY(memory_new(&sums, (size_t)count, sizeof sums[0]));
    *out = sums;
    TRY(memory_new(&more, (size_t)count, sizeof more[0]));
    TRY(download(fit, diagonals, sums));
    TRY(download(held, diagonals, more));
    for (int64_t i = 0; i < count; i++) {
        sums[i] = divisor > 0.0 ? (sums[i] + more[i]) / divisor : 0.0;
    }
out:
    memory_free(more);
    return status;
}

/* *out = fit + held */
static grail_status add_matrices(matrix fit, matrix held, matrix *out)
{
    CHECK(matrix_new(fit.owner, GRAIL_DTYPE_F64, fit.rows, fit.columns, out));
    CHECK(matrix_copy(fit, *out));
    return matrix_add_scaled(1.0, held, *out);
}

grail_status input_statistics_take(unsigned needs, const grail_statistics *fit,
                                   const grail_statistics *held, input_statistics *out)
{
    const double weight = fit->weight + held->weight;
    *out = (input_statistics){.width = fit->width,
                              .groups = fit->groups,
                              .weight = weight,
                              .rows = (double)(fit->count + held->count),
                              .rounding = sums_rounding(fit->owner, fit->count + held->count)};
    if ((needs & NEEDS_DIAGONAL) != 0) {
        CHECK(add_parts(fit->gram, held->gram, true, 1.0, &out->diagonal));
    }
    if ((needs & NEEDS_MEANS) != 0) {
        CHECK(add_parts(fit->sum, held->sum, false, weight, &out->means));
    }
    if ((needs & NEEDS_GRAM) != 0) {
        CHECK(add_matrices(fit->gram, held->gram, &out->gram));
    }
    if ((needs & NEEDS_TARGET) != 0 && fit->outputs > 0) {
        CHECK(add_matrices(fit->cross, held->cross, &out->cross));
        CHECK(add_parts(fit->target_sum, held->target_sum, false, weight, &out->target_means));
    }
    return GRAIL_OK;
}
