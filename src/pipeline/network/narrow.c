#include "pipeline/network/narrow.h"

#include "pipeline/network/narrow_site.h"

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
