#include "solve/mixed_target.h"

#include "algebra/products.h"
#include "solve/ridge.h"
#include "stats/row_squares.h"

double target_gap_share(const target_gap *g)
{
    return share_of_gap(g->gap, g->target);
}

grail_status target_gap_add(const grail_statistics *s, matrix consumer, target_gap *into)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix; /* of every stride-th output, in f64 */
    double *forms = NULL;       /* w G w^T */
    double *mixed = NULL;       /* C w^T */
    double *squares = NULL;     /* q of all outputs */
    const int64_t stride = regression_measured_stride(s->outputs);
    const matrix rows = matrix_every_row(consumer, stride);
    TRY(matrix_new(s->owner, GRAIL_DTYPE_F64, rows.rows, s->width, &weights));
    TRY(matrix_copy(rows, weights));
    TRY(memory_new_unset(&forms, (size_t)weights.rows, sizeof *forms));
    TRY(memory_new_unset(&mixed, (size_t)weights.rows, sizeof *mixed));
    TRY(memory_new_unset(&squares, (size_t)s->outputs, sizeof *squares));
    TRY(matrix_fill_upper(s->gram));
    TRY(quadratic_forms(s->gram, weights, forms));
    TRY(row_products(matrix_every_row(s->cross, stride), weights, mixed));
    TRY(matrix_download(s->target_square, squares));
    for (int64_t i = 0; i < weights.rows; i++) {
        const double square = squares[i * stride];
        into->gap += square - 2.0 * mixed[i] + forms[i];
        into->target += square;
    }
out:
    matrix_free(&weights);
    memory_free(forms);
    memory_free(mixed);
    memory_free(squares);
    return status;
}

/* What the sums of a panel of outputs change by, on the host. */
typedef struct panel_products {
    double *before; /* [panel] C w^T; owns all three */
    double *after;  /* C_m w^T */
    double *local;  /* w s */
} panel_products;

static void mix_sums(double share, int64_t count, const panel_products *p, double *sums,
                     double *squares)
{
    const double rest = 1.0 - share;
    for (int64_t o = 0; o < count; o++) {
        sums[o] = share * sums[o] + rest * p->local[o];
        squares[o] = share * share * squares[o] + rest * (share * p->before[o] + p->after[o]);
    }
}

/* All panels; `feature_sums` s[H], t[O] and q[O] are on the host. */
static grail_status mix_panels(const grail_statistics *s, matrix consumer, double share,
                               const double *feature_sums, double *sums, double *squares)
{
    grail_status status = GRAIL_OK;
    matrix weights = no_matrix;
    panel_products p = {0};
    const int64_t most = feature_panel(s->owner, s->outputs);
    TRY(matrix_new(s->owner, GRAIL_DTYPE_F64, most, s->width, &weights));
    TRY(memory_new_unset(&p.before, (size_t)most, sizeof *p.before));
    TRY(memory_new_unset(&p.after, (size_t)most, sizeof *p.after));
    TRY(memory_new_unset(&p.local, (size_t)most, sizeof *p.local));
    for (int64_t first = 0; first < s->outputs; first += most) {
        const int64_t left = s->outputs - first;
        const matrix panel = matrix_rows(weights, 0, left < most ? left : most);
        TRY(matrix_copy(matrix_rows(consumer, first, panel.rows), panel));
        /* C <- beta C + (1 - beta) W G for a panel of outputs, W[rows, H] in f64. */
        const matrix cross = matrix_rows(s->cross, first, panel.rows);
        TRY(row_products(cross, panel, p.before));
        TRY(matrix_gemm(false, false, 1.0 - share, panel, s->gram, share, cross));
        TRY(row_products(cross, panel, p.after));
        TRY(vector_products(panel, feature_sums, p.local));
        mix_sums(share, panel.rows, &p, sums + first, squares + first);
    }
out:
    matrix_free(&weights);
    memory_free(p.before);
    memory_free(p.after);
    memory_free(p.local);
    return status;
}

