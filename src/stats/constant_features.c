#include "stats/constant_features.h"

#include <float.h>

double sums_rounding(const backend *b, int64_t rows)
{
    enum { OF_CENTRING = 4 };
    return backend_gram_rounding(b, rows) + (double)(rows + OF_CENTRING) * DBL_EPSILON;
}

bool feature_is_constant(double square, double square_of_mean, double rounding)
{
    return square - square_of_mean <= rounding * square;
}

void centre_diagonal(int64_t n, const double *diagonal, double rounding, double *varying,
                     bool *constant)
{
    for (int64_t j = 0; j < n; j++) {
        constant[j] = feature_is_constant(diagonal[j], varying[j], rounding);
        varying[j] = constant[j] ? 0.0 : diagonal[j] - varying[j];
    }
}

grail_status clear_constant_columns(const bool *constant, matrix m)
{
    for (int64_t j = 0; j < m.columns; j++) {
        if (constant[j]) {
            CHECK(matrix_zero(matrix_columns(m, j, 1)));
        }
    }
    return GRAIL_OK;
}

grail_status clear_constant_pairs(const bool *constant, matrix m)
{
    for (int64_t j = 0; j < m.rows; j++) {
        if (constant[j]) {
            CHECK(matrix_zero(matrix_columns(matrix_rows(m, j, 1), 0, j + 1)));
            CHECK(matrix_zero(matrix_columns(matrix_rows(m, j, m.rows - j), j, 1)));
        }
    }
    return GRAIL_OK;
}

/* Rows of the sums of constant features and of the others, with zeros elsewhere. */
static grail_status split_sums(const grail_statistics *s, const bool *constant, double *sum,
                               matrix *of_constants, matrix *of_others)
{
    grail_status status = GRAIL_OK;
    double *part = NULL;
    TRY(memory_new(&part, (size_t)s->width, sizeof part[0]));
    for (int64_t j = 0; j < s->width; j++) {
        part[j] = constant[j] ? sum[j] : 0.0;
        sum[j] = constant[j] ? 0.0 : sum[j];
    }
    TRY(matrix_new(s->owner, GRAIL_DTYPE_F64, 1, s->width, of_constants));
    TRY(matrix_new(s->owner, GRAIL_DTYPE_F64, 1, s->width, of_others));
    TRY(matrix_upload(*of_constants, part));
    TRY(matrix_upload(*of_others, sum));
out:
    memory_free(part);
    return status;
}

/* Overwrites sum[H]. */
static grail_status replace_products(grail_statistics *s, const bool *constant, double *sum)
{
    grail_status status = GRAIL_OK;
    matrix constants = no_matrix;
    matrix others = no_matrix;
    const double share = 1.0 / s->weight;
    TRY(split_sums(s, constant, sum, &constants, &others));
    TRY(clear_constant_pairs(constant, s->gram));
    TRY(matrix_add_outer(true, share, constants, s->sum, s->gram));
    TRY(matrix_add_outer(true, share, others, constants, s->gram));
    if (s->outputs > 0) {
        TRY(clear_constant_columns(constant, s->cross));
        TRY(matrix_add_outer(false, share, s->target_sum, constants, s->cross));
    }
out:
    matrix_free(&constants);
    matrix_free(&others);
    return status;
}

grail_status statistics_settle_constants(grail_statistics *s)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    double *sum = NULL;
    bool *constant = NULL; /* [H] */
    bool any = false;
    if (!(s->weight > 0.0)) {
        return GRAIL_OK;
    }
    TRY(memory_new_unset(&sum, (size_t)s->width, sizeof sum[0]));
    TRY(memory_new_unset(&constant, (size_t)s->width, sizeof constant[0]));
    TRY(matrix_download(s->sum, sum));
    const double rounding = sums_rounding(s->owner, s->count);
    TRY(memory_new_unset(&diagonal, (size_t)s->width, sizeof diagonal[0]));
    TRY(matrix_download_diagonal(s->gram, diagonal));
    for (int64_t j = 0; j < s->width; j++) {
        constant[j] = feature_is_constant(diagonal[j], sum[j] * sum[j] / s->weight, rounding);
        any = any || constant[j];
    }
    if (any) {
        TRY(replace_products(s, constant, sum));
    }
out:
    memory_free(diagonal);
    memory_free(sum);
    memory_free(constant);
    return status;
}

grail_status statistics_settle(grail_statistics *s)
{
    CHECK(statistics_check_finite(s));
    for (int64_t g = 0; g < s->groups; g++) {
        grail_statistics own = statistics_group(s, g);
        CHECK(statistics_settle_constants(&own));
    }
    return GRAIL_OK;
}
