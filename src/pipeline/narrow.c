/* From the calibration network's parameters to the narrow ones: which axes are cut, and cutting. */
#include "pipeline/compression.h"

#include <string.h>

static int64_t weight_taps(const graph_parameter *weight)
{
    return weight->rank == 4 ? weight->shape[2] * weight->shape[3] : 1;
}

static void map_rows(grail_compression *c, int parameter, int index, const site_end *end)
{
    if (parameter != GRAPH_NONE) {
        c->request->cuts[parameter].rows = (cut_axis){
            .site = index, .features = end->features_per_unit, .exchangeable = end->exchangeable};
    }
}

static void map_site(grail_compression *c, int index)
{
    const graph *g = c->request->model->graph;
    const site *s = site_at(c, index);
    for (int p = 0; p < s->producer_count; p++) {
        const node *n = &g->nodes[s->producers[p].node];
        map_rows(c, n->weight, index, &s->producers[p]);
        map_rows(c, n->bias, index, &s->producers[p]);
    }
    for (int k = 0; k < s->channel_count; k++) {
        int parameters[NODE_MAX_PARAMETERS];
        const int count = node_parameters(&g->nodes[s->channels[k]], parameters);
        const site_end channel = {.features_per_unit = 1};
        for (int i = 0; i < count; i++) {
            map_rows(c, parameters[i], index, &channel);
        }
    }
    for (int k = 0; k < s->consumer_count; k++) {
        const int weight = g->nodes[s->consumers[k].node].weight;
        const int64_t taps = weight_taps(&g->parameters[weight]);
        c->request->cuts[weight].columns =
            (cut_axis){.site = index,
                       .features = s->consumers[k].features_per_unit * taps,
                       .exchangeable = s->consumers[k].exchangeable};
    }
}

grail_status map_cuts(grail_compression *c)
{
    const cut_axis none = {.site = GRAPH_NONE};
    const int count = c->request->model->graph->parameter_count;
    const grail_status status =
        memory_new(&c->request->cuts, (size_t)count, sizeof c->request->cuts[0]);
    for (int p = 0; status == GRAIL_OK && p < count; p++) {
        c->request->cuts[p] = (parameter_cut){.rows = none, .columns = none};
    }
    for (int i = 0; status == GRAIL_OK && i < c->request->sites->list.count; i++) {
        if (site_is_cut(c, i)) {
            map_site(c, i);
        }
    }
    return status;
}

static bool axis_folds(const grail_compression *c, const cut_axis *axis)
{
    return selector_folds(c->request->plan.sites[axis->site].selector);
}

int64_t cut_wide_features(const grail_compression *c, const cut_axis *axis)
{
    const plan_site *planned = &c->request->plan.sites[axis->site];
    const int64_t units = planned->units + (axis_folds(c, axis) ? planned->kept : 0);
    return units * axis->features;
}

bool parameter_is_changed(const grail_compression *c, int parameter)
{
    const parameter_cut *cut = &c->request->cuts[parameter];
    return c->network->current.parameters->entries[parameter].data != NULL ||
           cut->rows.site != GRAPH_NONE || cut->columns.site != GRAPH_NONE;
}

/* Which features of a wide axis the result has: those of the kept units, or the merged ones behind
 * the others. out[K u]. */
static void reduced_features(const grail_compression *c, const cut_axis *axis, int64_t *out)
{
    const grail_reducer *reducer = c->network->results[axis->site].reducer;
    if (!reducer->folds) {
        reducer_kept_features(reducer, axis->features, out);
        return;
    }
    for (int64_t k = 0; k < reducer->kept * axis->features; k++) {
        out[k] = reducer->units * axis->features + k;
    }
}

/* Features that an axis keeps, or all `size` of an axis that is not cut. *out is owned. */
static grail_status axis_features(const grail_compression *c, const cut_axis *axis, int64_t size,
                                  int64_t *count, int64_t **out)
{
    const bool cut = axis->site != GRAPH_NONE;
    *count = cut ? c->request->plan.sites[axis->site].kept * axis->features : size;
    const grail_status status = memory_new(out, (size_t)*count, sizeof **out);
    if (status != GRAIL_OK) {
        return status;
    }
    for (int64_t i = 0; !cut && i < size; i++) {
        (*out)[i] = i;
    }
    if (cut) {
        reduced_features(c, axis, *out);
    }
    return GRAIL_OK;
}

