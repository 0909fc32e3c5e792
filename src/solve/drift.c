#include "solve/drift.h"

#include "algebra/products.h"
#include "solve/mixed_target.h"
#include "stats/constant_features.h"
#include "stats/shared_rows.h"

#include <string.h>

grail_status drift_sums_create(backend *b, int64_t width, drift_sums *out)
{
    CHECK(statistics_create(b, width, width, &out->input));
    return matrix_new_zero(b, GRAIL_DTYPE_F64, width, width, &out->square);
}

void drift_sums_fini(drift_sums *s)
{
    grail_statistics_free(s->input);
    matrix_free(&s->square);
    *s = (drift_sums){0};
}

grail_status drift_sums_accumulate(drift_sums *s, matrix z, matrix x)
{
    CHECK(matrix_subtract(x, z, x));
    CHECK(statistics_accumulate(s->input, z, x));
    return matrix_gram(x, s->square);
}

chunk_sums drift_chunk_sums(drift_sums *part, drift_sums *total)
{
    chunk_sums s = chunk_sums_of_statistics(part->input, total->input);
    chunk_sums_append_triangle(&s, &part->square, &total->square);
    return s;
}

grail_status drift_sums_settle(drift_sums *s)
{
    int64_t index = -1;
    CHECK(statistics_settle(s->input));
    CHECK(matrix_find_non_finite(true, s->square, &index));
    if (index >= 0) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "drift: the sum of squares of feature %lld is not finite",
                         (long long)(index / s->square.columns));
    }
    CHECK(matrix_fill_upper(s->input->gram));
    return matrix_fill_upper(s->square);
}

/* A map, and those of its outputs whose errors are measured: every step-th one. */
typedef struct drifted_map {
    int64_t outputs; /* O */
    int64_t width;   /* H */
    int64_t step;
    int64_t measured; /* m outputs */
    matrix given;     /* the weights in f32; borrowed */
    matrix rows;      /* those of the measured outputs [m, H] in f64; owned, as what follows */
    bool *judged;     /* [m]; NULL = all */
} drifted_map;

/* What the measured outputs are in the rows of one part; all owned. */
typedef struct measured_part {
    matrix cross;  /* [m, H] W F */
    double *gap;   /* [m] w R w^T */
    double *own;   /* [m] w A w^T */
    double *mixed; /* [m] w F w^T */
} measured_part;

static void measured_part_fini(measured_part *p)
{
    matrix_free(&p->cross);
    memory_free(p->gap);
    memory_free(p->own);
    memory_free(p->mixed);
}

static void add_gap(const drifted_map *m, const measured_part *p, target_gap *into)
{
    for (int64_t i = 0; i < m->measured; i++) {
        into->gap += p->gap[i];
        into->target += p->own[i] + 2.0 * p->mixed[i] + p->gap[i];
    }
}

/* The sums of inputs, and room for those of outputs. */
static grail_status begin_regression(const drift_sums *s, int64_t outputs, regression *out)
{
    const grail_statistics *z = s->input;
    const size_t rows = (size_t)outputs;
    double *diagonal = NULL;
    grail_status status = GRAIL_OK;
    *out =
        (regression){.width = z->width, .outputs = outputs, .count = z->count, .weight = z->weight};
    TRY(matrix_new(z->owner, GRAIL_DTYPE_F64, z->width, z->width, &out->gram));
    TRY(matrix_copy(z->gram, out->gram));
    TRY(matrix_new_zero(z->owner, GRAIL_DTYPE_F64, outputs, z->width, &out->cross));
    TRY(memory_new_unset(&out->sum, (size_t)z->width, sizeof out->sum[0]));
    TRY(matrix_download(z->sum, out->sum));
    TRY(memory_new(&out->residual_sum, rows, sizeof out->residual_sum[0]));
    TRY(memory_new(&out->residual_square, rows, sizeof out->residual_square[0]));
    TRY(memory_new(&out->target_square, rows, sizeof out->target_square[0]));
    TRY(memory_new_unset(&diagonal, (size_t)z->width, sizeof diagonal[0]));
    TRY(matrix_download_diagonal(z->gram, diagonal));
    out->full_diagonal = mean_of(z->width, diagonal);
out:
    memory_free(diagonal);
    return status;
}

static void scale_values(double factor, int64_t count, double *values)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] *= factor;
    }
}

