#include "solve/ridge.h"

#include "solve/quadratic.h"
#include "solve/system.h"
#include "stats/sums.h"

#include <math.h>
#include <string.h>

/* Without a held-out part the candidate closest to this alpha is used. */
static const double usual_alpha = 1e-3;

/* One solve. Changes D = W' - W0 of the measured outputs (every step-th one) are rows of [m, K]. */
typedef struct ridge_problem {
    const backend *b;
    const ridge_options *options;
    regression *fit;
    const regression *held; /* NULL without a held-out part */
    const float *prior;
    ridge_system system; /* of `fit` */
    int64_t measured;    /* m */
    int64_t step;
    const bool *judged; /* [O], NULL = all */
    double *change;     /* [m, K] of the candidate */
    double *best;       /* [m, K] of the best candidate so far */
    double *forms;      /* [m] scratch */
    bool keeps_plain;   /* W0 has the lowest error on the held-out part */
} ridge_problem;

static grail_status not_finite(const char *part, const char *what, int64_t i)
{
    return error_set(GRAIL_ERROR_NUMERIC,
                     "%s: %s %lld is not finite; look for NaN or infinity in the calibration "
                     "activations and weights",
                     part, what, (long long)i);
}

/* GRAIL_ERROR_NUMERIC naming the first sum that is NaN or infinite. */
static grail_status check_regression(const char *part, const regression *r)
{
    const int64_t gram = symmetric_find_non_finite(r->width, r->gram);
    if (gram >= 0) {
        return not_finite(part, "the gram sum of feature", gram / r->width);
    }
    const int64_t sum = sums_find_non_finite(r->width, r->sum);
    if (sum >= 0) {
        return not_finite(part, "the sum of feature", sum);
    }
    const int64_t cross = sums_find_non_finite(r->outputs * r->width, r->cross);
    if (cross >= 0) {
        return not_finite(part, "the residual sum of output", cross / r->width);
    }
    for (int64_t o = 0; o < r->outputs; o++) {
        if (!isfinite(r->residual_sum[o]) || !isfinite(r->residual_square[o]) ||
            !isfinite(r->target_square[o])) {
            return not_finite(part, "the target sum of output", o);
        }
    }
    return GRAIL_OK;
}

static grail_status check_options(const ridge_options *options)
{
    for (int i = 0; i < options->alpha_count; i++) {
        if (!(options->alphas[i] >= 0.0) || !isfinite(options->alphas[i])) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "ridge: alpha is %g, expected a finite number of 0 or more",
                             options->alphas[i]);
        }
    }
    if (options->alpha_count == 0 && (!(options->alpha >= 0.0) || !isfinite(options->alpha))) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "ridge: alpha is %g, expected a finite number of 0 or more",
                         options->alpha);
    }
    return GRAIL_OK;
}

static grail_status check_parts(const regression *fit, const regression *held)
{
    grail_status status = GRAIL_OK;
    TRY(check_regression("ridge", fit));
    if (held == NULL) {
        goto out;
    }
    if (held->width != fit->width || held->outputs != fit->outputs) {
        FAIL(GRAIL_ERROR_SHAPE,
             "ridge: the held-out sums are %lld x %lld, but the sums to fit are %lld x %lld",
             (long long)held->outputs, (long long)held->width, (long long)fit->outputs,
             (long long)fit->width);
    }
    TRY(check_regression("ridge, held-out part", held));
out:
    return status;
}

static void problem_fini(ridge_problem *p)
{
    ridge_system_fini(&p->system);
    memory_free(p->change);
    memory_free(p->best);
    memory_free(p->forms);
}

/* The outputs whose errors count; NULL = all, also where no measured output is judged. */
static const bool *judged_outputs(const ridge_problem *p)
{
    const bool *judged = p->options->judged;
    for (int64_t o = 0; judged != NULL && o < p->fit->outputs; o += p->step) {
        if (judged[o]) {
            return judged;
        }
    }
    return NULL;
}

static bool is_judged(const ridge_problem *p, int64_t output)
{
    return p->judged == NULL || p->judged[output];
}

/* Memory for the measured outputs; p->fit and p->options are set. */
static grail_status problem_allocate(ridge_problem *p)
{
    grail_status status = GRAIL_OK;
    p->step = regression_measured_stride(p->fit->outputs);
    p->measured = (p->fit->outputs + p->step - 1) / p->step;
    p->judged = judged_outputs(p);
    const size_t size = (size_t)(p->measured * p->fit->width);
    TRY(memory_new_unset(&p->change, size, sizeof *p->change));
    TRY(memory_new_unset(&p->best, size, sizeof *p->best));
    TRY(memory_new_unset(&p->forms, (size_t)p->measured, sizeof *p->forms));
out:
    return status;
}

