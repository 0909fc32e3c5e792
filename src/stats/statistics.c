#include "stats/statistics.h"

#include "base/option_values.h"
#include "stats/row_squares.h"

#include <math.h>
#include <stdio.h>

void statistics_free_sums(grail_statistics *s)
{
    matrix_free(&s->gram);
    matrix_free(&s->sum);
    matrix_free(&s->cross);
    matrix_free(&s->target_sum);
    matrix_free(&s->target_square);
    matrix_free(&s->weights);
}

void grail_statistics_free(grail_statistics *s)
{
    if (s != NULL) {
        statistics_free_sums(s);
        memory_free(s);
    }
}

static grail_status new_sums(const grail_statistics *s, int64_t rows, int64_t columns, matrix *out)
{
    return matrix_new_zero(s->owner, GRAIL_DTYPE_F64, rows, columns, out);
}

grail_status statistics_create(backend *b, int64_t width, int64_t outputs, grail_statistics **out)
{
    return statistics_create_grouped(b, width, outputs, 1, out);
}

grail_status statistics_create_grouped(backend *b, int64_t width, int64_t outputs, int64_t groups,
                                       grail_statistics **out)
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
    s->groups = groups;
    TRY(new_sums(s, s->width, s->width / groups, &s->gram));
    TRY(new_sums(s, 1, s->width, &s->sum));
    TRY(new_sums(s, 1, 1, &s->weights));
    if (s->outputs > 0) {
        TRY(new_sums(s, s->outputs, s->width / groups, &s->cross));
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
    CHECK(statistics_create_grouped(s->owner, s->width, s->outputs, s->groups, out));
    return grail_statistics_add(*out, s);
}

/* Run `i` of `count` equal ones. */
static matrix run_of_columns(matrix m, int64_t count, int64_t i)
{
    const int64_t length = m.columns / count;
    return matrix_exists(m) ? matrix_columns(m, i * length, length) : m;
}

static matrix run_of_rows(matrix m, int64_t count, int64_t i)
{
    const int64_t length = m.rows / count;
    return matrix_exists(m) ? matrix_rows(m, i * length, length) : m;
}

grail_statistics statistics_group(const grail_statistics *s, int64_t group)
{
    grail_statistics own = *s;
    if (s->groups > 1) {
        own.groups = 1;
        own.width /= s->groups;
        own.outputs /= s->groups;
        own.gram = run_of_rows(s->gram, s->groups, group);
        own.sum = run_of_columns(s->sum, s->groups, group);
        own.cross = run_of_rows(s->cross, s->groups, group);
        own.target_sum = run_of_columns(s->target_sum, s->groups, group);
        own.target_square = run_of_columns(s->target_square, s->groups, group);
    }
    return own;
}

