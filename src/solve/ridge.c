#include "solve/ridge.h"

#include "algebra/products.h"
#include "solve/shared_trials.h"
#include "solve/system.h"
#include "stats/constant_features.h"
#include "stats/shared_rows.h"

#include <math.h>
#include <string.h>

const double ridge_alphas[RIDGE_ALPHAS] = {1e-5, 1e-4, 1e-3, 1e-2, 1e-1};

/* Without a held-out part the candidate closest to this alpha is used. */
static const double usual_alpha = 1e-3;

/* A map that may be kept: W' = W0 + D and the change d of the bias, of every step-th output. With
 * alpha = infinity D = 0: that is W0 with the bias that suits it best, the limit of the prior
 * ridge, or, where the bias stays too, the plain consumer. */
typedef struct candidate {
    double alpha;
    bool bias; /* d_o = mean(Y) - W' mean(Z); otherwise d = 0 */
    int64_t step;
    matrix change; /* D, row by row */
    double *shift; /* d of each row; NULL: d = 0 */
    double held;   /* its squared error on the held-out part, once tried there */
} candidate;

/* What the error of a change D[m, K] on a part of the rows needs of each of its rows; [m] each, of
 * one block, as they lie on the instance, too, so that they are read at once. */
enum { CHANGE_PRODUCTS = 3 };
typedef struct change_products {
    double *forms; /* D_o A D_o^T */
    double *cross; /* D_o E_o */
    double *sum;   /* D_o s */
    matrix there;  /* [3, m] */
} change_products;

/* One solve. */
typedef struct ridge_problem {
    const ridge_options *options;
    regression *fit;
    const regression *held; /* NULL without a held-out part */
    matrix prior;           /* W0[O, K], borrowed */
    ridge_system system;    /* of `fit` */
    int64_t measured;       /* m outputs, every step-th one */
    int64_t step;
    const bool *judged;       /* [O], NULL = all */
    candidate tried;          /* of the measured outputs */
    candidate best;           /* the best of these so far */
    change_products products; /* scratch */
    shared_trials trials;     /* of ranks that cross-validate together */
} ridge_problem;

static grail_status not_finite(const char *part, const char *what, int64_t i)
{
    return error_set(GRAIL_ERROR_NUMERIC,
                     "%s: %s %lld is not finite; look for NaN or infinity in the calibration "
                     "activations and weights",
                     part, what, (long long)i);
}

static int64_t first_non_finite(int64_t count, const double *values)
{
    int64_t i = 0;
    while (i < count && isfinite(values[i])) {
        i++;
    }
    return i < count ? i : -1;
}

/* An error that names the row of the first element that is NaN or infinite. */
static grail_status check_matrix(const char *part, const char *what, bool lower, bool finite,
                                 matrix m)
{
    int64_t index = -1;
    if (finite) {
        return GRAIL_OK;
    }
    const grail_status status = matrix_find_non_finite(lower, m, &index);
    return status == GRAIL_OK && index >= 0 ? not_finite(part, what, index / m.columns) : status;
}

static grail_status check_vector(const char *part, const char *what, int64_t count,
                                 const double *values)
{
    const int64_t i = first_non_finite(count, values);
    return i >= 0 ? not_finite(part, what, i) : GRAIL_OK;
}

/* GRAIL_ERROR_NUMERIC naming the first sum that is NaN or infinite. */
static grail_status check_regression(const char *part, const regression *r)
{
    bool finite = false; /* both matrices are, as far as that is known */
    CHECK(matrices_are_finite(2, (const matrix[]){r->gram, r->cross}, (const bool[]){true, false},
                              &finite));
    CHECK(check_matrix(part, "the gram sum of feature", true, finite, r->gram));
    CHECK(check_vector(part, "the sum of feature", r->width, r->sum));
    CHECK(check_matrix(part, "the residual sum of output", false, finite, r->cross));
    CHECK(check_vector(part, "the target sum of output", r->outputs, r->residual_sum));
    CHECK(check_vector(part, "the target sum of output", r->outputs, r->residual_square));
    return check_vector(part, "the target sum of output", r->outputs, r->target_square);
}

