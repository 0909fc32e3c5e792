#include "pipeline/network/narrow.h"

#include "pipeline/network/pass.h"

#include <string.h>

/* -- merged units ---------------------------------------------------------------------------------
 */

/* Sets one parameter of the current network to [rows | merged rows]. */
static grail_status append_merged(calibration_network *network, const site *s, const site_end *end,
                                  int parameter, const grail_reducer *reducer)
{
    grail_status status = GRAIL_OK;
    float *rows = NULL;
    float *wide = NULL;
    int64_t dense = 0;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    const int64_t u = end->features_per_unit;
    TRY(parameter_store_read_f32(network->dense.parameters, parameter, &rows, &dense));
    const int64_t columns = dense / (s->units * u);
    const int64_t merged = reducer->kept * u * columns;
    TRY(memory_new_unset(&wide, (size_t)(dense + merged), sizeof wide[0]));
    memcpy(wide, rows, (size_t)dense * sizeof wide[0]);
    reducer_narrow_rows(reducer, end->exchangeable, u, columns, rows, wide + dense);
    memcpy(shape, network->request->graph->parameters[parameter].shape, sizeof shape);
    shape[0] = (s->units + reducer->kept) * u;
    TRY(parameter_store_set(network->current.parameters, parameter, shape, wide));
out:
    memory_free(rows);
    memory_free(wide);
    return status;
}

static grail_status append_merged_node(calibration_network *network, const site *s,
                                       const site_end *end, const grail_reducer *reducer)
{
    int parameters[NODE_MAX_PARAMETERS];
    const int count = node_parameters(&network->request->graph->nodes[end->node], parameters);
    for (int i = 0; i < count; i++) {
        CHECK(append_merged(network, s, end, parameters[i], reducer));
    }
    return GRAIL_OK;
}

grail_status site_append_merged(calibration_network *network, int index)
{
    const site *s = site_at(network->request, index);
    const grail_reducer *reducer = network->results[index].reducer;
    for (int p = 0; p < s->producer_count; p++) {
        CHECK(append_merged_node(network, s, &s->producers[p], reducer));
    }
    for (int k = 0; k < s->channel_count; k++) {
        CHECK(append_merged_node(network, s, &s->channels[k], reducer));
    }
    return GRAIL_OK;
}

/* -- narrow shapes --------------------------------------------------------------------------------
 */

void axis_reduced_features(const calibration_network *network, const cut_axis *axis, int64_t *out)
{
    const grail_reducer *reducer = network->results[axis->site].reducer;
    if (!site_is_remade(&network->request->plan, axis->site)) {
        reducer_kept_features(reducer, axis->features, out);
        return;
    }
    for (int64_t k = 0; k < reducer->kept * axis->features; k++) {
        out[k] = reducer->units * axis->features + k;
    }
}

/* What stays of an axis. */
typedef struct kept_features {
    int64_t count;
    int64_t *features; /* [count], owned; NULL: all */
} kept_features;

static grail_status find_kept(const calibration_network *network, const cut_axis *axis,
                              kept_features *out)
{
    *out = (kept_features){.count = network->results[axis->site].reducer->kept * axis->features};
    CHECK(memory_new_unset(&out->features, (size_t)out->count, sizeof out->features[0]));
    axis_reduced_features(network, axis, out->features);
    return GRAIL_OK;
}

/* Which of an axis's `size` features stay: all where it is narrow already, or not cut by this site.
 */
static grail_status kept_of_axis(const calibration_network *network, const cut_axis *axis,
                                 int index, int64_t size, kept_features *out)
{
    const bool is_cut = axis->site != GRAPH_NONE && (index == GRAPH_NONE || axis->site == index);
    const bool is_wide =
        is_cut && size != network->request->plan.sites[axis->site].kept * axis->features;
    *out = (kept_features){.count = size};
    return is_wide ? find_kept(network, axis, out) : GRAIL_OK;
}

/* narrow[rows, columns] = wide[kept rows, kept columns] */
static void take(const kept_features *rows, const kept_features *columns, int64_t wide_columns,
                 const float *wide, float *narrow)
{
    for (int64_t r = 0; r < rows->count; r++) {
        const float *from = wide + (rows->features == NULL ? r : rows->features[r]) * wide_columns;
        for (int64_t c = 0; c < columns->count; c++) {
            narrow[r * columns->count + c] =
                from[columns->features == NULL ? c : columns->features[c]];
        }
    }
}

/* A parameter of the current network with the axes cut by `site` in the narrow form, or with all
 * its cut axes for GRAPH_NONE: its shape and, in f32, its values. *out is owned; NULL where these
 * axes are narrow already. */
