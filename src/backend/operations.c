/* Running an operation: checks it against its row of operation_list.h, and does on the host what
 * the instance leaves out. */
#include "backend/finite.h"
#include "backend/kind.h"
#include "backend/shapes.h"
#include "base/profile.h"

#include <math.h>

static const struct {
    const char *name;
    const char *matrices; /* see operation_list.h */
} descriptions[SLOT_COUNT] = {
#define OPERATION(name, matrices, ...) [SLOT_##name] = {#name, matrices},
#include "backend/operation_list.h"
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
    const bool parameter = m.type == b->kind->type || m.type == backend_master_type(b);
    switch (a.kind) {
    case 'v':
        return m.type == b->kind->type && packed;
    case 'e':
        return m.type == b->kind->type;
    case 'm':
        return parameter && packed;
    case 'f':
        return parameter;
    case 's':
        return m.type == GRAIL_DTYPE_F64;
    case 'p':
        return m.type == GRAIL_DTYPE_F64 && packed;
    case 'w':
        return (parameter && packed) || matrix_is_ordered(m);
    case 'c':
        return true;
    default:
        return a.kind == 'a' && !matrix_is_ordered(m);
    }
}

static grail_status run_on(backend *b, slot_function run, const operation *o)
{
    int threads = 0;
    grail_status status = backend_enter(b, &threads);
    if (status == GRAIL_OK) {
        status = run(o);
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

static grail_status run_on_host(const operation *o)
{
    grail_status status = GRAIL_OK;
    backend *b = o->m[0].owner;
    backend *host = host_for(b);
    operation there = *o;
    matrix copies[OPERATION_MATRICES] = {{0}};
    atomic_fetch_add(&b->fallbacks[o->slot], 1);
    for (int i = 0; i < OPERATION_MATRICES; i++) {
        if (matrix_exists(o->m[i])) {
            /* a repeated row is copied once */
            const bool repeats = o->m[i].stride == 0 && o->m[i].rows > 1;
            const matrix source = repeats ? matrix_rows(o->m[i], 0, 1) : o->m[i];
            TRY(matrix_new(host, o->m[i].type, source.rows, o->m[i].columns, &copies[i]));
            TRY(matrix_download(source, copies[i].memory));
            there.m[i] = copies[i].rows < o->m[i].rows ? matrix_repeat_row(copies[i], o->m[i].rows)
                                                       : copies[i];
        }
    }
    TRY(run_on(host, kind_slot(host->kind, o->slot), &there));
    for (int i = 0; i < OPERATION_MATRICES; i++) {
        if (matrix_exists(o->m[i]) && argument_at(o->slot, i).written) {
            TRY(matrix_upload(o->m[i], copies[i].memory));
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
    const slot_function own = kind_slot(b->kind, o->slot);
    if (own == NULL && element_size(b->kind->type) == 2) {
        return error_set(GRAIL_ERROR_INTERNAL, "the backend '%s' has no '%s' in %s", b->kind->name,
                         operation_name((int)o->slot), b->kind->precision);
    }
    if (profile_is_on()) {
        profile_add_operations(operation_work(o));
    }
    finite_forget();
    return run_on(b, own == NULL ? run_on_host : own, o);
}

/* -- what callers use -------------------------------------------------------------------------- */

/* A mismatch of shapes is a caller's mistake: the library never makes such a call. */
static grail_status wrong_shape(operation_slot slot)
{
    return error_set(GRAIL_ERROR_INTERNAL, "operation '%s': the shapes of its matrices disagree",
                     operation_name((int)slot));
}

#define OPERATION(name, matrices, parameters, shapes, ...)                                         \
    grail_status matrix_##name parameters                                                          \
    {                                                                                              \
        return (shapes) ? operation_run(&(operation){.slot = SLOT_##name, __VA_ARGS__})            \
                        : wrong_shape(SLOT_##name);                                                \
    }
#include "backend/operation_list.h"

double share_of_gap(double gap, double target)
{
    if (!(target > 0.0)) {
        return 1.0;
    }
    /* The gap is a difference of sums: rounding can leave less than 0 of it. */
    return gap < target ? fmin(1.0, 1.0 - gap / target) : 0.0;
}

double entropy_of(const entropy_sums *sums)
{
    return log(sums->total) + sums->largest - sums->target;
}

grail_status matrix_download_diagonal(matrix a, double *diagonal)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    TRY(matrix_new(a.owner, GRAIL_DTYPE_F64, 1, a.rows, &row));
    TRY(matrix_diagonal(a, row));
    TRY(matrix_download(row, diagonal));
out:
    matrix_free(&row);
    return status;
}
