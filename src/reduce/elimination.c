#include "reduce/elimination.h"

#include "algebra/products.h"
#include "base/memory.h"

#include <math.h>

/* Pairs of rows that wait before the matrices are updated, or one unit's if it has more: enough to
 * make the update a product near the machine's speed, few enough for a unit's own rows to be
 * brought up to date cheaply. */
enum { PANEL_PAIRS = 64 };

/* A pair of matrices. */
typedef struct pair {
    int64_t features; /* u */
    unit_value kind;
    double jitter;
    bool can_be_spent; /* blocks that are not positive definite are worth nothing */
    matrix a, m;       /* [stored u, stored u], lower triangles */
    matrix blocks;     /* [2 stored, u u] of both, up to date */
    /* Pairs of rows that are not yet subtracted from the matrices: U in the even rows, V in the odd
     * ones, A' = A - U^T U, M' = M - U^T V - V^T U. */
    matrix panel; /* room for [2 most, stored u] */
    int64_t pending, most;
    matrix rows;       /* room for [2 u, stored u]: a unit's rows of A and of M */
    matrix factors;    /* room for [2 u, 2 most]: what brings these up to date */
    matrix transforms; /* room for [., 2 u, 2 u]: from these to pairs, of all units not settled */
    int64_t *order;    /* [2 most] the panel's rows with U and V exchanged */
} pair;

struct elimination {
    int64_t units; /* n */
    int count;
    pair *pairs;
    /* Units are dropped from the matrices now and then: these are stored, in ascending order. */
    int64_t stored, left;
    int64_t *unit_at; /* [stored] */
    bool *taken;      /* [n] and settled */
    matrix gone;      /* [1, stored] not 0: taken, or not allowed */
    matrix values;    /* room for [PANEL_PAIRS + 1, stored]: a row of each valuation */
    int64_t valued;   /* rows of it */
    matrix others;    /* room for [1, stored]: values of another pair */
    /* What is not settled. */
    matrix chosen; /* [1, PANEL_PAIRS] where among the stored ones */
    int64_t steps, most_steps;
    int64_t row_of[PANEL_PAIRS]; /* which of `values` a unit was chosen by */
};

static int64_t width_of(const elimination *e, const pair *p)
{
    return e->stored * p->features;
}

/* The first `count` rows of the panel. */
static matrix panel_rows(const elimination *e, const pair *p, int64_t count)
{
    return matrix_reshape(p->panel, count, width_of(e, p));
}

static matrix value_rows(const elimination *e, int64_t begin, int64_t count)
{
    return matrix_rows(matrix_reshape(e->values, PANEL_PAIRS + 1, e->stored), begin, count);
}

static void free_pair(pair *p)
{
    matrix_free(&p->a);
    matrix_free(&p->m);
    matrix_free(&p->blocks);
    matrix_free(&p->panel);
    matrix_free(&p->rows);
    matrix_free(&p->factors);
    matrix_free(&p->transforms);
    memory_free(p->order);
}

void elimination_free(elimination *e)
{
    if (e == NULL) {
        return;
    }
    for (int i = 0; e->pairs != NULL && i < e->count; i++) {
        free_pair(&e->pairs[i]);
    }
    matrix_free(&e->gone);
    matrix_free(&e->values);
    matrix_free(&e->others);
    matrix_free(&e->chosen);
    memory_free(e->pairs);
    memory_free(e->unit_at);
    memory_free(e->taken);
    memory_free(e);
}

grail_status elimination_create(int64_t units, int pairs, elimination **out)
{
    grail_status status = GRAIL_OK;
    elimination *e = NULL;
    TRY(memory_new(&e, 1, sizeof *e));
    *e = (elimination){.units = units, .stored = units, .left = units, .most_steps = PANEL_PAIRS};
    TRY(memory_new(&e->pairs, (size_t)pairs, sizeof e->pairs[0]));
    TRY(memory_new(&e->taken, (size_t)units, sizeof e->taken[0]));
    TRY(memory_new_unset(&e->unit_at, (size_t)units, sizeof e->unit_at[0]));
    for (int64_t j = 0; j < units; j++) {
        e->unit_at[j] = j;
    }
    *out = e;
    e = NULL;
out:
    elimination_free(e);
    return status;
}

