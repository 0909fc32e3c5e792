#include "stats/statistics.h"

#include "stats/sums.h"

#include <string.h>

void grail_statistics_free(grail_statistics *s)
{
    if (s != NULL) {
        memory_free(s->gram);
        memory_free(s->sum);
        memory_free(s->cross);
        memory_free(s->target_sum);
        memory_free(s->target_square);
        memory_free(s);
    }
}

static grail_status allocate_sums(grail_statistics *s)
{
    grail_status status = GRAIL_OK;
    const size_t width = (size_t)s->width;
    const size_t outputs = (size_t)s->outputs;
    size_t square = 0;
    size_t cross = 0;
    if (!size_multiply(width, width, &square) || !size_multiply(outputs, width, &cross)) {
        FAIL(GRAIL_ERROR_MEMORY, "statistics: %zu features and %zu outputs are too many to address",
             width, outputs);
    }
    TRY(memory_new(&s->gram, square, sizeof *s->gram));
    TRY(memory_new(&s->sum, width, sizeof *s->sum));
    if (outputs > 0) {
        TRY(memory_new(&s->cross, cross, sizeof *s->cross));
        TRY(memory_new(&s->target_sum, outputs, sizeof *s->target_sum));
        TRY(memory_new(&s->target_square, outputs, sizeof *s->target_square));
    }
out:
    return status;
}

grail_status grail_statistics_create(int64_t width, int64_t outputs, grail_statistics **out)
{
    grail_status status = GRAIL_OK;
    grail_statistics *s = NULL;
    if (width <= 0 || outputs < 0) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "statistics: expected 1 or more features and 0 or more outputs, found %lld and %lld",
             (long long)width, (long long)outputs);
    }
    TRY(memory_new(&s, 1, sizeof *s));
    s->width = width;
    s->outputs = outputs;
    TRY(allocate_sums(s));
    *out = s;
    s = NULL;
out:
    grail_statistics_free(s);
    return status;
}

static grail_status check_matrix(const backend *b, const char *name, int64_t rows, int64_t width,
                                 const void *x, int64_t stride)
{
    if (x == NULL || stride < width) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "statistics: the %s needs a row stride of %lld or more, found %lld", name,
                         (long long)width, x == NULL ? 0LL : (long long)stride);
    }
    for (int64_t row = 0; row < rows; row++) {
        const char *start = (const char *)x + (size_t)(row * stride) * b->element_size;
        const int64_t feature = b->find_non_finite(width, start);
        if (feature >= 0) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "statistics: the %s is not finite at row %lld, feature %lld", name,
                             (long long)row, (long long)feature);
        }
    }
    return GRAIL_OK;
}

grail_status statistics_accumulate(grail_statistics *s, const backend *b, int64_t rows,
                                   const void *z, int64_t z_stride, const void *y, int64_t y_stride)
{
    grail_status status = GRAIL_OK;
    if (rows < 0 || (y == NULL) != (s->outputs == 0)) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "statistics: cannot add %lld rows %s a target to statistics with %lld outputs; give a "
             "target exactly when there are outputs",
             (long long)rows, y == NULL ? "without" : "with", (long long)s->outputs);
    }
    TRY(check_matrix(b, "input", rows, s->width, z, z_stride));
    if (y != NULL) {
        TRY(check_matrix(b, "target", rows, s->outputs, y, y_stride));
        TRY(b->cross(rows, s->outputs, y, y_stride, s->width, z, z_stride, s->cross));
        b->column_sums(rows, s->outputs, y, y_stride, s->target_sum, s->target_square);
    }
    TRY(b->gram(rows, s->width, z, z_stride, s->gram));
    b->column_sums(rows, s->width, z, z_stride, s->sum, NULL);
    s->count += rows;
out:
    return status;
}

grail_status grail_statistics_accumulate(grail_statistics *s, int64_t rows, const float *z,
                                         int64_t z_stride, const float *y, int64_t y_stride)
{
    const backend *b = NULL;
    const grail_status status = backend_find("cpu", &b);
    return status == GRAIL_OK ? statistics_accumulate(s, b, rows, z, z_stride, y, y_stride)
                              : status;
}

grail_status grail_statistics_add(grail_statistics *s, const grail_statistics *other)
{
    if (s->width != other->width || s->outputs != other->outputs) {
        return error_set(GRAIL_ERROR_SHAPE,
                         "statistics: cannot add sums of %lld features and %lld outputs to sums of "
                         "%lld features and %lld outputs",
                         (long long)other->width, (long long)other->outputs, (long long)s->width,
                         (long long)s->outputs);
    }
    symmetric_add_lower(s->width, s->gram, other->gram);
    sums_add(s->width, s->sum, other->sum);
    sums_add(s->outputs * s->width, s->cross, other->cross);
    sums_add(s->outputs, s->target_sum, other->target_sum);
    sums_add(s->outputs, s->target_square, other->target_square);
    s->count += other->count;
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

double grail_statistics_gram(const grail_statistics *s, int64_t i, int64_t j)
{
    return i >= j ? s->gram[i * s->width + j] : s->gram[j * s->width + i];
}

double grail_statistics_mean(const grail_statistics *s, int64_t i)
{
    return s->count > 0 ? s->sum[i] / (double)s->count : 0.0;
}

static grail_status not_finite(const char *what, int64_t i, int64_t j)
{
    return error_set(GRAIL_ERROR_NUMERIC, "statistics: %s %lld and feature %lld is not finite",
                     what, (long long)i, (long long)j);
}

grail_status statistics_check_finite(const grail_statistics *s)
{
    const int64_t gram = symmetric_find_non_finite(s->width, s->gram);
    if (gram >= 0) {
        return not_finite("the gram sum of feature", gram / s->width, gram % s->width);
    }
    const int64_t feature = sums_find_non_finite(s->width, s->sum);
    if (feature >= 0) {
        return error_set(GRAIL_ERROR_NUMERIC, "statistics: the sum of feature %lld is not finite",
                         (long long)feature);
    }
    const int64_t cross = sums_find_non_finite(s->outputs * s->width, s->cross);
    if (cross >= 0) {
        return not_finite("the cross sum of output", cross / s->width, cross % s->width);
    }
    for (int64_t o = 0; o < s->outputs; o++) {
        if (sums_find_non_finite(1, s->target_sum + o) >= 0 ||
            sums_find_non_finite(1, s->target_square + o) >= 0) {
            return error_set(GRAIL_ERROR_NUMERIC,
                             "statistics: the target sums of output %lld are not finite",
                             (long long)o);
        }
    }
    return GRAIL_OK;
}
