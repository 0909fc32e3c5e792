#include "reduce/fold.h"

#include "base/parallel.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

/* A point moves only when that lowers the inertia by more than rounding errors can, relative to the
 * point's own square: P_ii is the scale of every term of a distance. */
static const double resolution = 1e-12;

/* One start: a partition of n points into K clusters that its sweeps improve. */
typedef struct partition {
    int64_t units;
    int64_t clusters;
    const double *products; /* both triangles */
    int64_t *labels;        /* [n] */
    int64_t *order;         /* [n] scratch: the sweep's permutation */
    int64_t *sizes;         /* [K] n_t */
    double *squares;        /* [K] Q_t */
    double *row;            /* [K] scratch: S_i of the point being visited */
    double *distance;       /* [n] scratch: squared distance to the closest centre */
    bool *is_centre;        /* [n] scratch */
    double *trace;          /* [sweeps] inertia after each */
    double inertia;
} partition;

typedef struct starts {
    const kmeans_options *options;
    partition *partitions; /* [restarts] */
} starts;

/* row[t] = S_it = sum_{j in t} P_ij */
static void cluster_products(const partition *p, int64_t i)
{
    const double *products = p->products + i * p->units;
    memset(p->row, 0, (size_t)p->clusters * sizeof *p->row);
    for (int64_t j = 0; j < p->units; j++) {
        p->row[p->labels[j]] += products[j];
    }
}

static void start_balanced(partition *p, random_state *random)
{
    random_permutation(random, p->units, p->order);
    for (int64_t i = 0; i < p->units; i++) {
        p->labels[p->order[i]] = i * p->clusters / p->units;
    }
}

/* Points that are closer to the centre `c` than to all earlier centres join its cluster; centres
 * stay in theirs, so none is emptied. Rounding leaves less than 0 of the distance of points that
 * are long and nearly equal. */
static void add_centre(partition *p, int64_t c, int64_t label)
{
    const double *products = p->products + c * p->units;
    p->is_centre[c] = true;
    p->labels[c] = label;
    for (int64_t i = 0; i < p->units; i++) {
        const double d = fmax(0.0, p->products[i * p->units + i] - 2.0 * products[i] + products[c]);
        if (!p->is_centre[i] && (label == 0 || d < p->distance[i])) {
            p->distance[i] = d;
            p->labels[i] = label;
        }
    }
}

/* Each next centre is the point farthest from all centres so far. So equal points share a cluster
 * whenever there are at least as many clusters as different points; Hartigan's moves from a random
 * start do not always find this. Source: Gonzalez 1985, farthest-first traversal. */
static void start_spread(partition *p, random_state *random)
{
    int64_t centre = random_below(random, p->units);
    for (int64_t label = 0; label < p->clusters; label++) {
        add_centre(p, centre, label);
        centre = -1; /* the first of the farthest; there is none where all points are centres */
        for (int64_t i = 0; i < p->units; i++) {
            if (!p->is_centre[i] && (centre < 0 || p->distance[i] > p->distance[centre])) {
                centre = i;
            }
        }
    }
}

static void sum_clusters(partition *p)
{
    for (int64_t i = 0; i < p->units; i++) {
        p->sizes[p->labels[i]]++;
    }
    for (int64_t i = 0; i < p->units; i++) {
        cluster_products(p, i);
        p->squares[p->labels[i]] += p->row[p->labels[i]];
    }
}

/* What point i costs in a cluster of `size` others with the given S_i and Q:
 * ||x_i - c||^2 n / (n + 1) = (n P_ii - 2 S_i + Q / n) / (n + 1). */
static double joining_cost(double own, double product, double square, int64_t size)
{
    const double n = (double)size;
    return (n * own - 2.0 * product + square / n) / (n + 1.0);
}

/* The cluster that point i should be in; p->row must be S_i. */
static int64_t best_cluster(const partition *p, int64_t i)
{
    const double own = p->products[i * p->units + i];
    const int64_t home = p->labels[i];
    const double staying = joining_cost(
        own, p->row[home] - own, p->squares[home] - 2.0 * p->row[home] + own, p->sizes[home] - 1);
    int64_t best = home;
    double least = staying - resolution * own;
    for (int64_t t = 0; t < p->clusters; t++) {
        const double cost = joining_cost(own, p->row[t], p->squares[t], p->sizes[t]);
        if (t != home && cost < least) {
            best = t;
            least = cost;
        }
    }
    return best;
}