/* What all pairs share, in the memory of the first one's instance. */
static grail_status allocate_shared(elimination *e, backend *b)
{
    CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, e->units, &e->gone));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, PANEL_PAIRS + 1, e->units, &e->values));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 1, e->units, &e->others));
    return matrix_new(b, GRAIL_DTYPE_F64, 1, PANEL_PAIRS, &e->chosen);
}

static grail_status allocate(const elimination *e, pair *p)
{
    backend *b = p->a.owner;
    const int64_t u = p->features;
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 2 * p->most, width_of(e, p), &p->panel));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 2 * u, width_of(e, p), &p->rows));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 2 * u, 2 * p->most, &p->factors));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 2 * p->most, 2 * u, &p->transforms));
    CHECK(matrix_new(b, GRAIL_DTYPE_F64, 2 * e->units, u * u, &p->blocks));
    return memory_new_unset(&p->order, (size_t)(2 * p->most), sizeof p->order[0]);
}

grail_status elimination_add(elimination *e, unit_value kind, double jitter, bool can_be_spent,
                             matrix *a, matrix *m)
{
    pair *p = &e->pairs[e->count++];
    const int64_t u = a->rows / e->units;
    *p = (pair){.features = u,
                .kind = kind,
                .jitter = jitter,
                .can_be_spent = can_be_spent,
                .a = *a,
                .m = *m,
                .most = (PANEL_PAIRS + u - 1) / u * u};
    *a = *m = no_matrix;
    e->most_steps = p->most / u < e->most_steps ? p->most / u : e->most_steps;
    if (e->count == 1) {
        CHECK(allocate_shared(e, p->a.owner));
    }
    CHECK(allocate(e, p));
    for (int64_t i = 0; i < 2 * p->most; i++) {
        p->order[i] = i % 2 == 0 ? i + 1 : i - 1;
    }
    return matrix_unit_blocks(p->a, p->m, p->blocks);
}

/* A matrix that is indefinite from the beginning is an error in any case. */
static bool can_be_spent(const elimination *e, const pair *p)
{
    return p->can_be_spent && e->left < e->units;
}

grail_status elimination_value(elimination *e)
{
    const matrix others = matrix_reshape(e->others, 1, e->stored);
    const matrix row = value_rows(e, e->valued++, 1);
    for (int i = 0; i < e->count; i++) {
        const pair *p = &e->pairs[i];
        const double missing = can_be_spent(e, p) ? 0.0 : -(double)INFINITY;
        CHECK(matrix_unit_values(p->kind, p->jitter, missing, p->blocks, e->gone,
                                 i == 0 ? row : others));
        if (i > 0) {
            CHECK(matrix_add_scaled(1.0, others, row));
        }
    }
    return GRAIL_OK;
}

/* -- taking ------------------------------------------------------------------------------------ */

/* Subtracts the pending rows from the matrices. */
static grail_status flush(const elimination *e, pair *p)
{
    grail_status status = GRAIL_OK;
    matrix exchanged = no_matrix;
    const matrix pairs = panel_rows(e, p, 2 * p->pending);
    const matrix u = matrix_every_row(pairs, 2);
    TRY(matrix_new(p->m.owner, GRAIL_DTYPE_F64, pairs.rows, pairs.columns, &exchanged));
    TRY(matrix_gather(p->order, NULL, pairs, exchanged));
    TRY(matrix_add_symmetric(-1.0, u, u, p->a));
    TRY(matrix_add_symmetric(-1.0, pairs, exchanged, p->m));
    p->pending = 0;
    TRY(matrix_unit_blocks(p->a, p->m, p->blocks));
out:
    matrix_free(&exchanged);
    return status;
}

