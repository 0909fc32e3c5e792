#include "eval/pooled_vectors.h"

#include "arch/model.h"
#include "base/clones.h"
#include "base/parallel.h"
#include "base/wilson.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

grail_status pooled_vectors_init(const grail_model *left, const grail_model *right, int64_t count,
                                 pooled_vectors *out)
{
    size_t size = 0;
    *out = (pooled_vectors){.left_model = left, .right_model = right, .count = count};
    CHECK(sentence_pooling_read(checkpoint_directory(left->checkpoint), &out->pooling));
    CHECK(graph_output_width(left->graph, &out->width));
    if (!size_multiply((size_t)count, (size_t)out->width, &size)) {
        return error_set(GRAIL_ERROR_MEMORY,
                         "%lld vectors of %lld values are too many; measure fewer windows",
                         (long long)count, (long long)out->width);
    }
    CHECK(memory_new(&out->left, size, sizeof out->left[0]));
    return memory_new(&out->right, size, sizeof out->right[0]);
}

void pooled_vectors_fini(pooled_vectors *p)
{
    memory_free(p->left);
    memory_free(p->right);
    *p = (pooled_vectors){0};
}

static grail_status add_rows(matrix m, int64_t rows, double *sums)
{
    host_view v = {0};
    CHECK(host_view_open(m, GRAIL_DTYPE_F32, HOST_READS, &v));
    const float *values = v.values;
    for (int64_t i = 0; i < rows * m.columns; i++) {
        sums[i % m.columns] += (double)values[i];
    }
    host_view_drop(&v);
    return GRAIL_OK;
}

grail_status pooled_vectors_add(matrix left, matrix right, int64_t window, int64_t from,
                                pooled_vectors *p)
{
    const int64_t first = from == 0 ? 1 : 0;
    CHECK(add_rows(left, p->pooling.first ? first : left.rows, p->left + window * p->width));
    return add_rows(right, p->pooling.first ? first : right.rows, p->right + window * p->width);
}

/* -- angles ------------------------------------------------------------------------------------ */

CPU_CLONES
static double dot(const double *a, const double *b, int64_t n)
{
    enum { LANES = 8 };
    double sums[LANES] = {0.0};
    double sum = 0.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int64_t k = 0; k < LANES; k++) {
            sums[k] += a[i + k] * b[i + k];
        }
    }
    for (; i < n; i++) {
        sum += a[i] * b[i];
    }
    for (int k = 0; k < LANES; k++) {
        sum += sums[k];
    }
    return sum;
}

/* Gives a vector the length 1, unless it is zero, which *zero tells. */
static grail_status normalise(const grail_model *model, double *vector, int64_t n, bool *zero)
{
    const double length = sqrt(dot(vector, vector, n));
    *zero = length == 0.0;
    if (!isfinite(length)) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "'%s' gives a text a vector that is not finite; look for NaN or infinity "
                         "in its weights",
                         model->path);
    }
    for (int64_t i = 0; !*zero && i < n; i++) {
        vector[i] /= length;
    }
    return GRAIL_OK;
}

static grail_status compare_angles(pooled_vectors *p, grail_comparison *out)
{
    const double n = (double)p->count;
    double sum = 0.0; /* of what lacks to 1, near which all cosines lie */
    double square = 0.0;
    double least = (double)INFINITY;
    for (int64_t i = 0; i < p->count; i++) {
        double *left = p->left + i * p->width;
        double *right = p->right + i * p->width;
        bool left_zero = false;
        bool right_zero = false;
        CHECK(normalise(p->left_model, left, p->width, &left_zero));
        CHECK(normalise(p->right_model, right, p->width, &right_zero));
        const double cosine = left_zero && right_zero ? 1.0 : dot(left, right, p->width);
        sum += 1.0 - cosine;
        square += (1.0 - cosine) * (1.0 - cosine);
        least = fmin(least, cosine);
    }
    out->least_cosine = least;
    const double variance = fmax(0.0, square / n - sum / n * (sum / n));
    out->mean_cosine = 1.0 - sum / n;
    out->cosine_interval = p->count > 1 ? NORMAL_975 * sqrt(variance / (n - 1.0)) : (double)NAN;
    return GRAIL_OK;
}

/* -- neighbours -------------------------------------------------------------------------------- */

typedef struct search {
    const double *vectors; /* [count, width] of length 1 */
    int64_t count, width;
    int64_t *nearest; /* [count] */
} search;

/* The other window of each with the largest cosine, of equal ones the first. */
static void find_nearest(int64_t begin, int64_t end, void *context)
{
    enum { BLOCK = 16 };
    const search *s = context;
    double best[BLOCK];
    for (int64_t i = 0; i < BLOCK; i++) {
        best[i] = -(double)INFINITY;
    }
    for (int64_t other = 0; other < s->count; other++) {
        for (int64_t i = begin; i < end; i++) {
            const double cosine =
                dot(s->vectors + i * s->width, s->vectors + other * s->width, s->width);
            if (other != i && cosine > best[i - begin]) {
                best[i - begin] = cosine;
                s->nearest[i] = other;
            }
        }
    }
}

static bool same_tokens(const token_windows *w, int64_t a, int64_t b)
{
    const int64_t size = window_size(w, a);
    return size == window_size(w, b) &&
           memcmp(w->ids + window_start(w, a), w->ids + window_start(w, b),
                  (size_t)size * sizeof w->ids[0]) == 0;
}

static grail_status compare_neighbours(const pooled_vectors *p, const token_windows *w,
                                       grail_comparison *out)
{
    enum { BLOCK = 16 };
    grail_status status = GRAIL_OK;
    int64_t same = 0;
    double low = 0.0;
    double high = 0.0;
    search left = {.vectors = p->left, .count = p->count, .width = p->width};
    search right = {.vectors = p->right, .count = p->count, .width = p->width};
    TRY(memory_new(&left.nearest, (size_t)p->count, sizeof left.nearest[0]));
    TRY(memory_new(&right.nearest, (size_t)p->count, sizeof right.nearest[0]));
    parallel_for(p->count, BLOCK, find_nearest, &left);
    parallel_for(p->count, BLOCK, find_nearest, &right);
    for (int64_t i = 0; i < p->count; i++) {
        same += same_tokens(w, left.nearest[i], right.nearest[i]) ? 1 : 0;
    }
    wilson_interval((double)same, (double)p->count, &low, &high);
    out->same_nearest = (double)same / (double)p->count;
    out->nearest_interval = 0.5 * (high - low);
out:
    memory_free(left.nearest);
    memory_free(right.nearest);
    return status;
}

grail_status pooled_vectors_compare(pooled_vectors *p, const token_windows *w, bool neighbours,
                                    grail_comparison *out)
{
    grail_comparison result = *out;
    CHECK(parallel_start());
    CHECK(compare_angles(p, &result));
    result.pooled = p->count;
    snprintf(result.pooling, sizeof result.pooling, "%s", sentence_pooling_name(&p->pooling));
    snprintf(result.pooling_notice, sizeof result.pooling_notice, "%s", p->pooling.notice);
    if (neighbours && p->count > 2) {
        CHECK(compare_neighbours(p, w, &result));
    }
    *out = result;
    return GRAIL_OK;
}