static grail_status check_parts(const regression *fit, const regression *held)
{
    CHECK(check_regression("ridge", fit));
    if (held == NULL) {
        return GRAIL_OK;
    }
    if (held->width != fit->width || held->outputs != fit->outputs) {
        return error_set(
            GRAIL_ERROR_SHAPE,
            "ridge: the held-out sums are %lld x %lld, but the sums to fit are %lld x %lld",
            (long long)held->outputs, (long long)held->width, (long long)fit->outputs,
            (long long)fit->width);
    }
    return check_regression("ridge, held-out part", held);
}

static void candidate_fini(candidate *c)
{
    matrix_free(&c->change);
    memory_free(c->shift);
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

/* For the measured outputs. */
static grail_status allocate_candidate(const ridge_problem *p, candidate *c)
{
    c->step = p->step;
    CHECK(matrix_new(p->fit->gram.owner, GRAIL_DTYPE_F64, p->measured, p->fit->width, &c->change));
    return memory_new_unset(&c->shift, (size_t)p->measured, sizeof c->shift[0]);
}

/* Memory for the measured outputs; p->fit, p->prior and p->options are set. */
static grail_status problem_allocate(ridge_problem *p)
{
    backend *b = p->fit->gram.owner;
    p->step = regression_measured_stride(p->fit->outputs);
    p->measured = (p->fit->outputs + p->step - 1) / p->step;
    p->judged = judged_outputs(p);
    CHECK(allocate_candidate(p, &p->tried));
    CHECK(allocate_candidate(p, &p->best));
    change_products *products = &p->products;
    const size_t count = (size_t)p->measured;
    CHECK(memory_new_unset(&products->forms, CHANGE_PRODUCTS * count, sizeof products->forms[0]));
    products->cross = products->forms + count;
    products->sum = products->cross + count;
    return matrix_new(b, GRAIL_DTYPE_F64, CHANGE_PRODUCTS, p->measured, &products->there);
}

/* Factors for this alpha, which the options may relate to all features before the cut. */
static grail_status factor(ridge_problem *p, double alpha)
{
    const double scale = p->system.damped.scale;
    const bool of_all = p->options->of_all && scale > 0.0;
    return ridge_system_factor(&p->system, of_all ? alpha * p->fit->full_diagonal / scale : alpha);
}

/* d -= residual_sum s^T / T for every step-th output from `first` on, of which constant features
 * leave nothing. */
static grail_status centre_residual(const ridge_system *s, int64_t first, int64_t step, matrix d)
{
    grail_status status = GRAIL_OK;
    const regression *r = s->r;
    double *mean = NULL;
    TRY(memory_new_unset(&mean, (size_t)d.rows, sizeof *mean));
    for (int64_t i = 0; i < d.rows; i++) {
        mean[i] = r->residual_sum[first + i * step] * regression_inverse_weight(r);
    }
    TRY(subtract_outer(false, 1.0, mean, r->sum, d));
    TRY(clear_constant_columns(s->damped.constant, d));
out:
    memory_free(mean);
    return status;
}

/* d[., K] = D of every step-th output from `first` on: (E_c [- lambda W0 S]) (A_c + lambda S)^-1,
 * where E_c = E - residual_sum s^T / T with a bias. Where no input varies, D only moves W0 to the
 * target of the ridge; without rows it is 0 (T = 0), since nothing is known of the inputs. */
static grail_status solve_outputs(const ridge_problem *p, int64_t first, int64_t step, matrix d)
{
    const bool to_zero = p->options->ridge == RIDGE_ZERO;
    const int64_t span = p->fit->outputs - first;
    const matrix prior = matrix_every_row(matrix_rows(p->prior, first, span), step);
    const matrix cross = matrix_every_row(matrix_rows(p->fit->cross, first, span), step);
    CHECK(matrix_copy(matrix_rows(cross, 0, d.rows), d));
    if (p->options->bias) {
        CHECK(centre_residual(&p->system, first, step, d));
    }
    if (to_zero) {
        CHECK(ridge_system_subtract_penalty(&p->system, matrix_rows(prior, 0, d.rows), d));
    }
    CHECK(ridge_system_solve(&p->system, d));
    if (to_zero && p->system.damped.scale == 0.0 && p->fit->weight > 0.0) {
        CHECK(matrix_add_scaled(-1.0, matrix_rows(prior, 0, d.rows), d));
    }
    return GRAIL_OK;
}

/* Whether W' = W0. */
static bool keeps_weights(const candidate *c)
{
    return isinf(c->alpha);
}

/* d_o = mean(Y) - W' mean(Z) over the fit part = (residual_sum_o - D_o s) / T. */
static grail_status shift_candidate(const ridge_problem *p, candidate *c)
{
    if (c->shift == NULL) {
        return GRAIL_OK;
    }
    CHECK(vector_products(c->change, p->fit->sum, c->shift));
    for (int64_t i = 0; i < c->change.rows; i++) {
        c->shift[i] = c->bias ? (p->fit->residual_sum[i * c->step] - c->shift[i]) *
                                    regression_inverse_weight(p->fit)
                              : 0.0;
    }
    return GRAIL_OK;
}

static grail_status multiply_change(const ridge_problem *p, const regression *part,
                                    const candidate *c)
{
    grail_status status = GRAIL_OK;
    const change_products *products = &p->products;
    const matrix cross = matrix_every_row(part->cross, p->step);
    matrix sum = no_matrix;
    if (keeps_weights(c)) {
        memset(products->forms, 0, CHANGE_PRODUCTS * (size_t)p->measured * sizeof(double));
        return GRAIL_OK;
    }
    TRY(import_row(part->gram.owner, part->width, part->sum, &sum));
    TRY(quadratic_forms_make(part->gram, c->change, matrix_rows(products->there, 0, 1)));
    TRY(matrix_row_dots(c->change, cross, matrix_rows(products->there, 1, 1)));
    TRY(matrix_row_dots(c->change, matrix_repeat_row(sum, p->measured),
                        matrix_rows(products->there, 2, 1)));
    TRY(matrix_download(products->there, products->forms));
out:
    matrix_free(&sum);
    return status;
}

/* The squared error of a candidate on `part`, of the measured outputs that are judged: sum_o
 * residual_square_o - 2 D_o E_o + D_o A D_o^T - 2 d_o (residual_sum_o - D_o s) + T d_o^2. A must
 * fill both triangles. */
static grail_status changed_error(const ridge_problem *p, const regression *part,
                                  const candidate *c, double *out)
{
    const change_products *products = &p->products;
    double error = 0.0;
    CHECK(multiply_change(p, part, c));
    for (int64_t i = 0; i < p->measured; i++) {
        const int64_t o = i * p->step;
        if (!is_judged(p, o)) {
            continue;
        }
        const double left = part->residual_sum[o] - products->sum[i];
        error += part->residual_square[o] - 2.0 * products->cross[i] + products->forms[i] -
                 2.0 * c->shift[i] * left + c->shift[i] * c->shift[i] * part->weight;
    }
    *out = error;
    return GRAIL_OK;
}

static double judged_target(const ridge_problem *p, const regression *part)
{
    double target = 0.0;
    for (int64_t o = 0; o < part->outputs; o += p->step) {
        target += is_judged(p, o) ? part->target_square[o] : 0.0;
    }
    return target;
}

/* Error relative to the squared target; an error that rounding made negative counts as 0, and so
 * does an empty target. */
static double relative_error(const ridge_problem *p, const regression *part, double error)
{
    const double target = judged_target(p, part);
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

/* Squared errors of the best candidate on both parts. */
static grail_status measure_best(ridge_problem *p, trial_errors *out)
{
    CHECK(damped_restore(&p->system.damped));
    out->held = p->best.held;
    return changed_error(p, p->fit, &p->best, &out->fit);
}

static void report_errors(const ridge_problem *p, trial_errors errors, ridge_result *result)
{
    const double nan = (double)NAN;
    result->fit_before = plain_error(p, p->fit);
    result->fit_after = relative_error(p, p->fit, errors.fit);
    result->held_before = p->held == NULL ? nan : plain_error(p, p->held);
    result->held_after = p->held == NULL ? nan : relative_error(p, p->held, errors.held);
    result->fit_target = judged_target(p, p->fit);
    result->held_target = p->held == NULL ? 0.0 : judged_target(p, p->held);
}

static double mean_by_target(double a, double target_a, double b, double target_b)
{
    const double both = target_a + target_b;
    return both > 0.0 ? (a * target_a + b * target_b) / both : a;
}

static double largest_finite(double a, double b)
{
    return isinf(a) ? b : isinf(b) || a > b ? a : b;
}

static bool keeps_prior(ridge_fallback f)
{
    return f == RIDGE_FALLBACK_BIAS || f == RIDGE_FALLBACK_PLAIN;
}

static ridge_fallback join_fallbacks(ridge_fallback a, ridge_fallback b)
{
    if (keeps_prior(a) && keeps_prior(b)) {
        return a < b ? a : b;
    }
    const ridge_fallback left = keeps_prior(a) ? RIDGE_FALLBACK_NONE : a;
    const ridge_fallback right = keeps_prior(b) ? RIDGE_FALLBACK_NONE : b;
    return left > right ? left : right;
}

void ridge_result_join(ridge_result *into, const ridge_result *other)
{
    into->fit_before =
        mean_by_target(into->fit_before, into->fit_target, other->fit_before, other->fit_target);
    into->fit_after =
        mean_by_target(into->fit_after, into->fit_target, other->fit_after, other->fit_target);
    into->held_before = mean_by_target(into->held_before, into->held_target, other->held_before,
                                       other->held_target);
    into->held_after =
        mean_by_target(into->held_after, into->held_target, other->held_after, other->held_target);
    into->fit_target += other->fit_target;
    into->held_target += other->held_target;
    into->alpha = largest_finite(into->alpha, other->alpha);
    into->lambda = largest_finite(into->lambda, other->lambda);
    into->condition = fmax(into->condition, other->condition);
    into->fallback = join_fallbacks(into->fallback, other->fallback);
    into->raises = into->raises > other->raises ? into->raises : other->raises;
}

/* The candidate nearest to the usual alpha, on a logarithmic scale. */
static double alpha_without_validation(const ridge_options *options)
{
    if (options->keeps_weights) {
        return (double)INFINITY;
    }
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
    const candidate spare = p->best;
    p->best = p->tried;
    p->tried = spare;
}

/* *alpha = the nearest larger or smaller candidate; whether there is one. */
static bool next_candidate(const ridge_options *options, bool larger, double *alpha)
{
    const double before = *alpha;
    for (int i = 0; i < options->alpha_count; i++) {
        const double a = options->alphas[i];
        const bool beyond = larger ? a > before : a < before;
        const bool nearer = *alpha == before || (larger ? a < *alpha : a > *alpha);
        *alpha = beyond && nearer ? a : *alpha;
    }
    return *alpha != before;
}

/* Solves p->tried and judges it on the held-out part. */
static grail_status try_candidate(ridge_problem *p, double alpha, bool bias, double *error)
{
    p->tried.alpha = alpha;
    p->tried.bias = bias;
    if (keeps_weights(&p->tried)) {
        CHECK(matrix_zero(p->tried.change));
    } else {
        CHECK(factor(p, p->tried.alpha));
        CHECK(solve_outputs(p, 0, p->tried.step, p->tried.change));
    }
    CHECK(shift_candidate(p, &p->tried));
    CHECK(changed_error(p, p->held, &p->tried, error));
    p->tried.held = *error;
    return GRAIL_OK;
}

/* A trial of this rank; `context` is the problem. */
static grail_status try_alone(void *context, double alpha, trial_errors *out)
{
    ridge_problem *p = context;
    CHECK(try_candidate(p, alpha, p->options->bias, &out->held));
    CHECK(damped_restore(&p->system.damped));
    return changed_error(p, p->fit, &p->tried, &out->fit);
}

/* As try_candidate, of an alpha. Where trials are shared out, p->tried is without its change. */
static grail_status try_alpha(ridge_problem *p, double alpha, double *error)
{
    trial_errors errors = {0};
    if (p->trials.count == 0) {
        return try_candidate(p, alpha, p->options->bias, error);
    }
    CHECK(shared_trials_ask(&p->trials, alpha, try_alone, p, &errors));
    p->tried.alpha = alpha;
    p->tried.bias = p->options->bias;
    *error = errors.held;
    return GRAIL_OK;
}

/* Goes from one candidate to the next as long as the error falls, or towards larger ones stays. */
static grail_status walk_candidates(ridge_problem *p, bool larger, double *least)
{
    double next = p->best.alpha;
    while (next_candidate(p->options, larger, &next)) {
        double error = 0.0;
        CHECK(try_alpha(p, next, &error));
        if (!(error < *least || (larger && error == *least))) {
            break;
        }
        *least = error;
        keep_candidate(p);
    }
    return GRAIL_OK;
}

/* Keeps W0 where it does better than every fit of the weights: with the bias that suits it, unless
 * its own does better. */
static grail_status try_prior(ridge_problem *p, double least)
{
    double plain = 0.0;
    double moved = 0.0;
    CHECK(try_candidate(p, (double)INFINITY, false, &plain));
    if (!(plain < least)) {
        return GRAIL_OK;
    }
    keep_candidate(p);
    if (p->options->bias && p->options->moves_prior) {
        CHECK(try_candidate(p, (double)INFINITY, true, &moved));
        if (moved < plain) {
            keep_candidate(p);
        }
    }
    return GRAIL_OK;
}

/* Chooses a candidate by its error on the held-out part, the larger alpha on a tie: from the usual
 * one downhill, since each costs a factorisation and the error has one valley nearly always. */
static grail_status cross_validate(ridge_problem *p)
{
    const double first = p->best.alpha;
    double least = 0.0;
    CHECK(try_alpha(p, first, &least));
    keep_candidate(p);
    if (p->options->keeps_weights || p->options->alpha_count == 0) {
        return GRAIL_OK;
    }
    CHECK(walk_candidates(p, true, &least));
    if (p->best.alpha == first) {
        CHECK(walk_candidates(p, false, &least));
    }
    if (p->options->ridge == RIDGE_PRIOR) {
        CHECK(try_prior(p, least));
    }
    return GRAIL_OK;
}

/* The errors of the chosen candidate, whose change another rank may have. */
static grail_status errors_of_choice(ridge_problem *p, trial_errors *out)
{
    if (p->trials.count == 0 || keeps_weights(&p->best)) {
        return measure_best(p, out);
    }
    CHECK(damped_restore(&p->system.damped)); /* a trial of this rank may have failed */
    return shared_trials_ask(&p->trials, p->best.alpha, try_alone, p, out);
}

/* Chooses alpha, measures the choice, and leaves `fit` with the sums of both parts. */
static grail_status validate(ridge_problem *p, regression *held, ridge_result *result)
{
    const ridge_options *o = p->options;
    trial_errors errors = {0};
    if (comm_is_shared(o->comm) && o->alpha_count > 1 && !o->keeps_weights) {
        CHECK(shared_trials_init(o->comm, o->alphas, o->alpha_count, &p->trials));
    }
    CHECK(cross_validate(p));
    CHECK(errors_of_choice(p, &errors));
    report_errors(p, errors, result);
    ridge_system_fini(&p->system);
    CHECK(regression_add(p->fit, held));
    return ridge_system_init(&p->system, p->fit, o->bias, o->scale);
}

static ridge_fallback fallback_of(const ridge_problem *p)
{
    if (!keeps_weights(&p->best)) {
        return p->system.fallback;
    }
    return p->options->keeps_weights ? RIDGE_FALLBACK_NONE
           : p->best.bias            ? RIDGE_FALLBACK_BIAS
                                     : RIDGE_FALLBACK_PLAIN;
}

/* Writes D and d of all outputs to weight[O, K] and bias_change[O], as the best candidate is made,
 * and to the result how. */
static grail_status solve_all(ridge_problem *p, matrix weight, double *bias_change,
                              ridge_result *result)
{
    candidate all = {.alpha = p->best.alpha,
                     .bias = p->best.bias,
                     .step = 1,
                     .change = weight,
                     .shift = bias_change};
    if (keeps_weights(&all)) {
        CHECK(matrix_zero(weight));
    } else {
        CHECK(factor(p, all.alpha));
        /* D of all outputs, each rank some of them. */
        const shared_rows rows = shared_rows_of(p->options->comm, weight.owner, weight.rows);
        const int64_t count = rows.end - rows.begin;
        CHECK(shared_rows_gather(
            &rows,
            count > 0 ? solve_outputs(p, rows.begin, 1, matrix_rows(weight, rows.begin, count))
                      : GRAIL_OK,
            weight));
    }
    CHECK(shift_candidate(p, &all));
    result->alpha = result->lambda = all.alpha;
    result->condition = 1.0;
    result->fallback = fallback_of(p);
    if (!keeps_weights(&all)) {
        result->lambda = p->system.damped.lambda;
        result->raises = p->system.damped.raises;
        CHECK(ridge_system_condition(&p->system, &result->condition));
    }
    return GRAIL_OK;
}

/* weight <- W0 + D, a panel of outputs at a time. An unchanged weight keeps its bits, the sign of a
 * zero included: 0 - D has no negative zero, and what it is subtracted from keeps its sign. */
static grail_status finish(const ridge_problem *p, matrix weight)
{
    grail_status status = GRAIL_OK;
    matrix negated = no_matrix;
    bool finite = false;
    const int64_t panel = feature_panel(weight.owner, weight.rows);
    TRY(matrix_new(weight.owner, GRAIL_DTYPE_F64, panel, weight.columns, &negated));
    for (int64_t begin = 0; begin < weight.rows; begin += panel) {
        const int64_t count = begin + panel < weight.rows ? panel : weight.rows - begin;
        const matrix change = matrix_rows(negated, 0, count);
        const matrix rows = matrix_rows(weight, begin, count);
        TRY(matrix_zero(change));
        TRY(matrix_add_scaled(-1.0, rows, change));
        TRY(matrix_copy(matrix_rows(p->prior, begin, count), rows));
        TRY(matrix_add_scaled(-1.0, change, rows));
    }
    TRY(matrices_are_finite(1, &weight, (const bool[]){false}, &finite));
    TRY(check_matrix("ridge", "the fitted weight of output", false, finite, weight));
out:
    matrix_free(&negated);
    return status;
}

grail_status ridge_solve(regression *fit, regression *held, matrix prior,
                         const ridge_options *options, matrix weight, double *bias_change,
                         ridge_result *result)
{
    grail_status status = GRAIL_OK;
    ridge_result found = {.fallback = RIDGE_FALLBACK_NONE};
    regression *judge = held != NULL && held->weight > 0.0 ? held : NULL;
    ridge_problem p = {.options = options, .fit = fit, .held = judge, .prior = prior};
    for (int i = 0; i < options->alpha_count; i++) {
        if (!(options->alphas[i] >= 0.0) || !isfinite(options->alphas[i])) {
            FAIL(GRAIL_ERROR_ARGUMENT, "ridge: alpha is %g, expected a finite number of 0 or more",
                 options->alphas[i]);
        }
    }
    if (options->alpha_count == 0 && (!(options->alpha >= 0.0) || !isfinite(options->alpha))) {
        FAIL(GRAIL_ERROR_ARGUMENT, "ridge: alpha is %g, expected a finite number of 0 or more",
             options->alpha);
    }
    TRY(check_parts(fit, judge));
    TRY(problem_allocate(&p));
    p.best.alpha = alpha_without_validation(options);
    p.best.bias = options->bias;
    TRY(ridge_system_init(&p.system, fit, options->bias, options->scale));
    if (judge != NULL) {
        TRY(validate(&p, judge, &found));
    }
    TRY(solve_all(&p, weight, bias_change, &found));
    if (judge == NULL) {
        /* Without a held-out part the final fit itself is measured. */
        trial_errors errors = {0};
        TRY(matrix_copy(matrix_every_row(weight, p.step), p.best.change));
        TRY(shift_candidate(&p, &p.best));
        TRY(measure_best(&p, &errors));
        report_errors(&p, errors, &found);
    }
    TRY(finish(&p, weight));
    *result = found;
out:
    ridge_system_fini(&p.system);
    shared_trials_fini(&p.trials);
    candidate_fini(&p.tried);
    candidate_fini(&p.best);
    memory_free(p.products.forms);
    matrix_free(&p.products.there);
    return status;
}