static grail_status eliminate(const elimination *e, pair *p, matrix unit)
{
    const int64_t count = 2 * p->features;
    const bool waits = p->pending > 0;
    const matrix taken = panel_rows(e, p, 2 * p->pending);
    const matrix pairs = matrix_rows(panel_rows(e, p, 2 * p->most), 2 * p->pending, count);
    const matrix rows = matrix_reshape(p->rows, count, width_of(e, p));
    const matrix factors = matrix_reshape(p->factors, count, 2 * p->pending);
    const matrix transform = matrix_rows(p->transforms, e->steps * count, count);
    const double missing = can_be_spent(e, p) ? 0.0 : (double)NAN;
    CHECK(matrix_read_unit(p->jitter, missing, unit, p->a, p->m, p->blocks,
                           waits ? taken : no_matrix, rows, waits ? factors : no_matrix,
                           transform));
    if (waits) {
        CHECK(matrix_gemm(false, false, -1.0, factors, taken, 1.0, rows));
    }
    CHECK(matrix_gemm(false, false, 1.0, transform, rows, 0.0, pairs));
    p->pending += p->features;
    return p->pending == p->most ? flush(e, p) : matrix_subtract_pairs(pairs, p->blocks);
}

grail_status elimination_take(elimination *e, bool largest)
{
    const matrix unit = matrix_columns(e->chosen, e->steps, 1);
    CHECK(matrix_choose_unit(largest, value_rows(e, e->valued - 1, 1), e->gone, unit));
    for (int i = 0; i < e->count; i++) {
        CHECK(eliminate(e, &e->pairs[i], unit));
    }
    e->row_of[e->steps++] = e->valued - 1;
    e->left--;
    return GRAIL_OK;
}

bool elimination_is_full(const elimination *e)
{
    return e->steps == e->most_steps;
}

/* -- settling ---------------------------------------------------------------------------------- */

static grail_status not_definite(int64_t unit)
{
    return error_set(GRAIL_ERROR_NUMERIC,
                     "the block of unit %lld is not positive definite; its features depend on each "
                     "other more than rounding allows: use more calibration data or another "
                     "selector",
                     (long long)unit);
}

static grail_status bad_value(const elimination *e, int64_t index)
{
    double value = 0.0;
    const int64_t position = index % e->stored;
    const int64_t unit = e->unit_at[position];
    CHECK(
        matrix_download(matrix_columns(value_rows(e, index / e->stored, 1), position, 1), &value));
    return value < 0.0 ? not_definite(unit)
                       : error_set(GRAIL_ERROR_NUMERIC,
                                   "the value of unit %lld is not finite; look for NaN or infinity "
                                   "in the weights and activations",
                                   (long long)unit);
}

/* The first step whose unit's block was not positive definite, or e->steps. */
static grail_status find_failing_step(const elimination *e, int64_t *step)
{
    *step = e->steps;
    for (int i = 0; i < e->count; i++) {
        int64_t index = -1;
        const int64_t count = 2 * e->pairs[i].features;
        const matrix used = matrix_rows(e->pairs[i].transforms, 0, e->steps * count);
        CHECK(matrix_find_non_finite(false, used, &index));
        *step = index >= 0 && index / (count * count) < *step ? index / (count * count) : *step;
    }
    return GRAIL_OK;
}

/* What failed first has spoilt all that came after it. */
static grail_status check_steps(const elimination *e, const int64_t *units)
{
    int64_t index = -1;
    int64_t step = 0;
    CHECK(matrix_find_non_finite(false, value_rows(e, 0, e->valued), &index));
    CHECK(find_failing_step(e, &step));
    if (step < e->steps && (index < 0 || e->row_of[step] < index / e->stored)) {
        return not_definite(units[step]);
    }
    return index < 0 ? GRAIL_OK : bad_value(e, index);
}

/* values[steps] of the units at positions[steps] */
static grail_status read_values(const elimination *e, const int64_t *positions, double *values)
{
    grail_status status = GRAIL_OK;
    matrix taken = no_matrix;
    TRY(matrix_new(e->gone.owner, GRAIL_DTYPE_F64, e->steps, e->steps, &taken));
    TRY(matrix_gather(e->row_of, positions, value_rows(e, 0, e->valued), taken));
    TRY(matrix_download_diagonal(taken, values));
out:
    matrix_free(&taken);
    return status;
}

