#include "reduce/elimination.h"

#include "base/memory.h"
#include "base/parallel.h"

#include <math.h>
#include <string.h>

/* Rows that wait in the panels before the matrices are updated: enough to make the update a product
 * near the machine's speed, few enough for a unit's own rows to be brought up to date cheaply. */
enum { PANEL_ROWS = 128 };

/* Columns that one thread works on at once. */
enum { COLUMNS_GRAIN = 512 };

struct elimination {
    int64_t units; /* n */
    int64_t features;
    unit_value kind;
    double jitter;
    matrix a, m; /* [stored u, stored u] */
    /* Units are dropped from the matrices now and then: these are stored, in ascending order. */
    int64_t stored, left;
    int64_t *unit_at;     /* [stored] */
    int64_t *position_of; /* [n] among the stored ones; -1: eliminated */
    /* Diagonal blocks [stored, u, u], up to date. */
    double *a_blocks, *m_blocks;
    /* Panels [PANEL_ROWS + u, stored u] on the host, of which `pending` rows are not yet subtracted
     * from the matrices: U with A' = A - U^T U, and D and V. */
    int64_t pending;
    double *u, *d, *v;
    double *l;          /* [u, u] scratch: factor of a block */
    matrix block, rest; /* [u, u] scratch on the host */
};

static int64_t width_of(const elimination *e)
{
    return e->stored * e->features;
}

static size_t block_size(const elimination *e)
{
    return (size_t)(e->features * e->features);
}

void elimination_free(elimination *e)
{
    if (e == NULL) {
        return;
    }
    matrix_free(&e->a);
    matrix_free(&e->m);
    memory_free(e->unit_at);
    memory_free(e->position_of);
    memory_free(e->a_blocks);
    memory_free(e->m_blocks);
    memory_free(e->u);
    memory_free(e->d);
    memory_free(e->v);
    memory_free(e->l);
    matrix_free(&e->block);
    matrix_free(&e->rest);
    memory_free(e);
}

/* blocks[stored, u, u] = the diagonal blocks of a matrix. */
static grail_status read_blocks(const elimination *e, matrix of, double *blocks)
{
    grail_status status = GRAIL_OK;
    const int64_t u = e->features;
    if (u == 1) {
        matrix row = no_matrix;
        TRY(matrix_new(of.owner, GRAIL_DTYPE_F64, 1, of.rows, &row));
        status = matrix_diagonal(of, row);
        status = status == GRAIL_OK ? matrix_download(row, blocks) : status;
        matrix_free(&row);
        return status;
    }
    for (int64_t j = 0; j < e->stored; j++) {
        const matrix block = matrix_columns(matrix_rows(of, j * u, u), j * u, u);
        TRY(matrix_download(block, blocks + (size_t)j * block_size(e)));
    }
out:
    return status;
}

static grail_status allocate(elimination *e)
{
    grail_status status = GRAIL_OK;
    const int64_t u = e->features;
    const size_t panel = (size_t)(PANEL_ROWS + u);
    const size_t width = (size_t)width_of(e);
    TRY(memory_new_unset(&e->unit_at, (size_t)e->units, sizeof e->unit_at[0]));
    TRY(memory_new_unset(&e->position_of, (size_t)e->units, sizeof e->position_of[0]));
    TRY(memory_new_unset(&e->a_blocks, width, (size_t)u * sizeof e->a_blocks[0]));
    TRY(memory_new_unset(&e->m_blocks, width, (size_t)u * sizeof e->m_blocks[0]));
    TRY(memory_new_unset(&e->u, panel, width * sizeof e->u[0]));
    TRY(memory_new_unset(&e->d, panel, width * sizeof e->d[0]));
    TRY(memory_new_unset(&e->v, panel, width * sizeof e->v[0]));
    TRY(memory_new_unset(&e->l, block_size(e), sizeof e->l[0]));
    TRY(matrix_new(backend_host(), GRAIL_DTYPE_F64, u, u, &e->block));
    TRY(matrix_new(backend_host(), GRAIL_DTYPE_F64, u, u, &e->rest));
out:
    return status;
}