/* ||sum of t with x_i||^2 = Q_t + 2 S_it + P_ii, and likewise without it. */
static void move_point(partition *p, int64_t i, int64_t to)
{
    const double own = p->products[i * p->units + i];
    const int64_t from = p->labels[i];
    p->squares[from] += own - 2.0 * p->row[from];
    p->squares[to] += own + 2.0 * p->row[to];
    p->sizes[from]--;
    p->sizes[to]++;
    p->labels[i] = to;
}

/* Number of points that moved. */
static int64_t sweep(partition *p, random_state *random)
{
    int64_t moves = 0;
    random_permutation(random, p->units, p->order);
    for (int64_t v = 0; v < p->units; v++) {
        const int64_t i = p->order[v];
        if (p->sizes[p->labels[i]] == 1) {
            continue;
        }
        cluster_products(p, i);
        const int64_t to = best_cluster(p, i);
        if (to != p->labels[i]) {
            move_point(p, i, to);
            moves++;
        }
    }
    return moves;
}

/* sum_i P_ii - sum_t Q_t / n_t */
static double inertia_of(const partition *p)
{
    double inertia = 0.0;
    for (int64_t i = 0; i < p->units; i++) {
        inertia += p->products[i * p->units + i];
    }
    for (int64_t t = 0; t < p->clusters; t++) {
        inertia -= p->squares[t] / (double)p->sizes[t];
    }
    return inertia < 0.0 ? 0.0 : inertia;
}

static void run_start(const kmeans_options *options, int64_t start, partition *p)
{
    random_state random;
    random_seed(&random, options->seed, options->stream);
    const uint64_t seed = random_next(&random);
    random_seed(&random, seed, (uint64_t)start);
    if (start == 0) {
        start_spread(p, &random);
    } else {
        start_balanced(p, &random);
    }
    sum_clusters(p);
    p->inertia = inertia_of(p);
    for (int s = 0; s < options->sweeps; s++) {
        const int64_t moves = sweep(p, &random);
        p->inertia = inertia_of(p);
        p->trace[s] = p->inertia;
        if (moves == 0 || (double)moves <= options->stop_changes * (double)p->units) {
            break;
        }
    }
}

static void run_starts(int64_t first, int64_t last, void *context)
{
    const starts *s = context;
    for (int64_t i = first; i < last; i++) {
        run_start(s->options, i, &s->partitions[i]);
    }
}

static void partition_fini(partition *p)
{
    memory_free(p->labels);
    memory_free(p->order);
    memory_free(p->sizes);
    memory_free(p->squares);
    memory_free(p->row);
    memory_free(p->distance);
    memory_free(p->is_centre);
    memory_free(p->trace);
}

static grail_status partition_init(partition *p, int64_t units, int64_t clusters, int sweeps,
                                   const double *products)
{
    *p = (partition){.units = units, .clusters = clusters, .products = products};
    CHECK(memory_new(&p->labels, (size_t)units, sizeof *p->labels));
    CHECK(memory_new(&p->order, (size_t)units, sizeof *p->order));
    CHECK(memory_new(&p->sizes, (size_t)clusters, sizeof *p->sizes));
    CHECK(memory_new(&p->squares, (size_t)clusters, sizeof *p->squares));
    CHECK(memory_new(&p->row, (size_t)clusters, sizeof *p->row));
    CHECK(memory_new(&p->distance, (size_t)units, sizeof *p->distance));
    CHECK(memory_new(&p->is_centre, (size_t)units, sizeof *p->is_centre));
    CHECK(memory_new(&p->trace, (size_t)sweeps, sizeof *p->trace));
    for (int s = 0; s < sweeps; s++) {
        p->trace[s] = (double)NAN;
    }
    return GRAIL_OK;
}

static grail_status check_kmeans(int64_t units, int64_t clusters, matrix products,
                                 const kmeans_options *options)
{
    int64_t bad = -1;
    if (clusters <= 0 || clusters > units || options->restarts <= 0 || options->sweeps < 0) {
        return error_set(GRAIL_ERROR_ARGUMENT,
                         "cannot fold %lld units into %lld clusters with %d starts of %d sweeps",
                         (long long)units, (long long)clusters, options->restarts, options->sweeps);
    }
    CHECK(matrix_find_non_finite(true, products, &bad));
    if (bad >= 0) {
        return error_set(
            GRAIL_ERROR_NUMERIC,
            "the inner product of units %lld and %lld is not finite; look for NaN or infinity in "
            "the weights",
            (long long)(bad / units), (long long)(bad % units));
    }
    return GRAIL_OK;
}