static grail_status compact_pair(const elimination *e, const int64_t *kept, pair *p)
{
    grail_status status = GRAIL_OK;
    int64_t *features = NULL;
    int64_t *blocks = NULL;
    const int64_t u = p->features;
    const int64_t width = e->left * u;
    const matrix pairs = panel_rows(e, p, 2 * p->pending);
    TRY(memory_new_unset(&features, (size_t)width, sizeof features[0]));
    TRY(memory_new_unset(&blocks, (size_t)(2 * e->left), sizeof blocks[0]));
    for (int64_t i = 0; i < width; i++) {
        features[i] = kept[i / u] * u + i % u;
    }
    for (int64_t i = 0; i < 2 * e->left; i++) {
        blocks[i] = kept[i % e->left] + i / e->left * e->stored;
    }
    TRY(keep_elements(features, width, features, width, &p->a));
    TRY(keep_elements(features, width, features, width, &p->m));
    TRY(keep_elements(blocks, 2 * e->left, NULL, u * u, &p->blocks));
    if (p->pending > 0) {
        TRY(matrix_gather(NULL, features, pairs, matrix_reshape(p->panel, pairs.rows, width)));
    }
out:
    memory_free(features);
    memory_free(blocks);
    return status;
}

/* Drops the eliminated units from the matrices. */
static grail_status compact(elimination *e)
{
    grail_status status = GRAIL_OK;
    int64_t *kept = NULL;
    int64_t count = 0;
    TRY(memory_new_unset(&kept, (size_t)e->left, sizeof kept[0]));
    for (int64_t j = 0; j < e->stored; j++) {
        if (!e->taken[e->unit_at[j]]) {
            e->unit_at[count] = e->unit_at[j];
            kept[count++] = j;
        }
    }
    for (int i = 0; i < e->count; i++) {
        TRY(compact_pair(e, kept, &e->pairs[i]));
    }
    TRY(keep_elements(NULL, 1, kept, count, &e->gone));
    TRY(matrix_gather(NULL, kept, value_rows(e, 0, 1), matrix_reshape(e->values, 1, count)));
    e->stored = count;
out:
    memory_free(kept);
    return status;
}

grail_status elimination_settle(elimination *e, int64_t *units, double *values)
{
    double chosen[PANEL_PAIRS];
    int64_t positions[PANEL_PAIRS];
    CHECK(matrix_download(matrix_columns(e->chosen, 0, e->steps), chosen));
    for (int64_t i = 0; i < e->steps; i++) {
        positions[i] = (int64_t)chosen[i];
        units[i] = e->unit_at[positions[i]];
        e->taken[units[i]] = true;
    }
    CHECK(check_steps(e, units));
    CHECK(read_values(e, positions, values));
    if (e->valued > 1) { /* what goes on being chosen by */
        CHECK(matrix_copy(value_rows(e, e->valued - 1, 1), value_rows(e, 0, 1)));
    }
    e->valued = e->valued > 0 ? 1 : 0;
    e->steps = 0;
    return 8 * e->left < 7 * e->stored && e->left > 0 ? compact(e) : GRAIL_OK;
}

grail_status elimination_values(elimination *e, double *values)
{
    grail_status status = GRAIL_OK;
    double *stored = NULL;
    TRY(memory_new_unset(&stored, (size_t)e->stored, sizeof stored[0]));
    TRY(elimination_value(e));
    TRY(elimination_settle(e, NULL, NULL));
    TRY(matrix_download(value_rows(e, 0, 1), stored));
    for (int64_t j = 0; j < e->units; j++) {
        values[j] = 0.0;
    }
    for (int64_t p = 0; p < e->stored; p++) {
        values[e->unit_at[p]] = stored[p];
    }
out:
    memory_free(stored);
    return status;
}

grail_status elimination_allow(elimination *e, const bool *allowed)
{
    grail_status status = GRAIL_OK;
    double *gone = NULL;
    TRY(memory_new_unset(&gone, (size_t)e->stored, sizeof gone[0]));
    for (int64_t p = 0; p < e->stored; p++) {
        const int64_t unit = e->unit_at[p];
        const bool is_open = !e->taken[unit] && (allowed == NULL || allowed[unit]);
        gone[p] = is_open ? 0.0 : (double)INFINITY;
    }
    TRY(matrix_upload(e->gone, gone));
out:
    memory_free(gone);
    return status;
}
