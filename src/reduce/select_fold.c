/* fold: units are clustered by the dense weights at all ends of the site: the rows that make them,
 * the channel parameters on them, and the columns that read them (docs/numerics.md, Folding). */
#include "reduce/fold.h"
#include "reduce/selector.h"

/* Adds the inner products of rows, unit by unit, with the sub-blocks in `order`. */
static grail_status add_rows(const site_view *v, const unit_matrix *m, const int64_t *order,
                             matrix products)
{
    grail_status status = GRAIL_OK;
    const site *s = v->site;
    const float *rows = m->values;
    float *ordered = NULL;
    if (rows == NULL) {
        return GRAIL_OK;
    }
    if (m->exchangeable && order != NULL) {
        TRY(memory_new_unset(&ordered, (size_t)(s->units * m->features * m->others),
                             sizeof ordered[0]));
        subunits_apply_rows(s->units, s->subunits, order, m->features, m->others, rows, ordered);
        rows = ordered;
    }
    TRY(fold_add_rows(m->features, m->others, rows, products));
out:
    memory_free(ordered);
    return status;
}

/* A producer, or parameters per channel, of which running means and variances do not count. */
static grail_status add_end(const site_view *v, const site_end *end, const int64_t *order,
                            matrix products)
{
    grail_status status = GRAIL_OK;
    unit_matrix weight = {0};
    unit_matrix bias = {0};
    TRY(site_view_end(v, end, &weight, &bias));
    TRY(add_rows(v, &weight, order, products));
    TRY(add_rows(v, &bias, order, products));
out:
    unit_matrix_fini(&weight);
    unit_matrix_fini(&bias);
    return status;
}

static grail_status add_consumer(const site_view *v, int k, const int64_t *order, matrix products)
{
    grail_status status = GRAIL_OK;
    const site *s = v->site;
    unit_matrix m = {0};
    float *ordered = NULL;
    TRY(site_view_consumer(v, k, &m));
    if (m.exchangeable && order != NULL) {
        TRY(memory_new_unset(&ordered, (size_t)(m.others * s->units * m.features),
                             sizeof ordered[0]));
        subunits_apply_columns(s->units, s->subunits, order, m.features, m.others, m.values,
                               ordered);
    }
    TRY(fold_add_columns(m.features, m.others, ordered == NULL ? m.values : ordered, products));
out:
    memory_free(ordered);
    unit_matrix_fini(&m);
    return status;
}

/* The lower triangle of products[n, n] gets what is summed over all ends. */
static grail_status add_all(const site_view *v, const int64_t *order, matrix products)
{
    const site *s = v->site;
    if (s->producer_count + s->channel_count + s->consumer_count == 0) {
        return error_about(error_set(GRAIL_ERROR_ARGUMENT,
                                     "units are merged by the weights at the ends of their site, "
                                     "but it has none"),
                           "producers consumers");
    }
    for (int p = 0; p < s->producer_count; p++) {
        CHECK(add_end(v, &s->producers[p], order, products));
    }
    for (int c = 0; c < s->channel_count; c++) {
        CHECK(add_end(v, &s->channels[c], NULL, products));
    }
    for (int k = 0; k < s->consumer_count; k++) {
        CHECK(add_consumer(v, k, order, products));
    }
    return GRAIL_OK;
}

/* The order of the query heads in every group: by norm without labels, else by the assignment to
 * the heads of the cluster's mean. */
static grail_status align_heads(const site_view *v, const int64_t *labels, int64_t *order)
{
    grail_status status = GRAIL_OK;
    const site *s = v->site;
    unit_matrix m = {0};
    int p = 0;
    while (p < s->producer_count && !s->producers[p].exchangeable) {
        p++;
    }
    TRY(site_view_producer(v, p, &m));
    if (labels == NULL) {
        subunits_by_norm(s->units, s->subunits, m.features, m.others, m.values, order);
    } else {
        TRY(subunits_to_centroid(s->units, s->subunits, v->kept, labels, m.features, m.others,
                                 m.values, order));
    }
out:
    unit_matrix_fini(&m);
    return status;
}

static grail_status decide(const site_view *v, grail_reducer **out)
{
    grail_status status = GRAIL_OK;
    const site *s = v->site;
    grail_reducer *reducer = NULL;
    matrix products = no_matrix;
    int64_t *labels = NULL;
    int64_t *order = NULL;
    double inertia = 0.0;
    const kmeans_options options = {
        .restarts = 4, .sweeps = 20, .stop_changes = 0.02, .seed = v->seed, .stream = v->stream};
    TRY(memory_new(&labels, (size_t)s->units, sizeof labels[0]));
    if (s->subunits > 1) {
        TRY(memory_new(&order, (size_t)(s->units * s->subunits), sizeof order[0]));
        TRY(align_heads(v, NULL, order));
    }
    TRY(matrix_new_zero(v->backend, GRAIL_DTYPE_F64, s->units, s->units, &products));
    TRY(add_all(v, order, products));
    TRY(kmeans_hartigan(v->kept, products, &options, labels, &inertia, NULL));
    if (order != NULL) {
        TRY(align_heads(v, labels, order));
    }
    matrix_free(&products);
    TRY(grail_reducer_from_labels(s->units, v->kept, labels, &reducer));
    if (order != NULL) {
        TRY(reducer_set_order(reducer, s->subunits, order));
    }
    *out = reducer;
    reducer = NULL;
out:
    grail_reducer_free(reducer);
    matrix_free(&products);
    memory_free(labels);
    memory_free(order);
    return status;
}

const selector selector_fold = {
    .name = "fold",
    .summary = "merges units with similar weights (k-means)",
    .folds = true,
    .draws = true, /* seeds the clustering */
    .decide = decide,
};
