/* Statistics as arrays of the caller, and what rows of a residual stream count. */
#include "base/option_values.h"
#include "stats/row_squares.h"
#include "stats/statistics.h"

#include <math.h>

/* -- the bias in a target ---------------------------------------------------------------------- */

grail_status statistics_shift_target(grail_statistics *s, const double *bias)
{
    grail_status status = GRAIL_OK;
    const double weight = s->weight;
    matrix b = {0};
    host_view sums = {0};
    host_view squares = {0};
    TRY(matrix_import(s->owner, GRAIL_DTYPE_F64, 1, s->outputs, s->outputs, bias, &b));
    TRY(matrix_add_outer(false, -1.0, b, s->sum, s->cross));
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
    TRY(statistics_check_rows("stream", values));
    TRY(row_squares(values, rows, roots));
    TRY(roots_of_squares(rows, &median, roots));
    *median_square = median;
out:
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