grail_status statistics_mix_target(grail_statistics *s, matrix consumer, double share)
{
    grail_status status = GRAIL_OK;
    host_view features = {0};
    host_view sums = {0};
    host_view squares = {0};
    TRY(host_view_open(s->sum, GRAIL_DTYPE_F64, HOST_READS, &features));
    TRY(host_view_open(s->target_sum, GRAIL_DTYPE_F64, HOST_UPDATES, &sums));
    TRY(host_view_open(s->target_square, GRAIL_DTYPE_F64, HOST_UPDATES, &squares));
    TRY(mix_panels(s, consumer, share, features.values, sums.values, squares.values));
    TRY(host_view_close(&features));
    TRY(host_view_close(&sums));
    TRY(host_view_close(&squares));
out:
    host_view_drop(&features);
    host_view_drop(&sums);
    host_view_drop(&squares);
    return status;
}

static matrix rows_of_group(const grail_statistics *s, int64_t group, matrix consumer)
{
    const int64_t rows = consumer.rows / s->groups;
    return matrix_rows(consumer, group * rows, rows);
}

grail_status statistics_mix_targets(grail_statistics *fit, grail_statistics *held, matrix consumer,
                                    target_gap *gap)
{
    grail_statistics *const parts[] = {fit, held};
    for (int i = 0; i < 2; i++) {
        for (int64_t g = 0; g < fit->groups; g++) {
            const grail_statistics own = statistics_group(parts[i], g);
            CHECK(target_gap_add(&own, rows_of_group(fit, g, consumer), gap));
        }
    }
    const double share = target_gap_share(gap);
    for (int i = 0; i < 2; i++) {
        for (int64_t g = 0; g < fit->groups; g++) {
            grail_statistics own = statistics_group(parts[i], g);
            CHECK(statistics_mix_target(&own, rows_of_group(fit, g, consumer), share));
        }
    }
    return GRAIL_OK;
}

/* sum[1, 1] += sum_t root_t^2 |x_t|^2 */
static grail_status add_square(matrix x, matrix root, matrix sum)
{
    grail_status status = GRAIL_OK;
    matrix squares = no_matrix;
    matrix weights = no_matrix;
    if (!matrix_exists(root)) {
        return matrix_add_products(x, x, sum);
    }
    TRY(row_squares_make(x, x.rows, &squares));
    TRY(matrix_new(x.owner, GRAIL_DTYPE_F64, x.rows, 1, &weights));
    TRY(matrix_scale_rows(root, matrix_reshape(root, x.rows, 1), weights));
    TRY(matrix_add_products(weights, matrix_reshape(squares, x.rows, 1), sum));
out:
    matrix_free(&squares);
    matrix_free(&weights);
    return status;
}

grail_status target_mix_rows(matrix root, matrix local, matrix y, matrix sums)
{
    grail_status status = GRAIL_OK;
    matrix here = no_matrix;
    matrix share = no_matrix;
    TRY(matrix_new_zero(y.owner, GRAIL_DTYPE_F64, 1, 2, &here));
    TRY(matrix_new(y.owner, GRAIL_DTYPE_F64, 1, y.rows, &share));
    const matrix difference = matrix_columns(here, 0, 1);
    const matrix target = matrix_columns(here, 1, 1);
    TRY(add_square(y, root, target));
    TRY(matrix_subtract(y, local, y));
    TRY(add_square(y, root, difference));
    TRY(matrix_gap_share(difference, target, share));
    TRY(matrix_scale_rows(share, y, y));
    TRY(matrix_add(y, local, y));
    TRY(matrix_add_scaled(1.0, here, sums));
out:
    matrix_free(&here);
    matrix_free(&share);
    return status;
}

grail_status target_gap_read(matrix sums, target_gap *into)
{
    double numbers[2];
    CHECK(matrix_download(sums, numbers));
    into->gap += numbers[0];
    into->target += numbers[1];
    return GRAIL_OK;
}