grail_status narrow_parameter(grail_compression *c, int parameter, float **out)
{
    grail_status status = GRAIL_OK;
    float *wide = NULL;
    float *narrow = NULL;
    int64_t *rows = NULL;
    int64_t *columns = NULL;
    int64_t row_count = 0;
    int64_t column_count = 0;
    int64_t elements = 0;
    const parameter_entry *entry = NULL;
    const parameter_cut *cut = &c->request->cuts[parameter];
    TRY(parameter_store_get(c->network->current.parameters, parameter, &entry));
    TRY(parameter_store_read_f32(c->network->current.parameters, parameter, &wide, &elements));
    const int64_t width = elements / entry->shape[0];
    TRY(axis_features(c, &cut->rows, entry->shape[0], &row_count, &rows));
    TRY(axis_features(c, &cut->columns, width, &column_count, &columns));
    TRY(memory_new_unset(&narrow, (size_t)(row_count * column_count), sizeof narrow[0]));
    for (int64_t r = 0; r < row_count; r++) {
        const float *from = wide + rows[r] * width;
        for (int64_t k = 0; k < column_count; k++) {
            narrow[r * column_count + k] = from[columns[k]];
        }
    }
    *out = narrow;
    narrow = NULL;
out:
    memory_free(wide);
    memory_free(narrow);
    memory_free(rows);
    memory_free(columns);
    return status;
}

grail_status narrow_store(grail_compression *c, parameter_store **out)
{
    grail_status status = GRAIL_OK;
    parameter_store *store = NULL;
    float *values = NULL;
    TRY(parameter_store_create(c->request->model, c->request->backend, c->network->dense.parameters,
                               &store));
    for (int p = 0; p < c->request->model->graph->parameter_count; p++) {
        if (parameter_is_changed(c, p)) {
            TRY(narrow_parameter(c, p, &values));
            TRY(parameter_store_set(store, p, c->request->narrowed->parameters[p].shape, values));
            memory_free(values);
            values = NULL;
        }
    }
    *out = store;
    store = NULL;
out:
    memory_free(values);
    parameter_store_free(store);
    return status;
}

/* A recorded tensor as f32 values of the shape it was planned to have. *out is owned. */
static grail_status read_recorded(const grail_compression *c, int parameter,
                                  const checkpoint *recorded, float **out)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    int64_t count = 0;
    int64_t stored = 0;
    const graph_parameter *p = &c->request->narrowed->parameters[parameter];
    const tensor_view *tensor = checkpoint_find(recorded, p->tensor);
    const bool whole = !p->part && !p->transposed;
    if (!whole || tensor == NULL || !shape_elements(p->rank, p->shape, &count) ||
        !shape_elements(tensor->rank, tensor->shape, &stored) || stored != count) {
        FAIL(GRAIL_ERROR_FORMAT,
             "%s: tensor '%s' cannot be continued; delete the directory and "
             "start anew",
             c->output->partial, p->tensor);
    }
    TRY(memory_new_unset(&values, (size_t)count, sizeof values[0]));
    TRY(convert_to_f32(tensor->dtype, tensor->data, count, values));
    *out = values;
    values = NULL;
out:
    memory_free(values);
    return status;
}

grail_status widen_consumer(grail_compression *c, int index, int consumer,
                            const checkpoint *recorded)
{
    grail_status status = GRAIL_OK;
    float *values = NULL;
    const graph *g = c->request->model->graph;
    const node *n = &g->nodes[site_at(c, index)->consumers[consumer].node];
    const bias_slot slot = consumer_bias_slot(g, n);
    TRY(read_recorded(c, n->weight, recorded, &values));
    TRY(consumer_restore(c, index, consumer, values));
    if (slot.parameter != GRAPH_NONE) {
        memory_free(values);
        values = NULL;
        TRY(read_recorded(c, slot.parameter, recorded, &values));
        TRY(parameter_store_set(c->network->current.parameters, slot.parameter,
                                c->request->narrowed->parameters[slot.parameter].shape, values));
    }
out:
    memory_free(values);
    return status;
}
