#include "reduce/removal.h"

#include "algebra/damped.h"
#include "algebra/products.h"
#include "base/memory.h"
#include "exec/matrix_passing.h"
#include "reduce/plan.h"
#include "stats/constant_features.h"

#include <math.h>
#include <string.h>

const compensation removal_update = {
    .enabled = true,
    .target = TARGET_LOCAL,
    .bias = BIAS_OFF,
    .conv_fit = CONV_FIT_CHANNEL,
    .ridge = RIDGE_PRIOR,
    .ridge_of = RIDGE_OF_ALL,
    .alpha = {GRAIL_NUMBER_GIVEN, 1e-2},
};

grail_status removal_values(removal *r, double *values)
{
    return elimination_values(r->elimination, values);
}

int64_t batch_of_one(int64_t wanted, int64_t done)
{
    (void)wanted;
    (void)done;
    return 1;
}

static int64_t next_size(int64_t size)
{
    enum { LESS = 512 };
    return (size - LESS) / 2;
}

int64_t batch_shrinking(int64_t wanted, int64_t done)
{
    enum { FEWEST = 64, MOST = 1024 };
    int64_t size = next_size(wanted);
    for (int64_t taken = 0;; size = next_size(size)) {
        const int64_t batch = size < FEWEST ? FEWEST : size > MOST ? MOST : size;
        taken += batch;
        if (taken > done) {
            return batch;
        }
    }
}

static grail_status check_count(const removal *r, int64_t groups, int64_t count)
{
    bool fits = groups > 0 && r->units % groups == 0 && count % groups == 0;
    for (int64_t g = 0; fits && g < groups; g++) {
        int64_t left = 0;
        for (int64_t j = 0; j < r->units / groups; j++) {
            left += r->taken[g * (r->units / groups) + j] ? 0 : 1;
        }
        fits = left >= count / groups;
    }
    return fits ? GRAIL_OK
                : error_set(GRAIL_ERROR_ARGUMENT,
                            "cannot take %lld of %lld units evenly from %lld groups",
                            (long long)count, (long long)r->units, (long long)groups);
}

/* The runs of units from which the same number is taken. */
typedef struct taking {
    removal *removal;
    int64_t groups, per_group; /* units of a group */
    int64_t *open;             /* [groups]: how many are still to be taken */
    bool *allowed;             /* [n]: units of groups that are open */
} taking;

static grail_status taking_init(removal *r, int64_t groups, int64_t count, taking *t)
{
    *t = (taking){.removal = r, .groups = groups, .per_group = r->units / groups};
    CHECK(memory_new_unset(&t->open, (size_t)groups, sizeof t->open[0]));
    CHECK(memory_new_unset(&t->allowed, (size_t)r->units, sizeof t->allowed[0]));
    for (int64_t j = 0; j < r->units; j++) {
        t->open[j / t->per_group] = count / groups;
        t->allowed[j] = true;
    }
    return groups > 1 ? elimination_allow(r->elimination, t->allowed) : GRAIL_OK;
}

static void taking_fini(taking *t)
{
    memory_free(t->open);
    memory_free(t->allowed);
}

/* Settles `count` units. A group from which enough were taken is closed; a single one need not be.
 */
static grail_status settle(taking *t, int64_t count, int64_t *units, double *values)
{
    bool closed = false;
    CHECK(elimination_settle(t->removal->elimination, units, values));
    for (int64_t i = 0; i < count; i++) {
        const int64_t group = units[i] / t->per_group;
        t->removal->taken[units[i]] = true;
        closed = --t->open[group] == 0;
        for (int64_t j = 0; closed && j < t->per_group; j++) {
            t->allowed[group * t->per_group + j] = false;
        }
    }
    return closed && t->groups > 1 ? elimination_allow(t->removal->elimination, t->allowed)
                                   : GRAIL_OK;
}

