#include "pipeline/network/round_maps.h"

#include "pipeline/network/rounding.h"
#include "tensor/groups.h"
#include "tensor/quantize.h"

#include <string.h>

bool node_is_rounded(const compression_request *request, int node_index)
{
    const int weight = request->graph->nodes[node_index].weight;
    return weight != GRAPH_NONE && parameter_is_rounded(&request->rounded, weight);
}

/* Readers compute elements in the dtype in which scales are stored. */
static void settle_heads(unsigned char *blocks, size_t bytes, size_t block, grail_dtype stored)
{
    for (size_t at = 0; at < bytes; at += block) {
        group_put_head(blocks + at, group_scale(blocks + at), stored);
    }
}

/* Without feedback where f is NULL. */
static grail_status round_matrix(calibration_network *network, int parameter, const feedback *f)
{
    grail_status status = GRAIL_OK;
    const compression_request *request = network->request;
    const grail_dtype dtype = rounded_dtype(&request->rounded, parameter);
    const parameter_entry *entry = NULL;
    int64_t shape[PARAMETER_MAX_RANK] = {0};
    float *values = NULL;
    unsigned char *blocks = NULL;
    int64_t elements = 0;
    size_t bytes = 0;
    size_t block = 0;
    TRY(parameter_store_get(network->current.parameters, parameter, &entry));
    memcpy(shape, entry->shape, sizeof shape);
    TRY(parameter_store_read_f32(network->current.parameters, parameter, &values, &elements));
    if (!dtype_bytes(dtype, elements, &bytes) || !dtype_bytes(dtype, dtype_block(dtype), &block)) {
        FAIL(GRAIL_ERROR_SHAPE, "%lld elements do not fill blocks of %s", (long long)elements,
             grail_dtype_name(dtype));
    }
    TRY(memory_new_unset(&blocks, bytes, 1));
    if (f == NULL) {
        TRY(blocks_from_f32(dtype, values, elements / dtype_block(dtype), blocks));
        blocks_to_f32(dtype, blocks, elements / dtype_block(dtype), values);
    } else {
        TRY(feedback_round(f, dtype, shape[0], values, blocks));
    }
    if (group_bits(dtype) > 0) {
        settle_heads(blocks, bytes, block, request->model->tensors[parameter]->dtype);
    }
    TRY(parameter_store_set(network->current.parameters, parameter, shape, values));
    memory_free(network->rounded[parameter]);
    network->rounded[parameter] = blocks;
    blocks = NULL;
out:
    memory_free(blocks);
    memory_free(values);
    return error_in(status, "'%s'", request->graph->parameters[parameter].name);
}

grail_status round_table(calibration_network *network, int parameter)
{
    return round_matrix(network, parameter, NULL);
}

grail_status round_maps(calibration_network *network, int first, int count)
{
    grail_status status = GRAIL_OK;
    feedback f = {0};
    TRY(rounding_feedback(network, first, &f));
    for (int n = first; n < first + count; n++) {
        if (node_is_rounded(network->request, n)) {
            TRY(round_matrix(network, network->request->graph->nodes[n].weight, &f));
        }
    }
out:
    feedback_fini(&f);
    return status;
}
