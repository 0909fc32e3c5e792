/* From a site's weights (and the diagonal of its Gram matrix) to a reducer, and from the reducer to
 * narrow parameters. */
#include "pipeline/compression.h"

#include "reduce/align_subunits.h"
#include "reduce/fold.h"

#include <string.h>

static const site *site_at(const grail_compression *c, int index)
{
    return &c->sites->list.sites[index];
}

static const node *end_node(const grail_compression *c, const site_end *end)
{
    return &c->model->graph->nodes[end->node];
}

/* W[O, n u] of the site's consumer; *owned is to be freed. */
static grail_status consumer_weight(grail_compression *c, int index, const float **out,
                                    float **owned)
{
    return parameter_store_borrow_f32(
        c->current, end_node(c, &site_at(c, index)->consumers[0])->weight, out, owned);
}

grail_status site_select(grail_compression *c, int index, const double *gram_diagonal,
                         grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(c, index);
    const plan_site *planned = &c->plan.sites[index];
    const float *weight = NULL;
    float *owned = NULL;
    double *scores = NULL;
    TRY(consumer_weight(c, index, &weight, &owned));
    TRY(memory_new(&scores, (size_t)s->units, sizeof scores[0]));
    const selector_input input = {
        .units = s->units,
        .features_per_unit = s->consumers[0].features_per_unit,
        .outputs = c->sites->facts[index].outputs,
        .consumer = weight,
        .gram_diagonal = gram_diagonal,
        .seed = c->plan.seed,
        .stream = (uint64_t)index,
    };
    TRY(selector_scores(planned->selector, &input, scores));
    TRY(select_best(s->units, planned->kept, s->groups, scores, out));
out:
    memory_free(owned);
    memory_free(scores);
    return status;
}

/* A parameter's rows along the site's axis: weight [n u, columns] or bias [n u, 1]. */
typedef struct axis_rows {
    float *values; /* owned */
    int64_t columns;
} axis_rows;

static grail_status read_rows(grail_compression *c, const site *s, const site_end *end,
                              int parameter, axis_rows *out)
{
    int64_t elements = 0;
    const grail_status status =
        parameter_store_read_f32(c->current, parameter, &out->values, &elements);
    out->columns = elements / (s->units * end->features_per_unit);
    return status;
}

/* Adds the inner products of one parameter's unit rows, with query heads in `order`. */
static grail_status add_producer(grail_compression *c, const site *s, const site_end *end,
                                 int parameter, const int64_t *order, double *products)
{
    grail_status status = GRAIL_OK;
    axis_rows rows = {0};
    float *ordered = NULL;
    const int64_t u = end->features_per_unit;
    TRY(read_rows(c, s, end, parameter, &rows));
    if (end->exchangeable && order != NULL) {
        TRY(memory_new_unset(&ordered, (size_t)(s->units * u * rows.columns), sizeof ordered[0]));
        subunits_apply_rows(s->units, s->subunits, order, u, rows.columns, rows.values, ordered);
    }
    TRY(fold_add_rows(c->backend, s->units, u, rows.columns,
                      ordered == NULL ? rows.values : ordered, products));
out:
    memory_free(rows.values);
    memory_free(ordered);
    return status;
}

static grail_status add_consumer(grail_compression *c, int index, const int64_t *order,
                                 double *products)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(c, index);
    const site_end *end = &s->consumers[0];
    const int64_t u = end->features_per_unit;
    const int64_t outputs = c->sites->facts[index].outputs;
    const float *weight = NULL;
    float *owned = NULL;
    float *ordered = NULL;
    TRY(consumer_weight(c, index, &weight, &owned));
    if (end->exchangeable && order != NULL) {
        TRY(memory_new_unset(&ordered, (size_t)(outputs * s->units * u), sizeof ordered[0]));
        subunits_apply_columns(s->units, s->subunits, order, u, outputs, weight, ordered);
    }
    TRY(fold_add_columns(c->backend, s->units, u, outputs, ordered == NULL ? weight : ordered,
                         products));
out:
    memory_free(owned);
    memory_free(ordered);
    return status;
}

static grail_status fold_products(grail_compression *c, int index, const int64_t *order,
                                  double **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(c, index);
    double *products = NULL;
    TRY(memory_new(&products, (size_t)(s->units * s->units), sizeof products[0]));
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = end_node(c, &s->producers[p]);
        TRY(add_producer(c, s, &s->producers[p], n->weight, order, products));
        if (n->bias != GRAPH_NONE) {
            TRY(add_producer(c, s, &s->producers[p], n->bias, order, products));
        }
    }
    TRY(add_consumer(c, index, order, products));
    *out = products;
    products = NULL;
out:
    memory_free(products);
    return status;
}

static const site_end *exchangeable_producer(const site *s)
{
    for (int p = 0; p < s->producer_count; p++) {
        if (s->producers[p].exchangeable) {
            return &s->producers[p];
        }
    }
    return NULL;
}

/* Order of the query heads inside every group: by norm first, then, with labels, to the centroid.
 */
static grail_status align_heads(grail_compression *c, const site *s, int64_t clusters,
                                const int64_t *labels, int64_t *order)
{
    grail_status status = GRAIL_OK;
    axis_rows rows = {0};
    const site_end *end = exchangeable_producer(s);
    TRY(read_rows(c, s, end, end_node(c, end)->weight, &rows));
    if (labels == NULL) {
        subunits_by_norm(s->units, s->subunits, end->features_per_unit, rows.columns, rows.values,
                         order);
    } else {
        TRY(subunits_to_centroid(s->units, s->subunits, clusters, labels, end->features_per_unit,
                                 rows.columns, rows.values, order));
    }
out:
    memory_free(rows.values);
    return status;
}