grail_status removal_take(removal *r, int64_t groups, int64_t count, bool largest, batch_rule batch,
                          double *values_at)
{
    grail_status status = GRAIL_OK;
    int64_t *units = NULL;
    double *values = NULL;
    taking t = {0};
    TRY(check_count(r, groups, count));
    TRY(taking_init(r, groups, count, &t));
    TRY(memory_new_unset(&units, (size_t)count, sizeof units[0]));
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    for (int64_t done = 0, settled = 0, valued = 0; done < count;) {
        if (done == valued) {
            valued += batch(count, done);
            TRY(elimination_value(r->elimination));
        }
        TRY(elimination_take(r->elimination, largest));
        done++;
        if (groups > 1 || done == count || elimination_is_full(r->elimination)) {
            TRY(settle(&t, done - settled, units + settled, values + settled));
            settled = done;
        }
    }
    for (int64_t i = 0; values_at != NULL && i < count; i++) {
        values_at[i] = values[i];
    }
out:
    memory_free(units);
    memory_free(values);
    taking_fini(&t);
    return status;
}

grail_status removal_reducer(const removal *r, bool keeps_taken, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    int64_t *kept = NULL;
    int64_t count = 0;
    TRY(memory_new_unset(&kept, (size_t)r->units, sizeof kept[0]));
    for (int64_t j = 0; j < r->units; j++) {
        if (r->taken[j] == keeps_taken) {
            kept[count++] = j;
        }
    }
    TRY(grail_reducer_from_selection(r->units, count, kept, out));
out:
    memory_free(kept);
    return status;
}

grail_status removal_losses(removal *r, int64_t groups, double *losses)
{
    grail_status status = GRAIL_OK;
    double *costs = NULL;
    double sum = 0.0;
    const int64_t count = groups > 1 ? groups : r->units; /* at once */
    TRY(memory_new(&costs, (size_t)count, sizeof costs[0]));
    losses[r->units] = 0.0;
    for (int64_t kept = r->units - 1; kept >= 0;) {
        TRY(removal_take(r, groups, count, false, batch_of_one, costs));
        for (int64_t i = 0; i < count; i += groups) {
            for (int64_t g = 0; g < groups; g++) {
                sum += costs[i + g];
            }
            for (int64_t g = 0; g < groups; g++) {
                losses[kept--] = sum;
            }
        }
    }
out:
    memory_free(costs);
    return status;
}

grail_status removal_decide(const site_view *v, const removal_options *options, batch_rule batch,
                            grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    removal r = {0};
    TRY(removal_init(v, options, &r));
    TRY(removal_take(&r, v->site->groups, v->site->units - v->kept, false, batch, NULL));
    TRY(removal_reducer(&r, false, out));
out:
    removal_fini(&r);
    return status;
}

/* -- damped factors ---------------------------------------------------------------------------- */

/* GRAIL_ERROR_NUMERIC when the mean of a Gram matrix's diagonal is 0, or not finite. */
static grail_status check_diagonal(double mean)
{
    if (!isfinite(mean)) {
        return error_set(GRAIL_ERROR_NUMERIC,
                         "the diagonal of the Gram matrix is not finite; look for NaN or infinity "
                         "in the activations");
    }
    return mean > 0.0 ? GRAIL_OK
                      : error_set(GRAIL_ERROR_NUMERIC,
                                  "no feature varies in the calibration data, so no unit can be "
                                  "told from another; use other data, or a selector that looks "
                                  "at weights alone");
}

grail_status damped_cholesky(double damping, matrix gram, double *lambda)
{
    grail_status status = GRAIL_OK;
    damped_gram d = {0};
    int64_t failing = -1;
    TRY(matrix_fill_upper(gram));
    TRY(damped_init(&d, gram, NULL, 0.0, 0.0));
    TRY(check_diagonal(d.scale));
    TRY(damped_factor(&d, damping * d.scale, &failing));
    if (failing >= 0) {
        FAIL(GRAIL_ERROR_NUMERIC,
             "the Gram matrix is indefinite: its factorisation fails at feature %lld even "
             "with %g added to its diagonal; look for errors in the activations",
             (long long)failing, d.lambda);
    }
    *lambda = d.lambda;
out:
    damped_fini(&d);
    return status;
}

grail_status damped_inverse(double damping, matrix gram, double *lambda)
{
    CHECK(damped_cholesky(damping, gram, lambda));
    return matrix_cholesky_invert(gram);
}

/* -- the matrices of the eliminations: from statistics and weights of a site's consumers ------- */

enum { PANEL_ROWS = 256 };

static const double gain_jitter = 1e-10; /* of the largest diagonal element */