static grail_status narrow_values(const calibration_network *network, int parameter, int index,
                                  int64_t shape[PARAMETER_MAX_RANK], float **out)
{
    grail_status status = GRAIL_OK;
    const parameter_cut *cut = &network->request->cuts[parameter];
    parameter_store *store = network->current.parameters;
    const parameter_entry *entry = NULL;
    kept_features rows = {0};
    kept_features columns = {0};
    float *wide = NULL;
    int64_t count = 0;
    TRY(parameter_store_get(store, parameter, &entry));
    memcpy(shape, entry->shape, sizeof entry->shape);
    const int64_t width = matrix_count(entry->values) / shape[0];
    TRY(kept_of_axis(network, &cut->rows, index, shape[0], &rows));
    TRY(kept_of_axis(network, &cut->columns, index, width, &columns));
    if (rows.features != NULL || columns.features != NULL) {
        TRY(parameter_store_read_f32(store, parameter, &wide, &count));
        TRY(memory_new_unset(out, (size_t)(rows.count * columns.count), sizeof **out));
        take(&rows, &columns, width, wide, *out);
        shape[0] = rows.count;
        shape[1] = shape[1] * columns.count / width;
    }
out:
    memory_free(wide);
    memory_free(rows.features);
    memory_free(columns.features);
    return status;
}

/* Narrows what a site cuts in a parameter of the current network. */
static grail_status narrow_own(calibration_network *network, int parameter, int index)
{
    grail_status status = GRAIL_OK;
    int64_t shape[PARAMETER_MAX_RANK];
    float *narrow = NULL;
    TRY(narrow_values(network, parameter, index, shape, &narrow));
    if (narrow != NULL) {
        TRY(parameter_store_set(network->current.parameters, parameter, shape, narrow));
    }
out:
    memory_free(narrow);
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
    for (int p = 0; p < network->request->graph->parameter_count; p++) {
        const parameter_cut *cut = &network->request->cuts[p];
        const bool is_cut = cut->rows.site == index || cut->columns.site == index;
        if (is_cut && is_wanted(network, p)) {
            CHECK(narrow_own(network, p, index));
        }
    }
    return GRAIL_OK;
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
    kept_features kept = {0};
    if (position > s->producers[0].node && position < last->node) {
        TRY(pass_to(network, last->node, GRAPH_NONE));
    }
    TRY(find_kept(network, &axis, &kept));
    TRY(sample_stream_gather(&network->current.stream,
                             network->request->graph->nodes[last->node].inputs[0], kept.count,
                             kept.features));
out:
    memory_free(kept.features);
    return status;
}

grail_status site_take_narrow_shape(calibration_network *network, int index)
{
    if (!site_narrows_in_walk(network->request, index)) {
        return GRAIL_OK;
    }
    if (site_at(network->request, index)->consumer_count > 0) {
        CHECK(narrow_held_input(network, index));
    }
    return narrow_parameters(network, index);
}

grail_status sites_take_narrow_shapes(calibration_network *network)
{
    for (int i = 0; i < network->request->plan.count; i++) {
        if (site_is_cut(&network->request->plan, i)) {
            CHECK(narrow_parameters(network, i));
        }
    }
    return GRAIL_OK;
}

/* -- the narrow parameters ------------------------------------------------------------------------
 */

bool parameter_is_changed(const calibration_network *network, int parameter)
{
    const parameter_cut *cut = &network->request->cuts[parameter];
    return matrix_exists(network->current.parameters->entries[parameter].values) ||
           parameter_store_is_moved(network->dense.parameters, parameter) ||
           cut->rows.site != GRAPH_NONE || cut->columns.site != GRAPH_NONE;
}

grail_status narrow_parameter(const calibration_network *network, int parameter, float **out)
{
    int64_t shape[PARAMETER_MAX_RANK];
    int64_t count = 0;
    CHECK(narrow_values(network, parameter, GRAPH_NONE, shape, out));
    return *out != NULL
               ? GRAIL_OK
               : parameter_store_read_f32(network->current.parameters, parameter, out, &count);
}

grail_status narrow_store(const calibration_network *network, parameter_store **out)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    float *values = NULL;
    TRY(parameter_store_create(request->model, request->backend, network->dense.parameters, out));
    (*out)->written = request_written_dtypes(request);
    for (int p = 0; p < request->graph->parameter_count; p++) {
        const bool gone = graph_parameter_is_gone(&request->narrowed.graph->parameters[p]);
        if (!gone && parameter_is_changed(network, p)) {
            TRY(narrow_parameter(network, p, &values));
            TRY(parameter_store_set(*out, p, request->narrowed.graph->parameters[p].shape, values));
            memory_free(values);
            values = NULL;
        }
    }
out:
    memory_free(values);
    return status;
}

/* -- dropped sublayers ----------------------------------------------------------------------------
 */

grail_status silence_block(calibration_network *network, int block)
{
    const compression_request *request = network->request;
    for (int i = 0; i < request->plan.count; i++) {
        if (site_is_dropped(&request->plan, i) && site_at(request, i)->block == block) {
            const node *n = &request->graph->nodes[site_at(request, i)->consumers[0].node];
            CHECK(parameter_store_set_zero(network->current.parameters, n->weight));
            CHECK(parameter_store_set_zero(network->current.parameters, n->bias));
        }
    }
    return GRAIL_OK;
}

grail_status silence_dropped(calibration_network *network)
{
    for (int block = 0; block < network->request->graph->block_count; block++) {
        CHECK(silence_block(network, block));
    }
    return GRAIL_OK;
}
