/* The matrices of the eliminations: from statistics and weights of a site's consumers. */
#include "algebra/products.h"
#include "reduce/consumer_rows.h"
#include "reduce/damped_inverse.h"
#include "reduce/removal.h"

#include "base/memory.h"
#include "exec/matrix_passing.h"
#include "stats/constant_features.h"

#include <math.h>

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

/* G - T mu^T mu, and with a target C - T nu^T mu with the target's means nu; constant features
 * leave nothing of either. */
static grail_status centre(const part_source *s)
{
    const input_statistics *in = s->input;
    CHECK(subtract_outer(true, in->weight, in->means, in->means, in->gram));
    CHECK(clear_constant_pairs(s->constant, in->gram));
    if (matrix_exists(in->cross)) {
        CHECK(subtract_outer(false, in->weight, in->target_means, in->means, in->cross));
        CHECK(clear_constant_columns(s->constant, in->cross));
    }
    return GRAIL_OK;
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
    CHECK(measure(s));
    if (s->centred) {
        CHECK(centre(s));
    }
    return GRAIL_OK;
}

/* P[rows, H] <- (C + lambda W) A for the panel of W in `rows`; A is the inverse. */
static grail_status refit(const part_source *s, int64_t begin, matrix rows, matrix scratch)
{
    CHECK(matrix_copy(matrix_rows(s->input->cross, begin, rows.rows), scratch));
    CHECK(matrix_add_scaled(s->lambda, rows, scratch));
    return matrix_gemm(false, false, 1.0, scratch, s->input->gram, 0.0, rows);
}

/* Panels of weights: W, refitted or multiplied by G (`by_gram`). Each rank makes one of a turn. */
typedef struct weight_panels {
    const part_source *source;
    bool by_gram;
    int64_t most;          /* rows of a panel */
    matrix panel, scratch; /* [most, H] */
    matrix own;            /* of these, that of this rank */
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
    if (refits) {
        CHECK(refit(s, begin, rows, spare));
    } else if (w->by_gram) {
        CHECK(matrix_gemm(false, false, 1.0, rows, s->input->gram, 0.0, spare));
        w->own = spare;
    }
    return clear_constant_columns(s->constant, w->own);
}

/* M += P^T P for the panels of one turn, in their order. */
static grail_status add_turn(const weight_panels *w, int64_t first, matrix m)
{
    const grail_comm *comm = w->source->view->comm;
    const matrix free_room = w->own.memory == w->panel.memory ? w->scratch : w->panel;
    for (int rank = 0; rank < comm_size(comm); rank++) {
        const int64_t count = rows_from(w, first + rank * w->most);
        const matrix rows = rank == comm_rank(comm) ? w->own : matrix_rows(free_room, 0, count);
        if (count > 0) {
            CHECK(matrices_share(comm, rank, &rows, 1));
            CHECK(matrix_add_symmetric(1.0, rows, rows, m));
        }
    }
    return GRAIL_OK;
}

/* M[H, H] += P^T P over panels P of weights. */
static grail_status add_weights(const part_source *s, bool by_gram, matrix m)
{
    grail_status status = GRAIL_OK;
    const grail_comm *comm = s->view->comm;
    weight_panels w = {.source = s,
                       .by_gram = by_gram,
                       .most = s->rows.count < PANEL_ROWS ? s->rows.count : PANEL_ROWS};
    TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, w.most, m.rows, &w.panel));
    TRY(matrix_new(m.owner, GRAIL_DTYPE_F64, w.most, m.rows, &w.scratch));
    for (int64_t first = 0; first < s->rows.count; first += w.most * comm_size(comm)) {
        TRY(make_panel(&w, first + comm_rank(comm) * w.most));
        TRY(add_turn(&w, first, m));
    }
out:
    matrix_free(&w.panel);
    matrix_free(&w.scratch);
    return status;
}

static grail_status make_part(part_source *s, elimination **out)
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
    TRY(elimination_create(s->view->site->units, gains ? VALUE_EXACT : s->options->kind,
                           gains ? gain_jitter * s->largest : s->options->jitter, gains,
                           &s->input->gram, &m, out));
out:
    matrix_free(&m);
    return status;
}

void removal_fini(removal *r)
{
    for (int i = 0; r->parts != NULL && i < r->count; i++) {
        elimination_free(r->parts[i]);
    }
    memory_free(r->parts);
    memory_free(r->taken);
    *r = (removal){0};
}

static grail_status make_parts(const site_view *v, const removal_options *options, removal *out)
{
    grail_status status = GRAIL_OK;
    part_source source = {0};
    removal r = {.count = v->input_count, .units = v->site->units};
    TRY(memory_new(&r.parts, (size_t)r.count, sizeof(r.parts[0])));
    TRY(memory_new(&r.taken, (size_t)r.units, sizeof r.taken[0]));
    for (int k = 0; k < r.count; k++) {
        TRY(source_open(v, options, k, &source));
        TRY(make_part(&source, &r.parts[k]));
        source_fini(&source);
    }
    *out = r;
    r = (removal){0};
out:
    source_fini(&source);
    removal_fini(&r);
    return status;
}

grail_status removal_of_costs(const site_view *v, const removal_options *options, removal *out)
{
    return make_parts(v, options, out);
}

grail_status removal_of_gains(const site_view *v, removal *out)
{
    return make_parts(v, NULL, out);
}
