#include "reduce/elimination.h"

#include "algebra/products.h"
#include "base/memory.h"
#include "reduce/unit_blocks.h"

#include <string.h>

/* Pairs of rows that wait before the matrices are updated, or one unit's if it has more: enough to
 * make the update a product near the machine's speed, few enough for a unit's own rows to be
 * brought up to date cheaply. */
enum { PANEL_PAIRS = 64 };

struct elimination {
    int64_t units; /* n */
    int64_t features;
    bool can_be_spent; /* blocks that are not positive definite are worth nothing */
    matrix a, m;       /* [stored u, stored u], lower triangles */
    /* Units are dropped from the matrices now and then: these are stored, in ascending order. */
    int64_t stored, left;
    int64_t *unit_at;     /* [stored] */
    int64_t *position_of; /* [n] among the stored ones; -1: eliminated */
    unit_blocks blocks;   /* up to date */
    /* Pairs of rows that are not yet subtracted from the matrices: U in the even rows, V in the odd
     * ones, A' = A - U^T U, M' = M - U^T V - V^T U. */
    matrix panel; /* room for [2 most, stored u] */
    int64_t pending, most;
    matrix rows;  /* room for [2 u, stored u]: a unit's rows of A and of M */
    matrix unity; /* [u, u] */
    /* Scratch on the host */
    double *newest;    /* [2 u, stored u] the last pairs */
    double *values;    /* [n] */
    double *columns;   /* [2 most, u] of the panel */
    double *factors;   /* [2 u, 2 most] that bring a unit's rows up to date */
    double *transform; /* [2 u, 2 u] from these rows to pairs */
    double *small;     /* [3, u, u] */
    int64_t *order;    /* [2 most] the panel's rows with U and V exchanged */
};

static int64_t width_of(const elimination *e)
{
    return e->stored * e->features;
}

/* The first `count` rows of the panel. */
static matrix panel_rows(const elimination *e, int64_t count)
{
    return matrix_reshape(e->panel, count, width_of(e));
}

void elimination_free(elimination *e)
{
    if (e == NULL) {
        return;
    }
    matrix_free(&e->a);
    matrix_free(&e->m);
    matrix_free(&e->panel);
    matrix_free(&e->rows);
    matrix_free(&e->unity);
    unit_blocks_fini(&e->blocks);
    memory_free(e->unit_at);
    memory_free(e->position_of);
    memory_free(e->newest);
    memory_free(e->values);
    memory_free(e->columns);
    memory_free(e->factors);
    memory_free(e->transform);
    memory_free(e->small);
    memory_free(e->order);
    memory_free(e);
}

static grail_status allocate(elimination *e)
{
    backend *b = e->a.owner;
    const size_t u = (size_t)e->features;
    const size_t most = (size_t)e->most;
    const size_t width = (size_t)width_of(e);
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 2 * e->most, width_of(e), &e->panel));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 2 * e->features, width_of(e), &e->rows));
    CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, e->features, e->features, &e->unity));
    CHECK(matrix_shift_diagonal(1.0, e->unity));
    CHECK(memory_new_unset(&e->unit_at, (size_t)e->units, sizeof e->unit_at[0]));
    CHECK(memory_new_unset(&e->position_of, (size_t)e->units, sizeof e->position_of[0]));
    CHECK(memory_new_unset(&e->newest, 2 * u, width * sizeof e->newest[0]));
    CHECK(memory_new_unset(&e->values, (size_t)e->units, sizeof e->values[0]));
    CHECK(memory_new_unset(&e->columns, 2 * most, u * sizeof e->columns[0]));
    CHECK(memory_new_unset(&e->factors, 2 * most, 2 * u * sizeof e->factors[0]));
    CHECK(memory_new_unset(&e->transform, 2 * u, 2 * u * sizeof e->transform[0]));
    CHECK(memory_new_unset(&e->small, 3 * u, u * sizeof e->small[0]));
    return memory_new_unset(&e->order, 2 * most, sizeof e->order[0]);
}

static void number_units(elimination *e)
{
    for (int64_t j = 0; j < e->units; j++) {
        e->unit_at[j] = e->position_of[j] = j;
    }
    for (int64_t i = 0; i < 2 * e->most; i++) {
        e->order[i] = i % 2 == 0 ? i + 1 : i - 1;
    }
}