static grail_status cluster_units(grail_compression *c, int index, int64_t kept, int64_t *order,
                                  int64_t *labels)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(c, index);
    double *products = NULL;
    double inertia = 0.0;
    const kmeans_options options = {.restarts = 4,
                                    .sweeps = 20,
                                    .stop_changes = 0.02,
                                    .seed = c->plan.seed,
                                    .stream = (uint64_t)index};
    if (order != NULL) {
        TRY(align_heads(c, s, 0, NULL, order));
    }
    TRY(fold_products(c, index, order, &products));
    TRY(kmeans_hartigan(s->units, kept, products, &options, labels, &inertia, NULL));
    if (order != NULL) {
        TRY(align_heads(c, s, kept, labels, order));
    }
out:
    memory_free(products);
    return status;
}

grail_status site_fold(grail_compression *c, int index, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(c, index);
    const plan_site *planned = &c->plan.sites[index];
    grail_reducer *reducer = NULL;
    int64_t *labels = NULL;
    int64_t *order = NULL;
    if (planned->selector == SELECTOR_RANDOM_FOLD) {
        TRY(fold_randomly(s->units, planned->kept, c->plan.seed, (uint64_t)index, &reducer));
    } else {
        TRY(memory_new(&labels, (size_t)s->units, sizeof labels[0]));
        if (s->subunits > 1) {
            TRY(memory_new(&order, (size_t)(s->units * s->subunits), sizeof order[0]));
        }
        TRY(cluster_units(c, index, planned->kept, order, labels));
        TRY(grail_reducer_from_labels(s->units, planned->kept, labels, &reducer));
        if (order != NULL) {
            TRY(reducer_set_order(reducer, s->subunits, order));
        }
    }
    *out = reducer;
    reducer = NULL;
out:
    grail_reducer_free(reducer);
    memory_free(labels);
    memory_free(order);
    return status;
}

static grail_status narrow_parameter(grail_compression *c, const site *s, const site_end *end,
                                     int parameter, const grail_reducer *reducer,
                                     parameter_store *store)
{
    grail_status status = GRAIL_OK;
    axis_rows rows = {0};
    float *narrow = NULL;
    const int64_t narrow_rows = reducer->kept * end->features_per_unit;
    const parameter_entry *entry = NULL;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    TRY(read_rows(c, s, end, parameter, &rows));
    TRY(parameter_store_get(c->current, parameter, &entry));
    memcpy(shape, entry->shape, sizeof shape);
    shape[0] = narrow_rows;
    TRY(memory_new_unset(&narrow, (size_t)(narrow_rows * rows.columns), sizeof narrow[0]));
    reducer_narrow_rows(reducer, end->exchangeable, end->features_per_unit, rows.columns,
                        rows.values, narrow);
    TRY(parameter_store_set(store, parameter, shape, narrow));
out:
    memory_free(rows.values);
    memory_free(narrow);
    return status;
}

grail_status site_narrow_producers(grail_compression *c, int index, const grail_reducer *reducer,
                                   parameter_store *store)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(c, index);
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = end_node(c, &s->producers[p]);
        TRY(narrow_parameter(c, s, &s->producers[p], n->weight, reducer, store));
        if (n->bias != GRAPH_NONE) {
            TRY(narrow_parameter(c, s, &s->producers[p], n->bias, reducer, store));
        }
    }
out:
    return status;
}

grail_status site_plain_consumer(grail_compression *c, int index, const grail_reducer *reducer,
                                 float **out)
{
    grail_status status = GRAIL_OK;
    const site_end *end = &site_at(c, index)->consumers[0];
    const int64_t outputs = c->sites->facts[index].outputs;
    const float *weight = NULL;
    float *owned = NULL;
    float *narrow = NULL;
    TRY(consumer_weight(c, index, &weight, &owned));
    TRY(memory_new_unset(&narrow, (size_t)(outputs * reducer->kept * end->features_per_unit),
                         sizeof narrow[0]));
    reducer_merge_columns(reducer, end->exchangeable, end->features_per_unit, outputs, weight,
                          narrow);
    *out = narrow;
    narrow = NULL;
out:
    memory_free(owned);
    memory_free(narrow);
    return status;
}

static grail_status change_bias(grail_compression *c, int parameter, const double *change)
{
    grail_status status = GRAIL_OK;
    float *bias = NULL;
    int64_t count = 0;
    TRY(parameter_store_read_f32(c->current, parameter, &bias, &count));
    for (int64_t o = 0; o < count; o++) {
        bias[o] = (float)((double)bias[o] + change[o]);
    }
    TRY(parameter_store_set(c->current, parameter, &count, bias));
out:
    memory_free(bias);
    return status;
}

grail_status site_set_consumer(grail_compression *c, int index, const float *weight,
                               const double *bias_change)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(c, index);
    const site_end *end = &s->consumers[0];
    const node *n = end_node(c, end);
    const parameter_entry *entry = NULL;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    TRY(parameter_store_get(c->current, n->weight, &entry));
    memcpy(shape, entry->shape, sizeof shape);
    shape[1] = c->plan.sites[index].kept * end->features_per_unit;
    TRY(parameter_store_set(c->current, n->weight, shape, weight));
    if (bias_change != NULL) {
        TRY(change_bias(c, n->bias, bias_change));
    }
out:
    return status;
}
