#include "pipeline/network/keeping.h"

#include "base/machine_memory.h"

/* The number of elements per sample of the widest input of a site's consumers. */
static double widest_input(const compression_request *request, int index, const extent *extents)
{
    const site *s = site_at(request, index);
    double widest = 0.0;
    for (int k = 0; k < s->consumer_count; k++) {
        const extent *x = &extents[request->graph->nodes[s->consumers[k].node].inputs[0]];
        const int64_t features =
            site_wide_units(&request->plan, index) * s->consumers[k].features_per_unit;
        const double elements = (double)features * (double)x->height * (double)x->width;
        widest = elements > widest ? elements : widest;
    }
    return widest;
}

/* Bytes of the widest input of a consumer, for all samples. */
static grail_status kept_bytes(const compression_request *request, double *out)
{
    grail_status status = GRAIL_OK;
    extent *extents = NULL;
    double widest = 0.0;
    const calibration *samples = request->samples;
    TRY(memory_new(&extents, (size_t)request->graph->value_count, sizeof extents[0]));
    TRY(graph_extents(request->graph, samples->positions, extents));
    for (int i = 0; i < request->plan.count; i++) {
        const double elements =
            site_is_cut(&request->plan, i) ? widest_input(request, i, extents) : 0.0;
        widest = elements > widest ? elements : widest;
    }
    *out = widest * (double)samples->count * (double)backend_value_size(request->backend);
out:
    memory_free(extents);
    return status;
}

bool bytes_fit(double bytes, int64_t memory)
{
    return bytes <= (memory > 0 ? (double)memory
                                : 0.5 * (double)machine_memory_read("").available); /* unknown: 0 */
}

grail_status activations_fit(const compression_request *request, int64_t memory, bool *out)
{
    double wanted = 0.0;
    if (request->samples->count > 0) {
        CHECK(kept_bytes(request, &wanted));
    }
    *out = bytes_fit(wanted, memory);
    return GRAIL_OK;
}
