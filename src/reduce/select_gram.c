/* gram-energy: what the features of a unit hold. gram-wenergy: what the consumers make of it. Both
 * are sums over the consumers of a site, from the Gram matrices of their inputs (docs/numerics.md,
 * Scores). */
#include "backend/operations.h"
#include "reduce/consumer_rows.h"
#include "reduce/scores.h"
#include "reduce/selector.h"

/* A residual stream is read in many places, of which only the dense network can tell in advance. */
static unsigned needs_of_readers(const site *s, unsigned needs)
{
    return s->kind == SITE_STREAM ? needs | NEEDS_ALL_CONSUMERS : needs;
}

static unsigned needs_diagonal(const site *s)
{
    return needs_of_readers(s, NEEDS_DIAGONAL);
}

/* Neurons are units of a single feature. */
static unsigned needs_blocks(const site *s)
{
    return needs_of_readers(s, s->kind == SITE_FFN ? NEEDS_DIAGONAL : NEEDS_DIAGONAL | NEEDS_GRAM);
}

static int64_t features_per_unit(const site_view *v, const input_statistics *in)
{
    return in->width / v->site->units;
}

/* scores[n] += sum of G_jj over the features of a unit. */
static void add_energy(const site_view *v, const input_statistics *in, double *scores)
{
    const int64_t u = features_per_unit(v, in);
    for (int64_t i = 0; i < in->width; i++) {
        scores[i / u] += in->diagonal[i];
    }
}

static grail_status score_energy(const site_view *v, double *scores)
{
    for (int k = 0; k < v->input_count; k++) {
        add_energy(v, &v->inputs[k], scores);
    }
    return GRAIL_OK;
}

/* scores[n] += G_jj ||W_:,j||^2, over all taps of a convolution that share the feature. */
static grail_status add_weighted_diagonal(const site_view *v, int k, double *scores)
{
    grail_status status = GRAIL_OK;
    double *sums = NULL;
    int64_t columns = 0;
    int64_t rows = 0;
    TRY(sums_of_consumer_columns(v, k, TERM_SQUARE, &sums, &columns, &rows));
    for (int64_t i = 0; i < v->site->units * columns; i++) {
        scores[i / columns] += sums[i] * v->inputs[k].diagonal[i / columns];
    }
out:
    memory_free(sums);
    return status;
}

enum { PANEL = 256 }; /* rows of W at a time */

/* What tr(W_g G_gg W_g^T) is computed in, for units g of u features. */
typedef struct unit_blocks {
    matrix gram;     /* G[H, H], lower triangle; borrowed */
    matrix weights;  /* W[rows, H] */
    matrix block;    /* G_gg[u, u] */
    matrix products; /* W_g G_gg[rows, u] */
    matrix dots;     /* [1, rows] */
    double *forms;   /* [rows] on the host */
} unit_blocks;

static void unit_blocks_fini(unit_blocks *b)
{
    matrix_free(&b->weights);
    matrix_free(&b->block);
    matrix_free(&b->products);
    matrix_free(&b->dots);
    memory_free(b->forms);
}

static grail_status unit_blocks_init(backend *owner, matrix gram, int64_t rows, int64_t u,
                                     unit_blocks *b)
{
    grail_status status = GRAIL_OK;
    b->gram = gram;
    TRY(matrix_new(owner, GRAIL_DTYPE_F64, rows, gram.columns, &b->weights));
    TRY(matrix_new(owner, GRAIL_DTYPE_F64, u, u, &b->block));
    TRY(matrix_new(owner, GRAIL_DTYPE_F64, rows, u, &b->products));
    TRY(matrix_new(owner, GRAIL_DTYPE_F64, 1, rows, &b->dots));
    TRY(memory_new_unset(&b->forms, (size_t)rows, sizeof b->forms[0]));
out:
    return status;
}

/* *score += tr(W_g G_gg W_g^T) over the first `rows` rows of b->weights, g the unit whose features
 * begin at `first`. */
static grail_status add_trace(unit_blocks *b, int64_t rows, int64_t first, double *score)
{
    grail_status status = GRAIL_OK;
    const int64_t u = b->block.rows;
    const matrix weights = matrix_columns(matrix_rows(b->weights, 0, rows), first, u);
    const matrix products = matrix_rows(b->products, 0, rows);
    const matrix dots = matrix_columns(b->dots, 0, rows);
    TRY(matrix_copy(matrix_columns(matrix_rows(b->gram, first, u), first, u), b->block));
    TRY(matrix_fill_upper(b->block));
    TRY(matrix_gemm(false, false, 1.0, weights, b->block, 0.0, products));
    TRY(matrix_row_dots(products, weights, dots));
    TRY(matrix_download(dots, b->forms));
    for (int64_t i = 0; i < rows; i++) {
        *score += b->forms[i];
    }
out:
    return status;
}

static grail_status add_weighted_blocks(const site_view *v, int k, double *scores)
{
    grail_status status = GRAIL_OK;
    const input_statistics *in = &v->inputs[k];
    const int64_t u = features_per_unit(v, in);
    consumer_rows rows = {0};
    unit_blocks b = {0};
    TRY(consumer_rows_open(v, k, in->width, &rows));
    TRY(unit_blocks_init(v->backend, in->gram, rows.count < PANEL ? rows.count : PANEL, u, &b));
    for (int64_t begin = 0; begin < rows.count; begin += b.weights.rows) {
        const int64_t left = rows.count - begin;
        const int64_t count = left < b.weights.rows ? left : b.weights.rows;
        TRY(consumer_rows_read(&rows, begin, matrix_rows(b.weights, 0, count)));
        for (int64_t j = 0; j < v->site->units; j++) {
            TRY(add_trace(&b, count, j * u, &scores[j]));
        }
    }
out:
    unit_blocks_fini(&b);
    consumer_rows_fini(&rows);
    return status;
}

static grail_status score_weighted_energy(const site_view *v, double *scores)
{
    grail_status status = GRAIL_OK;
    for (int k = 0; k < v->input_count; k++) {
        TRY(features_per_unit(v, &v->inputs[k]) == 1 ? add_weighted_diagonal(v, k, scores)
                                                     : add_weighted_blocks(v, k, scores));
    }
out:
    return status;
}

static grail_status select_energy(const site_view *v, grail_reducer **out)
{
    return select_by_scores(v, score_energy, out);
}

static grail_status select_weighted_energy(const site_view *v, grail_reducer **out)
{
    return select_by_scores(v, score_weighted_energy, out);
}

const selector selector_gram_energy = {
    .name = "gram-energy",
    .summary = "keeps units by the energy of their activations",
    .uses_data = true,
    .needs = needs_diagonal,
    .decide = select_energy,
};

const selector selector_gram_wenergy = {
    .name = "gram-wenergy",
    .summary = "keeps units by the energy that the weights behind make of their activations",
    .uses_data = true,
    .needs = needs_blocks,
    .decide = select_weighted_energy,
};