grail_status elimination_create(int64_t units, unit_value kind, double jitter, matrix *a, matrix *m,
                                elimination **out)
{
    grail_status status = GRAIL_OK;
    elimination *e = NULL;
    TRY(memory_new(&e, 1, sizeof *e));
    *e = (elimination){.units = units,
                       .features = a->rows / units,
                       .kind = kind,
                       .jitter = jitter,
                       .a = *a,
                       .m = *m,
                       .stored = units,
                       .left = units};
    *a = *m = no_matrix;
    TRY(allocate(e));
    for (int64_t j = 0; j < units; j++) {
        e->unit_at[j] = e->position_of[j] = j;
    }
    TRY(read_blocks(e, e->a, e->a_blocks));
    TRY(read_blocks(e, e->m, e->m_blocks));
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

/* l[u, u] = the lower factor of A_gg + jitter I, which also lies in e->block when u > 1. */
static grail_status factor_block(elimination *e, int64_t position)
{
    grail_status status = GRAIL_OK;
    const int64_t u = e->features;
    int64_t pivot = -1;
    memcpy(e->l, e->a_blocks + (size_t)position * block_size(e), block_size(e) * sizeof e->l[0]);
    for (int64_t i = 0; i < u; i++) {
        e->l[i * u + i] += e->jitter;
    }
    if (u == 1) {
        pivot = e->l[0] > 0.0 ? -1 : 0;
        e->l[0] = sqrt(e->l[0]);
    } else {
        TRY(matrix_upload(e->block, e->l));
        TRY(matrix_cholesky(e->block, &pivot));
        TRY(matrix_download(e->block, e->l));
    }
    if (pivot >= 0) {
        status = not_definite(e, position);
    }
out:
    return status;
}

/* sum_j M_jj / L_jj^2 */
static double quotients_by_factor(int64_t u, const double *m, const double *l)
{
    double sum = 0.0;
    for (int64_t i = 0; i < u; i++) {
        sum += m[i * u + i] / (l[i * u + i] * l[i * u + i]);
    }
    return sum;
}

/* sum_j M_jj / (A_jj + jitter) */
static double quotients_by_diagonal(int64_t u, const double *m, const double *a, double jitter)
{
    double sum = 0.0;
    for (int64_t i = 0; i < u; i++) {
        sum += m[i * u + i] / (a[i * u + i] + jitter);
    }
    return sum;
}

/* tr(M_gg (L L^T)^-1) */
static grail_status trace_quotient(elimination *e, const double *m, double *out)
{
    grail_status status = GRAIL_OK;
    double *diagonal = e->l; /* the factor lies in e->block */
    matrix row = no_matrix;
    TRY(matrix_upload(e->rest, m));
    TRY(matrix_cholesky_solve(e->block, e->rest));
    TRY(matrix_import(backend_host(), GRAIL_DTYPE_F64, 1, e->features, e->features, diagonal,
                      &row));
    TRY(matrix_diagonal(e->rest, row));
    for (int64_t i = 0; i < e->features; i++) {
        *out += diagonal[i];
    }
out:
    matrix_free(&row);
    return status;
}

static grail_status value_at(elimination *e, int64_t position, double *out)
{
    grail_status status = GRAIL_OK;
    const double *m = e->m_blocks + (size_t)position * block_size(e);
    *out = 0.0;
    TRY(factor_block(e, position));
    if (e->kind == VALUE_EXACT && e->features > 1) {
        TRY(trace_quotient(e, m, out));
    } else if (e->kind == VALUE_DIAGONAL) {
        *out = quotients_by_diagonal(e->features, m, e->a_blocks + (size_t)position * block_size(e),
                                     e->jitter);
    } else {
        *out = quotients_by_factor(e->features, m, e->l);
    }
    *out = *out < 0.0 ? 0.0 : *out; /* NaN stays */
out:
    return status;
}

grail_status elimination_add_values(elimination *e, double *values)
{
    grail_status status = GRAIL_OK;
    for (int64_t j = 0; j < e->units; j++) {
        double value = 0.0;
        if (e->position_of[j] >= 0) {
            TRY(value_at(e, e->position_of[j], &value));
            values[j] += value;
        }
    }
out:
    return status;
}

/* The next rows of the panels, for the unit at `position`. */
typedef struct elimination_step {
    elimination *e;
    int64_t position;
    const double *m_block; /* M_gg */
} elimination_step;

/* y[begin, end) -= factor x */
static void subtract(int64_t begin, int64_t end, double factor, const double *x, double *y)
{
    for (int64_t c = begin; c < end; c++) {
        y[c] -= factor * x[c];
    }
}

/* Brings rows that were read from the matrices up to date: A_g: -= U[:, g]^T U,
 * M_g: -= D[:, g]^T V + V[:, g]^T D. */
static void apply_pending(const elimination *e, int64_t feature, int64_t begin, int64_t end,
                          double *a_row, double *m_row)
{
    const int64_t width = width_of(e);
    for (int64_t p = 0; p < e->pending; p++) {
        const double *u = e->u + p * width;
        const double *d = e->d + p * width;
        const double *v = e->v + p * width;
        subtract(begin, end, u[feature], u, a_row);
        subtract(begin, end, d[feature], v, m_row);
        subtract(begin, end, v[feature], d, m_row);
    }
}

/* rows[i] <- (rows[i] - sum_k L_ik rows[k]) / L_ii, downwards or with L^T upwards. */
static void solve_rows(const elimination *e, bool transposed, int64_t begin, int64_t end,
                       double *rows)
{
    const int64_t u = e->features;
    const int64_t width = width_of(e);
    for (int64_t step = 0; step < u; step++) {
        const int64_t i = transposed ? u - 1 - step : step;
        double *row = rows + i * width;
        for (int64_t k = transposed ? i + 1 : 0; k < (transposed ? u : i); k++) {
            subtract(begin, end, e->l[transposed ? k * u + i : i * u + k], rows + k * width, row);
        }
        for (int64_t c = begin; c < end; c++) {
            row[c] /= e->l[i * u + i];
        }
    }
}

/* U = L^-1 A_g:, D = L^-T U, V = M_g: - M_gg D / 2, in columns begin .. end - 1. The rows of A are
 * in place of U, those of M in place of V. */
static void make_columns(int64_t begin, int64_t end, void *context)
{
    const elimination_step *step = context;
    elimination *e = step->e;
    const int64_t u = e->features;
    const int64_t width = width_of(e);
    double *root = e->u + e->pending * width;
    double *drop = e->d + e->pending * width;
    double *mixed = e->v + e->pending * width;
    for (int64_t i = 0; i < u; i++) {
        apply_pending(e, step->position * u + i, begin, end, root + i * width, mixed + i * width);
    }
    solve_rows(e, false, begin, end, root);
    for (int64_t i = 0; i < u; i++) {
        memcpy(drop + i * width + begin, root + i * width + begin,
               (size_t)(end - begin) * sizeof drop[0]);
    }
    solve_rows(e, true, begin, end, drop);
    for (int64_t i = 0; i < u; i++) {
        for (int64_t k = 0; k < u; k++) {
            subtract(begin, end, 0.5 * step->m_block[i * u + k], drop + k * width,
                     mixed + i * width);
        }
    }
}

/* The diagonal blocks of the units first .. last - 1 lose what the newest rows take from them. */
static void update_blocks(int64_t first, int64_t last, void *context)
{
    const elimination *e = context;
    const int64_t u = e->features;
    const int64_t width = width_of(e);
    for (int64_t p = e->pending - u; p < e->pending; p++) {
        const double *root = e->u + p * width;
        const double *drop = e->d + p * width;
        const double *mixed = e->v + p * width;
        for (int64_t i = first * u; i < last * u; i++) {
            double *a = e->a_blocks + i * u;
            double *m = e->m_blocks + i * u;
            for (int64_t k = 0; k < u; k++) {
                const int64_t j = i / u * u + k;
                a[k] -= root[i] * root[j];
                m[k] -= drop[i] * mixed[j] + mixed[i] * drop[j];
            }
        }
    }
}

/* M -= [D; V]^T [V; D] */
static grail_status subtract_from_m(elimination *e)
{
    grail_status status = GRAIL_OK;
    const int64_t width = width_of(e);
    matrix left = no_matrix;
    matrix right = no_matrix;
    TRY(matrix_new(e->m.owner, GRAIL_DTYPE_F64, 2 * e->pending, width, &left));
    TRY(matrix_new(e->m.owner, GRAIL_DTYPE_F64, 2 * e->pending, width, &right));
    TRY(matrix_upload(matrix_rows(left, 0, e->pending), e->d));
    TRY(matrix_upload(matrix_rows(left, e->pending, e->pending), e->v));
    TRY(matrix_upload(matrix_rows(right, 0, e->pending), e->v));
    TRY(matrix_upload(matrix_rows(right, e->pending, e->pending), e->d));
    TRY(matrix_add_symmetric(-1.0, left, right, e->m));
out:
    matrix_free(&left);
    matrix_free(&right);
    return status;
}

static grail_status subtract_from_a(elimination *e)
{
    grail_status status = GRAIL_OK;
    const int64_t width = width_of(e);
    matrix u = no_matrix;
    TRY(matrix_import(e->a.owner, GRAIL_DTYPE_F64, e->pending, width, width, e->u, &u));
    TRY(matrix_add_symmetric(-1.0, u, u, e->a));
out:
    matrix_free(&u);
    return status;
}

/* Keeps the listed rows and columns, in the matrix's own memory. */
static grail_status compact_matrix(const int64_t *features, int64_t count, matrix *m)
{
    grail_status status = GRAIL_OK;
    TRY(matrix_gather(features, features, *m, matrix_reshape(*m, count, count)));
    TRY(matrix_shrink(m, count, count));
out:
    return status;
}

/* Drops the eliminated units from the matrices; no rows are pending. */
static grail_status compact(elimination *e)
{
    grail_status status = GRAIL_OK;
    int64_t *features = NULL;
    int64_t count = 0;
    TRY(memory_new_unset(&features, (size_t)(e->left * e->features), sizeof features[0]));
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
    TRY(compact_matrix(features, count * e->features, &e->a));
    TRY(compact_matrix(features, count * e->features, &e->m));
    e->stored = count;
out:
    memory_free(features);
    return status;
}

/* Subtracts the pending rows from the matrices. */
static grail_status flush(elimination *e)
{
    grail_status status = GRAIL_OK;
    TRY(subtract_from_a(e));
    TRY(subtract_from_m(e));
    e->pending = 0;
    if (8 * e->left < 7 * e->stored && e->left > 0) {
        TRY(compact(e));
    }
    TRY(read_blocks(e, e->a, e->a_blocks));
    TRY(read_blocks(e, e->m, e->m_blocks));
out:
    return status;
}

grail_status elimination_take(elimination *e, int64_t unit)
{
    grail_status status = GRAIL_OK;
    const int64_t u = e->features;
    const int64_t width = width_of(e);
    const int64_t position = e->position_of[unit];
    elimination_step step = {e, position, e->m_blocks + (size_t)position * block_size(e)};
    TRY(factor_block(e, position));
    TRY(matrix_download(matrix_rows(e->a, position * u, u), e->u + e->pending * width));
    TRY(matrix_download(matrix_rows(e->m, position * u, u), e->v + e->pending * width));
    parallel_for(width, COLUMNS_GRAIN, make_columns, &step);
    e->position_of[unit] = -1;
    e->left--;
    e->pending += u;
    if (e->pending >= PANEL_ROWS) {
        TRY(flush(e));
    } else {
        parallel_for(e->stored, COLUMNS_GRAIN / u + 1, update_blocks, e);
    }
out:
    return status;
}
