#include "reduce/reducer.h"

#include "base/option_values.h"
#include "base/parallel.h"

#include <string.h>

/* Sums are built in f64 over this many elements at a time, on the stack. */
enum { CHUNK = 1024, ROW_GRAIN = 16 };

/* -0 is the neutral element of addition for every number, -0 included: a sum over one member is
 * that member, bit for bit. */
static const double nothing = -0.0;

void grail_reducer_free(grail_reducer *r)
{
    if (r != NULL) {
        memory_free(r->labels);
        memory_free(r->members);
        memory_free(r->order);
        memory_free(r);
    }
}

static grail_status label_selection(grail_reducer *r, const int64_t *kept)
{
    for (int64_t j = 0; j < r->units; j++) {
        r->labels[j] = -1;
    }
    int64_t least = 0;
    for (int64_t k = 0; k < r->kept; k++) {
        if (kept[k] < least || kept[k] >= r->units) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "reducer: kept unit %lld at position %lld is not in %lld..%lld; "
                             "indices must ascend",
                             (long long)kept[k], (long long)k, (long long)least,
                             (long long)r->units - 1);
        }
        r->labels[kept[k]] = k;
        r->members[k] = 1;
        least = kept[k] + 1;
    }
    return GRAIL_OK;
}

static grail_status label_clusters(grail_reducer *r, const int64_t *labels)
{
    for (int64_t j = 0; j < r->units; j++) {
        if (labels[j] < 0 || labels[j] >= r->kept) {
            return error_set(GRAIL_ERROR_ARGUMENT,
                             "reducer: label %lld of unit %lld is not in 0..%lld",
                             (long long)labels[j], (long long)j, (long long)r->kept - 1);
        }
        r->labels[j] = labels[j];
        r->members[labels[j]]++;
    }
    for (int64_t k = 0; k < r->kept; k++) {
        if (r->members[k] == 0) {
            return error_set(GRAIL_ERROR_ARGUMENT, "reducer: cluster %lld has no unit",
                             (long long)k);
        }
    }
    return GRAIL_OK;
}

static grail_status make_reducer(int64_t units, int64_t kept, bool folds, const int64_t *given,
                                 grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    grail_reducer *r = NULL;
    CHECK(option_given(folds ? "labels" : "kept", folds ? "list of labels" : "list of kept units",
                       given));
    CHECK(option_given("out", "place for the reducer", out));
    if (kept <= 0 || kept > units) {
        FAIL(GRAIL_ERROR_ARGUMENT,
             "reducer: cannot keep %lld of %lld units; keep at least one unit and at most all",
             (long long)kept, (long long)units);
    }
    TRY(memory_new(&r, 1, sizeof *r));
    *r = (grail_reducer){.units = units, .kept = kept, .folds = folds, .subunits = 1};
    TRY(memory_new(&r->labels, (size_t)units, sizeof *r->labels));
    TRY(memory_new(&r->members, (size_t)kept, sizeof *r->members));
    TRY(folds ? label_clusters(r, given) : label_selection(r, given));
    *out = r;
    r = NULL;
out:
    grail_reducer_free(r);
    return status;
}

grail_status grail_reducer_from_selection(int64_t units, int64_t kept_count, const int64_t *kept,
                                          grail_reducer **out)
{
    return make_reducer(units, kept_count, false, kept, out);
}

grail_status grail_reducer_from_labels(int64_t units, int64_t clusters, const int64_t *labels,
                                       grail_reducer **out)
{
    return make_reducer(units, clusters, true, labels, out);
}

int64_t grail_reducer_units(const grail_reducer *r)
{
    return r->units;
}

int64_t grail_reducer_kept(const grail_reducer *r)
{
    return r->kept;
}

int grail_reducer_folds(const grail_reducer *r)
{
    return r->folds;
}

int64_t grail_reducer_label(const grail_reducer *r, int64_t unit)
{
    return unit >= 0 && unit < r->units ? r->labels[unit] : -1;
}

int grail_reducer_tied(const grail_reducer *r)
{
    return r->tied;
}

void grail_reducer_labels(const grail_reducer *r, int64_t *labels)
{
    memcpy(labels, r->labels, (size_t)r->units * sizeof labels[0]);
}

int64_t grail_reducer_subunits(const grail_reducer *r)
{
    return r->subunits;
}

void grail_reducer_order(const grail_reducer *r, int64_t *order)
{
    for (int64_t i = 0; i < r->units * r->subunits; i++) {
        order[i] = r->order == NULL ? i % r->subunits : r->order[i];
    }
}

