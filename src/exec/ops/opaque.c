#include "exec/ops/operator_code.h"

#include <string.h>

/* *out <- integers of the network that the ids of the batch are made of; owned. */
static grail_status unpack_ids(const node_run *r, extent positions, const char *name, int element,
                               void **out)
{
    const graph *g = r->store->model->graph;
    const graph_input *input = g->inputs;
    const size_t bytes = region_element_bytes(element);
    unsigned char *values = NULL;
    while (strcmp(input->name, name) != 0) {
        input++;
    }
    const int64_t count = r->samples * positions.height * positions.width;
    if (r->ids == NULL) {
        return error_set(GRAIL_ERROR_INTERNAL, "'%s' was run without token ids",
                         region_name(r->node->region));
    }
    CHECK(memory_new(&values, (size_t)count, bytes));
    for (int64_t i = 0; i < count; i++) {
        const int64_t value = input->divisor == 0 ? 1 : r->ids[i] / input->divisor % input->rows;
        const float real = (float)value;
        memcpy(values + (size_t)i * bytes,
               element == ONNX_FLOAT ? (const void *)&real : (const void *)&value, bytes);
    }
    *out = values;
    return GRAIL_OK;
}

static grail_status run_opaque(const node_run *r)
{
    grail_status status = GRAIL_OK;
    host_view views[NODE_MAX_INPUTS] = {{.of = no_matrix}};
    host_view made = {0};
    const void *inputs[NODE_MAX_INPUTS + 1] = {NULL};
    void *owned[NODE_MAX_INPUTS] = {NULL};
    region_positions at[NODE_MAX_INPUTS + 1];
    at[r->node->input_count] = (region_positions){r->image.height, r->image.width};
    for (int i = 0; i < r->node->input_count; i++) {
        int element = 0;
        const char *name = region_ids_name(r->node->region, i, &element);
        at[i] = (region_positions){r->each[i].height, r->each[i].width};
        if (name != NULL) {
            TRY(unpack_ids(r, r->each[i], name, element, &owned[i]));
            inputs[i] = owned[i];
            continue;
        }
        TRY(host_view_open(r->x[i], GRAIL_DTYPE_F32, HOST_READS, &views[i]));
        inputs[i] = views[i].values;
    }
    TRY(host_view_open(r->y, GRAIL_DTYPE_F32, HOST_WRITES, &made));
    TRY(region_run(r->node->region, r->samples, at, inputs,
                   (region_positions){r->out.height, r->out.width}, made.values));
    TRY(host_view_close(&made));
out:
    host_view_drop(&made);
    for (int i = 0; i < NODE_MAX_INPUTS; i++) {
        host_view_drop(&views[i]);
        memory_free(owned[i]);
    }
    return status;
}

static grail_status back_opaque(node_back *b)
{
    return error_set(GRAIL_ERROR_UNSUPPORTED,
                     "no gradient goes through %s, which ONNX Runtime computes",
                     region_name(b->run.node->region));
}

const operator_code operator_opaque = {run_opaque, back_opaque};
