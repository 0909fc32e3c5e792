#include "stats/statistics.h"

#include "base/option_values.h"

#include <math.h>

void grail_statistics_free(grail_statistics *s)
{
    if (s != NULL) {
        matrix_free(&s->gram);
        matrix_free(&s->sum);
        matrix_free(&s->cross);
        matrix_free(&s->target_sum);
        matrix_free(&s->target_square);
        memory_free(s);
    }
}

static grail_status new_sums(const grail_statistics *s, int64_t rows, int64_t columns, matrix *out)
{
    return matrix_new_zero(s->owner, GRAIL_DTYPE_F64, rows, columns, out);
}

grail_status statistics_create(backend *b, int64_t width, int64_t outputs, grail_statistics **out)
{
    grail_status status = GRAIL_OK;
    grail_statistics *s = NULL;
    if (width <= 0 || outputs < 0) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "statistics: expected 1 or more features and 0 or more outputs, found %lld and %lld",
             (long long)width, (long long)outputs);
    }
    TRY(memory_new(&s, 1, sizeof *s));
    s->owner = b;
    s->width = width;
    s->outputs = outputs;
    TRY(new_sums(s, s->width, s->width, &s->gram));
    TRY(new_sums(s, 1, s->width, &s->sum));
    if (s->outputs > 0) {
        TRY(new_sums(s, s->outputs, s->width, &s->cross));
        TRY(new_sums(s, 1, s->outputs, &s->target_sum));
        TRY(new_sums(s, 1, s->outputs, &s->target_square));
    }
    *out = s;
    s = NULL;
out:
    grail_statistics_free(s);
    return status;
}

grail_status grail_statistics_create(int64_t width, int64_t outputs, grail_statistics **out)
{
    CHECK(option_given("out", "place for the statistics", out));
    return statistics_create(backend_host(), width, outputs, out);
}

grail_status statistics_copy(const grail_statistics *s, grail_statistics **out)
{
    CHECK(statistics_create(s->owner, s->width, s->outputs, out));
    return grail_statistics_add(*out, s);
}

grail_status statistics_of_outputs(const grail_statistics *s, int64_t first, int64_t count,
                                   grail_statistics **out)
{
    CHECK(statistics_create(s->owner, s->width, count, out));
    grail_statistics *part = *out;
    part->count = s->count;
    part->weight = s->weight;
    CHECK(matrix_copy(s->gram, part->gram));
    CHECK(matrix_copy(s->sum, part->sum));
    CHECK(matrix_copy(matrix_rows(s->cross, first, count), part->cross));
    CHECK(matrix_copy(matrix_columns(s->target_sum, first, count), part->target_sum));
    return matrix_copy(matrix_columns(s->target_square, first, count), part->target_square);
}

static grail_status check_target(const grail_statistics *s, int64_t rows, bool has_target)
{
    if (rows < 0 || has_target != (s->outputs > 0)) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "statistics: cannot add %lld rows %s a target to statistics with %lld outputs; give a "
            "target exactly when there are outputs",
            (long long)rows, has_target ? "with" : "without", (long long)s->outputs);
    }
    return GRAIL_OK;
}

grail_status statistics_check_rows(const char *name, matrix x)
{
    int64_t index = -1;
    const grail_status status = matrix_find_non_finite(false, x, &index);
    if (status == GRAIL_OK && index >= 0) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "statistics: the %s is not finite at row %lld, feature %lld", name,
                         (long long)(index / x.columns), (long long)(index % x.columns));
    }
    return status;
}

static grail_status check_batch(const grail_statistics *s, matrix z, matrix y)
{
    CHECK(check_target(s, z.rows, matrix_exists(y)));
    CHECK(statistics_check_rows("input", z));
    if (matrix_exists(y)) {
        CHECK(statistics_check_rows("target", y));
    }
    return GRAIL_OK;
}