grail_status statistics_of_group(const grail_statistics *s, int64_t group, grail_statistics **out)
{
    const grail_statistics own = statistics_group(s, group);
    return statistics_copy(&own, out);
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

grail_status statistics_add_columns(grail_statistics *s, const grail_statistics *wider,
                                    int64_t first)
{
    grail_statistics own = *wider;
    own.width = s->width;
    own.gram = matrix_columns(matrix_rows(wider->gram, first, s->width), first, s->width);
    own.sum = matrix_columns(wider->sum, first, s->width);
    return grail_statistics_add(s, &own);
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

grail_status statistics_watch_rows(const char *name, matrix x)
{
    char text[WATCH_TEXT];
    snprintf(text, sizeof text, "statistics: the %s is not finite", name);
    return matrix_watch(x, 0, text);
}

static grail_status watch_batch(matrix z, matrix y)
{
    CHECK(statistics_watch_rows("input", z));
    return matrix_exists(y) ? statistics_watch_rows("target", y) : GRAIL_OK;
}

/* Sums of columns of z, or of room = root z, and of y, which then becomes root y; rows count by
 * their roots once more, since the constant 1 is scaled, too. A host takes few rows at once, which
 * stay in its caches between the two passes. */
static grail_status sum_columns(const grail_statistics *s, matrix root, matrix z, matrix y,
                                matrix room)
{
    enum { NEAR_ELEMENTS = 1 << 18 };
    const int64_t few = NEAR_ELEMENTS / (z.columns + y.columns) + 1;
    const int64_t step =
        matrix_exists(root) && backend_is_host(s->owner) && few < z.rows ? few : z.rows;
    for (int64_t begin = 0; begin < z.rows; begin += step) {
        const int64_t rows = begin + step < z.rows ? step : z.rows - begin;
        matrix input = matrix_rows(z, begin, rows);
        const matrix target = matrix_exists(y) ? matrix_rows(y, begin, rows) : y;
        matrix own = root;
        if (matrix_exists(root)) {
            own = matrix_columns(root, begin, rows);
            CHECK(matrix_scale_rows(own, input, matrix_rows(room, begin, rows)));
            input = matrix_rows(room, begin, rows);
        }
        CHECK(matrix_column_sums(input, own, s->sum, no_matrix));
        if (matrix_exists(y) && matrix_exists(root)) {
            CHECK(matrix_scale_rows(own, target, target));
            CHECK(matrix_column_sums(target, no_matrix, no_matrix, s->target_square));
            CHECK(matrix_column_sums(target, own, s->target_sum, no_matrix));
        } else if (matrix_exists(y)) {
            CHECK(matrix_column_sums(target, no_matrix, s->target_sum, s->target_square));
        }
    }
    return GRAIL_OK;
}

/* Adds the sums of columns, which come first: where these are finite all rows are, and are not
 * searched. Where they are not, and a row is the reason, nothing is added. A device searches behind
 * the host's back. */
static grail_status add_columns(grail_statistics *s, matrix root, matrix z, matrix y, matrix room)
{
    enum { SUMS = 3 };
    grail_status status = GRAIL_OK;
    const matrix sums[SUMS] = {s->sum, s->target_sum, s->target_square};
    matrix before[SUMS] = {no_matrix, no_matrix, no_matrix};
    const int count = matrix_exists(y) ? SUMS : 1;
    int64_t found = -1;
    if (!backend_is_host(s->owner)) {
        CHECK(watch_batch(z, y));
        return sum_columns(s, root, z, y, room);
    }
    for (int i = 0; i < count; i++) {
        TRY(matrix_new(s->owner, GRAIL_DTYPE_F64, 1, sums[i].columns, &before[i]));
        TRY(matrix_copy(sums[i], before[i]));
    }
    TRY(sum_columns(s, root, z, y, room));
    for (int i = 0; i < count && found < 0; i++) {
        TRY(matrix_find_non_finite(false, sums[i], &found));
    }
    status = found < 0 ? GRAIL_OK : watch_batch(z, y);
    for (int i = 0; i < count && status != GRAIL_OK; i++) {
        const grail_status restored = matrix_copy(before[i], sums[i]);
        status = restored == GRAIL_OK ? status : restored;
    }
out:
    for (int i = 0; i < SUMS; i++) {
        matrix_free(&before[i]);
    }
    return status;
}

static grail_status add_gram(const grail_statistics *s, matrix z)
{
    for (int64_t g = 0; g < s->groups; g++) {
        CHECK(matrix_gram(run_of_columns(z, s->groups, g), statistics_group(s, g).gram));
    }
    return GRAIL_OK;
}

static grail_status add_cross(const grail_statistics *s, matrix z, matrix y)
{
    for (int64_t g = 0; g < s->groups; g++) {
        CHECK(matrix_cross(run_of_columns(y, s->groups, g), run_of_columns(z, s->groups, g),
                           statistics_group(s, g).cross));
    }
    return GRAIL_OK;
}

grail_status statistics_accumulate(grail_statistics *s, matrix z, matrix y)
{
    CHECK(check_target(s, z.rows, matrix_exists(y)));
    CHECK(add_columns(s, no_matrix, z, y, no_matrix));
    CHECK(matrix_exists(y) ? add_cross(s, z, y) : GRAIL_OK);
    CHECK(add_gram(s, z));
    s->count += z.rows;
    s->weight += (double)z.rows;
    return GRAIL_OK;
}

grail_status statistics_accumulate_weighted(grail_statistics *s, matrix root, matrix z, matrix y,
                                            matrix room)
{
    CHECK(check_target(s, z.rows, matrix_exists(y)));
    CHECK(add_columns(s, root, z, y, room));
    CHECK(add_gram(s, room));
    CHECK(matrix_exists(y) ? add_cross(s, room, y) : GRAIL_OK);
    s->count += z.rows;
    const matrix column = matrix_reshape(root, root.columns, 1);
    return matrix_add_products(column, column, s->weights);
}

grail_status statistics_read_weight(grail_statistics *s)
{
    double weight = 0.0;
    CHECK(matrix_download(s->weights, &weight));
    s->weight += weight;
    return matrix_zero(s->weights);
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

/* The weights are added to those before, one after the other, in `weights`. */
static grail_status add_weighted_rows(grail_statistics *s, const double *roots, matrix z, matrix y)
{
    grail_status status = GRAIL_OK;
    matrix root = no_matrix;
    const double before = s->weight;
    TRY(matrix_import(s->owner, GRAIL_DTYPE_F64, 1, z.rows, z.rows, roots, &root));
    TRY(matrix_upload(s->weights, &before));
    TRY(statistics_accumulate_weighted(s, root, z, y, z));
    s->weight = 0.0;
    TRY(statistics_read_weight(s));
out:
    matrix_free(&root);
    return status;
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
                      : add_weighted_rows(s, roots, input, target));
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
    if (s->width != other->width || s->outputs != other->outputs || s->groups != other->groups) {
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
    enum { MATRICES = 5 };
    int64_t index = -1;
    bool finite = false;
    const matrix sums[MATRICES] = {s->gram, s->sum, s->cross, s->target_sum, s->target_square};
    for (int64_t g = 0; s->groups > 1 && g < s->groups; g++) {
        const grail_statistics own = statistics_group(s, g);
        CHECK(statistics_check_finite(&own));
    }
    if (s->groups > 1) {
        return GRAIL_OK;
    }
    CHECK(matrices_are_finite(MATRICES, sums, (const bool[MATRICES]){true}, &finite));
    if (finite) {
        return GRAIL_OK;
    }
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

/* -- the bias in a target ---------------------------------------------------------------------- */

grail_status statistics_shift_target(grail_statistics *s, const double *bias)
{
    grail_status status = GRAIL_OK;
    const double weight = s->weight;
    matrix b = {0};
    host_view sums = {0};
    host_view squares = {0};
    TRY(matrix_import(s->owner, GRAIL_DTYPE_F64, 1, s->outputs, s->outputs, bias, &b));
    for (int64_t g = 0; g < s->groups; g++) {
        const grail_statistics own = statistics_group(s, g);
        TRY(matrix_add_outer(false, -1.0, run_of_columns(b, s->groups, g), own.sum, own.cross));
    }
    TRY(host_view_open(s->target_sum, GRAIL_DTYPE_F64, HOST_UPDATES, &sums));
    TRY(host_view_open(s->target_square, GRAIL_DTYPE_F64, HOST_UPDATES, &squares));
    double *sum = sums.values;
    double *square = squares.values;
    for (int64_t o = 0; o < s->outputs; o++) {
        square[o] += bias[o] * (weight * bias[o] - 2.0 * sum[o]);
        sum[o] -= weight * bias[o];
    }
    TRY(host_view_close(&sums));
    TRY(host_view_close(&squares));
out:
    host_view_drop(&sums);
    host_view_drop(&squares);
    matrix_free(&b);
    return status;
}

grail_status grail_statistics_shift_target(grail_statistics *s, const double *bias)
{
    CHECK(option_given("statistics", "object of statistics", s));
    CHECK(option_given("bias", "bias to take from the target", bias));
    if (s->outputs == 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "statistics: there is no target to take a bias from");
    }
    for (int64_t o = 0; o < s->outputs; o++) {
        if (!isfinite(bias[o])) {
            return error_set(GRAIL_ERROR_NUMERIC, "statistics: the bias of output %lld is %g",
                             (long long)o, bias[o]);
        }
    }
    return statistics_shift_target(s, bias);
}

/* -- weights of rows --------------------------------------------------------------------------- */

grail_status grail_row_roots(int64_t rows, int64_t width, const float *x, int64_t stride,
                             double *median_square, double *roots)
{
    grail_status status = GRAIL_OK;
    matrix values = no_matrix;
    matrix squares = no_matrix;
    double median = 0.0;
    CHECK(option_given("median_square", "place for the median", median_square));
    if (rows < 0 || width <= 0 || stride < width || (rows > 0 && (x == NULL || roots == NULL))) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "row roots: cannot read %lld rows of %lld features with a stride of %lld",
                         (long long)rows, (long long)width, (long long)stride);
    }
    if (rows == 0) {
        return GRAIL_OK;
    }
    median = *median_square;
    TRY(matrix_import(backend_host(), GRAIL_DTYPE_F32, rows, width, stride, x, &values));
    TRY(statistics_watch_rows("stream", values));
    TRY(row_squares_make(values, rows, &squares));
    TRY(roots_of_squares(&median, squares));
    TRY(matrix_download(squares, roots));
    *median_square = median;
out:
    matrix_free(&squares);
    matrix_free(&values);
    return status;
}

/* -- sums as arrays ---------------------------------------------------------------------------- */

enum { SUMS = 5 };

/* The sums of statistics beside the arrays for them. Those of a target do not exist without one. */
typedef struct sum_array {
    const char *name;
    matrix sums;
    double *array;
} sum_array;

static void pair_sums(const grail_statistics *s, const grail_sums *arrays, sum_array out[SUMS])
{
    const sum_array pairs[SUMS] = {
        {"gram", s->gram, arrays->gram},
        {"sum", s->sum, arrays->sum},
        {"cross", s->cross, arrays->cross},
        {"target_sum", s->target_sum, arrays->target_sum},
        {"target_square", s->target_square, arrays->target_square},
    };
    for (int i = 0; i < SUMS; i++) {
        out[i] = pairs[i];
    }
}

static grail_status no_target(const char *name)
{
    return error_about(
        error_set(GRAIL_ERROR_ARGUMENT, "statistics: '%s' is given, but there is no target", name),
        name);
}

grail_status grail_statistics_get(const grail_statistics *s, const grail_sums *out)
{
    sum_array pairs[SUMS];
    CHECK(option_given("statistics", "object of statistics", s));
    CHECK(option_given("out", "set of arrays for the sums", out));
    CHECK(OPTION_ROOM_OF(grail_sums, out));
    pair_sums(s, out, pairs);
    for (int i = 0; i < SUMS; i++) {
        if (pairs[i].array != NULL && !matrix_exists(pairs[i].sums)) {
            return no_target(pairs[i].name);
        }
    }
    for (int i = 0; i < SUMS; i++) {
        if (pairs[i].array != NULL) {
            CHECK(matrix_download(pairs[i].sums, pairs[i].array));
        }
    }
    if (out->gram != NULL) {
        for (int64_t i = 0; i < s->width; i++) {
            for (int64_t j = 0; j < i; j++) {
                out->gram[j * s->width + i] = out->gram[i * s->width + j];
            }
        }
    }
    return GRAIL_OK;
}

static grail_status check_arrays(const sum_array pairs[SUMS], int64_t count, double weight)
{
    for (int i = 0; i < SUMS; i++) {
        if (pairs[i].array != NULL && !matrix_exists(pairs[i].sums)) {
            return no_target(pairs[i].name);
        }
        if (pairs[i].array == NULL && matrix_exists(pairs[i].sums)) {
            return option_given(pairs[i].name, "complete set of sums", NULL);
        }
    }
    CHECK(option_integer("count", "the number of rows", count, 0));
    return option_number("weight", "the weight of the rows", weight,
                         isfinite(weight) && weight >= 0.0, "0 or more");
}

grail_status grail_statistics_add_sums(grail_statistics *s, int64_t count, double weight,
                                       const grail_sums *sums)
{
    grail_status status = GRAIL_OK;
    grail_statistics *given = NULL;
    sum_array pairs[SUMS];
    CHECK(option_given("statistics", "object of statistics", s));
    CHECK(option_given("sums", "set of sums to add", sums));
    CHECK(OPTION_ROOM_OF(grail_sums, sums));
    pair_sums(s, sums, pairs);
    CHECK(check_arrays(pairs, count, weight));
    for (int64_t i = 0; i < s->width; i++) {
        if (sums->gram[i * s->width + i] < 0.0) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "statistics: the sum of squares of feature %lld is %g", (long long)i,
                             sums->gram[i * s->width + i]);
        }
    }
    TRY(statistics_create(s->owner, s->width, s->outputs, &given));
    pair_sums(given, sums, pairs);
    for (int i = 0; i < SUMS; i++) {
        if (pairs[i].array != NULL) {
            TRY(matrix_upload(pairs[i].sums, pairs[i].array));
        }
    }
    given->count = count;
    given->weight = weight;
    TRY(statistics_check_finite(given));
    TRY(grail_statistics_add(s, given));
out:
    grail_statistics_free(given);
    return status;
}
