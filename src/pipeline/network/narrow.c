#include "pipeline/network/narrow.h"

#include "pipeline/network/narrow_site.h"

bool parameter_is_changed(const calibration_network *network, int parameter)
{
    const parameter_cut *cut = &network->request->cuts[parameter];
    return matrix_exists(network->current.parameters->entries[parameter].values) ||
           cut->rows.site != GRAPH_NONE || cut->columns.site != GRAPH_NONE;
}

/* The features that an axis keeps: all `size` of them if it is not cut, or narrow already. *out is
 * owned. */
static grail_status axis_features(const calibration_network *network, const cut_axis *axis,
                                  int64_t size, int64_t *count, int64_t **out)
{
    const plan *p = &network->request->plan;
    const bool cut = axis->site != GRAPH_NONE && size != p->sites[axis->site].kept * axis->features;
    *count = cut ? network->request->plan.sites[axis->site].kept * axis->features : size;
    const grail_status status = memory_new(out, (size_t)*count, sizeof **out);
    if (status != GRAIL_OK) {
        return status;
    }
    for (int64_t i = 0; !cut && i < size; i++) {
        (*out)[i] = i;
    }
    if (cut) {
        axis_reduced_features(network, axis, *out);
    }
    return GRAIL_OK;
}

grail_status narrow_parameter(const calibration_network *network, int parameter, float **out)
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
    const parameter_cut *cut = &network->request->cuts[parameter];
    TRY(parameter_store_get(network->current.parameters, parameter, &entry));
    TRY(parameter_store_read_f32(network->current.parameters, parameter, &wide, &elements));
    const int64_t width = elements / entry->shape[0];
    TRY(axis_features(network, &cut->rows, entry->shape[0], &row_count, &rows));
    TRY(axis_features(network, &cut->columns, width, &column_count, &columns));
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

grail_status narrow_store(const calibration_network *network, parameter_store **out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    parameter_store *store = NULL;
    float *values = NULL;
    TRY(parameter_store_create(request->model, request->backend, network->dense.parameters,
                               &store));
    for (int p = 0; p < request->graph->parameter_count; p++) {
        if (parameter_is_changed(network, p)) {
            TRY(narrow_parameter(network, p, &values));
            TRY(parameter_store_set(store, p, request->narrowed.graph->parameters[p].shape,
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