/* One consumer: its statistics, which are taken over, and its weights. */
typedef struct part_source {
    const site_view *view;
    const removal_options *options; /* NULL: gains */
    input_statistics *input;
    consumer_rows rows;
    bool centred;   /* the fit has a bias */
    bool *constant; /* [H]: always 0, or constant beside a bias */
    double largest; /* of the diagonal of G, centred with a bias */
    double lambda;
} part_source;

static void source_fini(part_source *s)
{
    consumer_rows_fini(&s->rows);
    memory_free(s->constant);
    *s = (part_source){0};
}

/* Looks at the diagonal of G before it is centred, of which something must be left. */
static grail_status measure(part_source *s)
{
    grail_status status = GRAIL_OK;
    double *diagonal = NULL;
    double *varying = NULL;
    const int64_t width = s->input->width;
    TRY(memory_new_unset(&diagonal, (size_t)width, sizeof diagonal[0]));
    TRY(memory_new_unset(&varying, (size_t)width, sizeof varying[0]));
    TRY(memory_new_unset(&s->constant, (size_t)width, sizeof s->constant[0]));
    TRY(matrix_download_diagonal(s->input->gram, diagonal));
    for (int64_t j = 0; j < width; j++) {
        const double mean = s->centred ? s->input->means[j] : 0.0;
        varying[j] = s->input->weight * mean * mean;
    }
    centre_diagonal(width, diagonal, s->input->rounding, varying, s->constant);
    for (int64_t j = 0; j < width; j++) {
        s->largest = fmax(s->largest, varying[j]);
    }
    TRY(check_diagonal(mean_of(width, varying)));
out:
    memory_free(diagonal);
    memory_free(varying);
    return status;
}

static grail_status source_open(const site_view *v, const removal_options *options, int consumer,
                                part_source *s)
{
    *s = (part_source){.view = v, .options = options, .input = &v->inputs[consumer]};
    s->centred = options != NULL && options->refits && v->fits_bias && s->input->means != NULL;
    CHECK(consumer_rows_open(v, consumer, s->input->width, &s->rows));
    CHECK(consumer_rows_place(v, consumer, &s->rows));
    CHECK(measure(s));
    /* G - T mu^T mu, and with a target C - T nu^T mu with the target's means nu; constant features
     * leave nothing of either. */
    const input_statistics *in = s->input;
    if (s->centred) {
        CHECK(subtract_outer(true, in->weight, in->means, in->means, in->gram));
        CHECK(clear_constant_pairs(s->constant, in->gram));
    }
    if (s->centred && matrix_exists(in->cross)) {
        CHECK(subtract_outer(false, in->weight, in->target_means, in->means, in->cross));
        CHECK(clear_constant_columns(s->constant, in->cross));
    }
    return GRAIL_OK;
}

/* Panels of weights: W, refitted or multiplied by G (`by_gram`). Each rank makes one of a turn. */
typedef struct weight_panels {
    const part_source *source;
    bool by_gram;
    int64_t most;          /* rows of a panel */
    matrix panel, scratch; /* [most, H] */
    matrix own;            /* of these, that of this rank */
    matrix all;            /* [O, H] where a metric joins panels, or none */
} weight_panels;

static int64_t rows_from(const weight_panels *w, int64_t begin)
{
    const int64_t left = w->source->rows.count - begin;
    return left < 0 ? 0 : left < w->most ? left : w->most;
}

static grail_status make_panel(weight_panels *w, int64_t begin)
{
    const part_source *s = w->source;
    const matrix rows = matrix_rows(w->panel, 0, rows_from(w, begin));
    const matrix spare = matrix_rows(w->scratch, 0, rows.rows);
    const bool refits = s->options != NULL && s->options->refits && matrix_exists(s->input->cross);
    w->own = rows;
    if (rows.rows == 0) {
        return GRAIL_OK;
    }
    CHECK(consumer_rows_read(&s->rows, begin, rows));
    if (refits) { /* P <- (C + lambda W) A for the panel of W in `rows`; A is the inverse */
        CHECK(matrix_copy(matrix_rows(s->input->cross, begin, rows.rows), spare));
        CHECK(matrix_add_scaled(s->lambda, rows, spare));
        CHECK(matrix_gemm(false, false, 1.0, spare, s->input->gram, 0.0, rows));
    } else if (w->by_gram) {
        CHECK(matrix_gemm(false, false, 1.0, rows, s->input->gram, 0.0, spare));
        w->own = spare;
    }
    return clear_constant_columns(s->constant, w->own);
}

