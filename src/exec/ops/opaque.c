#include "exec/ops/operator_code.h"

#include <math.h>
#include <string.h>

/* out[count] <- integers of the network that the ids of the batch are made of. */
static grail_status unpack_ids(const node_run *r, const graph_input *input, int64_t count,
                               float *out)
{
    if (r->ids == NULL) {
        return error_set(GRAIL_ERROR_INTERNAL, "'%s' was run without token ids",
                         region_name(r->node->region));
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = input->divisor == 0 ? 1.0F : (float)(r->ids[i] / input->divisor % input->rows);
    }
    return GRAIL_OK;
}

/* The same of those that samples hold as values. */
static grail_status take_values(const graph_input *input, matrix x, int64_t count, float *out)
{
    grail_status status = GRAIL_OK;
    host_view view = {.of = no_matrix};
    int64_t least = 0;
    int64_t most = 0;
    graph_integer_range(input, &least, &most);
    TRY(host_view_open(x, GRAIL_DTYPE_F32, HOST_READS, &view));
    memcpy(out, view.values, (size_t)count * sizeof out[0]);
    for (int64_t i = 0; i < count && input->are_integers; i++) {
        if (!(out[i] >= (float)least && out[i] <= (float)most) || out[i] != floorf(out[i])) {
            FAIL(GRAIL_ERROR_ARGUMENT,
                 "a sample has %g for the input '%s', expected integers from %lld to %lld",
                 (double)out[i], input->name, (long long)least, (long long)most);
        }
    }
out:
    host_view_drop(&view);
    return status;
}

/* *out <- what input i of the region, an input of the network, has in a batch, in the type that the
 * file declares; owned. */
static grail_status take_given(const node_run *r, int i, const char *name, int element, void **out)
{
    grail_status status = GRAIL_OK;
    const graph_input *input = r->store->model->graph->inputs;
    const size_t bytes = region_element_bytes(element);
    unsigned char *values = NULL;
    float *reals = NULL;
    while (strcmp(input->name, name) != 0) {
        input++;
    }
    const bool is_value = input->channels > 0;
    const int64_t count = is_value ? r->x[i].rows * r->x[i].columns
                                   : r->samples * r->each[i].height * r->each[i].width;
    TRY(memory_new_unset(&reals, (size_t)count, sizeof reals[0]));
    TRY(is_value ? take_values(input, r->x[i], count, reals) : unpack_ids(r, input, count, reals));
    TRY(memory_new(&values, (size_t)count, bytes));
    for (int64_t k = 0; k < count; k++) {
        const int64_t whole = element == ONNX_FLOAT ? 0 : (int64_t)reals[k];
        memcpy(values + (size_t)k * bytes,
               element == ONNX_FLOAT ? (const void *)&reals[k] : (const void *)&whole, bytes);
    }
    *out = values;
    values = NULL;
out:
    memory_free(values);
    memory_free(reals);
    return status;
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
            TRY(take_given(r, i, name, element, &owned[i]));
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
