#include "eval/comparison.h"

#include "exec/next_token.h"

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

static void add_row(const float *a, const float *b, int64_t count, comparison_sums *sums)
{
    const double log_a = log_sum_exp(a, count);
    const double log_b = log_sum_exp(b, count);
    double kl = 0.0;
    for (int64_t i = 0; i < count; i++) {
        const double p = (double)a[i] - log_a;
        const double off = (double)b[i] - (double)a[i];
        sums->max_abs = fmax(sums->max_abs, fabs(off));
        sums->distance += off * off;
        sums->energy += (double)a[i] * (double)a[i];
        kl += exp(p) * (p - ((double)b[i] - log_b));
    }
    sums->kl += kl;
    sums->max_kl = fmax(sums->max_kl, kl);
    sums->same_top += index_of_largest(a, count) == index_of_largest(b, count) ? 1 : 0;
    sums->rows++;
}

grail_status comparison_add(matrix left, matrix right, comparison_sums *sums)
{
    grail_status status = GRAIL_OK;
    host_view a = {0};
    host_view b = {0};
    TRY(host_view_open(left, GRAIL_DTYPE_F32, HOST_READS, &a));
    TRY(host_view_open(right, GRAIL_DTYPE_F32, HOST_READS, &b));
    for (int64_t r = 0; r < left.rows; r++) {
        const int64_t row = r * left.columns;
        add_row((const float *)a.values + row, (const float *)b.values + row, left.columns, sums);
    }
out:
    host_view_drop(&a);
    host_view_drop(&b);
    return status;
}

/* Infinity where only what is compared is other than 0. */
static double relative_error(const comparison_sums *s)
{
    return s->distance == 0.0 ? 0.0 : sqrt(s->distance / s->energy);
}

grail_status comparison_add_outputs(const execution *left, const execution *right,
                                    comparison_sums *sums)
{
    for (int i = 0; i < left->graph->output_count; i++) {
        const matrix a = execution_value(left, left->graph->outputs[i].value);
        const matrix b = execution_value(right, right->graph->outputs[i].value);
        if (a.rows != b.rows || a.columns != b.columns) {
            return error_set(GRAIL_ERROR_SHAPE,
                             "output %d of the networks differs: one gives %lld x %lld values, the "
                             "other %lld x %lld",
                             i + 1, (long long)a.rows, (long long)a.columns, (long long)b.rows,
                             (long long)b.columns);
        }
        CHECK(comparison_add(a, b, &sums[i]));
        if (!isfinite(sums[i].distance)) {
            const char *name = left->graph->outputs[i].name;
            return error_set(GRAIL_ERROR_NUMERIC, "the output '%.100s' is NaN or infinite",
                             name == NULL ? "" : name);
        }
    }
    return GRAIL_OK;
}

grail_output_comparison comparison_of_output(const graph *g, int i, const comparison_sums *sums)
{
    return (grail_output_comparison){
        .name = g->outputs[i].name,
        .relative_error = relative_error(sums),
        .max_abs = sums->max_abs,
        .mean_kl = g->outputs[i].is_logits ? sums->kl / (double)sums->rows : (double)NAN,
        .is_zero = sums->energy > 0.0 ? 0 : 1,
    };
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
        .relative_error = relative_error(sums),
        .mean_cosine = (double)NAN,
        .least_cosine = (double)NAN,
        .cosine_interval = (double)NAN,
        .same_nearest = (double)NAN,
        .nearest_interval = (double)NAN,
    };
}
