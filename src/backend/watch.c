/* What is watched for NaN and infinity. Where memory is not the host's, a number on the device has
 * the first fault of all that a thread has watched, and texts on the host say what each was. */
#include "backend/finite.h"
#include "backend/kind.h"

#include "base/memory.h"
#include "base/profile.h"

#include <math.h>
#include <stdio.h>

/* Ranks are multiples of more elements than a matrix has; all are exact in f64. */
enum { MOST_WATCHED = 1 << 17 }; /* between two readings */
static const double rank_step = 0x1p36;

typedef struct watched {
    char *text; /* owned */
    int64_t columns, first;
} watched;

struct watch {
    watch *next;
    const void *thread;
    matrix status; /* [1, 1] f64: 0, or a rank less an index */
    watched *of;   /* [count], owned */
    int count;
};

/* What watch_in was given last; its address tells threads apart. */
static _Thread_local const char *about;

static watch *find(const backend *b)
{
    watch *w = atomic_load(&b->watches);
    while (w != NULL && w->thread != (const void *)&about) {
        w = w->next;
    }
    return w;
}

static grail_status find_or_make(backend *b, watch **out)
{
    *out = find(b);
    if (*out != NULL) {
        return GRAIL_OK;
    }
    CHECK(memory_new(out, 1, sizeof **out));
    (*out)->thread = (const void *)&about;
    (*out)->next = atomic_load(&b->watches);
    while (!atomic_compare_exchange_weak(&b->watches, &(*out)->next, *out)) {
    }
    return GRAIL_OK;
}

static void forget(watch *w)
{
    matrix_free(&w->status);
    while (w->count > 0) {
        memory_free(w->of[--w->count].text);
    }
}

void watches_free(backend *b)
{
    for (watch *w = atomic_load(&b->watches), *next = NULL; w != NULL; w = next) {
        next = w->next;
        forget(w);
        memory_free(w->of);
        memory_free(w);
    }
}

static grail_status fault(const watched *of, int64_t index)
{
    return error_set(GRAIL_ERROR_NUMERIC, "%s at row %lld, feature %lld", of->text,
                     (long long)(index / of->columns),
                     (long long)(of->first + index % of->columns));
}

/* Adds what `text` says to the list. */
static grail_status note(watch *w, matrix x, int64_t first, const char *text)
{
    char whole[2 * WATCH_TEXT];
    snprintf(whole, sizeof whole, "%s%s%s", about == NULL ? "" : about, about == NULL ? "" : ": ",
             text);
    CHECK(memory_reserve(&w->of, (size_t)w->count + 1, sizeof w->of[0]));
    w->of[w->count] = (watched){.columns = x.columns, .first = first};
    CHECK(memory_copy_string(&w->of[w->count].text, whole));
    w->count++;
    return GRAIL_OK;
}

static grail_status watch_at_once(matrix x, int64_t first, const char *text)
{
    int64_t index = -1;
    const watched own = {(char *)(uintptr_t)text, x.columns, first};
    if (finite_take(x)) {
        return GRAIL_OK;
    }
    CHECK(matrix_find_non_finite(false, x, &index));
    return index < 0 ? GRAIL_OK : fault(&own, index);
}

grail_status matrix_watch(matrix x, int64_t first, const char *text)
{
    watch *w = NULL;
    backend *b = x.owner;
    if (b->kind->is_host) {
        return watch_at_once(x, first, text);
    }
    CHECK(find_or_make(b, &w));
    CHECK(w->count == MOST_WATCHED ? backend_settle(b, GRAIL_OK) : GRAIL_OK);
    if (!matrix_exists(w->status)) {
        CHECK(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 1, &w->status));
    }
    const double rank = (double)(MOST_WATCHED - w->count) * rank_step;
    CHECK(note(w, x, first, text));
    return matrix_mark_non_finite(false, rank, x, w->status);
}

void watch_in(const char *text)
{
    about = text;
}

/* values[count] = numbers, of one element each, in one download. */
static grail_status read_numbers(backend *b, int count, const matrix *numbers, double *values)
{
    grail_status status = GRAIL_OK;
    matrix row = no_matrix;
    if (count < 2) {
        return count == 0 ? GRAIL_OK : matrix_download(numbers[0], values);
    }
    TRY(matrix_new(b, GRAIL_DTYPE_F64, 1, count, &row));
    for (int i = 0; i < count; i++) {
        TRY(matrix_copy(numbers[i], matrix_columns(row, i, 1)));
    }
    TRY(matrix_download(row, values));
out:
    matrix_free(&row);
    return status;
}

static grail_status told(const watch *w, double found)
{
    const double rank = ceil(found / rank_step);
    return fault(&w->of[MOST_WATCHED - (int)rank], (int64_t)(rank * rank_step - found));
}

grail_status backend_settle_reading(backend *b, grail_status status, int count, matrix *numbers,
                                    double *values)
{
    watch *w = find(b);
    const bool has_watched = w != NULL && w->count > 0;
    numbers[count] = has_watched ? w->status : no_matrix;
    values[count] = 0.0;
    if (status == GRAIL_OK || status == GRAIL_ERROR_NUMERIC) {
        const profile_kind before = profile_enter(PROFILE_WAITING);
        const grail_status read = read_numbers(b, count + (has_watched ? 1 : 0), numbers, values);
        profile_enter(before);
        status = read == GRAIL_OK ? status : read;
    }
    if (values[count] > 0.0) {
        status = told(w, values[count]);
    }
    if (has_watched) {
        forget(w);
    }
    return status;
}

grail_status backend_settle(backend *b, grail_status status)
{
    matrix number[1];
    double value[1];
    return backend_settle_reading(b, status, 0, number, value);
}

grail_status matrices_are_finite(int count, const matrix *m, const bool *lower, bool *out)
{
    grail_status status = GRAIL_OK;
    matrix mark = no_matrix;
    double found = 0.0;
    backend *b = m[0].owner;
    *out = false;
    if (b->kind->is_host) {
        return GRAIL_OK;
    }
    TRY(matrix_new_zero(b, GRAIL_DTYPE_F64, 1, 1, &mark));
    for (int i = 0; i < count; i++) {
        TRY(matrix_exists(m[i]) ? matrix_mark_non_finite(lower[i], rank_step, m[i], mark)
                                : GRAIL_OK);
    }
    TRY(matrix_download(mark, &found));
    *out = found == 0.0;
out:
    matrix_free(&mark);
    return status;
}
