#include "pipeline/network/narrow_site.h"

#include "pipeline/network/carry.h"

#include <string.h>

void axis_reduced_features(const calibration_network *network, const cut_axis *axis, int64_t *out)
{
    const grail_reducer *reducer = network->results[axis->site].reducer;
    if (!reducer->folds) {
        reducer_kept_features(reducer, axis->features, out);
        return;
    }
    for (int64_t k = 0; k < reducer->kept * axis->features; k++) {
        out[k] = reducer->units * axis->features + k;
    }
}

/* *out is [*count], owned. */
static grail_status reduced_features(const calibration_network *network, const cut_axis *axis,
                                     int64_t *count, int64_t **out)
{
    *count = network->results[axis->site].reducer->kept * axis->features;
    const grail_status status = memory_new(out, (size_t)*count, sizeof **out);
    if (status == GRAIL_OK) {
        axis_reduced_features(network, axis, *out);
    }
    return status;
}

/* narrow[rows, columns] = wide[kept rows, kept columns]; a NULL list keeps all. */
static void take(int64_t rows, const int64_t *kept_rows, int64_t columns,
                 const int64_t *kept_columns, int64_t wide_columns, const float *wide,
                 float *narrow)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *from = wide + (kept_rows == NULL ? r : kept_rows[r]) * wide_columns;
        for (int64_t c = 0; c < columns; c++) {
            narrow[r * columns + c] = from[kept_columns == NULL ? c : kept_columns[c]];
        }
    }
}

/* Narrows the rows, or else the columns, of one parameter of the current network. */
static grail_status narrow_axis(calibration_network *network, int parameter, bool by_rows)
{
    grail_status status = GRAIL_OK;
    const parameter_cut *cut = &network->request->cuts[parameter];
    parameter_store *store = network->current.parameters;
    const parameter_entry *entry = NULL;
    float *wide = NULL;
    float *narrow = NULL;
    int64_t *kept = NULL;
    int64_t kept_count = 0;
    int64_t elements = 0;
    int64_t shape[PARAMETER_MAX_RANK];
    TRY(parameter_store_get(store, parameter, &entry));
    memcpy(shape, entry->shape, sizeof shape);
    TRY(parameter_store_read_f32(store, parameter, &wide, &elements));
    TRY(reduced_features(network, by_rows ? &cut->rows : &cut->columns, &kept_count, &kept));
    const int64_t width = elements / shape[0];
    if (kept_count == (by_rows ? shape[0] : width)) {
        goto out; /* it is narrow already */
    }
    const int64_t rows = by_rows ? kept_count : shape[0];
    const int64_t columns = by_rows ? width : kept_count;
    TRY(memory_new_unset(&narrow, (size_t)(rows * columns), sizeof narrow[0]));
    take(rows, by_rows ? kept : NULL, columns, by_rows ? NULL : kept, width, wide, narrow);
    shape[by_rows ? 0 : 1] = by_rows ? rows : columns * shape[1] / width;
    TRY(parameter_store_set(store, parameter, shape, narrow));
out:
    memory_free(wide);
    memory_free(narrow);
    memory_free(kept);
    return status;
}

static bool is_used_by(const node *n, int parameter)
{
    int used[NODE_MAX_PARAMETERS];
    const int count = node_parameters(n, used);
    bool found = false;
    for (int i = 0; i < count; i++) {
        found = found || used[i] == parameter;
    }
    return found;
}

/* Whether the parameter runs again, or lies in memory already. The narrow form of any other one
 * would only take memory until it is written. */
static bool is_wanted(const calibration_network *network, int parameter)
{
    const graph *g = network->request->graph;
    bool wanted = matrix_exists(network->current.parameters->entries[parameter].values);
    for (int n = network->current.stream.position; n < g->node_count && !wanted; n++) {
        wanted = is_used_by(&g->nodes[n], parameter);
    }
    return wanted;
}

static grail_status narrow_parameters(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    for (int p = 0; p < network->request->graph->parameter_count; p++) {
        const parameter_cut *cut = &network->request->cuts[p];
        const bool is_cut = cut->rows.site == index || cut->columns.site == index;
        if (!is_cut || !is_wanted(network, p)) {
            continue;
        }
        if (cut->rows.site == index) {
            TRY(narrow_axis(network, p, true));
        }
        if (cut->columns.site == index) {
            TRY(narrow_axis(network, p, false));
        }
    }
out:
    return status;
}

/* The input of the last consumer, where the sample stream holds it. A sample stream that waits
 * inside the site is carried there first, so that it holds nothing else of the site. */
static grail_status narrow_held_input(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const site *s = site_at(network->request, index);
    const site_end *last = &s->consumers[s->consumer_count - 1];
    const int position = network->current.stream.position;
    const cut_axis axis = {.site = index, .features = last->features_per_unit};
    int64_t *kept = NULL;
    int64_t count = 0;
    if (position > s->producers[0].node && position < last->node) {
        TRY(streams_carry(network, last->node, GRAPH_NONE, NULL, NULL));
    }
    TRY(reduced_features(network, &axis, &count, &kept));
    TRY(sample_stream_gather(&network->current.stream,
                             network->request->graph->nodes[last->node].inputs[0], count, kept));
out:
    memory_free(kept);
    return status;
}

grail_status site_take_narrow_shape(calibration_network *network, int index)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    if (request->plan.loop == LOOP_OPEN ||
        site_spans_blocks(request->graph, site_at(request, index))) {
        return GRAIL_OK;
    }
    TRY(narrow_held_input(network, index));
    TRY(narrow_parameters(network, index));
out:
    return status;
}

grail_status sites_take_narrow_shapes(calibration_network *network)
{
    grail_status status = GRAIL_OK;
    for (int i = 0; i < network->request->plan.count; i++) {
        if (site_is_cut(&network->request->plan, i)) {
            TRY(narrow_parameters(network, i));
        }
    }
out:
    return status;
}