grail_status kmeans_hartigan(int64_t clusters, matrix products, const kmeans_options *options,
                             int64_t *labels, double *inertia, double *inertia_trace)
{
    grail_status status = GRAIL_OK;
    const int64_t units = products.rows;
    partition *partitions = NULL;
    host_view view = {.values = NULL};
    TRY(check_kmeans(units, clusters, products, options));
    TRY(matrix_fill_upper(products));
    TRY(host_view_open(products, GRAIL_DTYPE_F64, HOST_READS, &view));
    TRY(memory_new(&partitions, (size_t)options->restarts, sizeof *partitions));
    for (int i = 0; i < options->restarts; i++) {
        TRY(partition_init(&partitions[i], units, clusters, options->sweeps, view.values));
    }
    starts all = {options, partitions};
    parallel_for(options->restarts, 1, run_starts, &all);
    const partition *best = partitions;
    for (int i = 1; i < options->restarts; i++) {
        best = partitions[i].inertia < best->inertia ? &partitions[i] : best;
    }
    TRY(labels_renumber(units, clusters, best->labels));
    memcpy(labels, best->labels, (size_t)units * sizeof *labels);
    *inertia = best->inertia;
    if (inertia_trace != NULL) {
        memcpy(inertia_trace, best->trace, (size_t)options->sweeps * sizeof *inertia_trace);
    }
out:
    for (int i = 0; partitions != NULL && i < options->restarts; i++) {
        partition_fini(&partitions[i]);
    }
    memory_free(partitions);
    host_view_drop(&view);
    return status;
}

grail_status labels_renumber(int64_t units, int64_t clusters, int64_t *labels)
{
    int64_t *numbers = NULL;
    int64_t count = 0;
    CHECK(memory_new(&numbers, (size_t)clusters, sizeof *numbers));
    for (int64_t i = 0; i < units; i++) {
        int64_t *number = &numbers[labels[i]]; /* one more than the new label; 0 = not met yet */
        if (*number == 0) {
            *number = ++count;
        }
        labels[i] = *number - 1;
    }
    memory_free(numbers);
    return GRAIL_OK;
}

/* Units as vectors of `length` components. Component l of unit j is in[start(l) + j * step]. */
typedef struct unit_vectors {
    const float *in;
    int64_t units;
    int64_t length;
    int64_t step;
    int64_t block; /* consecutive components lie together in runs of this length ... */
    int64_t jump;  /* ... whose starts are this far apart */
} unit_vectors;

/* Units are transposed in runs that share cache lines on both sides. */
enum { UNIT_RUN = 16, PANEL_ELEMENTS = 1 << 20 };

/* panel[count, n]: components begin .. begin+count-1, one row each. */
static void gather_panel(const unit_vectors *v, int64_t begin, int64_t count, float *panel)
{
    for (int64_t first = 0; first < v->units; first += UNIT_RUN) {
        const int64_t last = first + UNIT_RUN < v->units ? first + UNIT_RUN : v->units;
        for (int64_t p = 0; p < count; p++) {
            const int64_t l = begin + p;
            const float *in = v->in + l / v->block * v->jump + l % v->block;
            for (int64_t j = first; j < last; j++) {
                panel[p * v->units + j] = in[j * v->step];
            }
        }
    }
}

/* P += sum over components of the outer product of the units' values, a panel at a time. */
static grail_status add_products(const unit_vectors *v, matrix products)
{
    grail_status status = GRAIL_OK;
    backend *b = products.owner;
    float *panel = NULL;
    matrix values = no_matrix;
    const int64_t fitting = PANEL_ELEMENTS / v->units + 1;
    const int64_t rows = fitting < v->length ? fitting : v->length;
    TRY(memory_new_unset(&panel, (size_t)(rows * v->units), sizeof *panel));
    TRY(matrix_new(b, backend_type(b), rows, v->units, &values));
    for (int64_t begin = 0; begin < v->length; begin += rows) {
        const int64_t count = begin + rows < v->length ? rows : v->length - begin;
        const matrix part = matrix_rows(values, 0, count);
        gather_panel(v, begin, count, panel);
        TRY(matrix_upload_f32(part, panel));
        TRY(matrix_gram(part, products));
    }
out:
    memory_free(panel);
    matrix_free(&values);
    return status;
}

grail_status fold_add_rows(int64_t features_per_unit, int64_t columns, const float *in,
                           matrix products)
{
    const int64_t length = features_per_unit * columns;
    const unit_vectors v = {in, products.rows, length, length, length, 0};
    return add_products(&v, products);
}

grail_status fold_add_columns(int64_t features_per_unit, int64_t rows, const float *in,
                              matrix products)
{
    const int64_t units = products.rows;
    const unit_vectors v = {in,
                            units,
                            rows * features_per_unit,
                            features_per_unit,
                            features_per_unit,
                            units * features_per_unit};
    return add_products(&v, products);
}