/* d[rows, K] = D of every step-th output: (E_c [- lambda W0]) (A_c + lambda I)^-1, where
 * E_c = E - residual_sum s^T / T with a bias. Where no input varies, D only moves W0 to the target
 * of the ridge. */
static grail_status solve_outputs(const ridge_problem *p, int64_t rows, int64_t step, double *d)
{
    const regression *r = p->fit;
    const bool to_zero = p->options->ridge == RIDGE_ZERO;
    const double inverse_count = p->options->bias ? regression_inverse_count(r) : 0.0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t o = i * step;
        const double mean = r->residual_sum[o] * inverse_count;
        for (int64_t k = 0; k < r->width; k++) {
            const double w0 = to_zero ? (double)p->prior[o * r->width + k] : 0.0;
            d[i * r->width + k] =
                r->cross[o * r->width + k] - mean * r->sum[k] - p->system.lambda * w0;
        }
    }
    const grail_status status = ridge_system_solve(&p->system, rows, d);
    for (int64_t i = 0; to_zero && p->system.scale == 0.0 && i < rows * r->width; i++) {
        d[i] = -(double)p->prior[i / r->width * step * r->width + i % r->width];
    }
    return status;
}

/* d_o = mean(Y) - W' mean(Z) over the fit part = (residual_sum_o - D_o s) / T; 0 without a bias. */
static double bias_of(const ridge_problem *p, int64_t o, const double *d)
{
    const regression *r = p->fit;
    return p->options->bias && !p->keeps_plain
               ? (r->residual_sum[o] - dot_product(r->width, d, r->sum)) *
                     regression_inverse_count(r)
               : 0.0;
}

/* The squared error on `part` of the measured outputs that are judged, after the change D[m, K] and
 * the bias d: sum_o res_o - 2 D_o E_o + D_o A D_o^T - 2 d_o (residual_sum_o - D_o s) + T d_o^2. A
 * must fill both triangles. */
static grail_status changed_error(const ridge_problem *p, const regression *part, const double *d,
                                  double *out)
{
    grail_status status = GRAIL_OK;
    const int64_t n = part->width;
    TRY(quadratic_forms(p->b, n, part->gram, p->measured, d, p->forms));
    double error = 0.0;
    for (int64_t i = 0; i < p->measured; i++) {
        const int64_t o = i * p->step;
        const double *row = d + i * n;
        if (!is_judged(p, o)) {
            continue;
        }
        const double bias = bias_of(p, o, row);
        const double left = part->residual_sum[o] - dot_product(n, row, part->sum);
        error += part->residual_square[o] - 2.0 * dot_product(n, row, part->cross + o * n) +
                 p->forms[i] - 2.0 * bias * left + bias * bias * (double)part->count;
    }
    *out = error;
out:
    return status;
}

/* Error relative to the squared target; an error that rounding made negative counts as 0, and so
 * does an empty target. */
static double relative_error(const ridge_problem *p, const regression *part, double error)
{
    double target = 0.0;
    for (int64_t o = 0; o < part->outputs; o += p->step) {
        target += is_judged(p, o) ? part->target_square[o] : 0.0;
    }
    return target > 0.0 && error > 0.0 ? error / target : 0.0;
}

static double plain_square(const ridge_problem *p, const regression *part)
{
    double error = 0.0;
    for (int64_t o = 0; o < part->outputs; o += p->step) {
        error += is_judged(p, o) ? part->residual_square[o] : 0.0;
    }
    return error;
}

static double plain_error(const ridge_problem *p, const regression *part)
{
    return relative_error(p, part, plain_square(p, part));
}

/* Errors of the measured changes p->best on both parts. */
static grail_status measure(ridge_problem *p, ridge_result *result)
{
    grail_status status = GRAIL_OK;
    double error = 0.0;
    ridge_system_restore(&p->system);
    result->fit_before = plain_error(p, p->fit);
    TRY(changed_error(p, p->fit, p->best, &error));
    result->fit_after = relative_error(p, p->fit, error);
    result->held_before = (double)NAN;
    result->held_after = (double)NAN;
    if (p->held != NULL) {
        result->held_before = plain_error(p, p->held);
        TRY(changed_error(p, p->held, p->best, &error));
        result->held_after = relative_error(p, p->held, error);
    }
out:
    return status;
}

/* The candidate nearest to the usual alpha, on a logarithmic scale. */
static double alpha_without_validation(const ridge_options *options)
{
    if (options->alpha_count == 0) {
        return options->alpha;
    }
    double best = options->alphas[0];
    for (int i = 1; i < options->alpha_count; i++) {
        const double distance = fabs(log(options->alphas[i] / usual_alpha));
        best = distance < fabs(log(best / usual_alpha)) ? options->alphas[i] : best;
    }
    return best;
}

static void keep_candidate(ridge_problem *p)
{
    double *spare = p->best;
    p->best = p->change;
    p->change = spare;
}

