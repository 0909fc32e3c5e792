#include "pipeline/network/fold_site.h"

#include "reduce/align_subunits.h"
#include "reduce/fold.h"

static const node *end_node(const parameter_store *dense, const site_end *end)
{
    return &dense->model->graph->nodes[end->node];
}

/* A parameter's rows along the site's axis: weight [n u, columns] or bias [n u, 1]. */
typedef struct axis_rows {
    float *values; /* owned */
    int64_t columns;
} axis_rows;

static grail_status read_rows(parameter_store *dense, const site *s, const site_end *end,
                              int parameter, axis_rows *out)
{
    int64_t elements = 0;
    const grail_status status = parameter_store_read_f32(dense, parameter, &out->values, &elements);
    out->columns = elements / (s->units * end->features_per_unit);
    return status;
}

/* Adds the inner products of one parameter's rows, unit by unit, with the query heads in `order`.
 */
static grail_status add_producer(parameter_store *dense, const site *s, const site_end *end,
                                 int parameter, const int64_t *order, double *products)
{
    grail_status status = GRAIL_OK;
    axis_rows rows = {0};
    float *ordered = NULL;
    const int64_t u = end->features_per_unit;
    TRY(read_rows(dense, s, end, parameter, &rows));
    if (end->exchangeable && order != NULL) {
        TRY(memory_new_unset(&ordered, (size_t)(s->units * u * rows.columns), sizeof ordered[0]));
        subunits_apply_rows(s->units, s->subunits, order, u, rows.columns, rows.values, ordered);
    }
    TRY(fold_add_rows(dense->backend, s->units, u, rows.columns,
                      ordered == NULL ? rows.values : ordered, products));
out:
    memory_free(rows.values);
    memory_free(ordered);
    return status;
}

static grail_status add_consumer(const compression_request *request, parameter_store *dense,
                                 const site *s, const site_end *end, const int64_t *order,
                                 double *products)
{
    grail_status status = GRAIL_OK;
    const int index = end_node(dense, end)->weight;
    const int64_t u = request->cuts[index].columns.features;
    const int64_t outputs = request->graph->parameters[index].shape[0];
    const float *weight = NULL;
    float *owned = NULL;
    float *ordered = NULL;
    TRY(parameter_store_borrow_f32(dense, index, &weight, &owned));
    if (end->exchangeable && order != NULL) {
        TRY(memory_new_unset(&ordered, (size_t)(outputs * s->units * u), sizeof ordered[0]));
        subunits_apply_columns(s->units, s->subunits, order, u, outputs, weight, ordered);
    }
    TRY(fold_add_columns(dense->backend, s->units, u, outputs, ordered == NULL ? weight : ordered,
                         products));
out:
    memory_free(owned);
    memory_free(ordered);
    return status;
}

/* Adds gamma and beta of the BatchNorms. Running means and variances do not count
 * (docs/numerics.md, Folding). */
static grail_status add_channels(parameter_store *dense, const site *s, double *products)
{
    grail_status status = GRAIL_OK;
    const site_end channel = {.features_per_unit = 1};
    for (int k = 0; k < s->channel_count; k++) {
        const node *n = &dense->model->graph->nodes[s->channels[k]];
        TRY(add_producer(dense, s, &channel, n->weight, NULL, products));
        TRY(add_producer(dense, s, &channel, n->bias, NULL, products));
    }
out:
    return status;
}

static grail_status fold_products(const compression_request *request, parameter_store *dense,
                                  int index, const int64_t *order, double **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(request, index);
    double *products = NULL;
    TRY(memory_new(&products, (size_t)(s->units * s->units), sizeof products[0]));
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = end_node(dense, &s->producers[p]);
        TRY(add_producer(dense, s, &s->producers[p], n->weight, order, products));
        if (n->bias != GRAPH_NONE) {
            TRY(add_producer(dense, s, &s->producers[p], n->bias, order, products));
        }
    }
    TRY(add_channels(dense, s, products));
    for (int k = 0; k < s->consumer_count; k++) {
        TRY(add_consumer(request, dense, s, &s->consumers[k], order, products));
    }
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

/* The order of the query heads in every group: by norm without labels, else by the assignment to
 * the heads of the cluster's mean. */
static grail_status align_heads(parameter_store *dense, const site *s, int64_t clusters,
                                const int64_t *labels, int64_t *order)
{
    grail_status status = GRAIL_OK;
    axis_rows rows = {0};
    const site_end *end = exchangeable_producer(s);
    TRY(read_rows(dense, s, end, end_node(dense, end)->weight, &rows));
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

static grail_status cluster_units(const compression_request *request, parameter_store *dense,
                                  int index, int64_t kept, int64_t *order, int64_t *labels)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(request, index);
    double *products = NULL;
    double inertia = 0.0;
    const kmeans_options options = {.restarts = 4,
                                    .sweeps = 20,
                                    .stop_changes = 0.02,
                                    .seed = request->plan.seed,
                                    .stream = (uint64_t)index};
    if (order != NULL) {
        TRY(align_heads(dense, s, 0, NULL, order));
    }
    TRY(fold_products(request, dense, index, order, &products));
    TRY(kmeans_hartigan(s->units, kept, products, &options, labels, &inertia, NULL));
    if (order != NULL) {
        TRY(align_heads(dense, s, kept, labels, order));
    }
out:
    memory_free(products);
    return status;
}

grail_status site_fold(const compression_request *request, parameter_store *dense, int index,
                       grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(request, index);
    const plan_site *planned = &request->plan.sites[index];
    grail_reducer *reducer = NULL;
    int64_t *labels = NULL;
    int64_t *order = NULL;
    if (planned->selector == SELECTOR_RANDOM_FOLD) {
        TRY(fold_randomly(s->units, planned->kept, request->plan.seed, (uint64_t)index, &reducer));
    } else {
        TRY(memory_new(&labels, (size_t)s->units, sizeof labels[0]));
        if (s->subunits > 1) {
            TRY(memory_new(&order, (size_t)(s->units * s->subunits), sizeof order[0]));
        }
        TRY(cluster_units(request, dense, index, planned->kept, order, labels));
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
