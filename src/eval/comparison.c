#include "eval/comparison.h"

#include <math.h>

static double log_sum_exp(const float *logits, int64_t count)
{
    double largest = (double)logits[0];
    for (int64_t i = 1; i < count; i++) {
        largest = fmax(largest, (double)logits[i]);
    }
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += exp((double)logits[i] - largest);
    }
    return largest + log(sum);
}

static int64_t index_of_largest(const float *logits, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

static void add_row(const float *a, const float *b, int64_t count, comparison_sums *sums)
{
    const double log_a = log_sum_exp(a, count);
    const double log_b = log_sum_exp(b, count);
    double kl = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double p = (double)a[i] - log_a;
        sums->max_abs = fmax(sums->max_abs, fabs((double)a[i] - (double)b[i]));
        kl += exp(p) * (p - ((double)b[i] - log_b));
    }
    sums->kl += kl;
    sums->max_kl = fmax(sums->max_kl, kl);
    sums->same_top += index_of_largest(a, count) == index_of_largest(b, count) ? 1 : 0;
    sums->rows++;
}

grail_status comparison_add(const backend *b, int64_t rows, int64_t width, const void *left,
                            const void *right, comparison_sums *sums)
{
    grail_status status = GRAIL_OK;
    float *row[2] = {NULL, NULL};
    TRY(memory_new_unset(&row[0], (size_t)width, sizeof row[0][0]));
    TRY(memory_new_unset(&row[1], (size_t)width, sizeof row[1][0]));
    for (int64_t r = 0; r < rows; r++) {
        const size_t offset = (size_t)r * (size_t)width * b->element_size;
        b->to_f32(width, (const unsigned char *)left + offset, row[0]);
        b->to_f32(width, (const unsigned char *)right + offset, row[1]);
        add_row(row[0], row[1], width, sums);
    }
out:
    memory_free(row[0]);
    memory_free(row[1]);
    return status;
}

grail_comparison comparison_result(const comparison_sums *sums)
{
    const double rows = (double)sums->rows;
    return (grail_comparison){
        .max_abs = sums->max_abs,
        .mean_kl = sums->kl / rows,
        .max_kl = sums->max_kl,
        .top1_agreement = (double)sums->same_top / rows,
        .compared = sums->rows,
    };
}