grail_status reducer_of_group(const grail_reducer *r, int64_t groups, int64_t group,
                              grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    grail_reducer *own = NULL;
    const int64_t units = r->units / groups;
    const int64_t kept = r->kept / groups;
    TRY(memory_new(&own, 1, sizeof *own));
    *own = (grail_reducer){
        .units = units, .kept = kept, .folds = r->folds, .tied = r->tied, .subunits = 1};
    TRY(memory_new_unset(&own->labels, (size_t)units, sizeof *own->labels));
    TRY(memory_new_unset(&own->members, (size_t)kept, sizeof *own->members));
    memcpy(own->members, r->members + group * kept, (size_t)kept * sizeof *own->members);
    for (int64_t j = 0; j < units; j++) {
        const int64_t label = r->labels[group * units + j];
        own->labels[j] = label < 0 ? label : label - group * kept;
    }
    *out = own;
    own = NULL;
out:
    grail_reducer_free(own);
    return status;
}

bool reducer_is_identity(const grail_reducer *r)
{
    bool identity = r->kept == r->units;
    for (int64_t j = 0; identity && j < r->units; j++) {
        identity = r->labels[j] == j;
    }
    for (int64_t i = 0; identity && r->order != NULL && i < r->units * r->subunits; i++) {
        identity = r->order[i] == i % r->subunits;
    }
    return identity;
}

void reducer_kept_features(const grail_reducer *r, int64_t features_per_unit, int64_t *out)
{
    int64_t count = 0;
    for (int64_t j = 0; j < r->units; j++) {
        for (int64_t i = 0; r->labels[j] >= 0 && i < features_per_unit; i++) {
            out[count++] = j * features_per_unit + i;
        }
    }
}

grail_status reducer_projection(const grail_reducer *r, int64_t features_per_unit, projection *out)
{
    return projection_init(r->units, features_per_unit, r->kept, r->labels,
                           r->folds ? r->members : NULL, out);
}

grail_status reducer_set_order(grail_reducer *r, int64_t subunits, const int64_t *order)
{
    grail_status status = GRAIL_OK;
    bool *taken = NULL;
    int64_t *copy = NULL;
    size_t count = 0;
    if (subunits <= 0 || !size_multiply((size_t)r->units, (size_t)subunits, &count)) {
        FAIL(GRAIL_ERROR_ARGUMENT, "reducer: cannot divide units into %lld blocks",
             (long long)subunits);
    }
    TRY(memory_new(&taken, (size_t)subunits, sizeof *taken));
    for (int64_t i = 0; i < (int64_t)count; i++) {
        if (i % subunits == 0) {
            memset(taken, 0, (size_t)subunits * sizeof *taken);
        }
        if (order[i] < 0 || order[i] >= subunits || taken[order[i]]) {
            FAIL(GRAIL_ERROR_ARGUMENT,
                 "reducer: the order of unit %lld is not a permutation of %lld blocks",
                 (long long)(i / subunits), (long long)subunits);
        }
        taken[order[i]] = true;
    }
    TRY(memory_new_unset(&copy, count, sizeof *copy));
    memcpy(copy, order, count * sizeof *copy);
    memory_free(r->order);
    r->order = copy;
    r->subunits = subunits;
out:
    memory_free(taken);
    return status;
}

/* One axis of n units being narrowed. */
typedef struct narrowing {
    const grail_reducer *r;
    const int64_t *order; /* NULL on a plain axis */
    int64_t features;     /* u */
    int64_t columns;      /* of each row; only for narrow_rows */
    const float *in;
    float *out;
} narrowing;

/* Index in the source of feature i of unit j. */
static int64_t source_feature(const narrowing *n, int64_t j, int64_t i)
{
    if (n->order == NULL) {
        return j * n->features + i;
    }
    const int64_t size = n->features / n->r->subunits;
    return j * n->features + n->order[j * n->r->subunits + i / size] * size + i % size;
}

static void fill(int64_t count, double *sums)
{
    for (int64_t c = 0; c < count; c++) {
        sums[c] = nothing;
    }
}

/* out[f, begin .. begin+count-1]: the mean over the members of the cluster. */
static void narrow_chunk(const narrowing *n, int64_t f, int64_t begin, int64_t count)
{
    const grail_reducer *r = n->r;
    const int64_t cluster = f / n->features;
    const double members = (double)r->members[cluster];
    double sums[CHUNK];
    fill(count, sums);
    int64_t left = r->members[cluster];
    for (int64_t j = 0; left > 0; j++) {
        if (r->labels[j] != cluster) {
            continue;
        }
        left--;
        const int64_t row = source_feature(n, j, f % n->features);
        const float *in = n->in + row * n->columns + begin;
        for (int64_t c = 0; c < count; c++) {
            sums[c] += (double)in[c];
        }
    }
    float *out = n->out + f * n->columns + begin;
    for (int64_t c = 0; c < count; c++) {
        out[c] = (float)(sums[c] / members);
    }
}