grail_status statistics_accumulate(grail_statistics *s, matrix z, matrix y)
{
    CHECK(check_batch(s, z, y));
    if (matrix_exists(y)) {
        CHECK(matrix_cross(y, z, s->cross));
        CHECK(matrix_column_sums(y, s->target_sum, s->target_square));
    }
    CHECK(matrix_gram(z, s->gram));
    CHECK(matrix_column_sums(z, s->sum, no_matrix));
    s->count += z.rows;
    s->weight += (double)z.rows;
    return GRAIL_OK;
}

grail_status statistics_accumulate_weighted(grail_statistics *s, const double *root, matrix z,
                                            matrix y)
{
    grail_status status = GRAIL_OK;
    matrix factor = no_matrix;
    TRY(check_batch(s, z, y));
    TRY(matrix_import(s->owner, GRAIL_DTYPE_F64, 1, z.rows, z.rows, root, &factor));
    /* The products of rows that are scaled by the roots of their weights, and then, since the
     * constant 1 has a weight too, the sums of rows that are scaled by the weights themselves. */
    TRY(matrix_scale_rows(factor, z, z));
    TRY(matrix_gram(z, s->gram));
    if (matrix_exists(y)) {
        TRY(matrix_scale_rows(factor, y, y));
        TRY(matrix_cross(y, z, s->cross));
        TRY(matrix_column_sums(y, no_matrix, s->target_square));
        TRY(matrix_scale_rows(factor, y, y));
        TRY(matrix_column_sums(y, s->target_sum, no_matrix));
    }
    TRY(matrix_scale_rows(factor, z, z));
    TRY(matrix_column_sums(z, s->sum, no_matrix));
    s->count += z.rows;
    for (int64_t t = 0; t < z.rows; t++) {
        s->weight += root[t] * root[t];
    }
out:
    matrix_free(&factor);
    return status;
}

/* The caller's rows, which are only read; a copy where `writes`. */
static grail_status import_rows(const grail_statistics *s, const char *name, bool writes,
                                int64_t rows, int64_t width, const float *x, int64_t stride,
                                matrix *out)
{
    grail_status status = GRAIL_OK;
    matrix given = no_matrix;
    if (x == NULL || stride < width) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "statistics: the %s needs a row stride of %lld or more, found %lld", name,
                         (long long)width, x == NULL ? 0LL : (long long)stride);
    }
    if (!writes) {
        return matrix_import(s->owner, GRAIL_DTYPE_F32, rows, width, stride, x, out);
    }
    TRY(matrix_import(s->owner, GRAIL_DTYPE_F32, rows, width, stride, x, &given));
    TRY(matrix_new(s->owner, backend_type(s->owner), rows, width, out));
    TRY(matrix_copy(given, *out));
out:
    matrix_free(&given);
    return status;
}

grail_status statistics_check_roots(int64_t rows, const double *roots)
{
    for (int64_t t = 0; roots != NULL && t < rows; t++) {
        if (!isfinite(roots[t]) || roots[t] < 0.0) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "statistics: the root of the weight of row %lld is %g, expected a "
                             "finite number of at least 0",
                             (long long)t, roots[t]);
        }
    }
    return GRAIL_OK;
}

grail_status grail_statistics_accumulate_weighted(grail_statistics *s, int64_t rows,
                                                  const double *roots, const float *z,
                                                  int64_t z_stride, const float *y,
                                                  int64_t y_stride)
{
    grail_status status = GRAIL_OK;
    matrix input = no_matrix;
    matrix target = no_matrix;
    CHECK(option_given("statistics", "object of statistics", s));
    CHECK(check_target(s, rows, y != NULL));
    if (rows == 0) {
        return GRAIL_OK;
    }
    TRY(statistics_check_roots(rows, roots));
    TRY(import_rows(s, "input", roots != NULL, rows, s->width, z, z_stride, &input));
    if (y != NULL) {
        TRY(import_rows(s, "target", roots != NULL, rows, s->outputs, y, y_stride, &target));
    }
    TRY(roots == NULL ? statistics_accumulate(s, input, target)
                      : statistics_accumulate_weighted(s, roots, input, target));
out:
    matrix_free(&input);
    matrix_free(&target);
    return status;
}

