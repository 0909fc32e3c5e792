/* Running an operation: checks it against its description, and does on the host what the instance
 * leaves out. */
#include "backend/kind.h"

#include "base/parallel.h"

#include <string.h>

/* One letter for each matrix:
 *
 *   v values, packed         e values, any stride     w values, packed, or an ordered weight
 *   p f64, packed            s f64, any stride
 *   a any but an ordered weight                       c anything
 *
 * A capital letter is written (and perhaps read), and one behind '?' may be missing. */
static const struct {
    const char *name;
    const char *matrices;
} descriptions[SLOT_COUNT] = {
    [SLOT_LINEAR] = {"linear", "vw?vV"},
    [SLOT_RMS_NORM] = {"rms_norm", "vvV"},
    [SLOT_ROPE] = {"rope", "V"},
    [SLOT_ATTENTION] = {"attention", "vvvV"},
    [SLOT_ACTIVATE] = {"activate", "vV"},
    [SLOT_MULTIPLY] = {"multiply", "eeE"},
    [SLOT_ADD] = {"add", "eeE"},
    [SLOT_SUBTRACT] = {"subtract", "eeE"},
    [SLOT_SCALE_ROWS] = {"scale_rows", "peE"},
    [SLOT_CROSS_ENTROPY] = {"cross_entropy", "v"},
    [SLOT_FIND_NON_FINITE] = {"find_non_finite", "a"},
    [SLOT_CONV2D] = {"conv2d", "vv?v?vV"},
    [SLOT_PATCHES] = {"patches", "vV"},
    [SLOT_MAX_POOL] = {"max_pool", "vV"},
    [SLOT_MEAN_POSITIONS] = {"mean_positions", "vV"},
    [SLOT_BATCH_NORM] = {"batch_norm", "vvv?v?vV"},
    [SLOT_LAYER_NORM] = {"layer_norm", "v?v?vV"},
    [SLOT_UNIT_LENGTH] = {"unit_length", "vV"},
    [SLOT_SHORTCUT] = {"shortcut", "vV"},
    [SLOT_WINDOWS] = {"windows", "vV"},
    [SLOT_GRAM] = {"gram", "eP"},
    [SLOT_CROSS] = {"cross", "eeP"},
    [SLOT_COLUMN_SUMS] = {"column_sums", "e?P?P"},
    [SLOT_COPY] = {"copy", "cC"},
    [SLOT_ZERO] = {"zero", "A"},
    [SLOT_GATHER] = {"gather", "aA"},
    [SLOT_FOLD_COLUMNS] = {"fold_columns", "aA"},
    [SLOT_FOLD_ROWS] = {"fold_rows", "aA"},
    [SLOT_GEMM] = {"gemm", "ssS"},
    [SLOT_ADD_SYMMETRIC] = {"add_symmetric", "ssS"},
    [SLOT_ADD_SCALED] = {"add_scaled", "aS"},
    [SLOT_ADD_OUTER] = {"add_outer", "ppS"},
    [SLOT_DIAGONAL] = {"diagonal", "sP"},
    [SLOT_SET_DIAGONAL] = {"set_diagonal", "pS"},
    [SLOT_SHIFT_DIAGONAL] = {"shift_diagonal", "S"},
    [SLOT_FILL_TRIANGLE] = {"fill_triangle", "S"},
    [SLOT_ROW_DOTS] = {"row_dots", "aaP"},
    [SLOT_DIVIDE_COLUMNS] = {"divide_columns", "pS"},
    [SLOT_CHOLESKY] = {"cholesky", "S"},
    [SLOT_CHOLESKY_SOLVE] = {"cholesky_solve", "sS"},
    [SLOT_CHOLESKY_MULTIPLY] = {"cholesky_multiply", "sS"},
    [SLOT_CHOLESKY_INVERT] = {"cholesky_invert", "S"},
    [SLOT_EIGEN] = {"eigen", "PP"},
    [SLOT_PRODUCT] = {"product", "vvV"},
    [SLOT_RMS_NORM_GRADIENT] = {"rms_norm_gradient", "vvvV?V"},
    [SLOT_LAYER_NORM_GRADIENT] = {"layer_norm_gradient", "v?vvV?V?V"},
    [SLOT_BATCH_NORM_GRADIENT] = {"batch_norm_gradient", "vvv?vv?V?V?V"},
    [SLOT_UNIT_LENGTH_GRADIENT] = {"unit_length_gradient", "vvV"},
    [SLOT_ATTENTION_GRADIENT] = {"attention_gradient", "vvvvvVVV"},
    [SLOT_ACTIVATE_GRADIENT] = {"activate_gradient", "vvV"},
    [SLOT_CONV2D_GRADIENT] = {"conv2d_gradient", "vvv?V?V?V"},
    [SLOT_MAX_POOL_GRADIENT] = {"max_pool_gradient", "vvV"},
    [SLOT_SHORTCUT_GRADIENT] = {"shortcut_gradient", "vV"},
    [SLOT_DIVERGENCE] = {"divergence", "vv?V"},
    [SLOT_DESCEND] = {"descend", "v?VVV"},
};

int operation_count(void)
{
    return SLOT_COUNT;
}

const char *operation_name(int slot)
{
    return descriptions[slot].name;
}

/* What an operation's description says of one of its matrices. */
typedef struct argument {
    char kind; /* a small letter; 0 behind the last */
    bool optional, written;
} argument;

