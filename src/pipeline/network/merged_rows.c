#include "pipeline/network/merged_rows.h"

#include <string.h>

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
