/* From the calibration network's parameters to the narrow ones: which axes are cut, and cutting. */
#include "pipeline/compression.h"
#include "pipeline/request/consumer_tail.h"

#include <string.h>

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
    for (int p = 0; p < c->request->graph->parameter_count; p++) {
        if (parameter_is_changed(c, p)) {
            TRY(narrow_parameter(c, p, &values));
            TRY(parameter_store_set(store, p, c->request->narrowed.graph->parameters[p].shape,
                                    values));
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
    const graph_parameter *p = &c->request->narrowed.graph->parameters[parameter];
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
    const graph *g = c->request->graph;
    const node *n = &g->nodes[site_at(c->request, index)->consumers[consumer].node];
    const bias_slot slot = consumer_bias_slot(g, (int)(n - g->nodes));
    TRY(read_recorded(c, n->weight, recorded, &values));
    TRY(consumer_restore(c, index, consumer, values));
    if (slot.parameter != GRAPH_NONE) {
        memory_free(values);
        values = NULL;
        TRY(read_recorded(c, slot.parameter, recorded, &values));
        TRY(parameter_store_set(c->network->current.parameters, slot.parameter,
                                c->request->narrowed.graph->parameters[slot.parameter].shape,
                                values));
    }
out:
    memory_free(values);
    return status;
}