/* M += P^T P for the panels of one turn, in their order; or keeps them for a metric. */
static grail_status add_turn(const weight_panels *w, int64_t first, matrix m)
{
    const grail_comm *comm = w->source->view->comm;
    const matrix free_room = w->own.memory == w->panel.memory ? w->scratch : w->panel;
    for (int rank = 0; rank < comm_size(comm); rank++) {
        const int64_t count = rows_from(w, first + rank * w->most);
        const matrix rows = rank == comm_rank(comm) ? w->own : matrix_rows(free_room, 0, count);
        if (count > 0) {
            CHECK(matrices_share(comm, rank, &rows, 1));
            CHECK(matrix_exists(w->all)
                      ? matrix_copy(rows, matrix_rows(w->all, first + rank * w->most, count))
                      : matrix_add_symmetric(1.0, rows, rows, m));
        }
    }
    return GRAIL_OK;
}

/* M += W^T F W. Where positions of a kernel have rows of their own, each output has as many of them
 * one after the other, and F joins those of one position. */
static grail_status add_by_metric(matrix metric, matrix weights, matrix m)
{
    grail_status status = GRAIL_OK;
    const int64_t outputs = metric.rows;
    const int64_t width = weights.rows / outputs * weights.columns;
    matrix product = no_matrix;
    TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, weights.rows, weights.columns, &product));
    TRY(matrix_gemm(false, false, 1.0, metric, matrix_reshape(weights, outputs, width), 0.0,
                    matrix_reshape(product, outputs, width)));
    TRY(matrix_add_symmetric(1.0, weights, product, m));
out:
    matrix_free(&product);
    return status;
}

/* M[H, H] += P^T P over panels P of weights, or W^T F W with a metric F. */
static grail_status add_weights(const part_source *s, bool by_gram, matrix m)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = s->view->comm;
    weight_panels w = {.source = s,
                       .by_gram = by_gram,
                       .most = s->rows.count < PANEL_ROWS ? s->rows.count : PANEL_ROWS};
    TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, w.most, m.rows, &w.panel));
    TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, w.most, m.rows, &w.scratch));
    if (matrix_exists(s->input->metric)) {
        TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, s->rows.count, m.rows, &w.all));
    }
    for (int64_t first = 0; first < s->rows.count; first += w.most * comm_size(comm)) {
        TRY(make_panel(&w, first + comm_rank(comm) * w.most));
        TRY(add_turn(&w, first, m));
    }
    TRY(matrix_exists(w.all) ? add_by_metric(s->input->metric, w.all, m) : GRAIL_OK);
out:
    matrix_free(&w.all);
    matrix_free(&w.panel);
    matrix_free(&w.scratch);
    return status;
}

static grail_status add_part(part_source *s, elimination *e)
{
    grail_status status = GRAIL_OK;
    matrix m = no_matrix;
    const bool gains = s->options == NULL;
    const matrix gram = s->input->gram;
    if (gains) {
        TRY(matrix_fill_upper(gram));
    } else {
        TRY(damped_inverse(s->options->damping, s->input->gram, &s->lambda));
    }
    TRY(matrix_new_zero(gram.owner, GRAIL_DTYPE_F64, gram.rows, gram.rows, &m));
    TRY(add_weights(s, gains, m));
    TRY(elimination_add(e, gains ? VALUE_EXACT : s->options->kind,
                        gains ? gain_jitter * s->largest : s->options->jitter, gains,
                        &s->input->gram, &m));
out:
    matrix_free(&m);
    return status;
}

void removal_fini(removal *r)
{
    elimination_free(r->elimination);
    memory_free(r->taken);
    *r = (removal){0};
}

grail_status removal_init(const site_view *v, const removal_options *options, removal *out)
{
    grail_status status = GRAIL_OK;
    part_source source = {0};
    removal r = {.units = v->site->units};
    TRY(elimination_create(r.units, v->input_count, &r.elimination));
    TRY(memory_new(&r.taken, (size_t)r.units, sizeof r.taken[0]));
    for (int k = 0; k < v->input_count; k++) {
        TRY(source_open(v, options, k, &source));
        TRY(add_part(&source, r.elimination));
        source_fini(&source);
    }
    *out = r;
    r = (removal){0};
out:
    source_fini(&source);
    removal_fini(&r);
    return status;
}