static void narrow_rows(int64_t first, int64_t last, void *context)
{
    const narrowing *n = context;
    for (int64_t f = first; f < last; f++) {
        for (int64_t begin = 0; begin < n->columns; begin += CHUNK) {
            const int64_t left = n->columns - begin;
            narrow_chunk(n, f, begin, left < CHUNK ? left : CHUNK);
        }
    }
}

/* out[begin .. begin+count-1] of one row: the sum over the members of each cluster. */
static void merge_chunk(const narrowing *n, const float *in, int64_t begin, int64_t count,
                        float *out)
{
    const int64_t u = n->features;
    double sums[CHUNK];
    fill(count, sums);
    for (int64_t j = 0; j < n->r->units; j++) {
        const int64_t start = n->r->labels[j] * u; /* negative for a removed unit: no overlap */
        const int64_t from = start > begin ? start : begin;
        const int64_t to = start + u < begin + count ? start + u : begin + count;
        for (int64_t f = from; f < to; f++) {
            sums[f - begin] += (double)in[source_feature(n, j, f - start)];
        }
    }
    for (int64_t c = 0; c < count; c++) {
        out[begin + c] = (float)sums[c];
    }
}

static void merge_columns(int64_t first, int64_t last, void *context)
{
    const narrowing *n = context;
    const int64_t wide = n->r->units * n->features;
    const int64_t narrow = n->r->kept * n->features;
    for (int64_t row = first; row < last; row++) {
        for (int64_t begin = 0; begin < narrow; begin += CHUNK) {
            const int64_t left = narrow - begin;
            merge_chunk(n, n->in + row * wide, begin, left < CHUNK ? left : CHUNK,
                        n->out + row * narrow);
        }
    }
}

void reducer_narrow_rows(const grail_reducer *r, bool exchangeable, int64_t features_per_unit,
                         int64_t columns, const float *in, float *out)
{
    narrowing n = {r, exchangeable ? r->order : NULL, features_per_unit, columns, in, out};
    parallel_for(r->kept * features_per_unit, ROW_GRAIN, narrow_rows, &n);
}

void reducer_merge_columns(const grail_reducer *r, bool exchangeable, int64_t features_per_unit,
                           int64_t rows, const float *in, float *out)
{
    narrowing n = {r, exchangeable ? r->order : NULL, features_per_unit, 0, in, out};
    parallel_for(rows, ROW_GRAIN, merge_columns, &n);
}

/* Whether arrays of these numbers of elements share memory. */
static bool overlap(const float *a, size_t a_count, const float *b, size_t b_count)
{
    const uintptr_t left = (uintptr_t)a;
    const uintptr_t right = (uintptr_t)b;
    return left < right + b_count * sizeof b[0] && right < left + a_count * sizeof a[0];
}

/* What can be checked of one axis with `others` elements beside each feature. */
static grail_status check_axis(const grail_reducer *r, int exchangeable, int64_t features,
                               int64_t others, const float *in, const float *out)
{
    size_t wide = 0;
    CHECK(option_given("reducer", "reducer", r));
    if (features <= 0 || others < 0 || (exchangeable != 0 && features % r->subunits != 0) ||
        !size_multiply((size_t)r->units, (size_t)features, &wide) ||
        !size_multiply(wide, (size_t)others, &wide) || wide > SIZE_MAX / sizeof in[0]) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "reducer: cannot narrow %lld units of %lld features in %lld blocks, with "
                         "%lld values for each feature",
                         (long long)r->units, (long long)features,
                         exchangeable != 0 ? (long long)r->subunits : 1LL, (long long)others);
    }
    if (others > 0 && (in == NULL || out == NULL ||
                       overlap(in, wide, out, wide / (size_t)r->units * (size_t)r->kept))) {
        return error_set(
            GRAIL_ERROR_ARGUMENT,
            "reducer: the input and the output must be two arrays that do not overlap");
    }
    return GRAIL_OK;
}

grail_status grail_reducer_narrow_rows(const grail_reducer *r, int exchangeable,
                                       int64_t features_per_unit, int64_t columns, const float *in,
                                       float *out)
{
    CHECK(check_axis(r, exchangeable, features_per_unit, columns, in, out));
    reducer_narrow_rows(r, exchangeable != 0, features_per_unit, columns, in, out);
    return GRAIL_OK;
}

grail_status grail_reducer_merge_columns(const grail_reducer *r, int exchangeable,
                                         int64_t features_per_unit, int64_t rows, const float *in,
                                         float *out)
{
    CHECK(check_axis(r, exchangeable, features_per_unit, rows, in, out));
    reducer_merge_columns(r, exchangeable != 0, features_per_unit, rows, in, out);
    return GRAIL_OK;
}