/* Chooses the candidate with the lowest error on the held-out part, the larger one on a tie, and
 * leaves its changes in p->best. A single alpha is a list of one. */
static grail_status cross_validate(ridge_problem *p, double *alpha)
{
    grail_status status = GRAIL_OK;
    const ridge_options *options = p->options;
    const int count = options->alpha_count > 0 ? options->alpha_count : 1;
    const double *alphas = options->alpha_count > 0 ? options->alphas : &options->alpha;
    double least = 0.0;
    for (int i = 0; i < count; i++) {
        double error = 0.0;
        TRY(ridge_system_factor(&p->system, alphas[i]));
        TRY(solve_outputs(p, p->measured, p->step, p->change));
        TRY(changed_error(p, p->held, p->change, &error));
        if (i == 0 || error < least || (error == least && alphas[i] > *alpha)) {
            least = error;
            *alpha = alphas[i];
            keep_candidate(p);
        }
    }
    p->keeps_plain = options->alpha_count > 0 && options->ridge == RIDGE_PRIOR &&
                     least > plain_square(p, p->held);
    if (p->keeps_plain) {
        memset(p->best, 0, (size_t)(p->measured * p->fit->width) * sizeof *p->best);
    }
out:
    return status;
}

/* Chooses alpha, measures the choice, and leaves `fit` with the sums of both parts. */
static grail_status validate(ridge_problem *p, regression *held, ridge_result *result)
{
    grail_status status = GRAIL_OK;
    symmetric_fill_upper(held->width, held->gram);
    TRY(cross_validate(p, &result->alpha));
    TRY(measure(p, result));
    ridge_system_fini(&p->system);
    TRY(regression_add(p->fit, held));
    TRY(ridge_system_init(&p->system, p->b, p->fit, p->options->bias));
out:
    return status;
}

/* Writes D of all outputs to weight[O, K], and to the result how it was solved. */
static grail_status solve_all(ridge_problem *p, double *weight, ridge_result *result)
{
    grail_status status = GRAIL_OK;
    if (p->keeps_plain) {
        memset(weight, 0, (size_t)(p->fit->outputs * p->fit->width) * sizeof *weight);
        result->alpha = result->lambda = (double)INFINITY;
        result->fallback = RIDGE_FALLBACK_PLAIN;
        result->condition = 1.0;
        return GRAIL_OK;
    }
    TRY(ridge_system_factor(&p->system, result->alpha));
    TRY(solve_outputs(p, p->fit->outputs, 1, weight));
    result->lambda = p->system.lambda;
    result->fallback = p->system.fallback;
    result->raises = p->system.raises;
    TRY(ridge_system_condition(&p->system, &result->condition));
out:
    return status;
}

/* Without a held-out part the final fit itself is measured. */
static grail_status measure_final(ridge_problem *p, const double *weight, ridge_result *result)
{
    const int64_t n = p->fit->width;
    for (int64_t i = 0; i < p->measured; i++) {
        memcpy(p->best + i * n, weight + i * p->step * n, (size_t)n * sizeof *weight);
    }
    return measure(p, result);
}

/* weight <- W0 + D. An unchanged weight keeps its bits, the sign of a zero included. */
static grail_status finish(const ridge_problem *p, double *weight, double *bias_change)
{
    const int64_t n = p->fit->width;
    for (int64_t o = 0; o < p->fit->outputs; o++) {
        double *row = weight + o * n;
        if (p->options->bias) {
            bias_change[o] = bias_of(p, o, row);
        }
        for (int64_t k = 0; k < n; k++) {
            const double w0 = (double)p->prior[o * n + k];
            row[k] = row[k] == 0.0 ? w0 : w0 + row[k];
        }
        if (sums_find_non_finite(n, row) >= 0) {
            return not_finite("ridge", "the fitted weight of output", o);
        }
    }
    return GRAIL_OK;
}

grail_status ridge_solve(const backend *b, regression *fit, regression *held, const float *prior,
                         const ridge_options *options, double *weight, double *bias_change,
                         ridge_result *result)
{
    grail_status status = GRAIL_OK;
    ridge_result found = {.alpha = alpha_without_validation(options)};
    regression *judge = held != NULL && held->count > 0 ? held : NULL;
    ridge_problem p = {.b = b, .options = options, .fit = fit, .held = judge, .prior = prior};
    TRY(check_options(options));
    TRY(check_parts(fit, judge));
    TRY(problem_allocate(&p));
    TRY(ridge_system_init(&p.system, b, fit, options->bias));
    if (judge != NULL) {
        TRY(validate(&p, judge, &found));
    }
    TRY(solve_all(&p, weight, &found));
    if (judge == NULL) {
        TRY(measure_final(&p, weight, &found));
    }
    TRY(finish(&p, weight, bias_change));
    *result = found;
out:
    problem_fini(&p);
    return status;
}