grail_status elimination_create(int64_t units, unit_value kind, double jitter, bool can_be_spent,
                                matrix *a, matrix *m, elimination **out)
{
    grail_status status = GRAIL_OK;
    elimination *e = NULL;
    const int64_t u = a->rows / units;
    TRY(memory_new(&e, 1, sizeof *e));
    *e = (elimination){.units = units,
                       .features = u,
                       .can_be_spent = can_be_spent,
                       .a = *a,
                       .m = *m,
                       .stored = units,
                       .left = units,
                       .most = (PANEL_PAIRS + u - 1) / u * u};
    *a = *m = no_matrix;
    TRY(allocate(e));
    TRY(unit_blocks_init(units, u, kind, jitter, &e->blocks));
    TRY(unit_blocks_read(e->a, e->m, units, &e->blocks));
    number_units(e);
    *out = e;
    e = NULL;
out:
    elimination_free(e);
    matrix_free(a);
    matrix_free(m);
    return status;
}

static grail_status not_definite(const elimination *e, int64_t position)
{
    return error_set(GRAIL_ERROR_NUMERIC,
                     "the block of unit %lld is not positive definite; its features depend on each "
                     "other more than rounding allows: use more calibration data or another "
                     "selector",
                     (long long)e->unit_at[position]);
}

/* A matrix that is indefinite from the beginning is an error in any case. */
static bool can_be_spent(const elimination *e)
{
    return e->can_be_spent && e->left < e->units;
}

grail_status elimination_add_values(elimination *e, double *values)
{
    unit_blocks_values(&e->blocks, e->stored, e->values);
    for (int64_t p = 0; p < e->stored; p++) {
        const int64_t unit = e->unit_at[p];
        if (e->position_of[unit] < 0) {
            continue;
        }
        if (e->values[p] < 0.0 && !can_be_spent(e)) {
            return not_definite(e, p);
        }
        values[unit] += e->values[p] < 0.0 ? 0.0 : e->values[p];
    }
    return GRAIL_OK;
}

/* C[u, u] = A B, or A^T B */
static void multiply(int64_t u, bool transpose, const double *a, const double *b, double *c)
{
    memset(c, 0, (size_t)(u * u) * sizeof c[0]);
    for (int64_t i = 0; i < u; i++) {
        for (int64_t k = 0; k < u; k++) {
            const double factor = transpose ? a[k * u + i] : a[i * u + k];
            for (int64_t j = 0; j < u; j++) {
                c[i * u + j] += factor * b[k * u + j];
            }
        }
    }
}

/* With T = L^-1 in e->small, the pairs are [U; V] = [T 0; -T M_gg A_gg^-1 / 2, T] [A_g:; M_g:]: U =
 * L^-1 A_g:, and V = L^-1 (M_g: - M_gg D / 2) with D = A_gg^-1 A_g:, so that D^T V' = U^T V for V'
 * of elimination.h. Its rows are written in the order of the pairs. */
static void make_transform(elimination *e, int64_t position)
{
    const int64_t u = e->features;
    double *t = e->small;
    double *inverse = t + u * u;
    double *product = inverse + u * u;
    double *mixed = t; /* T is copied before */
    for (int64_t i = 0; i < u; i++) {
        double *even = e->transform + 4 * i * u;
        double *odd = even + 2 * u;
        memcpy(even, t + i * u, (size_t)u * sizeof t[0]);
        memset(even + u, 0, (size_t)u * sizeof t[0]);
        memcpy(odd + u, t + i * u, (size_t)u * sizeof t[0]);
    }
    multiply(u, true, t, t, inverse);
    multiply(u, false, t, e->blocks.m + position * u * u, product);
    multiply(u, false, product, inverse, mixed);
    for (int64_t i = 0; i < u * u; i++) {
        e->transform[(4 * (i / u) + 2) * u + i % u] = -0.5 * mixed[i];
    }
}

/* factors[2 u, 2 pending]: what the rows of A and M at a unit lack of the panel's rows,
 *   A_g: -= sum U[., g]^T U,  M_g: -= sum U[., g]^T V + V[., g]^T U. */
static grail_status make_factors(elimination *e, int64_t position)
{
    const int64_t u = e->features;
    const int64_t count = 2 * e->pending;
    CHECK(matrix_download(matrix_columns(panel_rows(e, count), position * u, u), e->columns));
    for (int64_t f = 0; f < u; f++) {
        double *of_a = e->factors + f * count;
        double *of_m = e->factors + (u + f) * count;
        for (int64_t i = 0; i < count; i += 2) {
            of_a[i] = of_m[i + 1] = e->columns[i * u + f];
            of_a[i + 1] = 0.0;
            of_m[i] = e->columns[(i + 1) * u + f];
        }
    }
    return GRAIL_OK;
}

/* C = alpha A B + beta C with A[C's rows, B's rows] on the host. */
static grail_status multiply_rows(double alpha, const double *a, matrix b, double beta, matrix c)
{
    grail_status status = GRAIL_OK;
    matrix left = no_matrix;
    TRY(matrix_import(c.owner, GRAIL_DTYPE_F64, c.rows, b.rows, b.rows, a, &left));
    TRY(matrix_gemm(false, false, alpha, left, b, beta, c));
out:
    matrix_free(&left);
    return status;
}