static argument argument_at(operation_slot slot, int index)
{
    const char *text = descriptions[slot].matrices;
    argument a = {0};
    for (int i = 0; i <= index && *text != '\0'; i++, text++) {
        a = (argument){.optional = *text == '?'};
        text += a.optional ? 1 : 0;
        a.written = *text >= 'A' && *text <= 'Z';
        a.kind = (char)(a.written ? *text - 'A' + 'a' : *text);
        if (i < index && text[1] == '\0') {
            return (argument){0};
        }
    }
    return a;
}

static bool fits(argument a, matrix m, const backend *b)
{
    const bool packed = matrix_is_packed(m);
    switch (a.kind) {
    case 'v':
        return m.type == b->kind->type && packed;
    case 'e':
        return m.type == b->kind->type;
    case 's':
        return m.type == GRAIL_DTYPE_F64;
    case 'p':
        return m.type == GRAIL_DTYPE_F64 && packed;
    case 'w':
        return (m.type == b->kind->type && packed) || matrix_is_ordered(m);
    case 'c':
        return true;
    default:
        return a.kind == 'a' && !matrix_is_ordered(m);
    }
}

static grail_status check(const operation *o, const backend *b)
{
    for (int i = 0; i < OPERATION_MATRICES; i++) {
        const argument a = argument_at(o->slot, i);
        const matrix m = o->m[i];
        const bool missing = !matrix_exists(m);
        if (missing ? a.kind != '\0' && !a.optional : m.owner != b || !fits(a, m, b)) {
            return error_set(GRAIL_ERROR_INTERNAL,
                             "operation '%s': its matrix %d %s on the backend '%s'",
                             operation_name((int)o->slot), i,
                             missing          ? "is missing"
                             : m.owner != b   ? "is of another instance"
                             : a.kind == '\0' ? "is one too many"
                                              : "has a type or stride that it does not take",
                             b->kind->name);
        }
    }
    return GRAIL_OK;
}

grail_status backend_enter(backend *b, int *threads_before)
{
    *threads_before = parallel_threads();
    if (b->threads > 0 && b->threads != *threads_before) {
        parallel_set_threads(b->threads);
    }
    return b->kind->enter == NULL ? GRAIL_OK : b->kind->enter(b);
}

void backend_leave(const backend *b, int threads_before)
{
    if (b->threads > 0 && b->threads != threads_before) {
        parallel_set_threads(threads_before);
    }
}

static grail_status run_on(backend *b, slot_function run, const operation *o)
{
    int threads = 0;
    grail_status status = backend_enter(b, &threads);
    if (status == GRAIL_OK) {
        status = run(b, o);
    }
    backend_leave(b, threads);
    return status;
}

/* -- on the host ------------------------------------------------------------------------------- */

/* An instance on the host with the precision of `b`: what it computes is what `b` should. It has
 * the threads of the thread that calls it, which are those of `b` once `b` is entered. */
static backend *host_for(const backend *b)
{
    return b->kind->type == GRAIL_DTYPE_F64 ? backend_reference() : backend_host();
}

/* A copy of `m` in the other instance's memory; a repeated row is copied once. */
static grail_status copy_to_host(backend *host, matrix m, matrix *out)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    const bool repeats = m.stride == 0 && m.rows > 1;
    const matrix source = repeats ? matrix_rows(m, 0, 1) : m;
    TRY(matrix_new(host, m.type, source.rows, m.columns, out));
    TRY(host_view_open(*out, m.type, HOST_WRITES, &v));
    TRY(matrix_download(source, v.values));
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    return status;
}

static grail_status copy_back(matrix from, matrix to)
{
    grail_status status = GRAIL_OK;
    host_view v = {0};
    TRY(host_view_open(from, from.type, HOST_READS, &v));
    TRY(matrix_upload(to, v.values));
    TRY(host_view_close(&v));
out:
    host_view_drop(&v);
    return status;
}

static grail_status run_on_host(backend *b, const operation *o)
{
    grail_status status = GRAIL_OK;
    backend *host = host_for(b);
    operation there = *o;
    matrix copies[OPERATION_MATRICES] = {{0}};
    atomic_fetch_add(&b->fallbacks[o->slot], 1);
    for (int i = 0; i < OPERATION_MATRICES; i++) {
        if (matrix_exists(o->m[i])) {
            TRY(copy_to_host(host, o->m[i], &copies[i]));
            there.m[i] = copies[i].rows < o->m[i].rows ? matrix_repeat_row(copies[i], o->m[i].rows)
                                                       : copies[i];
        }
    }
    TRY(run_on(host, host->kind->slots[o->slot], &there));
    for (int i = 0; i < OPERATION_MATRICES; i++) {
        if (matrix_exists(o->m[i]) && argument_at(o->slot, i).written) {
            TRY(copy_back(copies[i], o->m[i]));
        }
    }
out:
    for (int i = 0; i < OPERATION_MATRICES; i++) {
        matrix_free(&copies[i]);
    }
    return status;
}

grail_status operation_run(const operation *o)
{
    backend *b = o->m[0].owner;
    if (b == NULL) {
        return error_set(GRAIL_ERROR_INTERNAL, "operation '%s' was called without a matrix",
                         operation_name((int)o->slot));
    }
    const grail_status status = check(o, b);
    if (status != GRAIL_OK) {
        return status;
    }
    const slot_function own = b->kind->slots[o->slot];
    return run_on(b, own == NULL ? run_on_host : own, o);
}
