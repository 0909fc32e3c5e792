#include "arch/onnx_biases.h"

#include "arch/onnx_arguments.h"
#include "arch/onnx_trials.h"

#include <math.h>

/* Numbers of a table, or of a square for each head that is looked at. */
enum { MOST_NUMBERS = 1 << 27 };

/* A score that is lowered by so much has a weight of 0 in f64, and f16 holds it. */
static const double hides = -3e4;

/* How far two computed biases of one distance may be from each other, of the largest one. */
static const double tolerance = 1e-6;

/* [heads, length, length], or [heads, 1, length] for all queries; where there are windows, as many
 * heads for each of them. */
typedef struct squares {
    const float *values;
    int64_t heads, length, queries;
    int64_t windows; /* 0: none */
    double allowed;
    bool are_finite;
} squares;

static grail_status are_squares(const tensor_view *t, squares *out)
{
    int64_t count = 0;
    double largest = 0.0;
    const int at = t->rank - IMAGE_RANK; /* windows are behind the samples, or among them */
    const bool has_windows = at >= 0 && at < 2 && t->shape[at] > 1;
    bool fits = t->data != NULL && t->rank >= 2 && t->rank <= IMAGE_RANK + 1 &&
                (t->rank <= IMAGE_RANK || t->shape[0] == 1) &&
                shape_elements(t->rank, t->shape, &count) && count > 0 && count <= MOST_NUMBERS;
    *out = (squares){.values = t->data,
                     .length = fits ? t->shape[t->rank - 1] : 1,
                     .queries = fits ? t->shape[t->rank - 2] : 1,
                     .windows = has_windows ? t->shape[at] : 0,
                     .are_finite = true};
    fits = fits && (out->queries == out->length || out->queries == 1);
    out->heads = count / out->queries / out->length;
    for (int64_t i = 0; fits && i < count; i++) {
        const double x = (double)out->values[i];
        fits = x < -hides; /* no NaN either */
        out->are_finite = out->are_finite && isfinite(x);
        largest = x > ONNX_LEAST_HIDDEN ? fmax(largest, fabs(x)) : largest;
    }
    out->allowed = tolerance * largest;
    return fits ? GRAIL_OK
                : onnx_misfit("adds to scores of attention, or chooses from them by, what is no "
                              "number for each query and key");
}

static double value_at(const squares *s, int64_t head, int64_t query, int64_t key)
{
    const int64_t row = s->queries == 1 ? 0 : query;
    return (double)s->values[(head * s->queries + row) * s->length + key];
}

/* What is added; `shifts`: less that of the query's own key, which changes no share. */
static double bias_at(const squares *s, bool shifts, int64_t head, int64_t query, int64_t key)
{
    const double x = value_at(s, head, query, key);
    return x <= ONNX_LEAST_HIDDEN ? hides : x - (shifts ? value_at(s, head, query, query) : 0.0);
}

static bool is_within(const onnx_mask *m, int64_t query, int64_t key)
{
    return (m->behind == 0 || query - key < m->behind) && (m->ahead == 0 || key - query < m->ahead);
}

/* Limits that hide just what is hidden; without such, none, and the table hides. */
static void find_limits(const squares *s, onnx_mask *m)
{
    const int64_t last = s->length - 1;
    int64_t first = 0;
    int64_t end = last;
    while (first < last && bias_at(s, false, 0, last, first) == hides) {
        first++;
    }
    while (end > 0 && bias_at(s, false, 0, 0, end) == hides) {
        end--;
    }
    m->behind = first == 0 ? 0 : s->length - first;
    m->ahead = end == last ? 0 : end + 1;
    for (int64_t i = 0; i < s->heads * s->length * s->length; i++) {
        const int64_t query = i / s->length % s->length;
        const int64_t key = i % s->length;
        const double x = value_at(s, i / s->length / s->length, query, key);
        if ((x > ONNX_LEAST_HIDDEN) != is_within(m, query, key)) {
            m->behind = 0;
            m->ahead = 0;
            return;
        }
    }
}

static int64_t numbers_of_head(const onnx_mask *m)
{
    return m->by_distance ? 2 * m->positions - 1 : m->positions * m->positions;
}

static double *place_of(const onnx_mask *m, int64_t head, int64_t query, int64_t key)
{
    return m->biases + head * numbers_of_head(m) +
           (m->by_distance ? m->positions - 1 + key - query : query * m->positions + key);
}

