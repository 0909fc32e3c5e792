#include "exec/ops/operator_code.h"

static grail_status run_opaque(const node_run *r)
{
    grail_status status = GRAIL_OK;
    host_view views[NODE_MAX_INPUTS] = {{.of = no_matrix}};
    host_view made = {0};
    const float *inputs[NODE_MAX_INPUTS + 1] = {NULL};
    region_positions at[NODE_MAX_INPUTS + 1];
    at[r->node->input_count] = (region_positions){r->image.height, r->image.width};
    for (int i = 0; i < r->node->input_count; i++) {
        at[i] = (region_positions){r->each[i].height, r->each[i].width};
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