/* That of the measured outputs, whose target holds `share` of the drift. */
static grail_status measured_regression(const drifted_map *m, const drift_sums *s,
                                        const measured_part *p, double share, regression *out)
{
    grail_status status = GRAIL_OK;
    double *drift = NULL; /* d */
    TRY(begin_regression(s, m->measured, out));
    TRY(matrix_add_scaled(share, p->cross, out->cross));
    TRY(memory_new_unset(&drift, (size_t)m->width, sizeof drift[0]));
    TRY(matrix_download(s->input->target_sum, drift));
    TRY(vector_products(m->rows, drift, out->residual_sum));
    scale_values(share, m->measured, out->residual_sum);
    for (int64_t i = 0; i < m->measured; i++) {
        out->residual_square[i] = share * share * p->gap[i];
        out->target_square[i] = p->own[i] + 2.0 * share * p->mixed[i] + out->residual_square[i];
    }
out:
    memory_free(drift);
    return status;
}

/* That of X over Z: E = beta F, W0 = I. Its errors are not asked for. */
static grail_status input_regression(const drift_sums *s, double share, regression *out)
{
    const int64_t width = s->input->width;
    CHECK(begin_regression(s, width, out));
    CHECK(matrix_add_scaled(share, s->input->cross, out->cross));
    CHECK(matrix_download(s->input->target_sum, out->residual_sum));
    scale_values(share, width, out->residual_sum);
    return GRAIL_OK;
}

/* Both parts, the measured outputs: how they are fitted best, and how good that is. */
static grail_status choose_fit(const drifted_map *m, const drift_sums *const parts[2],
                               const measured_part measured[2], double share,
                               const ridge_options *options, ridge_result *result)
{
    grail_status status = GRAIL_OK;
    regression sums[2] = {0};
    matrix weight = no_matrix;
    double *bias = NULL;
    ridge_options own = *options;
    own.judged = m->judged;
    for (int i = 0; i < 2; i++) {
        TRY(measured_regression(m, parts[i], &measured[i], share, &sums[i]));
    }
    TRY(matrix_new(m->rows.owner, GRAIL_DTYPE_F64, m->measured, m->width, &weight));
    if (options->bias) {
        TRY(memory_new_unset(&bias, (size_t)m->measured, sizeof bias[0]));
    }
    TRY(ridge_solve(&sums[0], &sums[1], m->rows, &own, weight, bias, result));
out:
    regression_fini(&sums[0]);
    regression_fini(&sums[1]);
    matrix_free(&weight);
    memory_free(bias);
    return status;
}

/* T[H, H] and its bias[H] of both parts with the alpha that was chosen. */
static grail_status fit_input(const drift_sums *const parts[2], double share,
                              const ridge_options *options, const ridge_result *chosen, matrix map,
                              double *bias)
{
    grail_status status = GRAIL_OK;
    regression all = {0};
    regression held = {0};
    matrix identity = no_matrix;
    ridge_result ignored = {0};
    ridge_options own = *options;
    own.judged = NULL;
    own.alpha_count = 0;
    own.alpha = options->keeps_weights ? options->alpha : chosen->alpha;
    TRY(matrix_new_zero(map.owner, GRAIL_DTYPE_F64, map.rows, map.rows, &identity));
    TRY(matrix_shift_diagonal(1.0, identity));
    TRY(input_regression(parts[0], share, &all));
    TRY(input_regression(parts[1], share, &held));
    TRY(regression_add(&all, &held));
    TRY(ridge_solve(&all, NULL, identity, &own, map, bias, &ignored));
out:
    regression_fini(&all);
    regression_fini(&held);
    matrix_free(&identity);
    return status;
}

/* A panel of outputs; wide and product [a panel, H] are scratch. */
typedef struct map_panel {
    const drifted_map *of;
    matrix map, wide, product;
    const double *bias; /* NULL: none */
    matrix fitted;
    double *bias_change;
} map_panel;

static grail_status apply_to_panel(int64_t begin, int64_t end, void *context)
{
    const map_panel *p = context;
    const matrix rows = matrix_rows(p->wide, 0, end - begin);
    const matrix here = matrix_rows(p->product, 0, end - begin);
    CHECK(matrix_copy(matrix_rows(p->of->given, begin, end - begin), rows));
    CHECK(matrix_gemm(false, false, 1.0, rows, p->map, 0.0, here));
    CHECK(matrix_copy(here, matrix_rows(p->fitted, begin, end - begin)));
    return p->bias == NULL ? GRAIL_OK : vector_products(rows, p->bias, p->bias_change + begin);
}