/* Whether the table says what the squares have; without one, that they only hide. */
static bool agrees(const squares *s, bool shifts, const onnx_mask *m)
{
    bool fits = m->biases == NULL || (s->heads == m->heads && s->length <= m->positions);
    for (int64_t i = 0; fits && i < s->heads * s->length * s->length; i++) {
        const int64_t head = i / s->length / s->length;
        const int64_t query = i / s->length % s->length;
        const int64_t key = i % s->length;
        const double x = bias_at(s, shifts, head, query, key);
        const double own = m->biases == NULL ? 0.0 : *place_of(m, head, query, key);
        fits = is_within(m, query, key) ? fabs(x - own) <= s->allowed : x == hides;
    }
    return fits;
}

/* By distance the last query has the keys behind it, and the first one those ahead. */
static void fill(const squares *s, bool shifts, onnx_mask *m)
{
    for (int64_t head = 0; head < s->heads; head++) {
        for (int64_t query = 0; query < s->length; query++) {
            const bool counts = !m->by_distance || query == 0 || query == s->length - 1;
            for (int64_t key = 0; counts && key < s->length; key++) {
                if (is_within(m, query, key)) {
                    *place_of(m, head, query, key) = bias_at(s, shifts, head, query, key);
                }
            }
        }
    }
}

/* The first of four forms that fits: none, by distance, the same but for a number of each query,
 * and all queries and keys. */
static grail_status make_table(const squares *s, const squares *brief, onnx_mask *m)
{
    const bool is_for_all =
        s->heads <= 1 || s->heads == s->windows; /* none of them cut with heads */
    if (is_for_all && agrees(s, false, m) && agrees(brief, false, m)) {
        return GRAIL_OK;
    }
    m->heads = s->heads;
    m->positions = s->length;
    m->windows = s->windows;
    for (int form = m->windows > 0 ? 2 : 0; form < 3; form++) {
        m->by_distance = form < 2;
        CHECK(memory_new(&m->biases, (size_t)(m->heads * numbers_of_head(m)), sizeof m->biases[0]));
        fill(s, form == 1, m);
        if (agrees(s, form == 1, m) && agrees(brief, form == 1, m)) {
            return GRAIL_OK;
        }
        memory_free(m->biases);
        m->biases = NULL;
    }
    return onnx_misfit("adds to scores of attention what differs from sample to sample, or with "
                       "their length");
}

/* The value for short samples, whose ids are not all the same, or with `length` for long ones. */
static grail_status add_up(const onnx_reading *r, bool are_truths, const onnx_mask *m, int64_t most,
                           int64_t *length, tensor_view *out)
{
    const onnx_trial t = {
        .value = m->value, .length = onnx_short_length(r), .alternates = true, .given = -1};
    int64_t count = 0;
    CHECK(length == NULL ? onnx_try(r, &t, out) : onnx_try_long(r, m->value, most, length, out));
    if (are_truths && out->data != NULL && shape_elements(out->rank, out->shape, &count)) {
        float *values = (float *)(uintptr_t)out->data;
        for (int64_t i = 0; i < count; i++) {
            values[i] = (values[i] != 0.0F) == m->shows_true ? 0.0F : (float)hides;
        }
    }
    return GRAIL_OK;
}

grail_status onnx_find_biases(const onnx_reading *r, bool are_truths, onnx_mask *m)
{
    grail_status status = GRAIL_OK;
    tensor_view brief = {0};
    tensor_view made = {0};
    squares few;
    squares all;
    const bool is_constant = r->file->values[m->value].tensor >= 0;
    if (onnx_short_length(r) > ONNX_LONGEST_TRIED && !is_constant) { /* its square is computed */
        return onnx_misfit("hides scores of %lld positions, of which at most %d are looked at",
                           (long long)onnx_short_length(r), ONNX_LONGEST_TRIED);
    }
    TRY(add_up(r, are_truths, m, 0, NULL, &brief));
    TRY(are_squares(&brief, &few));
    all = few;
    if (!is_constant) {
        const int64_t most = (int64_t)sqrt((double)MOST_NUMBERS / (double)few.heads);
        TRY(add_up(r, are_truths, m, most, &m->length, &made));
        TRY(are_squares(&made, &all));
    }
    m->is_tensor = is_constant && all.windows == 0 && all.are_finite && all.queries == all.length;
    find_limits(&all, m);
    TRY(make_table(&all, &few, m));
out:
    memory_free((void *)(uintptr_t)brief.data);
    memory_free((void *)(uintptr_t)made.data);
    return status;
}