grail_status grail_statistics_accumulate(grail_statistics *s, int64_t rows, const float *z,
                                         int64_t z_stride, const float *y, int64_t y_stride)
{
    return grail_statistics_accumulate_weighted(s, rows, NULL, z, z_stride, y, y_stride);
}

grail_status grail_statistics_add(grail_statistics *s, const grail_statistics *other)
{
    CHECK(option_given("statistics", "object of statistics", s));
    CHECK(option_given("other", "object of statistics to add", other));
    if (s->width != other->width || s->outputs != other->outputs) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "statistics: cannot add sums of %lld features and %lld outputs to sums of %lld "
            "features and %lld outputs",
            (long long)other->width, (long long)other->outputs, (long long)s->width,
            (long long)s->outputs);
    }
    CHECK(matrix_add_scaled(1.0, other->gram, s->gram));
    CHECK(matrix_add_scaled(1.0, other->sum, s->sum));
    if (s->outputs > 0) {
        CHECK(matrix_add_scaled(1.0, other->cross, s->cross));
        CHECK(matrix_add_scaled(1.0, other->target_sum, s->target_sum));
        CHECK(matrix_add_scaled(1.0, other->target_square, s->target_square));
    }
    s->count += other->count;
    s->weight += other->weight;
    return GRAIL_OK;
}

int64_t grail_statistics_width(const grail_statistics *s)
{
    return s->width;
}

int64_t grail_statistics_outputs(const grail_statistics *s)
{
    return s->outputs;
}

int64_t grail_statistics_count(const grail_statistics *s)
{
    return s->count;
}

double grail_statistics_weight(const grail_statistics *s)
{
    return s->weight;
}

/* One element; NaN when its instance cannot give it, which memory of the host always can. */
static double element(matrix m, int64_t row, int64_t column)
{
    double value = 0.0;
    const matrix one = matrix_columns(matrix_rows(m, row, 1), column, 1);
    return matrix_download(one, &value) == GRAIL_OK ? value : (double)NAN;
}

static bool is_feature(const grail_statistics *s, int64_t i)
{
    return i >= 0 && i < s->width;
}

double grail_statistics_gram(const grail_statistics *s, int64_t i, int64_t j)
{
    if (!is_feature(s, i) || !is_feature(s, j)) {
        return (double)NAN;
    }
    return i >= j ? element(s->gram, i, j) : element(s->gram, j, i);
}

double grail_statistics_mean(const grail_statistics *s, int64_t i)
{
    if (!is_feature(s, i)) {
        return (double)NAN;
    }
    return s->weight > 0.0 ? element(s->sum, 0, i) / s->weight : 0.0;
}

static grail_status not_finite(const char *what, int64_t i, int64_t j)
{
    return error_set(GRAIL_ERROR_NUMERIC, "statistics: %s %lld and feature %lld is not finite",
                     what, (long long)i, (long long)j);
}

static grail_status check_targets(matrix sums)
{
    int64_t output = -1;
    const grail_status status = matrix_find_non_finite(false, sums, &output);
    return status == GRAIL_OK && output >= 0
               ? error_set(GRAIL_ERROR_NUMERIC,
                           "statistics: the target sums of output %lld are not finite",
                           (long long)output)
               : status;
}

grail_status statistics_check_finite(const grail_statistics *s)
{
    int64_t index = -1;
    CHECK(matrix_find_non_finite(true, s->gram, &index));
    if (index >= 0) {
        return not_finite("the gram sum of feature", index / s->width, index % s->width);
    }
    CHECK(matrix_find_non_finite(false, s->sum, &index));
    if (index >= 0) {
        return error_set(GRAIL_ERROR_NUMERIC, "statistics: the sum of feature %lld is not finite",
                         (long long)index);
    }
    if (s->outputs == 0) {
        return GRAIL_OK;
    }
    CHECK(matrix_find_non_finite(false, s->cross, &index));
    if (index >= 0) {
        return not_finite("the cross sum of output", index / s->width, index % s->width);
    }
    CHECK(check_targets(s->target_sum));
    return check_targets(s->target_square);
}