static grail_status apply_to_own(const shared_rows *rows, map_panel *p)
{
    grail_status status = GRAIL_OK;
    backend *b = p->map.owner;
    TRY(matrix_new(b, GRAIL_DTYPE_F64, rows->panel, p->of->width, &p->wide));
    TRY(matrix_new(b, GRAIL_DTYPE_F64, rows->panel, p->of->width, &p->product));
    TRY(shared_rows_each(rows, apply_to_panel, p));
out:
    matrix_free(&p->wide);
    matrix_free(&p->product);
    return status;
}

/* The fit of all outputs, as it was chosen for those measured. */
static grail_status fit_outputs(const drifted_map *m, const drift_sums *const parts[2],
                                double share, const ridge_options *options,
                                const ridge_result *chosen, matrix fitted, double *bias_change)
{
    grail_status status = GRAIL_OK;
    matrix map = no_matrix;
    double *bias = NULL;
    TRY(matrix_new(m->rows.owner, GRAIL_DTYPE_F64, m->width, m->width, &map));
    if (options->bias) {
        TRY(memory_new_unset(&bias, (size_t)m->width, sizeof bias[0]));
    }
    TRY(fit_input(parts, share, options, chosen, map, bias));
    /* fitted = W T and bias_change = W bias, each rank some of the outputs. */
    map_panel p = {.of = m, .map = map, .bias = bias, .fitted = fitted, .bias_change = bias_change};
    const shared_rows rows = shared_rows_of(options->comm, map.owner, m->outputs);
    TRY(shared_rows_gather(&rows, apply_to_own(&rows, &p), fitted));
    TRY(bias == NULL
            ? GRAIL_OK
            : shared_rows_gather_bytes(&rows, GRAIL_OK, bias_change, sizeof bias_change[0]));
out:
    matrix_free(&map);
    memory_free(bias);
    return status;
}

static double find_share(const drifted_map *m, const measured_part measured[2])
{
    target_gap gap = {0};
    for (int i = 0; i < 2; i++) {
        add_gap(m, &measured[i], &gap);
    }
    return target_gap_share(&gap);
}

grail_status drift_solve(const drift_sums *fit, const drift_sums *held, matrix weight, bool mixes,
                         const ridge_options *options, matrix fitted, double *bias_change,
                         double *share, ridge_result *result)
{
    grail_status status = GRAIL_OK;
    const drift_sums *const parts[2] = {fit, held};
    measured_part measured[2] = {0};
    drifted_map m = {.outputs = weight.rows, .width = weight.columns, .given = weight};
    m.step = regression_measured_stride(m.outputs);
    m.measured = (m.outputs + m.step - 1) / m.step;
    TRY(matrix_new(weight.owner, GRAIL_DTYPE_F64, m.measured, m.width, &m.rows));
    TRY(matrix_copy(matrix_every_row(m.given, m.step), m.rows));
    if (options->judged != NULL) {
        TRY(memory_new(&m.judged, (size_t)m.measured, sizeof m.judged[0]));
    }
    for (int64_t i = 0; options->judged != NULL && i < m.measured; i++) {
        m.judged[i] = options->judged[i * m.step];
    }
    for (int i = 0; i < 2; i++) {
        const size_t count = (size_t)m.measured;
        TRY(matrix_new(m.rows.owner, GRAIL_DTYPE_F64, m.measured, m.width, &measured[i].cross));
        TRY(memory_new_unset(&measured[i].gap, count, sizeof measured[i].gap[0]));
        TRY(memory_new_unset(&measured[i].own, count, sizeof measured[i].own[0]));
        TRY(memory_new_unset(&measured[i].mixed, count, sizeof measured[i].mixed[0]));
        TRY(matrix_gemm(false, false, 1.0, m.rows, parts[i]->input->cross, 0.0, measured[i].cross));
        TRY(quadratic_forms(parts[i]->square, m.rows, measured[i].gap));
        TRY(quadratic_forms(parts[i]->input->gram, m.rows, measured[i].own));
        TRY(row_products(measured[i].cross, m.rows, measured[i].mixed));
    }
    *share = mixes ? find_share(&m, measured) : 1.0;
    TRY(choose_fit(&m, parts, measured, *share, options, result));
    if (result->fallback == RIDGE_FALLBACK_PLAIN) {
        /* W as it is. */
        TRY(matrix_copy(m.given, fitted));
        if (bias_change != NULL) {
            memset(bias_change, 0, (size_t)m.outputs * sizeof bias_change[0]);
        }
    } else {
        TRY(fit_outputs(&m, parts, *share, options, result, fitted, bias_change));
    }
out:
    matrix_free(&m.rows);
    memory_free(m.judged);
    measured_part_fini(&measured[0]);
    measured_part_fini(&measured[1]);
    return status;
}