/* rows[u, stored u] = those of a symmetric matrix at a unit: up to its block from its rows, behind
 * it from its columns. What the block has above its diagonal is scratch, and gets into columns of
 * this unit alone, which are read no more. */
static grail_status copy_rows(const elimination *e, matrix from, int64_t position, matrix rows)
{
    const int64_t u = e->features;
    const int64_t end = (position + 1) * u;
    const int64_t rest = rows.columns - end;
    const matrix left = matrix_columns(matrix_rows(from, end - u, u), 0, end);
    const matrix below = matrix_columns(matrix_rows(from, end, rest), end - u, u);
    CHECK(matrix_copy(left, matrix_columns(rows, 0, end)));
    if (rest > 0) {
        CHECK(matrix_gemm(false, true, 1.0, e->unity, below, 0.0, matrix_columns(rows, end, rest)));
    }
    return GRAIL_OK;
}

/* The rows of A and M at a unit, up to date. */
static grail_status read_rows(elimination *e, int64_t position, matrix rows)
{
    const int64_t u = e->features;
    CHECK(copy_rows(e, e->a, position, matrix_rows(rows, 0, u)));
    CHECK(copy_rows(e, e->m, position, matrix_rows(rows, u, u)));
    if (e->pending > 0) {
        CHECK(make_factors(e, position));
        CHECK(multiply_rows(-1.0, e->factors, panel_rows(e, 2 * e->pending), 1.0, rows));
    }
    return GRAIL_OK;
}

/* Drops the eliminated units from the matrices; no rows are pending. */
static grail_status compact(elimination *e)
{
    grail_status status = GRAIL_OK;
    int64_t *features = NULL;
    int64_t count = 0;
    const int64_t width = e->left * e->features;
    TRY(memory_new_unset(&features, (size_t)width, sizeof features[0]));
    for (int64_t j = 0; j < e->stored; j++) {
        const int64_t unit = e->unit_at[j];
        if (e->position_of[unit] < 0) {
            continue;
        }
        for (int64_t f = 0; f < e->features; f++) {
            features[count * e->features + f] = j * e->features + f;
        }
        e->unit_at[count] = unit;
        e->position_of[unit] = count++;
    }
    TRY(keep_elements(features, width, features, width, &e->a));
    TRY(keep_elements(features, width, features, width, &e->m));
    e->stored = count;
out:
    memory_free(features);
    return status;
}

/* Subtracts the pending rows from the matrices. */
static grail_status flush(elimination *e)
{
    grail_status status = GRAIL_OK;
    matrix exchanged = no_matrix;
    const matrix pairs = panel_rows(e, 2 * e->pending);
    const matrix u = matrix_every_row(pairs, 2);
    TRY(matrix_new(e->m.owner, GRAIL_DTYPE_F64, pairs.rows, pairs.columns, &exchanged));
    TRY(matrix_gather(e->order, NULL, pairs, exchanged));
    TRY(matrix_add_symmetric(-1.0, u, u, e->a));
    TRY(matrix_add_symmetric(-1.0, pairs, exchanged, e->m));
    e->pending = 0;
    if (8 * e->left < 7 * e->stored && e->left > 0) {
        TRY(compact(e));
    }
    TRY(unit_blocks_read(e->a, e->m, e->stored, &e->blocks));
out:
    matrix_free(&exchanged);
    return status;
}

grail_status elimination_take(elimination *e, int64_t unit)
{
    const int64_t u = e->features;
    const int64_t position = e->position_of[unit];
    const matrix rows = matrix_reshape(e->rows, 2 * u, width_of(e));
    const matrix pairs = matrix_rows(panel_rows(e, 2 * e->most), 2 * e->pending, 2 * u);
    if (!unit_blocks_factor(&e->blocks, position, e->small)) {
        if (!can_be_spent(e)) {
            return not_definite(e, position);
        }
        e->position_of[unit] = -1;
        e->left--;
        return GRAIL_OK;
    }
    make_transform(e, position);
    CHECK(read_rows(e, position, rows));
    CHECK(multiply_rows(1.0, e->transform, rows, 0.0, pairs));
    e->position_of[unit] = -1;
    e->left--;
    e->pending += u;
    if (e->pending == e->most) {
        return flush(e);
    }
    CHECK(matrix_download(pairs, e->newest)); /* what the blocks lose */
    unit_blocks_subtract(e->stored, e->newest, &e->blocks);
    return GRAIL_OK;
}
